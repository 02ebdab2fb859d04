"""FedKT against a plain implementation of Algorithm 1, and the additions to the paper."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import ElectionError, OneBallotWarning, Spoiled
from oneballot.methods.fedkt.votes import CLAIM
from oneballot.party.cast import cast_together
from oneballot.party.context import PartyContext
from oneballot.server.context import TallyContext
from oneballot.simulation import baselines, divide, simulate_parties
from oneballot.types import Blob, Data

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6})
FOREST = ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 10})
KERNEL = ob.Kernel()


def counts_of(election: ob.Election, ballots: list[ob.Ballot]) -> list[np.ndarray]:
    with TallyContext(election) as ctx:
        return [election.method.count(b, ctx).sums["votes"] for b in ballots]


def votes_of_algorithm_1(election: ob.Election, data: Data, party: str) -> np.ndarray:
    """Lines 2 to 19 of Algorithm 1 for one party, in loops, with scikit-learn alone and the context's seeds."""
    method, public, ctx = election.method, election.public, PartyContext(election, party)
    students = []
    for j in range(method.partitions):
        order = np.random.default_rng(ctx.seed("partition", j)).permutation(len(data))
        votes = np.zeros((len(public), 10))
        for k, rows in enumerate(np.array_split(order, method.subsets)):
            if len(np.unique(data.y[rows])) == 1:
                votes[:, data.y[rows][0]] += 1
                continue
            teacher = DecisionTreeClassifier(max_depth=6, random_state=ctx.seed("teacher", j, k))
            teacher.fit(data.X[rows], data.y[rows])
            votes[np.arange(len(public)), teacher.predict(public)] += 1
        labels = ctx.decide(votes, cell=f"partition {j}")
        student = DecisionTreeClassifier(max_depth=6, random_state=ctx.seed("student", j)).fit(public, labels)
        students.append(student.predict(public))
    agreed = np.all(np.array(students) == students[0], axis=0)
    return (students[0][:, None] == np.arange(10)) & agreed[:, None]


def test_votes_equal_those_of_algorithm_1_in_the_paper(make_election, digits) -> None:
    election = make_election(method=ob.FedKT.paper())
    parties = divide(election.data(digits.X, digits.y), 4, "dirichlet:0.5", seed=3)
    counts = counts_of(election, cast_together(election, parties))
    for (party, data), counted in zip(parties.items(), counts, strict=True):
        assert np.array_equal(counted, votes_of_algorithm_1(election, data, party))


def test_the_final_model_learns_the_labels_with_the_most_votes(make_election, parties) -> None:
    election = make_election(method=ob.FedKT.paper())
    simulation = simulate_parties(election, parties)
    votes = simulation.outcome.count.sums["votes"]
    voted = votes.sum(1) > 0
    with TallyContext(election) as ctx:
        labels = ctx.decide(votes[voted], cell="tally")
        final = DecisionTreeClassifier(max_depth=6, random_state=ctx.shared_seed("final"))
    final.fit(election.public[voted], labels)
    assert np.array_equal(simulation.outcome.model.predict(election.public), final.predict(election.public))


def test_ties_are_broken_alike_at_every_party_and_favour_no_class(make_election) -> None:
    election = make_election()
    votes = np.ones((4000, 4))
    drawn = PartyContext(election, "a").decide(votes, cell="x")
    assert np.array_equal(drawn, PartyContext(election, "b").decide(votes, cell="x"))
    assert np.bincount(drawn, minlength=4).min() > 800
    assert PartyContext(election, "a").decide(np.array([[0, 2, 1]]), cell="x").tolist() == [1]


