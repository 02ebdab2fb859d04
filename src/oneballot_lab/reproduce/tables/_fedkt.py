"""Shared by the tables of both FedKT papers: data sets with their learners, and lines.

Settings are those of appendix B of the long version: forests of 100 trees of depth 6 on Adult; boosted trees of depth 6
with a learning rate of 0.05 on cod-rna (their number is not given: 100, XGBoost's default); networks trained for 100
epochs with batches of 32, Adam, a learning rate of 0.001 and a weight decay of 1e-6; s = 2, t = 5, Dirichlet β = 0.5.
Teachers on Adult are single trees of depth 6: a forest trained on fifty rows predicts the majority class, and so does
the vote of such forests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oneballot.learners.sklearn import Sklearn
from oneballot.learners.torch import Torch
from oneballot.learners.xgboost import XGBoost
from oneballot.methods.fedkt.method import FedKT

from ..experiments import ElectionRun, PeerRun
from ..federations import SHUFFLED, Federation
from ..table import Figure, Line, Measure, accuracy, after

TREE = Sklearn("DecisionTreeClassifier", {"max_depth": 6})
FOREST = Sklearn("RandomForestClassifier", {"n_estimators": 100, "max_depth": 6})
BOOSTED = XGBoost(rounds=100, max_depth=6, learning_rate=0.05)
MLP = Torch("mlp", epochs=100, batch=32, weight_decay=1e-6)
CNN = replace(MLP, module="cnn")
LONG_SEEDS = 1
"""Seeds of iterative methods, which take longer than everything else together."""
OPEN = FedKT(open_vote="odds")
BEST = "ours, best setting"
FOREIGN = "ours, out-of-domain public data"
FOREIGN_FEDKT = "FedKT, out-of-domain public data"


@dataclass(frozen=True)
class Setup:
    """A data set with the paper's learner and with our best learner. foreign: out-of-domain public data."""

    name: str
    federation: Federation
    learner: Any
    best: Any
    learners: Mapping[str, Any] = field(default_factory=dict)
    best_learners: Mapping[str, Any] = field(default_factory=dict)
    foreign: str = SHUFFLED
    best_remark: str = "open vote, odds"
    substitute: str = ""

    @property
    def group(self) -> str:
        return self.federation.data

    def fedkt(self, **changed: Any) -> ElectionRun:
        """FedKT as in the paper, with changes to partitions (s), subsets (t), voting or the federation."""
        method = {k: changed.pop(k) for k in ("partitions", "subsets", "voting") if k in changed}
        return ElectionRun(replace(self.federation, **changed), FedKT.paper(**method), self.learner, self.learners)

    def ours(self, **changed: Any) -> ElectionRun:
        return ElectionRun(replace(self.federation, **changed), OPEN, self.best, self.best_learners)

    def peer(self, name: str, federation: Mapping[str, Any] | None = None, **settings: Any) -> PeerRun:
        return PeerRun(replace(self.federation, **(federation or {})), name, self.learner, settings, self.learners)

    def iterative(
        self, name: str, rounds: int = 50, federation: Mapping[str, Any] | None = None, **settings: Any
    ) -> PeerRun:
        """An iterative peer with the paper's number of local epochs."""
        mu = {"mu": 0.1} if name == "fedprox" else {}
        run = self.peer(name, federation, rounds=rounds, **mu, **settings)
        return replace(run, learner=replace(self.learner, epochs=10))

    def extras(self, **changed: Any) -> tuple[Line, ...]:
        """Lines beyond the paper: our best setting, and both methods with out-of-domain public rows."""
        public = f"public: {self.foreign}" + (" of the public rows" if self.foreign == SHUFFLED else "")
        return (
            Line(BEST, (self.ours(**changed),), remark=self.best_remark),
            Line(FOREIGN_FEDKT, (self.fedkt(public=self.foreign, **changed),), remark=public),
            Line(FOREIGN, (self.ours(public=self.foreign, **changed),), remark=public),
        )


ADULT = Setup(
    "Adult, random forest", Federation("adult", 50), FOREST, XGBoost(), {"teacher": TREE},
    best_remark="open vote, odds, XGBoost",
)  # fmt: skip
COD_RNA = Setup("cod-rna, boosted trees", Federation("cod-rna", 50), BOOSTED, XGBoost())
_SHIFTED = replace(MLP, augment=("shift",), settings={"shape": [1, 28, 28]})
MNIST_MLP = Setup(
    "MNIST, MLP", Federation("mnist", 10), MLP, replace(_SHIFTED, epochs=200),
    best_learners={"teacher": replace(_SHIFTED, epochs=20)}, foreign="fashion-mnist",
    best_remark="open vote, odds; teachers and final network with shift augmentation",
)  # fmt: skip
MNIST_CNN = replace(
    MNIST_MLP, name="MNIST, CNN", learner=CNN, best=replace(CNN, epochs=150, augment=("shift",)),
    best_learners={"teacher": replace(CNN, epochs=20, augment=("shift",))},
)  # fmt: skip
"""Our numbers of epochs were chosen on seeds 100 to 102 (docs/results/fleet.md)."""
SVHN = Setup("SVHN, CNN", Federation("svhn", 10), replace(CNN, batch=64), replace(CNN, batch=64), foreign="cifar10")
_RESNET = Torch("resnet8", epochs=20, batch=64, augment=("crop", "flip"))
CIFAR = Setup(
    "CIFAR-10, CNN", Federation("cifar10", 10), replace(CNN, batch=64), replace(_RESNET, epochs=60),
    best_learners={"teacher": _RESNET}, foreign="svhn",
    best_remark="open vote, odds; ResNet-8 with crop and flip augmentation",
    substitute="CIFAR-10 for SVHN: the paper's figures are SVHN's, and CIFAR-10 is harder",
)  # fmt: skip


def line(name: str, experiment: ElectionRun | PeerRun, printed: float | None = None, deviation: float | None = None, *,
         at: float | None = None, series: str = "", measure: Measure = accuracy) -> Line:  # fmt: skip
    paper = None if printed is None else Figure(printed, deviation)
    return Line(name, (experiment,), paper, measure, at=at, series=series)


def rounds(name: str, experiment: PeerRun, printed: Mapping[int, float | None]) -> tuple[Line, ...]:
    """An iterative method after some of its rounds, all from one run, with LONG_SEEDS seeds."""
    lines = []
    for count, figure in printed.items():
        title = f"{name}, {count} round{'s' * (count > 1)}"
        one = line(title, experiment, figure, measure=after(count), series=name)
        lines.append(replace(one, seeds=LONG_SEEDS))
    return tuple(lines)
