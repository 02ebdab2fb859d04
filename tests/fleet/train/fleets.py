"""Small networks, rows and uneven tasks, for tests that compare fleets with a plain loop."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from oneballot.fleet.gpu import graphs
from oneballot.fleet.models.inputs import as_tensor
from oneballot.fleet.models.network import Network, built_in
from oneballot.fleet.train.recipe import Recipe
from oneballot.fleet.train.reference import fit_one, predict_one
from oneballot.fleet.train.schedule import Schedule
from oneballot.fleet.train.wave import Wave
from oneballot.types import Array, Task

torch.set_num_threads(1)
TEXT = {"vocabulary": 20, "dimension": 4}
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "mlp": ((12,), {"hidden": [7, 5]}),
    "cnn": ((1, 17, 16), {"channels": [2, 3], "hidden": [6, 5]}),
    "lenet": ((2, 12, 12), {"channels": [2, 3], "hidden": [6, 5]}),
    "convnet": ((2, 9, 8), {"channels": [3, 8, 4]}),
    "vgg9": ((2, 8, 8), {"width": 2, "hidden": 6, "dropout": 0.3}),
    "resnet8": ((2, 8, 8), {"width": 2}),
    "resnet34": ((1, 8, 8), {"width": 1}),
    "textcnn": ((7,), TEXT | {"filters": 3, "widths": [2, 3], "dropout": 0.3}),
    "bilstm": ((5,), TEXT | {"hidden": 3}),
    "transformer": ((6,), TEXT | {"heads": 2, "width": 5, "layers": 1}),
}
CHAINS = ("mlp", "cnn", "lenet", "vgg9")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
ROWS, CLASSES = 40, 3
SIZES = (5, 17, 8, 1, 17)


def make_rows(name: str) -> Array:
    shape, rng = CASES[name][0], np.random.default_rng(0)
    if len(shape) == 3:
        return rng.integers(0, 256, (ROWS, *shape)).astype(np.uint8)
    if name == "mlp":
        return rng.normal(size=(ROWS, *shape)).astype(np.float32)
    return rng.integers(0, 20, (ROWS, *shape)).astype(np.int32)


def make_tasks(kind: Any = "labels") -> list[Task]:
    rng, tasks = np.random.default_rng(1), []
    for seed, size in enumerate(SIZES):
        targets = {
            "labels": rng.integers(0, CLASSES, size),
            "soft": rng.dirichlet(np.ones(CLASSES), size) * rng.random((size, 1)),
            "scores": rng.normal(size=(size, CLASSES)),
            "multilabel": rng.integers(-1, 2, (size, CLASSES)),
        }[kind]
        weight = rng.random(size) + 0.1 if seed % 2 else None
        tasks.append(Task(rng.permutation(ROWS)[:size], targets, kind, weight, seed, ask=np.arange(seed + 2)))
    return tasks


def network_of(name: str) -> Network:
    return built_in(name, CASES[name][1], CASES[name][0], CLASSES)


def assert_same(
    name: str, recipe: Recipe, tasks: list[Any], device: str, *, chain: bool, close: float = 1e-6, wave: Any = Wave,
    fit: Any = fit_one,
) -> list[dict[str, Array]]:  # fmt: skip
    """Train the tasks as a wave and one by one, with `fit`; return the parameters."""
    network, X = network_of(name), as_tensor(make_rows(name), device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # vmap's slow loop only warns
        fleet = wave(network, X, tasks, recipe, CLASSES, chain=chain)
        epochs = sum(fleet.train())
    assert epochs == len(tasks) * recipe.epochs
    for task, values, logits in zip(tasks, fleet.values(), fleet.predict(), strict=True):
        one = network.make(network.initial(task)).to(device, fleet.dtype)
        fit(one, X, task, recipe, CLASSES)
        state = one.state_dict()
        assert values.keys() == state.keys()
        for key, value in values.items():
            np.testing.assert_allclose(value, state[key].cpu().numpy(), atol=close, rtol=close, err_msg=key)
        assert task.ask is not None
        np.testing.assert_allclose(logits, predict_one(one, X, task.ask, CLASSES).numpy(), atol=100 * close)
    return fleet.values()


def simulate_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the code for a GPU on the CPU, with graphs that replay at once: chunks, blocks of steps, kept results."""

    class Nothing:
        def __init__(self, *_: Any) -> None: ...
        def __getattr__(self, name: str) -> Any:
            return lambda *a, **k: None

    for thing in ("Stream", "Event", "current_stream", "graph_pool_handle"):
        monkeypatch.setattr(torch.cuda, thing, Nothing)
    for thing in ("device", "stream"):
        monkeypatch.setattr(torch.cuda, thing, lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)

    def record(self: graphs.RecordedSteps, size: int) -> Any:
        static = [None if part is None else part.clone() for part in self._cut(0, size)]
        graph = Nothing()
        graph.replay = lambda: self.compute(*static)  # type: ignore[attr-defined]
        self.graphs[size] = graph, static  # type: ignore[assignment]
        return graph, static

    made = Wave.__init__

    def make(self: Wave, *given: Any, **more: Any) -> None:
        made(self, *given, **more)
        self.block, self.results, self.on_gpu = 3, [part.clone() for part in self.results], True
        self.schedule.recorded = True

    monkeypatch.setattr(graphs.RecordedSteps, "_record", record)
    monkeypatch.setattr(Wave, "__init__", make)
    monkeypatch.setattr(Wave, "new_runner", lambda self, count, step: graphs.RecordedSteps(self, count, step))
    monkeypatch.setattr(Schedule, "chunk_length", lambda self, count, step: 5)
