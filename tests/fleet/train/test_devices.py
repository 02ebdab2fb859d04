"""Process-wide precision settings."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from oneballot.fleet.train.devices import precision  # noqa: E402
from oneballot.fleet.train.recipe import Recipe  # noqa: E402


def settings() -> tuple[bool, ...]:
    product, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
    return product.allow_tf32, convolution.allow_tf32, convolution.deterministic


def test_each_thread_computes_at_its_own_precision_and_restores_the_settings() -> None:
    """The second thread starts while the first is inside, and would still be inside when the first restores them."""
    begun, before, gpu = threading.Event(), settings(), torch.device("cuda")

    def exactly() -> tuple[bool, ...]:
        with precision(Recipe(), gpu), precision(Recipe(), gpu):
            begun.set()
            threading.Event().wait(0.2)
            return settings()

    def roughly() -> tuple[bool, ...]:
        begun.wait()
        with precision(Recipe(precision="tf32"), gpu):
            threading.Event().wait(0.4)
            return settings()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(exactly), pool.submit(roughly)
    assert (first.result(), second.result()) == ((False, False, True), (True, True, True))
    assert settings() == before
