"""No party decides alone: the cap on a member's share of a row or class, where it gives way, and colluding parties."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.election.advice import advise
from oneballot.election.file import make
from oneballot.errors import OneBallotWarning, Spoiled
from oneballot.formats.safetensors import ConstantModel
from oneballot.influence import LOOSE_SHARE, MOST_SHARE, bounded_rows, most_share
from oneballot.methods.ensemble.claims import NAMES
from oneballot.methods.ensemble.format import EnsembleFormat
from oneballot.methods.ensemble.open_count import needed_rows
from oneballot.methods.ensemble.open_model import OpenEnsemble
from oneballot.methods.ensemble.plain import bounded_counts, class_weights
from oneballot.party.cast import cast_together
from oneballot.simulation import divide
from oneballot.types import Blob, Data

X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
FEW_TREES = {
    "local": ob.Sklearn(params={"n_estimators": 30}),
    "claim": ob.Sklearn(params={"n_estimators": 30, "min_samples_leaf": 3}),
}


def constant(*values: float) -> Blob:
    return ConstantModel(np.array(values)).dump()


def six_members(cap: float = MOST_SHARE, liars: int = 1, claim: float = 0.95) -> OpenEnsemble:
    """Liars are certain of class 1 and claim every row; the others are nearly certain of class 0."""
    models = [constant(0, 1)] * liars + [constant(0.9, 0.1)] * (6 - liars)
    claims = [constant(1 - claim, claim)] * liars + [constant(0.5, 0.5)] * (6 - liars)
    names = [f"{i:02x}" * 8 for i in range(6)]
    return OpenEnsemble(models, claims, np.full(6, 100.0), np.ones(6), names, 2, (3,), power=1.5, floor=0.05, cap=cap)


def test_a_member_that_claims_every_row_has_at_most_its_share() -> None:
    claimed, capped = (six_members(cap).member_weights(X) for cap in (0.0, MOST_SHARE))
    assert claimed[0, 0] / claimed[0].sum() > 0.75
    assert (capped[:, 0] / capped.sum(axis=1)).max() <= most_share(6) + 1e-9
    assert (six_members(0.0).predict_proba(X)[:, 1] > 0.75).all()
    assert (six_members().predict_proba(X)[:, 1] < 0.3).all()


def test_without_public_rows_the_cap_is_looser(digits) -> None:
    held = Data(digits.X, digits.y)
    caps = []
    for public in (digits.public, None):
        election = ob.Election(classes=range(10), public=public, learners=FEW_TREES)
        ballots = cast_together(election, divide(held, 8, "dirichlet:0.5", seed=3))
        model = ob.tally(election, ballots).model.model_
        caps.append(model.cap)
        weights = model.member_weights(digits.X_test)
        shares = weights.max(axis=1) / weights.sum(axis=1)
        assert np.isclose(shares, model.cap).sum() > 3  # on the other rows it gives way, or nothing exceeds it
    assert caps == [MOST_SHARE, LOOSE_SHARE]


def test_two_of_six_that_claim_every_row_do_not_win_it() -> None:
    assert (six_members(liars=2).predict_proba(X)[:, 0] > 0.4).all()
    assert (six_members(0.0, liars=2).predict_proba(X)[:, 0] < 0.1).all()


def test_the_file_says_which_cap_applies() -> None:
    for cap in (MOST_SHARE, LOOSE_SHARE, 0.0):
        blob = six_members(cap).dump()
        EnsembleFormat.check(blob.data, classes=2, features=3)
        loaded = EnsembleFormat.load(blob.data, classes=2)
        assert isinstance(loaded, OpenEnsemble)
        assert loaded.cap == cap
        np.testing.assert_array_equal(loaded.predict_proba(X), six_members(cap).predict_proba(X))
        kept = loaded.only(np.arange(5))
        assert kept.cap == cap


def test_a_file_of_an_older_version_predicts_as_before() -> None:
    """Its array `power` has two numbers."""
    from safetensors.numpy import load

    assert load(six_members(0.0).dump().data)["power"].tolist() == [1.5, 0.05]
    assert len(load(six_members().dump().data)["power"]) == 3


def test_another_kind_of_cap_is_refused() -> None:
    from safetensors.numpy import load, save

    arrays = load(six_members().dump().data) | {"power": np.array([1.5, 0.05, 2.0])}
    with pytest.raises(Spoiled, match=r"the cap is 2\.0; expected one of"):
        EnsembleFormat.check(save(arrays, metadata={"formats": '["safetensors"]'}), classes=2, features=3)


def test_files_that_do_not_name_the_influence_mean_the_old_one_and_keep_their_digest() -> None:
    written = make("methods", {"name": "ensemble", "weights": "open"}, "[method]")
    assert written.influence == "claimed"
    assert "influence" not in written.describe()
    assert ob.Ensemble(weights="open").describe()["influence"] == "bounded"
    for weights in ("seen", "uniform"):
        assert ob.Ensemble(weights=weights).describe() == ob.Ensemble(weights=weights, influence="claimed").describe()
    assert 'influence = "bounded"' in ob.Ensemble.draft


class TestElections:
    def accuracy(self, digits, influence: str) -> tuple[float, float]:
        """Without and with a party that claims every row and is certain of the next class."""
        method = ob.Ensemble(weights="open", influence=influence)
        election = ob.Election(classes=range(10), public=digits.public, method=method, learners=FEW_TREES)
        ballots = cast_together(election, divide(election.data(digits.X, digits.y), 8, "dirichlet:0.5", seed=3))
        X, y = digits.X_test, digits.y_test
        lying = ob.cast(election, digits.X, (digits.y + 1) % 10, party="liar")
        contents = dict(lying.contents) | {"seen": np.full(10, 10**6)}
        liar = seal(contents, election, "liar")
        honest, attacked = (ob.tally(election, some).model.predict(X) for some in (ballots, [*ballots, liar]))
        return float((honest == y).mean()), float((attacked == y).mean())

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::oneballot.errors.OneBallotWarning")
    def test_one_lying_party_in_nine_costs_little_and_the_bound_nothing(self, digits) -> None:
        honest, attacked = self.accuracy(digits, "bounded")
        unbounded, _ = self.accuracy(digits, "claimed")
        assert honest >= unbounded - 0.02
        assert attacked >= honest - 0.04

    def test_the_tally_names_public_rows_that_hang_on_one_party(self, digits) -> None:
        election = ob.Election(classes=range(10), public=digits.public, learners=FEW_TREES)
        eights = digits.y == 8
        ballots = cast_together(
            election, divide(election.data(digits.X[~eights], digits.y[~eights]), 6, "homogeneous", seed=1)
        )
        ballots.append(ob.cast(election, digits.X[eights], digits.y[eights], party="hospital-b"))
        with pytest.warns(OneBallotWarning, match=r"of \d+ public rows depend on one party.* on hospital-b \(rows \d+"):
            ob.tally(election, ballots)

    def test_it_names_hardly_any_row_if_the_parties_rows_are_alike(self, digits) -> None:
        """The cap gives way on most rows there, but to a quarter of the weight, rarely to more than half."""
        election = ob.Election(classes=range(10), public=digits.public, learners=FEW_TREES)
        parties = divide(election.data(digits.X, digits.y), 6, "homogeneous", seed=1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = ob.tally(election, cast_together(election, parties))
        ensemble = outcome.model.model_
        assert isinstance(ensemble, OpenEnsemble)
        weights = ensemble.member_weights(digits.public)
        share = weights.max(axis=1) / weights.sum(axis=1)
        assert (share > most_share(6) + 1e-9).mean() > 0.5
        named = re.findall(r"(\d+) of \d+ public rows depend on one party", " ".join(str(w.message) for w in caught))
        assert sum(map(int, named)) == (share > 0.5).sum() < 0.02 * len(share)

    def test_unbounded_influence_says_what_it_risks(self, digits) -> None:
        method = ob.Ensemble(weights="open", influence="claimed")
        election = ob.Election(classes=range(10), public=digits.public, method=method, learners=FEW_TREES)
        assert any('Set influence = "bounded"' in text for text in advise(election, 5))
        ballots = cast_together(election, divide(election.data(digits.X, digits.y), 5, "homogeneous", seed=1))
        with pytest.warns(OneBallotWarning, match='influence = "claimed": a single party that lies can decide a row'):
            ob.tally(election, ballots)
        assert not any("influence" in text for text in advise(ob.Election(classes=[0, 1]), 5))


class TestClassCounts:
    def test_no_party_has_more_than_its_share_of_a_class_that_others_have(self) -> None:
        counts = np.full((6, 2), 50)
        counts[0] = 10**6, 0
        bounded = bounded_counts(counts, 1000)
        assert bounded[0, 0] / bounded[:, 0].sum() <= most_share(6) + 1e-9
        np.testing.assert_array_equal(bounded[1:], 50)

    def test_a_party_that_alone_has_a_class_keeps_it_and_two_share_it(self) -> None:
        counts = np.array([[10, 0, 900], [10, 5, 10], *[[10, 0, 0]] * 4])
        bounded = bounded_counts(counts, 1000)
        assert bounded[1, 1] > 0
        assert bounded[0, 2] == bounded[1, 2] > 0
        assert ((bounded > 0) == (counts > 0)).all()

    def test_fewer_than_five_parties_are_only_bounded_in_total(self) -> None:
        counts = np.array([[100, 1], [1, 1]])
        np.testing.assert_array_equal(bounded_counts(counts, 1000), counts)

    def test_the_default_bounds_them_and_claimed_does_not(self) -> None:
        counts = np.full((6, 2), 50)
        counts[0] = 10**6
        weights = {
            influence: class_weights(ob.Ensemble(weights="class-counts", influence=influence), counts, np.arange(6))
            for influence in ("bounded", "claimed")
        }
        assert weights["claimed"][0, 0] == 1000
        assert weights["bounded"][0, 0] <= 100


def test_two_colluding_parties_do_not_defeat_the_bound() -> None:
    """One claims a single public row, which alone would raise the bound of the other, which declares a million rows."""
    rng = np.random.default_rng(0)
    honest, declared = rng.lognormal(0, 0.8, size=(200, 10)), np.array([*[100] * 10, 200, 10**6])
    single = np.where(np.arange(200) == 7, 20 / 0.1, 0.1)
    claimed = np.column_stack([honest, single, np.ones(200)])
    theirs = claimed[:, :-1] @ bounded_rows(declared)[:-1]
    assert np.mean(theirs**2) / np.mean(theirs) ** 2 - 1 > 1.5  # u, if all others are believed
    assert needed_rows(declared, claimed)[-1] == bounded_rows(declared)[-1]


LIARS = ["party-03", "party-04", "party-09"]
TEN_TREES = {
    "local": ob.Sklearn(params={"n_estimators": 10}),
    "claim": ob.Sklearn(params={"n_estimators": 10, "min_samples_leaf": 3}),
}


def with_liars(election: ob.Election, digits, split: str) -> list[ob.Ballot]:
    """The ballots of 12 parties, three of which claim every row and are certain of the next class."""
    held = divide(election.data(digits.X, digits.y), 12, split, seed=1)
    honest = {f"party-{i:02}": rows for i, rows in enumerate(held.values())}
    ballots = [ballot for ballot in cast_together(election, honest) if ballot.party not in LIARS]
    X, y = np.concatenate([digits.X_test, digits.X]), np.concatenate([digits.y_test, digits.y])
    lie = ob.cast(election, X, (y + 1) % 10, party=LIARS[0])
    contents = dict(lie.contents) | {"seen": np.full(10, 10**6), **dict.fromkeys(NAMES, constant(0.02, 0.98))}
    return ballots + [seal(contents, election, liar) for liar in LIARS]


def test_liars_that_agree_cost_little_are_named_and_can_be_left_out(digits) -> None:
    election = ob.Election(classes=range(10), public=digits.public, learners=TEN_TREES)
    ballots = with_liars(election, digits, "dirichlet:0.5")
    with pytest.warns(OneBallotWarning, match="agrees with few of the parties") as caught:
        outcome = ob.tally(election, ballots)
    named = [text for w in caught if "agrees with few" in (text := str(w.message))]
    assert [any(party in text for text in named) for party in (*LIARS, "party-00")] == [True, True, True, False]
    assert len(named) == len(LIARS)
    without = ob.tally(election, ballots, without=LIARS)
    honest, attacked = (
        float((each.model.predict(digits.X_test) == digits.y_test).mean()) for each in (without, outcome)
    )
    assert honest > 0.85
    assert attacked > honest - 0.03
    late = ob.tally(election, ballots[::-1], previous=without)
    assert late.model.dump() == outcome.model.dump()
    never = ob.tally(election, [ballot for ballot in ballots if ballot.party not in LIARS])
    assert never.model.dump() == without.model.dump()


def test_honest_parties_with_few_classes_keep_their_weight(digits) -> None:
    election = ob.Election(classes=range(10), public=digits.public, learners=TEN_TREES)
    held = divide(election.data(digits.X, digits.y), 12, "dirichlet:0.1", seed=1)
    ballots = cast_together(election, held)
    outcome = ob.tally(election, ballots)
    model = outcome.model.model_
    assert isinstance(model, OpenEnsemble)
    declared = np.array([len(held[party]) for party in sorted(held) if len(held[party])])
    assert (model.rows >= np.minimum(declared, np.median(declared))).mean() >= 0.8
    claimed = ob.Election(
        classes=range(10),
        public=digits.public,
        learners=TEN_TREES,
        method=ob.Ensemble(weights="open", influence="claimed"),
    )
    believed = ob.tally(claimed, cast_together(claimed, held))
    bounded, unbounded = (np.mean(each.model.predict(digits.X_test) == digits.y_test) for each in (outcome, believed))
    assert bounded > unbounded - 0.02
