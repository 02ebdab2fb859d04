"""Elections at L1 and L2, end to end: ledgers of ballots and outcomes, repeated draws, refusals."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

import oneballot as ob
from oneballot.ballot.manifest import open_ballot
from oneballot.ballot.seal import seal, unseal
from oneballot.errors import DataError, ElectionError, PrivacyError, WillNotWork
from oneballot.party.cast import cast_together
from oneballot.party.context import PartyContext
from oneballot.runtime.scheduler import Job
from oneballot.runtime.scheduler import run as drive
from oneballot.server.context import TallyContext
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Count, Data

NEAREST = ob.Sklearn("KNeighborsClassifier", {"n_neighbors": 1})
MILD = {"scale": 0.25}
"""So little noise that votes hardly ever change."""


def two_clouds(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=count)
    return rng.normal(size=(count, 2)) + 4 * y[:, None], y


OPEN = ob.FedKT(open_vote="hard")
PUBLIC, TRUTH = two_clouds(60, seed=1)
X, Y = two_clouds(900, seed=2)
TEST = two_clouds(300, seed=3)


def election_at(privacy: object, **settings: object) -> ob.Election:
    usual = {"classes": [0, 1], "public": PUBLIC, "learner": ob.Sklearn("GaussianNB"), "method": ob.FedKT()}
    if getattr(privacy, "level", "L0") == "L1":
        usual["server_key"] = "none"  # encryption is tested elsewhere
    return ob.Election(**{**usual, **settings}, privacy=privacy)


def run(election: ob.Election, parties: int = 6):
    return simulate_parties(election, divide(election.data(X, Y), parties, "homogeneous"))


def accuracy(simulation) -> float:
    return simulation.accuracy(Data(np.float32(TEST[0]), TEST[1]))


METHODS = {
    "as it comes": ob.FedKT(),
    "the paper's": ob.FedKT.paper(),
    "the paper's, models": ob.FedKT.paper(ballot="models"),
    "open, hard": ob.FedKT(open_vote="hard"),
    "soft": ob.FedKT(voting="soft"),
    "soft, students": ob.FedKT(voting="soft", students=True),
    "prior": ob.FedKT(weights="prior"),
    "class counts": ob.FedKT(weights="class-counts", most_rows=50),
    "half of the queries": ob.FedKT(queries=0.5),
    "open, students": ob.FedKT(open_vote="hard", students=True, queries=40),
    "forty queries": ob.FedKT(queries=40),
    "two partitions": ob.FedKT(partitions=2, subsets=5),
    "consistent, no students": ob.FedKT(partitions=2, subsets=5, students=False, voting="consistent"),
}


@pytest.mark.parametrize("level", [ob.L1, ob.L2])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_with_little_noise(name: str, level) -> None:
    counted = level is ob.L2 and METHODS[name].weights == "class-counts"
    privacy = level(**MILD, **({"counts_sigma": 2.0} if counted else {}))
    simulation = run(election_at(privacy, method=METHODS[name]))
    assert accuracy(simulation) > 0.95
    for ballot in simulation.ballots:
        assert unseal(ballot.sealed, election_at(privacy, method=METHODS[name])).party == ballot.party


@pytest.mark.parametrize("mechanism", ["gumbel", "gaussian", "laplace"])
@pytest.mark.parametrize("level", [ob.L1, ob.L2])
def test_strong_noise_makes_labels_random(level, mechanism: str) -> None:
    """Labels are uniformly random."""
    election = election_at(level(scale=5000.0, mechanism=mechanism))
    promised = election.guarantee.query
    votes = np.stack([np.eye(promised.classes, dtype=np.int64)[TRUTH]] * 5).sum(axis=0)
    contexts = [TallyContext(election) if level is ob.L1 else PartyContext(election, "a") for _ in range(40)]
    right = np.mean([(ctx.decide(votes, cell="a") == TRUTH).mean() for ctx in contexts])
    assert abs(right - 1 / promised.classes) < 0.06


class TestLedgers:
    def test_ballot_and_outcome_carry_the_same_ledger_at_l2(self) -> None:
        simulation = run(election_at(ob.L2(4.0, stable_ids=False)))
        manifest = open_ballot(simulation.ballots[0].sealed).manifest
        assert manifest.privacy.epsilon == pytest.approx(4.0, rel=1e-3)
        assert (manifest.privacy.unit, manifest.privacy.adjacency, manifest.privacy.publishable) == (
            "row",
            "replace",
            True,
        )
        assert simulation.outcome.ledger == manifest.privacy

    def test_at_l1_the_outcome_has_a_guarantee_and_the_ballot_has_none(self) -> None:
        simulation = run(election_at(ob.L1(4.0)))
        ledger = open_ballot(simulation.ballots[0].sealed).manifest.privacy
        assert ledger.epsilon is None
        assert "raw votes" in ledger.describe()[0]
        assert simulation.outcome.ledger.epsilon == pytest.approx(4.0, rel=1e-3)
        assert simulation.outcome.ledger.unit == "party"

    def test_an_outcome_keeps_its_ledger_on_disk(self, tmp_path) -> None:
        outcome = run(election_at(ob.L2(4.0))).outcome
        outcome.save(tmp_path)
        assert ob.Outcome.load(tmp_path).ledger == outcome.ledger
        assert json.loads((tmp_path / "outcome.json").read_text())["privacy"]["epsilon"] == outcome.ledger.epsilon

    @pytest.mark.parametrize(
        "other",
        ["L0", ob.L1(4.0), ob.L2(3.0), ob.L2(4.0, adjacency="add-remove"), ob.L2(4.0, rehearsal=True, noise_seed=1)],
    )
    def test_a_ballot_with_another_ledger_is_refused(self, other, monkeypatch) -> None:
        """The digest is adapted, because it would reveal the change too."""
        ours, theirs = election_at(ob.L2(4.0)), election_at(other)
        theirs.__dict__["digest"] = ours.digest
        with pytest.raises(ob.OneBallotError, match="its ledger is not the election's"):
            unseal(seal({}, theirs, "a", reason="a test").sealed, ours)

    def test_noise_beyond_the_guarantee_is_not_drawn(self) -> None:
        election = election_at(ob.L2(4.0, mechanism="gumbel"), method=OPEN)
        ctx = PartyContext(election, "a")
        votes = np.ones((60, 3), dtype=np.int64)
        ctx.decide(votes, cell="partition 0")
        with pytest.raises(PrivacyError, match="draws 120 × vote, but declares 60"):
            ctx.decide(votes, cell="partition 0")
        with pytest.raises(PrivacyError, match="decides among 2 classes, but declares 3"):
            PartyContext(election, "a").decide(votes[:, :2], cell="partition 0")
        with pytest.raises(PrivacyError, match="fractional votes, but declares whole votes"):
            PartyContext(election, "a").decide(votes, cell="partition 0", unit=255)
        with pytest.raises(PrivacyError, match=r"class counts.* does not declare it"):
            PartyContext(election, "a").release(np.ones(2, dtype=np.int64), cell="class counts")

    def test_noise_is_drawn_on_one_side_only(self) -> None:
        votes = np.zeros((60, 3), dtype=np.int64)
        votes[:, 1] = 1
        tally, party = TallyContext(election_at(ob.L2(0.5))), PartyContext(election_at(ob.L1(0.5)), "a")
        assert (tally.decide(votes, cell="tally") == 1).all()
        assert (party.decide(votes, cell="partition 0") == 1).all()
        assert not tally.drawn
        assert not party.drawn


class TestCastingAgain:
    def test_every_cast_at_l2_costs_again(self) -> None:
        election = election_at(ob.L2(2.0))
        first = ob.cast(election, X[:100], Y[:100], party="a")
        second = ob.cast(election, X[:100], Y[:100], party="a", casts=2)
        assert first.digest != second.digest
        one, two = (unseal(b.sealed, election) for b in (first, second))
        assert (one.casts, two.casts) == (1, 2)
        outcome = ob.tally(election, [second])
        assert outcome.ledger.drawn == 2
        assert outcome.ledger.epsilon > 2.5

    def test_more_casts_than_a_tally_takes_are_refused(self) -> None:
        with pytest.raises(PrivacyError, match="cast number 21"):
            ob.cast(election_at(ob.L2(2.0)), X[:100], Y[:100], party="a", casts=21)

    def test_noise_comes_from_the_operating_system(self) -> None:
        election = election_at(ob.L2(0.5), method=ob.FedKT(students=False))
        ballots = [ob.cast(election, X[:100], Y[:100], party="a") for _ in range(2)]
        assert not np.array_equal(*(b.contents["votes"] for b in ballots))

    def test_a_rehearsal_is_reproducible_and_has_no_epsilon(self) -> None:
        election = election_at(ob.L2(0.5, rehearsal=True, noise_seed=7))
        one, two = (run(election) for _ in range(2))
        assert [b.digest for b in one.ballots] == [b.digest for b in two.ballots]
        assert one.outcome.ledger.epsilon is None
        assert "NOT PRIVATE" in one.outcome.ledger.describe()[0]
        other = election_at(ob.L2(0.5, rehearsal=True, noise_seed=8))
        assert not np.array_equal(run(other).ballots[0].contents["votes"], one.ballots[0].contents["votes"])


class TestTallyingAgain:
    def ballots(self, election: ob.Election, count: int) -> list[ob.Ballot]:
        return [ob.cast(election, X[i::9], Y[i::9], party=f"party-{i}") for i in range(count)]

    def test_a_second_tally_at_l1_costs_again(self) -> None:
        election = election_at(ob.L1(scale=20.0))
        ballots = self.ballots(election, 4)
        first = ob.tally(election, ballots[:3])
        second = ob.tally(election, ballots, previous=first)
        assert (first.ledger.drawn, second.ledger.drawn) == (1, 2)
        assert second.ledger.epsilon > 1.3 * first.ledger.epsilon
        assert second.ledger.epsilon == first.ledger.times(2).epsilon

    def test_the_same_ballots_again_cost_again(self) -> None:
        """Whether noise is drawn must not depend on the ballots."""
        election = election_at(ob.L1(scale=20.0))
        ballots = self.ballots(election, 3)
        first = ob.tally(election, ballots)
        assert ob.tally(election, ballots, previous=first).ledger.drawn == 2

    def test_a_budget_covers_the_planned_number_of_tallies(self, tmp_path) -> None:
        election = election_at(ob.L1(2.0, tallies=2))
        ballots, book = self.ballots(election, 4), tmp_path / "book.json"
        ob.tally(election, ballots[:2], book=book)
        second = ob.tally(election, ballots[:3], book=book)
        assert second.ledger.epsilon == pytest.approx(2.0, rel=1e-3)
        with pytest.raises(PrivacyError, match="tally number 3, but 2 are allowed"):
            ob.tally(election, ballots, book=book)
        third = ob.tally(election, ballots, book=book, over_budget=True)
        assert third.ledger.drawn == 3
        assert third.ledger.epsilon > 2.3

    def test_a_second_tally_at_l2_is_free_and_repeatable(self) -> None:
        election = election_at(ob.L2(2.0))
        ballots = self.ballots(election, 3)
        first, second = ob.tally(election, ballots), ob.tally(election, ballots)
        assert first.ledger == second.ledger
        assert np.array_equal(first.model.predict(TEST[0]), second.model.predict(TEST[0]))

    def test_a_failed_quorum_costs_nothing(self, tmp_path) -> None:
        election = election_at(ob.L1(2.0), quorum=3)
        with pytest.raises(ob.OneBallotError, match="quorum is 3"):
            ob.tally(election, self.ballots(election, 2), book=tmp_path / "book.json")
        assert not (tmp_path / "book.json").exists()


class TestPublishing:
    def test_the_published_outcome_has_no_names_and_no_votes(self, tmp_path) -> None:
        election = election_at(ob.L1(2.0, adjacency="add-remove"))
        ballots = [ob.cast(election, X[i::9], Y[i::9], party=f"clinic-{i}") for i in range(3)]
        outcome = ob.tally(election, [*ballots, b"nonsense"], without=["clinic-0"])
        outcome.save(tmp_path / "server")
        outcome.published().save(tmp_path / "public")
        everything = b"".join(path.read_bytes() for path in (tmp_path / "public").iterdir())
        assert b"clinic" not in everything
        assert b"nonsense" not in everything
        assert not any(ballot.digest.encode() in everything for ballot in ballots)
        loaded = ob.Outcome.load(tmp_path / "public")
        assert not loaded.count.sums
        assert loaded.ledger == outcome.ledger
        assert np.array_equal(loaded.model.predict(TEST[0]), outcome.model.predict(TEST[0]))
        assert b"clinic-1" in (tmp_path / "server" / "outcome.json").read_bytes()

    def test_only_the_server_has_raw_votes_and_names_at_l1(self, tmp_path) -> None:
        outcome = run(election_at(ob.L1(2.0))).outcome
        outcome.save(tmp_path / "server")
        (count,) = (tmp_path / "server").glob("count-*")
        assert count.stat().st_mode & 0o077 == 0
        assert (tmp_path / "server" / "outcome.json").stat().st_mode & 0o077 == 0
        outcome.published().save(tmp_path / "public")
        assert all(path.stat().st_mode & 0o044 == 0o044 for path in (tmp_path / "public").iterdir())


class TestSubsets:
    def deals(self, election: ob.Election, data: Data, partition: int = 0) -> list[set]:
        return [set(rows) for rows in PartyContext(election, "a").assign_subsets(data, 7, "partition", partition)]

    @pytest.mark.parametrize("ids", [True, False])
    def test_removing_a_row_moves_no_other_row(self, ids: bool) -> None:
        election = election_at(ob.L2(2.0, stable_ids=ids))
        names = np.array([f"patient {i}" for i in range(50)]) if ids else None
        data = Data(np.float32(X[:50]), Y[:50], names)
        fewer = Data(data.X[1:], data.y[1:], None if names is None else names[1:])
        before, after = self.deals(election, data), self.deals(election, fewer)
        assert [{row - 1 for row in rows if row} for rows in before] == after

    def test_a_replaced_row_with_the_same_id_stays_in_its_subset(self) -> None:
        election = election_at(ob.L2(2.0, stable_ids=True))
        names = np.array([f"patient {i}" for i in range(50)])
        data = Data(np.float32(X[:50]), Y[:50], names)
        replaced = Data(np.float32(X[50:100]), Y[50:100], names)
        assert self.deals(election, data) == self.deals(election, replaced)
        assert self.deals(election, data) != self.deals(election, data, partition=1)
        assert self.deals(election, data) != [
            set(r) for r in PartyContext(election, "b").assign_subsets(data, 7, "partition", 0)
        ]

    def test_subsets_have_similar_sizes(self) -> None:
        election = election_at(ob.L2(2.0))
        sizes = [len(rows) for rows in self.deals(election, election.data(X, Y))]
        assert sum(sizes) == len(X)
        assert min(sizes) > 0.7 * len(X) / 7

    def test_missing_ids_are_refused(self) -> None:
        election = election_at(ob.L2(2.0, stable_ids=True))
        with pytest.raises(DataError, match=r"identifies rows by stable IDs, but there are none.*ids="):
            ob.cast(election, X[:50], Y[:50], party="a")
        with pytest.raises(DataError, match="there are 50 rows but 49 IDs"):
            ob.cast(election, X[:50], Y[:50], party="a", ids=range(49))
        assert ob.cast(election, X[:50], Y[:50], party="a", ids=range(50)).abstained is None

    def test_an_empty_silo_casts_an_ordinary_ballot(self) -> None:
        election = election_at(ob.L2(2.0))
        none, some = (ob.cast(election, X[:n].reshape(n, 2), Y[:n], party="a") for n in (0, 100))
        assert none.abstained is None
        assert len(none.sealed) == len(some.sealed)

    @pytest.mark.parametrize(
        ("estimator", "voting"),
        [("GaussianNB", "soft"), ("LinearDiscriminantAnalysis", "majority"), ("LinearDiscriminantAnalysis", "soft")],
    )
    def test_no_row_can_stop_a_cast(self, estimator: str, voting: str) -> None:
        """Numbers that overflow in libraries must not prevent a ballot, which would reveal them."""
        method = ob.FedKT(subsets=3, voting=voting)
        election = election_at(ob.L2(**MILD), method=method, learner=ob.Sklearn(estimator))
        rows = np.vstack([X[:60], [[3e38, -3e38]]])
        ballot = ob.cast(election, rows, np.append(Y[:60], 1), party="a")
        assert ballot.abstained is None

    @pytest.mark.parametrize("method", [ob.FedKT(), ob.FedKT(open_vote="off"), ob.FedKT(weights="prior")])
    def test_empty_subsets_and_empty_silos_vote(self, method) -> None:
        """A ballot must not reveal an empty silo or the number of empty subsets."""
        election = election_at(ob.L2(**MILD), method=method)
        empty = Data(np.empty((0, 2), dtype=np.float32), np.empty(0, dtype=np.int64))
        three = Data(np.float32(X[:3]), Y[:3])
        ballots = cast_together(election, {"none": empty, "three": three, "many": election.data(X, Y)})
        assert all(ballot.abstained is None for ballot in ballots)
        assert len({ballot.contents["votes"].nbytes for ballot in ballots}) == 1

    @pytest.mark.parametrize(
        "method",
        [ob.FedKT(), ob.FedKT(open_vote="off", partitions=2), ob.FedKT(weights="prior"), ob.FedKT(voting="soft")],
    )
    def test_a_row_changes_the_vote_of_one_teacher_per_partition(self, method) -> None:
        """Nothing is fitted on the whole silo, so the teachers stay independent."""
        election = election_at(ob.L2(scale=3.0, stable_ids=True), method=method, learner=NEAREST)
        names = np.array([f"patient {i}" for i in range(40)])
        rng = np.random.default_rng(4)
        for _ in range(3):
            data = Data(np.float32(X[:40]), Y[:40], names)
            other = replace(data, X=data.X.copy(), y=data.y.copy())
            row = rng.integers(40)
            other.X[row], other.y[row] = rng.normal(2, 9, size=2), 1 - other.y[row]
            votes = []
            for held in (data, other):
                ctx = PartyContext(election, "a")
                _cast_at(ctx, held)
                votes.append([(v, unit) for v, unit in ctx.noised])
            for (before, unit), (after, _) in zip(*votes, strict=True):
                assert np.abs(before - after).sum(axis=1).max() <= 2 * unit


def _cast_at(ctx: PartyContext, data: Data) -> None:
    """Cast and return the context too."""
    learners = ctx.election.choose_learners({})
    drive(Job(ctx.election.method.cast(data, ctx), learners.__getitem__))


class TestAtL1:
    def test_every_query_is_labelled_even_without_votes(self) -> None:
        """Leaving out rows without votes would reveal something."""
        election = election_at(ob.L1(**MILD), method=ob.FedKT(open_vote="hard", claim=1e9))
        ballots = cast_together(election, divide(election.data(X, Y), 3, "homogeneous"))
        with TallyContext(election) as ctx:
            total = Count()
            for ballot in ballots:
                total += election.method.count(ballot, ctx)
            assert total.sums["votes"].sum() == 0
            drive(ctx.job(election.method.close, total, ctx))
            assert ctx.drawn == {"vote": len(PUBLIC)}

    def test_soft_votes_of_a_party_sum_to_at_most_one(self) -> None:
        election = election_at(ob.L1(2.0), method=ob.FedKT(voting="soft"))
        loud = seal({"votes": np.full(120, 255, dtype=np.uint8)}, election, "a")
        with TallyContext(election) as ctx:
            points = election.method.count(loud, ctx).sums["votes"]
        assert points.sum(axis=1).max() <= 255

    def test_a_party_that_claims_many_rows_weighs_one_vote(self) -> None:
        election = election_at(ob.L1(2.0), method=ob.FedKT(weights="class-counts", most_rows=20))
        honest = ob.cast(election, X[:30], Y[:30], party="a")
        loud = seal({**honest.contents, "seen": np.array([10**6, 10**6])}, election, "b")
        with TallyContext(election) as ctx:
            points = election.method.count(loud, ctx).sums["votes"]
        assert points.max() == 20

    def test_too_few_parties_cause_a_warning_before_training(self) -> None:
        with pytest.warns(ob.OneBallotWarning, match="When all 10 parties agree .* This will not work: it takes"):
            election_at(ob.L1(1.0), quorum=10)
        with pytest.warns(ob.OneBallotWarning, match="When all 6 parties agree .* This will not work"):
            run(election_at(ob.L1(0.2)))


CONFIDENT = {"mechanism": "confident", "threshold": 15.0, "answers": 20, "sigma": 0.5, "test_sigma": 0.5}


class TestConfident:
    def test_only_passing_queries_are_answered_up_to_the_limit(self) -> None:
        election = election_at(ob.L2(**CONFIDENT), method=OPEN)
        ctx = PartyContext(election, "a")
        votes = np.zeros((60, 3), dtype=np.int64)
        votes[::2, 1], votes[1::2] = 25, [9, 8, 8]
        labels = ctx.decide(votes, cell="partition 0")
        assert (labels[1::2] == -1).all()
        assert (labels[::2][:20] == 1).all()
        assert (labels[::2][20:] == -1).all()
        assert ctx.drawn == {"test": 60, "vote": 20}

    @pytest.mark.parametrize("students", [True, False])
    def test_the_model_learns_from_answered_queries(self, students: bool) -> None:
        method = ob.FedKT(students=students, open_vote="off")
        assert accuracy(run(election_at(ob.L2(**CONFIDENT), method=method))) > 0.9

    def test_unanswered_rows_are_left_out_at_l1(self) -> None:
        simulation = run(election_at(ob.L1(**{**CONFIDENT, "threshold": 3.0}), learner=NEAREST))
        assert accuracy(simulation) > 0.8

    def test_a_party_without_answers_abstains(self) -> None:
        election = election_at(ob.L2(**{**CONFIDENT, "threshold": 25.0}), method=ob.FedKT(students=True))
        guesses = np.random.default_rng(0).permutation(Y[:90])
        assert "no query passed the test" in (ob.cast(election, X[:90], guesses, party="a").abstained or "")

    def test_a_threshold_above_all_votes_is_refused(self) -> None:
        with pytest.raises(ElectionError, match="a party has 25 teachers"):
            election_at(ob.L2(**{**CONFIDENT, "threshold": 26.0}))
        with pytest.warns(WillNotWork, match="more than all votes"):
            election_at(ob.L1(**{**CONFIDENT, "threshold": 30.0})).warn_if_hopeless(29)


def test_opendp_draws_the_same_votes() -> None:
    pytest.importorskip("opendp")
    simulation = run(election_at(ob.L2(scale=0.25, mechanism="gumbel", sampler="opendp")), 3)
    assert accuracy(simulation) > 0.95


def test_the_final_model_can_weight_rows_by_the_lead_of_their_label() -> None:
    election = election_at(ob.L2(scale=0.25), method=ob.FedKT(final_weights="lead"))
    with TallyContext(election) as ctx:
        (task,) = next(election.method.close(Count({"votes": np.tile([[7, 1], [2, 5]], (30, 1))}), ctx)).tasks
    np.testing.assert_allclose(task.weight, np.tile([6, 3], 30) / 4.5)
    assert accuracy(run(election)) > 0.95
    with pytest.raises(ElectionError, match="not available at L1"):
        election_at(ob.L1(1.0), method=ob.FedKT(final_weights="lead"))


def counts_have_noise(noise: np.ndarray, sigma: float) -> bool:
    """A χ² test at 10⁻⁸ on either side, and new noise each time: 60 draws of two numbers are mostly different."""
    surprise = ((noise / sigma) ** 2).sum()
    spread = min(chi2.sf(surprise, noise.size), chi2.cdf(surprise, noise.size)) > 1e-8
    return bool(spread and len(np.unique(noise, axis=0)) > 20)


def test_class_counts_have_noise_at_l2() -> None:
    """The right amount of it, new in every cast. By chance it fails less than once in 10⁷ runs."""
    sigma, rows = 4.0, 90  # both counts are more than nine standard deviations above 0, where they are clipped
    method = ob.FedKT(weights="class-counts", subsets=1)
    election = election_at(ob.L2(scale=0.25, counts_sigma=sigma), method=method, public=PUBLIC[:5])
    exact = np.bincount(Y[:rows], minlength=2)
    assert exact.min() > 9 * sigma
    seen = np.array([ob.cast(election, X[:rows], Y[:rows], party="a").contents["seen"] for _ in range(60)])
    assert counts_have_noise(seen - exact, sigma)
    rng = np.random.default_rng(0)
    assert not counts_have_noise(np.zeros((60, 2)), sigma), "no noise is noticed"
    halves = np.round(rng.normal(0, sigma / 2, size=(200, 60, 2)))
    assert not any(counts_have_noise(half, sigma) for half in halves), "half the noise is noticed"
    assert not counts_have_noise(np.tile(np.round(rng.normal(0, sigma, size=2)), (60, 1)), sigma), "so is reused noise"
    with pytest.raises(ElectionError, match="give counts_sigma"):
        election_at(ob.L2(scale=0.25), method=ob.FedKT(weights="class-counts"))
