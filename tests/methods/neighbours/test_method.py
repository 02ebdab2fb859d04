"""Reverse k-NN votes: the same for every split, the sensitivity, the noise, bounds on parties, hostile votes."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy.stats import chi2
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.ballot.keys import public_text
from oneballot.ballot.seal import seal
from oneballot.election.advice import advise
from oneballot.election.template import draft, section
from oneballot.errors import ElectionError
from oneballot.methods.neighbours.settings import PARTY
from oneballot.party.cast import cast_data
from oneballot.party.context import PartyContext
from oneballot.server.context import TallyContext
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Ballot, Data

X, Y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER].astype(np.float32) / 16, Y[ORDER]
PUBLIC, TEST, ROWS = X[:400], slice(400, 700), slice(700, None)
TREES = ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 20})


def election(**settings: Any) -> ob.Election:
    given = {name: settings.pop(name) for name in ("privacy", "classes", "public", "server_key") if name in settings}
    method = ob.Neighbours(**settings)
    return ob.Election(**{"classes": range(10), "public": PUBLIC, **given}, method=method, learner=TREES)


def cast(agreed: ob.Election, X: np.ndarray = X[ROWS], y: np.ndarray = Y[ROWS], party: str = "a") -> Ballot:
    return ob.cast(agreed, X, y, party=party)


def votes_of(agreed: ob.Election, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The votes of these rows before any noise."""
    ctx = PartyContext(agreed, "a")
    k = agreed.method.neighbour_count(len(agreed.public))
    return agreed.method.space(ctx).votes(X, y, k, len(agreed.classes), "")


def right(outcome: ob.Outcome) -> float:
    return float((outcome.model.predict(X[TEST]) == Y[TEST]).mean())


@pytest.mark.parametrize("influence", ["claimed", "bounded"])
def test_the_sums_are_those_of_the_pooled_rows_for_every_split(influence: str) -> None:
    agreed = election(influence=influence)
    pooled = ob.tally(agreed, [cast(agreed)])
    for split in ("homogeneous", "shards:1", "dirichlet:0.1"):
        apart = ob.simulate(agreed, X[ROWS], Y[ROWS], parties=7, split=split).outcome
        assert apart.count.sums["votes"].tobytes() == pooled.count.sums["votes"].tobytes()
        if influence == "claimed":
            assert apart.model.dump() == pooled.model.dump()
    assert right(pooled) > 0.88


def test_labels_by_lead_and_the_rows_own_votes_work_too() -> None:
    for settings in ({"labels": "lead"}, {"estimate": "none"}, {"estimate": "none", "labels": "lead"}):
        agreed = election(**settings, neighbours=10)
        assert right(ob.tally(agreed, [cast(agreed)])) > 0.85


