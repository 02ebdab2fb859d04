"""Linear models over a public feature map, as safetensors.

The feature map is a part of the model: centre, divide by a bound, perhaps random Fourier features or a frozen network,
shorten what is longer than 1, add a constant. Nothing of it comes from private rows.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...errors import DataError, ElectionError, Spoiled
from ...formats.safetensors import read_arrays
from ...formats.torch_safetensors import TorchModel, TorchSafetensors, read_network
from ...types import Array, Blob

ROWS_AT_ONCE = 512
MOST_FEATURES = 4096
LARGEST = 1e12


class Encoder(str):
    """A frozen network, called by the digest of its weights. What its last linear layer is given stands for a row.

    Either bytes in the format torch-safetensors, or a module of the user's, which cannot travel.
    """

    data: bytes | None
    network: TorchModel | None
    module: Any

    def __new__(cls, given: Any) -> Encoder:
        if isinstance(given, bytes):
            network = TorchModel(*read_network(given))
            made = super().__new__(cls, "sha256:" + hashlib.sha256(given).hexdigest())
            made.data, made.network, made.module = given, network, network.module
            return made
        weights = hashlib.sha256()
        for name, value in given.state_dict().items():
            weights.update(name.encode() + value.detach().cpu().numpy().tobytes())
        made = super().__new__(cls, f"sha256:{weights.hexdigest()} of {type(given).__qualname__}")
        made.data, made.network, made.module = None, None, given.eval()
        return made

    def __deepcopy__(self, memo: Any) -> Encoder:
        return self

    def features(self, X: Array) -> Array:
        import torch

        linear = [part for part in self.module.modules() if isinstance(part, torch.nn.Linear)]
        if not linear:
            raise ElectionError("the encoder has no linear layer, so there is no last hidden layer to take")
        kept: list[Any] = []
        hook = linear[-1].register_forward_pre_hook(lambda _, given: kept.append(given[0].flatten(1).double().numpy()))
        try:
            self._ask(X)
        except RuntimeError as error:
            raise DataError(f"the encoder cannot take rows of shape {X.shape[1:]}: {error}") from None
        finally:
            hook.remove()
        if sum(map(len, kept)) != len(X):
            raise ElectionError(
                "the encoder's last linear layer is not asked once a row, so it cannot stand for the row"
            )
        return np.concatenate(kept)

    def _ask(self, X: Array) -> None:
        import torch

        from ...fleet.models.inputs import as_tensor, scaled

        if self.network is not None:
            self.network.scores(X)
            return
        with torch.no_grad():
            for i in range(0, len(X), ROWS_AT_ONCE):
                self.module(scaled(as_tensor(X[i : i + ROWS_AT_ONCE]).clone(), torch.float32))

    def dump(self) -> bytes:
        if self.data is None:
            raise ElectionError("the model cannot be saved: its encoder is a module of your own; use it as it is")
        return self.data


@dataclass(frozen=True)
class FeatureMap:
    """From rows to vectors no longer than 1, the last number of which is always the same.

    centre: what is taken off a row. bound: what it is then divided by. frequencies: `(pairs, features)` of random
    Fourier features, whose length is 1 by itself. encoder: a network whose last hidden layer stands for the row.
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

    def shortens(self, X: Array) -> float:
        """The share of rows that are longer than the bound."""
        return float((np.linalg.norm(self.flat(X) - self.centre, axis=1) > self.bound * (1 + 1e-9)).mean())

    def flat(self, X: Array) -> Array:
        """Rows as they come out of the encoder, or as they are; bytes as fractions."""
        if self.encoder is not None:
            return np.asarray(self.encoder.features(X), dtype=np.float64)
        rows = X.reshape(len(X), -1).astype(np.float64)
        return rows / 255 if X.dtype == np.uint8 else rows

    def _block(self, X: Array) -> Array:
        rows = (self.flat(X) - self.centre) / self.bound
        if self.frequencies is not None:
            turned = rows @ self.frequencies.T
            rows = np.hstack([np.cos(turned), np.sin(turned)]) / math.sqrt(len(self.frequencies))
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        whole = np.hstack([rows, np.full((len(rows), 1), self.constant)])
        return np.asarray(whole / math.hypot(1, self.constant))


