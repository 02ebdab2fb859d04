"""The command `oneballot appraise`: table, picture, page, JSON, the report's section, and what is kept private."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.boxes.folder import Folder
from oneballot.cli import app
from oneballot.election import template
from oneballot.party.submit import cast_file
from oneballot.server.appraise.record import read_appraisal
from oneballot.server.files import tally_files

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
ENSEMBLE = template.section("ensemble")
L1 = '[privacy]\nlevel = "L1"\nepsilon = 50.0\n'


def start(folder: Path, **how: str) -> None:
    text = template.draft(folder / "public.csv", "ill", beside=folder / "election.toml", **how).text
    text = text.replace("n_estimators = 100", "n_estimators = 5").replace("n_estimators = 50", "n_estimators = 5")
    (folder / "election.toml").write_text(text)
    election = ob.Election.read(folder / "election.toml")
    for name in "abc":
        cast_file(election, name, folder / f"{name}.csv", keep=folder / "kept", box=Folder(folder / "box"))
    tally_files(election, Folder(folder / "box"), folder / "outcome", beside=folder)


def run(*words: object, fails: bool = False) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert (result.exit_code != 0) == fails, result.output
    return result.output


@pytest.fixture
def voted(clinic: Path) -> Path:
    start(clinic, method=ENSEMBLE)
    return clinic


def test_a_table_shows_what_each_party_adds_with_intervals(voted: Path) -> None:
    text = run("appraise", voted / "outcome", "--data", voted / "test.csv")
    assert "What each party adds: points of accuracy" in text
    assert "All 8 coalitions were valued, so the values are exact" in text
    assert " to +" in text or " to -" in text


def test_json_has_values_that_sum_to_the_gain_of_all_parties(voted: Path) -> None:
    found = json.loads(
        run("appraise", voted / "outcome", "--data", voted / "test.csv", "--json", "--metric", "balanced")
    )
    total = sum(each["value"] for each in found["parties"])
    assert total == pytest.approx(found["whole"] - found["empty"])
    assert found["empty"] == pytest.approx(0.5)
    assert {each["party"] for each in found["parties"]} == {"a", "b", "c"}
    assert found["metric"] == "balanced accuracy"
    assert "do_not_publish" not in found


@pytest.mark.parametrize("name", ["appraisal.html", "appraisal.svg", "appraisal.png"])
def test_a_page_or_a_picture_is_written(voted: Path, name: str) -> None:
    run("appraise", voted / "outcome", "--data", voted / "test.csv", "--out", voted / name)
    written = (voted / name).read_bytes()
    assert len(written) > 1000
    if name.endswith("html"):
        assert b"What each party adds" in written
        assert b"DO NOT PUBLISH" not in written
    assert "must end in .html" in run(
        "appraise", voted / "outcome", "--data", voted / "test.csv", "--out", voted / "a.txt", fails=True
    )


def test_the_report_shows_the_appraisal_until_the_outcome_changes(voted: Path) -> None:
    page = voted / "report.html"
    run("report", voted / "outcome", "--out", page)
    assert "oneballot appraise" in page.read_text()
    run("appraise", voted / "outcome", "--data", voted / "test.csv")
    (kept,) = (voted / "outcome").glob("appraisal-*")
    if os.name == "posix":
        assert kept.stat().st_mode & 0o777 == 0o600
    run("report", voted / "outcome", "--out", page)
    assert "What each party adds" in page.read_text()
    run("withdraw", voted / "outcome", "b")
    assert not list((voted / "outcome").glob("appraisal-*"))
    assert read_appraisal(voted / "outcome") is None


def test_at_l1_an_appraisal_is_marked_and_only_on_the_servers_page(clinic: Path) -> None:
    start(clinic, privacy=L1, method=template.section("fedkt", "L1"), server_key="none")
    words = ("appraise", clinic / "outcome", "--data", clinic / "test.csv", "--out", clinic / "appraisal.html")
    assert "only the server may see" in run(*words, fails=True)
    text = run(*words, "--server-only")
    assert "DO NOT PUBLISH" in text
    assert not (clinic / "appraisal.html").exists()
    page = clinic / "appraisal.do-not-publish.html"
    assert "DO NOT PUBLISH" in page.read_text()
    if os.name == "posix":
        assert page.stat().st_mode & 0o777 == 0o600
    run("report", clinic / "outcome", "--out", clinic / "report.html", "--server-page")
    assert "What each party adds" not in (clinic / "report.html").read_text()
    assert "What each party adds" in (clinic / "report.do-not-publish.html").read_text()


def test_an_election_that_is_not_found_is_named_in_the_error(voted: Path, tmp_path: Path) -> None:
    (voted / "elsewhere").mkdir()
    (voted / "outcome").rename(voted / "elsewhere" / "outcome")
    words = ("appraise", voted / "elsewhere" / "outcome", "--data", voted / "test.csv")
    assert "--election election.toml" in run(*words, fails=True)
    run(*words, "--election", voted / "election.toml")
