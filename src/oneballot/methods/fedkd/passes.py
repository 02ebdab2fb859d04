"""The public set seen several times, each time moved a little: what a party is asked about in further passes.

The moves are drawn from a seed that everybody shares, so that the final model sees the images that were asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

import numpy as np

from ...errors import ElectionError
from ...types import Array

REACH = {"shift": 14, "crop": 8}
"""An image is moved by at most its side divided by this: 2 of 28 pixels, 4 of 32."""

_made: WeakValueDictionary[tuple[object, ...], Array] = WeakValueDictionary()
"""While somebody has them: parties that cast together share one array."""


def check_images(public: Array, passes: int) -> None:
    if public.ndim < 3:
        raise ElectionError(
            f"passes = {passes} moves images, rows (height, width) or (channels, height, width), and a row here has "
            f"the shape {public.shape[1:]}; set passes = 1, or give the public set the shape of its images"
        )


def further(public: Array, passes: int, augment: Sequence[str], seed: int) -> Array:
    """The images of all passes but the first, one pass below the other."""
    key = (id(public), seed, passes, *augment)
    made = _made.get(key)
    if made is None:
        rng = np.random.default_rng(seed)
        made = _made[key] = np.concatenate([moved(public, augment, rng) for _ in range(passes - 1)])
    return made


def moved(images: Array, augment: Sequence[str], rng: np.random.Generator) -> Array:
    """Images `(rows, …, height, width)`, each moved and mirrored by lot; 0 comes in from outside."""
    height, width = images.shape[-2:]
    flat = images.reshape(len(images), -1, height, width)
    reach = max((height // REACH[way] for way in augment if way in REACH), default=0)
    padded = np.pad(flat, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    down, right = rng.integers(2 * reach + 1, size=(2, len(images), 1))
    columns = right + np.arange(width)
    if "flip" in augment:
        columns = np.where(rng.integers(2, size=(len(images), 1)), columns[:, ::-1], columns)
    row, channel = np.ogrid[: len(images), : flat.shape[1]]
    lines = (down + np.arange(height))[:, None, :, None]
    out = padded[row[..., None, None], channel[..., None, None], lines, columns[:, None, None, :]]
    return np.asarray(out.reshape(images.shape))
