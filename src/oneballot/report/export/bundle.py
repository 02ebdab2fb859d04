"""A folder with a model, config.json and predictor.py: what the exports to MLflow and Hugging Face share."""

from __future__ import annotations

import importlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...election.columns import Tensor
from ...errors import ExportError, MissingExtra, OneBallotError
from ...runtime.files import PART
from ...server.outcome import Outcome
from .predictor import TRUSTED, Predictor
from .rows import example_rows, rows_to_check
from .sklearn.columns import pandas
from .sklearn.frames import frame_of
from .target import put_folder

TOLERANCE = 1e-5
REFUSED = "A row with a value that the schema refuses is an error."


@dataclass(frozen=True)
class Bundle:
    """What was written: the form of the model (onnx or sklearn), example rows, and what is lost."""

    form: str
    example: Any
    checked: str
    lost: tuple[str, ...]


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that gets this name if the block succeeds."""
    part = Path(tempfile.mkdtemp(dir=path.parent, prefix=PART))
    try:
        yield part
        part.chmod(0o755)
        put_folder(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_class_names(outcome: Outcome) -> None:
    """Raise ExportError if two classes have the same text, such as 1 and "1": they would share a column."""
    texts = [str(name) for name in outcome.classes]
    for text in texts:
        if texts.count(text) > 1:
            raise ExportError(
                f"two classes are both written {text!r}, so p_{text} would name two columns; rename one in the election"
            )


def write_bundle(outcome: Outcome, folder: Path, data: Any, *, trust_members: bool = False) -> Bundle:
    """Write the model as ONNX or, if that is impossible, as a scikit-learn Pipeline, and check it.

    Raises ExportError with both reasons if neither is possible, or MissingExtra if ONNX needs a library.
    """
    pandas()
    schema = outcome.schema
    if schema is not None and any(isinstance(column, Tensor) for column in schema.columns):
        raise ExportError("the schema has a column of arrays, which a table does not hold; use --to onnx")
    try:
        onnx = importlib.import_module(".onnx", __package__)
        written = onnx.export(outcome, folder / "model.onnx", data=data, trust_members=trust_members)
        form, lost = "onnx", tuple(REFUSED if each == onnx.REFUSED else each for each in written.lost)
    except (ExportError, MissingExtra) as error:
        _write_pipeline(outcome, folder / "model.skops", data, error)
        form, lost = "sklearn", (f"The model is a scikit-learn Pipeline, because it cannot be ONNX: {error}",)
    config = {
        "model_file": "model.onnx" if form == "onnx" else "model.skops",
        "classes": list(outcome.classes),
        "exclusive": outcome.target.exclusive,
        "columns": [] if schema is None else [{"name": c.name, "kind": c.kind} for c in schema.columns],
        "shape": list(outcome.model.features_),
        "dtype": str(outcome.model.row_dtype_ or "float32"),
        "election": outcome.election,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1, ensure_ascii=False), "utf-8")
    shutil.copyfile(Path(__file__).with_name("predictor.py"), folder / "predictor.py")
    rows = rows_to_check(outcome, data)
    frame, own = frame_of(outcome, rows), outcome.probabilities(rows.encoded)
    difference = float(np.abs(Predictor(folder).predict_proba(frame) - own).max())
    if not difference <= TOLERANCE:
        raise ExportError(
            f"the exported model's probabilities differ by {difference:.2g} on {rows.source}; report this"
        )
    checked = f"{rows.source}: probabilities differ by at most {difference:.1g} (limit {TOLERANCE:g})"
    return Bundle(form, frame_of(outcome, example_rows(outcome)), checked, lost)


def _write_pipeline(outcome: Outcome, path: Path, data: Any, why: OneBallotError) -> None:
    import skops.io

    from .sklearn import build

    try:
        pipeline = build(outcome, data, distilled=False).pipeline
        skops.io.dump(pipeline, path, compression=zipfile.ZIP_DEFLATED)
        if others := sorted(set(skops.io.get_untrusted_types(file=path)) - set(TRUSTED)):
            raise ExportError(f"the skops file would need {others[0]}, which predictor.py does not trust")
    except ExportError as error:
        if isinstance(why, MissingExtra):  # installing it may be all that is needed
            what = f"The model cannot be a scikit-learn Pipeline ({error}), and exporting it to ONNX"
            raise MissingExtra(what, why.args[1]) from None
        raise ExportError(f"the model can be neither ONNX ({why}) nor a scikit-learn Pipeline ({error})") from None
    if not hasattr(pipeline, "predict_proba"):
        raise ExportError(f"the model cannot be ONNX ({why}), and as a scikit-learn Pipeline it has no probabilities")
