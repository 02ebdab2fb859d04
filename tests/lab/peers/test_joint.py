"""Joint trainings: each federation has the same result as alone, and graphs are reused where possible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oneballot.fleet.models.network import built_in  # noqa: E402
from oneballot.fleet.train.recipe import Recipe  # noqa: E402
from oneballot.types import Array  # noqa: E402
from oneballot_lab.peers._joint import JointTraining  # noqa: E402
from oneballot_lab.peers._rounds import Rounds  # noqa: E402
from oneballot_lab.peers._task import RoundTask  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
RECIPE = Recipe(epochs=2, batch=8)
NETWORK = built_in("mlp", {"hidden": [5]}, (6,), 3)
ROWS: dict[str, Array] = {
    name: np.random.default_rng(i).normal(size=(size, 6)).astype(np.float32)
    for i, (name, size) in enumerate({"few": 12, "some": 40, "many": 90}.items())
}


def tasks_of(name: str) -> list[RoundTask]:
    """Two parties: the first is queried, the second has a proximal term."""
    rows, y = np.arange(len(ROWS[name])), np.arange(len(ROWS[name])) % 3
    half = len(rows) // 3
    return [
        RoundTask(rows[:half], y[:half], ask=rows[half:], label=name),
        RoundTask(rows[half:], y[half:], proximal=0.5, label=name),
    ]


def of_round(tasks: list[RoundTask], turn: int) -> list[RoundTask]:
    return [replace(task, seed=10 * turn + i, start=NETWORK.start(turn)) for i, task in enumerate(tasks)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("how", ["chain", "stacked", "loop"])
def test_each_part_has_the_same_result_as_alone(how: Any, device: str) -> None:
    def make(X: Array) -> Rounds:
        return Rounds(NETWORK, X, RECIPE, 3, device=device, how=how)

    joint, alone = JointTraining(ROWS, make), {name: make(X) for name, X in ROWS.items()}
    tasks = {name: tasks_of(name) for name in ROWS}
    near, jobs, waves = 1e-6 if device == "cpu" else 1e-4, [], []
    for turn, present in enumerate(
        [("few", "some", "many"), ("many", "few", "some"), ("many", "few"), ("few", "many")]
    ):
        results = joint.run({name: of_round(tasks[name], turn) for name in present})
        assert joint.training.job is not None
        jobs.append(joint.training.job)
        waves.append(joint.training.job.kept)
        assert results.keys() == set(present)
        for name in present:
            expected = alone[name].run(of_round(tasks[name], turn))
            for ours, theirs in zip(results[name].values, expected.values, strict=True):
                assert all(np.allclose(ours[key], theirs[key], rtol=0, atol=near) for key in theirs)
            for ours, theirs in zip(results[name].logits, expected.logits, strict=True):
                assert ours.shape == theirs.shape
                assert np.allclose(ours, theirs, atol=10 * near)
    assert jobs[0] is jobs[1]  # the same tasks, whatever their order
    assert jobs[2] is jobs[3] is not jobs[0]
    if device == "cuda" and how != "loop":
        assert waves[0] is waves[1] is not None
        assert waves[2] is waves[3] is not None


def test_other_rows_start_a_new_job_and_the_previous_one_is_freed() -> None:
    joint = JointTraining(ROWS, lambda X: Rounds(NETWORK, X, RECIPE, 3, device="cpu"))
    task = tasks_of("some")[0]
    joint.run({"some": [task]})
    before = joint.training.job
    joint.run({"some": [replace(task, rows=task.rows.copy())]})
    assert joint.training.job is not before
    assert len(joint.relocated) == 2  # its rows and its queries
    joint.forget()
    assert joint.training.job is None


def test_another_proximal_term_starts_a_new_job() -> None:
    training = Rounds(NETWORK, ROWS["some"], RECIPE, 3, device="cpu")
    tasks = tasks_of("some")
    weak = training.run(tasks).values[1]
    job = training.job
    strong = training.run([tasks[0], replace(tasks[1], proximal=50.0)]).values[1]
    assert training.job is not job
    initial = NETWORK.start(0)
    distances = [
        sum(float(((trained[key] - initial[key]) ** 2).sum()) for key in initial) for trained in (weak, strong)
    ]
    assert distances[1] < distances[0] / 2
