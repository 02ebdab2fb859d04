"""Mutants: broken code that the audit must refute. Each replaces a function or a value of the code that casts.

Two are left to the exact tests as well (tests/privacy/test_mutants.py has all of them): there they are found without
statistics, by comparing what two neighbours release.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import oneballot as ob
from oneballot import audit
from oneballot.methods.fedkd.softened import Softened
from oneballot.methods.fedkt.method import FedKT
from oneballot.party.context import PartyContext
from oneballot.privacy import calibration, guarantee
from oneballot.privacy.guarantee import VotesGuarantee
from oneballot.privacy.mechanisms import NoisyArgmax, NoisyNumbers, round_up
from oneballot.privacy.sampling import SeededEntropy

pytestmark = pytest.mark.slow

PUBLIC = np.random.default_rng(0).normal(size=(60, 3))
Change = Callable[[pytest.MonkeyPatch], None]
IDS: dict[str, Any] = {"stable_ids": True}
ROWS, PARTIES = ob.L2(4.0, **IDS), ob.L1(4.0)
TWICE = ob.FedKT(partitions=2)
SOFT = ob.FedKD(temperature=0)
NEAR = ob.Neighbours(neighbours=10)
COME_OR_GO = ob.L2(4.0, adjacency="add-remove", **IDS)
CURVE = ""
"""No finding without statistics: the test of the curve refutes it."""


def half_noise(patch: pytest.MonkeyPatch) -> None:
    for kind, scale in ((NoisyArgmax, "scale"), (NoisyNumbers, "sigma")):
        patch.setattr(kind, "draw", weaker(kind.draw, scale))


def weaker(honest: Any, scale: str) -> Any:
    least = 1.0 if scale == "sigma" else 0.0  # where the audit takes the noise away, it is at its least already

    def draw(self: Any, *given: Any, **more: Any) -> Any:
        return honest(replace(self, **{scale: max(least, round_up(getattr(self, scale) / 2))}), *given, **more)

    return draw


def doubled_in_the_context(patch: pytest.MonkeyPatch) -> None:
    decide, release = PartyContext.decide, PartyContext.release
    patch.setattr(PartyContext, "decide", lambda self, votes, **more: decide(self, 2 * votes, **more))
    patch.setattr(PartyContext, "release", lambda self, numbers, **more: release(self, 2 * numbers, **more))


def doubled_in_the_method(patch: pytest.MonkeyPatch) -> None:
    parts, labels = Softened.parts, FedKT._labels
    patch.setattr(Softened, "parts", lambda self, logits: 2 * parts(self, logits))

    def twice(self: Any, predictions: Any, ctx: Any) -> Any:
        return labels(self, np.concatenate([predictions, predictions], axis=1), ctx)

    patch.setattr(FedKT, "_labels", twice)


def halved_sensitivity(patch: pytest.MonkeyPatch) -> None:
    squared, reach = calibration.squared_shift, calibration.reach_of
    patch.setattr(calibration, "squared_shift", lambda *given: squared(*given) / 4)
    patch.setattr(calibration, "reach_of", lambda *given, **more: max(1, reach(*given, **more) // 2))


def reused_noise(patch: pytest.MonkeyPatch) -> None:
    """Every draw, in every partition, party and run, starts from the same random words."""
    patch.setattr(PartyContext, "_entropy", lambda self, cell: SeededEntropy(7))


def fixed_seed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartyContext, "_entropy", lambda self, cell: SeededEntropy(self.seed("noise", cell)))


def a_row_shares_noise(patch: pytest.MonkeyPatch) -> None:
    """Every public row gets the same noise: differences of rows have none."""
    honest = NoisyNumbers.draw

    def draw(self: Any, values: Any, entropy: Any) -> Any:
        return values + honest(self, np.zeros(values.shape[-1], np.int64), entropy)

    patch.setattr(NoisyNumbers, "draw", draw)


def half_repeats_half(patch: pytest.MonkeyPatch) -> None:
    honest = NoisyNumbers.draw

    def draw(self: Any, values: Any, entropy: Any) -> Any:
        noise = honest(self, np.zeros(-(-values.size // 2), np.int64), entropy)
        return values + np.tile(noise, 2)[: values.size].reshape(values.shape)

    patch.setattr(NoisyNumbers, "draw", draw)


def partitions_share_noise(patch: pytest.MonkeyPatch) -> None:
    """Each cast has a seed of its own, from which every partition draws."""
    made = WeakKeyDictionary[PartyContext, int]()

    def entropy(self: PartyContext, cell: str) -> SeededEntropy:
        return SeededEntropy(made.setdefault(self, int(np.random.default_rng().integers(2**60))))

    patch.setattr(PartyContext, "_entropy", entropy)


def shuffle_for_hash(patch: pytest.MonkeyPatch) -> None:
    def by_position(self: Any, data: Any, subsets: int, *path: Any) -> Any:
        return np.array_split(np.random.default_rng(self.seed(*path)).permutation(len(data)), subsets)

    patch.setattr(PartyContext, "assign_subsets", by_position)


def forgotten_partition(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guarantee, "releases_per_unit", lambda level, queries, partitions: queries)


def one_query_more(patch: pytest.MonkeyPatch) -> None:
    lines = VotesGuarantee.lines
    patch.setattr(VotesGuarantee, "lines", lambda self: [(what, each, n - 1) for what, each, n in lines(self)])


def unguarded(change: Change) -> Change:
    """The same, and contexts that draw as much as they are asked for."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        change(patch)
        patch.setattr(PartyContext, "_draw", lambda self, what, times: None)

    return apply


