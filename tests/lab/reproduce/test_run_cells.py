"""Cells: identified by their settings and cached; serial and parallel runs have the same results."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import DataError
from oneballot_lab.reproduce.cache import CellCache
from oneballot_lab.reproduce.cells import Failure, Result, cell_digest, describe
from oneballot_lab.reproduce.experiments import ElectionRun
from oneballot_lab.reproduce.federations import Federation
from oneballot_lab.reproduce.run_cells import run_cells, run_one
from oneballot_lab.reproduce.run_tables import reproduce

sys.path.insert(0, str(Path(__file__).parent))
from tiny import DIGITS, FEDKT, OURS, TABLE, TREE, Broken, slow_table


def without_seconds(result: Result | Failure) -> object:
    return result if isinstance(result, Failure) else {k: v for k, v in result.values.items() if k != "seconds"}


def test_settings_and_seed_identify_a_cell():
    again = ElectionRun(
        Federation("digits", 5, rows=400, public_rows=200, test_rows=200), ob.FedKT(open_vote="hard"), TREE
    )
    assert cell_digest(again, 3) == cell_digest(OURS, 3)
    assert describe(ob.DOSFL())["revision"] == 2  # the meaning of soft_reset has changed once
    assert "revision" not in describe(ob.FedKT())
    others = [
        (OURS, 4), (FEDKT, 3), (replace(OURS, federation=replace(DIGITS, share=0.5)), 3),
        (replace(OURS, learner=replace(TREE, params={"max_depth": 9})), 3),
        (replace(OURS, privacy=ob.L2(epsilon=1.0)), 3),
    ]  # fmt: skip
    assert len({cell_digest(OURS, 3), *(cell_digest(*other) for other in others)}) == len(others) + 1
    json.dumps(describe(ob.FedKD.paper()), allow_nan=False)  # its temperature is infinite, which JSON cannot express
    with pytest.raises(TypeError, match="must be plain values or dataclasses, not ndarray"):
        describe({"X": np.zeros(3)})


@pytest.mark.slow
def test_serial_and_parallel_runs_have_the_same_results_and_failures_affect_no_other_cell(tmp_path):
    cells = [cell for cell in TABLE.cells() if not isinstance(cell[0], Broken)]
    serial = dict(run_cells(cells, CellCache(tmp_path / "one")))
    parallel = dict(run_cells(cells, CellCache(tmp_path / "two"), workers=2))
    assert {n: without_seconds(r) for n, r in serial.items()} == {n: without_seconds(r) for n, r in parallel.items()}
    missing = [result.missing if isinstance(result, Failure) else None for result in serial.values()]
    assert missing == [None, None, True, False] * 2
    assert len(list((tmp_path / "two").iterdir())) == 4  # failures are not cached


def test_a_cached_cell_is_not_run_again_and_a_damaged_file_is_named(tmp_path):
    cache = CellCache(tmp_path)
    result = Result({"accuracy": 0.123}, {"accuracy": [0.1, 0.2]}, ("a note",), "1 May 1990, a laptop")
    cache.put(OURS, 0, result)
    ((_, cached),) = run_cells([(OURS, 0)], cache)
    assert cached == result
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["experiment"]["federation"]["data"] == "digits"
    file.write_text("{}")
    with pytest.raises(DataError, match="delete it to measure the cell again"):
        cache.get(OURS, 0)


def test_a_result_has_its_date_machine_and_versions():
    result = run_one(OURS, 0, "cpu")
    assert isinstance(result, Result)
    assert result.measured.startswith(f"{date.today()}, {os.cpu_count()} cores (")
    assert f"Python {platform.python_version()}" in result.measured


def test_any_error_becomes_a_failure_with_its_location():
    failed = run_one(Broken(), 0, "cpu")
    assert isinstance(failed, Failure)
    assert not failed.missing
    assert "ZeroDivisionError: division by zero (tiny.py, line" in failed.reason


@pytest.mark.slow
def test_a_cell_that_kills_its_process_affects_no_other_cell(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import tiny; from pathlib import Path; "
        "from oneballot_lab.reproduce.run_cells import run_cells; from oneballot_lab.reproduce.cache import CellCache; "
        "cells = [(tiny.Deadly(), 0), (tiny.OURS, 0), (tiny.FEDKT, 0)]; "
        f"results = run_cells(cells, CellCache(Path({str(tmp_path)!r})), workers=2); "
        "print([getattr(result, 'reason', 'result')[:22] for _, result in results])"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert sorted(eval(done.stdout)) == ["its process was killed", "result", "result"]  # noqa: S307
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_a_killed_run_is_resumed(tmp_path):
    out = tmp_path / "out"
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import tiny; tiny.main({str(out)!r})"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "ONEBALLOT_WORKERS": "1"}) as process:
        while len(list(out.glob("cells/*.json"))) < 2 and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    cached = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    total = len(list(slow_table().cells()))
    assert 2 <= len(cached) < total, "it was killed halfway"
    assert not list(out.glob("tiny/*"))
    (done,) = reproduce([slow_table()], out)
    after = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    assert len(after) == total
    assert cached.items() <= after.items()
    (fresh,) = reproduce([slow_table()], tmp_path / "fresh")
    assert [line.values for line in done.summary["digits"]] == [line.values for line in fresh.summary["digits"]]