class TestWhatOneRowChanges:
    """The squared distance between the votes with one row and with another, or without it."""

    @pytest.mark.parametrize("k", [1, 7, 40])
    def test_a_row_that_comes_moves_k_counts_by_one(self, k: int) -> None:
        agreed = election(neighbours=k, privacy=ob.L2(1.0, adjacency="add-remove"))
        rng = np.random.default_rng(k)
        X1, y1 = rng.normal(size=(30, 64)).astype(np.float32), rng.integers(10, size=30)
        before = votes_of(agreed, X1, y1)
        for row in (X[800], np.zeros(64), np.full(64, np.nan), np.full(64, 1e30), -X[800] * 50):
            after = votes_of(agreed, np.vstack([X1, row]).astype(np.float32), np.append(y1, 3))
            assert ((after - before) ** 2).sum() == k == agreed.guarantee.numbers.squared_shift
            assert set(np.unique(after - before)) == {0, 1}

    @pytest.mark.parametrize("adjacency", ["replace", "swap"])
    def test_a_replaced_row_moves_them_by_twice_as_much_which_is_reached(self, adjacency: str) -> None:
        agreed = election(neighbours=9, privacy=ob.L2(1.0, adjacency=adjacency))
        rng, distances = np.random.default_rng(0), []
        for _ in range(60):
            rows = X[700 + rng.permutation(900)[:2]]
            labels = rng.integers(10, size=2)
            one, other = (votes_of(agreed, rows[i : i + 1], labels[i : i + 1]) for i in (0, 1))
            distances.append(((one - other) ** 2).sum())
        assert max(distances) == 18 == agreed.guarantee.numbers.squared_shift

    def test_the_number_of_public_rows_and_of_parties_does_not_matter(self) -> None:
        shifts = {
            election(public=X[:rows], neighbours=5, privacy=ob.L2(1.0)).guarantee.numbers.squared_shift
            for rows in (60, 200, 700)
        }
        assert shifts == {10.0}

    def test_all_rows_of_an_id_are_limited_and_charged(self) -> None:
        agreed = election(neighbours=5, privacy=ob.L2(1.0, stable_ids=True, rows_per_id=3))
        assert agreed.guarantee.numbers.squared_shift == 9 * 10
        parties = {"a": Data(X[ROWS], Y[ROWS], np.array(["one"] * len(Y[ROWS])))}
        ctx = PartyContext(agreed, "a")
        with pytest.warns(ob.OneBallotWarning, match="at most 3 of each ID"):
            assert len(ctx.limit_rows(parties["a"])) == 3

    def test_at_l1_a_party_moves_the_sums_by_its_length(self) -> None:
        rng = np.random.default_rng(0)
        for most in (None, 100, 2000):
            agreed = election(privacy=ob.L1(1.0), server_key="none", most_rows=most)
            counted = []
            with TallyContext(agreed) as ctx:
                for size in (1, 40, 900):
                    some = 700 + rng.permutation(1000)[:size]
                    counted.append(agreed.method.count(cast(agreed, X[some], Y[some]), ctx).sums["votes"])
            lengths = [math.sqrt(float((each.astype(float) ** 2).sum())) for each in counted]
            assert max(lengths) <= PARTY
            if most is None:
                np.testing.assert_allclose(lengths, PARTY, rtol=1e-3)
            else:
                np.testing.assert_allclose(lengths, [PARTY * min(1, n / most) for n in (1, 40, 900)], rtol=0.02)
            shift = agreed.guarantee.numbers.squared_shift
            assert all(((a - b) ** 2).sum() <= shift for a in counted for b in [*counted, np.zeros_like(a)])


class TestNoise:
    def test_it_is_that_of_the_ledger(self) -> None:
        agreed = election(privacy=ob.L2(1.0))
        line = agreed.ballot_ledger.lines[0]
        assert line.scale / math.sqrt(20) == pytest.approx(4.046, abs=0.01)
        drawn = (cast(agreed).contents["votes"] - votes_of(agreed, X[ROWS], Y[ROWS])).ravel() / line.scale
        assert min(chi2.sf((drawn**2).sum(), drawn.size), chi2.cdf((drawn**2).sum(), drawn.size)) > 1e-6

    def test_at_l1_the_tally_draws_it_once(self) -> None:
        agreed = election(privacy=ob.L1(60.0))
        parties = divide(Data(X[ROWS], Y[ROWS]), 12, "homogeneous")
        simulation = simulate_parties(agreed, parties)
        assert simulation.outcome.ledger.epsilon == pytest.approx(60, rel=1e-3)
        assert all(ballot.contents["votes"].min() >= 0 for ballot in simulation.ballots)
        assert right(simulation.outcome) > 0.35  # chance is 0.1; it was 0.6 to 0.8

    def test_a_private_model_is_useful_and_one_lost_in_noise_says_so(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            useful = ob.simulate(election(privacy=ob.L2(20.0)), X[ROWS], Y[ROWS], parties=2, split="homogeneous")
        assert right(useful.outcome) > 0.6
        with pytest.raises(ElectionError, match="nothing can be learned"):
            ob.simulate(election(privacy=ob.L2(0.1)), X[ROWS], Y[ROWS], parties=2, split="homogeneous")
        agreed = election()
        with (
            TallyContext(agreed) as ctx,
            pytest.warns(ob.OneBallotWarning, match="has 30.0 votes on average"),
        ):
            agreed.method._check_noise(np.full((400, 10), 3.0), 300.0, ctx)

    def test_rows_that_are_not_finite_never_stop_a_cast(self) -> None:
        agreed = election(privacy=ob.L2(1.0))
        broken = X[ROWS].copy()
        broken[:, 3], broken[5] = np.nan, np.inf
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert cast_data(PartyContext(agreed, "a"), Data(broken, Y[ROWS])).abstained is None

    def test_a_party_without_rows_casts_noise(self) -> None:
        agreed = election(privacy=ob.L2(1.0))
        ballot = cast(agreed, X[:0], Y[:0])
        assert ballot.abstained is None
        assert ballot.contents["votes"].std() == pytest.approx(agreed.guarantee.numbers.sigma, rel=0.1)

    def test_the_forecast_states_when_votes_stand_out(self) -> None:
        agreed = election(privacy=ob.L2(1.0), neighbours=20)
        rows = math.sqrt(2 * 9) * agreed.guarantee.numbers.sigma / (20 / 400)
        assert f"With about {rows:,.0f} rows at 9 parties together" in agreed.guarantee.forecast(9)[0]
        few = election(privacy=ob.L1(0.5)).guarantee
        assert few.is_hopeless(3)
        assert not few.is_hopeless(100_000)


class TestEncoder:
    def test_distances_are_between_its_features_and_no_row_stops_a_cast(self) -> None:
        torch = pytest.importorskip("torch")
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(64, 20), torch.nn.ReLU(), torch.nn.Linear(20, 10))
        agreed = election(features="encoder", encoder=network, privacy=ob.L2(1.0), neighbours=5)
        broken = X[ROWS].copy()
        broken[:9] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert cast_data(PartyContext(agreed, "a"), Data(broken, Y[ROWS])).abstained is None
        votes = votes_of(agreed, X[700:701], Y[700:701])
        hidden = [torch.relu(network[0](torch.tensor(rows))).detach().numpy() for rows in (PUBLIC, X[700:701])]
        nearest = np.argsort(((hidden[0] - hidden[1]) ** 2).sum(axis=1))[:5]
        assert set(np.flatnonzero(votes.sum(axis=1))) == set(nearest)

    def test_a_row_of_the_encoder_does_not_depend_on_how_many_there_are(self) -> None:
        torch = pytest.importorskip("torch")
        agreed = election(features="encoder", encoder=torch.nn.Sequential(torch.nn.Linear(64, 10)))
        alone = sum(votes_of(agreed, X[i : i + 1], Y[i : i + 1]) for i in range(700, 760))
        np.testing.assert_array_equal(alone, votes_of(agreed, X[700:760], Y[700:760]))

    def test_it_must_be_given_with_its_setting(self) -> None:
        with pytest.raises(ElectionError, match='needs encoder = "FILE"'):
            ob.Neighbours(features="encoder")


