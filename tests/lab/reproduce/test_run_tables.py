"""Tables that are run: their files, pictures, notes and failures."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import oneballot as ob
from oneballot_lab.reproduce import federations
from oneballot_lab.reproduce.catalog import select
from oneballot_lab.reproduce.experiments import ElectionRun
from oneballot_lab.reproduce.federations import Federation
from oneballot_lab.reproduce.run_cells import run_one
from oneballot_lab.reproduce.run_tables import reproduce
from oneballot_lab.reproduce.table import Figure, Line, Picture, Row, Table

sys.path.insert(0, str(Path(__file__).parent))
from tiny import FEDKT, OURS, TABLE, TREE


def test_a_table_is_written_with_differences_and_failures(tmp_path):
    (done,) = reproduce([TABLE], tmp_path, command="oneballot reproduce tiny/table1")
    written = json.loads((tmp_path / "tiny/table1.json").read_text())
    fedkt, best, missing, refused, broken = written["rows"][0]["cells"]
    values = fedkt["ours"]["values"]
    assert fedkt["ours"]["mean"] == pytest.approx(sum(values) / 2)
    assert fedkt["ours"]["deviation"] == pytest.approx(abs(values[0] - values[1]) / math.sqrt(2))
    assert fedkt["difference"] == pytest.approx(sum(values) / 2 - 50)
    assert best["difference"] is None
    assert best["bytes"] > 200 * 4 / 8
    assert missing["failed"]["kind"] == "missing"
    assert refused["failed"]["kind"] == "error"
    assert broken["ours"]["values"] == [100.0], "one seed failed, the other did not"
    text = (tmp_path / "tiny/table1.md").read_text()
    assert f"| FedKT | 50.0 ± 1.0 | {fedkt['ours']['mean']:.1f} ± " in text
    assert "not available: data set 'imagenet32' not found |" in text
    assert "ONEBALLOT_DATA" not in text, "local folders are left out"
    assert "FAILED: unknown peer 'no-such-peer'" in text
    assert "    oneballot reproduce tiny/table1" in text
    assert done.failed == 2


def test_notes_on_incomplete_data_are_written_once_per_row(tmp_path, monkeypatch):
    complete = federations._digits
    monkeypatch.setattr(federations, "_digits", lambda: replace(complete(), note="every second row"))
    federations._load.cache_clear()
    (done,) = reproduce([replace(TABLE, seeds=1)], tmp_path)
    federations._load.cache_clear()
    text, written = (done.files[i].read_text() for i in (0, 1))
    assert text.count("The data differ from the original: digits: every second row.") == 1
    assert json.loads(written)["rows"][0]["cells"][0]["notes"] == ["digits: every second row"]


def test_missing_data_and_invalid_data_are_different_failures():
    narrow = Federation("digits", 2, public="imagenet32")
    assert run_one(ElectionRun(narrow, ob.FedKT(), TREE), 0, "cpu").missing
    empty = Federation("digits", 2, rows=0)
    assert not run_one(ElectionRun(empty, ob.FedKT(), TREE), 0, "cpu").missing


def test_every_type_of_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    lines = (
        Line("a", (OURS,), Figure(80.0), series="ours", at=1),
        Line("b", (FEDKT,), series="ours", at=2),
        Line("c", (OURS,)),
    )
    rows = (Row("digits", "digits", lines),)
    for plot in ("lines", "bars", "curves"):
        (done,) = reproduce([Table(f"tiny/{plot}", "Digits", rows, 1, picture=Picture(plot))], tmp_path)
        assert done.files[2].read_bytes().startswith(b"\x89PNG")
        assert f"![tiny/{plot}]({plot}.png)" in done.files[0].read_text()


def test_more_than_three_panels_are_drawn_two_in_a_row(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    sides = {}
    for count in (3, 4, 5):
        lines = (Line("a", paper=Figure(80.0), series="theirs", at=1),)
        rows = tuple(Row(f"digits {i}", "digits", lines) for i in range(count))
        (done,) = reproduce([Table(f"tiny/panels{count}", "Digits", rows, 1, picture=Picture("lines"))], tmp_path)
        height, width, _ = pyplot.imread(done.files[2]).shape
        sides[count] = round(width / 720), round(height / 504)
    assert sides == {3: (3, 1), 4: (2, 2), 5: (2, 3)}


@pytest.mark.skipif("ONEBALLOT_DATA" not in os.environ, reason="needs the data sets in ONEBALLOT_DATA")
def test_a_real_table_is_reduced_and_run(tmp_path):
    pytest.importorskip("xgboost")
    (done,) = reproduce(select(["fedkt-long/table11"], ["adult"]), tmp_path, quick=True)
    assert done.failed == 0
    lines = {result.line.name: result for result in done.summary["Adult, random forest"]}
    assert lines["with consistent voting"].mean > 70
    assert lines["ours, best setting"].mean > 80


def test_the_python_example_in_the_documentation_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[3] / "docs/reproduce.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "docs/reproduce.md", "exec"), {})
    ((ours, accuracy), (solo, lower)) = eval(capsys.readouterr().out)  # noqa: S307
    assert (ours, solo) == ("open vote", "solo")
    assert accuracy > lower
