"""Export to scikit-learn: a Pipeline from the raw columns of a DataFrame to classes, which needs no OneBallot.

`columns` expresses the schema, `estimators` and `trees` the model; `distil` trains one model in place of an ensemble.
"""

from __future__ import annotations

import math
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....election.columns import Category, Date, Number
from ....election.schema import Schema
from ....errors import ExportError, OneBallotWarning
from ....runtime.files import PART
from ....server.outcome import Outcome
from ....types import Array
from .. import SKOPS_OR_PICKLE, Exported
from ..rows import Rows, rows_to_check
from .columns import encoder, pandas
from .distil import LEAST_AGREEMENT, WORTH_ACCEPTING, Distilled, distil
from .estimators import as_names, native
from .frames import frame_of

TOLERANCE = 1e-5
LOST = (
    "Numbers must be numbers, and dates of a date type or ISO text: only OneBallot reads other spellings.",
    "The ballots, the ledger, the verdict and the names of the parties stay in the outcome.",
)


@dataclass(frozen=True)
class Built:
    """A Pipeline, what its predictions were compared with, and what it lacks."""

    pipeline: Any
    checked: str
    lost: tuple[str, ...]


def export(outcome: Outcome, path: Path, *, data: Any = None, least_agreement: float = LEAST_AGREEMENT) -> Exported:
    """Write the outcome as a Pipeline: as a skops file, or as a pickle if the name ends in .joblib or .pkl."""
    built = build(outcome, data, least_agreement=least_agreement)
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=PART)
    os.close(handle)
    try:
        lost = built.lost + _write(built.pipeline, Path(part), path)
        os.chmod(part, 0o644)
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)
    return Exported(path, (path,), built.checked, lost)


def build(
    outcome: Outcome, data: Any = None, *, least_agreement: float = LEAST_AGREEMENT, distilled: bool = True
) -> Built:
    """The outcome as a Pipeline, if it predicts what the outcome predicts.

    A model that scikit-learn does not have is distilled, unless `distilled` is False. Raises ExportError if the student
    agrees with it on a smaller share of held-out rows than `least_agreement`.
    """
    from sklearn.pipeline import Pipeline

    pandas()
    model, classes = outcome.model, outcome.classes
    if not model.features_:
        raise ExportError("the outcome does not say what shape a row has")
    if not outcome.target.exclusive:
        raise ExportError("scikit-learn has no Pipeline of several labels per row for this model; use --to onnx")
    steps = encoder(outcome.schema, model.features_)
    rows = rows_to_check(outcome, data)
    student, lost = None, _list_lost(outcome.schema)
    calibrated = model.temperature_ is not None  # scikit-learn has no estimator for a temperature
    estimator = None if calibrated else native(model.model_, classes, int(np.prod(model.features_)))
    if estimator is None:
        if not distilled:
            raise ExportError(f"scikit-learn has no {'calibrated ' * calibrated}{type(model.model_).__name__}")
        student = distil(outcome, data)
        estimator = student.estimator
        if student.agreement < least_agreement:
            raise ExportError(
                f"scikit-learn has no such model, so one forest was distilled from it, and {student.describe()}: below "
                f"{100 * least_agreement:g} %. {_advise(student, given=data is not None)}"
            )
        lost.insert(
            0,
            f"The model of the outcome, {_what(outcome)}, is replaced by one distilled from it: {student.describe()}.",
        )
    pipeline = Pipeline([*steps, ("model", estimator)])
    reference = outcome.probabilities if student is None else _probabilities(estimator, classes)
    checked = compare(pipeline, outcome, rows, reference)
    unseen = [str(name) for name in as_names(classes) if name not in estimator.classes_]
    if unseen:
        lost.insert(
            0, f"It never predicts {', '.join(unseen)}, and has no probability for it, as the model never does."
        )
    if not hasattr(pipeline, "predict_proba"):
        lost.insert(0, "It has no probabilities: its estimator predicts classes only.")
    return Built(pipeline, checked, tuple(lost))


