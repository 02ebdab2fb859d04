"""Adam and SGD for the matrix of a wave: all parameters of all models in as few sweeps as there are.

What an optimizer holds is recorded in graphs and stays where it is: `again` begins anew in the same tensors.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.adam import adam

from .layout import ALIGN
from .recipe import Recipe

PIECES = 36
"""As many as torch sweeps in one launch; each gets at least one of the GPU's cores."""


class Lean:
    """What a step has besides the slopes of the rows: a pull to where each model began, of a strength of its own
    `(models, 1)`, which is added to the slopes (FedProx: Li et al. 2020), and an offset of each model's own, added to
    the direction that the optimizer makes of them (SCAFFOLD: Karimireddy et al. 2020). For plain SGD a slope is a
    direction.
    """

    def __init__(self, recipe: Recipe, weights: Tensor, proximal: Tensor | None, offset: Tensor | None) -> None:
        self.proximal, self.rate, self.offset = proximal, recipe.learning_rate, offset
        self.origin = None if proximal is None else weights.clone()
        self.way = None if proximal is None else torch.empty_like(weights)

    def again(self, weights: Tensor, offset: Tensor | None) -> None:
        if self.origin is not None:
            self.origin.copy_(weights)
        if self.offset is not None and offset is not None:
            self.offset.copy_(offset)

    def before(self, weights: Tensor, slopes: Tensor) -> None:
        """A step of the first models, whose weights and slopes these are."""
        if self.proximal is not None and self.origin is not None and self.way is not None:
            torch.sub(weights, self.origin[: len(weights)], out=self.way[: len(weights)])
            slopes.addcmul_(self.way[: len(weights)], self.proximal[: len(weights)])

    def after(self, weights: Tensor, rates: Tensor | None) -> None:
        if self.offset is not None and rates is None:
            weights.sub_(self.offset[: len(weights)], alpha=self.rate)
        elif self.offset is not None and rates is not None:
            weights.addcmul_(self.offset[: len(weights)], rates.unsqueeze(-1), value=-1)


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
        self.count = torch.full((count,), float(done), device=weights.device)
        self.steps = list(self.count.unbind())

    def again(self, done: int) -> None:
        self.count.fill_(float(done))

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

    def again(self, done: int) -> None:
        """Its rates are given, and it counts nothing."""

    def step(self, rates: Tensor | None) -> None:
        assert rates is not None
        if self.recipe.weight_decay:
            self.slopes.add_(self.weights, alpha=self.recipe.weight_decay)
        self.speed.mul_(self.recipe.momentum).add_(self.slopes)
        self.weights.addcmul_(self.speed, rates.unsqueeze(-1), value=-1)


OPTIMIZERS: dict[str, type[Adam] | type[SGD]] = {"adam": Adam, "sgd": SGD}
MEMORIES = {"adam": 2, "sgd": 1}
