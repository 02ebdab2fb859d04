"""Metrics of the rows of each group: a party, or a value of any column."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..election.targets import Target
from ..errors import WillNotWork
from ..runtime.progress import report_progress_to, track
from ..types import Array
from .baseline import Baseline, most_frequent
from .bootstrap import LEVEL, RESAMPLES
from .grouping import MOST_GROUPS, group
from .metrics import NAN, Metrics, evaluate, plain
from .text import FEW_ROWS, percent, plural, row_count

DRAWS = 10_000
"""Of a group's scores from all rows, to find what chance explains."""
LARGE_GAP = 0.1
"""A worst group that is so far below the other rows is pointed out, if chance does not explain it."""


@dataclass(frozen=True)
class Group:
    """The rows of one group, the model's metrics on them, and what always predicting their commonest class achieves.

    scores `(rows,)`: the score of each row's prediction, 1 at best (`Target.row_scores`).
    """

    name: str
    metrics: Metrics
    baseline: Baseline | None = field(repr=False)
    scores: Array = field(repr=False)

    @property
    def rows(self) -> int:
        return self.metrics.rows

    @property
    def small(self) -> bool:
        """Fewer than 10 rows: the metrics say little."""
        return self.rows < FEW_ROWS

    @property
    def score(self) -> float:
        """The mean score: for classes, the accuracy."""
        return float(self.scores.mean())

    def describe(self) -> dict[str, Any]:
        baseline = None if self.baseline is None else self.baseline.describe()
        return {"group": self.name, "small": self.small, **self.metrics.describe(), "baseline": baseline}


@dataclass(frozen=True)
class Groups:
    """The metrics of each value of a column, and of all rows (`whole`)."""

    column: str
    groups: Sequence[Group]
    whole: Metrics = field(repr=False)

    @property
    def stated_rows(self) -> list[str]:
        """The number of rows of each group for a page that may be passed on.

        Small ones are not stated, and then the others are rounded, because all of them and the total would reveal it.
        """
        exact = not any(group.small for group in self.groups)
        return [row_count(group.rows, exact=exact) for group in self.groups]

    @property
    def ranked(self) -> list[Group]:
        """From the worst to the best, without small groups."""
        return sorted((group for group in self.groups if not group.small), key=lambda group: group.score)

    @property
    def worst(self) -> Group | None:
        """None if all groups are small."""
        return next(iter(self.ranked), None)

    @property
    def best(self) -> Group | None:
        return next(reversed(self.ranked), None)

    @property
    def spread(self) -> float:
        """The difference between the best and the worst group; NaN if all groups are small."""
        scores = [group.score for group in self.ranked]
        return scores[-1] - scores[0] if scores else NAN

    @property
    def gap(self) -> tuple[float, float]:
        """How far the worst group is below the other rows, and the p-value of that.

        The p-value is one-sided and allows for as many comparisons as there are ranked groups (Bonferroni). NaN if
        fewer than two are ranked.
        """
        ranked = self.ranked
        if len(ranked) < 2:
            return NAN, NAN
        worst, every = ranked[0].scores, np.concatenate([group.scores for group in self.groups])
        rest = (every.sum() - worst.sum()) / (len(every) - len(worst))
        return float(rest - worst.mean()), min(1.0, len(ranked) * _chance_of_less(worst, every))

    @property
    def unbeaten(self) -> tuple[list[str], list[str]]:
        """Groups in which the model is no better than always predicting their commonest class.

        First those in which it is worse by more than chance explains, among as many groups, then the others. Small
        groups and those with rows of one class, in which nothing can be better, are left out.
        """
        tested = [(g.name, g.baseline) for g in self.groups if not g.small and g.baseline is not None]
        open_ = [(name, baseline) for name, baseline in tested if baseline.accuracy[1] < 1]
        low = {name: baseline.chance * len(open_) for name, baseline in open_ if baseline.difference <= 0}
        return [n for n, p in low.items() if p <= 1 - LEVEL], [n for n, p in low.items() if p > 1 - LEVEL]

    @property
    def uneven(self) -> bool:
        """Whether the worst group is far below the other rows, by more than chance explains."""
        gap, p = self.gap
        return gap >= LARGE_GAP and p <= 1 - LEVEL

    def sentences(self, *, exact: bool = True) -> list[str]:
        """The worst and the best group, and what to be careful about.

        exact: False for a page that may be passed on: rows are stated as in `stated_rows`, and a table says which
        groups are small.
        """
        few = [group.name for group in self.groups if group.small and exact]
        said = [worst] if (worst := self.worst_sentence(exact=exact)) else []
        if names := self.unbeaten[1]:
            text = "No better than always predicting the most frequent class of the group, which may be chance"
            said.append(f"{text}: {', '.join(names)}.")
        if few and not self.ranked:
            said.append(f"Every group has fewer than {FEW_ROWS} rows: their metrics say little, and none is the worst.")
        elif few:
            said.append(f"Fewer than {FEW_ROWS} rows, so their metrics say little: {', '.join(few)}.")
        return said

    def worst_sentence(self, *, exact: bool = True) -> str:
        """The worst group beside the other rows and the best one; empty if fewer than two are ranked."""
        ranked = self.ranked
        if len(ranked) < 2:
            return ""
        (gap, p), target = self.gap, self.whole.target
        name = target.metrics.get(target.row_metric, target.row_metric)
        chance = "more than chance explains" if p <= 1 - LEVEL else "within chance"
        worst, best = (f"{each.name}, {percent(each.score)}" for each in (ranked[0], ranked[-1]))
        stated = next(n for each, n in zip(self.groups, self.stated_rows, strict=True) if each is ranked[0])
        rows = plural(ranked[0].rows, "row") if exact else f"{stated} rows"
        return (
            f"Worst: {worst} on {rows}, {100 * gap:.1f} points below the other rows ({chance}). Best: {best}. "
            f"Spread: {100 * self.spread:.1f} points of {name}."
        )

    def useless_sentence(self) -> str:
        """The groups in which always predicting their commonest class is better, by more than chance explains."""
        if not (names := self.unbeaten[0]):
            return ""
        return (
            "the model is worse than always predicting the most frequent class of the group, by more than chance "
            f"explains, for {', '.join(names)}"
        )

    def warn_if_useless(self) -> None:
        """Warn of groups in which always predicting their commonest class is better, by more than chance explains."""
        if text := self.useless_sentence():
            warnings.warn(f"by {self.column}: {text}", WillNotWork, stacklevel=2)

    def describe(self) -> dict[str, Any]:
        """All metrics as plain values; None for those without a definition."""
        (gap, p), worst, best = self.gap, self.worst, self.best
        return {
            "column": self.column,
            "groups": [group.describe() for group in self.groups],
            "worst": worst and worst.name,
            "best": best and best.name,
            "spread": plain(self.spread),
            "worst_below_others": plain(gap),
            "p_value": plain(p),
        }


