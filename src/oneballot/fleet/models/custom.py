"""Custom modules, which a user provides: the random generators they see, and the check of what a factory returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ...errors import ElectionError
from .. import draws

_LOCK = threading.Lock()
"""torch's generators belong to the process, and waves are threads."""


class Generators:
    """torch's generators as one model sees them: seeded for it, whatever else draws in between.

    number: 0 for its initial weights, 1 for its training.
    """

    def __init__(self, seed: int, number: int, device: torch.device | str = "cpu") -> None:
        self.seed = int(draws.raw(seed, draws.CUSTOM, number, 1)[0] >> np.uint64(1))
        self.states: list[Tensor] = []
        self.all = [torch.default_generator]
        if (device := torch.device(device)).type == "cuda":
            self.all.append(torch.cuda.default_generators[device.index or 0])

    @contextmanager
    def here(self) -> Iterator[None]:
        with _LOCK:
            before = [each.get_state() for each in self.all]
            for i, each in enumerate(self.all):
                each.set_state(self.states[i]) if self.states else each.manual_seed(self.seed)
            try:
                yield
            finally:
                self.states = [each.get_state() for each in self.all]
                for each, state in zip(self.all, before, strict=True):
                    each.set_state(state)

    def during(self, work: Iterator[None]) -> Iterator[None]:
        """Run a generator so that each of its steps sees these random generators."""
        while True:
            with self.here():
                try:
                    next(work)
                except StopIteration:
                    return
            yield


def check_module(module: Any) -> nn.Module:
    """The module, if its state can be read, trained and written. Raises ElectionError otherwise."""
    name = f"your module {type(module).__name__}"
    if not isinstance(module, nn.Module):
        raise ElectionError(f"the function that you gave as module returns {type(module).__name__}, not an nn.Module")
    if any(map(is_lazy, [*module.parameters(), *module.buffers()])):
        raise ElectionError(f"{name} has lazy layers, whose parameters do not exist yet; give their sizes")
    state = module.state_dict()
    if odd := [key for key, value in state.items() if not isinstance(value, Tensor)]:
        raise ElectionError(f"{name} has a state_dict with values that are not tensors ({', '.join(odd)}); use buffers")
    other_floats = (torch.float64, torch.float16, torch.bfloat16)
    if odd := [key for key, value in state.items() if value.is_complex() or value.dtype in other_floats]:
        raise ElectionError(f"{name}: {', '.join(odd)[:200]}: expected float32; use the learner's setting precision")
    if not any(weight.requires_grad for weight in module.parameters()):
        raise ElectionError(f"{name} has no trainable parameter")
    return module
