"""An exported Pipeline predicts from raw columns what the outcome predicts, in a process without OneBallot."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.election.columns import Category
from oneballot.errors import ExportError
from oneballot.report.export.sklearn import _advise, _list_lost
from oneballot.report.export.sklearn.columns import encoder
from oneballot.report.export.sklearn.distil import LEAST_AGREEMENT, Distilled
from oneballot.simulation import simulate_parties

pd = pytest.importorskip("pandas")

PREDICT = """
import sys
sys.modules["oneballot"] = None  # importing it fails
import json
import pandas as pd
import skops.io
model, data = sys.argv[1:]
pipeline = skops.io.load(model, trusted=skops.io.get_untrusted_types(file=model))
frame = pd.read_json(data, dtype=False)
out = {"labels": pipeline.predict(frame).tolist(), "classes": pipeline.classes_.tolist()}
if hasattr(pipeline, "predict_proba"):
    out["probabilities"] = pipeline.predict_proba(frame).tolist()
print(json.dumps(out))
"""
FINAL = {
    "extra trees": {"estimator": "ExtraTreesClassifier", "params": {"n_estimators": 5}},
    "logistic regression": {"estimator": "LogisticRegression"},
    "boosting as trees": {"estimator": "HistGradientBoostingClassifier", "params": {"max_iter": 10}},
    "support vectors": {"estimator": "LinearSVC"},
    "perceptron": {"estimator": "MLPClassifier", "params": {"max_iter": 2000, "tol": 0.01, "hidden_layer_sizes": [4]}},
    "a pipeline": {
        "estimator": "Pipeline",
        "params": {"steps": [{"estimator": "StandardScaler"}, {"estimator": "LogisticRegression"}]},
    },
}


def rows(count: int, seed: int = 0) -> Any:
    """Numbers, numbers with gaps, categories of text and of digits, and dates."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 90, count).round(1), rng.random(count)
    ward, grade = rng.choice(["north", "south"], count), rng.choice(["1", "2", "3"], count)
    day = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, count), unit="D")
    ill = np.where(age / 90 + dose + 0.3 * (ward == "north") > 1.2, "yes", "no")
    frame = pd.DataFrame({"age": age, "dose": dose, "ward": ward, "grade": grade, "day": day, "ill": ill})
    frame.loc[frame.index % 7 == 3, "age"] = np.nan
    return frame


def schema_of() -> ob.Schema:
    return ob.Schema.model_validate(
        {
            "label": "ill",
            "columns": [
                {"kind": "number", "name": "age", "range": [20, 90], "outside": "clip", "missing": True},
                {"kind": "number", "name": "dose", "range": [0, 1]},
                {"kind": "category", "name": "ward", "categories": ["north", "south"], "missing": "feature"},
                {"kind": "category", "name": "grade", "categories": ["1", "2", "3"], "outside": "blank"},
                {"kind": "date", "name": "day", "range": ["2020-01-01", "2021-03-01"], "missing": True},
            ],
        }
    )


@pytest.fixture(scope="module")
def make_outcome() -> Callable[..., ob.Outcome]:
    def make(**settings: Any) -> ob.Outcome:
        every, schema = rows(500), schema_of()
        public = every[:150].drop(columns="ill")
        election = ob.Election(["no", "yes"], public=public, schema=schema, **settings)
        parties = {name: election.data(every[150 + 110 * i : 260 + 110 * i]) for i, name in enumerate("abc")}
        return simulate_parties(election, parties).outcome

    return make


def predict_elsewhere(model: Path, frame: Any, tmp_path: Path) -> dict[str, Any]:
    """What the file predicts in a process that cannot import OneBallot."""
    frame.assign(day=frame["day"].dt.strftime("%Y-%m-%d")).to_json(tmp_path / "rows.json", double_precision=15)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-W", "error", "-c", PREDICT, model, tmp_path / "rows.json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FINAL, "xgboost", "lightgbm"])
