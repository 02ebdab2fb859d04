"""From privacy, and what a method says that it releases, to a promise: before anybody trains."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..errors import ElectionError
from ..types import Numbers, Spending, Votes
from .budget import queries_within, scale_within
from .forecast import best_mechanism
from .guarantee import Guarantee, LogitsGuarantee, VotesGuarantee
from .mechanisms import LARGEST_WHOLE_SCALE, check_scale, check_test, round_up
from .releases import Mechanism, NoisyArgmax, NoisyNumbers, Release, comes_or_goes, reach_of
from .settings import PrivacySettings

SHARE_OF_NUMBERS = 0.1
"""Of the budget, for numbers that are released beside votes and whose noise the election leaves open."""


@lru_cache(maxsize=64)
def calibrate(privacy: PrivacySettings, spending: Spending, stable_ids: bool) -> Guarantee:
    """The promise of these privacy; its queries may be fewer than the method asked for."""
    if privacy.counts_sigma is not None and (spending.votes is None or spending.numbers is None):
        raise ElectionError("counts_sigma is noise on class counts, and this method releases none here; leave it out")
    if spending.votes is not None:
        return _settle_votes(privacy, spending.votes, spending.numbers, stable_ids)
    if spending.numbers is None:
        raise ElectionError("the method does not say what it releases at this level")
    told = spending.numbers
    if told.dealt and not stable_ids:
        told = replace(told, replaced=4 * told.replaced)
    release = _all_for(told, privacy)
    if not told.lift:
        return Guarantee(privacy=privacy, level=_level(privacy), numbers=release, numbers_name=told.what, row=told.row)
    return LogitsGuarantee(
        privacy=privacy, level=_level(privacy), numbers=release, numbers_name=told.what,
        classes=told.classes, subsets=told.voters, scale=release.sigma / told.lift,
    )  # fmt: skip


def _settle_votes(privacy: PrivacySettings, votes: Votes, numbers: Numbers | None, stable_ids: bool) -> VotesGuarantee:
    level = _level(privacy)
    one_sided = comes_or_goes(level, privacy.adjacency)
    reach = reach_of(level, privacy.adjacency, partitions=votes.partitions, stable_ids=stable_ids)
    besides: dict[str, Any] = {"numbers": _share_for(numbers, privacy), "numbers_name": numbers.what} if numbers else {}

    def at(mechanism: Mechanism, scale: float, queries: int) -> VotesGuarantee:
        query = NoisyArgmax(mechanism, scale, votes.classes, reach, one_sided, votes.unit > 1)
        test = None
        if privacy.mechanism == "confident":
            assert privacy.answers is not None
            sigma = privacy.test_sigma or scale * math.sqrt(max(1.0, queries / privacy.answers))
            test = NoisyNumbers(round_up(sigma), (reach if one_sided else reach / 2) ** 2)
        return VotesGuarantee(
            privacy=privacy, level=level, query=query, queries=queries, partitions=votes.partitions,
            subsets=votes.subsets, test=test, **besides,
        )  # fmt: skip

    def releases(guarantee: Guarantee) -> list[tuple[Release, int]]:
        often = privacy.tallies * privacy.max_silos_per_person
        return [(release, times * often) for _, release, times in guarantee.lines()]

    adaptive = privacy.mechanism == "confident"
    stated, queries = privacy.stated_noise(), votes.queries
    if stated is None:
        assert privacy.epsilon is not None, "privacy were checked: a budget or the noise"
        if privacy.mechanism == "auto" and privacy.accountant in ("tight", "rdp"):
            kind, scale = best_mechanism(privacy.epsilon, lambda m, s: releases(at(m, s, queries)), votes.classes,
                                         privacy.delta, privacy.accountant)  # fmt: skip
        else:
            only: dict[str, Mechanism] = {"confident": "gaussian", "auto": "laplace"}  # all that `paper` knows
            kind = only.get(privacy.mechanism, privacy.mechanism)  # type: ignore[arg-type]
            scale = scale_within(privacy.epsilon, lambda s: releases(at(kind, s, queries)), privacy.delta,
                                 privacy.accountant, adaptive=adaptive)  # fmt: skip
    else:
        kind, scale = stated
        if privacy.epsilon is not None:
            queries = queries_within(privacy.epsilon, lambda q: releases(at(kind, scale, q)), privacy.delta,
                                     privacy.accountant, most=queries, adaptive=adaptive)  # fmt: skip
    check_scale(scale, votes.unit)
    guarantee = at(kind, round_up(scale), queries)
    if guarantee.test is not None and privacy.threshold is not None:
        check_test(guarantee.test.sigma, privacy.threshold, votes.unit)
        if level == "L2" and privacy.threshold > votes.subsets:
            raise ElectionError(
                f"threshold = {privacy.threshold:g} votes, and a party has {votes.subsets} teachers: only noise passes"
            )
    return guarantee


def _level(privacy: PrivacySettings) -> Any:
    return privacy.level


def _squared_shift(numbers: Numbers, privacy: PrivacySettings) -> float:
    return float(numbers.replaced if privacy.adjacency == "replace" else numbers.comes_or_goes)


def _share_for(numbers: Numbers, privacy: PrivacySettings) -> NoisyNumbers:
    """The noise of numbers beside votes: as the election says, or for a share of its budget."""
    sigma = privacy.counts_sigma
    if sigma is None:
        if privacy.epsilon is None:
            raise ElectionError(f"{numbers.what} are released: give counts_sigma, the deviation of their noise")
        sigma = _within(SHARE_OF_NUMBERS * privacy.epsilon, numbers, privacy)
    return _whole(sigma, numbers, privacy)


def _all_for(numbers: Numbers, privacy: PrivacySettings) -> NoisyNumbers:
    """The noise of numbers that are all that is released; `sigma` is in multiples of what one unit can change."""
    if privacy.mechanism not in ("auto", "gaussian") or privacy.gamma is not None or privacy.scale is not None:
        raise ElectionError(
            f"{numbers.what} are released with Gaussian noise: give epsilon, or sigma, and nothing else"
        )
    if privacy.accountant not in ("tight", "rdp"):
        raise ElectionError(f"the accountant {privacy.accountant!r} knows Laplace noise only; use tight or rdp")
    if privacy.epsilon is not None and privacy.sigma is not None:
        raise ElectionError(
            f"epsilon or sigma: {numbers.what} are released once, so that there is nothing else to find"
        )
    if privacy.sigma is not None:
        return _whole(privacy.sigma * math.sqrt(_squared_shift(numbers, privacy)), numbers, privacy)
    assert privacy.epsilon is not None, "privacy were checked: a budget or the noise"
    return _whole(_within(privacy.epsilon, numbers, privacy), numbers, privacy)


def _within(budget: float, numbers: Numbers, privacy: PrivacySettings) -> float:
    shift, often = _squared_shift(numbers, privacy), privacy.tallies * privacy.max_silos_per_person

    def releases(multiple: float) -> list[tuple[Release, int]]:
        return [(NoisyNumbers(multiple * math.sqrt(shift), shift, whole=True), often)]

    return scale_within(budget, releases, privacy.delta) * math.sqrt(shift)


def _whole(sigma: float, numbers: Numbers, privacy: PrivacySettings) -> NoisyNumbers:
    if sigma > LARGEST_WHOLE_SCALE:
        raise ElectionError(
            f"noise of deviation {sigma:.3g} on {numbers.what} cannot be drawn, only up to {LARGEST_WHOLE_SCALE:.3g}: "
            "ask for a larger epsilon, or less noise"
        )
    return NoisyNumbers(round_up(max(1.0, sigma)), _squared_shift(numbers, privacy), whole=True)
