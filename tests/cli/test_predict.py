"""`oneballot predict`: row IDs as the file writes them, from every type of file, with labels and probabilities."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.report import predictions
from oneballot.runtime.progress import report_progress_to
from oneballot.simulation import divide, simulate_parties

SCHEMA = ob.Schema(label="ill", columns=[{"name": n, "kind": "number", "range": (0, 1)} for n in ("a", "b")])


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    X = rng.random((200, 2)).astype(np.float32)
    election = ob.Election(classes=["no", "yes"], public=X[:60], schema=SCHEMA, method=ob.FedKT())
    parties = divide(election.encoded(X[60:], np.where(X[60:, 0] > 0.5, "yes", "no")), 2, "homogeneous")
    folder = tmp_path_factory.mktemp("outcome")
    simulate_parties(election, parties).outcome.save(folder)
    return folder


def run(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == status, done.output + repr(done.exception)
    return done.stdout if not status else done.output


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_ids_of_a_csv_file_are_kept_as_written(outcome: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(
        'case,a,b\n007,0.9,0.1\n1e3,0.1,0.1\n"Ä, 1",0.2,0.5\n12345678901234567890,0.8,0\n'
    )
    found = rows(run("predict", outcome, "--data", tmp_path / "new.csv", "--id", "case"))
    assert [row["case"] for row in found] == ["007", "1e3", "Ä, 1", "12345678901234567890"]
    assert [row["prediction"] for row in found] == ["yes", "no", "no", "yes"]


def test_ids_of_parquet_and_excel_files_are_whole_numbers(outcome: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    ids = [9007199254740993, 2]  # above 2**53: a float would change it
    frame = pandas.DataFrame({"case": ids, "a": [0.9, 0.1], "b": [0.1, 0.1]})
    frame.to_parquet(tmp_path / "new.parquet")
    found = rows(run("predict", outcome, "--data", tmp_path / "new.parquet", "--id", "case"))
    assert [row["case"] for row in found] == ["9007199254740993", "2"]
    pytest.importorskip("openpyxl")
    frame.assign(case=[1001, 2]).to_excel(tmp_path / "new.xlsx", index=False)
    found = rows(run("predict", outcome, "--data", tmp_path / "new.xlsx", "--id", "case"))
    assert [row["case"] for row in found] == ["1001", "2"]


def test_without_an_id_column_rows_are_numbered_from_one(outcome: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("b,a\n0.1,0.9\n0.1,0.1\n")
    found = rows(run("predict", outcome, "--data", tmp_path / "new.csv"))
    assert [(row["row"], row["prediction"]) for row in found] == [("1", "yes"), ("2", "no")]
    assert "ids" not in json.loads(run("predict", outcome, "--data", tmp_path / "new.csv", "--json"))


def test_an_unknown_id_column_is_an_error_that_names_the_columns(outcome: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("a,b\n0.9,0.1\n")
    said = run("predict", outcome, "--data", tmp_path / "new.csv", "--id", "case", status=1)
    assert "has no column 'case'; it has a, b" in said


def test_many_rows_show_progress_and_are_predicted_as_at_once(
    outcome: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(1).random((50, 2))
    (tmp_path / "new.csv").write_text("a,b\n" + "".join(f"{a:.3f},{b:.3f}\n" for a, b in X))
    loaded = ob.Outcome.load(outcome)
    whole = predictions.predict_file(loaded, tmp_path / "new.csv")
    monkeypatch.setattr(predictions, "BLOCK", 20)
    seen: list[tuple[str, int, int]] = []
    with report_progress_to(lambda *each: seen.append(each)):
        blocks = predictions.predict_file(loaded, tmp_path / "new.csv")
    np.testing.assert_array_equal(blocks.probabilities, whole.probabilities)
    assert seen[-1][1:] == (3, 3)
