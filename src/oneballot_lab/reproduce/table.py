"""A table of a paper as data: rows of cells, each with its experiments and the figure that was printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .cells import Experiment, Failed, Found, name_of

Measure = Callable[[Sequence[Found]], "Taken"]
Results = Mapping[str, Found | Failed]
REDUCED = "Reduced: few parties and rows, short trainings, 3 rounds at the most. Not to be compared with the paper."


@dataclass(frozen=True)
class Figure:
    """What a paper prints, in the unit of its table; words: what belongs to it, such as its epsilon."""

    value: float
    deviation: float | None = None
    words: str = ""


@dataclass(frozen=True)
class Taken:
    """What is taken from the figures of one seed: the number to show, and the bytes that a party sent for it."""

    value: float
    bytes: float | None = None


def accuracy(found: Sequence[Found]) -> Taken:
    """In percent, with the bytes of a ballot."""
    (one,) = found
    return Taken(100 * one.values["accuracy"], one.values.get("bytes") or None)


def after(rounds: int) -> Measure:
    """The accuracy after so many rounds, or after the last where there were fewer."""

    def take(found: Sequence[Found]) -> Taken:
        curves = found[0].curves
        at = min(rounds, len(curves["accuracy"])) - 1
        return Taken(100 * curves["accuracy"][at], curves["bytes"][at] or None)

    return take


def value(name: str, scale: float = 1.0) -> Measure:
    """Another figure of the first experiment."""
    return lambda found: Taken(scale * found[0].values[name], found[0].values.get("bytes") or None)


@dataclass(frozen=True)
class Cell:
    """A line of a table. Without experiments it says in words why there are none.

    statistic: which of several seeds the paper prints. beside: figures to be told with the accuracy.
    series, at: where it stands in the picture; a bar has no series. stands_in: for what the paper has.
    """

    name: str
    experiments: tuple[Experiment, ...] = ()
    paper: Figure | None = None
    measure: Measure = accuracy
    statistic: Literal["mean", "best", "median"] = "mean"
    beside: tuple[str, ...] = ()
    words: str = ""
    stands_in: str = ""
    series: str = ""
    at: float | None = None
    seeds: int | None = None
    """At most so many, if nobody asks for a number of them: for what takes long."""

    def runs(self, usual: int) -> int:
        return usual if self.seeds is None else min(usual, self.seeds)


@dataclass(frozen=True)
class Row:
    """Cells on one data set. group: its name, by which rows of all tables can be chosen."""

    name: str
    group: str
    cells: tuple[Cell, ...]
    stands_in: str = ""


@dataclass(frozen=True)
class Picture:
    """kind: "lines" over `at` of the cells, "curves" over rounds, or "bars". across, up: the axes."""

    kind: Literal["lines", "curves", "bars"]
    across: str = ""
    up: str = "accuracy, %"
    log: bool = False


@dataclass(frozen=True)
class Table:
    """name: the paper and its table, as in `fedkt/table1`. seeds: runs of a cell, if nobody says otherwise."""

    name: str
    title: str
    rows: tuple[Row, ...]
    seeds: int = 3
    unit: str = "%"
    digits: int = 1
    notes: tuple[str, ...] = ()
    picture: Picture | None = None
    smaller: str = ""
    """What is to be said of its reduced version besides."""
    lighter: Callable[[Experiment], Experiment] = lambda experiment: experiment
    """Makes a reduced experiment smaller still."""

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]

    def of_groups(self, groups: Sequence[str]) -> Table:
        """The rows of some data sets; of all, if none is named."""
        return replace(self, rows=tuple(row for row in self.rows if not groups or row.group in groups))

    def reduced(self) -> Table:
        """For a laptop: every experiment made smaller."""
        rows = []
        for row in self.rows:
            light = ((cell, tuple(self.lighter(e.quick()) for e in cell.experiments)) for cell in row.cells)
            rows.append(replace(row, cells=tuple(replace(cell, experiments=small) for cell, small in light)))
        told = (REDUCED, *([self.smaller] if self.smaller else []), *self.notes)
        return replace(self, rows=tuple(rows), title=f"REDUCED: {self.title}", notes=told)

    def run_with(self, seeds: int | None) -> Table:
        """With so many runs of every cell; as the table says, if that is None."""
        if seeds is None:
            return self
        rows = (replace(row, cells=tuple(replace(cell, seeds=None) for cell in row.cells)) for row in self.rows)
        return replace(self, rows=tuple(rows), seeds=seeds)

    def as_asked(self, *, seeds: int | None = None, quick: bool = False) -> Table:
        """As it is run: with so many seeds, or reduced, and then with one seed if nobody says otherwise."""
        return self.reduced().run_with(seeds or 1) if quick else self.run_with(seeds)

    def jobs(self) -> Iterator[tuple[Experiment, int]]:
        """Seed by seed, so that a run that is cut short has whole columns."""
        for seed in range(self.seeds):
            for row in self.rows:
                for cell in row.cells:
                    if seed < cell.runs(self.seeds):
                        for experiment in cell.experiments:
                            yield experiment, seed

    def names(self) -> frozenset[str]:
        """Of its cells, as they are kept: what several lines need is one cell."""
        return frozenset(name_of(*job) for job in self.jobs())


@dataclass(frozen=True)
class Line:
    """What a cell came to: a number a seed, in the table's unit; or a reason why there is none."""

    cell: Cell
    values: tuple[float, ...] = ()
    bytes: float | None = None
    seconds: float = 0.0
    beside: Mapping[str, float] | None = None
    failed: Failed | None = None
    measured: frozenset[str] = frozenset()
    notes: frozenset[str] = frozenset()

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float:
        """Of the sample."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def chosen(self) -> float:
        """By the paper's statistic."""
        return {"mean": self.mean, "best": max(self.values), "median": float(np.median(self.values))}[
            self.cell.statistic
        ]

    @property
    def difference(self) -> float | None:
        """Ours less the paper's; none where either is not there, or is not a number."""
        if not self.values or self.cell.paper is None or np.isnan(self.chosen) or np.isnan(self.cell.paper.value):
            return None
        return self.chosen - self.cell.paper.value


def line_of(cell: Cell, results: Results, seeds: int) -> Line:
    """One failed seed does not hide the others; where all have failed, the first reason is told."""
    values, sent, seconds, failed, beside = [], [], 0.0, None, []
    measured, notes = set[str](), set[str]()
    for seed in range(cell.runs(seeds) if cell.experiments else 0):
        found = [results[name_of(experiment, seed)] for experiment in cell.experiments]
        good = [one for one in found if isinstance(one, Found)]
        if len(good) < len(found):
            failed = failed or next(one for one in found if isinstance(one, Failed))
            continue
        taken = cell.measure(good)
        values.append(taken.value)
        sent += [] if taken.bytes is None else [taken.bytes]
        seconds += good[0].values.get("seconds", 0.0)
        measured |= {one.measured for one in good}
        notes |= {note for one in good for note in one.notes}
        beside.append([good[0].values[name] for name in cell.beside])
    means = dict(zip(cell.beside, np.mean(beside, axis=0).tolist(), strict=True)) if values and cell.beside else None
    sent_by_each = float(np.mean(sent)) if sent else None
    return Line(cell, tuple(values), sent_by_each, seconds, means, failed, frozenset(measured), frozenset(notes))
