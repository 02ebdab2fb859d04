"""What killed processes leave behind is removed; what living ones use, or others own, is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.runtime.files import temporary_copy, write_atomic
from oneballot.runtime.leftovers import A_DAY, PART, SANDBOX, clear_files, clear_sandboxes

pytest.importorskip("fcntl", reason="locks are POSIX only")

WRITES = """
import pathlib, sys, time
from oneballot.runtime.files import temporary_copy
with temporary_copy(pathlib.Path(sys.argv[1]), b"half"):
    print("ready", flush=True)
    time.sleep(100)
"""
ASKS = """
import time
import numpy as np
from oneballot.learners.sklearn import Sklearn
from oneballot.server.sandbox import Sandbox
from oneballot.types import Task
X = np.random.default_rng(0).normal(size=(20, 2))
blob = Sklearn("GaussianNB").fit_many(X, [Task(np.arange(20), np.arange(20) % 2)], 2)[0].dump()
sandbox = Sandbox()
sandbox.ask(blob, X, classes=2)
print("ready", flush=True)
time.sleep(100)
"""


def start(code: str, *words: object, **env: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", code, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | env)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_an_incomplete_file_is_removed_only_after_its_process_has_ended(tmp_path: Path) -> None:
    process = start(WRITES, tmp_path)
    clear_files(tmp_path)
    (part,) = tmp_path.iterdir()
    assert part.read_bytes() == b"half"
    kill(process)
    assert part.exists()
    write_atomic(tmp_path / "file", b"whole")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_file_that_this_process_writes_is_kept(tmp_path: Path) -> None:
    with temporary_copy(tmp_path, b"half") as part:
        clear_files(tmp_path)
        assert Path(part).exists()


def test_files_that_are_not_locked_must_be_a_day_old_and_those_of_others_stay(tmp_path: Path) -> None:
    fresh, old, folder = tmp_path / f"{PART}fresh", tmp_path / f"{PART}old", tmp_path / f"{PART}folder"
    other = tmp_path / "other"
    for path in (fresh, old, other):
        path.write_bytes(b"")
    folder.mkdir()
    for path in (old, folder, other):
        os.utime(path, (time.time() - 2 * A_DAY,) * 2)
    link = tmp_path / f"{PART}held-link"
    link.symlink_to(other)
    clear_files(tmp_path)
    assert set(tmp_path.iterdir()) == {fresh, folder, other, link}
    clear_files(tmp_path / "missing")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_files_of_other_users_stay(tmp_path: Path) -> None:
    part = tmp_path / f"{PART}held-x"
    part.write_bytes(b"")
    os.chown(part, 12345, 12345)
    clear_files(tmp_path)
    assert part.exists()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["a sandbox", "a command"])
def test_the_folder_of_a_killed_sandbox_is_removed_by_the_next_command(by: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    one, two = (start(ASKS, TMPDIR=str(tmp_path)) for _ in range(2))
    try:
        clear_sandboxes()
        assert len(list(tmp_path.glob(f"{SANDBOX}*"))) == 2, "both are in use"
        kill(one)
        assert len(list(tmp_path.glob(f"{SANDBOX}*"))) == 2
        if by == "a command":
            CliRunner().invoke(app, ["check", str(tmp_path / "no-election.toml")])
        else:
            kill(start(ASKS, TMPDIR=str(tmp_path)))
            assert len(list(tmp_path.glob(f"{SANDBOX}*"))) == 2, "its own, and that of the other"
            clear_sandboxes()
        assert len(list(tmp_path.glob(f"{SANDBOX}*"))) == 1
    finally:
        kill(two)
    clear_sandboxes()
    assert not list(tmp_path.iterdir())
