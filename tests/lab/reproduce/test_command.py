"""The command `oneballot reproduce`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot_lab.reproduce.catalog import select


def test_the_list_counts_distinct_cells():
    listed = ["reproduce", "--list", "--group", "adult"]
    shown = json.loads(CliRunner().invoke(app, [*listed, "--json"]).stdout)

    def distinct_of(cells: list[object]) -> list[object]:
        return [cell for i, cell in enumerate(cells) if cell not in cells[:i]]

    total = []
    for table in select([], ["adult"]):
        cells = distinct_of(list(table.cells()))
        assert shown["tables"][table.name] == {"title": table.title, "groups": ["adult"], "cells": len(cells)}
        total += cells
    distinct = len(distinct_of(total))
    assert (shown["cells"], shown["distinct"]) == (len(total), distinct)
    text = CliRunner().invoke(app, listed).stdout
    assert f"{len(total)} cells (experiment and seed) in all; {distinct} of them are distinct" in text


def test_the_list_shows_the_tables_named():
    listed = ["reproduce", "fedkt/table2", "dosfl/table3", "--list"]
    text = CliRunner().invoke(app, listed).stdout
    assert re.findall(r"^ (\S+/\S+) .*? (\d+) ", text, re.M) == [("fedkt/table2", "48"), ("dosfl/table3", "5")]
    assert "53 cells (experiment and seed) in all\n" in text
    assert "16 cells (" in CliRunner().invoke(app, [*listed[:2], "--list", "--quick"]).stdout
    assert "32 cells (" in CliRunner().invoke(app, [*listed[:2], "--list", "--seeds", "2"]).stdout


def test_the_list_imports_no_training_library():
    code = (
        "import sys; from oneballot.cli import app; app(['reproduce', '--list'], standalone_mode=False); "
        "print([m for m in ('sklearn', 'scipy.optimize', 'scipy.stats', 'torch', 'joblib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_run_that_measures_nothing_fails_and_says_what_is_missing(tmp_path):
    env = {**os.environ, "ONEBALLOT_DATA": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path / "empty")}
    command = [sys.executable, "-m", "oneballot", "reproduce", "fedkt-long/table14", "--group", "chest-xray", "--quick",
               "--out", str(tmp_path / "out"), "--workers", "1"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert result.returncode == 1
    assert "nothing was measured" in result.stderr
    assert "Put chest-xray.npz into a folder chest-xray/" in result.stdout


@pytest.mark.skipif("ONEBALLOT_DATA" not in os.environ, reason="needs the data sets in ONEBALLOT_DATA")
def test_an_interrupted_run_says_how_to_resume(tmp_path):
    command = [sys.executable, "-m", "oneballot", "reproduce", "fedkt/table3", "--group", "adult", "--quick",
               "--out", str(tmp_path), "--workers", "1"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        while not list(tmp_path.glob("cells/*.json")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        error = process.stderr.read()
    assert process.returncode == 130
    assert f"stopped; finished cells are cached in {tmp_path / 'cells'}: the same command resumes" in error


@pytest.mark.slow
def test_a_reduced_table_runs_and_its_cells_are_cached(tmp_path):
    command = [sys.executable, "-m", "oneballot", "reproduce", "dosfl/table3", "--quick", "--out", str(tmp_path),
               "--workers", "1"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "61706.00" in result.stdout
    folder = tmp_path / "cells"
    assert result.stderr.splitlines() == [
        f"dosfl/table3: 5 cells to run; finished cells are cached in {folder}", "cells (0 cached): 5 of 5"
    ]  # fmt: skip
    again = CliRunner().invoke(app, command[3:])
    assert again.stdout == result.stdout
    cached = sorted(folder.iterdir())
    assert len(cached) == 5
    assert (
        again.stderr
        == f"dosfl/table3: 5 cells, all cached in {folder}: none to run; delete the folder to measure again\n"
    )
    for path in cached[:2]:
        path.unlink()
    rest = CliRunner().invoke(app, command[3:])
    assert rest.stdout == result.stdout
    assert rest.stderr.splitlines() == [
        f"dosfl/table3: 5 cells, 3 cached in {folder}: 2 to run", "cells (3 cached): 2 of 2"
    ]  # fmt: skip


def on_screen(raw: str) -> list[str]:
    """The lines that a terminal shows after rich has erased and overwritten some."""
    lines, at, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[\??[\d;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", raw):
        if piece == "\n":
            lines, at = [*lines, ""], at + 1
        elif piece == "\r":
            column = 0
        elif piece == "\x1b[2K":
            lines[at] = ""
        elif piece == "\x1b[1A":
            at -= 1
        elif not piece.startswith("\x1b"):
            lines[at] = lines[at][:column].ljust(column) + piece + lines[at][column + len(piece) :]
            column += len(piece)
    return [line.rstrip() for line in lines]


@pytest.mark.slow
def test_on_a_terminal_the_progress_bar_does_not_overwrite_the_table(tmp_path):
    pty = pytest.importorskip("pty")
    command = [sys.executable, "-m", "oneballot", "reproduce", "dosfl/table3", "--quick", "--workers", "1",
               "--out", str(tmp_path)]  # fmt: skip
    screen, terminal = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=env) as process:
        os.close(terminal)
        sent = b""
        with open(screen, "rb", buffering=0) as reading:
            while True:
                try:
                    sent += reading.read(65536)
                except OSError:  # the process has closed the terminal
                    break
    assert process.returncode == 0
    raw = sent.decode()
    assert "so far" in raw, "there was a progress bar"
    announced, title, *rest = [line for line in on_screen(raw) if line]
    assert announced == f"dosfl/table3: 5 cells to run; finished cells are cached in {tmp_path / 'cells'}"
    assert title.startswith("dosfl/table3: REDUCED: Rounds after which FedAvg")
    assert rest[-1].startswith("Written: ")
    assert not any("cells (" in line for line in rest)


def test_the_commands_in_the_documentation_are_valid():
    page = (Path(__file__).parents[3] / "docs/reproduce.md").read_text("utf-8")
    commands = re.findall(r"^    oneballot (reproduce [^#\n]*)", page, re.M)
    assert len(commands) == 6
    for command in commands:
        words = [word for word in command.split() if word != "--list"]
        result = CliRunner().invoke(app, [*words, "--list"])
        assert result.exit_code == 0, result.output
