"""The losses: their value for one model, and their gradient by the logits for a fleet.

The gradient of every loss by its logits z is gain·activation(z) + shift. Gain and shift are known before the step, and
both are 0 for an absent row.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import DataError
from ...types import Array, Task


def loss(kind: str, logits: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    """The mean over the rows of a batch, each with its weight `(rows,)`."""
    if kind == "labels":
        each = F.cross_entropy(logits, targets, reduction="none")
    elif kind == "soft":
        each = -(targets * logits.log_softmax(1)).sum(1)
    elif kind == "scores":
        each = ((logits - targets) ** 2).mean(1)
    else:  # multilabel: -1 and 1, or 0 if unknown
        by_label = F.binary_cross_entropy_with_logits(logits, (targets > 0).to(logits), reduction="none")
        each = (by_label * (targets != 0)).mean(1)
    return (each * weight).sum() / len(each)


def gain_and_shift(kind: str, targets: Tensor, factor: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """`(…, 1 or classes)` each, of targets `(…)` or `(…, classes)` whose losses are weighted by `factor` `(…)`."""
    factor = factor.unsqueeze(-1)
    if kind == "labels":
        return factor, -factor * F.one_hot(targets, classes)
    if kind == "soft":
        return factor * targets.sum(-1, keepdim=True), -factor * targets
    if kind == "scores":
        return factor * (2 / classes), -factor * targets * (2 / classes)
    known = factor * (targets != 0) / classes
    return known, -known * (targets > 0)


def gradient(kind: str, logits: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    if kind == "scores":
        return torch.addcmul(shift, logits, gain)
    return torch.addcmul(shift, logits.sigmoid() if kind == "multilabel" else logits.softmax(-1), gain)


def check_targets(task: Task, classes: int) -> None:
    """Raise DataError for a task without rows, or whose targets or weights do not fit."""
    rows, targets = len(task.rows), task.targets
    if not rows:
        raise DataError(f"{task.label} has no rows to learn from")
    if len(targets) != rows:
        raise DataError(f"{task.label}: {rows} rows have {len(targets)} targets: expected one for each row")
    if task.kind == "labels":
        if targets.ndim != 1 or not 0 <= targets.min() <= targets.max() < classes:
            raise DataError(f"{task.label}: labels must be class numbers from 0 to {classes - 1}")
    elif targets.shape[1:] != (classes,) or not np.isfinite(targets).all():
        raise DataError(f"{task.label}: {task.kind} of shape {targets.shape}: expected {classes} finite columns")
    if task.weight is not None:
        weight = np.asarray(task.weight)
        if len(weight) != rows or not np.isfinite(weight).all() or (weight < 0).any() or not weight.sum() > 0:
            raise DataError(f"{task.label}: expected {rows} weights of rows, finite, not negative, and not all 0")


def targets_of(task: Task) -> Array:
    return task.targets.astype(np.int64 if task.kind == "labels" else np.float32)


def weights_of(task: Task) -> Array:
    """The weights of the rows, scaled to a mean of 1, so that their sum does not change the learning rate."""
    if task.weight is None:
        return np.ones(len(task.rows), dtype=np.float32)
    weight = np.asarray(task.weight, dtype=np.float64)
    return np.asarray(weight / weight.mean(), dtype=np.float32)
