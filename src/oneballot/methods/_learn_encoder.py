"""Learn an encoder of images from public rows, without labels: small patches, clustered (Coates and Ng, 2011).

The filters are the centres of whitened 5x5 patches of public images, found by spherical k-means. A second convolution
averages each filter's answers over 5x5 places, and a hidden layer keeps their principal components. The result is a
network of the architecture "cnn", whose last hidden layer represents an image.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh

from ..errors import DataError, ElectionError
from ..formats.torch_safetensors import Description, TorchModel, TorchSafetensors
from ..runtime.progress import track
from ..types import Array
from ._encoder import ROWS_AT_ONCE, Encoder

if TYPE_CHECKING:
    from torch import nn

SIDE = 5
"""The side of a patch: that of the architecture's convolutions."""
LEAST_SIDE = 16
LEAST_ROWS = 100
MOST_CHANNELS = 16
PATCHES = 40_000
ROUNDS = 12
"""Rounds of k-means."""
ACTIVE = 0.3
"""The share of places at which a filter answers."""
SMOOTHED = 0.1
"""Added to the variances when patches are whitened, as a part of their mean: less noise in rare directions."""
FLAT = 0.3
"""The share of patches, those with the least contrast, that are not clustered."""
HALF_WHITENED = 0.25
"""Components are divided by their variance to this power: 0.5 would give all of them the same weight in distances."""
MOST_ANSWERS = 8_192
"""Pooled answers of an image: the time for components grows with their cube."""
MOST_IMAGES = 10_000
"""Images from which it is learned, drawn at random from more."""
MOST_FILTERS = 512
MOST_FEATURES = 4_000
"""Less than a schema and the method analytic accept."""


def learn_encoder(
    images: Any, *, shape: tuple[int, ...] | None = None, filters: int = 64, features: int = 64, seed: int = 0
) -> Encoder:
    """Learn an encoder from public images `(rows, channels, height, width)` of at least 16 pixels a side.

    Labels are not used. Its `apply` turns images into features; as a file it is `encoder.data`.

    shape: that of an image, if rows are flat. filters: the patches that it knows. features: numbers that represent an
    image.
    """
    rows = np.asarray(images)
    shape = shape_of_images(rows, shape)
    answers = filters * math.prod(_pooled(side) for side in shape[1:])
    _check(len(rows), shape, filters, features, answers)
    arrays = {
        "conv2.weight": np.eye(filters)[:, :, None, None] / SIDE**2 * np.ones((SIDE, SIDE)),
        "conv2.bias": np.zeros(filters),
        "layer3.weight": np.zeros((features, answers)),
        "layer3.bias": np.zeros(features),
        "out.weight": np.zeros((1, features)),
        "out.bias": np.zeros(1),
    }
    about = Description("cnn", {"channels": [filters, filters], "hidden": [features]}, shape, 1)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(rows))[:MOST_IMAGES]
    pixels = _as_floats(rows[chosen].reshape(len(chosen), *shape))
    arrays["conv1.weight"], arrays["conv1.bias"] = learn_filters(pixels, filters, rng)
    pooled = _pooled_answers(_network(about, arrays).module, pixels)
    arrays["layer3.weight"], arrays["layer3.bias"] = _principal_components(pooled, features)
    return Encoder(_network(about, arrays).dump().data)


