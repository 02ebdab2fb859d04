"""What a library takes from its process: numbers of threads, precision, and global random generators.

The scheduler sets them, so that a method that uses torch or `numpy.random` directly is reproducible, and is not slowed
down by threads that wait for one another. torch is never imported here: if it is not loaded, nothing uses it.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np

from .executor import workers


@contextmanager
def limited_threads() -> Iterator[None]:
    """Let the loaded BLAS and OpenMP libraries use no more threads than there are workers."""
    import joblib
    from threadpoolctl import threadpool_limits

    with threadpool_limits(count) if (count := workers()) < joblib.cpu_count() else nullcontext():
        yield


@contextmanager
def reproducible(identity: str) -> Iterator[None]:
    """Seed the global random generators by this text; let torch use one thread and full precision. Restores all."""
    seed = int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=4).digest(), "little")
    states = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        with _torch(seed):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


@contextmanager
def _torch(seed: int) -> Iterator[None]:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "set_num_threads"):  # not loaded, or only in part
        yield
        return
    on_gpu = torch.cuda.is_initialized()
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32, convolutions.deterministic
    gpu_states = torch.cuda.get_rng_state_all() if on_gpu else []
    torch.default_generator.manual_seed(seed)
    if on_gpu:
        torch.cuda.manual_seed_all(seed)
    torch.set_num_threads(1)
    products.allow_tf32, convolutions.allow_tf32, convolutions.deterministic = False, False, True
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32, convolutions.deterministic = before
        torch.set_num_threads(threads)
        torch.set_rng_state(state)
        if on_gpu:
            torch.cuda.set_rng_state_all(gpu_states)
