"""The base class of targets: what an election predicts, from a party's column to the metrics of the final model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...errors import ElectionError
from ...interfaces import Plugin
from ...types import Array, Class, Output, TaskKind
from ..cells import Place

Better = Literal["higher", "lower"]
Scorer = Callable[[Array], Mapping[str, Array]]
"""Each metric for each column of weights `(rows, columns)`. A metric without a definition is NaN."""


class OneVsRest(NamedTuple):
    """One class against the rest. rows: the numbers of the rows whose label is known. true, score: of these rows."""

    name: str
    rows: Array
    true: Array
    score: Array


@dataclass(frozen=True)
class Target(Plugin):
    """What is predicted: a frozen dataclass. `y` is what `encode` returns, one entry per row.

    name: its name in an election. kind: what methods, learners and peers list in their `targets`; a target that is
    encoded like another, and may be learned in the same way, has the other's kind. levels: the privacy levels at which
    it may be predicted. phrase: what it is, for errors. task: the kind of the tasks that learn y. output: how a model
    turns scores into predictions. exclusive: whether each row has exactly one of the classes. estimator: what the final
    model is to scikit-learn. metrics: the metrics of `scorer` and `summarize` with the names that are printed, the most
    important first. columns: those shown in tables of several models, with their headings. compared: the metrics by
    which one of several models is chosen, the most important first, and whether a higher or a lower value is better;
    those that are not in `metrics` are ignored. row_metric: what the mean of `row_scores` is called.
    """

    kind: ClassVar[str]
    levels: ClassVar[frozenset[str]] = frozenset({"L0", "L1", "L2"})
    phrase: ClassVar[str]
    task: ClassVar[TaskKind]
    output: ClassVar[Output] = "softmax"
    exclusive: ClassVar[bool] = False
    estimator: ClassVar[Literal["classifier", "regressor"]] = "classifier"
    metrics: ClassVar[Mapping[str, str]]
    columns: ClassVar[Mapping[str, str]]
    compared: ClassVar[Mapping[str, Better]] = {}
    row_metric: ClassVar[str] = "score"

    classes: Sequence[Class] = ()
    """The names of a learner's outputs, in their order. An election fills in its own."""

    def __post_init__(self) -> None:
        plain = tuple(c.item() if isinstance(c, np.generic) else c for c in self.classes)
        object.__setattr__(self, "classes", plain)

    def describe(self) -> dict[str, Any]:
        """The settings, without the classes, which the election has."""
        return {name: value for name, value in super().describe().items() if name != "classes"}

    def check(self, label: str | tuple[str, ...] | None) -> None:
        """Raise ElectionError if the classes, or the schema's label columns, do not suit. None: there is no schema."""
        if isinstance(label, tuple):
            raise ElectionError(f"target {self.name!r} needs a schema with one label column, not {', '.join(label)}")

    def unlabelled(self, values: Array) -> Array:
        """Whether each row has no label, `(rows,)`. Such rows are left out before `encode`."""
        return np.zeros(len(values), dtype=bool)

    def encode(self, values: Any, place: Place) -> Array:
        """The label column as y; the columns `(rows, columns)` if there are several. Raises DataError."""
        raise NotImplementedError

    def class_counts(self, y: Array) -> Array:
        """The number of rows of each class, `(classes,)`; empty if the outputs are not classes."""
        return np.zeros(0, dtype=np.int64)

    def known(self, y: Array) -> Array:
        """Whether each label is known: `(rows, …)`."""
        return np.ones(len(y), dtype=bool)

    def groups(self, y: Array) -> Array:
        """A number for each row, by which a simulation divides rows among parties."""
        return np.zeros(len(y), dtype=np.int64)

    def strata(self, y: Array) -> Array:
        """A number for each row; rows with the same number are spread evenly over folds and test rows."""
        return self.groups(y)

    def order(self) -> Array:
        """The order of the outputs in the final model's `predict_proba` and `classes_`."""
        return np.arange(len(self.classes))

    def decide(self, predictions: Array, names: Array) -> Array:
        """What the final model's `predict` returns. predictions `(rows, outputs)`; names: of the outputs."""
        raise NotImplementedError

    def decode(self, predictions: Array) -> list[Any]:
        """The prediction of each row as `oneballot predict` writes it."""
        raise NotImplementedError

    def shares(self, predictions: Array) -> Array | None:
        """The share of rows that each class is predicted for, `(classes,)`; None if a verdict has nothing to say."""
        return None

    def scorer(self, predictions: Array, y: Array) -> Scorer:
        """The metrics as functions of weights of the rows, for bootstrap intervals."""
        raise NotImplementedError

    def row_scores(self, predictions: Array, y: Array) -> Array:
        """A score of each row's prediction, 1 at best; two models are compared by their mean."""
        raise NotImplementedError

    def accuracy(self, predictions: Array, y: Array) -> float:
        """One number for a model, 1 at best."""
        return float(self.row_scores(predictions, y).mean())

    def judged(self) -> Mapping[str, Better]:
        """The metrics by which models are compared, the most important first; `row_metric` if there are no others."""
        return {name: better for name, better in self.compared.items() if name in self.metrics} or {
            self.row_metric: "higher"
        }

    def summarize(self, predictions: Array, y: Array) -> dict[str, float]:
        """All metrics, by the names in `metrics`."""
        scored = self.scorer(predictions, y)(np.ones((len(y), 1)))
        return {name: float(values[0]) for name, values in scored.items()}

    def by_class(self, predictions: Array, y: Array) -> list[dict[str, Any]]:
        """The metrics of each class, if the outputs are classes."""
        return []

    def one_vs_rest(self, predictions: Array, y: Array) -> list[OneVsRest]:
        """The classes that curves are drawn of: all, or the rarer one of two; none if the outputs are not classes."""
        return []

    def confidence(self, predictions: Array, y: Array) -> tuple[Array, Array]:
        """The probabilities that calibration is measured of, and whether each came true; empty without classes.

        Of two classes that of the class in `one_vs_rest`, of several that of the predicted class, and with several
        labels per row that of every known label.
        """
        return np.zeros(0), np.zeros(0, dtype=bool)

    def correct(self, predictions: Array, y: Array) -> tuple[Array, Array]:
        """Two arrays `(rows, classes)`: whether the label is known, and whether it was predicted correctly."""
        return np.zeros((len(y), 0), dtype=bool), np.zeros((len(y), 0), dtype=bool)

    def confusion(self, predictions: Array, y: Array) -> Array | None:
        """The confusion matrix, if there is one."""
        return None
