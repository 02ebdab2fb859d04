"""The declared tables: all that were promised, each with our columns, and the papers' figures to the digit."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot import plugins
from oneballot.cli import app
from oneballot.comparison import check_peer
from oneballot.errors import OneBallotError
from oneballot.privacy.calculator import Question
from oneballot_lab.reproduce import federations
from oneballot_lab.reproduce.budgets import Budget, Budgets
from oneballot_lab.reproduce.cells import Found, name_of
from oneballot_lab.reproduce.distilled import BreakEven
from oneballot_lab.reproduce.experiments import Peered, Vote, elect
from oneballot_lab.reproduce.federations import SHUFFLED, TABLES, Cut, Federation
from oneballot_lab.reproduce.listing import all_tables, choose
from oneballot_lab.reproduce.reproducing import reproduce
from oneballot_lab.reproduce.running import run_one
from oneballot_lab.reproduce.table import Cell, Figure, Picture, Row, Table
from oneballot_lab.reproduce.tables.dosfl_costs import ratio, reduction
from oneballot_lab.reproduce.tables.fedkt_rounds import passes

sys.path.insert(0, str(Path(__file__).parent))
from tiny import FEDKT, OURS, TABLE, TREE

PROMISED = {
    "fedkt": "table1 table2 table3",
    "fedkt-long": "table1 table5 table6 table7 table8 table9 table10 table11 table14 table15 table16 figure2",
    "ensemble": "figure1 figure2 figure3",
    "fedkd": "table1 table2 table5 figure2",
    "dosfl": "table1 table2 table3 table4 table6 figure2 figure3 figure7",
    "ours": "beta rounds",
}
PRINTED = [
    ("fedkt/table1", "Adult", "FedKT", 82.2, 0.6), ("fedkt/table1", "MNIST, MLP", "FedDF, 1 round", 83.8, None),
    ("fedkt/table1", "SVHN", "SCAFFOLD, 1 round", 16.2, None),
    ("fedkt/table1", "cod-rna", "all data together", 91.2, None),
    ("fedkt/table2", "cod-rna, L2", "γ = 0.05, 2 % queries", 84.7, None),
    ("fedkt/table3", "SVHN", "FedKT, 20%", 80.1, None),
    ("fedkt-long/table1", "MNIST", "FedProx, 50 rounds", 98.6, None),
    ("fedkt-long/table5", "Adult", "s = 5", 81.1, 0.1),
    ("fedkt-long/table6", "cod-rna", "t = 15", 83.1, 0.6), ("fedkt-long/table7", "MNIST", "SOLO, β = 0.1", 43.4, None),
    ("fedkt-long/table8", "Adult", "FedKT, 30 parties", 83.6, None),
    ("fedkt-long/table9", "MNIST", "FedAvg, 5 parties, 2 rounds", 93.0, None),
    ("fedkt-long/table10", "MNIST", "FedKT, 40%", 95.1, None),
    ("fedkt-long/table11", "SVHN", "without consistent voting", 81.6, None),
    ("fedkt-long/table14", "CelebA", "FedAvg, 50 rounds", 95.1, None),
    ("fedkt-long/table15", "adult, L1, het", "γ = 0.08, 0.5 % queries", 76.3, None),
    ("fedkt-long/table16", "cod-rna, L2, hom", "γ = 0.04, 1.5 % queries", 84.0, None),
    ("fedkt-long/figure2", "MNIST", "rounds of FedAvg to pass FedKT", 23, None),
    ("fedkd/table1", "CIFAR-10, CIFAR-100", "FedKD, α = 0.1", 65.46, 3.45),
    ("fedkd/table1", "CIFAR-100", "FedMD, α = 1", 45.83, 0.58),
    ("fedkd/table2", "CIFAR-10, C", "equation 1, τ = 3", 80.01, None),
    ("fedkd/table5", "SST-2", "Standalone", 74.80, 5.05), ("dosfl/table1", "MNIST, 100", "SR, non-IID", 78.29, None),
    ("dosfl/table2", "TREC", "FedAvg, 29, non-IID", 13.70, None),
    ("dosfl/table4", "IMDB", "reduction, %, 100", 66.83, None),
    ("dosfl/table6", "Sent140", "LP-DOSFL, 100, non-IID", 74.60, None),
    ("dosfl/figure2", "MNIST, 10 p", "LP-DOSFL, IID", 98.85, None),
    ("ensemble/figure1", "EMNIST", "gain over local", 51.5, None),
]  # fmt: skip


def test_every_promised_table_is_listed():
    promised = {f"{paper}/{part}" for paper, parts in PROMISED.items() for part in parts.split()}
    assert set(all_tables()) == promised
    result = CliRunner().invoke(app, ["reproduce", "--list", "--json"])
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["tables"]) == promised


def test_the_list_counts_cells_once_a_table_and_says_how_many_are_shared():
    listed = ["reproduce", "--list", "--group", "adult"]
    told = json.loads(CliRunner().invoke(app, [*listed, "--json"]).stdout)

    def once(jobs: list[object]) -> list[object]:
        return [job for i, job in enumerate(jobs) if job not in jobs[:i]]

    every = []
    for table in choose([], ["adult"]):
        cells = once(list(table.jobs()))
        assert told["tables"][table.name] == {"title": table.title, "groups": ["adult"], "cells": len(cells)}
        every += cells
    distinct = len(once(every))
    assert (told["cells"], told["distinct"]) == (len(every), distinct)
    text = CliRunner().invoke(app, listed).stdout
    assert f"{len(every)} cells in all" in text
    assert f"tables share cells: {distinct} are distinct" in text


def test_the_list_is_of_what_was_asked_for():
    listed = ["reproduce", "fedkt/table2", "dosfl/table3", "--list"]
    text = CliRunner().invoke(app, listed).stdout
    assert re.findall(r"^ (\S+/\S+) .*? (\d+) ", text, re.M) == [("fedkt/table2", "48"), ("dosfl/table3", "5")]
    assert "53 cells in all" in text
    assert "share" not in text
    assert "16 cells in all" in CliRunner().invoke(app, [*listed[:2], "--list", "--quick"]).stdout
    assert "32 cells in all" in CliRunner().invoke(app, [*listed[:2], "--list", "--seeds", "2"]).stdout


def test_the_list_waits_for_no_library_that_trains():
    code = (
        "import sys; from oneballot.cli import app; app(['reproduce', '--list'], standalone_mode=False); "
        "print([m for m in ('sklearn', 'scipy.optimize', 'scipy.stats', 'torch', 'joblib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("table", "row", "cell", "value", "deviation"), PRINTED)
def test_figures_are_the_papers(table, row, cell, value, deviation):
    chosen = next(r for r in all_tables()[table].rows if r.name.startswith(row))
    found = next(c for c in chosen.cells if c.name.startswith(cell))
    assert found.paper is not None
    assert (found.paper.value, found.paper.deviation) == (value, deviation)


@pytest.mark.parametrize("table", all_tables().values(), ids=lambda t: t.name)
def test_a_table_is_whole(table):
    for row in table.rows:
        names = [cell.name for cell in row.cells]
        assert len(set(names)) == len(names), f"{row.name}: two cells of one name"
        assert all(cell.experiments or cell.words for cell in row.cells), "a cell without experiments says why"
    ours = [row for row in table.rows if any(c.name.startswith("ours") for c in row.cells)]
    assert ours == [row for row in table.rows if not row.name.startswith("lessons for")]
    if table.name != "dosfl/table3":  # sizes alone
        assert all(any("foreign" in cell.name for cell in row.cells) or "epsilon" in str(row) for row in ours)
    for job in table.jobs():
        name_of(*job)
    for job in table.reduced().jobs():
        name_of(*job)


def test_a_reduced_table_says_what_stands_for_its_networks_and_is_made_of_that():
    for name, said, module in (("dosfl/table1", "an MLP for LeNet", "mlp"), ("fedkd/table2", "a CNN", "cnn")):
        small = all_tables()[name].reduced()
        assert any(said in note for note in small.notes)
        assert small.rows[0].cells[0].experiments[0].learner.module == module
        assert not any(said in note for note in all_tables()[name].notes)


def test_the_batch_of_distilled_images_is_that_of_the_paper_s_figures():
    """40 images a step, which give its accuracies (table 1), and 10, which give its break-even round (table 3)."""
    accuracy, sizes = (all_tables()[f"dosfl/{name}"] for name in ("table1", "table3"))
    asked = [cell.experiments[0].method for row in accuracy.rows for cell in row.cells if "ours" not in cell.name]
    assert {(m.batch, m.local_epochs, m.learning_rate, m.decay_period) for m in asked} == {(40, 30, 0.02, 10)}
    assert any("40 inputs a step" in note for note in accuracy.notes)
    assert sizes.rows[0].cells[0].experiments[0].method == ob.DOSFL.paper("mnist")


SHAPES = {"adult": (123,), "cod-rna": (8,), "mnist": (1, 28, 28), "chest-xray": (1, 28, 28),
          "pneumoniamnist": (1, 28, 28)}  # fmt: skip
CLASSES = {"mnist": 10, "svhn": 10, "cifar10": 10, "cifar100": 100}


def test_every_election_of_every_table_can_be_held():
    """Settings that do not go together are found here, and not after an hour of training."""
    for extra in ("torch", "xgboost"):
        pytest.importorskip(extra)
    tried = set()
    for table in all_tables().values():
        for experiment, seed in table.run_with(1).jobs():
            if not isinstance(experiment, Vote | Peered) or experiment.federation.words:
                continue  # texts need their vocabulary
            held = experiment.federation
            alike = replace(held, parties=1, split="homogeneous", share=1.0, public=held.public == "none")
            if (name := name_of(replace(experiment, federation=alike), seed)) in tried:
                continue
            tried.add(name)
            numbers = held.scaled or held.data in TABLES
            X = np.zeros((4, *SHAPES.get(held.data, (3, 32, 32))), np.float32 if numbers else np.uint8)
            y, public = np.zeros(4, int), X[:0] if held.public == "none" else X
            election = elect(experiment, Cut(X, y, X, y, public, y, CLASSES.get(held.data, 2)), 0, "cpu")
            if isinstance(experiment, Peered):
                check_peer(plugins.find("peers", experiment.peer)(**experiment.settings), election)
    assert len(tried) > 150


def test_tables_are_chosen_by_name_by_paper_and_by_data():
    assert [t.name for t in choose(["fedkt"], [])] == ["fedkt/table1", "fedkt/table2", "fedkt/table3"]
    adult = choose([], ["adult"])
    assert {row.group for table in adult for row in table.rows} == {"adult"}
    with pytest.raises(OneBallotError, match="Did you mean 'fedkt/table1'"):
        choose(["fedkt/tabel1"], [])
    with pytest.raises(OneBallotError, match=r"no table is about moon; there are .*adult"):
        choose([], ["moon"])
    with pytest.raises(OneBallotError, match=r"no table is about adlut; .*Did you mean 'adult'\?"):
        choose(["fedkt"], ["adlut"])
    with pytest.raises(OneBallotError, match=r"fedkt/table2 has no row on mnist; there are adult, cod-rna"):
        choose(["fedkt/table2"], ["mnist"])


def test_a_run_that_measures_nothing_ends_with_an_error_that_says_why(tmp_path):
    hidden = {**os.environ, "ONEBALLOT_DATA": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path / "empty")}
    command = [sys.executable, "-m", "oneballot", "reproduce", "fedkt-long/table14", "--group", "chest-xray", "--quick",
               "--out", str(tmp_path / "out"), "--workers", "1"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=hidden)
    assert result.returncode == 1
    assert "nothing could be measured" in result.stderr
    assert "Put chest-xray.npz into a folder chest-xray/" in result.stdout


@pytest.mark.skipif("ONEBALLOT_DATA" not in os.environ, reason="needs the data sets in ONEBALLOT_DATA")
def test_an_interrupted_run_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "oneballot", "reproduce", "fedkt/table3", "--group", "adult", "--quick",
               "--out", str(tmp_path), "--workers", "1"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        assert running.stderr is not None
        while not list(tmp_path.glob("cells/*.json")):
            assert running.poll() is None, running.stderr.read()
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130
    assert f"stopped; finished cells are kept in {tmp_path / 'cells'}: the same command goes on from there" in said


def test_a_table_is_written_with_the_difference_and_what_could_not_be_had(tmp_path):
    (done,) = reproduce([TABLE], tmp_path, command="oneballot reproduce tiny/table1")
    told = json.loads((tmp_path / "tiny/table1.json").read_text())
    fedkt, best, missing, refused, broken = told["rows"][0]["cells"]
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
    assert "not to be had: the data set 'imagenet32' is not at hand |" in text
    assert "ONEBALLOT_DATA" not in text, "where it was looked for is no one else's business"
    assert "FAILED: unknown peer 'no-such-peer'" in text
    assert "    oneballot reproduce tiny/table1" in text
    assert done.failed == 2


def test_data_that_are_not_whole_are_told_once_a_row_in_every_form(tmp_path, monkeypatch):
    whole = federations._digits
    monkeypatch.setattr(federations, "_digits", lambda: replace(whole(), note="every second row"))
    federations._load_once.cache_clear()
    (done,) = reproduce([replace(TABLE, seeds=1)], tmp_path)
    federations._load_once.cache_clear()
    text, told = (done.files[i].read_text() for i in (0, 1))
    assert text.count("The data at hand differ from the original: digits: every second row.") == 1
    assert json.loads(told)["rows"][0]["cells"][0]["notes"] == ["digits: every second row"]


def test_data_that_are_wrong_are_an_error_and_not_missing():
    narrow = Federation("digits", 2, public="imagenet32")
    assert run_one(Vote(narrow, ob.FedKT(), TREE), 0, "cpu").kind == "missing"
    bare = Federation("digits", 2, rows=0)
    assert run_one(Vote(bare, ob.FedKT(), TREE), 0, "cpu").kind == "error"


def test_pictures_of_all_kinds_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    cells = (
        Cell("a", (OURS,), Figure(80.0), series="ours", at=1),
        Cell("b", (FEDKT,), series="ours", at=2),
        Cell("c", (OURS,)),
    )
    rows = (Row("digits", "digits", cells),)
    for kind in ("lines", "bars", "curves"):
        (done,) = reproduce([Table(f"tiny/{kind}", "Digits", rows, 1, picture=Picture(kind))], tmp_path)
        assert done.files[2].read_bytes().startswith(b"\x89PNG")
        assert f"![tiny/{kind}]({kind}.png)" in done.files[0].read_text()


def test_federations_are_cut_as_they_say():
    whole = Federation("digits", 5).cut(3)
    assert (len(whole.X), len(whole.public), len(whole.X_test)) == (897, 450, 450)
    assert len(Federation("digits", 5, share=0.2).cut(3).public) == 90
    assert len(Federation("digits", 5, share=0.2, public_rows=100).cut(3).public) == 20
    none = Federation("digits", 5, public="none").cut(3)
    assert (len(none.public), len(none.X_test)) == (0, 900)
    train = Federation("digits", 5, public="train").cut(3)
    assert (len(train.X), len(train.public), len(train.X_test)) == (718, 179, 900)
    shuffled = Federation("digits", 5, public=SHUFFLED).cut(3).public
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(whole.public, axis=0))
    assert (shuffled != whole.public).any(axis=1).mean() > 0.9
    scaled = Federation("digits", 5, scaled=True).cut(3).public
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)


def test_budgets_cost_what_the_calculator_says_and_little_noise_costs_little_accuracy():
    loud, quiet = ob.L2(gamma=0.04, stable_ids=True), ob.L2(gamma=5.0, stable_ids=True)
    budgets = (Budget("loud", loud, 40), Budget("few", loud, 8), Budget("quiet", quiet, 200))
    federation = Federation("digits", 2, "homogeneous", public_rows=200, test_rows=200)
    method = ob.FedKT.paper(partitions=1, subsets=5)
    values = Budgets(federation, method, TREE, budgets).run(0, "cpu").values
    expected = Question({"gamma": 0.04}, 40, classes=10, level="L2").epsilon("laplace", 25.0, 40)
    assert values["loud epsilon"] == pytest.approx(expected, rel=1e-9)
    assert values["loud paper"] == pytest.approx(2.5911, abs=1e-4)  # as in table 2 of the paper
    assert values["few paper"] == pytest.approx(0.64)  # as in table 15
    assert values["loud paper, seen"] <= values["loud paper"] + 1e-9
    assert values["quiet accuracy"] > 0.45 > values["loud accuracy"] + 0.05  # noise cannot be seeded


def test_the_break_even_round_is_that_of_equation_5():
    lenet = ob.Torch("lenet", settings={"shape": [1, 28, 28]})
    found = BreakEven(lenet, (1, 28, 28), 784, 10, ob.DOSFL.paper()).run(0, "cpu").values
    assert found["weights"] == 61_706
    assert round(found["rounds"], 2) == 19.83


def test_rounds_to_pass_are_counted_from_one():
    peer = Found({}, {"accuracy": [0.5, 0.8, 0.7], "bytes": [10.0, 20.0, 30.0]})
    once = [Found({"accuracy": share, "bytes": 4.0}) for share in (0.8, 0.81)]
    assert passes([peer, once[0]]).value == 2
    assert passes([peer, once[0]]).bytes == 20
    assert math.isnan(passes([peer, once[1]]).value)
    assert ratio([peer, once[0]]).value == 5
    assert reduction([peer, once[0]]).value == pytest.approx(80)


def test_a_tables_quick_version_runs_from_the_command_line(tmp_path):
    command = [sys.executable, "-m", "oneballot", "reproduce", "dosfl/table3", "--quick", "--out", str(tmp_path),
               "--workers", "1"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "61706.00" in result.stdout
    folder = tmp_path / "cells"
    assert result.stderr.splitlines() == [
        f"dosfl/table3: 5 cells to run; finished ones are kept in {folder}", "cells (0 were kept): 5 of 5"
    ]  # fmt: skip
    again = CliRunner().invoke(app, command[3:])
    assert again.stdout == result.stdout
    kept = sorted(folder.iterdir())
    assert len(kept) == 5
    assert again.stderr == f"dosfl/table3: 5 cells, all kept in {folder}: none to run; delete it to measure anew\n"
    for path in kept[:2]:
        path.unlink()
    rest = CliRunner().invoke(app, command[3:])
    assert rest.stdout == result.stdout
    assert rest.stderr.splitlines() == [
        f"dosfl/table3: 5 cells, of which 3 are kept in {folder}: 2 to run", "cells (3 were kept): 2 of 2"
    ]  # fmt: skip


def on_screen(raw: str) -> list[str]:
    """The lines that a terminal shows in the end, of what rich sends to one: lines erased and written over."""
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


def test_on_a_terminal_a_table_is_printed_where_no_bar_is(tmp_path):
    pty = pytest.importorskip("pty")
    command = [sys.executable, "-m", "oneballot", "reproduce", "dosfl/table3", "--quick", "--workers", "1",
               "--out", str(tmp_path)]  # fmt: skip
    screen, terminal = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=env) as running:
        os.close(terminal)
        sent = b""
        with open(screen, "rb", buffering=0) as reading:
            while True:
                try:
                    sent += reading.read(65536)
                except OSError:  # nobody is left who could write
                    break
    assert running.returncode == 0
    raw = sent.decode()
    assert "so far" in raw, "there was a bar, with a clock"
    told, title, *rest = [line for line in on_screen(raw) if line]
    assert told == f"dosfl/table3: 5 cells to run; finished ones are kept in {tmp_path / 'cells'}"
    assert title.startswith("dosfl/table3: REDUCED: After how many rounds")
    assert rest[-1].startswith("Written: ")
    assert not any("cells (" in line for line in rest)


@pytest.mark.skipif("ONEBALLOT_DATA" not in os.environ, reason="needs the data sets in ONEBALLOT_DATA")
def test_a_real_table_in_its_quick_version(tmp_path):
    pytest.importorskip("xgboost")
    (done,) = reproduce(choose(["fedkt-long/table11"], ["adult"]), tmp_path, quick=True)
    assert done.failed == 0
    lines = {line.cell.name: line for line in done.lines["Adult, random forest"]}
    assert lines["with consistent voting"].mean > 70
    assert lines["ours at its best"].mean > 80


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[3] / "docs/reproduce.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "docs/reproduce.md", "exec"), {})
    ((vote, accuracy), (alone, less)) = eval(capsys.readouterr().out)  # noqa: S307
    assert (vote, alone) == ("open vote", "alone")
    assert accuracy > less
