"""Where a fleet is trained: the device, its precision, and the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ...errors import ElectionError


def find_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ElectionError('device = "cuda", but torch finds no GPU here; use "auto" or "cpu"')
    return torch.device(name)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for each product on a CPU: several threads that wait for one another take ten times as long. The
    scheduler sets it too; this is for those who call a learner directly."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def set_precision(precision: str, device: torch.device) -> Iterator[None]:
    """On a GPU: make results reproducible, and allow TF32 if the precision does. It is a setting of the process."""
    if device.type != "cuda":
        yield
        return
    product, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
    before = product.allow_tf32, convolution.allow_tf32, convolution.deterministic
    product.allow_tf32 = convolution.allow_tf32 = precision in ("tf32", "bfloat16")
    convolution.deterministic = True
    try:
        yield
    finally:
        product.allow_tf32, convolution.allow_tf32, convolution.deterministic = before


@contextmanager
def place(name: str, precision: str) -> Iterator[torch.device]:
    """The device of this name, at this precision. The name "auto" is a GPU if there is one."""
    device = find_device(name)
    with set_precision(precision, device):
        yield device
