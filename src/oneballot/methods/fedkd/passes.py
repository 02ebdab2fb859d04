"""Further passes over the public images, each augmented anew (FedKD, Table 2).

The augmentation comes from a shared seed, so that the final model is trained on the images that parties predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

import numpy as np

from ...errors import ElectionError
from ...types import Array

REACH = {"shift": 14, "crop": 8}
"""An image moves by at most its height divided by this: 2 of 28 pixels, 4 of 32."""

_cache: WeakValueDictionary[tuple[object, ...], Array] = WeakValueDictionary()
"""Parties that cast together share one array, which lives as long as one of them holds it."""


def check_images(public: Array, passes: int) -> None:
    if public.ndim < 3:
        raise ElectionError(
            f"passes = {passes} needs images, rows (height, width) or (channels, height, width), but a public row has "
            f"the shape {public.shape[1:]}; set passes = 1, or reshape the public set"
        )


def further_passes(public: Array, passes: int, augment: Sequence[str], seed: int) -> Array:
    """The images of all passes but the first, one pass below the other."""
    key = (id(public), seed, passes, *augment)
    images = _cache.get(key)
    if images is None:
        rng = np.random.default_rng(seed)
        images = _cache[key] = np.concatenate([augment_images(public, augment, rng) for _ in range(passes - 1)])
    return images


def augment_images(images: Array, augment: Sequence[str], rng: np.random.Generator) -> Array:
    """Images `(rows, …, height, width)`, each shifted and mirrored at random, with zeros at the border."""
    height, width = images.shape[-2:]
    flat = images.reshape(len(images), -1, height, width)
    reach = max((height // REACH[name] for name in augment if name in REACH), default=0)
    padded = np.pad(flat, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    down, right = rng.integers(2 * reach + 1, size=(2, len(images), 1))
    columns = right + np.arange(width)
    if "flip" in augment:
        columns = np.where(rng.integers(2, size=(len(images), 1)), columns[:, ::-1], columns)
    row, channel = np.ogrid[: len(images), : flat.shape[1]]
    lines = (down + np.arange(height))[:, None, :, None]
    out = padded[row[..., None, None], channel[..., None, None], lines, columns[:, None, None, :]]
    return np.asarray(out.reshape(images.shape))
