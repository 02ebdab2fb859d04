"""Cells in step: the same figures as alone, from few and large trainings, and what goes wrong in one is its own."""

from __future__ import annotations

import signal
import sys
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.runtime.progress import report_progress_to
from oneballot.types import Task
from oneballot_lab.reproduce.cells import Failed, Found
from oneballot_lab.reproduce.distilled import Chain, Eavesdropped
from oneballot_lab.reproduce.experiments import Peered, Vote
from oneballot_lab.reproduce.in_step import joining
from oneballot_lab.reproduce.meeting import seat, together
from oneballot_lab.reproduce.running import _in_step, _run_together, run_one

sys.path.insert(0, str(Path(__file__).parent))
from tiny import DIGITS, TREE

pytest.importorskip("torch")
from oneballot.methods.dosfl.distillation import Party
from oneballot.methods.dosfl.work import DistilJob, TrainJob

LEARNER = ob.Torch("mlp", settings={"hidden": [16]}, epochs=2)
MLP = Vote(DIGITS, ob.FedKT(open_vote="odds"), replace(LEARNER, epochs=8))


def peered(peer: str, rounds: int, **settings: Any) -> Peered:
    return Peered(DIGITS, peer, LEARNER, {"rounds": rounds, **settings})


WHOLE = replace(DIGITS, public="none")
DOSFL = ob.DOSFL(steps=3, epochs=2, batch=10, first_rate=0.1, local_epochs=2, local_batch=64)
SHAPED = replace(LEARNER, settings={"hidden": [16], "shape": [64]})
DISTILLED = Vote(WHOLE, DOSFL, SHAPED)
CHAINED = Chain(replace(WHOLE, parties=3), DOSFL, SHAPED)

PROX = replace(peered("fedprox", 2, init="outcome"), start=replace(MLP, learner=LEARNER))
"""An election first, and then rounds from its outcome: FedKT-Prox."""


def run_in_step(cells: list[Any]) -> list[Found | Failed]:
    found = dict(_run_together(range(len(cells)), [(cell, 0) for cell in cells], "cpu"))
    return [found[place] for place in range(len(cells))]


def figures(found: Found | Failed) -> Any:
    assert isinstance(found, Found), found
    return {k: v for k, v in found.values.items() if k != "seconds"}, found.curves


def assert_as_alone(*cells: Any) -> None:
    for cell, ours in zip(cells, run_in_step(list(cells)), strict=True):
        assert figures(ours) == figures(run_one(cell, 0, "cpu")), cell


def trainings(told: list[tuple[str, int, int]]) -> list[str]:
    """What was trained at once, in turn."""
    return [what for what, done, _ in told if done == 0 and what.startswith("training")]


def test_elections_and_what_is_trained_once_are_the_same_in_step():
    assert_as_alone(MLP, replace(MLP, method=ob.FedKT.paper(subsets=2)), Peered(DIGITS, "solo", MLP.learner))


def test_rounds_are_the_same_in_step_whoever_ends_first_or_begins_late():
    """With a pull, with offsets, with some of the parties, and after an election."""
    assert_as_alone(
        peered("fedavg", 3), peered("fedprox", 3, mu=0.5), peered("scaffold", 2), peered("fedavgm", 1),
        peered("fedavg", 3, participation=0.5), peered("fedavg", 2, epochs=1, optimizer="sgd", learning_rate=0.1), PROX,
    )  # fmt: skip


@pytest.mark.parametrize("peer", ["feddf", "fedmd"])
def test_rounds_of_several_trainings_are_the_same_in_step(peer: str):
    assert_as_alone(peered(peer, 2), replace(peered(peer, 2), federation=replace(DIGITS, split="dirichlet:5")))


def test_lessons_are_the_same_in_step_whatever_is_added_to_them():
    """With resets and masks, other rates, epochs and steps, another number of parties, and eavesdroppers."""
    added = [{"soft_labels": False}, {"soft_reset": 0.2, "masking": 0.3}, {"local_epochs": 1, "learning_rate": 0.1},
             {"steps": 2, "merging": "averaged"}, {"first_lessons": "shared", "merging": "weights"}]  # fmt: skip
    votes = [replace(DISTILLED, method=replace(DOSFL, **settings)) for settings in added]
    fewer = replace(DISTILLED, federation=replace(WHOLE, parties=2, split="shards:2"))
    assert_as_alone(*votes, fewer, Eavesdropped(replace(WHOLE, parties=2), DOSFL, SHAPED))


def test_chains_are_the_same_in_step_whoever_ends_first():
    assert_as_alone(CHAINED, replace(CHAINED, method=replace(DOSFL, masking=0.3)),
                    replace(CHAINED, federation=replace(WHOLE, parties=2)))  # fmt: skip


def test_a_chain_passes_over_a_party_that_abstains_but_for_the_first(monkeypatch):
    def deal(federation, data, seed):
        none = replace(data, X=data.X[:0], y=data.y[:0])
        return {"a": data, "b": none} if federation.parties == 3 else {"a": none, "b": data}

    monkeypatch.setattr(type(WHOLE), "deal", deal)
    first, second = run_one(CHAINED, 0, "cpu").curves["accuracy"]
    assert first == second
    failed = run_one(replace(CHAINED, federation=replace(WHOLE, parties=2)), 0, "cpu")
    assert isinstance(failed, Failed)
    assert "a abstains: it has no rows" in failed.reason


