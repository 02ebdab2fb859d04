"""A frozen network whose last hidden layer represents a row, and rows as vectors: its features, or the columns."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, ElectionError, Spoiled
from ..formats.torch_safetensors import TorchModel, read_network
from ..runtime.progress import track
from ..types import Array

ROWS_AT_ONCE = 512


class Encoder(str):
    """A frozen network, whose text is the digest of its weights. The input of its last linear layer represents a row.

    It is made of bytes in the format torch-safetensors, or of a torch module, which cannot be saved.
    """

    data: bytes | None
    network: TorchModel | None
    module: Any

    def __new__(cls, source: Any) -> Encoder:
        weights = hashlib.sha256()
        if isinstance(source, bytes):
            network = TorchModel(*read_network(source))
            weights.update(source)
            encoder = super().__new__(cls, f"sha256:{weights.hexdigest()}")
            encoder.data, encoder.network, encoder.module = source, network, network.module
            return encoder
        for name, value in source.state_dict().items():
            weights.update(name.encode() + value.detach().cpu().numpy().tobytes())
        encoder = super().__new__(cls, f"sha256:{weights.hexdigest()} of {type(source).__qualname__}")
        encoder.data, encoder.network, encoder.module = None, None, source.eval()
        return encoder

    def __deepcopy__(self, memo: Any) -> Encoder:
        return self

    def features(self, X: Array) -> Array:
        import torch

        linear = [part for part in self.module.modules() if isinstance(part, torch.nn.Linear)]
        if not linear:
            raise ElectionError("the encoder has no linear layer, whose input would be the features")
        kept: list[Any] = []
        hook = linear[-1].register_forward_pre_hook(lambda _, given: kept.append(given[0].flatten(1).double().numpy()))
        try:
            self._forward(X)
        except (RuntimeError, LookupError, ValueError) as error:
            raise DataError(f"the encoder cannot take rows of shape {X.shape[1:]}: {error}") from None
        finally:
            hook.remove()
        if sum(map(len, kept)) != len(X):
            raise ElectionError("the encoder does not use its last linear layer exactly once for each row")
        return np.concatenate(kept)

    def apply(self, images: Any) -> Array:
        """The features of each image, `(rows, features)`, float32, whatever other images there are."""
        return encode(np.asarray(images), self).astype(np.float32)

    def _forward(self, X: Array) -> None:
        import torch

        from ..fleet.models.inputs import as_tensor, scaled

        if self.network is not None:
            self.network.scores(X)
            return
        with torch.no_grad():
            for i in range(0, len(X), ROWS_AT_ONCE):
                self.module(scaled(as_tensor(X[i : i + ROWS_AT_ONCE]).clone(), torch.float32))


def read_encoder(source: Any) -> Encoder:
    try:
        return Encoder(Path(source).read_bytes() if isinstance(source, str | Path) else source)
    except OSError as error:
        raise ElectionError(f"encoder: {source} cannot be read: {error.strerror}") from None
    except Spoiled as reason:
        raise ElectionError(f"encoder: {source} is not a network in the format torch-safetensors: {reason}") from None
    except AttributeError:
        raise ElectionError(f"encoder must be a file or a torch module, not {type(source).__name__}") from None


def flat_rows(X: Array, encoder: Encoder | None = None) -> Array:
    """The encoder's features, or the flattened rows, bytes scaled to 0 to 1: `(rows, features)`, float64."""
    if encoder is not None:
        return np.asarray(encoder.features(X), dtype=np.float64)
    rows = X.reshape(len(X), -1).astype(np.float64)
    return rows / 255 if X.dtype == np.uint8 else rows


def flat_where_possible(X: Array, encoder: Encoder | None) -> Array:
    """`flat_rows`, with 0 for rows that the encoder cannot take, such as tokens that are not in its vocabulary."""
    if encoder is None or _takes(X, encoder):
        return flat_rows(X, encoder)
    impossible = np.array([not _takes(row[None], encoder) for row in X])
    flat = flat_rows(np.where(impossible.reshape(-1, *[1] * (X.ndim - 1)), X.dtype.type(0), X), encoder)
    flat[impossible] = 0
    return flat


def _takes(X: Array, encoder: Encoder) -> bool:
    try:
        encoder.features(X)
    except Exception:  # networks raise anything
        return False
    return True


def encode(X: Array, encoder: Encoder | None, *, private: bool = False) -> Array:
    """Rows as vectors; what is not a finite number is 0. `private`: so is a row that the encoder cannot take.

    An encoder gets blocks of one size, so that its rounding does not depend on how many rows there are.
    """
    rows = np.nan_to_num(X, nan=0.0, posinf=0.0, neginf=0.0) if X.dtype.kind == "f" else X
    if encoder is None:
        return flat_rows(rows)
    blocks, starts = [], range(0, len(rows), ROWS_AT_ONCE)
    for start in track("encoding rows", starts, len(starts)):
        block = rows[start : start + ROWS_AT_ONCE]
        missing = np.zeros((ROWS_AT_ONCE - len(block), *rows.shape[1:]), dtype=rows.dtype)
        represent = flat_where_possible if private else flat_rows
        blocks.append(represent(np.concatenate([block, missing]), encoder)[: len(block)])
    return np.asarray(np.nan_to_num(np.concatenate(blocks), nan=0.0, posinf=0.0, neginf=0.0))
