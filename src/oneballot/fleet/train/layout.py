"""Where each number of a network lies in a row of the wave's matrix: a row a model, so that a step updates all at once.

Every parameter begins at a multiple of 256 bytes, which is what products on a GPU like best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...types import Array

ALIGN = 64


@dataclass(frozen=True)
class Layout:
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, tensors: Iterable[tuple[str, Tensor]]) -> Layout:
        named = [(name, tuple(tensor.shape)) for name, tensor in tensors]
        offsets, size = [], 0
        for _, shape in named:
            offsets.append(size)
            size += -(-math.prod(shape) // ALIGN) * ALIGN
        return cls(tuple(n for n, _ in named), tuple(s for _, s in named), tuple(offsets), size)

    def views(self, matrix: Tensor) -> dict[str, Tensor]:
        """The parameters of all models `(models, …)`, in place."""
        return {
            name: matrix[:, offset : offset + math.prod(shape)].view(len(matrix), *shape)
            for name, shape, offset in zip(self.names, self.shapes, self.offsets, strict=True)
        }

    def pack(self, models: Sequence[Mapping[str, Array]], device: torch.device, kind: torch.dtype) -> Tensor:
        matrix = np.zeros((len(models), self.size), dtype=np.float32)
        for row, model in zip(matrix, models, strict=True):
            for name, shape, offset in zip(self.names, self.shapes, self.offsets, strict=True):
                row[offset : offset + math.prod(shape)] = model[name].reshape(-1)
        return torch.from_numpy(matrix).to(device, kind)

    def unpack(self, row: Array) -> dict[str, Array]:
        return {
            name: row[offset : offset + math.prod(shape)].reshape(shape).copy()
            for name, shape, offset in zip(self.names, self.shapes, self.offsets, strict=True)
        }
