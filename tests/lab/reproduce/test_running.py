"""Cells: named by their settings, kept, run in any way with the same figures, and one that fails costs no other."""

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
from oneballot_lab.reproduce.cache import Kept
from oneballot_lab.reproduce.cells import Failed, Found, describe, name_of
from oneballot_lab.reproduce.experiments import Vote
from oneballot_lab.reproduce.federations import Federation
from oneballot_lab.reproduce.reproducing import reproduce
from oneballot_lab.reproduce.running import run_cells, run_one

sys.path.insert(0, str(Path(__file__).parent))
from tiny import DIGITS, FEDKT, OURS, TABLE, TREE, Broken, slow_table


def without_seconds(found: Found | Failed) -> object:
    return found if isinstance(found, Failed) else {k: v for k, v in found.values.items() if k != "seconds"}


def test_a_cell_is_named_by_its_settings_and_its_seed():
    again = Vote(Federation("digits", 5, rows=400, public_rows=200, test_rows=200), ob.FedKT(open_vote="hard"), TREE)
    assert name_of(again, 3) == name_of(OURS, 3)
    assert describe(ob.DOSFL())["revision"] == 2  # what soft_reset means was changed; FedKT's cells are as they were
    assert "revision" not in describe(ob.FedKT())
    others = [
        (OURS, 4), (FEDKT, 3), (replace(OURS, federation=replace(DIGITS, share=0.5)), 3),
        (replace(OURS, learner=replace(TREE, params={"max_depth": 9})), 3),
        (replace(OURS, privacy=ob.L2(epsilon=1.0)), 3),
    ]  # fmt: skip
    assert len({name_of(OURS, 3), *(name_of(*other) for other in others)}) == len(others) + 1
    json.dumps(describe(ob.FedKD.paper()), allow_nan=False)  # its temperature is infinite
    with pytest.raises(TypeError, match="ndarray is not plain"):
        describe({"X": np.zeros(3)})


def test_cells_are_the_same_one_by_one_and_in_parallel_and_a_bad_one_costs_no_other(tmp_path):
    jobs = [job for job in TABLE.jobs() if not isinstance(job[0], Broken)]
    serial = dict(run_cells(jobs, Kept(tmp_path / "one")))
    parallel = dict(run_cells(jobs, Kept(tmp_path / "two"), workers=2))
    assert {n: without_seconds(f) for n, f in serial.items()} == {n: without_seconds(f) for n, f in parallel.items()}
    kinds = [f.kind if isinstance(f, Failed) else "found" for f in serial.values()]
    assert kinds == ["found", "found", "missing", "error"] * 2
    assert len(list((tmp_path / "two").iterdir())) == 4  # failures are tried again


def test_what_is_kept_is_not_run_again_and_a_damaged_file_is_named(tmp_path):
    kept = Kept(tmp_path)
    put = Found({"accuracy": 0.123}, {"accuracy": [0.1, 0.2]}, ("a note",), "1 May 1990, a laptop")
    kept.put(OURS, 0, put)
    ((_, found),) = run_cells([(OURS, 0)], kept)
    assert found == put
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["experiment"]["federation"]["data"] == "digits"
    file.write_text("{}")
    with pytest.raises(DataError, match="delete it to measure it again"):
        kept.get(OURS, 0)


def test_a_cell_says_when_and_where_it_was_measured():
    found = run_one(OURS, 0, "cpu")
    assert isinstance(found, Found)
    assert found.measured.startswith(f"{date.today()}, {os.cpu_count()} cores (")
    assert f"Python {platform.python_version()}" in found.measured


def test_an_error_of_any_kind_is_told_with_its_place():
    failed = run_one(Broken(), 0, "cpu")
    assert isinstance(failed, Failed)
    assert failed.kind == "error"
    assert "ZeroDivisionError: division by zero (tiny.py, line" in failed.reason


def test_a_cell_that_takes_its_process_with_it_costs_no_other(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import tiny; from pathlib import Path; "
        "from oneballot_lab.reproduce.running import run_cells; from oneballot_lab.reproduce.cache import Kept; "
        "jobs = [(tiny.Deadly(), 0), (tiny.OURS, 0), (tiny.FEDKT, 0)]; "
        f"found = run_cells(jobs, Kept(Path({str(tmp_path)!r})), workers=2); "
        "print([getattr(one, 'reason', 'found')[:22] for _, one in found])"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert sorted(eval(done.stdout)) == ["found", "found", "its process was killed"]  # noqa: S307
    assert len(list(tmp_path.iterdir())) == 2


def test_a_killed_run_is_taken_up_where_it_was(tmp_path):
    out = tmp_path / "out"
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import tiny; tiny.main({str(out)!r})"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "ONEBALLOT_WORKERS": "1"}) as process:
        while len(list(out.glob("cells/*.json"))) < 2 and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    kept = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    total = len(list(slow_table().jobs()))
    assert 2 <= len(kept) < total, "it was killed in the middle"
    assert not list(out.glob("tiny/*"))
    (done,) = reproduce([slow_table()], out)
    after = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    assert len(after) == total
    assert kept.items() <= after.items()
    (fresh,) = reproduce([slow_table()], tmp_path / "fresh")
    assert [line.values for line in done.lines["digits"]] == [line.values for line in fresh.lines["digits"]]
