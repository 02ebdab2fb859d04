"""Runs cells: what is kept is not run again, the rest a process a core, or one after the other on a device."""

from __future__ import annotations

import os
import platform
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import cache, partial
from importlib.metadata import version

from oneballot.errors import DataNotFound, MissingExtra, OneBallotError, OneBallotWarning
from oneballot.runtime.executor import active_cluster, run
from oneballot.runtime.progress import track

from .cache import Kept
from .cells import Experiment, Failed, Found, name_of
from .meeting import together

Job = tuple[Experiment, int]


def run_cells(
    jobs: Iterable[Job], kept: Kept, *, workers: int = 1, device: str = "auto"
) -> Iterator[tuple[str, Found | Failed]]:
    """What each experiment gave with its seed, by `name_of`: first those that are kept, then the others as they end.

    One that several tables share is run once. A failure is not kept: it is tried again the next time.
    """
    todo: dict[str, Job] = {}
    before = 0
    for name, job in {name_of(*job): job for job in jobs}.items():
        if found := kept.get(*job):
            before += 1
            yield name, found
        else:
            todo[name] = job
    names = list(todo)
    ran = _run(list(todo.values()), workers, device)
    for place, got in track(f"cells ({before} were kept)", ran, len(todo)):
        if isinstance(got, Found):
            kept.put(*todo[names[place]], got)
        yield names[place], got


def _run(jobs: Sequence[Job], workers: int, device: str) -> Iterator[tuple[int, Found | Failed]]:
    """In whatever order they end. In this process where there is one worker: a device is started once."""
    if active_cluster() is not None and len(jobs) > 1:
        yield from run(_run_apart, [(place, *job, device) for place, job in enumerate(jobs)], workers=workers)
        return
    if workers == 1 or len(jobs) < 2:
        for places in _in_step(jobs) if on_gpu(device) else ([i] for i in range(len(jobs))):
            yield from _run_together(places, jobs, device)
        return
    left = dict(enumerate(jobs))
    try:
        for place, found in _spread(left, workers, device):
            del left[place]
            yield place, found
    except BrokenProcessPool:  # a cell took its process with it: which one is found out by running each by itself
        for place, job in left.items():
            try:
                yield from _spread({place: job}, 2, device)
            except BrokenProcessPool:
                yield place, Failed("error", "its process was killed; perhaps memory ran out: use fewer --workers")


def _spread(jobs: Mapping[int, Job], workers: int, device: str) -> Iterator[tuple[int, Found | Failed]]:
    """Over processes. Cells take minutes: none waits in a batch, and none is given out before it can begin."""
    import joblib

    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
    yield from parallel(joblib.delayed(_run_apart)(place, *job, device) for place, job in list(jobs.items()))


def _in_step(jobs: Sequence[Job]) -> Iterator[list[int]]:
    """Places of jobs that run together: those that say so, up to so many; the others each alone."""
    kinds: dict[tuple[str, int], list[int]] = {}
    for place, (experiment, _) in enumerate(jobs):
        kinds.setdefault(getattr(experiment, "in_step", None) or (f"alone {place}", 1), []).append(place)
    for (_, most), places in kinds.items():
        for i in range(0, len(places), most):
            yield places[i : i + most]


def _run_together(places: Sequence[int], jobs: Sequence[Job], device: str) -> Iterator[tuple[int, Found | Failed]]:
    """As they end."""
    if len(places) == 1:
        yield places[0], run_one(*jobs[places[0]], device)
        return
    before, share = time.perf_counter(), 0.0
    with _quiet():
        found = together([partial(_attempt, *jobs[place], device) for place in places])
        for left, (number, one) in zip(range(len(places), 0, -1), found, strict=True):
            now = time.perf_counter()
            before, share = now, share + (now - before) / left  # those that still run share the time
            yield places[number], _measured(one, share, device)


def _run_apart(place: int, experiment: Experiment, seed: int, device: str) -> tuple[int, Found | Failed]:
    """In a process of its own, on one core: its neighbours have the others."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), _one_worker():
        return place, run_one(experiment, seed, device)


def run_one(experiment: Experiment, seed: int, device: str) -> Found | Failed:
    """One cell. Whatever goes wrong in it is told in its place, and costs no other."""
    begin = time.perf_counter()
    with _quiet():
        found = _attempt(experiment, seed, device)
    return _measured(found, time.perf_counter() - begin, device)


def _attempt(experiment: Experiment, seed: int, device: str) -> Found | Failed:
    try:
        return experiment.run(seed, device)
    except (DataNotFound, MissingExtra) as error:
        return Failed("missing", str(error))
    except OneBallotError as error:
        return Failed("error", str(error))
    except Exception as error:  # a library's, or ours: the other cells go on
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}, line {last.lineno}"
        return Failed("error", f"{type(error).__name__}: {error} ({where})")


def _measured(found: Found | Failed, seconds: float, device: str) -> Found | Failed:
    if isinstance(found, Failed):
        return found
    return replace(found, values={**found.values, "seconds": seconds}, measured=f"{date.today()}, {_here(device)}")


@cache
def _here(device: str) -> str:
    """This machine, and the versions that are used."""
    parts = [
        f"{os.cpu_count()} cores ({platform.system()} {platform.machine()})",
        f"Python {platform.python_version()}",
    ]
    if on_gpu(device):
        import torch

        parts = [torch.cuda.get_device_name(), *parts, f"torch {torch.__version__}"]
    return ", ".join([*parts, f"oneballot {version('oneballot')}"])


@contextmanager
def _quiet() -> Iterator[None]:
    """Parties that lack a class are no news here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)
        yield


@contextmanager
def _one_worker() -> Iterator[None]:
    before = os.environ.get("ONEBALLOT_WORKERS")
    os.environ["ONEBALLOT_WORKERS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["ONEBALLOT_WORKERS"]
        else:
            os.environ["ONEBALLOT_WORKERS"] = before


def workers_for(device: str) -> int:
    """Cells at a time: a core each; on a GPU one process, in which it is started once."""
    import joblib

    return 1 if on_gpu(device) else int(joblib.cpu_count())


def on_gpu(device: str) -> bool:
    if device != "auto":
        return device == "cuda"
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()
