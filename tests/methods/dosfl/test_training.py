"""Training on the distilled data of several parties, and eavesdroppers on them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from distilling import CPU, INITIAL, NET, SETTINGS, VARIED, X, Y, party  # noqa: E402

from oneballot.methods.dosfl.distil import distil  # noqa: E402
from oneballot.methods.dosfl.distillation import DistilledData  # noqa: E402
from oneballot.methods.dosfl.initialization import RULES  # noqa: E402
from oneballot.methods.dosfl.stacked import StackedNetwork  # noqa: E402
from oneballot.methods.dosfl.steps import DistilledSteps, TrainingResult, sgd_step, train_network  # noqa: E402
from oneballot_lab.reproduce.interception import accuracies, guess_weights, perturb, perturb_weights  # noqa: E402

MERGING: list[Any] = ["interleaved", "averaged", "weights"]


@pytest.fixture(scope="module")
def two() -> list[DistilledData]:
    return distil(NET, X, [party(np.arange(20), 1), party(np.arange(20, 60), 2)], 3, CPU)


def train_on(parties: Sequence[DistilledData], merging: Any = "interleaved") -> TrainingResult:
    return train_network(NET, INITIAL, parties, 2, merging, CPU)


def test_interleaved_training_takes_one_sgd_step_of_each_party_in_turn(two: list[DistilledData]) -> None:
    result = train_on(two)
    assert result.diverged is None
    module = NET.make(INITIAL)
    for _ in range(2):
        for j in range(SETTINGS.steps):
            for data in two:
                optimizer = torch.optim.SGD(module.parameters(), lr=float(data.rates[j]))
                optimizer.zero_grad()
                F.cross_entropy(module(torch.from_numpy(data.inputs[j])), torch.from_numpy(data.labels[j])).backward()
                optimizer.step()
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(result.weights[name], value.numpy(), rtol=1e-4, atol=1e-6)


def test_averaged_training_takes_the_mean_of_the_parties_steps(two: list[DistilledData]) -> None:
    net = StackedNetwork(NET, CPU)
    weights = net.stack([INITIAL])
    parties = [DistilledSteps.stack([data], CPU) for data in two]
    for _ in range(2):
        for j in range(SETTINGS.steps):
            own = [sgd_step(net, weights, *steps[j]) for steps in parties]
            weights = [torch.stack(both).mean(0) for both in zip(*own, strict=True)]
    result = train_on(two, "averaged")
    assert result.diverged is None
    for name, weight in zip(net.names, weights, strict=True):
        np.testing.assert_allclose(result.weights[name], weight[0].numpy(), rtol=1e-4, atol=1e-6)
    alone, same = (train_on(two[:1], merging) for merging in ("averaged", "interleaved"))
    for name in net.names:
        np.testing.assert_allclose(alone.weights[name], same.weights[name], rtol=1e-4, atol=1e-6)


def test_merged_weights_are_the_mean_of_the_weights_of_each_party(two: list[DistilledData]) -> None:
    result = train_on(two, "weights")
    assert result.diverged is None
    one, other = (train_on([data]).weights for data in two)
    for name in StackedNetwork(NET, CPU).names:
        np.testing.assert_allclose(result.weights[name], (one[name] + other[name]) / 2, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("merging", MERGING)
def test_the_party_whose_step_diverges_is_named(two: list[DistilledData], merging: Any) -> None:
    rates = two[1].rates.copy()
    rates[1] = 1e30
    assert train_on([two[0], replace(two[1], rates=rates)], merging).diverged == 1


@pytest.mark.parametrize("merging", MERGING)
def test_stacked_models_are_as_accurate_as_each_alone(merging: Any) -> None:
    data = distil(NET, X, VARIED[:4], 3, CPU)
    initial, lists = [one.initial for one in VARIED[:3]], [data[:2], data[1:3], data[2:]]

    def test(which: slice) -> Any:
        return accuracies(NET, initial[which], lists[which], 2, X, Y, device="cpu", merging=merging)

    assert test(slice(3)).tolist() == [test(slice(i, i + 1)).item() for i in range(3)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("merging", MERGING)
def test_on_a_gpu_the_weights_equal_those_on_a_cpu(two: list[DistilledData], merging: Any) -> None:
    mine, theirs = (
        train_network(NET, INITIAL, two, 2, merging, torch.device(where)).weights for where in ("cuda", "cpu")
    )
    for name, value in theirs.items():
        np.testing.assert_allclose(mine[name], value, rtol=1e-3, atol=1e-4)


def test_an_eavesdropper_with_other_initial_weights_is_less_accurate() -> None:
    settings = replace(SETTINGS, local_epochs=30)
    parties = [party(np.arange(50), 3, settings), party(np.arange(50, 100), 4, settings)]
    data = distil(NET, X, parties, 3, CPU)
    (known,) = accuracies(NET, [INITIAL], [data], settings.epochs, X[100:], Y[100:], device="cpu")
    guessed = guess_weights(NET, data, settings.epochs, [11, 12], X[100:], Y[100:], device="cpu")
    assert list(guessed) == list(RULES)
    assert all(values.shape == (2,) for values in guessed.values())
    assert np.mean(list(guessed.values())) < known
    near, far = perturb_weights(
        NET, INITIAL, data, settings.epochs, [0.0, 30.0], [1, 2], X[100:], Y[100:], device="cpu"
    )
    assert near == pytest.approx(known)
    assert far.mean() < known
    away = perturb(INITIAL, 3.0, 9)
    assert np.sqrt(sum(((away[k] - INITIAL[k]) ** 2).sum() for k in INITIAL)) == pytest.approx(3.0, rel=1e-5)
