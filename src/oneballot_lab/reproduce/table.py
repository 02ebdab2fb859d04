"""A table of a paper as data: rows of lines, each with its experiments and the printed figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .cells import Experiment, Failure, Result, cell_digest

Results = Mapping[str, Result | Failure]
"""By the cell's digest."""
Measure = Callable[[Sequence[Result]], "Measured"]
"""Computes a line's value for one seed from the results of its experiments."""
REDUCED = "Reduced: few parties and rows, short training, at most 3 rounds. Do not compare it with the paper."


@dataclass(frozen=True)
class Figure:
    """A printed figure, in the unit of its table. remark: what belongs to it, such as its epsilon."""

    value: float
    deviation: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Measured:
    """A line's value for one seed, and the bytes a party sent for it."""

    value: float
    bytes: float | None = None


def accuracy(results: Sequence[Result]) -> Measured:
    """The accuracy in percent, with the bytes per party."""
    (result,) = results
    return Measured(100 * result.values["accuracy"], result.values.get("bytes") or None)


def after(rounds: int) -> Measure:
    """The accuracy after this many rounds, or after the last one if there were fewer."""

    def measure(results: Sequence[Result]) -> Measured:
        curves = results[0].curves
        last = min(rounds, len(curves["accuracy"])) - 1
        return Measured(100 * curves["accuracy"][last], curves["bytes"][last] or None)

    return measure


def value(name: str) -> Measure:
    """Another value of the first experiment."""
    return lambda results: Measured(results[0].values[name], results[0].values.get("bytes") or None)


@dataclass(frozen=True)
class Line:
    """A line of a table. A line without experiments gives the reason as its remark.

    statistic: which statistic of its seeds the paper prints. extra_values: values printed as remarks.
    series, at: its series and position in the picture; bars have no series.
    substitute: what replaces the paper's setup. seeds: the maximum number of seeds, for slow experiments; ignored if
    the user asks for a number.
    """

    name: str
    experiments: tuple[Experiment, ...] = ()
    paper: Figure | None = None
    measure: Measure = accuracy
    statistic: Literal["mean", "best", "median"] = "mean"
    extra_values: tuple[str, ...] = ()
    remark: str = ""
    substitute: str = ""
    series: str = ""
    at: float | None = None
    seeds: int | None = None

    def seeds_of(self, table_seeds: int) -> int:
        return table_seeds if self.seeds is None else min(table_seeds, self.seeds)


@dataclass(frozen=True)
class Row:
    """Lines on one data set. group: the name of the data set, by which users select rows."""

    name: str
    group: str
    lines: tuple[Line, ...]
    substitute: str = ""


@dataclass(frozen=True)
class Picture:
    """plot: "lines" over the lines' `at`, "curves" over rounds, or "bars"."""

    plot: Literal["lines", "curves", "bars"]
    x_label: str = ""
    y_label: str = "accuracy, %"
    log: bool = False


@dataclass(frozen=True)
class Table:
    """name: paper and table, such as `fedkt/table1`. seeds: the default number of seeds.

    reduced_note: a note on its reduced version. lighter: reduces a reduced experiment further.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    seeds: int = 3
    unit: str = "%"
    digits: int = 1
    notes: tuple[str, ...] = ()
    picture: Picture | None = None
    reduced_note: str = ""
    lighter: Callable[[Experiment], Experiment] = lambda experiment: experiment

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]

    def select_groups(self, groups: Sequence[str]) -> Table:
        """The table with only the rows on these data sets; with all rows if none is named."""
        return replace(self, rows=tuple(row for row in self.rows if not groups or row.group in groups))

    def configure(self, *, seeds: int | None = None, quick: bool = False) -> Table:
        """The table as it is run: with this number of seeds, or reduced with one seed by default."""
        table = self.reduced() if quick else self
        seeds = seeds or (1 if quick else None)
        if seeds is None:
            return table
        rows = [replace(row, lines=tuple(replace(line, seeds=None) for line in row.lines)) for row in table.rows]
        return replace(table, rows=tuple(rows), seeds=seeds)

    def reduced(self) -> Table:
        """The table with every experiment reduced, for a laptop."""
        rows = []
        for row in self.rows:
            lines = []
            for line in row.lines:
                experiments = tuple(self.lighter(experiment.quick()) for experiment in line.experiments)
                lines.append(replace(line, experiments=experiments))
            rows.append(replace(row, lines=tuple(lines)))
        notes = (REDUCED, *([self.reduced_note] if self.reduced_note else []), *self.notes)
        return replace(self, rows=tuple(rows), title=f"REDUCED: {self.title}", notes=notes)

    def cells(self) -> Iterator[tuple[Experiment, int]]:
        """All cells, seed by seed, so that an interrupted run has complete seeds."""
        for seed in range(self.seeds):
            for row in self.rows:
                for line in row.lines:
                    if seed < line.seeds_of(self.seeds):
                        for experiment in line.experiments:
                            yield experiment, seed

    def digests(self) -> frozenset[str]:
        """The digests of its cells; lines may share cells."""
        return frozenset(cell_digest(*cell) for cell in self.cells())


@dataclass(frozen=True)
class LineResult:
    """What a line came to: a value per seed in the table's unit, or the failure that prevented it."""

    line: Line
    values: tuple[float, ...] = ()
    bytes: float | None = None
    seconds: float = 0.0
    extra_values: Mapping[str, float] | None = None
    failure: Failure | None = None
    measured: frozenset[str] = frozenset()
    notes: frozenset[str] = frozenset()

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float:
        """The sample standard deviation."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def statistic(self) -> float:
        """The statistic that the paper prints."""
        if self.line.statistic == "best":
            return max(self.values)
        return self.mean if self.line.statistic == "mean" else float(np.median(self.values))

    @property
    def difference(self) -> float | None:
        """Measured minus printed; None if either is missing or not a number."""
        paper = self.line.paper
        if not self.values or paper is None or np.isnan(self.statistic) or np.isnan(paper.value):
            return None
        return self.statistic - paper.value


def summarize(line: Line, results: Results, seeds: int) -> LineResult:
    """Collect a line's results. Failed seeds are left out; the first failure is kept as the reason."""
    values, sent, seconds, failure, extras = [], [], 0.0, None, []
    measured, notes = set[str](), set[str]()
    for seed in range(line.seeds_of(seeds) if line.experiments else 0):
        cells = [results[cell_digest(experiment, seed)] for experiment in line.experiments]
        finished = [cell for cell in cells if isinstance(cell, Result)]
        if len(finished) < len(cells):
            failure = failure or next(cell for cell in cells if isinstance(cell, Failure))
            continue
        shown = line.measure(finished)
        values.append(shown.value)
        sent += [] if shown.bytes is None else [shown.bytes]
        seconds += finished[0].values.get("seconds", 0.0)
        measured |= {cell.measured for cell in finished}
        notes |= {note for cell in finished for note in cell.notes}
        extras.append([finished[0].values[name] for name in line.extra_values])
    means = None
    if values and line.extra_values:
        means = dict(zip(line.extra_values, np.mean(extras, axis=0).tolist(), strict=True))
    return LineResult(
        line,
        tuple(values),
        bytes=float(np.mean(sent)) if sent else None,
        seconds=seconds,
        extra_values=means,
        failure=failure,
        measured=frozenset(measured),
        notes=frozenset(notes),
    )


def summarize_table(table: Table, results: Results) -> dict[str, list[LineResult]]:
    """The results of all lines, by the row's name."""
    return {row.name: [summarize(line, results, table.seeds) for line in row.lines] for row in table.rows}
