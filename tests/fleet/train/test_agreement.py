"""A fleet of uneven tasks learns the same parameters as a plain loop over the models."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oneballot.fleet.gpu import graphs  # noqa: E402
from oneballot.fleet.models.inputs import as_tensor  # noqa: E402
from oneballot.fleet.models.network import Network, built_in  # noqa: E402
from oneballot.fleet.train.chain import Chain, is_chain  # noqa: E402
from oneballot.fleet.train.recipe import Recipe  # noqa: E402
from oneballot.fleet.train.reference import fit_one, predict_one  # noqa: E402
from oneballot.fleet.train.schedule import Schedule  # noqa: E402
from oneballot.fleet.train.wave import Wave  # noqa: E402
from oneballot.types import Array, Task  # noqa: E402

torch.set_num_threads(1)
TEXT = {"vocabulary": 20, "dimension": 4}
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "mlp": ((12,), {"hidden": [7, 5]}),
    "cnn": ((1, 17, 16), {"channels": [2, 3], "hidden": [6, 5]}),
    "lenet": ((2, 12, 12), {"channels": [2, 3], "hidden": [6, 5]}),
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
    name: str, recipe: Recipe, tasks: list[Task], device: str, *, chain: bool, close: float = 1e-6
) -> list[dict[str, Array]]:
    network, X = network_of(name), as_tensor(make_rows(name), device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # vmap's slow loop only warns
        fleet = Wave(network, X, tasks, recipe, CLASSES, chain=chain)
        epochs = sum(fleet.train())
    assert epochs == len(tasks) * recipe.epochs
    for task, values, logits in zip(tasks, fleet.values(), fleet.predict(), strict=True):
        one = network.make(network.initial(task)).to(device, fleet.dtype)
        fit_one(one, X, task, recipe, CLASSES)
        state = one.state_dict()
        assert values.keys() == state.keys()
        for key, value in values.items():
            np.testing.assert_allclose(value, state[key].cpu().numpy(), atol=close, rtol=close, err_msg=key)
        assert task.ask is not None
        np.testing.assert_allclose(logits, predict_one(one, X, task.ask, CLASSES).numpy(), atol=100 * close)
    return fleet.values()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_uneven_tasks_learn_the_same_parameters_as_a_loop(name: str, device: str) -> None:
    recipe = Recipe(epochs=2, batch=4, learning_rate=0.01, weight_decay=1e-3, precision="float64")
    network = network_of(name)
    assert is_chain(network.bare) == (name in CHAINS)
    values = assert_same(name, recipe, make_tasks(), device, chain=name in CHAINS)
    start = network.start(0)
    assert any(not np.allclose(values[0][key], start[key], atol=1e-3) for key in start)


@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet8", "transformer"])
def test_a_fleet_agrees_with_a_loop_in_single_precision(name: str) -> None:
    """With SGD: Adam turns rounding errors into steps where a gradient is 0, as for the key bias of attention."""
    recipe = Recipe(epochs=1, batch=4, optimizer="sgd", learning_rate=0.01)
    assert_same(name, recipe, make_tasks(), "cpu", chain=name in CHAINS, close=1e-4)


@pytest.mark.parametrize("name", ["cnn", "vgg9"])
def test_a_stacked_chain_agrees_with_a_loop(name: str) -> None:
    assert_same(name, Recipe(epochs=1, batch=4, precision="float64"), make_tasks(), "cpu", chain=False)


@pytest.mark.parametrize("name", ["cnn", "lenet", "vgg9"])
def test_convolutions_as_products_of_windows_agree_with_a_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Chain.__init__
    monkeypatch.setattr(Chain, "__init__", lambda *a, **k: made(*a, **{**k, "implementation": "windows"}))
    assert_same(name, Recipe(epochs=1, batch=4, precision="float64"), make_tasks(), "cpu", chain=True)


@pytest.mark.parametrize("kind", ["soft", "scores", "multilabel"])
def test_every_type_of_target_agrees_with_a_loop(kind: str) -> None:
    recipe = Recipe(epochs=2, batch=4, learning_rate=0.05, precision="float64")
    assert_same("mlp", recipe, make_tasks(kind), "cpu", chain=True)


@pytest.mark.parametrize("device", DEVICES)
def test_sgd_anneals_each_model_by_its_own_epochs(device: str) -> None:
    recipe = Recipe(
        epochs=3, batch=4, optimizer="sgd", learning_rate=0.1, last_rate=0.01, weight_decay=1e-2, precision="float64"
    )
    assert_same("mlp", recipe, make_tasks(), device, chain=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "chain"), [("cnn", True), ("resnet8", False)])
def test_augmentation_agrees_with_a_loop(name: str, chain: bool, device: str) -> None:
    recipe = Recipe(epochs=2, batch=4, augment=("shift", "flip", "crop"), precision="float64")
    assert_same(name, recipe, make_tasks(), device, chain=chain)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["mlp", "resnet8"])
def test_training_by_steps_agrees_with_a_loop(name: str, device: str) -> None:
    tasks = make_tasks()
    recipe = Recipe(epochs=2, batch=4, steps=7, precision="float64")
    assert {recipe.steps_of(len(task.rows)) for task in tasks} == {7}
    assert_same(name, recipe, tasks, device, chain=name == "mlp")


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("name", ["mlp", "resnet8"])
def test_replayed_graphs_agree_with_a_loop(name: str) -> None:
    for optimizer in ("adam", "sgd"):
        recipe = Recipe(epochs=3, batch=4, optimizer=optimizer, learning_rate=0.05, precision="float64")
        assert_same(name, recipe, make_tasks(), "cpu", chain=name == "mlp")


def corrected(tasks: list[Task], network: Network, seed: int = 0) -> list[Task]:
    """The tasks with other initial weights, an offset each, and a proximal term for all but the first."""
    rng = np.random.default_rng(seed)
    learned = dict(network.bare.named_parameters())
    return [
        replace(
            task,
            seed=task.seed + 10 * seed,
            start=network.start(100 + seed + i),
            proximal=0.7 * i,
            offset={key: 0.1 * rng.normal(size=tuple(w.shape)).astype(np.float32) for key, w in learned.items()},
        )
        for i, task in enumerate(tasks)
    ]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet8", "textcnn"])
def test_proximal_terms_and_offsets_agree_with_a_loop(name: str, optimizer: str, device: str) -> None:
    recipe = Recipe(epochs=2, batch=4, optimizer=optimizer, learning_rate=0.02, weight_decay=1e-3, precision="float64")
    tasks, chain = corrected(make_tasks(), network_of(name)), name in CHAINS
    reference = assert_same(name, recipe, tasks, device, chain=chain)
    for changed in (
        [replace(task, proximal=0.0) for task in tasks],
        [replace(task, offset=None) for task in tasks],
        [replace(task, start=None) for task in tasks],
    ):
        values = assert_same(name, recipe, changed, device, chain=chain)
        assert any(np.abs(values[1][key] - reference[1][key]).max() > 1e-3 for key in reference[1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["mlp", "vgg9", "resnet8"])
def test_a_wave_that_is_reset_equals_a_new_wave(name: str, optimizer: str, device: str) -> None:
    assert_reset_equals_new(name, optimizer, device)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["mlp", "resnet8"])
def test_graphs_are_replayed_with_new_initial_weights(name: str, optimizer: str) -> None:
    assert_reset_equals_new(name, optimizer, "cpu")


def assert_reset_equals_new(name: str, optimizer: str, device: str) -> None:
    recipe = Recipe(epochs=2, batch=4, optimizer=optimizer, learning_rate=0.02, precision="float64")
    network, X, tasks = network_of(name), as_tensor(make_rows(name), device), make_tasks()
    rounds = [corrected(tasks, network, seed) for seed in range(3)]
    kept = Wave(network, X, rounds[0], recipe, CLASSES, chain=name in CHAINS)
    kept.runners = {}
    for number, some in enumerate(rounds):
        if number:
            kept.reset(some)
        new = Wave(network, X, some, recipe, CLASSES, chain=name in CHAINS)
        assert sum(kept.train()) == sum(new.train()) == len(tasks) * recipe.epochs
        for ours, theirs in zip(kept.values(), new.values(), strict=True):
            for key in theirs:
                np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=1e-12 if device == "cpu" else 1e-6)
        for asked, right in zip(kept.predict(), new.predict(), strict=True):
            np.testing.assert_allclose(asked, right, atol=1e-6)
    assert len(kept.runners) > 1


def test_dropout_masks_differ_by_model_and_step_and_have_the_right_rate() -> None:
    from oneballot.fleet.draws import DROPOUT, kept, key_of

    keys = torch.tensor([key_of(seed, DROPOUT) for seed in range(3)])
    first, second = (kept(keys, torch.tensor(step), 0, (50, 40), 0.25, torch.device("cpu")) for step in (0, 1))
    other = kept(keys, torch.tensor(0), 1, (50, 40), 0.25, torch.device("cpu"))
    assert first.shape == (3, 50, 40)
    for a, b in [(first[0], first[1]), (first[0], second[0]), (first[0], other[0]), (first[0][0], first[0][1])]:
        assert 0.5 < (a == b).float().mean() < 0.75  # as of independent draws: 0.75² + 0.25² = 0.625
    assert abs(first.float().mean() - 0.75) < 5 * math.sqrt(0.25 * 0.75 / first.numel())
