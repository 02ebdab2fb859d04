"""`oneballot report` at the command line, and its page in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.errors import OneBallotError
from oneballot.report.outcome.benefits import check_level

from ..browser import check_page
from ..conftest import write_csv

SITES = ("north", "south", "<i>east</i>")


def run(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == status, done.output + repr(done.exception)
    return done.output


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An election of three hospitals with files, tallied. The test rows name their site."""
    folder, cancer = tmp_path_factory.mktemp("report"), load_breast_cancer()
    header = [*(name.replace(" ", "_") for name in cancer.feature_names[:8]), "tumour", "site"]
    kinds = ("malignant", "benign")
    rows = [[*x[:8], kinds[c], SITES[i % 3]] for i, (x, c) in enumerate(zip(cancer.data, cancer.target, strict=True))]
    for i, name in enumerate(("a", "b", "c", "test")):
        write_csv(folder / f"{name}.csv", header, rows[i::4])
    run("new", folder / "election.toml", "--like", folder / "a.csv", "--label", "tumour", "--drop", "site")
    for party in "abc":
        data = ("--data", folder / f"{party}.csv", "--to", folder / "box", "--keep", folder / "kept")
        run("cast", folder / "election.toml", "--party", party, *data)
    run("tally", folder / "election.toml", "--from", folder / "box", "--out", folder / "outcome")
    return folder


def test_a_report_is_one_small_page_with_quality_by_site(place: Path) -> None:
    page = place / "report.html"
    given = ("--data", place / "test.csv", "--by", "site", "--election", place / "election.toml")
    assert str(page) in run("report", place / "outcome", *given, "--out", page)
    text = page.read_text("utf-8")
    assert len(text.encode()) < 10**6
    assert "<i>east" not in text
    for expected in ("Accuracy", "Decision curve", "ROC curve", "malignant", "north", "oneballot report"):
        assert expected in text


def test_the_page_is_named_in_json_and_a_wrong_column_is_an_error(place: Path) -> None:
    said = run("report", place / "outcome", "--out", place / "plain.html", "--json")
    assert json.loads(said) == {"pages": [str(place / "plain.html")]}
    said = run("report", place / "outcome", "--data", place / "test.csv", "--by", "ward", status=1)
    assert "ward" in said
    assert "site" in said


def test_what_a_party_measured_is_in_the_report(place: Path) -> None:
    given = ("--data", place / "a.csv", "--election", place / "election.toml", "--keep", place / "kept", "--party", "a")
    said = run("benefit", place / "outcome", *given, "--json")
    found = json.loads(said.splitlines()[-1])
    (place / "a.json").write_text(json.dumps({**found, "party": "<b>a</b>"}))
    page = place / "benefit.html"
    run("report", place / "outcome", "--benefit", place / "a.json", "--out", page)
    text = page.read_text("utf-8")
    assert "What the outcome is worth to a party" in text
    assert "<b>a" not in text
    assert f"{100 * found['own']['accuracy']:.1f} %" in text
    assert found["verdict"] in text
    (place / "b.json").write_text(json.dumps({**found, "election": "0" * 64}))
    assert "is about election 0000" in run("report", place / "outcome", "--benefit", place / "b.json", status=1)
    (place / "b.json").write_text(json.dumps({**found, "judged_by": "off"}))
    said = run("report", place / "outcome", "--benefit", place / "b.json", status=1)
    assert "compares models by 'off', and the election's target by 'accuracy'" in " ".join(said.split())
    (place / "b.json").write_text('{"verdict": 3}')
    said = run("report", place / "outcome", "--benefit", place / "b.json", "--out", place / "new.html", status=1)
    assert "was not written by `oneballot benefit --json`" in " ".join(said.split())
    assert not (place / "new.html").exists()


def test_other_methods_and_pooled_data_come_from_a_comparison(place: Path) -> None:
    given = ("--data", place / "a.csv", "--parties", 2, "--method", "analytic", "--peer", "solo")
    run("compare", place / "election.toml", *given, "--out", place / "compared")
    found = json.loads((place / "compared" / "comparison.json").read_text())
    found["methods"][0]["name"] = "<b>mine</b>"
    file, page = place / "comparison.json", place / "comparison.html"
    file.write_text(json.dumps(found))
    run("report", place / "outcome", "--comparison", file, "--data", place / "test.csv", "--out", page)
    text = page.read_text("utf-8")
    assert "A model of pooled data is not known here" not in text
    assert "<b>mine" not in text
    table = text[text.index("Other methods and pooled data, in a simulation") :]
    table = table[: table.index("</table>")]
    for name in ("&lt;b&gt;mine", "analytic", "solo, 1 round", "mean party", "best party (party-"):
        assert name in table
    pooled = table[table.index("pooled data (upper bound)") :]
    assert f"{100 * found['baselines']['pooled']['accuracy']:.1f} %" in pooled
    assert "compare these rows with each other" in text
    run("report", place / "outcome", "--comparison", file, "--out", page)
    assert "Other methods and pooled data" in page.read_text("utf-8"), "also without labelled rows"
    file.write_text(json.dumps({**found, "election": "0" * 64}))
    assert "is about election 0000" in run("report", place / "outcome", "--comparison", file, status=1)
    file.write_text("[]")
    said = run("report", place / "outcome", "--comparison", file, status=1)
    assert "`oneballot compare --out`" in " ".join(said.split())


def test_figures_about_a_partys_rows_are_on_no_page_that_has_noise() -> None:
    check_level("L0", server_page=False)
    check_level("L1", server_page=True)
    for level in ("L1", "L2"):
        with pytest.raises(OneBallotError, match=f"have no noise, so a report at {level} has none"):
            check_level(level, server_page=False)
    with pytest.raises(OneBallotError, match=r"--comparison: .*L2"):
        check_level("L2", "--comparison", server_page=True)


def test_a_report_never_replaces_what_is_not_a_page(place: Path) -> None:
    for name in ("test.csv", "outcome/outcome.json", "election.toml", "report"):
        before = (place / name).read_bytes() if (place / name).exists() else None
        given = ("--data", place / "test.csv", "--election", place / "election.toml")
        assert "must end in .html" in run("report", place / "outcome", *given, "--out", place / name, status=1)
        assert ((place / name).read_bytes() if (place / name).exists() else None) == before
    (place / "notes.html").write_text("my notes")
    said = run("report", place / "outcome", "--data", "missing.csv", "--out", place / "notes.html", status=1)
    assert "is not a page" in said, "before any file is read"
    assert (place / "notes.html").read_text() == "my notes"
    given = ("--data", "missing.csv", "--out", place / "no" / "x.html")
    assert "no folder" in run("report", place / "outcome", *given, status=1)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_opens_in_a_browser_with_its_figures(place: Path, width: int) -> None:
    page = place / f"{width}.html"
    run("report", place / "outcome", "--data", place / "test.csv", "--by", "site", "--out", page)
    check_page(page, width, figures=page.read_text("utf-8").count("<svg"))
    assert page.read_text("utf-8").count("<svg") >= 5
