"""Where a fleet is trained: the device, its precision, and the number of threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ...errors import ElectionError
from .recipe import Recipe

_precision_lock = threading.RLock()


def find_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ElectionError('device = "cuda", but torch finds no GPU here; use "auto" or "cpu"')
    return torch.device(name)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for each product on a CPU: several threads that wait for one another take ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def precision(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """On a GPU: make results reproducible, and allow TF32 if the recipe does.

    The settings belong to the process, so a thread waits until no other thread uses them.
    """
    if device.type != "cuda":
        yield
        return
    product, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
    with _precision_lock:
        before = product.allow_tf32, convolution.allow_tf32, convolution.deterministic
        product.allow_tf32 = convolution.allow_tf32 = recipe.precision in ("tf32", "bfloat16")
        convolution.deterministic = True
        try:
            yield
        finally:
            product.allow_tf32, convolution.allow_tf32, convolution.deterministic = before