def test_lessons_of_several_cells_are_distilled_and_learned_from_at_once_and_told_as_such():
    told: list[tuple[str, int, int]] = []
    with report_progress_to(lambda *news: told.append(news)):
        run_in_step([DISTILLED, replace(DISTILLED, method=replace(DOSFL, masking=0.3))])
        run_in_step([CHAINED, CHAINED, replace(CHAINED, federation=replace(WHOLE, parties=2))])
    assert [what for what, done, _ in told if done == 0 and what.startswith("distilling")] == [
        f"distilling for {parties} parties, epochs" for parties in (10, 3, 3, 2)
    ]
    assert [(done, total) for what, done, total in told if what == "rounds of 3 cells"][-1] == (8, 8)


@dataclass(frozen=True)
class Distilling:
    """A cell by hand: lessons of a party, and a course of them; one of the two may be of other things than it says."""

    bad: str = ""

    def run(self, seed: int, device: str) -> Found:
        rng, learner = np.random.default_rng(seed), joining(replace(LEARNER, device=device))
        network, rows = learner.network((6,), 2), np.arange(20)
        X, y = rng.normal(size=(20, 6)).astype(np.float32), rng.integers(0, 2, 20 - (self.bad == "labels"))
        settings = ob.DOSFL(steps=2, epochs=1, batch=2, local_epochs=2, soft_labels=False)
        party = Party(rows, y, network.start(seed), 1, settings, label="of 20 rows")
        (distilled,) = learner.run(DistilJob(network, X, [party], 2))
        start = learner.network((7 if self.bad == "start" else 6,), 2).start(seed)
        result = learner.run(TrainJob(network, start, [distilled], 1))
        return Found({"last": sum(float(value.sum()) for value in result.weights.values())})


def test_an_error_in_a_lesson_or_a_course_reaches_its_own_cell_alone():
    good, labels, start, other = run_in_step([Distilling(), Distilling("labels"), Distilling("start"), Distilling()])
    assert isinstance(labels, Failed)
    assert "of 20 rows has 20 rows and 19 labels to distil" in labels.reason
    assert isinstance(start, Failed)
    assert figures(good) == figures(other) == figures(run_one(Distilling(), 0, "cpu"))


def test_like_rounds_are_one_training_and_told_as_such():
    cells = [peered("fedavg", 3), peered("fedprox", 2), peered("scaffold", 3)]
    told: list[tuple[str, int, int]] = []
    with report_progress_to(lambda *news: told.append(news)):
        run_in_step(cells)
    assert trainings(told) == [f"training {n} parties' networks, epochs" for n in (15, 15, 10)]
    rounds = [(done, total) for what, done, total in told if what == "rounds of 3 cells"]
    assert [done for done, _ in rounds] == sorted(done for done, _ in rounds)
    assert rounds[-1] == (8, 8)
    assert {3, 6} <= {done for done, _ in rounds}


@dataclass(frozen=True)
class Rounds:
    """A cell by hand: rounds of one network, of which one may be of another network's numbers."""

    rounds: int
    bad: int | None = None

    def run(self, seed: int, device: str) -> Found:
        place, learner = seat.get(), joining(replace(LEARNER, device=device))
        rng, network = np.random.default_rng(seed), learner.network((6,), 2)
        training = learner.training(network, rng.normal(size=(20, 6)), learner.recipe(), 2, "networks")
        task, jobs = Task(np.arange(20), rng.integers(0, 2, 20), label=f"of {self.rounds} rounds"), []
        for turn in range(self.rounds):
            start = learner.network((7 if turn == self.bad else 6,), 2).start(turn)
            values = training.run([replace(task, start=start, seed=turn)]).values[0]
            assert place is not None
            (joint,) = place.meeting.kept.values()
            jobs.append(joint.training.job)
        last = sum(float(value.sum()) for value in values.values())
        return Found({"last": last, "jobs": len(set(map(id, jobs))), "parts": len(joint.begins)})


def test_a_training_is_kept_from_round_to_round_as_long_as_the_same_cells_come():
    found = run_in_step([Rounds(6), Rounds(6), Rounds(2)])
    assert [figures(one)[0]["jobs"] for one in found] == [2, 2, 1]
    assert figures(found[0])[0]["parts"] == 3  # brought to the device once


def test_an_error_in_a_round_reaches_its_own_cell_alone():
    good, bad, other = run_in_step([Rounds(4), Rounds(4, bad=2), Rounds(4)])
    assert isinstance(bad, Failed)
    assert "of 4 rounds: its start is not one of this network" in bad.reason
    assert figures(good)[0]["last"] == figures(run_in_step([Rounds(4), Rounds(4)])[0])[0]["last"]
    assert isinstance(other, Found)


