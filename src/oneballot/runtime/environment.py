"""What a library takes from its process: numbers of threads, precision, and global random generators.

The scheduler sets them, so that a method that uses torch or `numpy.random` directly is reproducible, and is not slowed
down by threads that wait for one another. torch is never imported here: if it is not loaded, nothing uses it. If a step
imports it, or any library with threads, the settings apply as soon as it is loaded.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import numpy as np

from .executor import workers
from .imports import after_imports


@contextmanager
def limited_threads() -> Iterator[None]:
    """Let BLAS and OpenMP libraries, loaded now or within the block, use no more threads than there are workers."""
    import joblib

    count = workers()
    if count >= joblib.cpu_count():
        yield
        return
    with ExitStack() as limits:

        def limit(name: str, nested: bool) -> None:
            if not nested and name.partition(".")[0] not in sys.stdlib_module_names:
                limits.enter_context(_limit(count))

        limits.enter_context(_limit(count))
        with after_imports(limit):
            yield


def _limit(count: int) -> AbstractContextManager[Any]:
    """Limits the loaded libraries that would use more threads."""
    from threadpoolctl import ThreadpoolController

    loaded = ThreadpoolController()
    above = [library.filepath for library in loaded.lib_controllers if library.num_threads > count]
    return loaded.select(filepath=above).limit(limits=count)  # type: ignore[no-any-return]


@contextmanager
def reproducible(identity: str) -> Iterator[None]:
    """Seed the global random generators by this text; let torch use one thread and full precision. Restores all."""
    seed = int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=4).digest(), "little")
    states = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        with _torch_when_loaded(seed):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


@contextmanager
def _torch_when_loaded(seed: int) -> Iterator[None]:
    if "torch" in sys.modules:
        with _torch(seed):
            yield
        return
    with ExitStack() as stack:

        def loaded(name: str, nested: bool) -> None:
            if name == "torch":
                stack.enter_context(_torch(seed))

        with after_imports(loaded):
            yield


@contextmanager
def _torch(seed: int) -> Iterator[None]:
    torch = sys.modules["torch"]
    if not hasattr(torch, "set_num_threads"):  # loaded in part
        yield
        return
    on_gpu = torch.cuda.is_initialized()
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32, convolutions.deterministic
    gpu_states = torch.cuda.get_rng_state_all() if on_gpu else []
    torch.default_generator.manual_seed(seed)
    if built := torch.backends.cuda.is_built():
        torch.cuda.manual_seed_all(seed)  # as soon as the step uses a GPU, if none was used before
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
        elif built:
            torch.cuda.manual_seed_all(torch.initial_seed())
