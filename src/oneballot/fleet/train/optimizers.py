"""Adam, AdamW and SGD on the matrix of a wave: they update all parameters of all models together."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam

from .layout import ALIGN
from .recipe import Recipe

PIECES = 36
"""torch's fused Adam takes at most this many tensors in one launch, and gives each at least one of the GPU's cores."""


class Optimizer(Protocol):
    def step(self, rates: Tensor | None) -> None:
        """Update the weights by the gradients. rates: the learning rate of each model, if they differ."""


class Adam:
    """Kingma and Ba 2015, by torch's fused kernel. A GPU takes the matrix in pieces, to use all of its cores."""

    STATE = 2
    """How many matrices the optimizer keeps."""

    def __init__(self, recipe: Recipe, weights: Tensor, gradients: Tensor, state: Tensor, done: int) -> None:
        size = weights.numel()
        if weights.is_cuda:
            size = max(1, -(-size // PIECES // ALIGN)) * ALIGN
        self.recipe = recipe
        parts = (weights, gradients, state[0], state[1])
        self.lists = [list(part.view(-1).split(size)) for part in parts]  # type: ignore[no-untyped-call]
        self.count = torch.full((len(self.lists[0]),), float(done), device=weights.device)
        self.steps = list(self.count.unbind())

    def step(self, rates: Tensor | None) -> None:
        weights, gradients, means, squares = self.lists
        adam(
            weights, gradients, means, squares, [], self.steps, fused=True, capturable=self.steps[0].is_cuda,
            lr=self.recipe.learning_rate, weight_decay=self.recipe.weight_decay,
            beta1=0.9, beta2=0.999, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip


class AdamW(Adam):
    """Loshchilov and Hutter 2019: weights decay apart from the gradients, by each model's own learning rate.

    The fused kernel has one rate for all models, so it computes their steps with the rate 1, which are then scaled.
    """

    STATE = 3

    def __init__(self, recipe: Recipe, weights: Tensor, gradients: Tensor, state: Tensor, done: int) -> None:
        self.weights, self.change = weights, state[2]
        plain = replace(recipe, learning_rate=1.0, weight_decay=0.0)
        super().__init__(plain, self.change, gradients, state, done)
        self.decay = recipe.weight_decay

    def step(self, rates: Tensor | None) -> None:
        assert rates is not None
        self.change.zero_()
        super().step(None)
        if self.decay:
            self.weights.mul_((1 - rates * self.decay).unsqueeze(-1))
        self.weights.addcmul_(self.change, rates.unsqueeze(-1))


class SGD:
    """SGD with momentum and a learning rate for each model, since each is in an epoch of its own."""

    STATE = 1

    def __init__(self, recipe: Recipe, weights: Tensor, gradients: Tensor, state: Tensor, done: int) -> None:
        self.recipe, self.weights, self.gradients, self.velocity = recipe, weights, gradients, state[0]

    def step(self, rates: Tensor | None) -> None:
        assert rates is not None
        if self.recipe.weight_decay:
            self.gradients.add_(self.weights, alpha=self.recipe.weight_decay)
        self.velocity.mul_(self.recipe.momentum).add_(self.gradients)
        self.weights.addcmul_(self.velocity, rates.unsqueeze(-1), value=-1)


OPTIMIZERS: dict[str, type[Adam] | type[SGD]] = {"adam": Adam, "adamw": AdamW, "sgd": SGD}
