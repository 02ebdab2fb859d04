"""Atomic writes and locks, also on systems without fcntl."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from oneballot.runtime.files import PART, check_writable, lock_file, lock_folder, temporary_copy, write_atomic

WITHOUT_POSIX = """
import os, sys, warnings
from pathlib import Path
sys.modules["fcntl"] = None
for name in ("O_NOFOLLOW", "pread", "pwrite", "killpg"):  # Python's own modules need the others on Linux
    delattr(os, name)
"""


def run_without_posix(code: str, folder: Path) -> str:
    command = [sys.executable, "-c", WITHOUT_POSIX + code]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_a_file_is_written_completely_and_replaced(tmp_path: Path) -> None:
    for data in (b"first", b"second"):
        write_atomic(tmp_path / "file", data, mode=0o600)
        assert (tmp_path / "file").read_bytes() == data
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_old_file_and_names_it(tmp_path: Path, monkeypatch) -> None:
    write_atomic(tmp_path / "file", b"first")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomic(tmp_path / "file", b"second")
    assert caught.value.filename == str(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_a_temporary_copy_is_removed(tmp_path: Path) -> None:
    with temporary_copy(tmp_path, b"data") as path:
        assert Path(path).read_bytes() == b"data"
        assert Path(path).name.startswith(PART)
    assert os.listdir(tmp_path) == []


def test_a_locked_file_names_its_holder(tmp_path: Path) -> None:
    held = pytest.raises(BlockingIOError, match=f"process {os.getpid()} on ")
    with lock_file(tmp_path / "lock"), held, lock_file(tmp_path / "lock"):
        pass
    assert os.listdir(tmp_path) == []


def test_processes_take_turns_in_a_locked_folder(tmp_path: Path) -> None:
    order: list[str] = []

    def wait() -> None:
        with lock_folder(tmp_path):
            order.append("second")

    thread = threading.Thread(target=wait)
    with lock_folder(tmp_path):
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_folder_that_does_not_exist_yet_is_checked_by_its_parent(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "folder")
    assert os.listdir(tmp_path) == []


def test_without_fcntl_locks_do_nothing_and_warn_once(tmp_path: Path) -> None:
    code = """
from oneballot.runtime.files import lock_file, lock_folder
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        with lock_file(Path("lock")), lock_file(Path("lock")), lock_folder(Path(".")):
            pass
print(*(f"{w.category.__name__}: {w.message}" for w in caught), sep="\\n")
"""
    (warning,) = run_without_posix(code, tmp_path).splitlines()
    assert warning.startswith("OneBallotWarning: this system has no file locks")
    assert "run one at a time" in warning


def test_without_posix_functions_ballots_are_delivered_and_files_written(tmp_path: Path) -> None:
    code = """
from oneballot.boxes import box_at
from oneballot.runtime.files import check_writable, write_atomic
check_writable(Path("new"))
write_atomic(Path("file"), b"data")
box = box_at("box")
box.deliver("a", b"ballot")
box.deliver("a", b"ballot")
with box.open("a") as file:
    print(file.read().decode(), list(box.names()))
"""
    assert run_without_posix(code, tmp_path) == "ballot [('a', 6)]\n"


def test_without_posix_functions_a_party_casts(tmp_path: Path) -> None:
    code = """
warnings.simplefilter("ignore")
rows = "x,y\\n" + "".join(f"{i / 40},{'no' if i < 20 else 'yes'}\\n" for i in range(40))
Path("rows.csv").write_text(rows)
from typer.testing import CliRunner
from oneballot.cli import app
def call(*words):
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == 0, (result.output, result.exception)
call("new", "election.toml", "--public", "rows.csv", "--label", "y")
call("cast", "election.toml", "--party", "a", "--data", "rows.csv", "--to", "box")
print(sorted(p.name for p in Path("box").iterdir()))
"""
    assert run_without_posix(code, tmp_path) == "['a.ballot']\n"


def test_a_lock_in_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path, monkeypatch) -> None:
    """As in /proc, where mkdir reports a missing file; waiting for the folder would never end."""

    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(FileNotFoundError), lock_file(tmp_path / "new" / "lock"):
        pass