def shape_of_images(rows: Array, shape: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """The shape of an image, `(channels, height, width)`. Raises DataError if these are no images."""
    own = rows.shape[1:] if shape is None else tuple(shape)
    own = (1, *own) if len(own) == 2 else own
    if rows.dtype.kind not in "uif" or len(own) != 3 or min(own[1:]) < LEAST_SIDE or own[0] > MOST_CHANNELS:
        raise DataError(
            f"rows of shape {rows.shape[1:]} and type {rows.dtype}: expected images as numbers, channels first "
            f"(channels, height, width), of {LEAST_SIDE} pixels a side at least; if rows are flat, state the shape"
        )
    if math.prod(own) != math.prod(rows.shape[1:]):
        raise DataError(f"the shape {own} does not fit rows of shape {rows.shape[1:]}")
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        raise DataError("public images hold NaN or infinity; fill these pixels first")
    return own


def _check(rows: int, shape: tuple[int, ...], filters: int, features: int, answers: int) -> None:
    if rows < LEAST_ROWS:
        raise DataError(f"{rows:,} public images: an encoder is learned from {LEAST_ROWS} or more")
    if not 2 <= filters <= MOST_FILTERS:
        raise ElectionError(f"filters = {filters}: expected 2 to {MOST_FILTERS}")
    most = min(rows - 1, answers, MOST_FEATURES)
    if not 1 <= features <= most:
        raise ElectionError(f"features = {features}: expected 1 to {most:,} with {rows:,} images and {filters} filters")
    if answers > MOST_ANSWERS:
        raise ElectionError(
            f"{filters} filters give {answers:,} numbers for an image of {shape[1]} x {shape[2]} pixels: "
            f"{MOST_ANSWERS:,} at most; use fewer filters or smaller images"
        )


def learn_filters(images: Array, filters: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Weights `(filters, channels, 5, 5)` and biases `(filters,)` of the first layer, from images of floats.

    A filter's answer to a patch is the inner product of the whitened patch with the filter's centre, less a threshold
    that `ACTIVE` of the patches exceed. Whitening is linear, and so is part of the weights.
    """
    patches = draw_patches(images, PATCHES, rng).reshape(PATCHES, -1).astype(np.float64)
    patches -= patches.mean(axis=1, keepdims=True)  # brightness says nothing
    mean = patches.mean(axis=0)
    centred = patches - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    variances = np.maximum(variances, 0)
    if not variances.max() > 0:
        raise DataError("all public images are one flat colour; there is nothing to learn from")
    whitening = directions / np.sqrt(variances + SMOOTHED * variances.mean())
    white = centred @ whitening
    lengths = np.linalg.norm(white, axis=1)
    lively = lengths > max(float(np.quantile(lengths, FLAT)), 1e-9)
    centres = cluster_directions(white[lively] / lengths[lively, None], filters, rng)
    answers = white @ centres.T
    thresholds, scale = np.quantile(answers, 1 - ACTIVE, axis=0), max(float(answers.std()), 1e-9)
    weights = centres @ whitening.T
    biases = -weights @ mean - thresholds
    weights -= weights.mean(axis=1, keepdims=True)
    return (weights / scale).reshape(filters, images.shape[1], SIDE, SIDE), biases / scale


def draw_patches(images: Array, number: int, rng: np.random.Generator) -> Array:
    """Patches at random places, `(number, channels, 5, 5)`."""
    views = np.lib.stride_tricks.sliding_window_view(images, (SIDE, SIDE), axis=(2, 3))
    rows, down, right = (rng.integers(0, most, number) for most in (views.shape[0], *views.shape[2:4]))
    return np.asarray(views[rows, :, down, right])


def cluster_directions(points: Array, clusters: int, rng: np.random.Generator) -> Array:
    """Spherical k-means: centres of length 1 `(clusters, features)` of points of length 1."""
    if not len(points):
        raise DataError("public images have no contrast; there is nothing to learn from")
    centres = points[rng.integers(0, len(points), clusters)]
    for _ in track("learning filters", range(ROUNDS), ROUNDS):
        likeness = points @ centres.T
        nearest = likeness.argmax(axis=1)
        member = np.zeros_like(likeness)
        member[np.arange(len(points)), nearest] = likeness.max(axis=1)
        sums = member.T @ points
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        fresh = points[rng.integers(0, len(points), clusters)]  # in the place of an empty cluster
        centres = np.where(lengths > 1e-9, sums / np.maximum(lengths, 1e-9), fresh)
    return np.asarray(centres)


def _principal_components(pooled: Array, features: int) -> tuple[Array, Array]:
    """Weights and biases of the hidden layer. The bias keeps components positive, so that ReLU leaves them alone."""
    mean = pooled.mean(axis=0)
    centred = pooled - mean
    wide = len(pooled) < len(mean)
    products = centred @ centred.T if wide else centred.T @ centred
    values, vectors = eigh(products, subset_by_index=(len(products) - features, len(products) - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    directions = centred.T @ vectors if wide else vectors
    directions /= np.maximum(np.linalg.norm(directions, axis=0), 1e-12)
    weights = (directions / np.maximum(values, 1e-9 * max(values[0], 1e-9)) ** HALF_WHITENED).T
    weights /= max(float((centred @ weights.T).std()), 1e-9)
    reach = np.abs(centred @ weights.T).max(axis=0)
    return weights, 2 * reach - weights @ mean


def _pooled(side: int) -> int:
    """The side of what is left of an image after both convolutions and their pooling."""
    return ((side - SIDE + 1) // 2 - SIDE + 1) // 2


def _as_floats(images: Array) -> Array:
    """As the network sees them: bytes scaled to 0 to 1."""
    return np.asarray(images / np.float32(255) if images.dtype == np.uint8 else images, dtype=np.float32)


def _pooled_answers(module: nn.Module, images: Array) -> Array:
    """What the convolutions answer to images of floats, `(rows, answers)`: the input of the hidden layer."""
    import torch

    blocks, starts = [], range(0, len(images), ROWS_AT_ONCE)
    upto = list(dict(module.named_children())).index("flat") + 1
    below = torch.nn.Sequential(*list(module.children())[:upto])
    with torch.no_grad():
        for start in track("encoding public images", starts, len(starts)):
            blocks.append(below(torch.from_numpy(images[start : start + ROWS_AT_ONCE])).double().numpy())
    return np.concatenate(blocks)


def _network(about: Description, arrays: dict[str, Array]) -> TorchModel:
    TorchSafetensors.prepare()
    return TorchModel(about, {name: np.asarray(values, dtype=np.float32) for name, values in arrays.items()})
