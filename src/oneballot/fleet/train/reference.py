"""The training of one model in plain torch. It defines the result of a fleet, and is what a fleet falls back to."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ...types import Array, Task
from .. import draws
from ..models.inputs import move, scaled
from .losses import loss, targets_of, weights_of
from .recipe import ABSENT, Recipe
from .stacked import FleetLayers


def optimizer_of(module: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    if recipe.optimizer == "adam":
        return torch.optim.Adam(weights, recipe.learning_rate, weight_decay=recipe.weight_decay)
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(weights, recipe.learning_rate, weight_decay=recipe.weight_decay)
    return torch.optim.SGD(weights, recipe.learning_rate, recipe.momentum, weight_decay=recipe.weight_decay)


def fit_one(module: nn.Module, X: Tensor, task: Task, recipe: Recipe, classes: int) -> None:
    """Train the module, in place, on the task's rows of X. Both are on the same device."""
    for _ in epochs_of_one(module, X, task, recipe, classes, optimizer_of(module, recipe)):
        pass


def epochs_of_one(
    module: nn.Module, X: Tensor, task: Task, recipe: Recipe, classes: int, optimizer: torch.optim.Optimizer
) -> Iterator[None]:
    """`fit_one`, epoch by epoch, with this optimizer of the module's weights."""
    key = torch.tensor(draws.key_of(task.seed, draws.DROPOUT), device=X.device)
    rows, targets, weight = (
        torch.from_numpy(part).to(X.device) for part in (task.rows, targets_of(task), weights_of(task))
    )
    count, dtype = len(rows), optimizer.param_groups[0]["params"][0].dtype
    steps, block = recipe.steps_of(count), math.ceil(count / recipe.batch)
    module.train()
    for step in range(steps):
        if step % block == 0:
            last = min(step + block, steps)
            places = recipe.places(task.seed, count, step, last)
            moves = recipe.moves(task.seed, count, step, last, tuple(X.shape)) if recipe.augment else places
            rates = recipe.rates(count, step, last)
        present = places[step % block] != ABSENT
        batch = torch.from_numpy(places[step % block][present]).to(X.device)
        x = X[rows[batch]]
        if recipe.augment:
            x = move(x, torch.from_numpy(moves[step % block][present]).to(X.device))
        optimizer.param_groups[0]["lr"] = rates[step % block]
        with (
            FleetLayers(key, torch.tensor(step, device=X.device)),
            torch.autocast(X.device.type, torch.bfloat16, enabled=recipe.precision == "bfloat16"),
        ):
            logits = module(scaled(x, dtype))
        wanted = targets[batch] if task.kind == "labels" else targets[batch].to(dtype)
        optimizer.zero_grad()
        loss(task.kind, logits.to(dtype), wanted, weight[batch].to(dtype)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        for _ in range(recipe.epochs_done(count, step + 1) - recipe.epochs_done(count, step)):
            yield
    module.eval()


def predict_one(module: nn.Module, X: Tensor, rows: Array, classes: int) -> Tensor:
    """The logits of rows of X, `(rows, classes)`."""
    dtype = next(p.dtype for p in module.parameters() if p.is_floating_point())
    out = [torch.empty(0, classes)]
    with torch.no_grad():
        for part in torch.from_numpy(rows).to(X.device).split(512):  # type: ignore[no-untyped-call]
            out.append(module.eval()(scaled(X[part], dtype)).float().cpu())
    return torch.cat(out)
