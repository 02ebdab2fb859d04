"""Runs cells that are not cached: in parallel processes, or in this process, side by side on a GPU."""

from __future__ import annotations

import os
import platform
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, partial
from importlib.metadata import version

from oneballot.errors import DataNotFound, MissingExtra, OneBallotError, OneBallotWarning
from oneballot.runtime.executor import active_cluster, run
from oneballot.runtime.progress import Watcher, current_watcher, track
from oneballot.runtime.scheduler import Job, run_each, steps_of
from oneballot.types import Steps

from .cache import CellCache
from .cells import Experiment, Failure, Result, cell_digest

Cell = tuple[Experiment, int]
Finished = Iterator[tuple[int, Result | Failure]]
"""Positions of cells with their results, in the order in which they finish."""


def run_cells(
    cells: Iterable[Cell], cache: CellCache, *, workers: int = 1, device: str = "auto"
) -> Iterator[tuple[str, Result | Failure]]:
    """Yield each cell's digest and result: first the cached ones, then the others as they finish.

    A cell that several tables share is run once. Failures are not cached, so the next run tries them again.
    """
    todo: dict[str, Cell] = {}
    cached = 0
    for digest, cell in {cell_digest(*cell): cell for cell in cells}.items():
        if result := cache.get(*cell):
            cached += 1
            yield digest, result
        else:
            todo[digest] = cell
    digests = list(todo)
    finished = _run(list(todo.values()), workers, device)
    for position, outcome in track(f"cells ({cached} cached)", finished, len(todo)):
        if isinstance(outcome, Result):
            cache.put(*todo[digests[position]], outcome)
        yield digests[position], outcome


def _run(cells: Sequence[Cell], workers: int, device: str) -> Finished:
    """One worker is this process, so that a GPU is initialized once."""
    if active_cluster() is not None and len(cells) > 1:
        yield from run(_run_in_worker, [(i, *cell, device) for i, cell in enumerate(cells)], workers=workers)
        return
    if workers == 1 or len(cells) < 2:
        for positions in _groups(cells) if on_gpu(device) else ([i] for i in range(len(cells))):
            yield from _run_group(positions, cells, device)
        return
    left = dict(enumerate(cells))
    try:
        for position, result in _run_in_processes(left, workers, device):
            del left[position]
            yield position, result
    except BrokenProcessPool:  # A cell killed its process. To find out which one, run each alone.
        for position, cell in left.items():
            try:
                yield from _run_in_processes({position: cell}, 2, device)
            except BrokenProcessPool:
                yield position, Failure("its process was killed, perhaps for lack of memory; use fewer --workers")


def _run_in_processes(cells: Mapping[int, Cell], workers: int, device: str) -> Finished:
    """Cells take minutes: none waits in a batch, and none is dispatched before a worker is free."""
    import joblib

    parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
    yield from parallel(joblib.delayed(_run_in_worker)(i, *cell, device) for i, cell in list(cells.items()))


def _groups(cells: Sequence[Cell]) -> Iterator[list[int]]:
    """Positions of the cells that run side by side, up to their limit; the others alone."""
    groups: dict[tuple[str, int], list[int]] = {}
    for position, (experiment, _) in enumerate(cells):
        groups.setdefault(experiment.side_by_side or (f"alone {position}", 1), []).append(position)
    for (_, limit), positions in groups.items():
        for i in range(0, len(positions), limit):
            yield positions[i : i + limit]


def _run_group(positions: Sequence[int], cells: Sequence[Cell], device: str) -> Finished:
    """Run these cells side by side. The cells that still run share the time."""
    rounds = _Rounds(len(positions), current_watcher())
    watchers = [partial(rounds.record, position) if len(positions) > 1 else None for position in positions]
    jobs = [Job(_attempt(*cells[i], device), watcher=watcher) for i, watcher in zip(positions, watchers, strict=True)]
    before, share = time.perf_counter(), 0.0
    with _without_warnings():
        for running, (index, result) in zip(range(len(jobs), 0, -1), run_each(jobs), strict=True):
            now = time.perf_counter()
            before, share = now, share + (now - before) / running
            yield positions[index], _stamp(result, share, device)
    rounds.finish()


@dataclass
class _Rounds:
    """The progress of iterative methods in several cells, reported as one."""

    cells: int
    watcher: Watcher | None
    of_cell: dict[int, tuple[int, int]] = field(default_factory=dict)

    def record(self, cell: int, what: str, done: int, total: int) -> None:
        if what.startswith("rounds of "):
            self.of_cell[cell] = done, total
            self._report(sum(done for done, _ in self.of_cell.values()))

    def finish(self) -> None:
        """A method may stop before its last round."""
        if self.of_cell:
            self._report(sum(total for _, total in self.of_cell.values()))

    def _report(self, done: int) -> None:
        if self.watcher is not None:
            self.watcher(f"rounds of {self.cells} cells", done, sum(total for _, total in self.of_cell.values()))


def _run_in_worker(position: int, experiment: Experiment, seed: int, device: str) -> tuple[int, Result | Failure]:
    """On one core: the other workers use the others."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), _single_worker():
        return position, run_one(experiment, seed, device)


def run_one(experiment: Experiment, seed: int, device: str) -> Result | Failure:
    """Run one cell. Any error becomes a Failure, so that the other cells go on."""
    ((_, result),) = _run_group([0], [(experiment, seed)], device)
    return result


def _attempt(experiment: Experiment, seed: int, device: str) -> Steps[Result | Failure]:
    try:
        result: Result = yield from steps_of(experiment.run, seed, device)
        return result
    except (DataNotFound, MissingExtra) as error:
        return Failure(str(error), missing=True)
    except OneBallotError as error:
        return Failure(str(error))
    except Exception as error:  # from a library or a bug of ours
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}, line {last.lineno}"
        return Failure(f"{type(error).__name__}: {error} ({where})")


def _stamp(result: Result | Failure, seconds: float, device: str) -> Result | Failure:
    """Add time, date, machine and versions to a result."""
    if isinstance(result, Failure):
        return result
    measured = f"{date.today()}, {_describe_machine(device)}"
    return replace(result, values={**result.values, "seconds": seconds}, measured=measured)


@cache
def _describe_machine(device: str) -> str:
    parts = [f"{os.cpu_count()} cores ({platform.system()} {platform.machine()})"]
    parts.append(f"Python {platform.python_version()}")
    if on_gpu(device):
        import torch

        parts = [torch.cuda.get_device_name(), *parts, f"torch {torch.__version__}"]
    return ", ".join([*parts, f"oneballot {version('oneballot')}"])


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Warnings about parties that lack a class are expected here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)
        yield


@contextmanager
def _single_worker() -> Iterator[None]:
    before = os.environ.get("ONEBALLOT_WORKERS")
    os.environ["ONEBALLOT_WORKERS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["ONEBALLOT_WORKERS"]
        else:
            os.environ["ONEBALLOT_WORKERS"] = before


def default_workers(device: str) -> int:
    """One per core; one on a GPU."""
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
