"""FedKT under differential privacy: table 2 of the IJCAI version, tables 15 and 16 of the long one.

The share of queries refers to the public and test rows together: only then do 0.5 % of Adult cost the epsilon that the
paper prints. Epsilons of tables 15 and 16 are included where the paper's text is legible. Our best setting is the same
for all lines, at the paper's epsilon: linear teachers, all public rows as queries (docs/results/privacy.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from oneballot.learners.sklearn import Sklearn
from oneballot.methods.fedkt.method import FedKT
from oneballot.privacy.settings import L1, L2, PrivacySettings

from ..federations import Federation
from ..privacy_sweep import Budget, PrivacySweep
from ..table import Figure, Line, Measure, Measured, Row, Table
from ._fedkt import ADULT, COD_RNA, Setup

Level = Literal["L1", "L2"]
HETEROGENEOUS, HOMOGENEOUS = "dirichlet:0.5", "homogeneous"
DELTA = 1e-5
UNREADABLE = [1.0, 4.0]
"""Our budgets for rows without a legible epsilon."""
ROWS = {"adult": 8140, "cod-rna": 14883}
"""The number of public and test rows together."""
LINEAR = Sklearn("LogisticRegression", {"class_weight": "balanced", "max_iter": 200})
FINAL = Sklearn("LogisticRegressionCV", {
    "Cs": [10**x for x in np.linspace(-4.5, 1, 8).tolist()], "cv": 3, "scoring": "neg_log_loss", "max_iter": 200,
    "l1_ratios": [0.0], "use_legacy_attributes": False,
})  # fmt: skip


@dataclass(frozen=True)
class Printed:
    """A line of the paper's table: γ, queries in percent, accuracy, and epsilon where legible."""

    gamma: float
    share: float
    accuracy: float
    epsilon: float | None = None

    @property
    def name(self) -> str:
        return f"γ = {self.gamma:g}, {self.share:g} % queries"


def accuracy_of(name: str) -> Measure:
    return lambda results: Measured(100 * results[0].values[f"{name} accuracy"])


def federation_of(setup: Setup, level: Level, split: str) -> Federation:
    return replace(setup.federation, parties=50 if level == "L1" else 20, split=split)


def at_level(level: Level, **noise: float) -> PrivacySettings:
    return L2(delta=DELTA, stable_ids=True, **noise) if level == "L2" else L1(delta=DELTA, **noise)


def _paper(setup: Setup, level: Level, split: str, lines: Sequence[Printed]) -> PrivacySweep:
    rows = ROWS[setup.group]
    budgets = (Budget(x.name, at_level(level, gamma=x.gamma), int(x.share / 100 * rows)) for x in lines)
    method = FedKT.paper(partitions=1, subsets=5 if level == "L1" else 25)
    return PrivacySweep(federation_of(setup, level, split), method, setup.learner, tuple(budgets), setup.learners)


def ours_private(
    setup: Setup, level: Level, split: str, epsilons: Sequence[float], public: str = "test"
) -> PrivacySweep:
    method = FedKT(open_vote="off", subsets=1 if level == "L1" else 50,
                   final_weights="uniform" if level == "L1" else "lead")  # fmt: skip
    federation = replace(federation_of(setup, level, split), scaled=setup.group == "cod-rna", public=public)
    budgets = tuple(Budget(f"ε = {epsilon:g}", at_level(level, epsilon=epsilon)) for epsilon in epsilons)
    return PrivacySweep(federation, method, LINEAR, budgets, {"final": FINAL})


def _row(setup: Setup, level: Level, split: str, without: float, printed: Sequence[Printed]) -> Row:
    theirs = _paper(setup, level, split, printed)
    plain = replace(setup.fedkt(partitions=1, subsets=theirs.method.subsets), federation=theirs.federation)
    lines = [Line("FedKT without noise", (plain,), Figure(without))]
    for x in printed:
        remark = "" if x.epsilon is None else f"ε = {x.epsilon:g}"
        extra = tuple(f"{x.name} {name}" for name in ("epsilon", "paper", "paper, data-dependent"))
        lines.append(Line(x.name, (theirs,), Figure(x.accuracy, remark=remark), accuracy_of(x.name), "median", extra))
    known = sorted({x.epsilon for x in printed if x.epsilon is not None}) or UNREADABLE
    for public, name in (("test", "ours, best setting"), (setup.foreign, "ours, out-of-domain public data")):
        ours = ours_private(setup, level, split, known, public)
        some = ours.budgets if public == "test" else ours.budgets[-1:]
        lines += [Line(f"{name}, {b.name}", (ours,), measure=accuracy_of(b.name),
                       remark="" if public == "test" else f"public: {public}") for b in some]  # fmt: skip
    how = "heterogeneous" if split == HETEROGENEOUS else "homogeneous"
    return Row(f"{setup.group}, {level}, {how}", setup.group, tuple(lines))


def _grid(shares: Sequence[float], lines: Mapping[float, Sequence[float]],
          epsilons: Mapping[tuple[float, float], float] | None = None) -> list[Printed]:  # fmt: skip
    """Accuracies by gamma and share of queries."""
    known = epsilons or {}
    return [Printed(gamma, share, figure, known.get((gamma, share)))
            for gamma, figures in lines.items() for share, figure in zip(shares, figures, strict=True)]  # fmt: skip