SETTINGS: dict[str, ob.FedKT] = {
    "paper": ob.FedKT.paper(),
    "paper without students": ob.FedKT.paper(students=False),
    "majority": ob.FedKT.paper(voting="majority"),
    "soft": ob.FedKT.paper(voting="soft"),
    "soft without students": ob.FedKT(open_vote="off", voting="soft", subsets=3),
    "class counts": ob.FedKT(open_vote="off", weights="class-counts"),
    "class counts, soft": ob.FedKT(open_vote="off", weights="class-counts", voting="soft"),
    "prior": ob.FedKT(open_vote="off", weights="prior", subsets=2),
    "prior with students": ob.FedKT.paper(weights="prior"),
    "half of the queries": ob.FedKT(queries=0.5),
    "open, hard": ob.FedKT(open_vote="hard"),
    "open, hard, five teachers, students": ob.FedKT(open_vote="hard", subsets=5, partitions=2, students=True),
    "open, hard, consistent": ob.FedKT(open_vote="hard", partitions=2, voting="consistent"),
    "open, weighted": ob.FedKT(),
    "open, weighted, students": ob.FedKT(partitions=2, students=True),
    "open, odds": ob.FedKT(open_vote="odds", partitions=2, subsets=2),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_votes_and_models_give_the_same_count_and_the_same_final_model(name: str, make_election, digits) -> None:
    learner = TREE if name == "paper" else KERNEL  # trees run in the sandbox, whose start takes seconds
    by_votes = make_election(method=SETTINGS[name], learner=learner)
    by_models = make_election(method=replace(SETTINGS[name], ballot="models"), learner=learner)
    held = divide(by_votes.data(digits.X, digits.y), 3, "dirichlet:0.5", seed=2)
    # The digest seeds the training, so the second election is given the first one's.
    by_models.__dict__["digest"] = by_votes.digest
    votes, models = simulate_parties(by_votes, held), simulate_parties(by_models, held)
    assert votes.outcome.count.sums.keys() == models.outcome.count.sums.keys()
    for key, value in votes.outcome.count.sums.items():
        assert np.array_equal(value, models.outcome.count.sums[key])
    assert np.array_equal(
        votes.outcome.model.predict_proba(digits.X_test), models.outcome.model.predict_proba(digits.X_test)
    )
    assert votes.outcome.bytes < models.outcome.bytes


@pytest.mark.parametrize("name", SETTINGS)
def test_a_plan_gives_the_number_of_models_and_the_size_of_the_ballot(name: str, make_election, parties) -> None:
    election = make_election(method=SETTINGS[name])
    data = parties["party-1"]
    plan = election.method.plan(data, PartyContext(election, "party-1"))
    contents = ob.cast(election, data.X, data.y, party="party-1").contents
    assert plan.bytes == sum(array.nbytes for array in contents.values())
    method = election.method
    second = int(method.second_choice)
    teachers = method.partitions * method.subsets * ((1 if method.open_vote == "off" else 2) + second)
    assert plan.models == teachers + (method.partitions * (1 + second) if method.students else 0)


def mean_accuracy(digits, method: ob.FedKT) -> float:
    """Over two seeds, with ten parties that differ much."""
    accuracies = []
    for seed in range(2):
        election = ob.Election(classes=range(10), public=digits.public, method=method, learner=FOREST, seed=seed)
        held = divide(election.data(digits.X, digits.y), 10, "dirichlet:0.1", seed)
        accuracies.append(simulate_parties(election, held).accuracy(election.data(digits.X_test, digits.y_test)))
    return float(np.mean(accuracies))


@pytest.fixture(scope="module")
def plain_accuracy(digits) -> float:
    return mean_accuracy(digits, ob.FedKT(open_vote="off", final_weights="uniform"))


@pytest.mark.slow
@pytest.mark.parametrize("open_vote", ["hard", "weighted", "odds"])
def test_the_open_vote_keeps_its_accuracy_where_parties_differ_most(open_vote: str, digits, plain_accuracy) -> None:
    assert mean_accuracy(digits, ob.FedKT(open_vote=open_vote)) > max(0.85, plain_accuracy + 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["class-counts", "prior"])
def test_weights_help_where_parties_differ(weights: str, digits, plain_accuracy) -> None:
    assert mean_accuracy(digits, ob.FedKT(open_vote="off", weights=weights, final_weights="uniform")) > plain_accuracy


def test_a_teacher_never_predicts_rows_it_was_trained_on_as_not_mine(make_election, parties) -> None:
    election = make_election(method=ob.FedKT(subsets=3, partitions=2, queries=0.7))
    steps = election.method.cast(parties["party-1"], PartyContext(election, "party-1"))
    asked, tasks = [], next(steps).tasks
    plain = [task for task in tasks if not (task.targets == 10).any()]
    assert len(plain) == 6, "one a subset, for second choices"
    assert all(task.rows.max() < len(parties["party-1"]) for task in plain)
    for task in tasks[:12]:
        background = task.rows[task.targets == 10]
        assert len(background)
        assert not np.intersect1d(background, task.ask).size
        asked.append(task.ask)
    assert np.array_equal(np.sort(np.concatenate(asked[:2])), np.sort(np.concatenate(asked[2:4])))


class TestPartiesWithFewRowsOrClasses:
    """Parties that lack classes or rows take part, and a warning names them."""

    def run(self, make_election, held: dict[str, tuple[Any, Any]], **settings: Any):
        election = make_election(**settings)
        data = {party: election.data(X, y) for party, (X, y) in held.items()}
        return simulate_parties(election, data)

    @pytest.mark.parametrize("method", [ob.FedKT.paper(), ob.FedKT(), ob.FedKT(open_vote="hard", subsets=5)])
    @pytest.mark.parametrize("learner", [TREE, ob.XGBoost(rounds=3), ob.LightGBM(rounds=3)], ids=lambda x: x.name)
    def test_parties_with_one_class_or_few_rows_are_counted(self, method, learner, make_election, digits) -> None:
        zeros = digits.y == 0
        held = {
            "full": (digits.X, digits.y),
            "only-zeros": (digits.X[zeros], digits.y[zeros]),
            "three-rows": (digits.X[:3], digits.y[:3]),
            "one-row": (digits.X[:1], digits.y[:1]),
        }
        with pytest.warns(OneBallotWarning) as caught:
            simulation = self.run(make_election, held, method=method, learner=learner)
        assert set(simulation.outcome.voted) == set(held)
        messages = " ".join(str(w.message) for w in caught)
        assert "only-zeros: no rows of class 1, 2, 3" in messages
        if (method.subsets or 1) > 1:
            assert "three-rows: it has 3 rows for" in messages

    def test_a_warning_counts_the_teachers_of_a_single_class(self, make_election, digits) -> None:
        few = np.r_[np.flatnonzero(digits.y == 0)[:30], np.flatnonzero(digits.y == 1)[:1]]
        with pytest.warns(OneBallotWarning, match="a: 4 of its 5 teachers see a single class"):
            self.run(make_election, {"a": (digits.X[few], digits.y[few])}, method=ob.FedKT(open_vote="off", subsets=5))

    def test_a_party_without_rows_abstains(self, make_election, digits, parties) -> None:
        election = make_election()
        empty = Data(np.empty((0, 64), np.float32), np.empty(0, int))
        outcome = simulate_parties(election, {**parties, "empty": empty}).outcome
        assert outcome.voted["empty"].abstained == "it has no rows"
        without = simulate_parties(election, parties).outcome
        assert np.array_equal(outcome.count.sums["votes"], without.count.sums["votes"])


def test_teacher_student_and_final_model_may_use_different_learners(make_election, digits, parties) -> None:
    learners = {
        "teacher": TREE,
        "student": ob.XGBoost(rounds=3),
        "final": ob.Sklearn("LogisticRegression", {"max_iter": 2000}),
    }
    election = make_election(method=ob.FedKT.paper(ballot="models"), learners=learners)
    simulation = simulate_parties(election, parties)
    formats = {c.format for b in simulation.ballots for c in b.contents.values()}
    assert formats == {"ubjson"}
    assert simulation.outcome.model.model_.dump().format == "skops"


def test_a_party_may_choose_its_own_learners(make_election, digits, parties) -> None:
    election = make_election(method=ob.FedKT(ballot="models"))
    ballots = []
    choices = {"party-1": ob.XGBoost(rounds=3), "party-2": ob.LightGBM(rounds=3)}
    for party, data in parties.items():
        own = {"teacher": choices[party]} if party in choices else None
        ballots.append(ob.cast(election, data.X, data.y, party=party, learners=own))
    assert len({c.format for b in ballots for c in b.contents.values() if isinstance(c, Blob)}) == 3
    outcome = ob.tally(election, ballots)
    assert len(outcome.voted) == 5
    assert not outcome.spoiled


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"open_vote": "weighted", "weights": "prior"}, "the open vote sets the weights"),
        ({"open_vote": "odds", "voting": "soft"}, "needs voting"),
        ({"open_vote": "hard", "voting": "soft"}, "cannot be combined"),
        ({"queries": 1.5}, "a fraction up to 1 or a whole number of rows, not 1.5"),
    ],
)
def test_settings_that_cannot_be_combined_are_rejected(settings, words: str) -> None:
    with pytest.raises(ElectionError, match=words):
        ob.FedKT(**settings)


