"""Rows on their way into a network: one shared tensor on the device, bytes as fractions, images moved."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ...errors import DataError
from ...types import Array

Takes = Literal["numbers", "images", "tokens", "anything"]
"""What the rows of a network are. A user's own module may take anything, and gets whole numbers as they are."""


def as_tensor(X: Array, device: torch.device | str = "cpu", takes: Takes = "anything") -> Tensor:
    """All rows on the device, once: tokens as int32, bytes as bytes, which become floats batch by batch."""
    if takes == "tokens":
        X = X.astype(np.int32, copy=False)
    elif X.dtype != np.uint8 and (takes != "anything" or X.dtype not in (np.int32, np.int64)):
        with np.errstate(over="ignore"):
            X = X.astype(np.float32, copy=False)
        if not np.isfinite(X).all():
            raise DataError("rows hold NaN, infinity, or numbers beyond float32; fill or scale them first")
    return torch.from_numpy(np.require(X, requirements=["C", "W"])).to(device)


def check_tokens(X: Array, vocabulary: int) -> None:
    """A token that is not in the table would end the process on a GPU, so it is looked for here."""
    if X.dtype.kind not in "iu" and not (X.dtype.kind == "f" and (np.rint(X) == X).all()):
        raise DataError(f"text must be token numbers, whole ones, and these rows are {X.dtype}; see docs/networks.md")
    if X.size and (X.min() < 0 or X.max() >= vocabulary):
        raise DataError(f"tokens from {X.min()} to {X.max()}: expected 0 (padding) to {vocabulary - 1}")


def scaled(x: Tensor, kind: torch.dtype) -> Tensor:
    """As a network takes them: bytes as 0 to 1, numbers as they are, tokens as tokens."""
    if x.dtype == torch.uint8:
        return x.to(kind) * (1 / 255) if kind == torch.float64 else x * (1 / 255)
    return x.to(kind) if x.is_floating_point() else x


def move(images: Tensor, moves: Tensor) -> Tensor:
    """Images `(…, channels, height, width)`, mirrored and then moved by `moves` `(…, 3)`; what comes in is black."""
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
