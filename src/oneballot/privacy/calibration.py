"""Calibration: from privacy settings and what a method releases to a guarantee, before training.

A budget determines the noise scale; a budget and a noise scale determine the number of queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..errors import ElectionError
from ..types import Numbers, Spending, Votes
from . import mechanisms
from .accounting import Accountant, Releases, check_accountant, check_delta, total_epsilon
from .forecast import LEAD, error_when_ahead
from .guarantee import Guarantee, LabelGuarantee, VotesGuarantee
from .mechanisms import AUTO, DEFAULT, MAX_INTEGER_SCALE, NoisyNumbers, check_scale, round_up
from .releases import is_one_sided, reach_of
from .sensitivity import of_a_unit, squared_shift
from .settings import PrivacySettings

NUMBERS_SHARE = 0.1
"""The share of the budget for numbers that are released beside votes and whose noise the election doesn't state."""
MAX_LOG_SCALE = 30.0


@lru_cache(maxsize=64)
def calibrate(privacy: PrivacySettings, spending: Spending, stable_ids: bool) -> Guarantee:
    """The guarantee of these settings. Its queries may be fewer than the method asked for."""
    numbers = None if spending.numbers is None else of_a_unit(spending.numbers, privacy, stable_ids)
    if privacy.counts_sigma is not None and (spending.votes is None or numbers is None):
        raise ElectionError("counts_sigma is noise on class counts, but this method releases none here; leave it out")
    if spending.votes is not None:
        return _calibrate_votes(privacy, spending.votes, numbers, stable_ids)
    if numbers is None:
        raise ElectionError("the method does not declare what it releases at this level")
    release = noise_on_numbers(numbers, privacy)
    common: dict[str, Any] = {
        "privacy": privacy, "level": privacy.level, "stable_ids": stable_ids,
        "numbers": release, "numbers_name": numbers.what,
    }  # fmt: skip
    if not numbers.lift:
        return Guarantee(**common, row=numbers.row, spread=numbers.spread)
    scale = release.sigma / numbers.lift
    return LabelGuarantee(**common, labels=numbers.classes, subsets=numbers.voters, vote_noise=(release.name, scale))


def _calibrate_votes(
    privacy: PrivacySettings, votes: Votes, numbers: Numbers | None, stable_ids: bool
) -> VotesGuarantee:
    level: Any = privacy.level
    reach = reach_of(level, privacy.adjacency, partitions=votes.partitions, stable_ids=stable_ids)
    noisy_numbers = None if numbers is None else _noise_beside_votes(numbers, privacy)

    def guarantee_at(mechanism: str, scale: float, queries: int) -> VotesGuarantee:
        asked = replace(votes, queries=queries)
        what = numbers.what if numbers else ""
        return votes_guarantee(privacy, asked, reach, mechanism, scale, noisy_numbers, what, stable_ids=stable_ids)

    mechanism, scale, queries = fit_noise(privacy, votes, lambda *noise: guarantee_at(*noise).releases())
    guarantee = guarantee_at(mechanism, round_up(scale), queries)
    if guarantee.test is not None and privacy.threshold is not None:
        guarantee.test.check(privacy.threshold, votes.unit)
        if level == "L2" and privacy.threshold > votes.subsets:
            raise ElectionError(
                f"threshold = {privacy.threshold:g} votes, but a party has {votes.subsets} teachers: only noise would "
                "pass the test. Lower the threshold or raise subsets"
            )
    return guarantee