class TestAPartyThatLies:
    def lie(self, claim: int) -> np.ndarray:
        """Votes for the class after the right one, on every public row that rows of the class vote on."""
        honest = votes_of(election(), X[ROWS], Y[ROWS])
        return np.roll(honest, 1, axis=1) * claim

    @pytest.mark.parametrize(("influence", "survives"), [("bounded", True), ("claimed", False)])
    def test_it_decides_only_where_parties_are_believed(self, influence: str, survives: bool) -> None:
        agreed = election(influence=influence)
        parties = divide(Data(X[ROWS], Y[ROWS]), 9, "homogeneous")
        ballots = [cast(agreed, data.X, data.y, name) for name, data in parties.items()]
        liar = seal({"votes": self.lie(20).astype(np.int32)}, agreed, "liar")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = ob.tally(agreed, [*ballots, liar])
        assert not outcome.spoiled
        assert (right(outcome) > 0.85) == survives

    def test_at_l2_its_votes_are_scaled_down_to_the_rows_that_are_allowed(self) -> None:
        agreed = election(privacy=ob.L2(1.0), most_rows=100)
        sigma = agreed.guarantee.numbers.sigma
        with TallyContext(agreed) as ctx:
            for lie in (np.full((400, 10), 2**30), -self.lie(1000), np.eye(10)[np.arange(400) % 10] * 1e6):
                ballot = Ballot("liar", {"votes": lie.astype(np.int32)}, "", None, b"")
                votes = agreed.method.count(ballot, ctx).sums["votes"]
                assert np.abs(votes).max() <= 100 + 8 * sigma + 1
                assert np.abs(votes).sum() <= 100 * 10 + sigma * votes.size + votes.size
            honest = cast(agreed, X[700:800], Y[700:800])
            np.testing.assert_array_equal(agreed.method.count(honest, ctx).sums["votes"], honest.contents["votes"])

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda v: v - 1, "no rows cast these votes"),
            (lambda v: v + np.eye(400, 10, dtype=np.int64), "no rows cast these votes"),
            (lambda v: v * (np.arange(400) == 0)[:, None] * 10, "no rows cast these votes"),
            (lambda v: v * 0, "declares no rows"),
            (lambda v: v * 3000, "the election allows 2,097,152"),
            (lambda v: v[:-1], "expected an array 'votes'"),
            (lambda v: v.astype(float), "expected an array 'votes'"),
        ],
    )
    def test_votes_that_no_rows_cast_are_spoiled(self, change: Any, reason: str) -> None:
        agreed = election()
        votes = change(votes_of(agreed, X[ROWS], Y[ROWS]))
        votes = votes if votes.dtype == float else votes.astype(np.int32)
        outcome = ob.tally(agreed, [cast(agreed), seal({"votes": votes}, agreed, "b")])
        assert reason in outcome.spoiled["ballot 2"]

    def test_the_risk_is_stated_where_parties_are_believed(self) -> None:
        assert "can decide alone" in ob.Neighbours(influence="claimed").risk
        assert not ob.Neighbours().risk

    @pytest.mark.parametrize("method", [ob.Neighbours(influence="claimed"), ob.Analytic(influence="claimed")])
    def test_the_risk_names_only_what_this_election_can_set(self, method) -> None:
        """influence = "bounded" is for L0 with one tally."""
        keys = {side: public_text(X25519PrivateKey.generate()) for side in "ab"}
        for settings, may_bound in (({}, True), ({"privacy": ob.L2(1.0)}, False), ({"tallies": keys}, False)):
            agreed = ob.Election(classes=(0, 1), public=X[:60], method=method, **settings)
            (sentence,) = (each for each in advise(agreed, 10) if "can decide alone" in each)
            assert ('influence = "bounded" prevents it' in sentence) == may_bound
            assert ("Set most_rows to what a party may really have" in sentence) == (not may_bound)
            assert "At L0" not in sentence


