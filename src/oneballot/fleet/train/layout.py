"""Where each parameter lies in the matrix of a wave, which has one row for each model.

Every parameter begins at a multiple of 256 bytes, the alignment at which a GPU's products are fastest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ...types import Array

ALIGN = 64


class Layout:
    """parts: the columns and the shape of each parameter. size: the number of columns."""

    def __init__(self, tensors: Iterable[tuple[str, Tensor]]) -> None:
        self.parts: dict[str, tuple[slice, torch.Size]] = {}
        self.size = 0
        for name, tensor in tensors:
            self.parts[name] = slice(self.size, self.size + tensor.numel()), tensor.shape
            self.size += -(-tensor.numel() // ALIGN) * ALIGN

    def views(self, matrix: Tensor) -> dict[str, Tensor]:
        """The parameters of all models `(models, …)`, as views."""
        return {name: matrix[:, columns].view(len(matrix), *shape) for name, (columns, shape) in self.parts.items()}

    def pack(self, models: Sequence[Mapping[str, Array]], device: torch.device, dtype: torch.dtype) -> Tensor:
        matrix = np.zeros((len(models), self.size), dtype=np.float32)
        for row, model in zip(matrix, models, strict=True):
            for name, (columns, _) in self.parts.items():
                row[columns] = model[name].reshape(-1)
        return torch.from_numpy(matrix).to(device, dtype)

    def unpack(self, row: Array) -> dict[str, Array]:
        return {name: row[columns].reshape(tuple(shape)).copy() for name, (columns, shape) in self.parts.items()}
