"""All methods in one table: which run, which are skipped and why, and which one is recommended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.candidates import candidates
from oneballot.contest import Contest, Entry, run_contest
from oneballot.election.targets import Better, Classes
from oneballot.errors import ElectionError
from oneballot.report.metrics import Metrics
from oneballot.server.verdict import Verdict
from oneballot.simulation import Baselines, Simulation
from oneballot.types import Array, Data

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6})


def test_methods_that_the_election_does_not_allow_are_skipped_with_the_reason(
    make_election: Callable[..., ob.Election],
) -> None:
    possible, skipped = candidates(make_election())
    assert next(iter(possible)) == "fedkt"
    assert {"ensemble:weights=open", "ensemble:weights=seen", "analytic:features=fourier", "fedkd"} <= set(possible)
    assert "gradients" in skipped["dosfl"]
    assert possible["fedkd"].method.temperature == 0  # type: ignore[attr-defined]
    assert "minutes without a GPU; to run it, give --method dense" in skipped["dense"]
    private = make_election(method=ob.FedKT(), privacy=ob.L1(epsilon=100.0, delta=1e-3))
    possible, skipped = candidates(private)
    assert "L1" in skipped["ensemble:weights=open"]
    assert all(election.level == "L1" for election in possible.values())


def test_a_costly_method_runs_if_it_is_named_or_the_elections_own(make_election: Callable[..., ob.Election]) -> None:
    pytest.importorskip("torch")
    network = ob.Torch("mlp", settings={"hidden": [8]}, epochs=1)
    assert "dense:epochs=1" in candidates(make_election(learner=network), ["dense:epochs=1"])[0]
    assert "dense" in candidates(make_election(method=ob.Dense(epochs=1), learner=network))[0]


def test_methods_can_be_named_and_the_own_one_is_not_run_twice(make_election: Callable[..., ob.Election]) -> None:
    election = make_election(method=ob.Ensemble(weights="open"))
    possible, _ = candidates(election, ["ensemble:weights=open", "fedkt:partitions=2"])
    assert list(possible) == ["ensemble", "fedkt:partitions=2"]
    assert possible["fedkt:partitions=2"].learner_of("final") == TREE
    with pytest.raises(ElectionError, match="unknown method 'fedk'"):
        candidates(election, ["fedk"])


def test_default_learners_are_not_passed_on_to_other_methods(make_election: Callable[..., ob.Election]) -> None:
    possible, _ = candidates(make_election(method=ob.Ensemble(weights="open"), learner=None), ["fedkt", "ensemble"])
    assert possible["fedkt"].learner_of("teacher") == ob.Sklearn()
    assert possible["fedkt"].learner_of("final") == ob.Sklearn("ExtraTreesClassifier")
    assert possible["ensemble"].learner_of("local").estimator == "ExtraTreesClassifier"  # type: ignore[attr-defined]


def test_the_own_method_keeps_its_settings(make_election: Callable[..., ob.Election]) -> None:
    election = make_election(method=ob.FedKT(partitions=2))
    assert candidates(election)[0]["fedkt"] is election


@pytest.mark.slow
def test_all_methods_run_among_the_same_parties(
    make_election: Callable[..., ob.Election], parties: dict[str, Data], digits
) -> None:
    election = make_election()
    test = election.data(digits.X_test, digits.y_test)
    contest = run_contest(election, parties, test, ["ensemble:weights=open", "analytic", "fedkt:queries=1e9"])
    assert [entry.label for entry in contest.entries] == ["fedkt", "ensemble:weights=open", "analytic"]
    assert "fedkt:queries=1e9" in contest.skipped
    best = contest.recommended()
    assert best.metrics.accuracy >= max(e.metrics.accuracy for e in contest.entries) - 0.05
    described = contest.describe()
    assert described["recommended"]["name"] == best.label
    assert described["baselines"]["best_party"]["party"] in parties
    assert any(sentence.startswith("The federation is") for sentence in contest.sentences())


def entry(label: str, right: Array, auc: float, bytes: int, simulation: Simulation, collapsed: bool = False) -> Entry:
    verdict = Verdict(100, {"0": 1.0, "1": 0.0}) if collapsed else None
    voted = {"a": replace(next(iter(simulation.outcome.voted.values())), bytes=bytes)}
    outcome = replace(simulation.outcome, verdict=verdict, voted=voted)
    run = Simulation(outcome, simulation.ballots[:1], simulation.parties)
    metrics = Metrics(Classes("ab"), len(right), {"accuracy": float(right.mean()), "auc": auc})
    return Entry(label, ob.Election([0, 1], np.eye(2)), run, metrics, right, 0.0)


def test_the_most_accurate_sound_method_is_recommended_and_auc_decides_within_chance(
    election: ob.Election, parties: dict[str, Data]
) -> None:
    from oneballot.simulation import simulate_parties

    run = simulate_parties(election, parties)
    right = (np.arange(1000) % 100 < 90).astype(float)
    almost = right.copy()
    almost[:3] = 0
    entries = [
        entry("good", right, 0.90, 1000, run),
        entry("better ranking", almost, 0.97, 500_000, run),
        entry("far behind", (np.arange(1000) % 100 < 60).astype(float), 0.99, 10, run),
        entry("collapsed", np.ones(1000), 0.5, 10, run, collapsed=True),
    ]
    contest = Contest(entries, {}, Baselines({}, 0.0), Data(np.zeros((1000, 2)), np.zeros(1000, dtype=int)))
    assert contest.recommended().label == "better ranking"


class Off(Classes):
    """Grades that are scored by the error alone."""

    metrics: ClassVar[Mapping[str, str]] = {"off": "mean grades off"}
    compared: ClassVar[Mapping[str, Better]] = {"off": "lower"}


@pytest.mark.parametrize("spread", [0.0, 2.0])
def test_the_targets_most_important_metric_decides_with_its_direction(
    election: ob.Election, parties: dict[str, Data], spread: float
) -> None:
    from oneballot.simulation import simulate_parties

    run, noise = simulate_parties(election, parties), np.random.default_rng(0).normal(size=200)
    entries = []
    for name, right, off in (("most often right", 0.9, 0.6), ("closest", 0.5, 0.5), ("neither", 0.4, 0.9)):
        rows = (np.arange(1000) < 1000 * right).astype(float)
        drawn = off + spread * noise * (name == "closest")
        made = entry(name, rows, 0.0, 1000, run)
        entries.append(replace(made, metrics=Metrics(Off("abc"), 1000, {"off": off}), drawn=drawn))
    assert entries[1].beats(entries[0]) == (not spread)
    contest = Contest(entries, {}, Baselines({}, 0.0), Data(np.zeros((1000, 2)), np.zeros(1000, dtype=int)))
    assert contest.recommended().label == "closest"
    assert entries[1].shown == "0.500"
