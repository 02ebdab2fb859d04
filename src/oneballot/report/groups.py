"""Metrics of the rows of each group: a party, or a value of any column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ..election.cells import MISSING, as_text
from ..election.targets import Target
from ..errors import DataError
from ..runtime.progress import report_progress_to, track
from ..types import Array
from .bootstrap import RESAMPLES
from .metrics import Metrics, evaluate

MOST_GROUPS = 20
FEW_ROWS = 10
QUANTILES = 4
FEW_NUMBERS = 10
"""A column of numbers with more distinct values is divided at its quartiles."""
MISSING_NAME, OTHER_NAME = "(missing)", "(other)"


@dataclass(frozen=True)
class Group:
    """The rows of one group, and the model's metrics on them."""

    name: str
    metrics: Metrics

    @property
    def rows(self) -> int:
        return self.metrics.rows

    @property
    def small(self) -> bool:
        """Fewer than 10 rows: the metrics say little."""
        return self.rows < FEW_ROWS


@dataclass(frozen=True)
class Groups:
    """The metrics of each value of a column, and of all rows. Numbers are divided at quartiles if they are many."""

    column: str
    groups: Sequence[Group]
    whole: Metrics = field(repr=False)


def evaluate_by(
    target: Target,
    predictions: Array,
    y: Array,
    values: Array,
    column: str,
    *,
    most: int = MOST_GROUPS,
    resamples: int = RESAMPLES,
    whole: Metrics | None = None,
) -> Groups:
    """The metrics of the rows of each value of a column, such as each site.

    values `(rows,)`: the column's cells. Numbers of more than 10 distinct values are divided at their quartiles.
    Missing values are a group. Of more than `most` values, the rarer ones are one group, "(other)". whole: the metrics
    of all rows, if they are known already.
    """
    names, which = group(values, most)
    found = []
    for i, name in track(f"metrics by {column}", enumerate(names), len(names)):
        rows = which == i
        with report_progress_to(None):
            found.append(Group(name, evaluate(target, predictions[rows], y[rows], resamples=resamples)))
    if whole is None:
        whole = evaluate(target, predictions, y, resamples=resamples)
    return Groups(column, found, whole)


def group(values: Array, most: int = MOST_GROUPS) -> tuple[list[str], Array]:
    """The names of the groups, and the number of each row's group `(rows,)`."""
    if values.ndim != 1:
        raise DataError(f"a column of shape {values.shape[1:]} per row has no groups; use one with one value per row")
    text = np.array([as_text(v) for v in values.tolist()], dtype=object)
    missing = np.array([t.lower() in MISSING for t in text], dtype=bool)
    numbers = _numbers(text[~missing])
    if numbers is None:
        names, which = _values(text, missing, most)
    else:
        names, inside = _bins(numbers)
        which = np.full(len(text), len(names))
        which[~missing] = inside
    if missing.any():
        which[missing] = len(names)
        names = [*names, MISSING_NAME]
    return names, which


def _numbers(text: Array) -> Array | None:
    """The values as numbers if all are, and there are many."""
    distinct = set(text.tolist())
    if len(distinct) <= FEW_NUMBERS:
        return None
    try:
        number = {t: float(t) for t in distinct}
    except ValueError:
        return None
    return np.array([number[t] for t in text.tolist()])


def _bins(numbers: Array) -> tuple[list[str], Array]:
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, QUANTILES + 1)))
    which = np.minimum(np.searchsorted(edges, numbers, side="right") - 1, max(len(edges) - 2, 0))
    names = [
        f"{low:g} to {'' if i == len(edges) - 2 else 'below '}{high:g}" for i, (low, high) in enumerate(pairwise(edges))
    ]
    return names, which


def _values(text: Array, missing: Array, most: int) -> tuple[list[str], Array]:
    count = Counter(text[~missing].tolist())
    kept = [name for name, _ in count.most_common(most if len(count) <= most else most - 1)]
    ordered = sorted(kept, key=_natural)
    number = {name: i for i, name in enumerate(ordered)}
    names = ordered + ([OTHER_NAME] if len(count) > len(kept) else [])
    return names, np.array([number.get(t, len(ordered)) for t in text.tolist()], dtype=np.int64)


def _natural(name: str) -> tuple[bool, float, str]:
    """Numbers before text, in their order."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name