def _advise(student: Distilled, *, given: bool) -> str:
    """What to do instead of writing this student. A forest that is often wrong is not suggested."""
    more = "More public" if given else "Public"
    if student.agreement < WORTH_ACCEPTING:
        return (
            "That is no substitute for the model: use `--to onnx`, which writes the model itself, exactly. "
            f"{more} rows (--data) may help"
        )
    lower = math.floor(100 * student.agreement) / 100
    return (
        f"`--to onnx` writes the model itself, exactly. {more} rows (--data) may help; to accept this forest, add "
        f"--least-agreement {lower:g}"
    )


def _list_lost(schema: Schema | None) -> list[str]:
    """What the outcome does with raw columns that a Pipeline does not."""
    columns = () if schema is None else schema.columns
    clipped = any(isinstance(column, Number | Date) and column.outside == "error" for column in columns)
    refused = any(isinstance(column, Number | Date | Category) and not column.missing for column in columns)
    values = "Values outside a range are clipped, although the schema refuses them." * clipped
    missing = "Missing values are refused in the columns whose schema refuses them." * refused
    return [text for text in (" ".join(filter(None, (values, missing))), *LOST) if text]


def _what(outcome: Outcome) -> str:
    what = "ensemble" if outcome.model.model_.sandboxed else type(outcome.model.model_).__name__
    return f"a calibrated {what}" if outcome.model.temperature_ is not None else f"the {what}"


def _probabilities(estimator: Any, classes: Any) -> Callable[[Array], Array]:
    """A student's probabilities of all classes for encoded rows."""
    places = [list(classes).index(name) for name in estimator.classes_.tolist()]

    def predict(X: Array) -> Array:
        out = np.zeros((len(X), len(classes)))
        out[:, places] = estimator.predict_proba(np.asarray(X, dtype=np.float32).reshape(len(X), -1))
        return out

    return predict


def compare(pipeline: Any, outcome: Outcome, rows: Rows, reference: Callable[[Array], Array]) -> str:
    """Raise ExportError unless the Pipeline predicts the same for raw rows as the model for encoded rows."""
    own, frame = reference(rows.encoded), frame_of(outcome, rows)
    predicted, worst = pipeline.predict(frame), 0.0
    names = as_names(outcome.classes).tolist()
    codes = np.array([names.index(name) for name in predicted.tolist()])
    lead = own.max(axis=1) - own[np.arange(len(own)), codes]
    if hasattr(pipeline, "predict_proba"):
        columns = [names.index(name) for name in pipeline.classes_.tolist()]
        worst = float(np.abs(own[:, columns] - pipeline.predict_proba(frame)).max())
    if lead.max() > TOLERANCE or not worst <= TOLERANCE:
        row = int(lead.argmax())
        raise ExportError(
            f"the exported model differs from the outcome on {rows.source}: row {row + 1} is {predicted[row]} instead "
            f"of {outcome.class_names(own[row : row + 1])[0]}, probabilities differ by up to {worst:.2g}. Nothing was "
            "written; please report this"
        )
    return f"{rows.source}: labels are equal, and probabilities differ by at most {worst:.1g} (limit {TOLERANCE:g})"


def _write(pipeline: Any, part: Path, path: Path) -> tuple[str, ...]:
    """Write the file. Returns what to know about loading it."""
    if path.suffix != SKOPS_OR_PICKLE[0]:
        import joblib

        warnings.warn(
            f"{path} is a pickle, which can run any code when it is loaded; load it only if you trust everyone who "
            "could have changed it. A .skops file has no such risk",
            OneBallotWarning,
            stacklevel=4,
        )
        joblib.dump(pipeline, part)
        return ("A pickle can run any code when it is loaded.",)
    import skops.io

    skops.io.dump(pipeline, part, compression=zipfile.ZIP_DEFLATED)
    trusted = skops.io.get_untrusted_types(file=part)
    skops.io.load(part, trusted=trusted)  # it can be read back
    return (f"skops asks you to trust {', '.join(trusted)}." if trusted else "skops trusts all of its types.",)
