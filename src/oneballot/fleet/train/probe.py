"""Whether vmap computes a user's module as the module itself does: tried on a batch, before anything is trained."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from ...errors import ElectionError
from ...types import Task
from .. import draws
from ..models.custom import Generators
from ..models.inputs import scaled
from ..models.network import Network
from .stacked import Drawn, Stacked

CLOSE = 1e-3


def try_out(network: Network, X: Tensor, classes: int) -> None:
    """Two rows there and back, before anything is trained: a user's module may do anything."""
    name, shape = f"your module {type(network.bare).__name__}", tuple(X.shape[1:])
    try:
        _try_out(network, X, classes, name)
    except ElectionError:
        raise
    except Exception as error:
        first = (str(error).splitlines() or [""])[0][:300]
        raise ElectionError(
            f"{name} fails on two rows of shape {shape} ({X.dtype}): {type(error).__name__}: {first}"
        ) from error


def _try_out(network: Network, X: Tensor, classes: int, name: str) -> None:
    x = scaled(X[[0, -1]], torch.float32)
    module = network.make(network.start(0)).to(X.device).train()
    key, tick = (torch.zeros((), dtype=torch.int64, device=X.device) for _ in range(2))
    with Generators(0, 1, X.device).here(), Drawn(key, tick):
        logits = module(x.clone())
    if not isinstance(logits, Tensor):
        raise ElectionError(f"{name} answers with {type(logits).__name__}: expected a tensor (rows, {classes})")
    if logits.shape != (2, classes) or logits.dtype != torch.float32:
        raise ElectionError(
            f"{name} answers two rows with {logits.dtype} {tuple(logits.shape)}: expected float32 {(2, classes)}, "
            "a number for each class; the function is given how many there are"
        )
    if not logits.requires_grad:
        raise ElectionError(f"{name}: its answers do not depend on a parameter that could be trained")
    copied = network.make({key: value.detach().cpu().numpy() for key, value in module.state_dict().items()})
    with torch.no_grad(), Generators(0, 1, X.device).here():
        kept = module.eval()(x.clone())
    with torch.no_grad(), Generators(0, 1, X.device).here():
        again = copied.to(X.device).eval()(x.clone())
    if not torch.allclose(kept, again, rtol=1e-4, atol=1e-5, equal_nan=True):
        raise ElectionError(
            f"{name} learns something that is not in its state_dict: a copy with the same numbers answers otherwise. "
            "Keep it in a parameter, or a persistent buffer that is changed in place"
        )


def why_not_stacked(network: Network, X: Tensor, task: Task, classes: int) -> str:
    """Empty, or the reason. vmap runs some layers in a hidden loop and only warns: that is a reason too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return _compare(network, X, task, classes)
    except Exception as error:  # a user's module, and vmap at it, may raise anything
        return f"vmap cannot take this module ({type(error).__name__}: {str(error).splitlines()[0][:200]})"


def _compare(network: Network, X: Tensor, task: Task, classes: int) -> str:
    """Two models, a batch with an absent row: logits, slopes and buffers must be those of each model alone."""
    seeds = [task.seed, task.seed + 1]
    modules = [network.make(network.start(seed)).to(X.device) for seed in seeds]
    rows = torch.arange(min(len(X), 5), device=X.device)
    x = scaled(X[rows], torch.float32)
    present = torch.ones(len(rows), dtype=torch.bool, device=X.device)
    present[-1] = len(rows) == 1  # where a batch has absent rows: at its end
    learned = [key for key, weight in modules[0].named_parameters() if weight.requires_grad]
    values = {key: torch.stack([m.state_dict()[key] for m in modules]) for key in modules[0].state_dict()}
    weights = {key: values[key] for key in learned}
    buffers = {key: value for key, value in values.items() if key not in weights}
    slopes = {key: torch.zeros_like(value) for key, value in weights.items()}
    keys = torch.tensor([draws.dropout_key(seed) for seed in seeds], device=X.device)
    tick = torch.zeros((), dtype=torch.int64, device=X.device)
    stacked = Stacked(modules[0], weights, slopes, keys, tick, buffers=buffers)
    twice = x.expand(2, *x.shape)
    logits = stacked.forward(twice, present.expand(2, -1))
    if logits.shape != (2, len(rows), classes):
        return f"it answers with shape {tuple(logits.shape[1:])}: expected {(len(rows), classes)}"
    down = torch.linspace(-1, 1, 2 * len(rows) * classes, device=X.device).view(2, len(rows), classes)
    stacked.backward(down * present[:, None])
    for i, module in enumerate(modules):
        module.train()
        with Drawn(keys[i], tick):
            alone = module(x[present])
        alone.backward(down[i, present])
        if idle := [key for key in learned if module.get_parameter(key).grad is None]:
            return f"not all of its weights have a part in its answers ({', '.join(idle)[:200]})"
        pairs = [(logits[i, present], alone)]
        pairs += [(slopes[key][i], module.get_parameter(key).grad) for key in learned]
        pairs += [(value[i], module.state_dict()[key]) for key, value in buffers.items()]
        for ours, theirs in pairs:
            ours, theirs = ours.float(), torch.zeros_like(ours).float() if theirs is None else theirs.float()
            if not (ours - theirs).abs().max() <= CLOSE * (1 + theirs.abs().max()):
                return "stacked models would not come to the same as one alone (it looks at other rows of its batch?)"
    return ""