@pytest.mark.parametrize(
    "settings", [{"partitions": 0}, {"queries": 0}, {"claim": 0}, {"voting": "x"}, {"partition": 2}]
)
def test_settings_out_of_range_are_rejected(settings) -> None:
    with pytest.raises(ElectionError, match=next(iter(settings))):
        ob.FedKT(**settings)


def test_an_election_without_a_public_set_is_rejected() -> None:
    with pytest.raises(ElectionError, match="fedkt needs a public set"):
        ob.Election(classes=range(10), method="fedkt", learner=TREE)


class TestHostileContents:
    def count(self, election: ob.Election, contents: dict[str, Any]) -> None:
        ballot = seal(contents, election, "forger")
        with TallyContext(election) as ctx:
            election.method.count(ballot, ctx)

    @pytest.mark.parametrize("seen", [np.full(10, -1), np.full(10, 2**40), np.full(9, 1), np.ones(10), None])
    def test_class_counts_out_of_bounds_are_spoiled(self, seen, make_election, digits, parties) -> None:
        election = make_election(method=ob.FedKT(open_vote="off", weights="class-counts"))
        data = parties["party-1"]
        good = dict(ob.cast(election, data.X, data.y, party="a").contents)
        changed = {k: v for k, v in good.items() if k != "seen"} | ({} if seen is None else {"seen": seen})
        with pytest.raises(Spoiled, match=r"class counts|expected an array 'seen'"):
            self.count(election, changed)

    @pytest.mark.parametrize("number", [0, 1, 3, 200])
    def test_an_unexpected_number_of_models_is_spoiled(self, number: int, make_election, digits, parties) -> None:
        election = make_election(method=ob.FedKT(ballot="models"))
        data = parties["party-1"]
        blob = ob.cast(election, data.X, data.y, party="a").contents["model.0"]
        with pytest.raises(Spoiled, match="models: expected 2"):
            self.count(election, {f"model.{i}": blob for i in range(number)})

    @pytest.mark.parametrize("number", [0, 2])
    def test_an_unexpected_number_of_models_for_second_choices_is_spoiled(self, number, make_election, parties) -> None:
        election = make_election(method=ob.FedKT(ballot="models"))
        data = parties["party-1"]
        blob = ob.cast(election, data.X, data.y, party="a").contents["model.0"]
        contents = {f"model.{i}": blob for i in range(2)} | {f"second.{i}": blob for i in range(number)}
        with pytest.raises(Spoiled, match=f"{number} models for second choices: expected 1"):
            self.count(election, contents)