_FIFTH = (0.1, 0.5, 1.0)
_NOTES = (
    "Remarks: epsilon by our accounting, by the paper's for any votes, and by the paper's for the actual votes (at L2, "
    "of the worst party). The last one depends on the data and must not be published.",
    "The paper prints the median of three runs. Ours is in brackets, and the difference refers to it.",
)
TABLE2 = Table(
    "fedkt/table2", "FedKT-L1 and L2: privacy loss and accuracy (IJCAI 2021, table 2)",
    (
        _row(ADULT, "L1", HETEROGENEOUS, 82.2, [Printed(0.04, 0.5, 76.8, 2.56), Printed(0.04, 1, 80.2, 4.73)]),
        _row(COD_RNA, "L1", HETEROGENEOUS, 88.0, [Printed(0.06, 0.5, 82.6, 5.48), Printed(0.1, 0.5, 84.7, 6.89)]),
        _row(ADULT, "L2", HETEROGENEOUS, 82.4, [Printed(0.04, 0.5, 77.6, 2.59), Printed(0.04, 1, 78.6, 3.72)]),
        _row(COD_RNA, "L2", HETEROGENEOUS, 89.7, [Printed(0.05, 1, 82.7, 4.51), Printed(0.05, 2, 84.7, 9.78)]),
    ),
    notes=(*_NOTES, "On cod-rna at L2 the paper prints 4.51 for 1 % of queries; by its own accounting that is the "
           "epsilon of 0.5 %."),
)  # fmt: skip

TABLE15 = Table(
    "fedkt-long/table15", "FedKT-L1 by noise and queries (long version, table 15)",
    (
        _row(ADULT, "L1", HETEROGENEOUS, 82.2, _grid(
            _FIFTH, {0.04: (71.3, 76.8, 80.2), 0.06: (75.7, 77.6, 80.2), 0.08: (76.0, 76.3, 80.3)},
            {(0.04, 0.1): 0.64, (0.04, 0.5): 2.56, (0.04, 1.0): 4.73, (0.06, 0.1): 0.96})),
        _row(ADULT, "L1", HOMOGENEOUS, 82.4, _grid(
            _FIFTH, {0.02: (72.2, 76.1, 80.1), 0.04: (76.0, 80.4, 81.5), 0.06: (76.1, 81.7, 82.1)})),
        _row(COD_RNA, "L1", HETEROGENEOUS, 88.3, _grid(
            _FIFTH, {0.04: (66.8, 72.5, 75.2), 0.06: (69.0, 82.6, 79.5), 0.1: (69.0, 84.7, 85.3)},
            {(0.04, 0.1): 1.09, (0.04, 0.5): 3.34, (0.06, 0.5): 5.48, (0.1, 0.1): 2.12, (0.1, 0.5): 6.89})),
        _row(COD_RNA, "L1", HOMOGENEOUS, 88.6, _grid(
            (0.2, 0.5, 1.0), {0.02: (67.0, 73.2, 75.3), 0.04: (73.0, 84.1, 85.0), 0.06: (80.2, 84.1, 86.1)})),
    ),
    notes=_NOTES,
)  # fmt: skip

TABLE16 = Table(
    "fedkt-long/table16", "FedKT-L2 by noise and queries (long version, table 16)",
    (
        _row(ADULT, "L2", HETEROGENEOUS, 82.4, _grid(
            _FIFTH, {0.04: (76.1, 76.5, 78.5), 0.05: (76.1, 79.0, 79.2), 0.06: (76.2, 78.5, 79.4)},
            {(0.06, 0.5): 3.93, (0.06, 1.0): 5.79})),
        _row(ADULT, "L2", HOMOGENEOUS, 82.6, _grid(
            (0.3, 0.5, 1.0), {0.04: (76.1, 78.7, 81.7), 0.06: (76.3, 79.9, 81.8), 0.08: (76.3, 80.4, 82.0)},
            {(0.04, 1.0): 3.72, (0.06, 0.5): 3.93, (0.08, 1.0): 7.98})),
        _row(COD_RNA, "L2", HETEROGENEOUS, 89.7, _grid(
            (0.5, 1.0, 2.0), {0.04: (77.7, 79.8, 82.0), 0.05: (81.4, 82.0, 84.7), 0.06: (81.2, 83.2, 85.9)},
            {(0.04, 2.0): 7.63, (0.05, 1.0): 6.58, (0.05, 2.0): 9.78, (0.06, 2.0): 12.17})),
        _row(COD_RNA, "L2", HOMOGENEOUS, 90.6, [
            *_grid((0.5, 1.0, 2.0), {0.03: (79.2, 80.5, 83.1)}, {(0.03, 2.0): 5.51}),
            *_grid((0.5, 1.0, 1.5), {0.04: (80.1, 83.7, 84.0), 0.05: (80.8, 84.2, 84.7)},
                   {(0.04, 1.5): 6.45, (0.05, 1.0): 6.58, (0.05, 1.5): 8.30})]),
    ),
    notes=_NOTES,
)  # fmt: skip

TABLES = (TABLE2, TABLE15, TABLE16)
