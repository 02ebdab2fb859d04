"""Wide LIBSVM files on the command line: rows stay sparse from `new` to `predict`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.sparse import is_sparse


def oneballot(*words: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result.output


def write_libsvm(path: Path, rows: int, seed: int) -> Path:
    """Rows of 1,500 features; feature 1 or 2 says the class. The last row is empty."""
    rng, lines = np.random.default_rng(seed), []
    for i in range(rows):
        features = sorted({*rng.integers(3, 1500, 4).tolist(), 1 + i % 2, 1500})
        lines.append(f"{(-1, 1)[i % 2]} {' '.join(f'{j}:1' for j in features)}\n")
    path.write_text("".join([*lines, "1\n"]))
    return path


@pytest.fixture
def election(tmp_path: Path) -> Path:
    path, public = tmp_path / "election.toml", write_libsvm(tmp_path / "public.svm", 60, 0)
    oneballot("new", path, "--public", public, "--label", "y", "--method", "fedkt")
    linear = [f"learners.{role}.estimator=LogisticRegression" for role in ("all", "final")]
    oneballot("election", "set", path, *linear, *(f"learners.{role}.params={{}}" for role in ("all", "final")))
    return path


def test_libsvm_files_stay_sparse_from_cast_to_prediction(election: Path, tmp_path: Path):
    assert is_sparse(ob.Election.read(election).public)
    for seed, party in enumerate(("a", "b"), start=1):
        mine = write_libsvm(tmp_path / f"{party}.svm", 60, seed)
        oneballot("cast", election, "--party", party, "--data", mine, "--to", tmp_path / "box", "--keep", tmp_path)
    oneballot("tally", election, "--from", tmp_path / "box", "--out", tmp_path / "outcome")
    assert json.loads((tmp_path / "outcome/outcome.json").read_text())["model"]["sparse"] is True
    rows = write_libsvm(tmp_path / "new.svm", 20, 3)
    oneballot("predict", tmp_path / "outcome", "--data", rows, "--out", tmp_path / "predicted.csv")
    with (tmp_path / "predicted.csv").open() as file:
        predicted = [row["prediction"] for row in csv.DictReader(file)]
    assert predicted[:20] == ["-1", "1"] * 10
    assert len(predicted) == 21
    oneballot("simulate", election, "--data", tmp_path / "a.svm", "--parties", 2, "--out", tmp_path / "simulated")


def test_a_malformed_line_stops_a_cast_with_file_and_line(election: Path, tmp_path: Path):
    (tmp_path / "mine.svm").write_text("1 1:1\n-1 7:1 x\n")
    output = oneballot("cast", election, "--party", "a", "--data", tmp_path / "mine.svm", "--keep", tmp_path, status=1)
    assert "mine.svm, line 2" in " ".join(output.split())
