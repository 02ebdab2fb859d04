"""OneBallot runs where POSIX functions are missing, as on Windows.

A sitecustomize module removes them from every process: the command, its training processes and the sandbox's worker.
"""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any, BinaryIO

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.boxes import box_at
from oneballot.boxes.folder import Folder
from oneballot.cli import app
from oneballot.election import template
from oneballot.election.outcome_files import write_index
from oneballot.errors import AlreadyCast, ElectionError
from oneballot.party.cast import cast_together
from oneballot.party.delivery import deliver
from oneballot.party.outbox import Outbox
from oneballot.server.tally import tally_box

ROOT = Path(__file__).parents[1]
POSIX_MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
WITHOUT_POSIX = f"""
import numpy  # on Linux it calls os.uname itself
import os, signal, sys
for name in {POSIX_MODULES}:
    sys.modules[name] = None
for name in ("O_NOFOLLOW", "O_NONBLOCK", "fchmod", "fork", "getegid", "geteuid", "getgid", "getpgid", "getuid",
             "killpg", "mkfifo", "pread", "pwrite", "sched_getaffinity", "setsid", "statvfs", "uname"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "setitimer"):  # on Linux Python's own modules need SIGKILL
    if hasattr(signal, name):
        delattr(signal, name)
"""

Python = Callable[..., str]


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Runs Python in an empty folder without POSIX functions, and returns what it prints on both streams."""
    site, folder, temporary = tmp_path / "site", tmp_path / "work", tmp_path / "temporary"
    for path in (site, folder, temporary):
        path.mkdir()
    (site / "sitecustomize.py").write_text(WITHOUT_POSIX, "utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "src")]), "ONEBALLOT_WORKERS": "2"}
    env["TMPDIR"] = str(temporary)  # a process with locks takes the folder of a sandbox without one for abandoned

    def run(*words: str) -> str:
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
        done = subprocess.run([sys.executable, *words], cwd=folder, env=env, **output)
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


@pytest.mark.slow
def test_a_signed_and_encrypted_election_by_files_needs_no_posix(python: Python, tmp_path: Path) -> None:
    """Ballots hold models, so the tally also needs the sandbox."""
    code = """
from pathlib import Path
from typer.testing import CliRunner
from oneballot.cli import app

def call(*words):
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == 0, (words, result.output, result.exception)
    return result.output

def public_line(output):
    return next(line for line in output.splitlines() if "25519:" in line).strip()

rows = "x,y\\n" + "".join(f"{i / 40},{'no' if i < 20 else 'yes'}\\n" for i in range(40))
Path("rows.csv").write_text(rows, "utf-8")
server = public_line(call("keys", "new", "server", "--for-server")).split('"')[1]
lines = [public_line(call("keys", "new", party)) for party in "ab"]
call("new", "election.toml", "--public", "rows.csv", "--label", "y", "--server-key", server, "--method", "fedkt")
text = Path("election.toml").read_text("utf-8").replace('ballot = "votes"', 'ballot = "models"')
for forest in ("RandomForestClassifier", "ExtraTreesClassifier"):
    text = text.replace(forest, "DecisionTreeClassifier").replace("params = { n_estimators = 100 }", "")
head, roster, tail = text.rpartition("[roster]") if "\\n[roster]" in text else (text + "\\n", "[roster]", "")
Path("election.toml").write_text(head + roster + "\\n" + "\\n".join(lines) + "\\n" + tail, "utf-8")
for party in "ab":
    print(call("cast", "election.toml", "--party", party, "--data", "rows.csv", "--to", "box", "--key", f"{party}.key"))
