"""Exports to Hugging Face and MLflow predict without OneBallot, and MLflow's own server serves them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ExportError, MissingExtra
from oneballot.formats.skops import ALLOWED
from oneballot.report.export import bundle
from oneballot.report.export import mlflow as mlflow_export
from oneballot.report.export.predictor import TRUSTED, Predictor
from oneballot.simulation import simulate_parties

pd = pytest.importorskip("pandas")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ELSEWHERE = 'import runpy, sys; sys.modules["oneballot"] = None; runpy.run_path("example.py")'


def rows(count: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    age, ward = rng.uniform(20, 90, count).round(1), rng.choice(["north", "south"], count)
    day = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, count), unit="D")
    ill = np.where(age / 90 + 0.3 * (ward == "north") > 0.8, "yes", "no")
    return pd.DataFrame({"age": age, "ward": ward, "day": day, "ill": ill})


@pytest.fixture
def outcome() -> ob.Outcome:
    every = rows(400)
    schema = ob.Schema.from_frame(every, "ill")
    public, final = every[:100].drop(columns="ill"), ob.Sklearn("LogisticRegression")
    settings = {"method": ob.FedKT(), "learners": {"final": final}, "name": "<b>ill</b>"}
    election = ob.Election(["no", "yes"], public=public, schema=schema, **settings)
    parties = {f"klinikum-{i}": election.data(every[100 * i : 100 * i + 100]) for i in (1, 2, 3)}
    return simulate_parties(election, parties).outcome


def outside() -> dict[str, str]:
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | quiet


def test_a_hugging_face_folder_has_a_valid_card_and_its_example_runs_without_oneballot(outcome, tmp_path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    exported = ob.export(outcome, "huggingface", tmp_path / "model")
    names = {path.name for path in exported.files}
    assert names == {"README.md", "config.json", "example.csv", "example.py", "model.onnx", "predictor.py"}
    card = hub.ModelCard.load(tmp_path / "model" / "README.md")
    assert card.data.library_name == "onnx"
    assert "klinikum" not in card.content
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], cwd=exported.path, env=outside(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"prediction\s+p_no\s+p_yes", done.stdout)
    with pytest.raises(ExportError, match="exists"):
        ob.export(outcome, "huggingface", tmp_path / "model")


def test_an_mlflow_server_on_loopback_takes_raw_columns_and_returns_labels_and_probabilities(outcome, tmp_path) -> None:
    pytest.importorskip("mlflow")
    exported = ob.export(outcome, "mlflow", tmp_path / "model")
    assert "1,000 rows drawn from the schema: probabilities differ by at most" in exported.checked
    assert "in MLflow" in exported.checked
    assert "predictor" not in sys.modules
    about = (exported.path / "MLmodel").read_text("utf-8")
    assert "signature" in about
    assert "input_example" in about
    assert any(column.missing for column in outcome.schema.columns), "so the rows to check have missing values"
    for name in ("input_example.json", "serving_input_example.json"):
        json.loads((exported.path / name).read_text("utf-8"), parse_constant=refuse_constant)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", exported.path, "--env-manager", "local"]
    log = (tmp_path / "log").open("w")
    environment = outside() | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    server = subprocess.Popen(
        [*command, "-h", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log, env=environment, cwd=tmp_path
    )
    try:
        frame = rows(5, seed=3).drop(columns="ill")
        sent = json.loads(frame.to_json(orient="split", date_format="iso", index=False))
        found = pd.DataFrame(ask(port, {"dataframe_split": sent}, server, tmp_path / "log")["predictions"])
    finally:
        server.terminate()
        server.wait(20)
        log.close()
    assert found["prediction"].tolist() == outcome.model.predict(frame).tolist()
    assert np.allclose(found[["p_no", "p_yes"]], outcome.model.predict_proba(frame), atol=1e-5)


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def ask(port: int, question: Any, server: subprocess.Popen[Any], log: Path) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/invocations", json.dumps(question).encode(), {"Content-Type": "application/json"}
    )
    end = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()[-2000:]) from None
        except OSError:
            assert server.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < end, log.read_text()[-2000:]
            time.sleep(0.5)


def test_hashed_text_is_served_by_oneballot_itself_and_refused_for_hugging_face(tmp_path) -> None:
    mlflow = pytest.importorskip("mlflow")
    words = ["pain and fever", "no pain", "well again", "fever"] * 40
    frame = pd.DataFrame({"note": words, "ill": np.where(np.array(words) == "well again", "no", "yes")})
    schema = ob.Schema.model_validate({"label": "ill", "columns": [{"kind": "text", "name": "note", "features": 32}]})
    final = {"final": ob.Sklearn("LogisticRegression")}
    election = ob.Election(["no", "yes"], public=frame[["note"]], schema=schema, method=ob.FedKT(), learners=final)
    outcome = simulate_parties(election, {"a": election.data(frame[:80]), "b": election.data(frame[80:])}).outcome
    with pytest.raises(ExportError, match=r"neither ONNX .* nor a scikit-learn Pipeline"):
        ob.export(outcome, "huggingface", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    exported = ob.export(outcome, "mlflow", tmp_path / "model")
    assert "needs OneBallot" in exported.lost[0]
    assert "in MLflow" in exported.checked
    found = mlflow.pyfunc.load_model(str(exported.path)).predict(frame[["note"]][:4])
    assert found["prediction"].tolist() == outcome.model.predict(frame[:4]).tolist()


@pytest.mark.parametrize("standalone", [True, False])
def test_an_mlflow_model_that_predicts_something_else_is_not_kept(outcome, standalone, tmp_path, monkeypatch) -> None:
    pytest.importorskip("mlflow")
    code = mlflow_export.STANDALONE if standalone else mlflow_export.OWN
    monkeypatch.setitem(code, "predict", code["predict"].replace("(model_input)", "(model_input[::-1])"))
    if not standalone:
        monkeypatch.setitem(sys.modules, "onnx", None)
        monkeypatch.setattr(bundle, "TRUSTED", ())
    with pytest.raises(ExportError, match="differs from the outcome on 1,000 rows"):
        ob.export(outcome, "mlflow", tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_predictor_trusts_a_fixed_list_that_neither_the_model_nor_its_config_extends(
    outcome, tmp_path, monkeypatch
) -> None:
    import skops.io

    functions = {
        f"numpy.{name}" for name in ("asarray", "asarray_chkfinite", "char.strip", "dot", "expand_dims", "reshape")
    }
    functions |= {"numpy.strings.strip", "pandas.to_datetime", "sklearn.utils._bunch.Bunch"}
    assert set(TRUSTED) - functions <= frozenset().union(*ALLOWED.values())
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "onnx", None)
        written = bundle.write_bundle(outcome, tmp_path, None)
    assert written.form == "sklearn"
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert "trusted_types" not in config
    (tmp_path / "config.json").write_text(json.dumps(config | {"trusted_types": ["os.system"]}), "utf-8")
    skops.io.dump({"run": os.system}, tmp_path / "model.skops")
    with pytest.raises(skops.io.exceptions.UntrustedTypesFoundException, match="system"):
        Predictor(tmp_path)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "onnx", None)
        without.setattr(bundle, "TRUSTED", ())
        with pytest.raises(MissingExtra, match=r"predictor\.py does not trust.*oneballot\[onnx\]"):
            bundle.write_bundle(outcome, tmp_path, None)


@pytest.mark.parametrize("to", ["mlflow", "huggingface"])
def test_classes_with_the_same_text_are_refused(to, outcome, tmp_path) -> None:
    alike = replace(outcome, classes=(1, "1"))
    with pytest.raises(ExportError, match="two classes are both written '1'"):
        ob.export(alike, to, tmp_path / "model")
