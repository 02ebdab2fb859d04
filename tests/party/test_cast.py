"""Casts of one party and of several parties together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import BallotError, DataError, ElectionError
from oneballot.interfaces import Method, Work
from oneballot.party.cast import cast_together
from oneballot.types import Fit, Plan


def test_parties_cast_together_as_they_would_alone(make_election, parties) -> None:
    for method in (ob.FedKT.paper(), ob.FedKT()):
        election = make_election(method=method)
        together = cast_together(election, parties)
        for ballot, (party, data) in zip(together, parties.items(), strict=True):
            assert ballot.sealed == ob.cast(election, data.X, data.y, party=party).sealed


@pytest.mark.parametrize(
    ("method", "tiers"),
    [(ob.FedKT.paper(), {"teacher": 5 * 10, "student": 5 * 2}), (ob.FedKT(), {"teacher": 5 * 3})],
    ids=["paper", "open"],
)
def test_each_tier_of_all_parties_is_one_fit_many_call(method, tiers, make_election, parties, monkeypatch) -> None:
    calls, fit_many = [], ob.Sklearn.fit_many

    def watch(self, X, tasks, classes, *, keep=True):
        calls.append((len(tasks), len(X)))
        return fit_many(self, X, tasks, classes, keep=keep)

    monkeypatch.setattr(ob.Sklearn, "fit_many", watch)
    election = make_election(method=method)
    cast_together(election, parties)
    assert [tasks for tasks, _ in calls] == list(tiers.values())
    private = sum(len(d) for d in parties.values())
    assert calls[0][1] == private + len(election.public), "the public set is in memory once, not once per party"


@pytest.mark.slow
@pytest.mark.parametrize("forest", ["ExtraTreesClassifier", "RandomForestClassifier"])
def test_the_number_of_workers_does_not_change_a_ballot(forest, make_election, parties, monkeypatch) -> None:
    election = make_election(learner=ob.Sklearn(forest, {"n_estimators": 60}))
    sealed = []
    for workers in ("1", "2"):
        monkeypatch.setenv("ONEBALLOT_WORKERS", workers)
        sealed.append([b.sealed for b in cast_together(election, parties)])
    assert sealed[0] == sealed[1]


def test_the_order_of_the_parties_does_not_change_a_ballot(election, parties) -> None:
    forward = {b.party: b.sealed for b in cast_together(election, parties)}
    backward = {b.party: b.sealed for b in cast_together(election, dict(reversed(parties.items())))}
    assert forward == backward


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda X, y: (X[:, :10], y), r"shape \(10,\), but the election's have \(64,\)"),
        (lambda X, y: (X, np.full(len(y), 99)), "'99'.* are not classes of the election"),
        (lambda X, y: (X, np.where(y == 3, np.nan, y)), r"row \d+ \(''\).* have no label. To fix it: leave out rows"),
        (lambda X, y: (np.where(X > 15, np.nan, X), y), "NaN or infinite, the first at"),
        (lambda X, y: (X, y[:-1]), "X has .* rows, but y has"),
        (lambda X, y: (X[:0], y[:0]), "at least one"),
        (lambda X, y: (X.astype(str), y), "expected numbers"),
    ],
)
def test_invalid_arrays_are_rejected_before_training(change, error, election, digits) -> None:
    with pytest.raises(DataError, match=error):
        ob.cast(election, *change(digits.X, digits.y), party="a")


@pytest.mark.parametrize("name", ["", "../a", " a", "a\u202eb", "x" * 101, ".hidden"])
def test_a_party_name_must_be_printable(name: str, election, digits) -> None:
    with pytest.raises(ElectionError, match="party name"):
        ob.cast(election, digits.X, digits.y, party=name)


@dataclass(frozen=True)
class Total(Work):
    """Work other than a fit: the sum of a party's rows. It records its calls."""

    X: np.ndarray
    role: str = "final"
    calls: ClassVar[list[tuple[str, int]]] = []

    @staticmethod
    def together(learner, works):
        Total.calls.append((learner.name, len(works)))
        return [np.float64(work.X.sum()) for work in works]


@dataclass(frozen=True)
class Sums(Method):
    """A method that requests work twice; a party with an odd number of rows requests a fit in between."""

    name: ClassVar[str] = "sums"
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})
    needs: ClassVar[dict[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    def plan(self, data, ctx):
        return Plan(1, "two sums", 16)

    def cast(self, data, ctx):
        first = yield Total(data.X)
        if len(data) % 2:
            tasks = [ob.Task(np.arange(len(data)), data.y)]
            models = yield Fit("final", data.X, tasks, 10, keep=False)
            assert len(models) == 1
        second = yield Total(data.X[:1])
        return {"sums": np.array([first, second])}

    def count(self, ballot, ctx):
        raise NotImplementedError

    def close(self, count, ctx):
        raise NotImplementedError


def test_other_work_of_all_parties_is_one_call_per_tier(make_election, digits) -> None:
    election = make_election(method=Sums())
    ranges = {"a": slice(0, 20), "b": slice(20, 41), "c": slice(41, 61)}
    parties = {party: election.data(digits.X[rows], digits.y[rows]) for party, rows in ranges.items()}
    Total.calls.clear()
    for ballot, data in zip(cast_together(election, parties), parties.values(), strict=True):
        assert ballot.contents["sums"].tolist() == [data.X.sum(), data.X[:1].sum()]
    # b requests a fit in between, so its second sum is one tier later
    assert Total.calls == [("sklearn", 3), ("sklearn", 2), ("sklearn", 1)]


def test_a_ballot_that_would_be_too_large_is_rejected_before_training() -> None:
    """The Gram matrix of 2,000 columns has 16 MB."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2000)).astype(np.float32), np.arange(20) % 2
    election = ob.Election(classes=[0, 1], method=ob.Analytic(bound=1.0), public=X, max_ballot_mb=1)
    with pytest.raises(
        BallotError, match=r"of big has 16,\d\d\d,\d\d\d bytes, but the election allows 1,048,576 \(max_ballot_mb\)"
    ):
        ob.cast(election, X, y, party="big")
