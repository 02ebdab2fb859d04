"""A fleet of uneven tasks learns the same parameters as a plain loop over the models."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oneballot.fleet.train.chain import Chain, is_chain  # noqa: E402
from oneballot.fleet.train.recipe import Recipe  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))

from fleets import CASES, CHAINS, DEVICES, assert_same, make_tasks, network_of, simulate_gpu  # noqa: E402


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
@pytest.mark.parametrize(("name", "chain"), [("mlp", True), ("convnet", False)])
def test_adamw_decays_weights_at_the_rate_of_each_model(name: str, chain: bool, device: str) -> None:
    recipe = Recipe(
        epochs=3, batch=4, optimizer="adamw", learning_rate=0.02, last_rate=0.001, weight_decay=0.3,
        precision="float64",
    )  # fmt: skip
    assert_same(name, recipe, make_tasks("soft"), device, chain=chain)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "chain"), [("cnn", True), ("resnet8", False)])
def test_augmentation_agrees_with_a_loop(name: str, chain: bool, device: str) -> None:
    recipe = Recipe(epochs=2, batch=4, augment=("shift", "flip", "crop"), precision="float64")
    assert_same(name, recipe, make_tasks(), device, chain=chain)


def test_auto_augmentation_mirrors_images_with_colours_alone() -> None:
    for channels, same in ((3, ("crop", "flip")), (1, ("shift",)), (4, ("shift",))):
        image = (channels, 32, 28)
        auto, named = (Recipe(batch=4, augment=names) for names in (("auto",), same))
        assert auto.reach(image) == named.reach(image)
        np.testing.assert_array_equal(auto.moves(1, 9, 0, 6, image), named.moves(1, 9, 0, 6, image))
        assert auto.moves(1, 9, 0, 6, image)[..., 2].any() == (channels == 3)
        auto.check_images((channels, 8, 8))  # too few pixels for a shift do no harm


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["mlp", "resnet8"])
def test_training_by_steps_agrees_with_a_loop(name: str, device: str) -> None:
    tasks = make_tasks()
    recipe = Recipe(epochs=2, batch=4, steps=7, precision="float64")
    assert {recipe.steps_of(len(task.rows)) for task in tasks} == {7}
    assert_same(name, recipe, tasks, device, chain=name == "mlp")


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_gpu(monkeypatch)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("name", ["mlp", "resnet8"])
def test_replayed_graphs_agree_with_a_loop(name: str) -> None:
    for optimizer in ("adam", "adamw", "sgd"):
        recipe = Recipe(epochs=3, batch=4, optimizer=optimizer, learning_rate=0.05, precision="float64")
        assert_same(name, recipe, make_tasks(), "cpu", chain=name == "mlp")


def test_dropout_masks_differ_by_model_and_step_and_have_the_right_rate() -> None:
    from oneballot.fleet.draws import DROPOUT, kept, key_of

    keys = torch.tensor([key_of(seed, DROPOUT) for seed in range(3)])
    first, second = (kept(keys, torch.tensor(step), 0, (50, 40), 0.25, torch.device("cpu")) for step in (0, 1))
    other = kept(keys, torch.tensor(0), 1, (50, 40), 0.25, torch.device("cpu"))
    assert first.shape == (3, 50, 40)
    for a, b in [(first[0], first[1]), (first[0], second[0]), (first[0], other[0]), (first[0][0], first[0][1])]:
        assert 0.5 < (a == b).float().mean() < 0.75  # as of independent draws: 0.75² + 0.25² = 0.625
    assert abs(first.float().mean() - 0.75) < 5 * math.sqrt(0.25 * 0.75 / first.numel())
