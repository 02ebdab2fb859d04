"""Checks of a custom module before any training: on two rows, and on a GPU under vmap against the module alone."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from ...errors import ElectionError
from ...types import Task
from .. import draws
from ..models.custom import Generators
from ..models.inputs import scaled
from ..models.network import Network
from .stacked import FleetLayers, Stacked

CLOSE = 1e-3


def try_out(network: Network, X: Tensor, classes: int) -> None:
    """Run two rows forward. Raises ElectionError if the module fails or its output has the wrong shape or type."""
    name, shape = f"your module {type(network.bare).__name__}", tuple(X.shape[1:])
    try:
        _try_out(network, X, classes, name)
    except ElectionError:
        raise
    except Exception as error:
        line = (str(error).splitlines() or [""])[0][:300]
        raise ElectionError(
            f"{name} fails on two rows of shape {shape} ({X.dtype}): {type(error).__name__}: {line}"
        ) from error


def _try_out(network: Network, X: Tensor, classes: int, name: str) -> None:
    x = scaled(X[[0, -1]], torch.float32)
    module = network.make(network.start(0)).to(X.device).train()
    key, tick = (torch.zeros((), dtype=torch.int64, device=X.device) for _ in range(2))
    with Generators(0, 1, X.device).here(), FleetLayers(key, tick):
        logits = module(x.clone())
    if not isinstance(logits, Tensor):
        raise ElectionError(f"{name} returns {type(logits).__name__}: expected a tensor (rows, {classes})")
    if logits.shape != (2, classes) or logits.dtype != torch.float32:
        raise ElectionError(
            f"{name} returns {logits.dtype} {tuple(logits.shape)} for two rows: expected float32 {(2, classes)}, "
            "a number for each class; your function receives the number of classes"
        )
    if not logits.requires_grad:
        raise ElectionError(f"{name}: its output does not depend on a trainable parameter")
    copied = network.make({key: value.detach().cpu().numpy() for key, value in module.state_dict().items()})
    outputs = []
    for each in (module, copied.to(X.device)):
        with torch.no_grad(), Generators(0, 1, X.device).here():
            outputs.append(each.eval()(x.clone()))
    if not torch.allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-5, equal_nan=True):
        raise ElectionError(
            f"{name} learns something outside its state_dict: a copy with the same state_dict gives another output. "
            "Keep it in a parameter, or in a persistent buffer that is changed in place"
        )


def why_not_stacked(network: Network, X: Tensor, task: Task, classes: int) -> str:
    """Why vmap cannot train this module; empty if it can. A slow loop, of which vmap only warns, is a reason too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return _compare(network, X, task, classes)
    except Exception as error:  # a custom module may raise anything
        return f"vmap cannot take this module ({type(error).__name__}: {str(error).splitlines()[0][:200]})"


def _compare(network: Network, X: Tensor, task: Task, classes: int) -> str:
    """Compare logits, gradients and buffers of two stacked models with each alone, on a batch with an absent row."""
    seeds = [task.seed, task.seed + 1]
    modules = [network.make(network.start(seed)).to(X.device) for seed in seeds]
    x = scaled(X[:5], torch.float32)
    rows = len(x)
    present = torch.ones(rows, dtype=torch.bool, device=X.device)
    present[-1] = rows == 1  # absent rows are at the end of a batch
    learned = [key for key, weight in modules[0].named_parameters() if weight.requires_grad]
    values = {key: torch.stack([m.state_dict()[key] for m in modules]) for key in modules[0].state_dict()}
    weights = {key: values[key] for key in learned}
    buffers = {key: value for key, value in values.items() if key not in weights}
    gradients = {key: torch.zeros_like(value) for key, value in weights.items()}
    keys = torch.tensor([draws.key_of(seed, draws.DROPOUT) for seed in seeds], device=X.device)
    tick = torch.zeros((), dtype=torch.int64, device=X.device)
    stacked = Stacked(modules[0], weights, gradients, keys, tick, buffers=buffers)
    logits = stacked.forward(x.expand(2, *x.shape), present.expand(2, -1))
    if logits.shape != (2, rows, classes):
        return f"it returns the shape {tuple(logits.shape[1:])}: expected {(rows, classes)}"
    upstream = torch.linspace(-1, 1, 2 * rows * classes, device=X.device).view(2, rows, classes)
    stacked.backward(upstream * present[:, None])
    for i, module in enumerate(modules):
        module.train()
        with FleetLayers(keys[i], tick):
            alone = module(x[present])
        alone.backward(upstream[i, present])
        if idle := [key for key in learned if module.get_parameter(key).grad is None]:
            return f"its output does not depend on all of its weights ({', '.join(idle)[:200]})"
        pairs: list[tuple[Tensor, Any]] = [(logits[i, present], alone)]
        pairs += [(gradients[key][i], module.get_parameter(key).grad) for key in learned]
        pairs += [(value[i], module.state_dict()[key]) for key, value in buffers.items()]
        for ours, theirs in pairs:
            if not (ours.float() - theirs.float()).abs().max() <= CLOSE * (1 + theirs.float().abs().max()):
                return "stacked models would differ from one alone (does it look at other rows of its batch?)"
    return ""
