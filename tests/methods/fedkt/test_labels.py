"""What the final model learns: shares of the votes, the winning classes, or what validates better on public rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ElectionError
from oneballot.learners._training import TrainedModels
from oneballot.methods.fedkt.labels import FOLDS, by_lead, validated, with_shares, with_winners
from oneballot.methods.fedkt.votes import lead
from oneballot.server.context import TallyContext
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Array, Task

VOTES = np.random.default_rng(0).dirichlet([0.4, 0.6, 0.8], 300) * 10
LABELS = VOTES.argmax(axis=1)
ROWS = np.random.default_rng(1).permutation(400)[:300]
X = np.zeros((400, 1))
PLAIN = Task(ROWS, LABELS, seed=3, required=True, label="the final model")
Make = Callable[..., ob.Election]


def choose(make_election: Make, of_shares: Array, of_winners: Array, *, rare: bool) -> str:
    """The choice if models trained on shares, and on winners, predict these classes of public rows `(400,)`."""
    shares, winners = with_shares(PLAIN, VOTES, rare=rare), with_winners(PLAIN, LABELS, 3, rare=rare)
    steps = validated(X, shares, winners, TallyContext(make_election()))
    request: Any = next(steps)
    assert len(request.tasks) == 2 * FOLDS
    for task, other in zip(request.tasks[:FOLDS], request.tasks[FOLDS:], strict=True):
        np.testing.assert_array_equal(np.sort(np.append(task.rows, task.ask)), np.sort(ROWS))
        np.testing.assert_array_equal(task.ask, other.ask)
        assert (task.kind, other.kind) == ("soft", "soft" if rare else "labels")
    answers = [np.eye(3)[of_shares[task.ask]] for task in request.tasks[:FOLDS]]
    answers += [np.eye(3)[of_winners[task.ask]] for task in request.tasks[FOLDS:]]
    with pytest.raises(StopIteration) as done:
        steps.send(TrainedModels([None] * len(answers), answers))
    assert done.value.value is shares or done.value.value is winners
    return "soft" if done.value.value is shares else "hard"


@pytest.mark.parametrize("rare", [False, True])
def test_the_labels_win_whose_models_agree_better_with_the_votes(make_election: Make, rare: bool) -> None:
    truth, wrong = np.zeros(400, dtype=int), np.zeros(400, dtype=int)
    truth[ROWS], wrong[ROWS] = LABELS, VOTES.argmin(axis=1)
    barely = truth.copy()
    barely[ROWS[0]] = wrong[ROWS[0]]
    assert choose(make_election, wrong, truth, rare=rare) == "hard"
    assert choose(make_election, truth, wrong, rare=rare) == "soft"
    assert choose(make_election, truth, truth, rare=rare) == "soft"
    assert choose(make_election, barely, truth, rare=rare) == "soft", "one row is within the error"


def test_shares_and_winners_keep_the_weights_that_they_are_given() -> None:
    np.testing.assert_allclose(with_shares(PLAIN, VOTES, rare=False).targets, VOTES / 10)
    led = with_shares(by_lead(PLAIN, VOTES), VOTES, rare=False)
    np.testing.assert_array_equal(np.asarray(led.weight), lead(VOTES))
    none = with_shares(PLAIN, np.zeros((300, 3)), rare=False).targets
    np.testing.assert_allclose(none, 1 / 3)
    assert with_winners(PLAIN, LABELS, 3, rare=False).kind == "labels"


@pytest.mark.filterwarnings("ignore::oneballot.errors.OneBallotWarning")
def test_validated_gives_the_model_of_one_of_the_two(make_election: Make, digits: Any) -> None:
    models = {}
    for labels in ("soft", "hard", "validated"):
        tree = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 8})
        election = make_election(method=ob.FedKT(final_labels=labels), learner=tree, seed=1)
        parties = divide(election.data(digits.X, digits.y), 3, "dirichlet:0.5", seed=0)
        outcome = simulate_parties(election, parties).outcome
        models[labels] = outcome.probabilities(digits.X_test).argmax(axis=1)
        assert (models[labels] == digits.y_test).mean() > 0.6


def test_an_election_that_leaves_labels_open_is_the_same_as_before(make_election: Make) -> None:
    assert "final_labels" not in ob.FedKT().describe()
    assert make_election(method=ob.FedKT()).digest != make_election(method=ob.FedKT(final_labels="hard")).digest


def test_labels_that_a_level_or_a_learner_does_not_have_are_refused(make_election: Make) -> None:
    with pytest.raises(ElectionError, match='final_labels = "soft" is not available at L1'):
        make_election(method=ob.FedKT(final_labels="soft"), privacy=ob.L1(5.0))
    neighbours = ob.Sklearn("KNeighborsClassifier")
    with pytest.raises(ElectionError, match="soft"):
        make_election(method=ob.FedKT(final_labels="validated"), learner=neighbours)
    with pytest.raises(ElectionError, match="chooses labels from votes"):
        ob.FedKT(final_labels="hard", estimate="regression").for_shares("L2")
    assert ob.FedKT(final_labels="hard").for_shares("L2").estimate == "none"
