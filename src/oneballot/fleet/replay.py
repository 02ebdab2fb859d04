"""Learns from the lessons of all parties (Zhou et al. 2021, Algorithm 1, lines 6 to 12): what the tally does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..core import Array
from .devices import find_device, one_thread, precision
from .distillation import Distilled
from .lessons import Lesson, Merging, average, interleave, learn, learn_from, step
from .logits import Logits
from .network import Network
from .recipe import Recipe


def replay(
    network: Network, start: Mapping[str, Array], lessons: Sequence[Distilled], epochs: int, heaviest: float, *,
    merging: Merging = "interleaved", device: str = "auto",
) -> tuple[dict[str, Array], int | None]:  # fmt: skip
    """The weights after all lessons, merged in one of the ways of `learn_from`, each taken `epochs` times.

    If a weight is beyond `heaviest`, or is not a number, also the number of the lesson whose step first made one so.
    """
    place = find_device(device)
    with precision(Recipe(), place), one_thread():
        net = Logits(network, place)
        each = [stacked([one], place) for one in lessons]
        first = net.stack([start])
        weights = learn_from(net, first, each, epochs, merging)
        values = dict(start) | {
            name: np.asarray(value[0].cpu().numpy()) for name, value in zip(net.names, weights, strict=True)
        }
        return values, None if _light(weights, heaviest) else _burst(net, first, each, epochs, merging, heaviest)


def _burst(
    net: Logits, weights: list[Tensor], each: Sequence[Lesson], epochs: int, merging: Merging, heaviest: float
) -> int:
    """Whose step it was; of a mean of steps or weights, whose own went furthest."""
    if merging == "weights":
        return _furthest([learn(net, weights, one, epochs) for one in each])
    lesson, number = average(each) if merging == "averaged" else interleave(each), -1
    while _light(weights, heaviest):
        number += 1
        before, j = weights, number % lesson.steps
        weights = step(net, weights, lesson.inputs[:, j], lesson.labels[:, j], lesson.rates[:, j])
    if lesson.steps > each[0].steps or len(each) == 1:
        return j % len(each)
    own = [step(net, before, one.inputs[:, j], one.labels[:, j], one.rates[:, j]) for one in each]
    return _furthest(own)


def _furthest(ends: Sequence[Sequence[Tensor]]) -> int:
    return max(range(len(ends)), key=lambda k: max(_size(weight) for weight in ends[k]))


def _size(weight: Tensor) -> float:
    return float(weight.abs().nan_to_num(torch.inf).max())


def _light(weights: Sequence[Tensor], heaviest: float) -> bool:
    return all(bool((weight.abs() <= heaviest).all()) for weight in weights)  # NaN is not


def stacked(lessons: Sequence[Distilled], device: torch.device) -> Lesson:
    """One lesson for each model."""
    return Lesson(*(
        torch.from_numpy(np.stack([getattr(lesson, name) for lesson in lessons])).to(device)
        for name in ("inputs", "labels", "rates")
    ))  # fmt: skip