def test_a_pipeline_predicts_the_same_without_oneballot(name, make_outcome, tmp_path: Path) -> None:
    boosters = {"xgboost": ob.XGBoost(rounds=5), "lightgbm": ob.LightGBM(rounds=5)}
    if name in boosters:
        pytest.importorskip(name)
    final = boosters[name] if name in boosters else ob.Sklearn(**FINAL[name])
    outcome = make_outcome(method=ob.FedKT(), learners={"final": final})
    exported = ob.export(outcome, "sklearn", tmp_path / "model.skops")
    assert "1,000 rows drawn from the schema" in exported.checked
    frame = rows(80, seed=5).drop(columns="ill")
    found = predict_elsewhere(exported.path, frame[reversed(frame.columns)].assign(other=1), tmp_path)
    assert found["labels"] == outcome.model.predict(frame).tolist()
    if "probabilities" in found:
        assert found["classes"] == ["no", "yes"]
        assert np.allclose(found["probabilities"], outcome.model.predict_proba(frame), atol=1e-5)
    else:
        assert "no probabilities" in " ".join(exported.lost)


@pytest.mark.slow
def test_an_ensemble_is_distilled_and_its_agreement_on_held_out_rows_is_stated(make_outcome, tmp_path: Path) -> None:
    outcome = make_outcome()
    public = rows(600, seed=9).drop(columns="ill")
    exported = ob.export(outcome, "sklearn", tmp_path / "model.skops", data=public, force=True)
    assert "200 held-out rows of the given data" in exported.lost[0]
    test = rows(400, seed=5).drop(columns="ill")
    found = predict_elsewhere(exported.path, test, tmp_path)
    assert np.mean(np.array(found["labels"]) == outcome.model.predict(test)) > 0.85


@pytest.mark.slow
def test_a_poor_student_is_refused(make_election, parties, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["oneballot.report.export.sklearn.distil"], "DRAWN", 1000)
    learner = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 3})
    method, few = ob.Ensemble(), dict(list(parties.items())[:2])
    outcome = simulate_parties(make_election(method=method, learner=learner), few).outcome  # normal rows are no digits
    with pytest.raises(ExportError, match=f"below {100 * LEAST_AGREEMENT:g} %.*--to onnx.*exactly.*--data") as refused:
        ob.export(outcome, "sklearn", tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())
    (lower,) = re.findall(r"--least-agreement (0\.\d+)", str(refused.value))
    with pytest.raises(ExportError, match=f"add --least-agreement {lower}"):
        ob.export(outcome, "sklearn", tmp_path / "model.skops", least_agreement=float(lower) + 0.01)
    accepted = ob.export(outcome, "sklearn", tmp_path / "model.skops", least_agreement=float(lower))  # as it says
    (percent,) = re.findall(r"agrees with the outcome's own model on ([0-9.]+) %", " ".join(accepted.lost))
    assert float(lower) <= float(percent) / 100 < LEAST_AGREEMENT
    for share in (-0.1, 1.5):
        with pytest.raises(ExportError, match="from 0 to 1"):
            ob.export(outcome, "sklearn", tmp_path / "other.skops", least_agreement=share)


@pytest.mark.parametrize(("agreement", "suggested"), [(0.43, False), (0.7999, False), (0.8123, True)])
def test_a_forest_that_is_often_wrong_is_not_suggested(agreement: float, suggested: bool) -> None:
    text = _advise(Distilled(None, agreement, "rows"), given=False)
    assert ("--least-agreement 0.81" in text) == suggested
    assert ("--least-agreement" in text) == suggested
    assert "`--to onnx`" in text


@pytest.mark.parametrize("lenient", [True, False])
def test_what_a_pipeline_lacks_follows_from_the_schema(lenient: bool) -> None:
    schema = ob.Schema.from_frame(rows(50), "ill")
    strict = [c.model_copy(update={"missing": False} | ({} if isinstance(c, Category) else {"outside": "error"}))
              for c in schema.columns]  # fmt: skip
    text = " ".join(_list_lost(schema.lenient() if lenient else schema.model_copy(update={"columns": tuple(strict)})))
    assert ("Values outside a range are clipped" in text) != lenient
    assert ("Missing values are refused" in text) != lenient
    assert "The ballots, the ledger" in text


