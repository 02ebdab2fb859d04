"""The recipe of a training: its settings, and the rows, augmentation and learning rate of each step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...errors import ElectionError
from ...types import Array
from .. import draws

ABSENT = -1
"""An empty place in a batch, at the end of an epoch."""

REACH = {"shift": 14, "crop": 8}
"""An image is shifted by at most its height and width divided by this: 2 of 28 pixels, 4 of 32."""

COLOURS = 3
"""Channels of an image that "auto" takes for a photograph."""

NARROWEST, LARGEST_BATCH = 32, 1 << 16


@dataclass(frozen=True)
class Recipe:
    """epochs, batch: an epoch sees every row once; its last batch may be smaller. steps: the number of full batches of
    every model instead, in repeated passes over its rows (at L2 it must not depend on how many rows there are).
    optimizer: "adam"; "adamw", or "sgd" with momentum, with a learning rate that falls to `last_rate` along a cosine,
    by epochs. augment: "shift", "crop" and "flip", or "auto", what `augmentation` chooses.
    precision: "float32", "tf32" or "bfloat16"; "float64" is for tests.
    """

    epochs: int = 10
    batch: int = 32
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    last_rate: float = 0.0
    momentum: float = 0.9
    weight_decay: float = 0.0
    augment: tuple[str, ...] = ()
    precision: str = "float32"
    steps: int | None = None

    def __post_init__(self) -> None:
        whole = {"epochs": self.epochs, "batch": self.batch, "steps": 1 if self.steps is None else self.steps}
        if bad := [name for name, value in whole.items() if value < 1]:
            raise ElectionError(f"{', '.join(bad)} must be 1 or more")
        if self.batch > LARGEST_BATCH:
            raise ElectionError(f"batch must be at most {LARGEST_BATCH:,}, not {self.batch:,}")
        choices = {"optimizer": ("adam", "adamw", "sgd"), "precision": ("float32", "tf32", "bfloat16", "float64")}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ElectionError(f"there is no {name} {getattr(self, name)!r}; there are {', '.join(known)}")
        if unknown := set(self.augment) - {"auto", "shift", "crop", "flip"}:
            names = "auto, crop, flip, shift"
            raise ElectionError(f"there is no augmentation {', '.join(sorted(unknown))}; there are {names}")

    def steps_of(self, rows: int) -> int:
        """The number of steps of a model with this many rows."""
        return self.steps or self.epochs * math.ceil(rows / self.batch)

    def width(self, rows: int) -> int:
        """The number of places in a batch: for few rows fewer than `batch`, in powers of two.

        It depends on the model's own rows only, so a model is the same whatever is trained beside it.
        """
        return self.batch if self.steps else min(self.batch, max(NARROWEST, 1 << (rows - 1).bit_length()))

    def check_images(self, shape: tuple[int, ...]) -> None:
        """Raise ElectionError if rows of this shape cannot be augmented."""
        if len(shape) != 3:
            raise ElectionError(f"augmentation is for images (channels, height, width), not for rows of {shape}")
        if set(self.augment) - {"auto", "flip"} and self.reach(shape) == (0, 0):
            raise ElectionError(
                f"images of {shape[1]} by {shape[2]} pixels are too small for {' and '.join(self.augment)}: "
                "shift needs 14 pixels a side, crop 8"
            )

    def reach(self, image: tuple[int, ...]) -> tuple[int, int]:
        """The largest shift of an image `(…, height, width)`, vertical and horizontal."""
        parts = [REACH[name] for name in self.augmentation(image) if name in REACH]
        height, width = image[-2:]
        return max([height // part for part in parts], default=0), max([width // part for part in parts], default=0)

    def augmentation(self, image: tuple[int, ...]) -> tuple[str, ...]:
        """What is done to images `(…, channels, height, width)`.

        "auto" stands for crop and flip if there are three channels, and else for shift: a mirrored photograph shows the
        same thing, a mirrored digit does not.
        """
        if "auto" not in self.augment:
            return self.augment
        return ("crop", "flip") if image[-3] == COLOURS else ("shift",)

    @property
    def anneals(self) -> bool:
        """Whether the learning rate falls, so that models in different epochs have different rates."""
        return self.optimizer != "adam"

    def epochs_done(self, rows: int, steps: int) -> int:
        """The epochs that a model has completed after this many steps."""
        return steps * self.epochs // self.steps_of(rows)

    def rates(self, rows: int, first: int, last: int) -> Array:
        """The learning rate of each step from `first` up to `last`."""
        epoch = np.arange(first, last) * self.epochs // self.steps_of(rows)
        if not self.anneals:
            return np.full(last - first, self.learning_rate)
        fall = (1 + np.cos(np.pi * epoch / self.epochs)) / 2
        return np.asarray(self.last_rate + (self.learning_rate - self.last_rate) * fall)

    def places(self, seed: int, rows: int, first: int, last: int) -> Array:
        """The row numbers that each step sees `(steps, width)`; ABSENT after the last row of an epoch."""
        return self._cut([draws.order(seed, e, rows) for e in self._epochs(rows, first, last)], rows, first, last)

    def moves(self, seed: int, rows: int, first: int, last: int, image: tuple[int, ...]) -> Array:
        """The augmentation of the images `(…, height, width)` that each step sees, `(steps, width, 3)`."""
        reach, flips, drawn = self.reach(image), "flip" in self.augmentation(image), []
        for epoch in self._epochs(rows, first, last):
            places = draws.order(seed, epoch, rows)
            drawn.append(draws.moves(seed, epoch, rows, reach, flips)[places])
        return self._cut(drawn, rows, first, last)

    def _epochs(self, rows: int, first: int, last: int) -> range:
        """The epochs to which these steps belong; with `steps`, the passes over the rows."""
        each = rows if self.steps else math.ceil(rows / self.batch)
        unit = self.batch if self.steps else 1
        return range(first * unit // each, (last * unit - 1) // each + 1)

    def _cut(self, epochs: list[Array], rows: int, first: int, last: int) -> Array:
        begin = self._epochs(rows, first, last).start
        if self.steps:
            stream = np.concatenate(epochs)[first * self.batch - begin * rows :][: (last - first) * self.batch]
            return stream.reshape(last - first, self.batch, *stream.shape[1:])
        each = math.ceil(rows / self.batch)
        width = self.width(rows)
        shape = (len(epochs), each * width, *epochs[0].shape[1:])
        out = np.full(shape, ABSENT if epochs[0].ndim == 1 else 0, dtype=epochs[0].dtype)
        for i, epoch in enumerate(epochs):
            out[i, :rows] = epoch
        return out.reshape(-1, width, *shape[2:])[first - begin * each : last - begin * each]
