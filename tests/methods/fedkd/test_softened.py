"""FedKD at L1 and L2: sensitivity, noise, rejected settings, and accuracy where noise is small."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import oneballot as ob
from oneballot.errors import ElectionError, Spoiled, WillNotWork
from oneballot.methods.fedkd.softened import PARTS, Softened
from oneballot.party.context import PartyContext
from oneballot.privacy.calibration import calibrate
from oneballot.privacy.guarantee import LabelGuarantee
from oneballot.server.context import TallyContext
from oneballot.simulation import simulate_parties
from oneballot.types import Ballot, Count, Data, Numbers, Spending

LINEAR = ob.Sklearn("LogisticRegression", {"max_iter": 300})
RNG = np.random.default_rng(0)
Y = np.arange(900) % 3
X = (RNG.normal(size=(900, 4)) + 3 * np.eye(3, 4)[Y]).astype(np.float32)
PUBLIC, TEST = X[:60], slice(60, 300)


def election(privacy: Any, **settings: Any) -> ob.Election:
    return ob.Election(
        classes=range(3),
        public=PUBLIC,
        learner=LINEAR,
        privacy=privacy,
        method=ob.FedKD(**{"temperature": 0.0, **settings}),
        server_key="none" if getattr(privacy, "level", "") == "L1" else None,
    )


def accuracy(outcome: ob.Outcome) -> float:
    return float((outcome.model.predict(X[TEST]) == Y[TEST]).mean())


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=4, max_size=4))
def test_no_voter_has_more_than_one_vote_whatever_its_logits(logits: list[float]) -> None:
    parts = Softened(1.0, 1).parts(np.array([logits]))
    assert (parts >= 0).all()
    assert parts.sum() <= PARTS


def test_parts_are_softmax_and_become_log_probabilities_again() -> None:
    softened, logits = Softened(1.0, 1), np.log(np.array([[0.5, 0.3, 0.2], [0.98, 0.01, 0.01]]))
    parts = softened.parts(logits + 7)
    np.testing.assert_allclose(parts, [[500, 300, 200], [980, 10, 10]], atol=1)
    with TallyContext(election(ob.L2(sigma=1.0))) as ctx:
        back = softened.logits(Count({"parts": 3 * parts}), ctx)
    np.testing.assert_allclose(np.exp(back), np.exp(logits), atol=2e-3)


@pytest.mark.parametrize(("level", "adjacency", "stable", "squared"), [
    ("L1", "add-remove", None, 1), ("L1", "replace", None, 2), ("L2", "add-remove", True, 2),
    ("L2", "replace", True, 2), ("L2", "add-remove", False, 2), ("L2", "replace", False, 8),
])  # fmt: skip
def test_the_ledger_charges_the_sensitivity_of_one_unit(
    level: str, adjacency: str, stable: bool | None, squared: int
) -> None:
    privacy = {"L1": ob.L1, "L2": ob.L2}[level](sigma=3.0, adjacency=adjacency, stable_ids=stable)
    guarantee = election(privacy, queries=20).guarantee
    assert guarantee.numbers.squared_shift == squared * 20 * PARTS**2
    assert guarantee.numbers.sigma == pytest.approx(3 * math.sqrt(squared * 20) * PARTS, rel=1e-6)


class Recorder:
    """The sums of a party's voters before noise, through the real cast."""

    def __init__(self, privacy: Any) -> None:
        self.election = election(privacy, queries=20)

    def parts(self, y: Any, ids: Any = None) -> Any:
        """The sums that are about to get noise."""
        kept: list[Any] = []

        class Watched(PartyContext):
            def release(self, numbers: Any, *, cell: str) -> Any:
                kept.append(numbers)
                return numbers

        data = Data(X[300:324], y, ids)
        ctx = Watched(self.election, "a")
        steps = self.election.method.cast(data, ctx)
        fit = next(steps)
        models = LINEAR.fit_many(np.concatenate(fit.X.parts), fit.tasks, 3)
        with pytest.raises(StopIteration):
            steps.send(models)
        return kept[0]


def test_changing_one_row_changes_the_votes_of_one_teacher() -> None:
    recorder = Recorder(ob.L2(sigma=3.0, stable_ids=True))
    ids = np.array([f"row-{i}" for i in range(24)])
    labels = Y[300:324].copy()
    here = recorder.parts(labels, ids)
    labels[0] = (labels[0] + 1) % 3
    apart = ((here - recorder.parts(labels, ids)) ** 2).sum()
    assert 0 < apart <= recorder.election.guarantee.numbers.squared_shift


