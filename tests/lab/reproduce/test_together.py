"""Cells side by side: the same results as alone, from few large trainings; errors stay in their own cell."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.runtime.progress import report_progress_to
from oneballot.runtime.scheduler import Job, run, run_each
from oneballot.simulation import simulate_parties
from oneballot.types import Steps, Task, Together
from oneballot_lab.reproduce.cells import Experiment, Failure, Result
from oneballot_lab.reproduce.dosfl import ChainRun, InterceptionRun, _train_on_all
from oneballot_lab.reproduce.experiments import ElectionRun, PeerRun
from oneballot_lab.reproduce.run_cells import _groups, _run_group, run_one

sys.path.insert(0, str(Path(__file__).parent))
from tiny import DIGITS, TREE

pytest.importorskip("torch")
from oneballot.methods.dosfl.work import DistilWork, InitialWeights, TrainWork
from oneballot_lab.peers._joint import FederationTraining

LEARNER = ob.Torch("mlp", settings={"hidden": [16]}, epochs=2)
MLP = ElectionRun(DIGITS, ob.FedKT(open_vote="odds"), replace(LEARNER, epochs=8))


def peer_run(peer: str, rounds: int, **settings: Any) -> PeerRun:
    return PeerRun(DIGITS, peer, LEARNER, {"rounds": rounds, **settings})


WHOLE = replace(DIGITS, public="none")
DOSFL = ob.DOSFL(steps=3, epochs=2, batch=10, first_rate=0.1, local_epochs=2, local_batch=64)
SHAPED = replace(LEARNER, settings={"hidden": [16], "shape": [64]})
DISTILLED = ElectionRun(WHOLE, DOSFL, SHAPED)
CHAINED = ChainRun(replace(WHOLE, parties=3), DOSFL, SHAPED)

PROX = replace(peer_run("fedprox", 2, init="outcome"), start=replace(MLP, learner=LEARNER))
"""FedKT-Prox: an election, then rounds that start from its outcome."""


def run_group(experiments: list[Any]) -> list[Result | Failure]:
    results = dict(_run_group(range(len(experiments)), [(experiment, 0) for experiment in experiments], "cpu"))
    return [results[i] for i in range(len(experiments))]


def on(learner: Any, steps: Steps[Result]) -> Steps[Result]:
    (result,) = yield Together([Job(steps, lambda _: learner)])
    return result


def figures(result: Result | Failure) -> Any:
    assert isinstance(result, Result), result
    return {k: v for k, v in result.values.items() if k != "seconds"}, result.curves


def assert_as_alone(*experiments: Any) -> None:
    for experiment, result in zip(experiments, run_group(list(experiments)), strict=True):
        assert figures(result) == figures(run_one(experiment, 0, "cpu")), experiment


def trainings(reports: list[tuple[str, int, int]]) -> list[str]:
    """The trainings that were started, in order."""
    return [what for what, done, _ in reports if done == 0 and what.startswith("training")]


def test_elections_and_single_round_peers_have_the_same_results_side_by_side():
    assert_as_alone(MLP, replace(MLP, method=ob.FedKT.paper(subsets=2)), PeerRun(DIGITS, "solo", MLP.learner))


@pytest.mark.slow
def test_iterative_peers_have_the_same_results_side_by_side():
    """With a proximal term, control variates, partial participation, and after an election."""
    assert_as_alone(
        peer_run("fedavg", 3),
        peer_run("fedprox", 3, mu=0.5),
        peer_run("scaffold", 2),
        peer_run("fedavgm", 1),
        peer_run("fedavg", 3, participation=0.5),
        peer_run("fedavg", 2, epochs=1, optimizer="sgd", learning_rate=0.1),
        PROX,
    )


@pytest.mark.parametrize("peer", ["feddf", "fedmd"])
def test_peers_with_several_trainings_per_round_have_the_same_results_side_by_side(peer: str):
    assert_as_alone(peer_run(peer, 2), replace(peer_run(peer, 2), federation=replace(DIGITS, split="dirichlet:5")))


@pytest.mark.slow
def test_distillation_has_the_same_results_side_by_side():
    """With resets and masks, other rates, epochs and steps, another number of parties, and interception."""
    added = [{"soft_labels": False}, {"soft_reset": 0.2, "masking": 0.3}, {"local_epochs": 1, "learning_rate": 0.1},
             {"steps": 2, "merging": "averaged"}, {"first_lessons": "shared", "merging": "weights"}]  # fmt: skip
    runs = [replace(DISTILLED, method=replace(DOSFL, **settings)) for settings in added]
    fewer = replace(DISTILLED, federation=replace(WHOLE, parties=2, split="shards:2"))
    assert_as_alone(*runs, fewer, InterceptionRun(replace(WHOLE, parties=2), DOSFL, SHAPED))


def test_chains_have_the_same_results_side_by_side():
    assert_as_alone(CHAINED, replace(CHAINED, method=replace(DOSFL, masking=0.3)), replace(CHAINED, replay=True),
                    replace(CHAINED, federation=replace(WHOLE, parties=2)))  # fmt: skip


def test_a_server_that_replays_trains_from_the_first_weights_on_all_ballots():
    """What a tally does, but for ballots that are for later weights."""
    election, parties, test = CHAINED._prepare(0, "cpu")
    simulation = simulate_parties(election, parties)
    model = run(_train_on_all(election.on_one_machine(), simulation.ballots))
    np.testing.assert_array_equal(model.predict_proba(test.X), simulation.probabilities(test))


def test_a_chain_with_replay_remembers_the_classes_of_earlier_parties():
    method = replace(DOSFL, steps=5, local_epochs=40)
    chain = replace(CHAINED, federation=replace(WHOLE, parties=5, split="shards:2", rows=1000), method=method)
    forgetful, replaying = run_group([chain, replace(chain, replay=True)])
    assert isinstance(forgetful, Result), forgetful
    assert isinstance(replaying, Result), replaying
    before, after = forgetful.curves["accuracy"], replaying.curves["accuracy"]
    assert before[0] == after[0]
    assert after[-1] > before[-1] + 0.04
    assert replaying.values["bytes"] == pytest.approx(forgetful.values["bytes"], rel=0.01)


def test_a_chain_skips_a_party_that_abstains_unless_it_is_the_first(monkeypatch):
    def divide(federation, data, seed):
        none = replace(data, X=data.X[:0], y=data.y[:0])
        return {"a": data, "b": none} if federation.parties == 3 else {"a": none, "b": data}

    monkeypatch.setattr(type(WHOLE), "divide", divide)
    first, second = run_one(CHAINED, 0, "cpu").curves["accuracy"]
    assert first == second
    failed = run_one(replace(CHAINED, federation=replace(WHOLE, parties=2)), 0, "cpu")
    assert isinstance(failed, Failure)
    assert "a abstains: it has no rows" in failed.reason


def test_the_parties_of_several_cells_are_distilled_together():
    reports: list[tuple[str, int, int]] = []
    with report_progress_to(lambda *report: reports.append(report)):
        run_group([DISTILLED, replace(DISTILLED, method=replace(DOSFL, masking=0.3))])
        run_group([CHAINED, CHAINED, replace(CHAINED, federation=replace(WHOLE, parties=2))])
    assert [what for what, done, _ in reports if done == 0 and what.startswith("distilling")] == [
        f"distilling for {parties} parties, epochs" for parties in (10, 3, 3, 2)
    ]
    assert [(done, total) for what, done, total in reports if what == "rounds of 3 cells"][-1] == (8, 8)


@dataclass(frozen=True)
class Distilling(Experiment):
    """Distils the rows of one party and trains on the result. bad: which of the two gets invalid input."""

    bad: str = ""

    def run(self, seed: int, device: str) -> Steps[Result]:
        return (yield from on(replace(LEARNER, device=device), self._distil(seed)))

    def _distil(self, seed: int) -> Steps[Result]:
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(20, 6)).astype(np.float32), rng.integers(0, 2, 20 - (self.bad == "labels"))
        settings = ob.DOSFL(steps=2, epochs=1, batch=2, local_epochs=2, soft_labels=False)
        initial = InitialWeights((6,), 2, "torch", seed, None)
        data, _ = yield DistilWork(initial, X, y, 1, settings, label="of 20 rows")
        start = replace(initial, row=(7 if self.bad == "start" else 6,))
        model, _ = yield TrainWork(start, ("a",), [(data.inputs, data.labels, data.rates)], settings)
        return Result({"last": float(model.predict_proba(X).sum())})

    def quick(self) -> Distilling:
        return self


def test_an_error_in_distillation_fails_only_its_own_cell():
    good, labels, start, other = run_group([Distilling(), Distilling("labels"), Distilling("start"), Distilling()])
    assert isinstance(labels, Failure)
    assert "of 20 rows has 20 rows and 19 labels to distil" in labels.reason
    assert isinstance(start, Failure)
    assert figures(good) == figures(other) == figures(run_one(Distilling(), 0, "cpu"))


def test_rounds_with_the_same_settings_are_one_training():
    cells = [peer_run("fedavg", 3), peer_run("fedprox", 2), peer_run("scaffold", 3)]
    reports: list[tuple[str, int, int]] = []
    with report_progress_to(lambda *report: reports.append(report)):
        run_group(cells)
    assert trainings(reports) == [f"training {n} parties' networks, epochs" for n in (15, 15, 10)]
    rounds = [(done, total) for what, done, total in reports if what == "rounds of 3 cells"]
    assert [done for done, _ in rounds] == sorted(done for done, _ in rounds)
    assert rounds[-1] == (8, 8)
    assert {3, 6} <= {done for done, _ in rounds}


@dataclass(frozen=True)
class Rounds(Experiment):
    """Rounds of one network. bad: a round that starts from another network's parameters."""

    rounds: int
    bad: int | None = None

    def run(self, seed: int, device: str) -> Steps[Result]:
        learner = replace(LEARNER, device=device)
        return (yield from on(learner, self._rounds(learner, seed)))

    def _rounds(self, learner: ob.Torch, seed: int) -> Steps[Result]:
        rng, network = np.random.default_rng(seed), learner.network((6,), 2)
        training = FederationTraining(network, rng.normal(size=(20, 6)), learner.recipe(), 2, "networks")
        task, jobs = Task(np.arange(20), rng.integers(0, 2, 20), label=f"of {self.rounds} rounds"), []
        for turn in range(self.rounds):
            start = learner.network((7 if turn == self.bad else 6,), 2).start(turn)
            (values,) = (yield from training.run([replace(task, start=start, seed=turn)])).values
            assert training.joint is not None
            jobs.append(training.joint.training.job)
        last = sum(float(value.sum()) for value in values.values())
        return Result({"last": last, "jobs": len(set(map(id, jobs))), "parts": len(training.joint.starts)})

    def quick(self) -> Rounds:
        return self


