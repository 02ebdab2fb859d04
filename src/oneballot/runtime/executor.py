"""Where trainings run: on this machine, or on a Dask or Ray cluster, all by joblib.

Only trainings are sent away. joblib's own `parallel_config` would send every loop of every library after them: each
tree of a forest for itself, and probabilities would be added up in the order in which threads bring them.
"""

from __future__ import annotations

import contextlib
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
AT_ONCE = 16
"""Where joblib gives results only when all are there (Ray): how many calls a worker are waited for together."""
MATTER = ("oneballot", "numpy", "scipy", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm", "torch")
"""Packages of which a worker must have the same version, or its models would differ from those trained here."""


@dataclass(frozen=True)
class Cluster:
    """Workers, as joblib knows them."""

    backend: str
    workers: int
    settings: dict[str, Any] = field(default_factory=dict)


_active: ContextVar[Cluster | None] = ContextVar("cluster", default=None)


@contextmanager
def spread(backend: str | None) -> Iterator[None]:
    """Trainings in this block run on a cluster; the outcome is the same, bit by bit.

    `dask://HOST:PORT` and `ray://HOST:PORT` are clusters that run. `dask` and `ray` start one of as many processes as a
    training on this machine would have, and end it. None is this machine without a cluster.
    """
    if backend is None:
        yield
        return
    kind, mark, address = backend.partition("://")
    if kind not in KINDS or (mark and not address):
        raise ElectionError(
            f"there is no backend {backend!r}: expected dask://HOST:PORT or ray://HOST:PORT, or dask or ray alone for "
            "a cluster of processes on this machine"
        )
    with KINDS[kind](address) as cluster:
        token = _active.set(cluster)
        try:
            yield
        finally:
            _active.reset(token)


def active_cluster() -> Cluster | None:
    """The cluster of the block that this is called in."""
    return _active.get()


def workers() -> int:
    """How many processes: what joblib was told, else ONEBALLOT_WORKERS, else the machine's cores."""
    import joblib
    from joblib.parallel import get_active_backend

    told: Any = get_active_backend()[1]
    if told not in (None, 1):
        return int(joblib.effective_n_jobs(told))
    asked = os.environ.get("ONEBALLOT_WORKERS") or str(joblib.cpu_count())
    if not asked.isdecimal() or int(asked) < 1:
        raise ElectionError(f"ONEBALLOT_WORKERS must be a number of processes, such as 4, not {asked!r}")
    return int(asked)


def parallelism(here: int) -> int:
    """How many trainings run at once: on the cluster, else so many here."""
    cluster = active_cluster()
    return here if cluster is None else cluster.workers


def in_threads(prefer: str) -> bool:
    """Whether `run` would use threads of this process."""
    from joblib.parallel import get_active_backend

    return active_cluster() is None and getattr(get_active_backend(prefer=prefer)[0], "uses_threads", False)


def run(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], *, workers: int, **settings: Any
) -> Iterator[Any]:
    """What the function makes of each tuple of arguments, in their order: on the cluster, else by so many workers here.

    The settings are those of `joblib.Parallel`, for this machine.
    """
    cluster = active_cluster()
    if cluster is None:
        yield from _run(function, arguments, workers, settings)
        return
    import joblib

    try:
        with joblib.parallel_config(cluster.backend, **cluster.settings):
            results = _run(_if_alike, [(versions(), function, *a) for a in arguments], cluster.workers, {})
        yield from results
    except ImportError as error:
        raise OneBallotError(f"a worker of the {cluster.backend} cluster lacks something: {error}. {ALIKE}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("distributed", "ray"):
            raise
        raise OneBallotError(
            f"the {cluster.backend} cluster failed: {printable(error, 300)} … Nothing was written; look at its "
            "workers' logs and memory, and run it again, there or without a backend."
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
    return _in_rounds(joblib.Parallel(workers, **settings), calls, AT_ONCE * workers)


def _in_rounds(parallel: Any, calls: Sequence[Any], size: int) -> Iterator[Any]:
    with parallel:
        for i in range(0, len(calls), size):
            yield from parallel(calls[i : i + size])


ALIKE = "Every worker needs the same versions of oneballot and its libraries as this machine."


def _if_alike(expected: dict[str, str], function: Callable[..., Any], *arguments: Any) -> Any:
    """On a worker: refuse to come to results that would be others than here, and send no loop on to other workers."""
    import joblib

    found = versions()
    for name, wanted in expected.items():
        if found.get(name) != wanted:
            raise OneBallotError(
                f"the worker on {socket.gethostname()} has {name} {found.get(name, 'not installed')}, and this machine "
                f"{wanted}. {ALIKE}"
            )
    with joblib.parallel_config("sequential", n_jobs=1):
        return function(*arguments)


@cache
def versions() -> dict[str, str]:
    found = {}
    for name in MATTER:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@contextmanager
def _dask(address: str) -> Iterator[Cluster]:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtra("The backend dask", "dask") from None
    import logging

    with contextlib.ExitStack() as stack:
        where: Any = f"tcp://{address}"
        if not address:
            local = LocalCluster(
                n_workers=workers(), threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR
            )
            where = stack.enter_context(local)
        try:
            client = stack.enter_context(Client(where, timeout=CONNECT_SECONDS, set_as_default=False))
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            raise OneBallotError(
                f"no Dask cluster with workers was found at {address} within {CONNECT_SECONDS} s: {error}. Start one "
                "with `dask scheduler`, and `dask worker HOST:PORT` on each machine."
            ) from None
        yield Cluster("dask", sum(client.ncores().values()), {"client": client})


@contextmanager
def _ray(address: str) -> Iterator[Cluster]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it tells its makers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns that one day this will be usual
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise MissingExtra("The backend ray", "ray") from None
    import logging

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


KINDS: dict[str, Callable[[str], AbstractContextManager[Cluster]]] = {"dask": _dask, "ray": _ray}
