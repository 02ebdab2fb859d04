"""The learner of an audit: a model repeats what one row of its training data says, the worst case for privacy.

The guarantee holds for any learner and any data. A row of the audit carries a priority, the number of a pattern, and a
bit. A model follows its row of the highest priority: for each public row it predicts class 0 or 1, as the pattern says
if the bit is 1, and the opposite if it is 0. Patterns are random, so that each canary has its own signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ..interfaces import Learner, Models
from ..learners._training import TrainedModels
from ..types import Array, Data, Task

FEATURES = 5
MARK, PRIORITY, PATTERN, BIT, NONCE = range(FEATURES)
"""The features of a row. Marked rows are the audit's, others are public. A nonce makes rows differ."""
CERTAIN = 1000.0
"""A score whose softmax is exactly 1."""


@dataclass(frozen=True)
class Mimic(Learner):
    """public: the number of public rows (`public_set`), the only ones that a model is asked about."""

    name: ClassVar[str] = "mimic"
    targets: ClassVar[frozenset[str]] = frozenset({"classes", "labels"})
    provides: ClassVar[frozenset[str]] = frozenset(
        {"probabilities", "scores", "weights", "gradients", "soft", "score targets"}
    )
    public: int = 0

    def fit_many(self, X: Any, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        return TrainedModels([None] * len(tasks), [self._predict(np.asarray(X), task, classes) for task in tasks])

    def _predict(self, X: Array, task: Task, classes: int) -> Array:
        asked = np.empty(0, np.int64) if task.ask is None else np.asarray(task.ask)
        rows = X[task.rows]
        own = rows[rows[:, MARK] > 0]
        labels = np.zeros(len(asked), np.int64)
        if len(own):
            row = own[own[:, PRIORITY].argmax()]
            places = X[asked, NONCE].astype(np.int64)
            labels = pattern(int(row[PATTERN]), self.public)[places] ^ (row[BIT] == 0)
        sure = CERTAIN if task.answer == "scores" else 1.0
        return np.asarray(sure * np.eye(classes)[labels])


@lru_cache(maxsize=4096)
def pattern(number: int, public: int) -> Array:
    """Class 0 or 1 for each public row, int64 `(public,)`."""
    return np.random.default_rng(number).integers(2, size=public)


def public_set(rows: int) -> Array:
    """Public rows, each with its number as nonce."""
    public = np.zeros((rows, FEATURES), dtype=np.float32)
    public[:, NONCE] = np.arange(rows)
    return public


def rows_of(made: Sequence[tuple[int, int, int, int]], names: Sequence[str]) -> Data:
    """Rows with this priority, pattern, bit and nonce, of class 0, with these IDs."""
    X = np.ones((len(made), FEATURES), dtype=np.float32)
    X[:, 1:] = np.reshape(made, (-1, FEATURES - 1))
    return Data(X, np.zeros(len(made), dtype=np.int64), np.array(names, dtype=object))
