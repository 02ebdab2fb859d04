"""What the tables of both FedKT papers share: tasks with their learners, and cells on them.

Settings are those of appendix B of the long version: forests of 100 trees of depth 6 on Adult, boosted trees of depth
6 with a rate of 0.05 on cod-rna (how many is not said: 100, as in XGBoost's Python package), networks for 100 epochs of
batches of 32 with Adam, a rate of 0.001 and a decay of 1e-6; s = 2, t = 5, Dirichlet of 0.5. Teachers on Adult are
single trees of depth 6: a forest that sees fifty rows says the larger class, and the vote collapses to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oneballot.learners.sklearn import Sklearn
from oneballot.learners.torch import Torch
from oneballot.learners.xgboost import XGBoost
from oneballot.methods.fedkt.method import FedKT

from ..experiments import Peered, Vote
from ..federations import SHUFFLED, Federation
from ..table import Cell, Figure, Measure, accuracy, after

TREE = Sklearn("DecisionTreeClassifier", {"max_depth": 6})
FOREST = Sklearn("RandomForestClassifier", {"n_estimators": 100, "max_depth": 6})
BOOSTED = XGBoost(rounds=100, max_depth=6, learning_rate=0.05)
MLP = Torch("mlp", epochs=100, batch=32, weight_decay=1e-6)
CNN = replace(MLP, module="cnn")
LONG_SEEDS = 1
"""Of iterative methods, which take longer than all else together."""
OPEN = FedKT(open_vote="odds")
BEST = "ours at its best"
FOREIGN = "ours, foreign public data"
FOREIGN_FEDKT = "FedKT, foreign public data"


@dataclass(frozen=True)
class Trial:
    """A data set with the paper's learner, and with what does best on it in one message."""

    name: str
    federation: Federation
    learner: Any
    best: Any
    learners: Mapping[str, Any] = field(default_factory=dict)
    best_learners: Mapping[str, Any] = field(default_factory=dict)
    foreign: str = SHUFFLED
    best_words: str = "open vote, odds"
    stands_in: str = ""

    @property
    def group(self) -> str:
        return self.federation.data

    def fedkt(self, **changed: Any) -> Vote:
        """FedKT as in the paper; s, t and voting, or anything of the federation, may be changed."""
        method = {k: changed.pop(k) for k in ("partitions", "subsets", "voting") if k in changed}
        return Vote(replace(self.federation, **changed), FedKT.paper(**method), self.learner, self.learners)

    def ours(self, **changed: Any) -> Vote:
        return Vote(replace(self.federation, **changed), OPEN, self.best, self.best_learners)

    def peer(self, name: str, federation: Mapping[str, Any] | None = None, **settings: Any) -> Peered:
        return Peered(replace(self.federation, **(federation or {})), name, self.learner, settings, self.learners)

    def iterative(
        self, name: str, rounds: int = 50, federation: Mapping[str, Any] | None = None, **settings: Any
    ) -> Peered:
        """With the local epochs of the paper's iterative methods."""
        told = {"rounds": rounds, **({"mu": 0.1} if name == "fedprox" else {}), **settings}
        return replace(self.peer(name, federation, **told), learner=replace(self.learner, epochs=10))

    def extras(self, **changed: Any) -> tuple[Cell, ...]:
        """The columns that no paper has: ours at its best, and both with public rows of another origin."""
        public = f"public: {self.foreign}" + (" of the public rows" if self.foreign == SHUFFLED else "")
        return (
            Cell(BEST, (self.ours(**changed),), words=self.best_words),
            Cell(FOREIGN_FEDKT, (self.fedkt(public=self.foreign, **changed),), words=public),
            Cell(FOREIGN, (self.ours(public=self.foreign, **changed),), words=public),
        )


ADULT = Trial(
    "Adult, random forest", Federation("adult", 50), FOREST, XGBoost(), {"teacher": TREE},
    best_words="open vote, odds, XGBoost",
)  # fmt: skip
COD_RNA = Trial("cod-rna, boosted trees", Federation("cod-rna", 50), BOOSTED, XGBoost())
_SHIFTED = replace(MLP, augment=("shift",), settings={"shape": [1, 28, 28]})
MNIST_MLP = Trial(
    "MNIST, MLP", Federation("mnist", 10), MLP, replace(_SHIFTED, epochs=200),
    best_learners={"teacher": replace(_SHIFTED, epochs=20)}, foreign="fashion-mnist",
    best_words="open vote, odds; teachers and the final network on shifted images",
)  # fmt: skip
MNIST_CNN = replace(
    MNIST_MLP, name="MNIST, CNN", learner=CNN, best=replace(CNN, epochs=150, augment=("shift",)),
    best_learners={"teacher": replace(CNN, epochs=20, augment=("shift",))},
)  # fmt: skip
"""The epochs of ours were chosen on seeds 100 to 102 (docs/results/fleet.md)."""
SVHN = Trial("SVHN, CNN", Federation("svhn", 10), replace(CNN, batch=64), replace(CNN, batch=64), foreign="cifar10")
_RESNET = Torch("resnet8", epochs=20, batch=64, augment=("crop", "flip"))
CIFAR = Trial(
    "CIFAR-10, CNN", Federation("cifar10", 10), replace(CNN, batch=64), replace(_RESNET, epochs=60),
    best_learners={"teacher": _RESNET}, foreign="svhn",
    best_words="open vote, odds; resnet8 on cropped and mirrored images",
    stands_in="CIFAR-10 for SVHN: the paper's figures are SVHN's, and CIFAR-10 is harder",
)  # fmt: skip


def cell(name: str, experiment: Vote | Peered, printed: float | None = None, deviation: float | None = None, *,
         at: float | None = None, series: str = "", measure: Measure = accuracy) -> Cell:  # fmt: skip
    paper = None if printed is None else Figure(printed, deviation)
    return Cell(name, (experiment,), paper, measure, at=at, series=series)


def rounds(name: str, experiment: Peered, printed: Mapping[int, float | None]) -> tuple[Cell, ...]:
    """An iterative method after some of its rounds; one run gives all of them. Fifty rounds are run once."""
    cells = (
        cell(f"{name}, {count} round{'s' * (count > 1)}", experiment, figure, measure=after(count), series=name)
        for count, figure in printed.items()
    )
    return tuple(replace(one, seeds=LONG_SEEDS) for one in cells)
