"""Training on the distilled data of all parties, as the tally does (Zhou et al. 2021, Algorithm 1, lines 6 to 12)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...fleet.models.network import Network
from ...fleet.train.devices import find_device, one_thread, precision
from ...fleet.train.recipe import Recipe
from ...fleet.train.waves import run_waves
from ...types import Array
from .distillation import DistilledData
from .stacked import StackedNetwork, Weights
from .steps import DistilledSteps, Merging, descend, merge, sgd_step, train, train_merged

MAX_WEIGHT = 1e9
"""Training has diverged if a weight of the final model is larger than this."""


@dataclass(frozen=True)
class TrainingRun:
    """Train one network from its initial weights on the distilled data of all parties, `epochs` times over."""

    initial: Mapping[str, Array]
    parties: Sequence[DistilledData]
    epochs: int
    merging: Merging = "interleaved"

    @property
    def sizes(self) -> Hashable:
        """Runs whose sizes are equal can be stacked."""
        return len(self.parties), self.parties[0].inputs.shape, self.epochs, self.merging


@dataclass(frozen=True)
class TrainingResult:
    """The final weights. diverged: the index of the party whose step made a weight exceed MAX_WEIGHT or not finite."""

    weights: Mapping[str, Array]
    diverged: int | None


def train_runs(network: Network, runs: Sequence[TrainingRun], *, device: str = "auto") -> list[TrainingResult]:
    """Train each run: on a CPU one after the other, on a GPU those of equal sizes as one stack."""
    place = find_device(device)
    results: dict[int, TrainingResult] = {}
    with precision(Recipe(), place), one_thread():
        net = StackedNetwork(network, place)

        def train_wave(numbers: Sequence[int]) -> Iterator[int]:
            results.update(zip(numbers, train_stacked(net, [runs[i] for i in numbers]), strict=True))
            yield len(numbers)

        waves: dict[Hashable, list[int]] = {}
        for i, run in enumerate(runs):
            waves.setdefault(i if place.type == "cpu" else run.sizes, []).append(i)
        for _ in run_waves(list(waves.values()), train_wave, kept=lambda: place.type == "cpu"):
            pass
    return [results[i] for i in range(len(runs))]


def train_stacked(net: StackedNetwork, runs: Sequence[TrainingRun]) -> list[TrainingResult]:
    """Train runs of equal sizes side by side."""
    parties = [DistilledSteps.stack(data, net.device) for data in zip(*(run.parties for run in runs), strict=True)]
    initial = net.stack([run.initial for run in runs])
    final = train_merged(net, initial, parties, runs[0].epochs, runs[0].merging)
    results = []
    for i, run in enumerate(runs):
        weights = [weight[i : i + 1] for weight in final]
        diverged = None if _is_bounded(weights) else _find_diverging(net, run)
        trained = {name: np.asarray(weight[0].cpu().numpy()) for name, weight in zip(net.names, weights, strict=True)}
        results.append(TrainingResult({**run.initial, **trained}, diverged))
    return results


def _find_diverging(net: StackedNetwork, run: TrainingRun) -> int:
    """Train again step by step. Of averaged steps or weights, the party that goes furthest by itself diverges."""
    parties = [DistilledSteps.stack([data], net.device) for data in run.parties]
    before = net.stack([run.initial])
    if run.merging == "weights":
        return _furthest([train(net, before, steps, run.epochs) for steps in parties])
    steps = merge(parties, run.merging)
    for number, weights in enumerate(descend(net, before, steps, run.epochs)):
        j = number % len(steps)
        if not _is_bounded(weights):
            break
        before = weights
    if run.merging == "interleaved":
        return j % len(parties)
    return _furthest([sgd_step(net, before, *steps[j]) for steps in parties])


def _furthest(candidates: Sequence[Weights]) -> int:
    largest = [max(float(w.abs().nan_to_num(torch.inf).max()) for w in weights) for weights in candidates]
    return int(np.argmax(largest))


def _is_bounded(weights: Weights) -> bool:
    return all(bool((weight.abs() <= MAX_WEIGHT).all()) for weight in weights)  # false for NaN