@dataclass(frozen=True)
class Solitary:
    """A training that can only be done by itself."""

    kind = "solitary"

    def train(self, alike: Any, kept: Any) -> list[int]:
        if len(alike) > 1:
            raise MemoryError("too much at once")
        return [7]


def test_what_fails_only_together_is_done_one_by_one_and_told():
    def cell() -> Any:
        place = seat.get()
        assert place is not None
        return place.ask(Solitary())

    with pytest.warns(RuntimeWarning, match=r"2 cells could not be trained as one.*too much at once"):
        found = dict(together([cell, cell]))
    assert found == {0: 7, 1: 7}


def test_a_peer_that_grows_without_bound_stops_alone():
    wild = peered("fedavg", 3, optimizer="sgd", learning_rate=1e30)
    tame = peered("fedavg", 3, optimizer="sgd", learning_rate=0.1)
    failed, found = run_in_step([wild, tame])
    assert isinstance(failed, Failed)
    assert "grew without bound" in failed.reason
    assert figures(found) == figures(run_one(tame, 0, "cpu"))


def test_a_cell_that_fails_keeps_no_other_waiting():
    def fail() -> Found:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(together([lambda: MLP.run(0, "cpu"), fail]))


@pytest.fixture
def by_default():
    """A process that was started in the background does not hear SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("by_default")
def test_an_interrupted_run_ends_at_once_and_cells_go_home():
    """As by Ctrl-C in the middle of a round."""
    ended: list[BaseException] = []

    def cell(peer: str) -> Found:
        try:
            return peered(peer, 1_000).run(0, "cpu")
        except BaseException as error:
            ended.append(error)
            raise

    def interrupt(what: str, done: int, total: int) -> None:
        if what.startswith("training") and rounds.append(done) is None and len(rounds) == 40:
            signal.raise_signal(signal.SIGINT)

    rounds: list[int] = []
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), report_progress_to(interrupt):
        list(together([partial(cell, "fedavg"), partial(cell, "scaffold")]))
    assert [type(error) for error in ended] == [InterruptedError] * 2
    assert threading.active_count() == before


def test_cells_are_given_as_they_end_and_share_the_time_that_passes():
    begin = time.perf_counter()
    running = _run_together(range(3), [(Rounds(n), 0) for n in (200, 1, 200)], "cpu")
    place, first = next(running)
    early = time.perf_counter() - begin
    rest = [found.values["seconds"] for _, found in running]
    passed = time.perf_counter() - begin
    assert place == 1
    assert early < passed / 2
    assert first.values["seconds"] < min(rest)
    assert 0.9 * passed < first.values["seconds"] + sum(rest) <= passed


def test_where_no_bar_can_be_drawn_rounds_are_told_twice_a_minute(monkeypatch: Any, capsys: Any):
    from oneballot.runtime.progress import track
    from oneballot_lab.cli import reproduce as command

    clock = iter(np.arange(0.0, 1000.0, 8.0))
    monkeypatch.setattr(command.time, "monotonic", lambda: next(clock))
    with command._told_line_by_line():
        for _ in track("cells (0 were kept)", range(1), 1):
            list(track("training 200 networks, epochs", range(2), 2))
            list(track("rounds of 19 cells", range(10), 10))
    monkeypatch.undo()
    assert capsys.readouterr().err.splitlines() == [
        "rounds of 19 cells: 1 of 10, 1 min left",
        "rounds of 19 cells: 5 of 10, less than a minute left",
        "rounds of 19 cells: 9 of 10, less than a minute left",
        "cells (0 were kept): 1 of 1",
    ]


def test_rounds_meet_rounds_and_each_experiment_says_with_whom():
    cnn = replace(LEARNER, module="cnn")
    cells = [
        MLP, peered("fedavg", 2), peered("scaffold", 5), peered("feddf", 2), peered("solo", 1), peered("fedgen", 2),
        peered("feddf", 5), replace(peered("fedprox", 2), learner=cnn), Peered(DIGITS, "fedavg", TREE), PROX,
    ]  # fmt: skip
    met = list(_in_step([(cell, 0) for cell in cells]))
    assert met == [[0, 4], [1, 2, 9], [3, 6], [5], [7], [8]]
    assert list(map(len, _in_step([(MLP, seed) for seed in range(30)]))) == [12, 12, 6]
    assert list(map(len, _in_step([(PROX, seed) for seed in range(50)]))) == [40, 10]


def test_cells_that_distil_meet_on_one_data_set_and_chains_each_other():
    spy = Eavesdropped(WHOLE, DOSFL, SHAPED)
    many = replace(DISTILLED, federation=replace(WHOLE, parties=100))
    elsewhere = replace(DISTILLED, federation=replace(WHOLE, data="mnist"))
    cells = [MLP, DISTILLED, CHAINED, spy, elsewhere, many, replace(CHAINED, federation=WHOLE)]
    assert list(_in_step([(cell, 0) for cell in cells])) == [[0], [1, 3, 5], [2, 6], [4]]
    assert list(map(len, _in_step([(DISTILLED, seed) for seed in range(50)]))) == [20, 20, 10]
