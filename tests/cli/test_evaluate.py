"""`oneballot evaluate` as people run it: metrics with the field's names, by the values of any column, and warnings."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.server.outcome import Outcome


def run(*words: object, status: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """outcome/ and test.csv: an illness of two numbers, and a column `site` that the election does not know."""
    folder = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(0)
    for name, rows in {"public": 200, "a": 150, "test": 240}.items():
        X = np.round(rng.random((rows, 2)), 3)
        sites = np.array(["north", "south", "", "tiny"])[np.minimum(np.arange(rows) // 78, 3)]
        flip = rng.random(rows) < np.where((sites == "south") & (name == "test"), 0.4, 0.02)
        ill = (X.sum(axis=1) > 1) ^ flip
        extra = {"site": sites.tolist()} if name == "test" else {}
        with open(folder / f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["age", "dose", *extra, "ill"])
            table.writerows(zip(*X.T.tolist(), *extra.values(), np.where(ill, "yes", "no").tolist(), strict=True))
    election = folder / "election.toml"
    run("new", election, "--public", folder / "public.csv", "--label", "ill")
    election.write_text(election.read_text().replace("n_estimators = 100", "n_estimators = 10"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run("cast", election, "--party", "a", "--data", folder / "a.csv", "--to", folder / "box")
        run("tally", election, "--from", folder / "box", "--out", folder / "outcome")
    return folder


def test_the_metrics_have_the_names_of_the_field(outcome: Path) -> None:
    shown = " ".join(run("evaluate", outcome / "outcome", "--data", outcome / "test.csv").output.split())
    for name in (
        *("accuracy", "balanced accuracy", "ROC AUC", "average precision", "Brier score", "95 % interval"),
        *("expected calibration error", "precision", "recall", "F1", "support", "Confusion matrix", "without a model"),
    ):
        assert name in shown


def test_by_a_column_that_the_election_does_not_use(outcome: Path) -> None:
    done = run("evaluate", outcome / "outcome", "--data", outcome / "test.csv", "--by", "site")
    assert "By site" in done.output
    assert "Worst: south" in done.output
    assert "more than chance explains" in " ".join(done.output.split())
    assert "say little: tiny" in " ".join(done.output.split())
    found = json.loads(
        run("evaluate", outcome / "outcome", "--data", outcome / "test.csv", "--by", "site", "--json").stdout
    )
    (by,) = found["by"]
    assert by["column"] == "site"
    assert by["worst"] == "south"
    groups = {each["group"]: each for each in by["groups"]}
    assert {name: each["rows"] for name, each in groups.items()} == {
        "north": 78, "south": 78, "tiny": 6, "(missing)": 78,
    }  # fmt: skip
    assert groups["tiny"]["small"]
    assert sum(each["rows"] * each["accuracy"] for each in groups.values()) == pytest.approx(240 * found["accuracy"])
    assert groups["north"]["accuracy"] > 0.85 > groups["south"]["accuracy"]
    assert found["baseline"]["beaten"]


def test_by_several_columns_and_by_quantiles_of_numbers(outcome: Path) -> None:
    words = ("evaluate", outcome / "outcome", "--data", outcome / "test.csv", "--by", "age", "--by", "ill", "--json")
    age, ill = json.loads(run(*words).stdout)["by"]
    assert len(age["groups"]) == 5
    assert age["groups"][0]["group"].startswith("below 0.")
    assert [each["group"] for each in ill["groups"]] == ["no", "yes"]
    assert ill["groups"][0]["auc"] is None, "rows of a single class have no AUC"


def test_rows_without_a_label_are_left_out_of_their_group_too(outcome: Path, tmp_path: Path) -> None:
    lines = (outcome / "test.csv").read_text().splitlines()
    lines[1] = lines[1].rpartition(",")[0] + ","
    (tmp_path / "test.csv").write_text("\n".join(lines))
    words = ("evaluate", outcome / "outcome", "--data", tmp_path / "test.csv", "--by", "site", "--json")
    found = json.loads(run(*words).stdout)
    assert found["rows"] == 239
    assert {g["group"]: g["rows"] for g in found["by"][0]["groups"]}["north"] == 77


def test_an_unknown_column_names_those_of_the_file(outcome: Path) -> None:
    done = run("evaluate", outcome / "outcome", "--data", outcome / "test.csv", "--by", "sight", status=1)
    assert "has no column 'sight'; it has age, dose, site, ill" in " ".join(done.output.split())


def test_a_file_without_labels_says_what_to_do(outcome: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age,dose\n0.1,0.2\n")
    done = run("evaluate", outcome / "outcome", "--data", tmp_path / "rows.csv", status=1)
    assert "has no label column ill" in " ".join(done.output.split())
    assert "oneballot predict" in done.output


def test_a_model_that_does_not_beat_the_most_frequent_class_is_a_loud_warning(outcome: Path, tmp_path: Path) -> None:
    lines = (outcome / "test.csv").read_text().splitlines()
    swapped = [line.replace(",yes", ",?").replace(",no", ",yes").replace(",?", ",no") for line in lines[1:]]
    (tmp_path / "test.csv").write_text("\n".join([lines[0].replace("?", ""), *swapped]))
    done = run("evaluate", outcome / "outcome", "--data", tmp_path / "test.csv", "--by", "site")
    warned = " ".join(done.stderr.split())
    assert "WARNING: the model is no better than always predicting" in warned
    assert "no-information rate" in warned
    assert "WARNING: by site: the model is worse" in warned
    found = json.loads(run("evaluate", outcome / "outcome", "--data", tmp_path / "test.csv", "--json").stdout)
    assert found["baseline"]["beaten"] is False


def test_labelled_rows_keep_all_columns_of_the_file(outcome: Path) -> None:
    rows = Outcome.load(outcome / "outcome").read_labelled(outcome / "test.csv")
    assert len(rows.X) == len(rows.y) == len(rows.table["site"]) == 240


def test_the_python_example_of_the_documentation_runs(outcome: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(outcome)
    text = (Path(__file__).parents[2] / "docs/metrics.md").read_text("utf-8")
    found: dict[str, Any] = {}
    exec(text.split("```python\n")[1].split("```")[0], found)
    assert found["by_site"].worst.name == "south"
    assert found["svg"].startswith("<svg")
