"""Training in rounds: corrections agree with a plain loop, and a wave that is kept equals a new one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oneballot.errors import DataError  # noqa: E402
from oneballot.fleet.models.inputs import as_tensor  # noqa: E402
from oneballot.fleet.models.network import Network, built_in  # noqa: E402
from oneballot.fleet.train import loop  # noqa: E402
from oneballot.fleet.train.engine import train  # noqa: E402
from oneballot.fleet.train.recipe import Recipe  # noqa: E402
from oneballot.fleet.train.wave import Wave  # noqa: E402
from oneballot.types import Array, Task  # noqa: E402
from oneballot_lab.peers._rounds import RoundJob, Rounds, RoundWave, fit_round  # noqa: E402
from oneballot_lab.peers._task import RoundTask  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "fleet" / "train"))

from fleets import CHAINS, CLASSES, DEVICES, assert_same, make_rows, make_tasks, network_of, simulate_gpu  # noqa: E402

RECIPE = Recipe(epochs=2, batch=4)


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_gpu(monkeypatch)


def corrected(tasks: list[Task], network: Network, seed: int = 0) -> list[RoundTask]:
    """The tasks with other initial weights, an offset each, and a proximal term for all but the first."""
    rng = np.random.default_rng(seed)
    learned = dict(network.bare.named_parameters())
    return [
        replace(
            RoundTask.of(task),
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
    reference = assert_same(name, recipe, tasks, device, chain=chain, wave=RoundWave, fit=fit_round)
    for changed in (
        [replace(task, proximal=0.0) for task in tasks],
        [replace(task, offset=None) for task in tasks],
        [replace(task, start=None) for task in tasks],
    ):
        values = assert_same(name, recipe, changed, device, chain=chain, wave=RoundWave, fit=fit_round)
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
    kept = RoundWave(network, X, rounds[0], recipe, CLASSES, chain=name in CHAINS)
    kept.runners = {}
    for number, some in enumerate(rounds):
        if number:
            kept.reset(some)
        new = RoundWave(network, X, some, recipe, CLASSES, chain=name in CHAINS)
        assert sum(kept.train()) == sum(new.train()) == len(tasks) * recipe.epochs
        for ours, theirs in zip(kept.values(), new.values(), strict=True):
            for key in theirs:
                np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=1e-12 if device == "cpu" else 1e-6)
        for asked, right in zip(kept.predict(), new.predict(), strict=True):
            np.testing.assert_allclose(asked, right, atol=1e-6)
    assert len(kept.runners) > 1


def same(a: list[dict[str, Array]], b: list[dict[str, Array]]) -> bool:
    return all(np.array_equal(x[key], y[key]) for x, y in zip(a, b, strict=True) for key in x)


@pytest.mark.parametrize("how", ["chain", "stacked", "loop"])
def test_each_round_equals_a_separate_training(how: Any) -> None:
    """With the same tasks, with fewer, and with others."""
    X, network = make_rows("mlp"), network_of("mlp")
    first = [replace(task, start=network.start(50 + i)) for i, task in enumerate(make_tasks())]
    second = [replace(task, start=network.start(60 + i), seed=70 + i) for i, task in enumerate(first)]
    training = Rounds(network, X, RECIPE, CLASSES, device="cpu", how=how)
    for tasks in (first, second, second[:2], make_tasks("soft")):
        alone = train(network, X, tasks, RECIPE, CLASSES, device="cpu", how=how)
        together = training.run(tasks)
        assert same(together.values, alone.values)
        assert all(np.array_equal(a, b) for a, b in zip(together.logits, alone.logits, strict=True))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_loop_corrects_its_steps_also_in_other_processes(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PROCESSES_PAY_OFF", 0.0)
    X, network = make_rows("mlp"), network_of("mlp")
    tasks = corrected(make_tasks(), network)
    one_by_one, wave = (
        Rounds(network, X, RECIPE, CLASSES, device="cpu", how=how, workers=workers).run(tasks).values
        for how in ("loop", "chain")
    )
    for ours, theirs in zip(one_by_one, wave, strict=True):
        for key in theirs:
            np.testing.assert_allclose(ours[key], theirs[key], atol=1e-5, err_msg=key)


@pytest.mark.parametrize("as_gpu", [False, True])
def test_a_kept_wave_is_reused_only_for_the_same_tasks(as_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU keeps waves between rounds; here the CPU does. The tasks are not in the order of their steps."""
    monkeypatch.setattr(RoundJob, "keeps_wave", lambda self, numbers: len(numbers) == len(self.tasks))
    if as_gpu:
        monkeypatch.setattr(RoundJob, "_on_cpu", RoundJob.on_gpu)
        monkeypatch.setattr(RoundJob, "models_that_fit", lambda self: len(self.tasks))
    X, network, tasks = make_rows("mlp"), network_of("mlp"), make_tasks()
    recipe = Recipe(epochs=2, batch=8)
    training = Rounds(network, X, recipe, CLASSES, device="cpu")
    made = Wave.__init__
    waves: list[int] = []
    monkeypatch.setattr(Wave, "__init__", lambda self, *a, **k: (waves.append(1), made(self, *a, **k))[1])
    for number in range(3):
        some = [replace(task, seed=number, start=network.start(number)) for task in tasks]
        assert same(training.run(some).values, train(network, X, some, recipe, CLASSES, device="cpu").values)
    assert len(waves) == 1 + 3  # one for all rounds, and one for each training alone
    other = [replace(task, targets=(task.targets + 1) % CLASSES) for task in tasks]
    assert same(training.run(other).values, train(network, X, other, recipe, CLASSES, device="cpu").values)
    assert len(waves) == 6


def test_an_offset_of_another_network_is_refused() -> None:
    network, other = network_of("mlp"), built_in("mlp", {"hidden": [4]}, (12,), CLASSES)
    task = replace(RoundTask.of(make_tasks()[0]), label="m0")
    training = Rounds(network, make_rows("mlp"), RECIPE, CLASSES, device="cpu")
    with pytest.raises(DataError, match=r"m0: its offset does not fit this network: .*weight"):
        training.run([replace(task, offset=other.start(0))])
    with pytest.raises(DataError, match="its offset does not fit"):
        training.run([replace(task, offset={})])