def _chance_of_less(scores: Array, every: Array) -> float:
    """How probable a sum as low as that of these scores is if their rows are drawn from all rows at random.

    Exact if scores are 0 or 1; else estimated with random draws of scores, rounded to a hundredth of their range.
    """
    from scipy.stats import hypergeom

    if np.isin(every, (0, 1)).all():
        return float(hypergeom.cdf(scores.sum(), len(every), every.sum(), len(scores)))
    low, high = every.min(), every.max()
    if low == high:
        return 1.0
    steps, ours = (np.rint(100 * (each - low) / (high - low)).astype(np.int64) for each in (every, scores))
    values, counts = np.unique(steps, return_counts=True)
    drawn = np.random.default_rng(0).multivariate_hypergeometric(counts, len(ours), DRAWS, method="marginals") @ values
    return float((1 + (drawn <= ours.sum()).sum()) / (1 + DRAWS))


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

    values `(rows,)`: the column's cells, divided by `grouping.group`. whole: the metrics of all rows, if they are known
    already.
    """
    names, which = group(values, most, column)
    found = []
    for i, name in track(f"metrics by {column}", enumerate(names), len(names)):
        rows = which == i
        with report_progress_to(None):
            metrics = evaluate(target, predictions[rows], y[rows], resamples=resamples)
        baseline = most_frequent(target, predictions[rows], y[rows])
        found.append(Group(name, metrics, baseline, target.row_scores(predictions[rows], y[rows])))
    if whole is None:
        whole = evaluate(target, predictions, y, resamples=resamples)
    return Groups(column, found, whole)
