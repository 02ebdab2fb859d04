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
from oneballot_lab.reproduce.eavesdrop import accuracies, at_distance, moved, with_other_weights  # noqa: E402

from oneballot.methods.dosfl.distil import distil  # noqa: E402
from oneballot.methods.dosfl.distillation import DistilledData  # noqa: E402
from oneballot.methods.dosfl.initialization import RULES  # noqa: E402
from oneballot.methods.dosfl.stacked import StackedNetwork  # noqa: E402
from oneballot.methods.dosfl.steps import DistilledSteps, sgd_step  # noqa: E402
from oneballot.methods.dosfl.train import TrainingResult, TrainingRun, train_runs, train_stacked  # noqa: E402

MERGING: list[Any] = ["interleaved", "averaged", "weights"]


@pytest.fixture(scope="module")
def two() -> list[DistilledData]:
    return distil(NET, X, [party(np.arange(20), 1), party(np.arange(20, 60), 2)], 3, device="cpu")


def train_on(parties: Sequence[DistilledData], merging: Any = "interleaved") -> TrainingResult:
    (result,) = train_runs(NET, [TrainingRun(INITIAL, parties, 2, merging)], device="cpu")
    return result


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
def test_stacked_runs_equal_each_alone_and_only_the_diverging_one_diverges(merging: Any) -> None:
    data = distil(NET, X, VARIED[:4], 3, device="cpu")
    wild = replace(data[3], rates=data[3].rates * np.float32(1e30))
    runs = [
        TrainingRun(VARIED[i].initial, parties, 2, merging)
        for i, parties in enumerate((data[:2], [data[2], wild], data[2:]))
    ]
    stacked = train_stacked(StackedNetwork(NET, CPU), runs)
    assert [result.diverged for result in stacked] == [None, 1, None]
    for run, mine in zip(runs[::2], stacked[::2], strict=True):
        (alone,) = train_runs(NET, [run], device="cpu")
        for name, value in alone.weights.items():
            np.testing.assert_allclose(mine.weights[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_runs_of_any_sizes_equal_those_on_a_cpu() -> None:
    data = distil(NET, X, VARIED, 3, device="cpu")
    runs = [
        TrainingRun(one.initial, data[:k], 2, merging)
        for merging in MERGING
        for one, k in zip(VARIED, (1, 2, 2, 6, 6, 6), strict=True)
    ]
    for mine, theirs in zip(*(train_runs(NET, runs, device=where) for where in ("cuda", "cpu")), strict=True):
        for name, value in theirs.weights.items():
            np.testing.assert_allclose(mine.weights[name], value, rtol=1e-3, atol=1e-4)


def test_an_eavesdropper_with_other_initial_weights_is_less_accurate() -> None:
    settings = replace(SETTINGS, local_epochs=30)
    parties = [party(np.arange(50), 3, settings), party(np.arange(50, 100), 4, settings)]
    data = distil(NET, X, parties, 3, device="cpu")
    (known,) = accuracies(NET, [INITIAL], [data], settings.epochs, X[100:], Y[100:], device="cpu")
    guessed = with_other_weights(NET, data, settings.epochs, [11, 12], X[100:], Y[100:], device="cpu")
    assert list(guessed) == list(RULES)
    assert all(values.shape == (2,) for values in guessed.values())
    assert np.mean(list(guessed.values())) < known
    near, far = at_distance(NET, INITIAL, data, settings.epochs, [0.0, 30.0], [1, 2], X[100:], Y[100:], device="cpu")
    assert near == pytest.approx(known)
    assert far.mean() < known
    away = moved(INITIAL, 3.0, 9)
    assert np.sqrt(sum(((away[k] - INITIAL[k]) ** 2).sum() for k in INITIAL)) == pytest.approx(3.0, rel=1e-5)
