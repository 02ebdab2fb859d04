"""The open ensemble: claims weigh members row by row; parties may lack classes, have few rows, and come late."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import ElectionError, OneBallotWarning, Spoiled
from oneballot.formats.safetensors import ConstantModel
from oneballot.influence import bounded_rows
from oneballot.methods.ensemble.format import EnsembleFormat
from oneballot.methods.ensemble.open_count import most_important, needed_rows
from oneballot.methods.ensemble.open_model import OpenEnsemble
from oneballot.party.cast import cast_together
from oneballot.simulation import baselines, divide, simulate_parties
from oneballot.types import Blob, Data

OPEN = ob.Ensemble(weights="open")
X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)


def constant(*values: float) -> Blob:
    return ConstantModel(np.array(values)).dump()


def two_members(power: float = 2.0) -> OpenEnsemble:
    models, claims = [constant(0.8, 0.2), constant(0.4, 0.6)], [constant(0.5, 0.5), constant(0.2, 0.8)]
    return OpenEnsemble(
        models,
        claims,
        np.array([10, 5]),
        np.array([1.0, 2.0]),
        ["00" * 8, "ab" * 8],
        2,
        (3,),
        power=power,
        floor=0.02,
    )


def test_the_prediction_follows_the_formula() -> None:
    """By hand: r = 1 and 4, w = 10·1/1 = 10 and 5·4/2 = 10, so both opinions count the same."""
    model = two_members()
    np.testing.assert_allclose(model.member_weights(X), np.full((30, 2), 10.0))
    opinions = np.array([[0.64, 0.04], [0.16, 0.36]])
    total = (opinions / opinions.sum(axis=1, keepdims=True)).sum(axis=0)
    expected = total / total.sum()
    np.testing.assert_allclose(model.predict_proba(X), np.tile(expected, (30, 1)))
    assert model.predict_proba(X[:0]).shape == (0, 2)


def test_a_claim_is_at_most_fifty_and_a_row_that_none_claims_is_decided_by_rows() -> None:
    claims = [constant(0.0, 1.0), constant(1.0, 0.0)]
    model = OpenEnsemble(
        [constant(1, 0), constant(0, 1)],
        claims,
        np.ones(2),
        np.ones(2),
        ["00" * 8] * 2,
        2,
        (3,),
        power=2,
        floor=0.02,
    )
    np.testing.assert_allclose(model.member_weights(X)[0], [50, 0.01])
    unclaimed = OpenEnsemble(
        [constant(1, 0), constant(0, 1)],
        [constant(1, 0)] * 2,
        np.array([3, 1]),
        np.ones(2),
        ["00" * 8] * 2,
        2,
        (3,),
        power=1,
        floor=0.02,
    )
    np.testing.assert_allclose(unclaimed.predict_proba(X[:1]), [[0.75, 0.25]])


def test_the_file_gives_the_same_model() -> None:
    blob = two_members().dump()
    EnsembleFormat.check(blob.data, classes=2, features=3)
    loaded = EnsembleFormat.load(blob.data, classes=2)
    assert isinstance(loaded, OpenEnsemble)
    assert (loaded.names, loaded.shape, loaded.power) == (["00" * 8, "ab" * 8], (3,), 2.0)
    np.testing.assert_array_equal(loaded.predict_proba(X), two_members().predict_proba(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": np.array([1.0, np.nan])}, "rows: expected numbers above 0"),
        ({"rows": np.array([1.0, -1.0])}, "rows: expected numbers above 0"),
        ({"scales": np.array([0.0, 1.0])}, "scales: expected numbers above 0"),
        ({"scales": np.ones(3)}, "4 models: expected 2 of parties"),
        ({"power": np.array([np.inf, 0.1])}, "power: expected numbers above 0"),
        ({"parties": np.zeros((1, 8), dtype=np.uint8)}, "parties is uint8"),
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, np.ndarray], message: str) -> None:
    from safetensors.numpy import load, save

    data = two_members().dump().data
    header = {"formats": '["safetensors"]'}
    with pytest.raises(Spoiled, match=message):
        EnsembleFormat.check(save({**load(data), **change}, metadata=header), classes=2, features=3)


FEW_TREES = {
    "local": ob.Sklearn(params={"n_estimators": 30}),
    "claim": ob.Sklearn(params={"n_estimators": 30, "min_samples_leaf": 3}),
}


def election_over(public, method: ob.Ensemble = OPEN, **settings) -> ob.Election:
    return ob.Election(classes=range(10), public=public, method=method, learners=FEW_TREES, **settings)


@pytest.fixture(scope="module")
def split(digits):
    data = election_over(digits.public).data(digits.X, digits.y)
    return divide(data, 5, "dirichlet:0.1", seed=3)


class TestElections:
    @pytest.mark.parametrize("background", ["public rows", "none"])
    def test_parties_with_other_classes_end_above_the_best_party(self, background: str, split, digits) -> None:
        public = digits.public if background == "public rows" else None
        election = election_over(public)
        simulation = simulate_parties(election, split)
        test = Data(digits.X_test.astype(np.float32), digits.y_test)
        without = baselines(election, split, test)
        assert simulation.accuracy(test) > max(without.alone.values()) + 0.1

    def test_two_parties_with_one_class_each_tell_the_classes_apart(self, digits) -> None:
        election = ob.Election(classes=[0, 1], public=digits.public, method=OPEN)
        rows = {c: digits.X[digits.y == c] for c in (0, 1)}
        ballots = [ob.cast(election, rows[c], [c] * len(rows[c]), party=f"clinic-{c}") for c in (0, 1)]
        model = ob.tally(election, ballots).model
        tested = digits.y_test < 2
        assert (model.predict(digits.X_test[tested]) == digits.y_test[tested]).mean() > 0.95

    def test_a_party_with_one_row_and_other_learners_take_part(self, digits) -> None:
        election = election_over(digits.public)
        halves = np.array_split(np.arange(len(digits.y)), 2)
        choices = [{"local": ob.Sklearn("LogisticRegression")}, {"all": ob.XGBoost(rounds=10)}]
        ballots = [
            ob.cast(election, digits.X[h], digits.y[h], party=f"clinic-{i}", learners=choice)
            for i, (h, choice) in enumerate(zip(halves, choices, strict=True))
        ]
        with pytest.warns(OneBallotWarning, match="no rows of class"):
            ballots.append(ob.cast(election, digits.X[:1], digits.y[:1], party="tiny"))
        outcome = ob.tally(election, ballots)
        assert sorted(outcome.voted) == ["clinic-0", "clinic-1", "tiny"]
        assert (outcome.model.predict(digits.X_test) == digits.y_test).mean() > 0.85

    def test_an_election_without_public_rows_and_schema_learns_the_shape_from_the_ballots(
        self, digits, tmp_path: Path
    ) -> None:
        election = election_over(None)
        ballots = cast_together(election, divide(election.data(digits.X, digits.y), 3, "homogeneous", seed=1))
        narrow = ob.cast(election, digits.X[:50, :32], digits.y[:50], party="narrow")
        with pytest.warns(OneBallotWarning, match=r"narrow is left out: its rows have shape \(32,\)"):
            outcome = ob.tally(election, [*ballots, narrow])
        assert outcome.model.n_features_in_ == 64
        outcome.save(tmp_path)
        loaded = ob.Outcome.load(tmp_path).model
        np.testing.assert_array_equal(loaded.predict_proba(digits.X_test), outcome.model.predict_proba(digits.X_test))

    def test_late_ballots_and_left_out_parties_give_the_same_model_as_from_scratch(self, split, digits) -> None:
        election = election_over(digits.public)
        ballots = cast_together(election, split)
        scratch = ob.tally(election, ballots[1:])
        for other in (
            ob.tally(election, ballots, without=[ballots[0].party]),
            ob.tally(election, ballots[1:], previous=ob.tally(election, ballots[2:])),
            ob.tally(election, ballots[1:][::-1]),
        ):
            assert other.model.dump() == scratch.model.dump()

    def test_the_ensemble_can_be_distilled(self, split, digits) -> None:
        election = election_over(digits.public, ob.Ensemble(weights="open", distil=True))
        outcome = simulate_parties(election, split).outcome
        assert not isinstance(outcome.model.model_, OpenEnsemble)
        assert (outcome.model.predict(digits.X_test) == digits.y_test).mean() > 0.85

    def test_only_the_most_important_members_are_kept(self, split, digits) -> None:
        election = election_over(digits.public, ob.Ensemble(weights="open", most_members=4))
        with pytest.warns(OneBallotWarning, match="keeps 4 of 5 members"):
            outcome = simulate_parties(election, split).outcome
        assert len(outcome.model.model_.members) == 4

    def test_members_are_trees_that_need_no_sandbox(self, split, digits) -> None:
        election = election_over(digits.public)
        outcome = simulate_parties(election, split).outcome
        formats = {blob.format for blob in [*outcome.model.model_.members, *outcome.model.model_.claims]}
        assert formats <= {"forest", "safetensors"}

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda c: {k: v for k, v in c.items() if k != "claim.1"}, "expected a model 'claim.1'"),
            (lambda c: {**c, "claim.1": c["model"]}, "refused"),
            (lambda c: {**c, "claim.0": two_members().dump()}, "is an ensemble"),
            (lambda c: {**c, "claim.2": c["claim.0"]}, "claim.2"),
            (lambda c: {**c, "seen": c["seen"] * 0}, "at least min_rows"),
        ],
    )
    def test_wrong_claims_spoil_a_ballot(self, change, reason: str, split, digits) -> None:
        election = election_over(digits.public)
        (honest,) = cast_together(election, dict(itertools.islice(split.items(), 1)))
        other = ob.cast(election, digits.X[:100], digits.y[:100], party="other")
        outcome = ob.tally(election, [other, seal(change(honest.contents), election, honest.party)])
        assert reason in outcome.spoiled[next(iter(outcome.spoiled))]
        assert list(outcome.voted) == ["other"]

    def test_cohorts_need_other_weights(self) -> None:
        with pytest.raises(ElectionError, match='cohorts = 2 needs weights = "seen"'):
            ob.Ensemble(weights="open", cohorts=2)


def test_a_party_that_declares_a_million_rows_counts_as_a_large_honest_one() -> None:
    honest = np.array([100, 120, 90, 300, 110])
    bounded = bounded_rows(np.append(honest, 1_000_000))
    assert bounded[-1] <= 2 * 120
    np.testing.assert_array_equal(bounded_rows(np.full(4, 50)), np.full(4, 50))
    assert bounded_rows(np.array([7])) == [7]


def test_a_large_party_counts_as_declared_if_the_others_leave_most_public_rows_unclaimed() -> None:
    """Three parties claim one public row in ten, where their claims are ten times as high; the fourth claims all."""
    declared = np.array([30, 20, 10, 5000])
    few = np.where(np.arange(100) < 10, 9.1, 0.1)
    claimed = np.stack([few, few, few, np.ones(100)], axis=1)
    np.testing.assert_array_equal(bounded_rows(declared), [30, 20, 10, 40])
    assert needed_rows(declared, claimed)[3] > 10 * 60
    np.testing.assert_array_equal(needed_rows(declared, claimed)[:3], [30, 20, 10])


def test_a_party_that_claims_every_row_cannot_raise_its_own_bound() -> None:
    """The others claim all public rows, if unevenly: they do not need it."""
    rng = np.random.default_rng(0)
    honest, declared = rng.lognormal(0, 0.8, size=(200, 10)), np.append(np.full(10, 100), 10**9)
    for claims in (np.ones(200), rng.lognormal(0, 3, size=200)):
        assert needed_rows(declared, np.column_stack([honest, claims]))[-1] == 200


@pytest.mark.parametrize(("public_rows", "rows"), [(0, [100, 100, 3000]), (60, [100, 100, 200])])
def test_three_parties_without_public_rows_count_as_declared(public_rows: int, rows: list[int]) -> None:
    rng = np.random.default_rng(1)
    public = rng.normal(size=(public_rows, 3)).astype(np.float32) if public_rows else None
    election = ob.Election(classes=[0, 1], public=public, method=OPEN, learner=ob.Sklearn("GaussianNB"))
    own = {party: rng.normal(size=(n, 3)).astype(np.float32) for party, n in zip("abc", (100, 100, 3000), strict=True)}
    parties = {party: Data(x, (x[:, 0] > 0).astype(np.int64)) for party, x in own.items()}
    blob = simulate_parties(election, parties).outcome.model.dump()
    np.testing.assert_array_equal(EnsembleFormat.load(blob.data, classes=2).rows, rows)


def test_members_are_selected_for_every_class() -> None:
    """Member 3 alone knows class 1: it is kept although three others weigh more."""
    models = [constant(1, 0), constant(1, 0), constant(1, 0), constant(0, 1)]
    claims = [constant(0.2, 0.8)] * 3 + [constant(0.6, 0.4)]
    whole = OpenEnsemble(models, claims, np.full(4, 10), np.ones(4), ["00" * 8] * 4, 2, (3,), power=2, floor=0.02)
    assert 3 in most_important(whole, np.ones((4, 2)), 2, X)
    assert most_important(whole, np.array([[5, 0], [9, 0], [1, 0], [0, 2]]), 2, None).tolist() == [1, 3]
