"""Federations whose rows are features of images, by an encoder that is learned from the public rows alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np

from oneballot.errors import DataError
from oneballot.methods._encoder import encode
from oneballot.methods._learn_encoder import learn_encoder
from oneballot.types import Array

from .federations import FederatedData, Federation


@dataclass(frozen=True)
class EncodedFederation(Federation):
    """filters, features: those of the encoder (`learn_encoder`). Its seed is that of the cell.

    The mean of the public rows is subtracted, which linear learners need to converge.
    """

    filters: int = 64
    features: int = 64

    def load(self, seed: int) -> FederatedData:
        return _encoded(self, seed)

    def smaller(self, *, heavy: bool = False) -> Self:
        return replace(super().smaller(heavy=heavy), filters=min(self.filters, 16), features=min(self.features, 16))


@lru_cache(maxsize=1)
def _encoded(federation: EncodedFederation, seed: int) -> FederatedData:
    """Encode the rows once for the cells that a process runs on the same data."""
    data = Federation.load(federation, seed)
    shape = data.public.shape[1:]
    if len(shape) == 1:
        side = math.isqrt(shape[0])
        if side * side != shape[0]:
            raise DataError(f"{federation.data}: rows of {shape[0]} numbers are no square images")
        shape = (1, side, side)
    public = data.public.reshape(-1, *shape)
    encoder = learn_encoder(public, filters=federation.filters, features=federation.features, seed=seed)
    centre = encode(public, encoder).mean(axis=0)

    def features(rows: Array) -> Array:
        return np.asarray(encode(rows.reshape(-1, *shape), encoder) - centre, dtype=np.float32)

    return replace(data, X=features(data.X), X_test=features(data.X_test), public=features(public))
