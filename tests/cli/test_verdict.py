"""evaluate, tally, compare and benefit as people run them: what the model is worth, in words and as JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from oneballot.cli import app


def run(*words: object, status: int = 0, terminal: bool = False) -> Any:
    result = CliRunner().invoke(app, [str(w) for w in words], color=terminal)
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def run_json(*words: object, status: int = 0) -> Any:
    return json.loads(run(*words, "--json", status=status).stdout)


def write_election(label: str = "ill", method: str = 'name = "fedkt"', params: str = "") -> None:
    """election.toml for public.csv, with this [method] section and a fast learner."""
    run("new", "election.toml", "--public", "public.csv", "--label", label)
    text = Path("election.toml").read_text()
    learner = f'name = "sklearn"\nparams = {{ n_estimators = 10{params} }}'
    start, end = text.index("[method]"), text.index("[privacy]")
    Path("election.toml").write_text(f"{text[:start]}[method]\n{method}\n\n[learners.all]\n{learner}\n\n{text[end:]}")


def cast_all(*names: str) -> None:
    for name in names:
        run("cast", "election.toml", "--party", f"clinic-{name}", "--data", f"{name}.csv", "--to", "box")


@pytest.fixture
def tallied(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(clinic)
    write_election()
    cast_all("a", "b", "c")
    run("tally", "election.toml", "--from", "box", "--out", "outcome")
    return clinic


def test_evaluate_shows_all_metrics_in_words_and_as_json(tallied: Path) -> None:
    output = run("evaluate", "outcome", "--data", "test.csv").output
    for part in ("balanced accuracy", "AUC", "average precision", "Brier score", "ECE", "95 % interval", "Confusion"):
        assert part in output
    found = run_json("evaluate", "outcome", "--data", "test.csv")
    assert found["rows"] == 200
    low, high = found["intervals"]["accuracy"]
    assert low < found["accuracy"] < high
    assert 0.9 < found["auc"] <= 1
    assert 0 < found["brier"] < 0.2
    assert 0 <= found["ece"] < 0.3
    assert np.sum(found["confusion"]) == 200
    assert found["classes"]["yes"].keys() >= {"precision", "recall", "f1", "auc", "average_precision", "support"}
    assert np.trace(found["confusion"]) == sum(c["right"] for c in found["classes"].values())


def test_tally_shows_what_the_model_predicts(tallied: Path) -> None:
    output = run("tally", "election.toml", "--from", "box", "--out", "outcome").output
    assert "What the final model predicts for 202 public rows" in output
    assert "of the votes name the class that it predicts" in output
    verdict = run_json("tally", "election.toml", "--from", "box", "--out", "outcome")["verdict"]
    assert verdict["collapsed"] == []
    assert sum(verdict["predicted"].values()) == pytest.approx(1)


def test_one_ballot_is_called_one_ballot(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clinic)
    write_election()
    cast_all("a")
    assert "election: 1 ballot, " in run("tally", "election.toml", "--from", "box", "--out", "outcome").output


def test_a_collapsed_model_is_a_red_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels that are pure noise, 5 % of them positive: the majority wins everywhere."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, rows in {"public": 400, "a": 300, "b": 300}.items():
        labels = np.where(np.arange(rows) % 20 == 0, "bad", "good")
        with open(f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["x", "y", "risk"])
            values = np.round(rng.random((rows, 2)), 1)
            table.writerows([x, y, label] for (x, y), label in zip(values, labels, strict=True))
    write_election("risk", 'name = "fedkt"\nweights = "class-counts"\nopen_vote = "off"', ", max_depth = 1")
    cast_all("a", "b")
    done = run("tally", "election.toml", "--from", "box", "--out", "outcome", terminal=True)
    assert "WARNING: the final model has collapsed: it never predicts bad (5.0 % of the parties' rows)" in done.stderr
    assert "\x1b[31m" in done.stderr  # red
    assert "It predicts no public row as bad." in done.stdout
    found = run_json("tally", "election.toml", "--from", "box", "--out", "outcome")
    assert found["verdict"]["never"] == ["bad"]
    assert found["verdict"]["collapsed"]


class TestBenefit:
    def test_rows_that_were_kept_back_test_an_outcome_of_one_model(
        self, clinic: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(clinic)
        write_election()
        plan = run_json(
            *("cast", "election.toml", "--party", "clinic-a", "--data", "a.csv"), "--holdout", 0.2, "--dry-run"
        )
        assert plan["rows"] == 120
        words = ("cast", "election.toml", "--party", "clinic-a", "--data", "a.csv", "--to", "box", "--holdout", 0.2)
        run(*words)
        assert "so --holdout has no effect" in run(*words).stderr
        cast_all("b", "c")
        run("tally", "election.toml", "--from", "box", "--out", "outcome")
        found = run_json("benefit", "outcome", "--data", "a.csv", "--party", "clinic-a")
        assert found["rows"] == 30
        assert found["how"] == "that you kept back"
        output = run("benefit", "outcome", "--data", "a.csv", "--party", "clinic-a", "--test", "test.csv").output
        for part in ("your model", "difference", "balanced accuracy", " points", "Tested on 200 rows that were not"):
            assert part in output
        error = run_json("benefit", "outcome", "--data", "b.csv", "--party", "clinic-b", status=1)["error"]
        assert "oneballot cast --holdout" in error
        error = run_json("benefit", "outcome", "--data", "b.csv", "--party", "clinic-a", status=1)["error"]
        assert "the rows differ from those that were cast from" in error

    @pytest.mark.slow
    @pytest.mark.parametrize("weights", ["open", "seen"])
    def test_in_an_ensemble_the_own_member_is_replaced(
        self, clinic: Path, monkeypatch: pytest.MonkeyPatch, weights: str
    ) -> None:
        monkeypatch.chdir(clinic)
        write_election(method=f'name = "ensemble"\nweights = "{weights}"')
        run("cast", "election.toml", "--party", "clinic-a", "--data", "a.csv", "--to", "box", "--keep", "mine")
        cast_all("b", "c")
        run("tally", "election.toml", "--from", "box", "--out", "outcome", "--publish", "public", "--publish-members")
        words = ("benefit", "public", "--data", "a.csv", "--keep", "mine")  # the only ballot there names the party
        found = run_json(*words, "--folds", 3)
        assert found["rows"] == 150
        assert found["verdict"] in ("better", "worse", "unclear")
        assert found["outcome"]["accuracy"] > 0.8
        assert "in 5 folds" in run(*words).output


def test_check_names_the_learners_that_are_trained_and_no_others(clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clinic)
    run("new", "election.toml", "--public", "public.csv", "--label", "ill")
    assert run_json("check", "election.toml")["learners"].keys() == {"local", "claim"}
    assert "all = " not in run("check", "election.toml").stdout
    Path("election.toml").unlink()
    write_election()
    assert run_json("check", "election.toml")["learners"].keys() == {"all"}
    text = Path("election.toml").read_text()
    start, end = text.index("[method]"), text.index("[privacy]")
    Path("analytic.toml").write_text(f'{text[:start]}[method]\nname = "analytic"\n\n{text[end:]}')
    assert run_json("check", "analytic.toml")["learners"] == {}
    assert "learners: none is trained" in run("check", "analytic.toml").stdout
