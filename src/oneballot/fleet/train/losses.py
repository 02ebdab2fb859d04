"""What is learned from a target: the loss of one model, and its slope for a fleet.

Each loss has, by its logits z, the slope gain·push(z) + pull, with gain and pull known before the step. An absent row
has neither, so it teaches nothing.
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
    else:  # labels -1 and 1; what is 0 is not known
        each = (F.binary_cross_entropy_with_logits(logits, (targets > 0).to(logits), reduction="none")
                * (targets != 0)).mean(1)  # fmt: skip
    return (each * weight).sum() / len(each)


def aim(kind: str, targets: Tensor, factor: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """gain and pull, `(…, 1 or classes)`, of targets `(…)` or `(…, classes)` whose loss counts by `factor` `(…)`."""
    factor = factor.unsqueeze(-1)
    if kind == "labels":
        return factor, -factor * F.one_hot(targets, classes)
    if kind == "soft":
        return factor * targets.sum(-1, keepdim=True), -factor * targets
    if kind == "scores":
        return factor * (2 / classes), -factor * targets * (2 / classes)
    known = factor * (targets != 0) / classes
    return known, -known * (targets > 0)


def slope(kind: str, logits: Tensor, gain: Tensor, proximal: Tensor) -> Tensor:
    push = logits if kind == "scores" else logits.sigmoid() if kind == "multilabel" else logits.softmax(-1)
    return torch.addcmul(proximal, push, gain)


def check_targets(task: Task, classes: int) -> None:
    targets = task.targets
    if len(targets) != len(task.rows) or (task.weight is not None and len(task.weight) != len(task.rows)):
        raise DataError(f"{task.label}: {len(task.rows)} rows have {len(targets)} targets, or other weights")
    if task.kind == "labels":
        if targets.ndim != 1 or (len(targets) and not 0 <= targets.min() <= targets.max() < classes):
            raise DataError(f"{task.label}: labels must be class numbers from 0 to {classes - 1}")
    elif targets.shape[1:] != (classes,) or not np.isfinite(targets).all():
        raise DataError(f"{task.label}: {task.kind} of shape {targets.shape}: expected {classes} finite columns")


def targets_of(task: Task, classes: int) -> Array:
    return task.targets.astype(np.int64 if task.kind == "labels" else np.float32)


def weights_of(task: Task) -> Array:
    """Of the rows, 1 in the mean, so that the learning rate means the same whatever the weights add up to."""
    if task.weight is None:
        return np.ones(len(task.rows), dtype=np.float32)
    weight = np.asarray(task.weight, dtype=np.float64)
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.sum() > 0:
        raise DataError(f"{task.label}: weights of rows must be finite, not negative, and not all 0")
    return np.asarray(weight / weight.mean(), dtype=np.float32)