class LinearModel:
    """Scores are `features(X) @ weights`, `(size, classes)`. output: "softmax" of scores that are logits, or "share" of
    scores that estimate probabilities."""

    def __init__(self, features: FeatureMap, weights: Array, output: Literal["softmax", "share"]) -> None:
        self.features, self.weights, self.output = features, weights, output

    def scores(self, X: Array) -> Array:
        return np.asarray(self.features(X) @ self.weights)

    def predict_proba(self, X: Array) -> Array:
        scores = self.scores(X)
        if self.output == "softmax":
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=1, keepdims=True))
        shares = np.clip(scores, 1e-6, 1)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def dump(self) -> Blob:
        from safetensors.numpy import save

        about = self.features
        arrays = {"centre": about.centre, "bound": np.array([about.bound]), "constant": np.array([about.constant]),
                  "weights": np.ascontiguousarray(self.weights)}  # fmt: skip
        if about.frequencies is not None:
            arrays["frequencies"] = about.frequencies
        if about.encoder is not None:
            arrays["encoder"] = np.frombuffer(about.encoder.dump(), dtype=np.uint8)
        return Blob(Analytic.name, save(arrays, metadata={"output": self.output}))


class Analytic:
    name: ClassVar[str] = "analytic"
    inert: ClassVar[bool] = False  # it may hold a network

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        arrays, output = _open(data)
        if output not in ("softmax", "share"):
            raise Spoiled(f"output is {str(output)[:40]!r}: expected softmax or share")
        if "encoder" in arrays:
            network = arrays.pop("encoder").tobytes()
            TorchSafetensors.check(network, classes=read_network(network)[0].classes, features=features)
            features = arrays["centre"].size if "centre" in arrays else 0
        wanted: dict[str, tuple[int, ...]] = {"centre": (features,), "bound": (1,), "constant": (1,)}
        pairs = len(arrays["frequencies"]) if arrays.get("frequencies", np.empty(())).ndim == 2 else None
        if pairs is not None:
            wanted["frequencies"] = (pairs, features)
        size = 1 + (features if pairs is None else 2 * pairs)
        if size > MOST_FEATURES:
            raise Spoiled(f"{size} features: expected {MOST_FEATURES} at most")
        wanted["weights"] = (size, classes)
        if arrays.keys() != wanted.keys():
            raise Spoiled(f"the arrays are {', '.join(sorted(arrays))[:200]}: expected {', '.join(sorted(wanted))}")
        for key, shape in wanted.items():
            value = arrays[key]
            if value.dtype != np.float64 or value.shape != shape:
                raise Spoiled(f"{key} is {value.dtype} {value.shape}: expected float64 {shape}")
            if not (np.abs(value) <= LARGEST).all():
                raise Spoiled(f"{key} has a number that is NaN or beyond {LARGEST:g}")
        if not float(arrays["bound"][0]) >= 1e-12:
            raise Spoiled("the bound is not above 0")

    @staticmethod
    def load(data: bytes, *, classes: int) -> LinearModel:
        arrays, output = _open(data)
        encoder = Encoder(arrays["encoder"].tobytes()) if "encoder" in arrays else None
        bound, constant = float(arrays["bound"][0]), float(arrays["constant"][0])
        features = FeatureMap(arrays["centre"], bound, constant, arrays.get("frequencies"), encoder)
        return LinearModel(features, arrays["weights"], "softmax" if output == "softmax" else "share")


def _open(data: bytes) -> tuple[dict[str, Array], Any]:
    metadata, arrays = read_arrays(data)
    return dict(arrays), metadata.get("output")


plugin = Analytic
