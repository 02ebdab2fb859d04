"""Linear models over a public feature map, as safetensors.

The feature map is part of the model: centre, divide by a bound, optionally apply random Fourier features or a frozen
network, clip to length 1, append a constant. Nothing in it comes from private rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import softmax

from ...errors import ElectionError, Spoiled
from ...formats.safetensors import read_arrays
from ...formats.torch_safetensors import TorchSafetensors, read_network
from ...interfaces import Format, Model
from ...types import Array, Blob
from .._encoder import Encoder, flat_rows, flat_where_possible

ROWS_AT_ONCE = 512
MOST_FEATURES = 4096
LARGEST = 1e12


@dataclass(frozen=True)
class FeatureMap:
    """From rows to vectors of length at most 1, whose last feature is the same for all rows.

    centre, bound: subtracted from a row, and what it is then divided by. frequencies: `(pairs, features)` of random
    Fourier features, which have length 1. encoder: a network whose last hidden layer represents the row.
    """

    centre: Array
    bound: float
    constant: float
    frequencies: Array | None = None
    encoder: Encoder | None = None

    @property
    def size(self) -> int:
        return 1 + (len(self.centre) if self.frequencies is None else 2 * len(self.frequencies))

    def __call__(self, X: Array) -> Array:
        """`(rows, size)`, float64."""
        blocks = [self._block(X[i : i + ROWS_AT_ONCE]) for i in range(0, len(X), ROWS_AT_ONCE)]
        return np.concatenate(blocks) if blocks else np.empty((0, self.size))

    def of_private(self, X: Array) -> Array:
        """The same for rows that noise protects: none stops a cast, and none changes the rounding of another.

        All blocks have the same shape, filled up with zeros. A row that the encoder cannot take becomes 0.
        """
        out = np.empty((len(X), self.size))
        for i in range(0, len(X), ROWS_AT_ONCE):
            block = X[i : i + ROWS_AT_ONCE]
            filler = np.zeros((ROWS_AT_ONCE - len(block), *X.shape[1:]), dtype=X.dtype)
            flat = flat_where_possible(np.concatenate([block, filler]), self.encoder)
            out[i : i + ROWS_AT_ONCE] = self._represent(flat)[: len(block)]
        return out

    def clipped_share(self, X: Array) -> float:
        """The fraction of rows that are longer than the bound."""
        flat = flat_where_possible(X, self.encoder)
        return float((np.linalg.norm(flat - self.centre, axis=1) > self.bound * (1 + 1e-9)).mean())

    def flat(self, X: Array) -> Array:
        """The encoder's features, or the flattened rows, bytes scaled to 0 to 1."""
        return flat_rows(X, self.encoder)

    def _block(self, X: Array) -> Array:
        return self._represent(self.flat(X))

    def _represent(self, flat: Array) -> Array:
        """Rows of `flat` as features. What is not finite becomes 0 before it is clipped."""
        rows = (np.where(np.isfinite(flat), flat, 0) - self.centre) / self.bound
        if self.frequencies is not None:
            phases = rows @ self.frequencies.T
            rows = np.hstack([np.cos(phases), np.sin(phases)]) / math.sqrt(len(self.frequencies))
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        with_constant = np.hstack([rows, np.full((len(rows), 1), self.constant)])
        return np.asarray(with_constant / math.hypot(1, self.constant))


@dataclass(frozen=True, eq=False)
class LinearModel(Model):
    """Scores are `features(X) @ weights`, with weights `(size, classes)`.

    output: "softmax" if scores are logits, "share" if they estimate probabilities.
    """

    features: FeatureMap
    weights: Array
    output: Literal["softmax", "share"]

    def scores(self, X: Array) -> Array:
        return np.asarray(self.features(X) @ self.weights)

    def predict_proba(self, X: Array) -> Array:
        if self.output == "softmax":
            return np.asarray(softmax(self.scores(X), axis=1))
        shares = np.clip(self.scores(X), 1e-6, 1)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def dump(self) -> Blob:
        from safetensors.numpy import save

        arrays = {
            "centre": self.features.centre,
            "bound": np.array([self.features.bound]),
            "constant": np.array([self.features.constant]),
            "weights": np.ascontiguousarray(self.weights),
        }
        if self.features.frequencies is not None:
            arrays["frequencies"] = self.features.frequencies
        if (encoder := self.features.encoder) is not None:
            if encoder.data is None:
                raise ElectionError("the model cannot be saved: its encoder is a torch module of your own")
            arrays["encoder"] = np.frombuffer(encoder.data, dtype=np.uint8)
        return Blob(AnalyticFormat.name, save(arrays, metadata={"output": self.output}))


class AnalyticFormat(Format):
    name: ClassVar[str] = "analytic"
    inert: ClassVar[bool] = False  # it may hold a network

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        metadata, stored = read_arrays(data)
        arrays, output = dict(stored), metadata.get("output")
        if output not in ("softmax", "share"):
            raise Spoiled(f"output is {str(output)[:40]!r}: expected softmax or share")
        if "encoder" in arrays:
            network = arrays.pop("encoder").tobytes()
            TorchSafetensors.check(network, classes=read_network(network)[0].classes, features=features)
            features = arrays["centre"].size if "centre" in arrays else 0
        expected: dict[str, tuple[int, ...]] = {"centre": (features,), "bound": (1,), "constant": (1,)}
        size = 1 + features
        if (frequencies := arrays.get("frequencies")) is not None and frequencies.ndim == 2:
            expected["frequencies"] = (len(frequencies), features)
            size = 1 + 2 * len(frequencies)
        if size > MOST_FEATURES:
            raise Spoiled(f"{size} features: expected {MOST_FEATURES} at most")
        expected["weights"] = (size, classes)
        if arrays.keys() != expected.keys():
            raise Spoiled(f"the arrays are {', '.join(sorted(arrays))[:200]}: expected {', '.join(sorted(expected))}")
        for name, shape in expected.items():
            array = arrays[name]
            if array.dtype != np.float64 or array.shape != shape:
                raise Spoiled(f"{name} is {array.dtype} {array.shape}: expected float64 {shape}")
            if not (np.abs(array) <= LARGEST).all():
                raise Spoiled(f"{name}: expected numbers up to {LARGEST:g}, not NaN")
        if not float(arrays["bound"][0]) >= 1e-12:
            raise Spoiled("the bound is not above 0")

    @staticmethod
    def load(data: bytes, *, classes: int) -> LinearModel:
        metadata, arrays = read_arrays(data)
        encoder = Encoder(arrays["encoder"].tobytes()) if "encoder" in arrays else None
        bound, constant = float(arrays["bound"][0]), float(arrays["constant"][0])
        features = FeatureMap(arrays["centre"], bound, constant, arrays.get("frequencies"), encoder)
        return LinearModel(features, arrays["weights"], "softmax" if metadata.get("output") == "softmax" else "share")


plugin = AnalyticFormat
