"""Clusters of several processes: the same outcome, bit by bit, with work on more than one process."""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import DataError, ElectionError, MissingExtra, OneBallotError
from oneballot.learners import _training
from oneballot.runtime import executor
from oneballot.runtime.executor import spread
from oneballot.types import Task

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # Ray leaves processes and files to the garbage collector

SIGNED_IN = '''
import os, pathlib, time
from oneballot.learners.sklearn import Sklearn

class SignedIn(Sklearn):
    """Scikit-learn's models; each training leaves a file named after its process and number of threads."""

    def fit_one(self, X, y, weight, seed, classes):
        from threadpoolctl import threadpool_info
        threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
        pathlib.Path(os.environ["SIGN_IN"], f"{os.getpid()}-{threads}").touch()
        time.sleep(0.02)  # so that one worker cannot finish all before another starts
        if len(y) == 3:
            os._exit(1)
        return super().fit_one(X, y, weight, seed, classes)
'''


@pytest.fixture
def hurried(monkeypatch) -> None:
    """A clock by which everything takes long, so that work is distributed after the first task."""
    ticks = itertools.count(step=100)
    monkeypatch.setattr(_training, "time", SimpleNamespace(monotonic=lambda: next(ticks)))


@pytest.fixture(scope="module")
def signing_in(tmp_path_factory) -> Iterator[Path]:
    """A folder in which workers leave files, and a module that they can import."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "signed_in.py").write_text(SIGNED_IN)
    (folder / "names").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, sys.path)]))
        patch.setenv("SIGN_IN", str(folder / "names"))
        patch.setenv("ONEBALLOT_WORKERS", "2")
        yield folder / "names"


@pytest.fixture(scope="module")
def dask(signing_in: Path) -> Iterator[str]:
    """A scheduler and two workers with two threads each, started by the documented commands."""
    command = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*command, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"],
        stderr=subprocess.PIPE, text=True, cwd=signing_in,
    )  # fmt: skip
    started = [scheduler]
    try:
        address = next(m[1] for line in scheduler.stderr if (m := re.search(r"tcp://(127\.0\.0\.1:\d+)", line)))
        for _ in range(2):
            options = ["--nthreads", "2", "--no-nanny", "--no-dashboard"]
            started.append(
                subprocess.Popen([*command, "worker", address, *options], stderr=subprocess.DEVNULL, cwd=signing_in)
            )
        yield f"dask://{address}"
    finally:
        for process in started:
            process.kill()
            process.wait()
        scheduler.stderr.close()


@pytest.fixture
def ray(signing_in: Path) -> Iterator[str]:
    yield "ray"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def signed_in(estimator: str, params: dict[str, object]) -> ob.Sklearn:
    return importlib.import_module("signed_in").SignedIn(estimator, params)


@pytest.mark.slow
@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(("cluster", "trees"), [("dask", ("RandomForest", "ExtraTrees")), ("ray", ("RandomForest",))])
def test_a_cluster_of_several_processes_gives_the_same_outcome_bit_by_bit(
    cluster, trees, request, signing_in, make_election, digits, monkeypatch
) -> None:
    """On one machine, forests are trained in threads and extra trees in processes."""
    runs = {}
    for name in signing_in.iterdir():
        name.unlink()
    with spread(request.getfixturevalue(cluster)):
        for name in trees:
            election = make_election(learner=signed_in(f"{name}Classifier", {"n_estimators": 7}))
            runs[name] = election, ob.simulate(election, digits.X, digits.y, parties=5, split="homogeneous")
    signed = {int(pid): int(threads) for pid, threads in (p.name.split("-") for p in signing_in.iterdir())}
    assert len(signed.keys() - {os.getpid()}) >= 2, "several worker processes trained"
    assert set(signed.values()) == {1}, "and each model had one thread"
    monkeypatch.setenv("ONEBALLOT_WORKERS", "1")
    for election, away in runs.values():
        here = ob.simulate(election, digits.X, digits.y, parties=5, split="homogeneous")
        assert [b.sealed for b in away.ballots] == [b.sealed for b in here.ballots]
        assert away.outcome.model.dump() == here.outcome.model.dump()


@pytest.mark.usefixtures("hurried")
def test_errors_of_workers_are_raised_on_the_calling_machine(dask, monkeypatch, digits) -> None:
    X, y, rows = digits.X, digits.y, np.arange(100)
    scores = Task(rows, np.zeros((100, 10)), "scores", label="clinic-b")
    with spread(dask):
        with pytest.raises(DataError, match="clinic-b: this learner trains on labels"):
            ob.Sklearn("GaussianNB").fit_many(X, [Task(rows, y[rows]), Task(rows, y[rows]), scores], 10)
        monkeypatch.setattr(executor, "versions", lambda: {"numpy": "0.9"})
        with pytest.raises(OneBallotError, match=r"has numpy \d.*, but this machine has 0\.9\. Every worker"):
            ob.Sklearn("GaussianNB").fit_many(X, [Task(rows, y[rows])] * 3, 10)


@pytest.mark.parametrize("wrong", ["spark", "dask:", "dask://", "ray://", "tcp://127.0.0.1:1"])
def test_an_unknown_backend_is_refused(wrong: str) -> None:
    with pytest.raises(ElectionError, match="expected dask://HOST:PORT or ray://HOST:PORT"), spread(wrong):
        pass


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_extra_is_named(backend: str, module: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'oneballot\[{backend}\]'"), spread(backend):
        pass


def test_an_unreachable_cluster_is_named(monkeypatch) -> None:
    monkeypatch.setattr(executor, "CONNECT_SECONDS", 1)
    with pytest.raises(OneBallotError, match=r"no Dask cluster .* at 127\.0\.0\.1:9 within 1 s"), \
            spread("dask://127.0.0.1:9"):  # fmt: skip
        pass


def test_without_a_backend_trainings_run_locally() -> None:
    with spread(None):
        assert executor.active_cluster() is None


@pytest.mark.usefixtures("hurried")
def test_the_command_line_simulates_on_a_cluster(dask, clinic) -> None:
    from typer.testing import CliRunner

    from oneballot.cli import app

    def call(*words: object) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.output

    election = clinic / "election.toml"
    call("new", election, "--public", clinic / "public.csv", "--label", "ill")
    for folder, more in (("here", ("--workers", 1)), ("away", ("--backend", dask))):
        call("simulate", election, "--data", clinic / "a.csv", "--parties", 2, "--out", clinic / folder, *more)
    files = sorted(p.relative_to(clinic / "here") for p in (clinic / "here").rglob("*") if p.is_file())
    assert len(files) == 7
    for file in files:
        assert (clinic / "here" / file).read_bytes() == (clinic / "away" / file).read_bytes(), file


@pytest.mark.slow
def test_cells_of_a_table_have_the_same_results_on_a_cluster(dask, signing_in, tmp_path) -> None:
    from oneballot_lab.reproduce.cache import CellCache
    from oneballot_lab.reproduce.experiments import ElectionRun
    from oneballot_lab.reproduce.federations import Federation
    from oneballot_lab.reproduce.run_cells import run_cells

    for name in signing_in.iterdir():
        name.unlink()
    digits = Federation("digits", 3, rows=200, public_rows=100, test_rows=100)
    jobs = [
        (ElectionRun(digits, ob.FedKT(), signed_in("DecisionTreeClassifier", {"max_depth": 5})), seed)
        for seed in range(4)
    ]
    with spread(dask):
        away = {name: found.values["accuracy"] for name, found in run_cells(jobs, CellCache(tmp_path / "away"))}
    workers = {name.name.split("-")[0] for name in signing_in.iterdir()}
    assert len(workers) >= 2
    assert str(os.getpid()) not in workers
    here = {name: found.values["accuracy"] for name, found in run_cells(jobs, CellCache(tmp_path / "here"))}
    assert away == here
