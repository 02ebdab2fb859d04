"""ONNX files predict what the outcome predicts, from raw columns, without OneBallot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ExportError
from oneballot.report.export.onnx import check
from oneballot.report.export.predictor import Predictor

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")

PREDICT = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
inputs = {
    "age": numpy.array([31.5, float("nan"), 200.0, 61.0]),
    "ward": numpy.array(["a", "", "unknown", "b c"], dtype=object),
    "seen": numpy.array(["2020-02-29", "NA", "2021-03-04 12:30", "2021-12-31T23:59:59"], dtype=object),
}
label, probabilities = session.run(["label", "probabilities"], inputs)
assert "oneballot" not in sys.modules
print(list(label), probabilities.tolist())
"""


def table(rows: int = 240, seed: int = 0) -> dict[str, Any]:
    """A messy table: numbers, categories and dates, some of them missing."""
    rng = np.random.default_rng(seed)
    age, ward = rng.uniform(18, 90, rows).round(1), rng.choice(["a", "b c", "d"], rows).astype(object)
    days = np.datetime64("2020-01-01T00:00:00") + rng.integers(0, 700 * 86400, rows).astype("timedelta64[s]")
    seen = np.array([str(day) for day in days], dtype=object)
    score = age / 30 + 1.5 * (ward == "a") + rng.normal(0, 0.3, rows)
    label = np.where(score > 2.6, "yes", np.where(score > 1.7, "maybe", "no")).astype(object)
    age[rng.random(rows) < 0.1] = np.nan
    ward[rng.random(rows) < 0.1] = ""
    seen[rng.random(rows) < 0.1] = ""
    return {"age": age, "ward": ward, "seen": seen, "label": label}


def decide(**settings: Any) -> ob.Outcome:
    """The outcome of three parties."""
    frame = table()
    schema = ob.Schema.from_frame(frame, label="label")
    election = ob.Election(classes=("no", "maybe", "yes"), schema=schema, **settings)
    parts = [{name: values[i::3] for name, values in frame.items()} for i in range(3)]
    return ob.tally(election, [ob.cast(election, part, party=f"p{i}") for i, part in enumerate(parts)])


def public() -> dict[str, Any]:
    return {name: values for name, values in table(60, 1).items() if name != "label"}


@pytest.fixture(scope="module")
def default() -> ob.Outcome:
    return decide()


