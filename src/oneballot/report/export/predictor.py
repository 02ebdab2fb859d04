"""Predicts with an exported model. This file is copied beside the model and needs no OneBallot.

config.json names the model file, the classes, and the columns with their kinds.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

TRUSTED = (
    "numpy.asarray",
    "numpy.asarray_chkfinite",
    "numpy.char.strip",
    "numpy.dot",
    "numpy.dtype",
    "numpy.expand_dims",
    "numpy.reshape",
    "numpy.strings.strip",
    "pandas.to_datetime",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
)
"""What a skops file may hold beside the types that skops itself trusts: encoding functions, and trees. The list is
fixed here, so that a changed model file or config.json cannot extend it."""


class Predictor:
    """A model in ONNX or as a skops file. `predict` takes a DataFrame of raw columns, or an array without a schema."""

    def __init__(self, folder: Any) -> None:
        folder = Path(folder)
        self.config = json.loads((folder / "config.json").read_text("utf-8"))
        path = folder / self.config["model_file"]
        if path.suffix == ".onnx":
            import onnxruntime

            self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            self.predict_proba = self._onnx
        else:
            import skops.io

            self.pipeline = skops.io.load(path, trusted=list(TRUSTED))
            self.predict_proba = self._sklearn

    def predict(self, rows: Any) -> Any:
        """A DataFrame: the label in `prediction`, and the probability of each class in `p_CLASS`."""
        import pandas as pd

        classes, chances = self.config["classes"], self.predict_proba(rows)
        if self.config["exclusive"]:
            labels = [classes[i] for i in chances.argmax(axis=1)]
        else:
            labels = [";".join(str(c) for c, p in zip(classes, row, strict=True) if p >= 0.5) for row in chances]
        out = {"prediction": labels, **{f"p_{name}": chances[:, i] for i, name in enumerate(classes)}}
        return pd.DataFrame(out)

    def _sklearn(self, rows: Any) -> Any:
        if self.config["columns"]:
            rows = rows.copy()
            for column in self.config["columns"]:
                if column["kind"] == "date":
                    rows[column["name"]] = [iso(value) or None for value in rows[column["name"]]]
        found = self.pipeline.predict_proba(rows)
        out = np.zeros((len(found), len(self.config["classes"])))
        for i, name in enumerate(self.pipeline.classes_.tolist()):
            out[:, self.config["classes"].index(name)] = found[:, i]
        return out

    def _onnx(self, rows: Any) -> Any:
        """Rows that the schema refuses raise ValueError."""
        columns = self.config["columns"]
        if columns:
            inputs = {column["name"]: values(rows[column["name"]], column["kind"]) for column in columns}
        else:
            inputs = {"X": np.ascontiguousarray(rows, dtype=self.config["dtype"]).reshape(-1, *self.config["shape"])}
        name = self.session.get_outputs()[1].name
        (chances,) = self.session.run([name], inputs)
        refused = np.flatnonzero(np.isnan(chances).any(axis=1))
        if len(refused):
            raise ValueError(
                f"row {refused[0] + 1} has a value that the schema refuses: missing, unknown or out of range"
            )
        return np.asarray(chances, dtype=np.float64)


def values(column: Any, kind: str) -> Any:
    """A column as the ONNX graph takes it."""
    if kind == "number":
        return np.array([number(value) for value in column], dtype=np.float64)
    return np.array([iso(value) if kind == "date" else text(value) for value in column], dtype=object)


def number(value: Any) -> float:
    try:
        return float(text(value))
    except ValueError:
        return float("nan")


def text(value: Any) -> str:
    """1, 1.0 and " 1" are all "1"; missing values are empty; booleans are "true" and "false"."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else str(float(value))
    return str(value).strip()


def iso(value: Any) -> str:
    """A date, or its ISO text, without fractions of a second."""
    found = re.sub(r"(T\d\d:\d\d(:\d\d)?)(\.\d+)?Z?$", r"\1", text(value).replace(" ", "T"))
    return found.removesuffix("T00:00:00")