MUTANTS: dict[str, tuple[Change, Any, Any, str]] = {
    "half the noise on teachers' votes": (half_noise, ROWS, ob.FedKT(), CURVE),
    "half the noise on parties' votes": (half_noise, PARTIES, ob.FedKT(), CURVE),
    "half the noise on parties' votes that come or go": (
        half_noise, ob.L1(4.0, adjacency="add-remove"), ob.FedKT(), CURVE),
    "half the noise on votes of another person": (
        half_noise, ob.L2(4.0, adjacency="swap", **IDS), ob.FedKT(), CURVE),
    "half the noise on opinions": (half_noise, ROWS, SOFT, CURVE),
    "half the noise on parties' opinions": (half_noise, PARTIES, SOFT, CURVE),
    "half the noise on statistics": (half_noise, ob.L2(4.0), ob.Analytic(), CURVE),
    "half the noise on votes of rows": (half_noise, ob.L2(4.0), NEAR, CURVE),
    "half the noise of Confident-GNMax": (
        half_noise, ob.L2(4.0, mechanism="confident", threshold=14, answers=50, **IDS), ob.FedKT(), CURVE),
    "doubled votes": (doubled_in_the_context, ROWS, ob.FedKT(), CURVE),
    "doubled votes of parties": (doubled_in_the_context, PARTIES, ob.FedKT(), CURVE),
    "doubled statistics": (doubled_in_the_context, ROWS, ob.Analytic(), CURVE),
    "doubled votes of rows": (doubled_in_the_context, ROWS, NEAR, CURVE),
    "every teacher votes twice": (doubled_in_the_method, ROWS, ob.FedKT(), "a unit changes votes by 4"),
    "doubled opinions": (doubled_in_the_method, ROWS, SOFT, "a unit changes opinions by"),
    "halved sensitivity of votes": (halved_sensitivity, ROWS, ob.FedKT(), "a unit changes votes by 2"),
    "halved sensitivity of statistics": (halved_sensitivity, ROWS, ob.Analytic(), "a unit changes statistics by"),
    "halved sensitivity of votes of rows": (halved_sensitivity, ROWS, NEAR, "a unit changes votes by"),
    "the same noise on every public row": (a_row_shares_noise, ROWS, NEAR, "numbers 2 apart are correlated"),
    "half the votes repeat the noise of the others": (half_repeats_half, ROWS, NEAR, "numbers 60 apart are correlated"),
    "half the statistics repeat the noise of the others": (
        half_repeats_half, ROWS, ob.Analytic(), "have the same noise as another one in every run"),
    "half the opinions repeat the noise of the others": (
        half_repeats_half, ROWS, SOFT, "the noise on opinions repeats"),
    "partitions share their noise": (
        partitions_share_noise, ROWS, TWICE, "the answers of partitions 1 and 2 are not independent"),
    "reused noise": (reused_noise, ROWS, ob.FedKT(), "the noise is not drawn anew"),
    "reused noise on statistics": (reused_noise, ROWS, ob.Analytic(), "the noise is not drawn anew"),
    "a fixed seed": (fixed_seed, ROWS, ob.FedKT(), "the noise is not drawn anew"),
    "a fixed seed at the tally": (fixed_seed, PARTIES, SOFT, "the noise is not drawn anew"),
    "a shuffle instead of a hash": (shuffle_for_hash, COME_OR_GO, ob.FedKT(), "depends on the other rows"),
    "a shuffle instead of a hash, opinions": (shuffle_for_hash, ROWS, SOFT, "depends on the other rows"),
    "a forgotten partition": (forgotten_partition, ROWS, TWICE, "but declares 60"),
    "a forgotten partition, unguarded": (
        unguarded(forgotten_partition), ROWS, TWICE, "120 queries were asked and 120 answered"),
    "one query more": (one_query_more, ROWS, ob.FedKT(), "but declares 59"),
    "one query more, unguarded": (unguarded(one_query_more), PARTIES, ob.FedKT(), "60 queries were asked"),
}  # fmt: skip
RUNS = 160
"""About three times what notices half of the noise with a power of 99 % at this epsilon."""


def audited(privacy: Any, method: Any, runs: int) -> audit.Audit:
    calibration.calibrate.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        election = ob.Election(["a", "b"], PUBLIC, method, privacy=privacy)
        return audit.audit(election, runs=runs)


@pytest.mark.parametrize("what", MUTANTS)
def test_a_mutant_is_refuted(monkeypatch, what: str) -> None:
    change, privacy, method, finding = MUTANTS[what]
    try:
        change(monkeypatch)
        found = audited(privacy, method, 8 if finding else RUNS)
    finally:
        monkeypatch.undo()
        calibration.calibrate.cache_clear()
    assert not found.holds
    if finding:
        assert any(finding in sentence for sentence in found.findings), found.findings
    else:
        # Sums that are added twice are no noise, which the test of independence may find, too.
        assert change is doubled_in_the_context or not found.findings
        assert found.wealth >= found.refuting_wealth