def test_a_comparison_has_each_party_alone_and_all_together(election, digits, parties) -> None:
    test = election.data(digits.X_test, digits.y_test)
    without = baselines(election, parties, test)
    assert set(without.alone) == set(parties)
    assert without.alone_mean < without.pooled


@pytest.mark.parametrize("open_vote", ["hard", "weighted", "odds"])
def test_a_public_set_from_another_domain_gives_a_warning(open_vote: str) -> None:
    rng = np.random.default_rng(0)
    learner = ob.Sklearn("GaussianNB")
    rows, labels = rng.normal(size=(300, 4)) + 3 * (np.arange(300)[:, None] % 2), np.arange(300) % 2
    for public, warned in (
        (rng.normal(size=(100, 4)) + rng.integers(2, size=(100, 1)) * 3, False),
        (rng.normal(size=(100, 4)) + 40, True),
    ):
        method = ob.FedKT(open_vote=open_vote)
        election = ob.Election(classes=[0, 1], public=public, method=method, learner=learner)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with suppress(ElectionError):  # under the hard vote there may be nothing to learn from
                ob.simulate(election, rows, labels, parties=3)
        assert any("resemble no party" in str(w.message) for w in caught) == warned


@pytest.mark.parametrize("open_vote", ["hard", "weighted", "odds"])
def test_with_foreign_public_rows_second_choices_decide(open_vote: str) -> None:
    """The public rows are far away, in the directions of the classes: a linear teacher says which it would be."""
    rng = np.random.default_rng(0)
    corners = np.eye(3)[rng.integers(3, size=600)]
    X, y = corners + 0.1 * rng.normal(size=corners.shape), corners.argmax(axis=1)
    truth = rng.integers(3, size=90)
    public = 3 * np.eye(3)[truth] + 0.1 * rng.normal(size=(90, 3)) - 60
    learner, right = ob.Sklearn("LogisticRegression", {"max_iter": 2000}), {}
    for second in (False, True):
        method = ob.FedKT(open_vote=open_vote, second_choice=second)
        election = ob.Election(classes=[0, 1, 2], public=public, method=method, learner=learner)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OneBallotWarning)
            try:
                outcome = ob.simulate(election, X, y, parties=3).outcome
            except ElectionError:
                right[second] = 0.0
            else:
                votes = outcome.count.sums["votes"]
                right[second] = float((votes.argmax(axis=1) == truth).mean())
    assert right[True] > 0.9
    assert right[False] < 0.6