def test_a_training_is_reused_while_the_same_cells_take_part():
    results = run_group([Rounds(6), Rounds(6), Rounds(2)])
    assert [figures(result)[0]["jobs"] for result in results] == [2, 2, 1]
    assert figures(results[0])[0]["parts"] == 3  # rows are copied to the device once


def test_an_error_in_a_round_fails_only_its_own_cell():
    good, bad, other = run_group([Rounds(4), Rounds(4, bad=2), Rounds(4)])
    assert isinstance(bad, Failure)
    assert "of 4 rounds: its start does not fit this network" in bad.reason
    assert figures(good)[0]["last"] == figures(run_group([Rounds(4), Rounds(4)])[0])[0]["last"]
    assert isinstance(other, Result)


def test_a_diverging_peer_affects_no_other_cell():
    diverging = peer_run("fedavg", 3, optimizer="sgd", learning_rate=1e30)
    stable = peer_run("fedavg", 3, optimizer="sgd", learning_rate=0.1)
    failed, result = run_group([diverging, stable])
    assert isinstance(failed, Failure)
    assert "diverged" in failed.reason
    assert figures(result) == figures(run_one(stable, 0, "cpu"))


@pytest.fixture
def default_sigint():
    """A process that was started in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_sigint")
def test_ctrl_c_in_the_middle_of_a_round_ends_all_cells():
    ended: list[str] = []

    def cell(peer: str) -> Steps[Result]:
        try:
            return (yield from peer_run(peer, 1_000).run(0, "cpu"))
        finally:
            ended.append(peer)

    def interrupt(what: str, done: int, total: int) -> None:
        if what.startswith("training") and rounds.append(done) is None and len(rounds) == 40:
            signal.raise_signal(signal.SIGINT)

    rounds: list[int] = []
    with pytest.raises(KeyboardInterrupt), report_progress_to(interrupt):
        list(run_each([cell("fedavg"), cell("scaffold")]))
    assert ended == ["fedavg", "scaffold"]


@pytest.mark.slow
def test_results_come_as_cells_finish_and_cells_share_the_elapsed_time():
    begin = time.perf_counter()
    running = _run_group(range(3), [(Rounds(n), 0) for n in (200, 1, 200)], "cpu")
    position, first = next(running)
    early = time.perf_counter() - begin
    rest = [result.values["seconds"] for _, result in running]
    passed = time.perf_counter() - begin
    assert position == 1
    assert early < passed / 2
    assert first.values["seconds"] < min(rest)
    assert 0.9 * passed < first.values["seconds"] + sum(rest) <= passed


def test_without_a_terminal_progress_is_printed_twice_a_minute(monkeypatch: Any, capsys: Any):
    from oneballot.runtime.progress import track
    from oneballot_lab.cli import reproduce as command

    clock = iter(np.arange(0.0, 1000.0, 8.0))
    monkeypatch.setattr(command.time, "monotonic", lambda: next(clock))
    with command._progress_lines():
        for _ in track("cells (0 cached)", range(1), 1):
            list(track("training 200 networks, epochs", range(2), 2))
            list(track("rounds of 19 cells", range(10), 10))
    monkeypatch.undo()
    assert capsys.readouterr().err.splitlines() == [
        "rounds of 19 cells: 1 of 10, 1 min left",
        "rounds of 19 cells: 5 of 10, less than a minute left",
        "rounds of 19 cells: 9 of 10, less than a minute left",
        "cells (0 cached): 1 of 1",
    ]


def test_experiments_with_the_same_key_run_side_by_side():
    cnn = replace(LEARNER, module="cnn")
    cells = [
        MLP,
        peer_run("fedavg", 2),
        peer_run("scaffold", 5),
        peer_run("feddf", 2),
        peer_run("solo", 1),
        peer_run("fedgen", 2),
        peer_run("feddf", 5),
        replace(peer_run("fedprox", 2), learner=cnn),
        PeerRun(DIGITS, "fedavg", TREE),
        PROX,
    ]
    assert list(_groups([(cell, 0) for cell in cells])) == [[0, 4], [1, 2, 9], [3, 6], [5], [7], [8]]
    assert list(map(len, _groups([(MLP, seed) for seed in range(30)]))) == [12, 12, 6]
    assert list(map(len, _groups([(PROX, seed) for seed in range(50)]))) == [40, 10]


def test_distillations_on_one_data_set_and_chains_run_side_by_side():
    intercepted = InterceptionRun(WHOLE, DOSFL, SHAPED)
    many = replace(DISTILLED, federation=replace(WHOLE, parties=100))
    elsewhere = replace(DISTILLED, federation=replace(WHOLE, data="mnist"))
    cells = [MLP, DISTILLED, CHAINED, intercepted, elsewhere, many, replace(CHAINED, federation=WHOLE)]
    assert list(_groups([(cell, 0) for cell in cells])) == [[0], [1, 3, 5], [2, 6], [4]]
    assert list(map(len, _groups([(DISTILLED, seed) for seed in range(50)]))) == [20, 20, 10]
