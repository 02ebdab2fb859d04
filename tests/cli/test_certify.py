"""What each party changed and the certificate, as people see them: after a tally, on a page, and by `certify`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from oneballot.cli import app

ENSEMBLE = 'name = "ensemble"\nweights = "uniform"'


def run(*words: object, status: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


@pytest.fixture
def clinics(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(clinic)
    run("new", "election.toml", "--public", "public.csv", "--label", "ill")
    text = Path("election.toml").read_text()
    start, end = text.index("[method]"), text.index("[privacy]")
    learner = '[learners.all]\nname = "sklearn"\nparams = { n_estimators = 10 }'
    Path("election.toml").write_text(f"{text[:start]}[method]\n{ENSEMBLE}\n\n{learner}\n\n{text[end:]}")
    for name in "abc":
        run("cast", "election.toml", "--party", f"clinic-{name}", "--data", f"{name}.csv", "--to", "box")
    return clinic


@pytest.mark.slow
def test_a_tally_and_a_report_show_the_line_and_certify_answers_for_public_and_other_rows(
    clinics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    output = run("tally", "election.toml", "--from", "box", "--out", "outcome").output
    for part in ("Without each party, on 202 rows", "labels changed", "share of weight", "clinic-b", "could not have"):
        assert part in output
    assert "DO NOT PUBLISH" not in output
    described = json.loads(Path("outcome/outcome.json").read_text())["influence"]
    assert {one["party"] for one in described["parties"]} == {"clinic-a", "clinic-b", "clinic-c"}
    assert 0 < described["certified"]["1"] < 1  # both others must say the same, with certainty
    found = json.loads(run("certify", "outcome", "--election", "election.toml", "--json").stdout)
    assert found == described
    other = run("certify", "outcome", "--election", "election.toml", "--data", "test.csv").output
    assert "on 200 rows" in other
    run("report", "outcome", "--out", "page.html", "--election", "election.toml")
    assert "Without each party" in Path("page.html").read_text()


def test_a_published_outcome_cannot_be_certified_and_holds_none_of_it(clinics: Path) -> None:
    words = ("tally", "election.toml", "--from", "box", "--out", "outcome", "--publish", "shared", "--publish-members")
    run(*words)
    assert "influence" not in Path("shared/outcome.json").read_text()
    failed = run("certify", "shared", "--election", "election.toml", status=1)
    assert "published without votes" in failed.output
