"""Inputs of networks: rows as one tensor on the device, scaling of bytes, augmentation of images."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ...errors import DataError
from ...types import Array

Takes = Literal["numbers", "images", "tokens", "anything"]
"""What the rows of a network are. A custom module takes "anything": integers reach it unchanged."""


def as_tensor(X: Array, device: torch.device | str = "cpu", takes: Takes = "anything") -> Tensor:
    """Copy all rows to the device: tokens as int32, bytes as uint8 (`scaled` later), other numbers as float32."""
    if takes == "tokens":
        X = X.astype(np.int32, copy=False)
    elif X.dtype != np.uint8 and (takes != "anything" or X.dtype not in (np.int32, np.int64)):
        with np.errstate(over="ignore"):
            X = X.astype(np.float32, copy=False)
        if not np.isfinite(X).all():
            raise DataError("rows hold NaN, infinity, or numbers beyond float32; fill or scale them first")
    return torch.from_numpy(np.require(X, requirements=["C", "W"])).to(device)


def check_tokens(X: Array, vocabulary: int) -> None:
    """Raise DataError for tokens outside the vocabulary, which on a GPU would end the process."""
    if X.dtype.kind not in "iu" and not (X.dtype.kind == "f" and (np.rint(X) == X).all()):
        raise DataError(f"text must be token numbers, whole ones, but these rows are {X.dtype}; see docs/networks.md")
    if X.size and (X.min() < 0 or X.max() >= vocabulary):
        raise DataError(f"tokens from {X.min()} to {X.max()}: expected 0 (padding) to {vocabulary - 1}")


def scaled(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Scale bytes to [0, 1] and convert floats to `dtype`; tokens stay integers."""
    if x.dtype == torch.uint8:
        return x.to(dtype) * (1 / 255) if dtype == torch.float64 else x * (1 / 255)
    return x.to(dtype) if x.is_floating_point() else x


def move(images: Tensor, moves: Tensor) -> Tensor:
    """Mirror and then shift images `(…, channels, height, width)` by `moves` `(…, 3)`; new pixels are black."""
    height, width = images.shape[-2:]
    down, right, mirrored = (moves[..., i, None].long() for i in range(3))
    y = torch.arange(height, device=images.device) - down
    x = torch.arange(width, device=images.device) - right
    inside = ((y >= 0) & (y < height))[..., :, None] & ((x >= 0) & (x < width))[..., None, :]
    x = torch.where(mirrored > 0, width - 1 - x, x)
    place = (y.clamp(0, height - 1)[..., :, None] * width + x.clamp(0, width - 1)[..., None, :]).flatten(-2)
    wide = (*images.shape[:-2], height * width)
    out = images.flatten(-2).gather(-1, place.unsqueeze(-2).expand(wide)).reshape(images.shape)
    return out * inside.unsqueeze(-3)