def test_the_noise_is_that_of_the_ledger_and_drawn_where_it_is_due() -> None:
    for privacy, context_of in ((ob.L1(sigma=2.0), TallyContext), (ob.L2(sigma=2.0), lambda e: PartyContext(e, "a"))):
        agreed = election(privacy)
        ctx = context_of(agreed)
        drawn = ctx.release(np.zeros((60, 3), dtype=np.int64), cell="opinions") / agreed.guarantee.numbers.sigma
        surprise = (drawn**2).sum()
        assert min(chi2.sf(surprise, 180), chi2.cdf(surprise, 180)) > 1e-6
    assert (
        not PartyContext(election(ob.L1(sigma=2.0)), "a")
        .release(np.zeros((60, 3), dtype=np.int64), cell="opinions")
        .any()
    )


@pytest.mark.parametrize("privacy", [ob.L1(sigma=0.01), ob.L2(sigma=0.01)])
@pytest.mark.parametrize("settings", [{}, {"queries": 0.5}, {"queries": 40}])
def test_the_final_model_is_accurate_with_little_noise(privacy: Any, settings: dict[str, Any]) -> None:
    simulation = ob.simulate(election(privacy, **settings), X[300:], Y[300:], parties=4, split="homogeneous")
    assert accuracy(simulation.outcome) > 0.85
    assert simulation.outcome.ledger.epsilon > 0


def test_many_parties_outweigh_the_noise_and_few_are_warned_that_they_will_not() -> None:
    agreed = election(ob.L1(8.0, adjacency="add-remove"), queries=20)
    assert isinstance(agreed.guarantee, LabelGuarantee)
    needed = agreed.guarantee.voters_needed()
    assert agreed.guarantee.wins(needed) >= 0.9 > agreed.guarantee.wins(needed - 1)
    assert "will not work" in agreed.guarantee.forecast(2)[0]
    with pytest.warns(WillNotWork, match="All|all 2 parties agree"):
        ob.simulate(agreed, X[300:], Y[300:], parties=2)
    copies = {f"p{i:03d}": Data(X[300 + i :], Y[300 + i :]) for i in range(2 * needed)}  # they all but agree
    right = [accuracy(simulate_parties(agreed, copies).outcome) for _ in range(3)]
    assert np.median(right) > 0.6


def test_an_empty_silo_casts_a_ballot_at_l2() -> None:
    private = ob.cast(election(ob.L2(sigma=1.0)), X[:0], Y[:0], party="a")
    assert private.abstained is None
    assert private.contents["parts"].shape == (60, 3)


@pytest.mark.parametrize(("level", "change", "words"), [
    (ob.L1, lambda a: a.astype(np.int64), "expected an array"), (ob.L1, lambda a: a[:-1], "expected an array"),
    (ob.L1, lambda a: np.full_like(a, 700), "in total for each row"), (ob.L1, lambda a: a - 1, "expected 0 to 1000"),
    (ob.L2, lambda a: np.full_like(a, 2**62), "noisy"), (ob.L2, lambda a: np.full_like(a, -(2**63)), "noisy"),
])  # fmt: skip
def test_hostile_parts_are_spoiled(level: Any, change: Any, words: str) -> None:
    agreed = election(level(sigma=1.0))
    honest = ob.cast(agreed, X[300:], Y[300:], party="a")
    with TallyContext(agreed) as ctx, pytest.raises(Spoiled, match=words):
        agreed.method.count(Ballot("a", {"parts": change(honest.contents["parts"])}, "d", None, b""), ctx)


@pytest.mark.parametrize(("privacy", "settings", "words"), [
    (ob.L1(1.0), {"passes": 2}, "passes: not available at L1"), (ob.L2(1.0), {"gamma": 1.0}, "gamma: not available"),
    (ob.L1(1.0), {"bound": 2.0}, "bound: not available"),
    (ob.L1(1.0), {"subsets": 5}, "subsets are for L2"), ("L0", {"subsets": 5}, "for L1 and L2"),
    ("L0", {"queries": 0.5}, "for L1 and L2"), (ob.L2(1.0), {"queries": 61}, "only 60 public rows"),
    (ob.L2(1.0, mechanism="laplace"), {}, "Gaussian noise"), (ob.L2(1.0), {"queries": 2.5}, "whole number of rows"),
])  # fmt: skip
def test_settings_that_cannot_be_combined_are_rejected(privacy: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ElectionError, match=words):
        election(privacy, **settings)


def test_a_party_can_be_removed_from_the_count_at_l2() -> None:
    agreed = election(ob.L2(sigma=0.01))
    ballots = [ob.cast(agreed, X[300 + i :: 3], Y[300 + i :: 3], party=f"p{i}") for i in range(3)]
    without = ob.tally(agreed, ballots, without=["p0"])
    assert (without.count.sums["parts"] == ob.tally(agreed, ballots[1:]).count.sums["parts"]).all()


def test_numbers_that_are_not_votes_get_no_forecast() -> None:
    guarantee = calibrate(ob.L2(1.0), Spending(numbers=Numbers("sums", 1.0, 2.0)), True)
    assert not guarantee.is_hopeless(1)
    assert "times the largest change that one patient" in guarantee.forecast(1)[0]
    assert isinstance(Count(), Count)
