"""Process-wide precision settings, and the warning about Triton."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from oneballot.errors import OneBallotWarning  # noqa: E402
from oneballot.fleet.gpu.vmapped import warn_without_kernels, why_no_kernels  # noqa: E402
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton may work on this GPU")
def test_a_warning_says_that_triton_does_not_work() -> None:
    """Here either Triton or a GPU is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as where a user's module is tried under vmap
        assert why_no_kernels(torch.device("cuda"))
    warn_without_kernels.cache_clear()
    with pytest.warns(OneBallotWarning, match="Triton does not work"):
        warn_without_kernels(torch.device("cuda"))
