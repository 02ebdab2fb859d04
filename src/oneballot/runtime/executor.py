"""Runs trainings in parallel with joblib: on this machine, or on a Dask or Ray cluster.

Only trainings go to the cluster. With joblib's own `parallel_config`, the inner loops of all libraries would follow:
each tree of a forest on its own, with probabilities summed in the order in which threads deliver them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..errors import ElectionError, MissingExtra, OneBallotError, printable

CONNECT_SECONDS = 30
CALLS_PER_WORKER = 16
"""Batch size where joblib returns results only when all are done (Ray)."""
CHECKED_PACKAGES = ("oneballot", "numpy", "scipy", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm", "torch")
"""Packages whose version affects trained models, so workers must have the same."""
SAME_VERSIONS = "Every worker needs the same versions of oneballot and its libraries as this machine."


@dataclass(frozen=True)
class Cluster:
    """Workers behind a joblib backend."""

    backend: str
    workers: int
    settings: dict[str, Any] = field(default_factory=dict)


_active: ContextVar[Cluster | None] = ContextVar("cluster", default=None)


@contextmanager
def spread(backend: str | None) -> Iterator[None]:
    """Run the trainings in this block on a cluster; the outcome is the same, bit by bit.

    `dask://HOST:PORT` and `ray://HOST:PORT` connect to a running cluster. `dask` and `ray` start one on this machine
    for the block, with `workers()` processes. None uses no cluster.
    """
    if backend is None:
        yield
        return
    name, separator, address = backend.partition("://")
    if name not in _CONNECT or (separator and not address):
        raise ElectionError(
            f"unknown backend {backend!r}: expected dask://HOST:PORT or ray://HOST:PORT, or only dask or ray for a "
            "cluster of processes on this machine"
        )
    with _CONNECT[name](address) as cluster:
        token = _active.set(cluster)
        try:
            yield
        finally:
            _active.reset(token)


def active_cluster() -> Cluster | None:
    """The cluster of the enclosing `spread` block."""
    return _active.get()


def workers() -> int:
    """The number of local processes: joblib's setting, else ONEBALLOT_WORKERS, else the number of cores."""
    import joblib
    from joblib.parallel import get_active_backend

    configured: Any = get_active_backend()[1]
    if configured not in (None, 1):
        return int(joblib.effective_n_jobs(configured))
    number = os.environ.get("ONEBALLOT_WORKERS") or str(joblib.cpu_count())
    if not number.isdecimal() or int(number) < 1:
        raise ElectionError(f"ONEBALLOT_WORKERS must be a number of processes, such as 4, not {number!r}")
    return int(number)


def parallelism(local: int) -> int:
    """The number of trainings that run at once: the workers of the cluster, or `local` without one."""
    cluster = active_cluster()
    return local if cluster is None else cluster.workers


def in_threads(prefer: str) -> bool:
    """Whether `run` would use threads of this process."""
    from joblib.parallel import get_active_backend

    return active_cluster() is None and getattr(get_active_backend(prefer=prefer)[0], "uses_threads", False)


def run(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], *, workers: int, **settings: Any
) -> Iterator[Any]:
    """Call the function with each tuple of arguments, on the cluster or with local workers; results keep the order.

    `settings` are those of `joblib.Parallel`, and apply to local workers only.
    """
    cluster = active_cluster()
    if cluster is None:
        yield from _run(function, arguments, workers, settings)
        return
    import joblib

    try:
        with joblib.parallel_config(cluster.backend, **cluster.settings):
            results = _run(_run_on_worker, [(versions(), function, *a) for a in arguments], cluster.workers, {})
        yield from results
    except ImportError as error:
        raise OneBallotError(f"a worker of the {cluster.backend} cluster: {error}. {SAME_VERSIONS}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("distributed", "ray"):
            raise
        raise OneBallotError(
            f"the {cluster.backend} cluster failed: {printable(error, 300)} … Nothing was written. Check the logs and "
            "the memory of its workers, then run again, there or without a backend."
        ) from error


def _run(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], workers: int, settings: dict[str, Any]
) -> Iterator[Any]:
    import joblib
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(**{k: v for k, v in settings.items() if k == "prefer"})
    calls = [joblib.delayed(function)(*a) for a in arguments]
    if backend.supports_return_generator:
        results: Iterator[Any] = joblib.Parallel(workers, return_as="generator", **settings)(calls)
        return results
    return _run_in_batches(joblib.Parallel(workers, **settings), calls, CALLS_PER_WORKER * workers)


def _run_in_batches(parallel: Any, calls: Sequence[Any], size: int) -> Iterator[Any]:
    with parallel:
        for i in range(0, len(calls), size):
            yield from parallel(calls[i : i + size])


def _run_on_worker(expected: dict[str, str], function: Callable[..., Any], *arguments: Any) -> Any:
    """Run the function sequentially, after a check that the results will be those of the calling machine."""
    import joblib

    installed = versions()
    for name, wanted in expected.items():
        if installed.get(name) != wanted:
            raise OneBallotError(
                f"the worker on {socket.gethostname()} has {name} {installed.get(name, 'not installed')}, but this "
                f"machine has {wanted}. {SAME_VERSIONS}"
            )
    with joblib.parallel_config("sequential", n_jobs=1):
        return function(*arguments)


@cache
def versions() -> dict[str, str]:
    installed = {}
    for name in CHECKED_PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


@contextmanager
def _connect_dask(address: str) -> Iterator[Cluster]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtra("The backend dask", "dask") from None

    settings = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.ERROR}
    with contextlib.ExitStack() as stack:
        scheduler: Any = f"tcp://{address}"
        if not address:
            scheduler = stack.enter_context(LocalCluster(n_workers=workers(), **settings))
        try:
            client = stack.enter_context(Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False))
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            raise OneBallotError(
                f"no Dask cluster with workers was found at {address} within {CONNECT_SECONDS} s: {error}. Start one "
                "with `dask scheduler`, and `dask worker HOST:PORT` on each machine."
            ) from None
        yield Cluster("dask", sum(client.ncores().values()), {"client": client})


@contextmanager
def _connect_ray(address: str) -> Iterator[Cluster]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise it warns of a future default
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise MissingExtra("The backend ray", "ray") from None

    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with contextlib.ExitStack() as stack:
        if not ray.is_initialized():
            try:
                if address:
                    ray.init(f"ray://{address}", **settings)
                else:
                    ray.init("local", num_cpus=workers(), include_dashboard=False, **settings)
            except (ConnectionError, ValueError, TimeoutError) as error:
                raise OneBallotError(
                    f"no Ray cluster was found at {address}: {error}. Start one with `ray start --head`, and "
                    "`ray start --address HOST:PORT` on each machine; clients connect to port 10001."
                ) from None
            stack.callback(ray.shutdown)
        register_ray()
        count = int(ray.cluster_resources().get("CPU", 1))
        yield Cluster("ray", count, {"ray_remote_args": {"num_cpus": 1}})


_CONNECT: dict[str, Callable[[str], AbstractContextManager[Cluster]]] = {"dask": _connect_dask, "ray": _connect_ray}
