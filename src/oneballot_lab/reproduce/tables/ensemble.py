"""Guha, Talwalkar, Smith: One-Shot Federated Learning (2019): figures 1, 2 and 3.

The paper gives no numbers with its figures but two in its text: a relative gain of 51.5 % over local models, and 90.1 %
of the ideal, on average over EMNIST, Sent140 and Gleam. Those are not to be had here by device: Adult by occupation and
by country, and MNIST dealt to 1,000 parties, stand in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from oneballot.learners.kernel import Kernel
from oneballot.methods.ensemble.method import Ensemble

from ..silos import Ensembled, Silos
from ..table import Cell, Figure, Measure, Picture, Row, Table, Taken, value

AUC = value("auc")
STANDS_IN = "for the paper's data sets, whose devices are not to be had"
MEAN = "mean of the paper's sets"
KERNEL = Kernel(landmarks=1000)


def _over(scale: float, plus: float) -> Measure:
    """The mean AUC as a multiple of another experiment's."""
    return lambda found: Taken(scale * (found[0].values["auc"] / found[1].values["auc"] + plus))


def _ensembled(silos: Silos, what: Literal["local", "ensemble", "ideal"] = "ensemble", *, min_rows: int,
               share: float = 1.0, learner: object = KERNEL, **settings: object) -> Ensembled:  # fmt: skip
    return Ensembled(silos, learner, what, Ensemble(min_rows=min_rows, **settings), share)  # type: ignore[arg-type]


SILOS: Sequence[tuple[str, str, Silos, int, Sequence[int], str]] = (
    ("EMNIST by writer", "emnist", Silos("emnist"), 60, (1, 10, 50, 100), ""),
    ("Sent140 by user", "sent140", Silos("sent140-users"), 30, (1, 10, 50, 100), ""),
    ("Gleam by wearer", "gleam", Silos("gleam"), 30, (1, 10), ""),
    ("Adult by occupation", "adult", Silos("adult", "occupation"), 30, (1, 5, 10), STANDS_IN),
    ("Adult by native country", "adult", Silos("adult", "native-country"), 30, (1, 10), STANDS_IN),
    ("MNIST, 1,000 parties, Dirichlet 0.5", "mnist", Silos("mnist", "dirichlet:0.5"), 20, (1, 10, 50, 100), STANDS_IN),
)


def _best(silos: Silos, rows: int) -> Ensembled:
    return _ensembled(silos, min_rows=rows, weights="class-counts", distil=True)


def _extras(silos: Silos, rows: int) -> tuple[Cell, ...]:
    none = "no other data set has these columns, so there is no foreign public data"
    foreign = Cell("ours, foreign public data", words=none)
    if silos.data == "mnist":
        proxy = replace(silos, public="fashion-mnist")
        foreign = Cell("ours, foreign public data", (_best(proxy, rows),), measure=AUC, words="public: fashion-mnist")
    told = "all models, weighed by class counts, distilled into one"
    return Cell("ours at its best", (_best(silos, rows),), measure=AUC, words=told), foreign


def _figure1_row(name: str, group: str, silos: Silos, rows: int, ks: Sequence[int], stands_in: str) -> Row:
    local, ideal, everyone = (_ensembled(silos, what, min_rows=rows) for what in ("local", "ideal", "ensemble"))
    some = [
        Cell(f"{how}, k = {k}", (_ensembled(silos, min_rows=rows, select=how, k=k),), measure=AUC)
        for how in ("cv", "size", "random") for k in ks
    ]  # fmt: skip
    cells = (
        Cell("fully local", (local,), measure=AUC), Cell("all models", (everyone,), measure=AUC), *some,
        Cell("ideal", (ideal,), measure=AUC),
        Cell("gain over local, %", (everyone, local), Figure(51.5, words=MEAN), _over(100, -1), series="%"),
        Cell("share of the ideal, %", (everyone, ideal), Figure(90.1, words=MEAN), _over(100, 0), series="%"),
        *_extras(silos, rows),
    )  # fmt: skip
    return Row(name, group, cells, stands_in)


FIGURE1 = Table(
    "ensemble/figure1", "Mean ROC-AUC over parties, by which models are averaged (2019, figure 1)",
    tuple(_figure1_row(*row) for row in SILOS), unit="AUC, or % as said", digits=4,
    picture=Picture("bars", up="mean ROC-AUC"),
    notes=("Kernel models by least squares; the paper has support vector machines with the same kernel.",),
)  # fmt: skip


def _spread(name: str) -> Measure:
    return lambda found: Taken(found[0].values[name])


def _figure2_row(name: str, group: str, silos: Silos, rows: int, ks: Sequence[int], stands_in: str) -> Row:
    kinds = {
        "fully local": _ensembled(silos, "local", min_rows=rows),
        "all models": _ensembled(silos, min_rows=rows),
        f"cv, k = {ks[-1]}": _ensembled(silos, min_rows=rows, select="cv", k=ks[-1]),
        "ideal": _ensembled(silos, "ideal", min_rows=rows),
    }
    cells = [Cell(f"{what}: {part}", (run,), measure=_spread(part))
             for what, run in kinds.items() for part in ("lowest tenth", "auc", "highest tenth")]  # fmt: skip
    return Row(name, group, (*cells, *_extras(silos, rows)), stands_in)


FIGURE2 = Table(
    "ensemble/figure2", "How parties' own ROC-AUC is spread (2019, figure 2)",
    tuple(_figure2_row(*row) for row in (SILOS[1], *SILOS[3:])), unit="AUC", digits=4,
    picture=Picture("bars", up="ROC-AUC"),
    notes=("lowest and highest tenth: what a tenth of the parties is below, or above; auc is the mean.",),
)  # fmt: skip


def _figure3_row(name: str, group: str, silos: Silos, rows: int, ks: Sequence[int], stands_in: str) -> Row:
    cells = [Cell("the ensemble itself", (_ensembled(silos, min_rows=rows),), measure=AUC)]
    for share in (0.05, 0.1, 0.25, 0.5, 1.0):
        run = _ensembled(silos, min_rows=rows, distil=True, share=share)
        at = f"distilled, {share:.0%} of the proxy rows"
        cells.append(Cell(at, (run,), measure=AUC, series="distilled", at=share))
    return Row(name, group, (*cells, *_extras(silos, rows)), stands_in)


FIGURE3 = Table(
    "ensemble/figure3", "The distilled model by proxy rows (2019, figure 3)",
    tuple(_figure3_row(*row) for row in SILOS), unit="AUC", digits=4,
    picture=Picture("lines", "share of the proxy rows", up="mean ROC-AUC"),
)  # fmt: skip

TABLES = (FIGURE1, FIGURE2, FIGURE3)
