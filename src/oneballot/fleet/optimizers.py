"""Adam and SGD for the matrix of a wave: all parameters of all models in as few sweeps as there are."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.adam import adam

from .layout import ALIGN
from .recipe import Recipe

PIECES = 36
"""As many as torch sweeps in one launch; each gets at least one of the GPU's cores."""


class Adam:
    """Kingma and Ba 2015, by torch's fused sweep. A GPU gets the matrix in pieces, or a few of its cores do it all."""

    def __init__(self, recipe: Recipe, weights: Tensor, slopes: Tensor, memory: Tensor, done: int) -> None:
        size = weights.numel()
        if weights.is_cuda:
            size = max(1, -(-size // PIECES // ALIGN)) * ALIGN
        self.recipe = recipe
        parts = (weights, slopes, memory[0], memory[1])
        self.lists = [list(part.view(-1).split(size)) for part in parts]  # type: ignore[no-untyped-call]
        count = len(self.lists[0])
        self.steps = list(torch.full((count,), float(done), device=weights.device).unbind())

    def step(self, rates: Tensor | None) -> None:
        weights, slopes, means, squares = self.lists
        adam(
            weights, slopes, means, squares, [], self.steps, fused=True, capturable=self.steps[0].is_cuda,
            lr=self.recipe.learning_rate, weight_decay=self.recipe.weight_decay,
            beta1=0.9, beta2=0.999, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip


class SGD:
    """With momentum; each model has its own learning rate, for each is in an epoch of its own."""

    def __init__(self, recipe: Recipe, weights: Tensor, slopes: Tensor, memory: Tensor, done: int) -> None:
        self.recipe, self.weights, self.slopes, self.speed = recipe, weights, slopes, memory[0]

    def step(self, rates: Tensor | None) -> None:
        assert rates is not None
        if self.recipe.weight_decay:
            self.slopes.add_(self.weights, alpha=self.recipe.weight_decay)
        self.speed.mul_(self.recipe.momentum).add_(self.slopes)
        self.weights.addcmul_(self.speed, rates.unsqueeze(-1), value=-1)


OPTIMIZERS: dict[str, type[Adam] | type[SGD]] = {"adam": Adam, "sgd": SGD}
MEMORIES = {"adam": 2, "sgd": 1}
