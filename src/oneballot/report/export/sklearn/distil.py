"""One scikit-learn model in place of a model that scikit-learn does not have, such as an ensemble of the parties'.

The student learns the outcome's probabilities on rows that the user gives (public rows; labels are not used) and on
rows drawn from the schema. How often it agrees with the outcome is measured on rows that it has not learned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....data.frames import as_table
from ....errors import ExportError
from ....runtime.progress import track
from ....server.outcome import Outcome
from ....sparse import as_dense
from ....types import Array
from ..rows import rows_to_check
from .estimators import as_names

DRAWN, HELD_OUT, LEAST_GIVEN, AT_ONCE = 10_000, 2_000, 60, 2_000
LEAST_AGREEMENT, WORTH_ACCEPTING = 0.95, 0.8
"""The default of --least-agreement, and the least that an error suggests for it."""
MOST_WEIGHTED, FEW_FEATURES = 40_000, 20
"""The most weighted rows, and the most features of which every split looks at all: both bound the time."""


@dataclass(frozen=True)
class Distilled:
    """A student, and how often it agrees with the outcome on held-out rows, which `where` describes."""

    estimator: Any
    agreement: float
    where: str

    def describe(self) -> str:
        return f"it agrees with the outcome's own model on {100 * self.agreement:.1f} % of {self.where}"


def distil(outcome: Outcome, data: Any) -> Distilled:
    """Train a student of the outcome's model. Raises ExportError for targets with several labels per row."""
    if not outcome.target.exclusive:
        raise ExportError("a model of several labels per row is not distilled; use --to onnx")
    learned, held, where = _rows(outcome, data)
    shape, dtype, names = outcome.model.features_, outcome.model.row_dtype_ or np.float32, as_names(outcome.classes)
    starts = range(0, len(learned), AT_ONCE)
    blocks = [
        outcome.probabilities(learned[i : i + AT_ONCE].reshape(-1, *shape).astype(dtype))
        for i in track("asking the model", starts, len(starts))
    ]
    estimator = _student(learned, np.concatenate(blocks), names)
    own = names[outcome.probabilities(held.reshape(-1, *shape).astype(dtype)).argmax(axis=1)]
    return Distilled(estimator, float((estimator.predict(held) == own).mean()), where)


def _rows(outcome: Outcome, data: Any) -> tuple[Array, Array, str]:
    """Encoded rows to learn from, and held-out ones: of the given rows if there are enough, else drawn."""
    drawn = _flat(rows_to_check(outcome, None, DRAWN + HELD_OUT, seed=1).encoded)
    given = None if data is None else _given(outcome, data)
    if given is None or len(given) < LEAST_GIVEN:
        few = "" if given is None else f" (the file has only {len(given)})"
        return drawn[HELD_OUT:], drawn[:HELD_OUT], f"{HELD_OUT:,} held-out rows drawn from the schema{few}"
    order = np.random.default_rng(0).permutation(len(given))
    out = min(HELD_OUT, len(given) // 3)
    learned = given[order[out:]]
    repeats = max(1, DRAWN // len(learned))  # given rows count as much as drawn ones
    whole = np.concatenate([np.repeat(learned, repeats, axis=0), drawn])
    return whole, given[order[:out]], f"{out:,} held-out rows of the given data"


def _given(outcome: Outcome, data: Any) -> Array:
    schema = outcome.schema
    if schema is None:
        return _flat(np.asarray(data, dtype=np.float32))
    table = schema.read(data) if isinstance(data, str | Path) else as_table(data, "the rows")
    return _flat(schema.encode(table.columns, table.source, report=False))


def _flat(rows: Array) -> Array:
    dense = as_dense(rows, "the rows to learn from")
    return dense.reshape(len(dense), -1).astype(np.float32)


def _student(rows: Array, targets: Array, names: Array) -> Any:
    """Soft labels are learned as weighted rows: one for each class that has a probability."""
    from sklearn.ensemble import RandomForestClassifier

    at, classes = np.nonzero(targets > 1e-3)
    if len(at) > MOST_WEIGHTED:
        kept = np.sort(np.random.default_rng(0).choice(len(at), MOST_WEIGHTED, replace=False))
        at, classes = at[kept], classes[kept]
    split = None if rows.shape[1] <= FEW_FEATURES else "sqrt"  # all features are better, but slow
    student = RandomForestClassifier(100, max_leaf_nodes=1000, max_features=split, random_state=0, n_jobs=-1)
    student.fit(rows[at], names[classes], sample_weight=targets[at, classes])
    return student.set_params(n_jobs=None)