def test_a_second_choice_is_for_open_votes_at_l0() -> None:
    for settings in ({"open_vote": "off"}, {"influence": "equal"}):
        with pytest.raises(ElectionError, match="second_choice = true needs an open vote"):
            ob.Election(classes=[0, 1], public=np.zeros((9, 2)), method=ob.FedKT(second_choice=True, **settings))
    assert ob.Election(classes=[0, 1], public=np.zeros((9, 2)), method=ob.FedKT()).method.second_choice


@pytest.mark.parametrize("open_vote", ["hard", "weighted", "odds"])
def test_networks_choose_the_right_class_of_public_images_with_a_frame_that_no_party_has(open_vote: str) -> None:
    """A network that has learned to call framed images *not mine* would rank the other classes almost at random."""
    X, y = load_digits(return_X_y=True)
    public, held = np.split(np.random.default_rng(0).permutation(len(y))[:900], [150])
    framed = X[public].reshape(-1, 8, 8) / 16
    framed[:, :, [0, 7]] = 1
    learner = ob.Torch("mlp", epochs=60, batch=32, device="cpu")
    election = ob.Election(range(10), framed.reshape(-1, 64), method=ob.FedKT(open_vote=open_vote), learner=learner)
    parties = divide(Data(X[held] / 16, y[held]), 5, "dirichlet:0.5", seed=0)
    votes = simulate_parties(election, parties).outcome.count.sums["votes"]
    assert (votes.max(axis=1) < CLAIM).mean() > 0.8
    assert (votes.argmax(axis=1) == y[public]).mean() > 0.75
