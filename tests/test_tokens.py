"""Texts as token indices, end to end: with files and commands, and in Python with any integer type."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

import oneballot as ob
from oneballot.cli import app
from oneballot.types import Array

WORDS, LENGTH = 30, 6
LEARNER = """[learners.all]
name = "torch"
module = "textcnn"
settings = { vocabulary = 30, dimension = 8, filters = 8, widths = [1, 2] }
epochs = 10
batch = 32
learning_rate = 0.1
device = "cpu"
"""


def texts(seed: int, rows: int = 150) -> tuple[Array, Array]:
    """Every text contains word 2 or word 3, which determines its class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    X = rng.integers(4, WORDS, (rows, LENGTH))
    X[np.arange(rows), rng.integers(0, LENGTH, rows)] = y + 2
    return X, y


def run(*words: object) -> dict:
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_commands_run_an_election_on_token_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for i, name in enumerate(("public", "a", "b", "test", "all")):
        X, y = texts(i)
        np.savez(f"{name}.npz", tokens=X, label=y)
    words = ["new", "e.toml", "--public", "public.npz", "--label", "label", "--method", "fedkt"]
    CliRunner().invoke(app, words, catch_exceptions=False)
    text = Path("e.toml").read_text()
    assert 'kind = "tokens"' in text
    begin, end = text.index("[learners.all]"), text.index("[privacy]")
    Path("e.toml").write_text(text[:begin] + LEARNER + text[end:])
    for party in ("a", "b"):
        run("cast", "e.toml", "--party", party, "--data", f"{party}.npz", "--to", "box", "--keep", "kept")
    run("tally", "e.toml", "--from", "box", "--out", "outcome")
    assert run("evaluate", "outcome", "--data", "test.npz")["accuracy"] > 0.9
    predicted = CliRunner().invoke(app, ["predict", "outcome", "--data", "test.npz"])
    assert predicted.exit_code == 0, predicted.output
    assert run("simulate", "e.toml", "--data", "all.npz", "--parties", "3")["accuracy"]["outcome"] > 0.8


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16])
def test_tokens_of_any_integer_type_work_in_python(dtype: type, tmp_path: Path) -> None:
    settings = {"vocabulary": WORDS, "dimension": 8, "filters": 8, "widths": [1, 2]}
    learner = ob.Torch("textcnn", settings, epochs=10, batch=32, learning_rate=0.1, device="cpu")
    election = ob.Election(classes=[0, 1], public=texts(0)[0].astype(dtype), method="fedkt", learner=learner)
    ballots = [ob.cast(election, X.astype(dtype), y, party=f"p{i}") for i in (1, 2) for X, y in [texts(i)]]
    outcome = ob.tally(election, ballots)
    X, y = texts(3)
    assert (outcome.model.predict(X.astype(dtype)) == y).mean() > 0.9
    outcome.save(tmp_path)
    np.testing.assert_array_equal(ob.Outcome.load(tmp_path).model.predict(X), outcome.model.predict(X.astype(dtype)))
