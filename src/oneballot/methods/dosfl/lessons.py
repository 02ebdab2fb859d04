"""Lessons: distilled data that teach a network in a few steps, and how a change of them changes what is learned.

A step is θ' = θ - η·∇ℓ(θ; x, y) with the mean cross entropy ℓ. Going back through it, where λ is the slope of anything
by θ', with g = ∇ℓ(θ; x, y):

    by θ: λ - η·∇_θ⟨g, λ⟩    by x: -η·∇_x⟨g, λ⟩    by y: -η·∇_y⟨g, λ⟩    by η: -⟨g, λ⟩

So only the weights of each step are kept, and g is found again on the way back: memory for one step's products instead
of all steps'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ...runtime.progress import track
from .logits import Logits, Weights

Merging = Literal["interleaved", "averaged", "weights"]


@dataclass(frozen=True)
class Lesson:
    """For each model: inputs `(models, steps, batch, …)`, labels `(models, steps, batch, classes)`, rates `(models,
    steps)`. Labels need not be probabilities."""

    inputs: Tensor
    labels: Tensor
    rates: Tensor

    @property
    def steps(self) -> int:
        return self.rates.shape[1]


def take(net: Logits, start: Weights, lesson: Lesson, epochs: int) -> list[list[Tensor]]:
    """The weights before each step of each epoch, and last those that the lesson ends with."""
    path = [list(start)]
    for _ in range(epochs):
        for j in range(lesson.steps):
            path.append(step(net, path[-1], lesson.inputs[:, j], lesson.labels[:, j], lesson.rates[:, j]))
    return path


def learn(net: Logits, start: Weights, lesson: Lesson, epochs: int) -> list[Tensor]:
    """The weights that the lesson ends with."""
    weights, count = list(start), epochs * lesson.steps
    for number in track("learning from lessons, steps", range(count), count):
        j = number % lesson.steps
        weights = step(net, weights, lesson.inputs[:, j], lesson.labels[:, j], lesson.rates[:, j])
    return weights


def learn_from(net: Logits, start: Weights, lessons: Sequence[Lesson], epochs: int, merging: Merging) -> list[Tensor]:
    """The weights that several parties' lessons end with: a step of each in turn, or the mean of their steps; or the
    mean of the weights that each of them by itself ends with."""
    if merging != "weights":
        return learn(net, start, average(lessons) if merging == "averaged" else interleave(lessons), epochs)
    total = [torch.zeros_like(weight) for weight in start]
    for lesson in lessons:
        total = [sum_ + weight for sum_, weight in zip(total, learn(net, start, lesson, epochs), strict=True)]
    return [weight / len(lessons) for weight in total]


def interleave(lessons: Sequence[Lesson]) -> Lesson:
    """One lesson of several: the first steps of all of them in their order, then the second steps, and so on."""

    def turns(parts: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(parts), 2).flatten(1, 2)

    return Lesson(*(turns([getattr(lesson, name) for lesson in lessons]) for name in ("inputs", "labels", "rates")))


def average(lessons: Sequence[Lesson]) -> Lesson:
    """One lesson of several, as long as each: its step is the mean of their steps, θ - mean η_k·∇ℓ(θ; x_k, y_k).

    The loss is linear in the labels, so each lesson's rates go into its labels, and all inputs are one batch.
    """
    labels = [lesson.labels * lesson.rates[..., None, None] for lesson in lessons]
    inputs = torch.cat([lesson.inputs for lesson in lessons], 2)
    return Lesson(inputs, torch.cat(labels, 2), torch.ones_like(lessons[0].rates))


def step(net: Logits, weights: Weights, x: Tensor, y: Tensor, rate: Tensor) -> list[Tensor]:
    found = net.slopes(weights, x, y)
    return [weight - _times(rate, slope) for weight, slope in zip(weights, found, strict=True)]


def slopes(net: Logits, path: Sequence[Weights], lesson: Lesson, last: Weights) -> tuple[Tensor, Tensor, Tensor]:
    """By inputs, labels and rates, of whatever has the slopes `last` by the weights at the end of the path."""
    by_inputs, by_labels, by_rates = (torch.zeros_like(part) for part in (lesson.inputs, lesson.labels, lesson.rates))
    down = list(last)
    for number in reversed(range(len(path) - 1)):
        j = number % lesson.steps
        rate = lesson.rates[:, j]
        change, by_weights, by_x, by_y = net.along(path[number], lesson.inputs[:, j], lesson.labels[:, j], down)
        down = [back - _times(rate, extra) for back, extra in zip(down, by_weights, strict=True)]
        by_inputs[:, j] -= _times(rate, by_x)
        by_labels[:, j] -= _times(rate, by_y)
        by_rates[:, j] -= change
    return by_inputs, by_labels, by_rates


def _times(rate: Tensor, slope: Tensor) -> Tensor:
    """Each model's rate times what it has."""
    return rate.view(-1, *[1] * (slope.dim() - 1)) * slope
