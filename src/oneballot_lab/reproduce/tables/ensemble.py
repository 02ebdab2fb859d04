"""Guha, Talwalkar, Smith: One-Shot Federated Learning (2019): figures 1, 2 and 3.

The paper prints no numbers for its figures except two in its text: a relative gain of 51.5 % over local models, and
90.1 % of the ideal (pooled data), on average over EMNIST, Sent140 and Gleam. These data sets are not available by
device; Adult by occupation and by country, and MNIST divided among 1,000 parties, are substitutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from oneballot.learners.kernel import Kernel
from oneballot.methods.ensemble.method import Ensemble

from ..silos import SiloRun, Silos
from ..table import Figure, Line, Measure, Measured, Picture, Row, Table, value

AUC = value("auc")
SUBSTITUTE = "the paper's data sets are not available by device"
MEAN = "mean over the paper's data sets"
KERNEL = Kernel(landmarks=1000)


def _relative(scale: float, offset: float) -> Measure:
    """The mean AUC relative to another experiment's: scale · (ratio + offset)."""
    return lambda results: Measured(scale * (results[0].values["auc"] / results[1].values["auc"] + offset))


def _silo_run(silos: Silos, what: Literal["local", "ensemble", "ideal"] = "ensemble", *, min_rows: int,
               share: float = 1.0, learner: object = KERNEL, **settings: object) -> SiloRun:  # fmt: skip
    return SiloRun(silos, learner, what, Ensemble(min_rows=min_rows, **settings), share)  # type: ignore[arg-type]


SILOS: Sequence[tuple[str, str, Silos, int, Sequence[int], str]] = (
    ("EMNIST by writer", "emnist", Silos("emnist"), 60, (1, 10, 50, 100), ""),
    ("Sent140 by user", "sent140", Silos("sent140-users"), 30, (1, 10, 50, 100), ""),
    ("Gleam by wearer", "gleam", Silos("gleam"), 30, (1, 10), ""),
    ("Adult by occupation", "adult", Silos("adult", "occupation"), 30, (1, 5, 10), SUBSTITUTE),
    ("Adult by native country", "adult", Silos("adult", "native-country"), 30, (1, 10), SUBSTITUTE),
    ("MNIST, 1,000 parties, Dirichlet 0.5", "mnist", Silos("mnist", "dirichlet:0.5"), 20, (1, 10, 50, 100), SUBSTITUTE),
)


def _best(silos: Silos, rows: int) -> SiloRun:
    return _silo_run(silos, min_rows=rows, weights="class-counts", distil=True)


def _extras(silos: Silos, rows: int) -> tuple[Line, ...]:
    foreign = Line("ours, out-of-domain public data", remark="no other data set has these columns")
    if silos.data == "mnist":
        public = replace(silos, public="fashion-mnist")
        foreign = Line(
            "ours, out-of-domain public data", (_best(public, rows),), measure=AUC, remark="public: fashion-mnist"
        )
    remark = "all models, weighted by class counts, distilled into one"
    return Line("ours, best setting", (_best(silos, rows),), measure=AUC, remark=remark), foreign


def _figure1_row(name: str, group: str, silos: Silos, rows: int, ks: Sequence[int], substitute: str) -> Row:
    local, ideal, everyone = (_silo_run(silos, what, min_rows=rows) for what in ("local", "ideal", "ensemble"))
    selected = [
        Line(f"{how}, k = {k}", (_silo_run(silos, min_rows=rows, select=how, k=k),), measure=AUC)
        for how in ("cv", "size", "random") for k in ks
    ]  # fmt: skip
    lines = (
        Line("fully local", (local,), measure=AUC), Line("all models", (everyone,), measure=AUC), *selected,
        Line("pooled data (upper bound)", (ideal,), measure=AUC),
        Line("gain over local, %", (everyone, local), Figure(51.5, remark=MEAN), _relative(100, -1), series="%"),
        Line("relative to pooled data, %", (everyone, ideal), Figure(90.1, remark=MEAN), _relative(100, 0), series="%"),
        *_extras(silos, rows),
    )  # fmt: skip
    return Row(name, group, lines, substitute)


FIGURE1 = Table(
    "ensemble/figure1", "Mean ROC-AUC over parties, by selection of models (2019, figure 1)",
    tuple(_figure1_row(*row) for row in SILOS), unit="AUC, or % where stated", digits=4,
    picture=Picture("bars", y_label="mean ROC-AUC"),
    notes=("Kernel models are fitted by least squares; the paper uses support vector machines with the same kernel.",),
)  # fmt: skip


def _quantile(name: str) -> Measure:
    return lambda results: Measured(results[0].values[name])


def _figure2_row(name: str, group: str, silos: Silos, rows: int, ks: Sequence[int], substitute: str) -> Row:
    runs = {
        "fully local": _silo_run(silos, "local", min_rows=rows),
        "all models": _silo_run(silos, min_rows=rows),
        f"cv, k = {ks[-1]}": _silo_run(silos, min_rows=rows, select="cv", k=ks[-1]),
        "pooled data (upper bound)": _silo_run(silos, "ideal", min_rows=rows),
    }
    lines = [Line(f"{what}: {part}", (run,), measure=_quantile(part))
             for what, run in runs.items() for part in ("10th percentile", "auc", "90th percentile")]  # fmt: skip
    return Row(name, group, (*lines, *_extras(silos, rows)), substitute)


FIGURE2 = Table(
    "ensemble/figure2", "Distribution of the parties' ROC-AUC (2019, figure 2)",
    tuple(_figure2_row(*row) for row in (SILOS[1], *SILOS[3:])), unit="AUC", digits=4,
    picture=Picture("bars", y_label="ROC-AUC"),
    notes=("The percentiles are over parties; auc is the mean.",),
)  # fmt: skip


def _figure3_row(name: str, group: str, silos: Silos, rows: int, ks: Sequence[int], substitute: str) -> Row:
    lines = [Line("ensemble, not distilled", (_silo_run(silos, min_rows=rows),), measure=AUC)]
    for share in (0.05, 0.1, 0.25, 0.5, 1.0):
        run = _silo_run(silos, min_rows=rows, distil=True, share=share)
        at = f"distilled, {share:.0%} of the proxy rows"
        lines.append(Line(at, (run,), measure=AUC, series="distilled", at=share))
    return Row(name, group, (*lines, *_extras(silos, rows)), substitute)


FIGURE3 = Table(
    "ensemble/figure3", "Distilled model by number of proxy rows (2019, figure 3)",
    tuple(_figure3_row(*row) for row in SILOS), unit="AUC", digits=4,
    picture=Picture("lines", "share of the proxy rows", y_label="mean ROC-AUC"),
)  # fmt: skip

TABLES = (FIGURE1, FIGURE2, FIGURE3)
