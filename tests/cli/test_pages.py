"""The pages of `oneballot simulate --report` and `compare --report`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oneballot.cli import app

from ..browser import check_page

HOSTILE = "<img src=x onerror=alert(1)>"


def run(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == status, done.output + repr(done.exception)
    return done.output


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    for name, rows in (("public", 80), ("all", 300)):
        X = rng.random((rows, 2))
        lines = [f"{a:.3f},{b:.3f},{HOSTILE if a + b / 4 > 0.6 else 'no'}" for a, b in X]
        (folder / f"{name}.csv").write_text("\n".join(["a,b,ill", *lines]) + "\n")
    agreed = folder / "election.toml"
    run("new", agreed, "--public", folder / "public.csv", "--label", "ill", "--method", "fedkt")
    data = ("--data", folder / "all.csv", "--parties", 3)
    said = run("simulate", agreed, *data, "--report", folder / "simulate.html")
    assert "Report: " in said
    peers = ("--method", "analytic", "--peer", "solo")
    run("compare", agreed, *data, *peers, "--report", folder / "compare.html")
    return folder


def test_the_page_of_a_simulation_has_verdict_gains_and_class_counts(pages: Path) -> None:
    text = (pages / "simulate.html").read_text("utf-8")
    for expected in ("Who gains", "95 % interval", "party-1", "pooled data", "Rows of each class", "<svg", "level L0"):
        assert expected in text
    for figure in ("ROC curve", "Precision-recall curve", "Calibration curve", "Confusion matrix"):
        assert f"<title>{figure}" in text
    assert HOSTILE not in text
    assert len(text) < 10**6


def test_the_page_of_a_simulation_says_first_that_the_model_never_predicts_a_class(pages: Path) -> None:
    rows = (pages / "all.csv").read_text("utf-8").splitlines()
    at = rows[0].split(",").index("ill")
    cells = [row.split(",") for row in rows[1:]]
    for row in cells[1:]:
        row[at] = cells[0][at]
    (pages / "one.csv").write_text("\n".join([rows[0], *(",".join(row) for row in cells)]) + "\n", "utf-8")
    run(
        "simulate",
        pages / "election.toml",
        *("--data", pages / "one.csv", "--test", pages / "all.csv", "--parties", 2),
        *("--split", "homogeneous", "--report", pages / "one.html"),
    )
    text = (pages / "one.html").read_text("utf-8")
    assert "<h1>Simulation: " in text
    assert "The model never recognises" in text[: text.index("<section")]


def test_the_page_of_a_comparison_has_methods_peers_and_bytes(pages: Path) -> None:
    text = (pages / "compare.html").read_text("utf-8")
    for expected in (
        "Recommended",
        "fedkt",
        "analytic",
        "solo",
        "Accuracy against bytes",
        "<svg",
        "Gain of each party",
    ):
        assert expected in text
    assert HOSTILE not in text
    assert len(text) < 10**6


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_with_privacy_the_pages_say_that_they_may_not_be_published(pages: Path, level: str) -> None:
    agreed = pages / f"{level}.toml"
    words = ("--public", pages / "public.csv", "--label", "ill", "--method", "fedkt")
    run("new", agreed, *words, "--level", level, "--epsilon", 9)
    data = ("--data", pages / "all.csv", "--parties", 2)
    for command, rest in (("simulate", ()), ("compare", ("--method", "fedkt"))):
        page = pages / f"{command}-{level}.html"
        run(command, agreed, *data, *rest, "--report", page)
        assert "DO NOT PUBLISH: this page holds exact numbers about the rows" in page.read_text("utf-8")
        assert page.stat().st_mode & 0o077 == 0
        assert "DO NOT PUBLISH" not in (pages / f"{command}.html").read_text("utf-8")


def test_a_page_in_a_missing_folder_is_refused_before_anything_is_trained(pages: Path) -> None:
    words = ("simulate", pages / "election.toml", "--data", pages / "all.csv", "--report", pages / "no" / "x.html")
    assert "there is no folder" in run(*words, status=1)


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_page_does_not_replace_the_rows(pages: Path, command: str) -> None:
    rows = pages / "all.csv"
    before = rows.read_bytes()
    said = run(command, pages / "election.toml", "--data", rows, "--parties", 2, "--report", rows, status=1)
    assert "must end in .html" in said
    assert rows.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simulate", "compare"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_open_in_a_browser_without_errors_and_without_sideways_scrolling(
    pages: Path, name: str, width: int
) -> None:
    check_page(pages / f"{name}.html", width, figures={"simulate": 7, "compare": 2}[name])