def test_the_open_ensemble_predicts_raw_columns_without_oneballot(default: ob.Outcome, tmp_path: Path) -> None:
    exported = ob.export(default, "onnx", tmp_path / "model.onnx")
    assert "1,000 rows" in exported.checked
    assert "labels are equal" in exported.checked
    command = [sys.executable, "-c", PREDICT, str(tmp_path / "model.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    raw = {
        "age": np.array([31.5, np.nan, 200.0, 61.0]),
        "ward": ["a", "", "unknown", "b c"],
        "seen": ["2020-02-29", "NA", "2021-03-04 12:30", "2021-12-31T23:59:59"],
    }
    assert default.schema is not None
    assert [str(label) for label in default.model.predict(raw)] == eval_list(done.stdout)


def eval_list(text: str) -> list[str]:
    return json.loads(text[: text.index("]") + 1].replace("'", '"').replace("np.str_(", "").replace(")", ""))


def test_the_file_states_election_classes_ledger_and_opset(default: ob.Outcome, tmp_path: Path) -> None:
    ob.export(default, "onnx", tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(model)
    about = {each.key: each.value for each in model.metadata_props}
    assert about["election"] == default.election
    assert json.loads(about["classes"]) == ["no", "maybe", "yes"]
    assert json.loads(about["ledger"])["level"] == "L0"
    assert {each.domain: each.version for each in model.opset_import} == {"": 20, "ai.onnx.ml": 3}
    assert [each.name for each in model.graph.input] == ["age", "ward", "seen"]


FINAL = {
    "trees": lambda: ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 10}),
    "histograms": lambda: ob.Sklearn("HistGradientBoostingClassifier", {"max_iter": 5}),
    "linear": lambda: ob.Sklearn("LogisticRegression"),
    "perceptron": lambda: ob.Sklearn("MLPClassifier", {"hidden_layer_sizes": [8], "max_iter": 20}),
    "bayes": lambda: ob.Sklearn("GaussianNB"),
    "support vectors": lambda: ob.Sklearn("SVC"),
    "kernel": ob.Kernel,
    "xgboost": lambda: ob.XGBoost(rounds=5),
    "lightgbm": lambda: ob.LightGBM(rounds=5),
    "network": lambda: ob.Torch("mlp", epochs=2),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", FINAL)
def test_the_final_model_of_every_learner_is_exported(learner: str, tmp_path: Path) -> None:
    outcome = decide(method=ob.FedKT(), learner=FINAL[learner](), public=public())
    assert "labels are equal" in ob.export(outcome, "onnx", tmp_path / "model.onnx").checked


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", ["linear", "xgboost"])
def test_the_members_of_an_ensemble_are_exported(learner: str, tmp_path: Path) -> None:
    """scikit-learn models of parties are converted in the sandbox."""
    outcome = decide(method=ob.Ensemble(), learner=FINAL[learner]())
    assert "labels are equal" in ob.export(outcome, "onnx", tmp_path / "model.onnx").checked


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_partys_network_is_converted_only_if_every_party_is_trusted(tmp_path: Path) -> None:
    outcome = decide(method=ob.Ensemble(), learner=FINAL["network"]())
    with pytest.raises(ExportError, match=r"member 1 .* outside the sandbox.*--trust-members"):
        ob.export(outcome, "onnx", tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    exported = ob.export(outcome, "onnx", tmp_path / "model.onnx", trust_members=True)
    assert "labels are equal" in exported.checked
    with pytest.raises(ExportError, match="--trust-members does nothing"):
        ob.export(outcome, "sklearn", tmp_path / "model.skops", trust_members=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_several_labels_per_row_are_exported_to_onnx_and_refused_for_scikit_learn(tmp_path: Path) -> None:
    X = np.random.default_rng(1).normal(size=(300, 2)).astype(np.float32)
    y = np.stack([X[:, 1] > 0, X[:, 0] > 0, np.hypot(*X.T) > 1.2], axis=1).astype(int)
    network = ob.Torch("mlp", {"hidden": [8]}, epochs=10, device="cpu")
    election = ob.Election(
        ("above", "right", "far"), public=X[:100], learner=network, multilabel=True, method=ob.FedKD()
    )
    outcome = ob.tally(election, [ob.cast(election, X[100:], y[100:], party="p")])
    ob.export(outcome, "onnx", tmp_path / "model.onnx", data=X)
    outputs = check.run(tmp_path / "model.onnx", {"X": X})
    np.testing.assert_allclose(outputs["probabilities"], outcome.probabilities(X), atol=1e-5)
    assert np.array_equal(outputs["label"], outcome.model.predict(X))
    with pytest.raises(ExportError, match="several labels per row"):
        ob.export(outcome, "sklearn", tmp_path / "model.skops")
    if pytest.importorskip("huggingface_hub"):
        ob.export(outcome, "huggingface", tmp_path / "folder", data=X)
        found = Predictor(tmp_path / "folder").predict(X)
        assert [label.split(";") for label in found["prediction"]] == [
            [name for name, chosen in zip(outcome.classes, row, strict=True) if chosen] or [""]
            for row in outcome.model.predict(X)
        ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_member_that_needs_a_compiled_operator_is_refused_with_the_reason(tmp_path: Path) -> None:
    outcome = decide(method=ob.Ensemble(), learner=ob.Sklearn("SVC"))
    with pytest.raises(ExportError, match="SVMClassifier"):
        ob.export(outcome, "onnx", tmp_path / "model.onnx", publish_rows=True)
    assert not list(tmp_path.iterdir())


def test_the_analytic_model_is_exported(tmp_path: Path) -> None:
    outcome = decide(method=ob.Analytic())
    assert "labels are equal" in ob.export(outcome, "onnx", tmp_path / "model.onnx").checked


def test_a_calibrated_model_is_exported_with_its_temperature(default: ob.Outcome, tmp_path: Path) -> None:
    default.model.temperature_ = 1.7
    try:
        assert "labels are equal" in ob.export(default, "onnx", tmp_path / "model.onnx").checked
    finally:
        default.model.temperature_ = None


def test_an_export_that_predicts_something_else_is_not_kept(
    default: ob.Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "TOLERANCE", -1.0)
    with pytest.raises(ExportError, match="differs from the outcome"):
        ob.export(default, "onnx", tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_hashed_text_is_refused_with_the_reason(tmp_path: Path) -> None:
    frame = {"note": np.array(["some words", "other words here"] * 20, dtype=object), "age": np.arange(40.0)}
    columns = [{"name": "note", "kind": "text", "features": 8}, {"name": "age", "kind": "number", "range": [0, 40]}]
    schema = ob.Schema.model_validate({"label": "label", "columns": columns})
    election = ob.Election(classes=("no", "yes"), schema=schema, method=ob.Analytic())
    outcome = ob.tally(election, [ob.cast(election, frame, np.array(["no", "yes"] * 20), party="p")])
    with pytest.raises(ExportError, match="hash"):
        ob.export(outcome, "onnx", tmp_path / "model.onnx")


def test_rows_that_the_schema_refuses_have_no_probability(tmp_path: Path) -> None:
    columns = [
        {"name": "age", "kind": "number", "range": [0, 40]},
        {"name": "day", "kind": "date", "range": ["2024-01-01", "2024-12-31"]},
    ]
    schema = ob.Schema.model_validate({"label": "label", "columns": columns})
    frame = {"age": np.arange(40.0), "day": np.array(["2024-02-29", "2024-06-01"] * 20, dtype=object)}
    election = ob.Election(classes=(0, 1), schema=schema, method=ob.Analytic())
    outcome = ob.tally(election, [ob.cast(election, frame, np.array([0, 1] * 20), party="p")])
    exported = ob.export(outcome, "onnx", tmp_path / "model.onnx")
    assert "values that the schema refuses" in exported.lost[0]
    days = ["2024-02-29", "2024-02-30", "2025-01-01", "", "soon", "2024-3-1", "2024-12-31"]
    given = {"age": np.array([1.0] * 6 + [41.0]), "day": np.array(days, dtype=object)}
    outputs = check.run(tmp_path / "model.onnx", given)
    assert np.isnan(outputs["probabilities"]).any(axis=1).tolist() == [False, True, False, True, True, False, True]


@pytest.mark.parametrize("lenient", [True, False])
def test_refused_values_are_mentioned_only_where_the_schema_refuses_some(tmp_path: Path, lenient: bool) -> None:
    age = {"name": "age", "kind": "number", "range": [0, 40]}
    schema = ob.Schema.model_validate({"label": "label", "columns": [age]})
    election = ob.Election(classes=(0, 1), schema=schema.lenient() if lenient else schema, method=ob.Analytic())
    outcome = ob.tally(election, [ob.cast(election, {"age": np.arange(40.0)}, np.array([0, 1] * 20), party="p")])
    for to, path in (("onnx", "model.onnx"), ("huggingface", "folder")):
        exported = ob.export(outcome, to, tmp_path / path)
        assert len([text for text in exported.lost if "schema refuses" in text]) == (not lenient)
        assert any("stay in the outcome" in text for text in exported.lost)


def test_an_outcome_without_a_schema_takes_encoded_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4)).astype(np.float32)
    election = ob.Election(classes=(0, 1), method=ob.Analytic(), public=X)
    outcome = ob.tally(election, [ob.cast(election, X, (X[:, 0] > 0).astype(int), party="p")])
    exported = ob.export(outcome, "onnx", tmp_path / "model.onnx", data=X)
    assert not [text for text in exported.lost if "schema" in text]
    outputs = check.run(tmp_path / "model.onnx", {"X": X})
    assert outputs["label"].tolist() == [outcome.classes[i] for i in outcome.probabilities(X).argmax(axis=1)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_convnet_is_exported(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 3, 8, 9)).astype(np.uint8)
    learner = ob.Torch("convnet", {"channels": [4, 8, 8]}, epochs=1)
    election = ob.Election(classes=(0, 1), method=ob.FedKT(), learner=learner, public=images)
    outcome = ob.tally(election, [ob.cast(election, images, np.arange(60) % 2, party="p")])
    assert "labels are equal" in ob.export(outcome, "onnx", tmp_path / "model.onnx", data=images).checked


@pytest.mark.parametrize("background", ["public rows", "none"])
def test_the_cap_on_a_partys_share_of_a_row_is_exported(background: str, tmp_path: Path) -> None:
    """Seven parties, one of which alone has a class: some rows are capped, and on others the cap gives way."""
    frame = table(350)
    schema = ob.Schema.from_frame(frame, label="label")
    rows = public() if background == "public rows" else None
    trees = ob.Sklearn("RandomForestClassifier", {"n_estimators": 5})
    election = ob.Election(classes=("no", "maybe", "yes"), schema=schema, public=rows, learner=trees)
    alone = frame["label"] == "yes"
    parts = [{name: values[~alone][i::6] for name, values in frame.items()} for i in range(6)]
    parts.append({name: values[alone] for name, values in frame.items()})
    outcome = ob.tally(election, [ob.cast(election, part, party=f"p{i}") for i, part in enumerate(parts)])
    model = outcome.model.model_
    encoded = schema.encode(table(100, 5), "test rows")
    claimed, capped = model.claimed_weights(encoded), model.member_weights(encoded)
    assert (claimed > capped).any()
    assert "labels are equal" in ob.export(outcome, "onnx", tmp_path / "model.onnx").checked
