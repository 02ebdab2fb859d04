"""Rounds of several federations as one fleet: each is what it is alone, and what can be kept is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oneballot.fleet.models.network import built_in  # noqa: E402
from oneballot.fleet.train.engine import Training  # noqa: E402
from oneballot.fleet.train.recipe import Recipe  # noqa: E402
from oneballot.types import Array, Task  # noqa: E402
from oneballot_lab.reproduce.joint import Joint  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
RECIPE = Recipe(epochs=2, batch=8)
NETWORK = built_in("mlp", {"hidden": [5]}, (6,), 3)
ROWS: dict[str, Array] = {
    name: np.random.default_rng(i).normal(size=(size, 6)).astype(np.float32)
    for i, (name, size) in enumerate({"few": 12, "some": 40, "many": 90}.items())
}


def tasks_of(name: str) -> list[Task]:
    """Two parties, of which the second is pulled and the first asked."""
    rows, y = np.arange(len(ROWS[name])), np.arange(len(ROWS[name])) % 3
    half = len(rows) // 3
    return [
        Task(rows[:half], y[:half], ask=rows[half:], label=name),
        Task(rows[half:], y[half:], proximal=0.5, label=name),
    ]


def of_round(tasks: list[Task], turn: int) -> list[Task]:
    return [replace(task, seed=10 * turn + i, start=NETWORK.start(turn)) for i, task in enumerate(tasks)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", ["chain", "stacked", "loop"])
def test_each_part_is_what_it_is_alone_whoever_takes_part(how: Any, device: str) -> None:
    def make(X: Array) -> Training:
        return Training(NETWORK, X, RECIPE, 3, device=device, how=how)

    joint, alone = Joint(ROWS, make), {name: make(X) for name, X in ROWS.items()}
    tasks = {name: tasks_of(name) for name in ROWS}
    near, jobs, waves = 1e-6 if device == "cpu" else 1e-4, [], []
    for turn, here in enumerate([("few", "some", "many"), ("many", "few", "some"), ("many", "few"), ("few", "many")]):
        found = joint.run({name: of_round(tasks[name], turn) for name in here})
        assert joint.training.job is not None
        jobs.append(joint.training.job)
        waves.append(joint.training.job.kept)
        assert found.keys() == set(here)
        for name in here:
            right = alone[name].run(of_round(tasks[name], turn))
            for ours, theirs in zip(found[name].values, right.values, strict=True):
                assert all(np.allclose(ours[key], theirs[key], rtol=0, atol=near) for key in theirs)
            for said, wanted in zip(found[name].logits, right.logits, strict=True):
                assert said.shape == wanted.shape
                assert np.allclose(said, wanted, atol=10 * near)
    assert jobs[0] is jobs[1]  # the same tasks, in whatever order they came
    assert jobs[2] is jobs[3] is not jobs[0]
    if device == "cuda" and how != "loop":
        assert waves[0] is waves[1] is not None
        assert waves[2] is waves[3] is not None


def test_other_rows_are_another_round_and_nothing_is_kept_for_those_before() -> None:
    joint = Joint(ROWS, lambda X: Training(NETWORK, X, RECIPE, 3, device="cpu"))
    task = tasks_of("some")[0]
    joint.run({"some": [task]})
    before = joint.training.job
    joint.run({"some": [replace(task, rows=task.rows.copy())]})
    assert joint.training.job is not before
    assert len(joint.moved) == 2  # its rows, and those it is asked about
    joint.forget()
    assert joint.training.job is None


def test_a_pull_is_part_of_what_a_task_is() -> None:
    training = Training(NETWORK, ROWS["some"], RECIPE, 3, device="cpu")
    tasks = tasks_of("some")
    weak = training.run(tasks).values[1]
    job = training.job
    strong = training.run([tasks[0], replace(tasks[1], proximal=50.0)]).values[1]
    assert training.job is not job
    first = NETWORK.start(0)
    far = [sum(float(((one[key] - first[key]) ** 2).sum()) for key in first) for one in (weak, strong)]
    assert far[1] < far[0] / 2