def votes_guarantee(
    privacy: PrivacySettings,
    votes: Votes,
    reach: int,
    mechanism: str,
    scale: float,
    numbers: NoisyNumbers | None = None,
    numbers_name: str = "",
    *,
    stable_ids: bool = False,
) -> VotesGuarantee:
    """The guarantee of votes with this noise, and of numbers beside them."""
    level: Any = privacy.level
    one_sided = is_one_sided(level, privacy.adjacency)
    query, test = mechanisms.find(mechanism).plan(privacy, votes, scale, reach, one_sided)
    # At L1 counts are multiplied by the number of partitions.
    vote_noise = (query.name, scale / votes.partitions if level == "L1" else scale)
    return VotesGuarantee(
        privacy=privacy, level=level, query=query, queries=votes.queries, partitions=votes.partitions, test=test,
        labels=votes.classes, subsets=votes.subsets, vote_noise=vote_noise, numbers=numbers, numbers_name=numbers_name,
        stable_ids=stable_ids,
    )  # fmt: skip


def fit_noise(
    privacy: PrivacySettings, votes: Votes, releases: Callable[[str, float, int], Releases]
) -> tuple[str, float, int]:
    """The mechanism, its scale and the queries: a budget alone determines the noise, with stated noise the queries."""
    stated, budget, queries = privacy.stated_noise(), privacy.epsilon, votes.queries
    delta, accountant = privacy.delta, privacy.accountant
    # A later tally may depend on the outcome of an earlier one: the ledger composes them in the same way.
    adaptive = privacy.tallies > 1 or (privacy.chosen is not None and privacy.chosen.adaptive)
    if stated is not None:
        mechanism, scale = stated
        check_scale(scale, votes.unit)
        if budget is not None:
            queries = queries_within(
                budget, lambda q: releases(mechanism, scale, q), delta, accountant, most=queries, adaptive=adaptive
            )
        return mechanism, scale, queries
    assert budget is not None, "settings have a budget or a noise scale"
    if privacy.chosen is None:
        mechanism, scale = best_mechanism(
            budget, lambda m, s: releases(m, s, queries), votes.classes, delta, accountant, adaptive=adaptive
        )
    else:
        mechanism = privacy.mechanism
        scale = scale_within(budget, lambda s: releases(mechanism, s, queries), delta, accountant, adaptive=adaptive)
    check_scale(scale, votes.unit)
    return mechanism, scale, queries


def _noise_beside_votes(numbers: Numbers, privacy: PrivacySettings) -> NoisyNumbers:
    """The noise that the election states, or that a share of its budget allows."""
    if privacy.counts_sigma is None and privacy.epsilon is None:
        raise ElectionError(f"{numbers.what} are released: give counts_sigma, the scale of their noise")
    budget = None if privacy.epsilon is None else NUMBERS_SHARE * privacy.epsilon
    return _integer_noise(numbers, privacy, privacy.counts_sigma, budget)


def noise_on_numbers(numbers: Numbers, privacy: PrivacySettings, draws: int | None = None) -> NoisyNumbers:
    """The noise of numbers that are the only release; `sigma` is in multiples of what one unit can change.

    draws: how many draws the budget covers; by default those of the settings."""
    kind = privacy.chosen.numbers if privacy.chosen else NoisyNumbers
    given = privacy.noise_parameters()
    if kind is None or not given.keys() <= {kind.parameter}:
        leave = f', and leave out mechanism = "{privacy.mechanism}"' if kind is None else ""
        raise ElectionError(f"{numbers.what} are released with Gaussian noise: give only epsilon or sigma{leave}")
    check_accountant(privacy.accountant, kind)
    if privacy.epsilon is not None and given:
        raise ElectionError(
            f"give epsilon or {kind.parameter}, not both: {numbers.what} are released once, in a single query"
        )
    distance = math.sqrt(squared_shift(numbers, privacy))
    sigma = given[kind.parameter] * distance if given else None
    return _integer_noise(numbers, privacy, sigma, privacy.epsilon, kind, draws)