def test_opinions_name_what_each_party_changes() -> None:
    agreed = election()
    parties = divide(Data(X[ROWS], Y[ROWS]), 6, "dirichlet:0.5")
    outcome = simulate_parties(agreed, parties).outcome
    with TallyContext(agreed) as ctx:
        opinions = agreed.method.opinions(outcome.count, ctx)
        assert opinions.declared.tolist() == [len(parties[name]) for name in opinions.parties]
        without = agreed.method.added(one := opinions.parties[1], outcome.count, ctx)
    np.testing.assert_array_equal(without.sums["votes"], votes_of(agreed, parties[one].X, parties[one].y))


def test_people_can_read_a_ballot() -> None:
    agreed, ctx = election(), PartyContext(election(), "a")
    ballot = cast(agreed)
    plan = agreed.method.plan(Data(X[ROWS], Y[ROWS]), ctx)
    assert plan.bytes == ballot.contents["votes"].nbytes
    seen = agreed.method.read_counts(ballot.contents, ctx)["votes"]
    assert seen.tolist() == plan.counts["votes"].tolist() == np.bincount(Y[ROWS]).tolist()
    sample = agreed.method.sample("votes", ballot.contents, ctx, 3)
    assert sample.rows[0] == tuple(f"{value:,}" for value in ballot.contents["votes"][0])
    assert "10 nearest" in sample.note
    assert sample.public == (0, 1, 2)


def test_what_cannot_work_is_refused_with_advice() -> None:
    with pytest.raises(ElectionError, match="only 400 public rows; use far fewer"):
        election(neighbours=400)
    lopsided = X * np.append(np.full(63, 1e-3), 1000).astype(np.float32)
    lopsided[:, 63] = np.arange(len(X))
    with pytest.warns(ob.OneBallotWarning, match='scale = "standard"'):
        election(public=lopsided[:400])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        election(public=lopsided[:400], scale="standard")


@pytest.mark.parametrize("level", ["L0", "L2"])
def test_a_drafted_election_works(level: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}" for a, b in rng.random((400, 2))]
    (tmp_path / "public.csv").write_text("\n".join(["a,b,label", *lines]))
    private = {} if level == "L0" else {"privacy": '[privacy]\nlevel = "L2"\nepsilon = 8.0\n'}
    text = draft(
        tmp_path / "public.csv", "label", beside=tmp_path / "e.toml", method=section("neighbours", level), **private
    ).text
    (tmp_path / "e.toml").write_text(text)
    made = ob.Election.read(tmp_path / "e.toml")
    assert made.method.name == "neighbours"
    assert made.learner_of("final").estimator == "HistGradientBoostingClassifier"
    outcome = ob.simulate(made, tmp_path / "public.csv", parties=3, split="homogeneous").outcome
    assert set(outcome.model.classes_) == {"no", "yes"}