print(call("tally", "election.toml", "--from", "box", "--out", "outcome", "--key", "server.key"))
call("predict", "outcome", "--data", "rows.csv", "--out", "predictions.csv")
print(call("evaluate", "outcome", "--data", "rows.csv"))
"""
    printed = python("-c", code)
    assert "models are not isolated from each other (no fork)" in printed
    assert "this system has no file locks" in printed
    predictions = (tmp_path / "work/predictions.csv").read_text("utf-8").split()
    assert [line.split(",")[1] for line in predictions] == ["prediction", *["no"] * 20, *["yes"] * 20]


@pytest.mark.slow
def test_the_demo_needs_no_posix(python: Python, tmp_path: Path) -> None:
    assert "this system has no file locks" in python("-m", "oneballot", "demo", "--out", "demo")
    assert (tmp_path / "work/demo/outcome/outcome.json").exists()


def test_modules_of_posix_are_imported_only_where_their_absence_is_handled() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        guarded = {id(line) for node in ast.walk(tree) if isinstance(node, ast.Try) for line in node.body}
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert id(node) in guarded or not {*names} & {*POSIX_MODULES}, f"{path}, line {node.lineno}"


@pytest.mark.slow
def test_all_tests_can_be_collected_without_posix() -> None:
    """Libraries that call POSIX functions on Linux when they are imported are imported first."""
    arguments = ["--collect-only", "-p", "no:cacheprovider", "tests"]
    pytest.importorskip("trio", reason="selenium brings it")
    code = f"import platformdirs, psutil, pytest, sys, trio\n{WITHOUT_POSIX}\nsys.exit(pytest.main({arguments}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr


def test_predictions_into_a_file_that_another_program_has_open_name_it_and_leave_nothing_behind(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    election = ob.Election.read(write_election(clinic))
    data = {name: election.read_data(clinic / f"{name}.csv") for name in "abc"}
    ob.tally(election, cast_together(election, data)).save(clinic / "outcome")

    def replace(source: object, target: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(source), None, str(target))

    monkeypatch.setattr(os, "replace", replace)
    out = clinic / "predictions.csv"
    words = ["predict", str(clinic / "outcome"), "--data", str(clinic / "test.csv"), "--out", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert f"Permission denied: {out}. " in result.output
    assert "close programs that use the file" in result.output
    assert not list(clinic.glob(".predictions*"))


def write_election(folder: Path) -> Path:
    text = template.draft(folder / "public.csv", "ill", beside=folder / "election.toml").text
    text = text.replace("RandomForestClassifier", "DecisionTreeClassifier").replace(
        "params = { n_estimators = 100 }", ""
    )
    (folder / "election.toml").write_text(text, "utf-8")
    return folder / "election.toml"


def test_an_election_names_its_public_file_with_slashes_on_every_system(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/public.csv").write_text("x,y\n1,a\n2,b\n", "utf-8")
    text = template.draft(tmp_path / "data/public.csv", "y", beside=tmp_path / "election.toml").text
    assert '"data/public.csv"' in text


def test_a_file_address_is_a_folder_on_every_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(box_at("file:///a%20b/box")) == str(Path("/a b/box"))
    nturl2path = pytest.importorskip("nturl2path", reason="Python has no converter of Windows paths any more")
    monkeypatch.setattr("urllib.request.url2pathname", nturl2path.url2pathname)
    assert PureWindowsPath(str(box_at("file:///C:/a%20b/box"))) == PureWindowsPath("C:/a b/box")


@pytest.mark.parametrize("code", ["EINVAL", "EOPNOTSUPP", "EPERM"])
def test_a_box_on_a_disk_without_hard_links_takes_a_ballot_once(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows reports EINVAL for exFAT, and macOS EOPNOTSUPP for some shares."""

    def link(*_: object) -> None:
        raise OSError(getattr(errno, code), "no links")

    monkeypatch.setattr(os, "link", link)
    box = Folder(tmp_path)
    box.deliver("a", b"first")
    box.deliver("a", b"first")
    with pytest.raises(AlreadyCast):
        box.deliver("a", b"other")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


class IgnoresCase(Folder):
    """A folder whose file names ignore case, as on Windows and macOS."""

    def deliver(self, name: str, sealed: bytes) -> None:
        super().deliver(name.lower(), sealed)

    def open(self, name: str) -> BinaryIO:
        return super().open(name.lower())


def test_parties_whose_names_differ_only_in_case_both_count_where_file_names_ignore_case(
    election: ob.Election, digits: Any, tmp_path: Path
) -> None:
    box = IgnoresCase(tmp_path)
    for party, rows in (("A", slice(0, 300)), ("a", slice(300, 600))):
        ballot = ob.cast(election, digits.X[rows], digits.y[rows], party=party)
        deliver(election, box, party, party, ballot.sealed)
    assert tally_box(election, box).voted.keys() == {"A", "a"}


@pytest.mark.parametrize("name", ["nul", "CON", "aux.1", "Com1"])
def test_on_windows_a_party_cannot_have_the_name_of_a_device(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    election = ob.Election(["no", "yes"], np.zeros((2, 1)))
    Outbox(election, name, tmp_path)
    monkeypatch.setattr("oneballot.party.outbox.WINDOWS", True)
    Outbox(election, "console", tmp_path)
    with pytest.raises(ElectionError, match="Windows reserves it"):
        Outbox(election, name, tmp_path)


def test_an_old_file_that_another_program_has_open_does_not_stop_a_tally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows does not remove a file that is open."""
    stale = tmp_path / "count-0123456789abcdef.zip"
    stale.write_bytes(b"old")

    def unlink(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "in use")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        write_index(tmp_path, b"{}", set(), secret=True)
    assert stale.exists()
    write_index(tmp_path, b"{}", set(), secret=True)
    assert [path.name for path in tmp_path.iterdir()] == ["outcome.json"]
