"""Many models of any module at once, by torch.func.vmap, and the layers that a fleet replaces.

Dropout takes its mask from the model's key, in a loop as in a fleet. Batch normalisation ignores absent rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.overrides import TorchFunctionMode

from .. import draws


class Stacked:
    """The interface of `Chain`, for any module. Buffers `(models, …)`, such as running means, are updated in place."""

    def __init__(
        self, module: nn.Module, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor] | None = None,
        keys: Tensor | None = None, tick: Tensor | None = None, *, buffers: Mapping[str, Tensor] | None = None,
        half: bool = False,
    ) -> None:  # fmt: skip
        self.module, self.buffers, self.gradients = module, dict(buffers or {}), gradients
        self.tick, self.half = tick, half
        self.weights = {name: value.detach().requires_grad_(gradients is not None) for name, value in weights.items()}
        models = len(next(iter(weights.values())))
        self.keys = torch.zeros(models, dtype=torch.int64, device=self.device) if keys is None else keys

    @property
    def device(self) -> torch.device:
        return next(iter(self.weights.values())).device

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        """present `(models, rows)`: False for absent rows."""
        training = self.gradients is not None
        self.module.train(training)
        if present is None:
            present = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)

        def one(weights: Any, buffers: Any, x: Tensor, present: Tensor, key: Tensor) -> Any:
            with FleetLayers(key, self.tick, present):
                return functional_call(self.module, {**weights, **buffers}, (x,))

        with torch.set_grad_enabled(training), torch.autocast(x.device.type, torch.bfloat16, enabled=self.half):
            self.logits = vmap(one)(self.weights, self.buffers, x, present, self.keys)
        logits: Tensor = self.logits.detach()
        return logits.float() if self.half else logits

    def backward(self, d: Tensor) -> None:
        assert self.gradients is not None
        results = torch.autograd.grad(self.logits, list(self.weights.values()), d.to(self.logits), allow_unused=True)
        del self.logits
        for name, result in zip(self.weights, results, strict=True):
            if result is not None:
                self.gradients[name].copy_(result)


class FleetLayers(TorchFunctionMode):
    """A torch function mode: dropout of this model and step, and batch normalisation over the rows that are present."""

    def __init__(self, key: Tensor, tick: Tensor | None, present: Tensor | None = None) -> None:
        super().__init__()
        self.key, self.tick, self.present, self.layer = key, tick, present, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.dropout:
            return self._dropout(*args, **kwargs)
        if func is F.batch_norm:
            present = self.present
            if present is None and args[0][:, 0].numel() == 1:  # torch refuses one value
                present = torch.ones(1, dtype=torch.bool, device=args[0].device)
            if present is not None:
                return _batch_norm(present, *args, **kwargs)
        if func is F.embedding and self.present is not None:
            return _embedding(*args, **kwargs)
        return func(*args, **kwargs)

    def _dropout(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        number, self.layer = self.layer, self.layer + 1
        if not training or p == 0:
            return x
        if p == 1:
            return x * 0
        assert self.tick is not None
        kept = draws.kept(self.key, self.tick, number, tuple(x.shape), p, x.device)
        return x * kept * (1 / (1 - p))


def _embedding(places: Tensor, table: Tensor, padding_idx: int | None = None, *rest: Any, **more: Any) -> Tensor:
    """F.embedding. Under vmap, torch 2.13 gives the padding of all models but the first a gradient."""
    words = F.embedding(places, table, None, *rest, **more)
    if padding_idx is None:
        return words
    padding = padding_idx if padding_idx >= 0 else padding_idx + len(table)
    return torch.where((places == padding).unsqueeze(-1), words.detach(), words)


def _batch_norm(
    present: Tensor, x: Tensor, mean: Tensor | None, var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """F.batch_norm over the rows that are present."""
    flat = (x.flatten(2) if x.dim() > 2 else x.unsqueeze(-1)).to(x.dtype if x.dtype == torch.float64 else torch.float32)
    weight = flat.new_ones(flat.shape[1]) if weight is None else weight
    bias = torch.zeros_like(weight) if bias is None else bias
    if training:
        out, batch_mean, batch_var = _normalize(flat, weight, bias, present, eps)
        if mean is not None and var is not None:
            number = present.sum() * flat.shape[-1]
            unbiased = batch_var.detach() * (number / (number - 1).clamp(min=1))
            mean.copy_(mean + momentum * (batch_mean.detach() - mean))
            var.copy_(var + momentum * (unbiased - var))
    else:
        assert mean is not None and var is not None  # noqa: PT018
        out = _scaled(flat, weight, bias, mean, var, eps)
    return out.reshape(x.shape).to(x.dtype)


def _normalize(x: Tensor, weight: Tensor, bias: Tensor, present: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The mean and variance of all present rows, from those of each row, which one pass finds."""
    share = (present.to(x.dtype) / present.sum().clamp(min=1)).unsqueeze(-1)
    row_var, row_mean = torch.var_mean(x, -1, correction=0)
    mean = (share * row_mean).sum(0)
    var = (share * (row_var + (row_mean - mean) ** 2)).sum(0)
    return _scaled(x, weight, bias, mean, var, eps), mean, var


def _scaled(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float) -> Tensor:
    scale = weight * torch.rsqrt(var + eps)
    return torch.addcmul(bias.unsqueeze(-1), x - mean.unsqueeze(-1), scale.unsqueeze(-1))
