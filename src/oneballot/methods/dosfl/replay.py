"""Learns from the lessons of all parties (Zhou et al. 2021, Algorithm 1, lines 6 to 12): what the tally does."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...fleet.models.network import Network
from ...fleet.train.devices import find_device, one_thread, precision
from ...fleet.train.recipe import Recipe
from ...fleet.train.waves import run_waves
from ...types import Array
from .distillation import Distilled
from .lessons import Lesson, Merging, average, interleave, learn, learn_from, step
from .logits import Logits, Weights


@dataclass(frozen=True)
class Course:
    """What one network learns: from its first weights by the lessons of all parties, each taken `epochs` times, and
    merged in one of the ways of `learn_from`."""

    start: Mapping[str, Array]
    lessons: Sequence[Distilled]
    epochs: int
    merging: Merging = "interleaved"

    @property
    def form(self) -> Hashable:
        """What courses that are taken side by side have in common."""
        return len(self.lessons), self.lessons[0].inputs.shape, self.epochs, self.merging


@dataclass(frozen=True)
class Learned:
    """The weights after a course. burst: if one of them is too heavy, or is not a number, the number of the lesson
    whose step first made it so."""

    values: Mapping[str, Array]
    burst: int | None


def replay(network: Network, courses: Sequence[Course], heaviest: float, *, device: str = "auto") -> list[Learned]:
    """What each course leads to. On a CPU each is taken by itself, on a GPU those of one form are one fleet."""
    place = find_device(device)
    found: dict[int, Learned] = {}
    with precision(Recipe(), place), one_thread():
        net = Logits(network, place)

        def run(numbers: Sequence[int]) -> Iterator[int]:
            found.update(zip(numbers, take_courses(net, [courses[i] for i in numbers], heaviest), strict=True))
            yield len(numbers)

        waves: dict[Hashable, list[int]] = {}
        for i, course in enumerate(courses):
            waves.setdefault(i if place.type == "cpu" else course.form, []).append(i)
        for _ in run_waves(list(waves.values()), run, kept=lambda: place.type == "cpu"):
            pass
    return [found[i] for i in range(len(courses))]


def take_courses(net: Logits, courses: Sequence[Course], heaviest: float) -> list[Learned]:
    """All of them at once; they have one form."""
    epochs, merging = courses[0].epochs, courses[0].merging
    each = [stacked(one, net.device) for one in zip(*(course.lessons for course in courses), strict=True)]
    first = net.stack([course.start for course in courses])
    weights = learn_from(net, first, each, epochs, merging)
    found = []
    for i, course in enumerate(courses):
        values, burst = _one(weights, i), None
        if not _light(values, heaviest):
            burst = _burst(net, _one(first, i), [stacked([one], net.device) for one in course.lessons], epochs, merging,
                           heaviest)  # fmt: skip
        named = {name: np.asarray(value[0].cpu().numpy()) for name, value in zip(net.names, values, strict=True)}
        found.append(Learned({**course.start, **named}, burst))
    return found


def _one(weights: Weights, i: int) -> list[Tensor]:
    return [weight[i : i + 1] for weight in weights]


def _burst(
    net: Logits, weights: list[Tensor], each: Sequence[Lesson], epochs: int, merging: Merging, heaviest: float
) -> int:
    """Whose step it was; of a mean of steps or weights, whose own went furthest."""
    if merging == "weights":
        return _furthest([learn(net, weights, one, epochs) for one in each])
    lesson = average(each) if merging == "averaged" else interleave(each)
    for number in range(epochs * lesson.steps):
        before, j = weights, number % lesson.steps
        weights = step(net, weights, lesson.inputs[:, j], lesson.labels[:, j], lesson.rates[:, j])
        if not _light(weights, heaviest):
            break
    if lesson.steps > each[0].steps or len(each) == 1:
        return j % len(each)
    own = [step(net, before, one.inputs[:, j], one.labels[:, j], one.rates[:, j]) for one in each]
    return _furthest(own)


def _furthest(ends: Sequence[Sequence[Tensor]]) -> int:
    return max(range(len(ends)), key=lambda k: max(_size(weight) for weight in ends[k]))


def _size(weight: Tensor) -> float:
    return float(weight.abs().nan_to_num(torch.inf).max())


def _light(weights: Weights, heaviest: float) -> bool:
    return all(bool((weight.abs() <= heaviest).all()) for weight in weights)  # NaN is not


def stacked(lessons: Sequence[Distilled], device: torch.device) -> Lesson:
    """One lesson for each model."""
    return Lesson(*(
        torch.from_numpy(np.stack([getattr(lesson, name) for lesson in lessons])).to(device)
        for name in ("inputs", "labels", "rates")
    ))  # fmt: skip
