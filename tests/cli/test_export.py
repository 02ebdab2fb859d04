"""`oneballot export` as people run it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.report.export import EXPORTERS


def test_the_help_names_every_target_of_an_export() -> None:
    output = CliRunner().invoke(app, ["export", "--help"]).output
    assert all(name in output for name in EXPORTERS)
    assert "Example: oneballot export" in output


def test_the_help_says_what_is_exact_and_what_may_be_refused() -> None:
    output = " ".join(CliRunner().invoke(app, ["export", "--help"]).output.split())
    assert "ONNX is exact." in output
    assert "distils one into a single forest: an approximation, which is refused if" in output


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers, categories and dates, some of them missing."""
    rng, rows = np.random.default_rng(0), 120
    days = np.datetime64("2020-01-01") + rng.integers(0, 700, rows).astype("timedelta64[D]")
    ward = rng.choice(["a 'quoted'", "b", ""], rows).astype(object)
    frame = {"label": rng.uniform(18, 90, rows).round(1), "ward": ward, "seen": days, "ill": ward == "b"}
    schema = ob.Schema.from_frame(frame, label="ill")
    election = ob.Election(classes=("false", "true"), schema=schema, learner=ob.Sklearn("DecisionTreeClassifier"))
    parties = [{name: cells[i::2] for name, cells in frame.items()} for i in range(2)]
    made = ob.tally(election, [ob.cast(election, each, party=f"p{i}") for i, each in enumerate(parties)])
    folder = tmp_path_factory.mktemp("export") / "outcome"
    made.save(folder)
    return folder


def oneballot(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oneballot", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_an_onnx_export_prints_its_inputs_and_an_example_that_runs(outcome: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    path = tmp_path / "it's a model.onnx"
    output = oneballot("export", outcome, "--to", "onnx", "--out", path).stdout
    lines = output.splitlines()
    for line in ("double (missing: NaN): label", "string: ward", "string, a date such as 2024-02-29: seen"):
        assert f"  {line}" in lines
    code = lines[lines.index("Example:") + 1 :]
    assert len(code) == 5
    done = subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\['(true|false)'\] \[\[[\d.]+ +[\d.]+\]\]", done.stdout.strip()), done.stdout


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow warns when it is imported
def test_an_mlflow_export_prints_nothing_of_mlflow_and_takes_dates_as_text(outcome: Path, tmp_path: Path) -> None:
    mlflow, pd = pytest.importorskip("mlflow"), pytest.importorskip("pandas")
    done = oneballot("export", outcome, "--to", "mlflow", "--out", tmp_path / "model")
    assert done.stderr == ""
    assert done.stdout.startswith(f"{tmp_path / 'model'}: 1,000 rows drawn from the schema")
    assert len(done.stdout.splitlines()) == 2, done.stdout  # the schema refuses no value, so nothing is said of it
    model, own = mlflow.pyfunc.load_model(str(tmp_path / "model")), ob.Outcome.load(outcome).model
    rows = pd.DataFrame({"label": [31.5, 40.0], "ward": ["b", ""], "seen": ["2020-02-29", "2021-03-04 12:30"]})
    for seen in (rows["seen"], pd.to_datetime(rows["seen"], format="mixed"), ["2020-02-29", ""]):
        frame = rows.assign(seen=seen)
        assert np.allclose(model.predict(frame)[["p_false", "p_true"]], own.predict_proba(frame), atol=1e-5)


def test_an_unknown_target_is_refused_with_the_known_ones(tmp_path: object) -> None:
    result = CliRunner().invoke(app, ["export", str(tmp_path), "--to", "word"])
    assert result.exit_code == 2
    assert "onnx" in result.output
    with pytest.raises(ob.OneBallotError, match="onnx"):
        ob.export(str(tmp_path), "word")