def _integer_noise(
    numbers: Numbers,
    privacy: PrivacySettings,
    sigma: float | None,
    budget: float | None,
    kind: type[NoisyNumbers] = NoisyNumbers,
    draws: int | None = None,
) -> NoisyNumbers:
    """Noise of this standard deviation, or else within this budget."""
    shift = squared_shift(numbers, privacy)
    distance = math.sqrt(shift)
    if sigma is None:
        assert budget is not None, "settings have a budget or a noise scale"
        sigma = distance * scale_within(
            budget, lambda s: [(kind(s * distance, shift, whole=True), draws or privacy.draws)], privacy.delta
        )
    if sigma > MAX_INTEGER_SCALE:
        raise ElectionError(
            f"the noise on {numbers.what} would have a standard deviation of {sigma:.3g}, above the limit of "
            f"{MAX_INTEGER_SCALE:.3g}: raise epsilon or lower the noise scale"
        )
    return kind(round_up(max(1.0, sigma)), shift, whole=True)


def best_mechanism(
    budget: float,
    releases_at: Callable[[str, float], Releases],
    classes: int,
    delta: float,
    accountant: Accountant = "tight",
    *,
    adaptive: bool = False,
) -> tuple[str, float]:
    """The mechanism, with its scale, that errs least within the budget when one class leads by 4b, b being Gumbel's.

    Gumbel wins for few classes and moderate margins, Gaussian for many classes, and for two, where the exact cost of
    the gap is known. Laplace never wins, but it is the only one that the papers' accountants cover.
    """

    def scale_of(mechanism: str) -> float:
        return scale_within(budget, lambda s: releases_at(mechanism, s), delta, accountant, adaptive=adaptive)

    covered = [mechanism for mechanism in AUTO if accountant in mechanisms.find(mechanism).accountants]
    scales = {mechanism: scale_of(mechanism) for mechanism in covered}
    lead = LEAD * scales.get(DEFAULT, max(scales.values()))
    best = min(scales, key=lambda mechanism: error_when_ahead(lead, mechanism, scales[mechanism], classes))
    return best, scales[best]


def scale_within(
    budget: float,
    releases_at: Callable[[float], Releases],
    delta: float,
    accountant: Accountant = "tight",
    *,
    adaptive: bool = False,
) -> float:
    """The smallest noise scale at which the releases stay within the budget."""
    from scipy.optimize import brentq

    check_budget(budget, delta)

    def excess(log_scale: float) -> float:
        return total_epsilon(releases_at(math.exp(log_scale)), delta, accountant, adaptive=adaptive) - budget

    high = 0.0
    while excess(high) > 0:
        high += 2
        if high > MAX_LOG_SCALE:
            raise ElectionError(
                f"no noise scale meets epsilon {budget:g} at delta {delta:g}: raise one of them, use fewer queries, or "
                "add noise to the other releases"
            )
    low = high - 2
    while excess(low) <= 0:
        low, high = low - 2, low
        if low < -MAX_LOG_SCALE:
            return math.exp(high)
    log_scale, nudge = float(brentq(excess, low, high, xtol=1e-9)), 1e-9
    while excess(log_scale) > 0:
        log_scale, nudge = log_scale + nudge, 2 * nudge
    return math.exp(log_scale)


def queries_within(
    budget: float,
    releases_for: Callable[[int], Releases],
    delta: float,
    accountant: Accountant = "tight",
    *,
    most: int = 10**7,
    adaptive: bool = False,
) -> int:
    """The largest number of queries, up to `most`, whose releases stay within the budget."""
    check_budget(budget, delta)

    def cost(queries: int) -> float:
        return total_epsilon(releases_for(queries), delta, accountant, adaptive=adaptive)

    if (first := cost(1)) > budget:
        raise ElectionError(
            f"a single query costs epsilon {first:.4g}, more than {budget:g}: add noise or raise epsilon"
        )
    low, high = 1, 2
    while high <= most and cost(high) <= budget:
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return low


def check_budget(budget: float, delta: float) -> None:
    check_delta(delta)
    if not (math.isfinite(budget) and budget > 0):
        raise ElectionError(f"epsilon must be a number above 0, not {budget}")
