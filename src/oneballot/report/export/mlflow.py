"""Export to an MLflow model: raw columns in, labels and probabilities out, with a signature and an input example.

The model is ONNX or a scikit-learn Pipeline with predictor.py; if neither is possible, OneBallot itself predicts.
"""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ...election.columns import Date
from ...errors import ExportError, MissingExtra, OneBallotError, OneBallotWarning, printable
from ...server.outcome import Outcome
from . import Exported
from .bundle import TOLERANCE, check_class_names, new_folder, write_bundle
from .rows import Rows, example_rows, rows_to_check
from .sklearn.columns import pandas
from .sklearn.frames import frame_of

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
CODE = """import importlib.util
from pathlib import Path

import mlflow


class Model(mlflow.pyfunc.PythonModel):
    def load_context(self, context):
        {load}

    def predict(self, context, model_input, params=None):
        return {predict}


mlflow.models.set_model(Model())
"""
STANDALONE = {
    "load": """folder = Path(context.artifacts["bundle"])
        spec = importlib.util.spec_from_file_location("predictor", folder / "predictor.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.predictor = module.Predictor(folder)""",
    "predict": "self.predictor.predict(model_input)",
}
OWN = {
    "load": """from oneballot import Outcome

        self.outcome = Outcome.load(context.artifacts["bundle"])""",
    "predict": """_table(self.outcome, self.outcome.model.predict_proba(model_input))


def _table(outcome, chances):
    import pandas as pd

    names = outcome.model.output_names_.tolist()
    labels = [names[i] for i in chances.argmax(axis=1)]
    return pd.DataFrame({"prediction": labels, **{f"p_{name}": chances[:, i] for i, name in enumerate(names)}})""",
}


def export(outcome: Outcome, path: Path, *, data: Any = None, trust_members: bool = False) -> Exported:
    """Write an MLflow model, which `mlflow models serve` can serve. Nothing is sent anywhere."""
    with _quiet():
        import mlflow.pyfunc

        pandas()
        check_class_names(outcome)
        with tempfile.TemporaryDirectory() as place, new_folder(path) as folder:
            bundle = Path(place) / "bundle"
            bundle.mkdir()
            try:
                written = write_bundle(outcome, bundle, data, trust_members=trust_members)
                code, example, lost, form = STANDALONE, written.example, written.lost, written.form
            except (ExportError, MissingExtra) as error:
                code, example, lost, form = _own(outcome, bundle, error)
            (Path(place) / "model.py").write_text(CODE.format(**code), "utf-8")
            rows = rows_to_check(outcome, data)
            frame = frame_of(outcome, rows)
            predicted = outcome.model.predict_proba(example) if form == "oneballot" else None
            output = _output(outcome, example, bundle, predicted)
            mlflow.pyfunc.save_model(
                str(folder / "model"),
                python_model=str(Path(place) / "model.py"),
                artifacts={"bundle": str(bundle)},
                signature=_signature(outcome, frame, output),
                input_example=example,
                pip_requirements=_requirements(form),
            )
            checked = _check(outcome, folder / "model", rows, frame)
            for each in list((folder / "model").iterdir()):
                os.replace(each, folder / each.name)
            (folder / "model").rmdir()
            names = sorted(file.name for file in folder.iterdir())
    return Exported(path, tuple(path / name for name in names), checked, lost)


def _own(outcome: Outcome, bundle: Path, error: OneBallotError) -> tuple[dict[str, str], Any, Any, str]:
    """The published part of the outcome, which OneBallot predicts with."""
    if not outcome.target.exclusive or outcome.schema is None:
        raise error
    outcome.published(rows=True).save(bundle)
    lost = (f"The model needs OneBallot to predict, because {error}.",)
    return OWN, frame_of(outcome, example_rows(outcome)), lost, "oneballot"


def _check(outcome: Outcome, folder: Path, rows: Rows, frame: Any) -> str:
    """Raise ExportError unless the saved model, as MLflow loads it, predicts what the outcome predicts."""
    import mlflow.pyfunc

    own = outcome.probabilities(rows.encoded)
    try:
        found = mlflow.pyfunc.load_model(str(folder)).predict(frame)
        difference = float(np.abs(found[[f"p_{name}" for name in outcome.classes]].to_numpy() - own).max())
    except Exception as error:  # MLflow, and the model in it, may raise anything
        raise ExportError(f"MLflow cannot predict {rows.source} with the model: {printable(error, 300)}") from None
    wrong = not difference <= TOLERANCE
    if outcome.target.exclusive:
        codes = [outcome.classes.index(name) for name in found["prediction"].tolist()]
        wrong = wrong or bool((own.max(axis=1) - own[np.arange(len(own)), codes] > TOLERANCE).any())
    if wrong:
        raise ExportError(
            f"the MLflow model differs from the outcome on {rows.source}: probabilities differ by up to "
            f"{difference:.2g}. Nothing was written; please report this"
        )
    return f"{rows.source}: probabilities differ by at most {difference:.1g} (limit {TOLERANCE:g}) in MLflow"


def _output(outcome: Outcome, example: Any, bundle: Path, predicted: Any) -> Any:
    """What the model returns for the example."""
    from .predictor import Predictor

    if predicted is None:
        return Predictor(bundle).predict(example)
    names = outcome.model.output_names_.tolist()
    labels = [names[i] for i in predicted.argmax(axis=1)]
    columns = {f"p_{name}": predicted[:, i] for i, name in enumerate(names)}
    return pandas().DataFrame({"prediction": labels, **columns})


def _signature(outcome: Outcome, frame: Any, output: Any) -> Any:
    """What goes in and comes out. Dates may be of any type: MLflow would refuse their text as `datetime`."""
    from mlflow.models import ModelSignature, infer_signature
    from mlflow.types.schema import AnyType, ColSpec, Schema

    found = infer_signature(frame, output)
    dates = {c.name for c in outcome.schema.columns if isinstance(c, Date)} if outcome.schema is not None else set()
    if not dates:
        return found
    anything: Any = AnyType  # without type hints
    inputs = [ColSpec(anything(), each.name, False) if each.name in dates else each for each in found.inputs.inputs]
    return ModelSignature(Schema(inputs), found.outputs)


def _requirements(form: str) -> list[str]:
    needed = {
        "onnx": ("mlflow", "numpy", "pandas", "onnxruntime"),
        "sklearn": ("mlflow", "numpy", "pandas", "scikit-learn", "skops"),
        "oneballot": ("mlflow", "pandas", "oneballot"),
    }[form]
    return [f"{name}=={version(name)}" for name in needed]


@contextmanager
def _quiet() -> Iterator[None]:
    """Switch MLflow's telemetry, log, progress bars and warnings off while it is used. MissingExtra without MLflow."""
    before = {name: os.environ.get(name) for name in QUIET}
    os.environ.update(QUIET)
    log, caught = logging.getLogger("mlflow"), list[warnings.WarningMessage]()
    level = log.level
    try:
        with warnings.catch_warnings(record=True) as caught:
            try:
                import mlflow.pyfunc  # noqa: F401
            except ImportError:
                raise MissingExtra("Exporting to MLflow", "mlflow") from None
            level = log.level  # which the import sets
            log.setLevel(logging.CRITICAL)
            yield
    finally:
        log.setLevel(level)
        for each in caught:
            if issubclass(each.category, OneBallotWarning):
                warnings.warn(each.message, stacklevel=3)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
