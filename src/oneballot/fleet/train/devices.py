"""Where a fleet is trained: the device, its precision, and the threads of a product."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ...errors import ElectionError
from .recipe import Recipe

_precise = threading.RLock()


def find_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ElectionError('device = "cuda", and torch finds no GPU here; use "auto" or "cpu"')
    return torch.device(name)


@contextmanager
def one_thread() -> Iterator[None]:
    """For each product on a CPU. Several threads that wait for one another made a step ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def precision(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """On a GPU: the same sums in the same order every time, and whether factors are rounded to 10 bits (TF32).

    It holds for the whole process, so that a thread waits until no other has set it.
    """
    if device.type != "cuda":
        yield
        return
    product, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
    with _precise:
        before = product.allow_tf32, convolution.allow_tf32, convolution.deterministic
        product.allow_tf32 = convolution.allow_tf32 = recipe.precision in ("tf32", "bfloat16")
        convolution.deterministic = True
        try:
            yield
        finally:
            product.allow_tf32, convolution.allow_tf32, convolution.deterministic = before