def test_the_transformers_encode_like_the_schema() -> None:
    from sklearn.pipeline import Pipeline

    schema, frame = schema_of(), rows(50)
    frame["grade"] = pd.Series([1.0, 2.0, 3.0, 9.0, 2.0] * 10)
    frame["ward"] = pd.Series([" north", "south ", None, "", "NA"] * 10, dtype=object)
    frame.loc[4, "day"] = pd.NaT
    frame.loc[6, "age"] = 200
    own = schema.encode({name: _column(frame[name]) for name in frame}, "rows", report=False)
    assert np.allclose(Pipeline(encoder(schema, schema.shape)).transform(frame), own, atol=1e-7)


def _column(values: Any) -> Any:
    from oneballot.data.frames import as_column

    return as_column(values, "column", "rows")


@pytest.mark.parametrize("change", [{"dose": np.nan}, {"age": np.inf}, {"ward": "west"}, {"day": "5.3.2020"}])
def test_values_that_the_schema_refuses_are_refused(change) -> None:
    from sklearn.pipeline import Pipeline

    schema = schema_of()
    frame = rows(3).astype({"day": object}).assign(**change)
    with pytest.raises(ValueError):
        Pipeline(encoder(schema, schema.shape)).transform(frame)


def test_arrays_without_a_schema_are_exported_with_all_classes(election, parties, digits, tmp_path: Path) -> None:
    import skops.io

    outcome = simulate_parties(election, parties).outcome
    exported = ob.export(outcome, "sklearn", tmp_path / "model.skops", data=digits.X_test)
    trusted = skops.io.get_untrusted_types(file=exported.path)
    assert not [name for name in trusted if "oneballot" in name]
    pipeline = skops.io.load(exported.path, trusted=trusted)
    assert pipeline.predict(digits.X_test).tolist() == outcome.model.predict(digits.X_test).tolist()


def test_a_pickle_is_written_only_if_asked_for_and_with_a_warning(election, parties, tmp_path: Path) -> None:
    outcome = simulate_parties(election, parties).outcome
    with pytest.warns(ob.OneBallotWarning, match="is a pickle"):
        ob.export(outcome, "sklearn", tmp_path / "model.joblib")
    with pytest.raises(ExportError, match=r"ends in \.skops"):
        ob.export(outcome, "sklearn", tmp_path / "model.bin")


@pytest.mark.slow
def test_a_calibrated_model_is_distilled(make_outcome, tmp_path: Path) -> None:
    outcome = make_outcome(method=ob.FedKT(), learners={"final": ob.Sklearn("LogisticRegression")}, calibrate=True)
    assert outcome.model.temperature_ is not None
    exported = ob.export(outcome, "sklearn", tmp_path / "model.skops")
    assert "a calibrated SklearnModel, is replaced by one distilled from it" in exported.lost[0]
    frame = rows(80, seed=5).drop(columns="ill")
    found = np.array(predict_elsewhere(exported.path, frame, tmp_path)["probabilities"])
    assert np.abs(found - outcome.model.predict_proba(frame)).mean() < 0.1


def test_hashed_text_is_refused_with_the_reason() -> None:
    text = ob.Schema.model_validate({"label": "ill", "columns": [{"kind": "text", "name": "note"}]})
    with pytest.raises(ExportError, match="'note' is text"):
        encoder(text, text.shape)


def test_the_command_writes_the_pipeline_beside_the_outcome(election, parties, tmp_path: Path) -> None:
    outcome = simulate_parties(election, parties).outcome
    outcome.save(tmp_path / "outcome")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "outcome"), "--to", "sklearn", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["path"] == str(tmp_path / "outcome.skops")
    for option in (["--force"], ["--least-agreement", "0.9"]):
        done = CliRunner().invoke(app, ["export", str(tmp_path / "outcome"), "--to", "onnx", *option])
        assert done.exit_code == 1
        assert option[0] in done.output
