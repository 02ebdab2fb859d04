"""Adam and SGD on the matrix of a wave: they update all parameters of all models together.

CUDA graphs record the tensors of an optimizer, so `reset` starts over in the same tensors.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.adam import adam

from .layout import ALIGN
from .recipe import Recipe

PIECES = 36
"""torch's fused Adam takes at most this many tensors in one launch, and gives each at least one of the GPU's cores."""


class Corrections:
    """The terms that FedProx and SCAFFOLD add to each step.

    proximal `(models, 1)`: strength of the pull towards each model's start, added to the gradients (FedProx: Li et al.
    2020). offset: added to the direction that the optimizer takes (SCAFFOLD: Karimireddy et al. 2020).
    """

    def __init__(self, recipe: Recipe, weights: Tensor, proximal: Tensor | None, offset: Tensor | None) -> None:
        self.proximal, self.rate, self.offset = proximal, recipe.learning_rate, offset
        self.origin = weights if proximal is None else weights.clone()

    def reset(self, weights: Tensor, offset: Tensor | None) -> None:
        if self.proximal is not None:
            self.origin.copy_(weights)
        if self.offset is not None and offset is not None:
            self.offset.copy_(offset)

    def add_proximal(self, weights: Tensor, gradients: Tensor) -> None:
        """weights, gradients: of the first models."""
        if self.proximal is not None:
            gradients.addcmul_(weights - self.origin[: len(weights)], self.proximal[: len(weights)])

    def add_offset(self, weights: Tensor, rates: Tensor | None) -> None:
        if self.offset is not None and rates is None:
            weights.sub_(self.offset[: len(weights)], alpha=self.rate)
        elif self.offset is not None and rates is not None:
            weights.addcmul_(self.offset[: len(weights)], rates.unsqueeze(-1), value=-1)


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

    def reset(self, done: int) -> None:
        self.count.fill_(float(done))

    def step(self, rates: Tensor | None) -> None:
        weights, gradients, means, squares = self.lists
        adam(
            weights, gradients, means, squares, [], self.steps, fused=True, capturable=self.steps[0].is_cuda,
            lr=self.recipe.learning_rate, weight_decay=self.recipe.weight_decay,
            beta1=0.9, beta2=0.999, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip


class SGD:
    """SGD with momentum and a learning rate for each model, since each is in an epoch of its own."""

    STATE = 1

    def __init__(self, recipe: Recipe, weights: Tensor, gradients: Tensor, state: Tensor, done: int) -> None:
        self.recipe, self.weights, self.gradients, self.velocity = recipe, weights, gradients, state[0]

    def reset(self, done: int) -> None:
        """Nothing to do: SGD counts no steps."""

    def step(self, rates: Tensor | None) -> None:
        assert rates is not None
        if self.recipe.weight_decay:
            self.gradients.add_(self.weights, alpha=self.recipe.weight_decay)
        self.velocity.mul_(self.recipe.momentum).add_(self.gradients)
        self.weights.addcmul_(self.velocity, rates.unsqueeze(-1), value=-1)


OPTIMIZERS: dict[str, type[Adam] | type[SGD]] = {"adam": Adam, "sgd": SGD}
