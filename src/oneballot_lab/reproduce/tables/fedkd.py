"""Gong et al.: Preserving Privacy in Federated Learning with Ensemble Cross-Domain Knowledge Distillation (FedKD, AAAI
2022): tables 1, 2 and 5, figure 2.

The paper trains longer, as the tables say. Its numbers of public rows follow from its bandwidth of 8 bytes per logit:
50,000 of CIFAR-100 (its training set) and 125,000 of ImageNet. For users without these public sets, half of the test
set is a substitute. Our best setting is FedKT's open vote with the same networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from oneballot.learners.torch import Torch
from oneballot.methods.fedkd.method import FedKD
from oneballot.methods.fedkt.method import FedKT

from ..experiments import ElectionRun, PeerRun
from ..federations import Federation
from ..table import Figure, Line, Picture, Row, Table

LOCAL = Torch("resnet8", epochs=20, batch=64, optimizer="sgd", learning_rate=0.05, last_rate=0.001, weight_decay=3e-4,
              augment=("crop", "flip"))  # fmt: skip
CENTRAL = Torch("resnet8", epochs=60, batch=128, augment=("crop", "flip"))
MLP = Torch("mlp", epochs=20, settings={"shape": [1, 28, 28]})
ROUNDS, EPOCHS = 20, 2
SHORT = (
    "Training is shorter than in the paper: parties train for 20 epochs with batches of 64 and a learning rate from "
    "0.05 to 0.001 (paper: 500 epochs, 16, 0.0025 to 0.001), iterative methods for "
    f"{ROUNDS} rounds of {EPOCHS} epochs (paper: 100 rounds); distillation on CIFAR-10 takes 60 epochs with batches of "
    "128 (paper: 200 epochs, 512)."
)
REDUCED_NOTE = "CIFAR has 5 parties and a CNN trained with Adam: ResNet-8 learns nothing in so few steps."
OPEN = FedKT(open_vote="odds")


def _lighter(small: Any) -> Any:
    """Reduce a reduced experiment as REDUCED_NOTE says."""
    federation = small.federation
    if not federation.data.startswith("cifar"):
        return small

    def light(learner: Torch) -> Torch:
        return Torch("cnn", epochs=learner.epochs, batch=16)

    return replace(
        small, federation=replace(federation, parties=min(federation.parties, 5)), learner=light(small.learner),
        learners={role: light(learner) for role, learner in small.learners.items()},
    )  # fmt: skip


@dataclass(frozen=True)
class Setup:
    name: str
    federation: Federation
    teacher: Any
    final: Any
    foreign: str
    substitute: str = ""

    def fedkd(self, method: FedKD | None = None, **changed: Any) -> ElectionRun:
        federation = replace(self.federation, **changed)
        return ElectionRun(federation, method or FedKD.paper(), self.final, {"teacher": self.teacher})

    def ours(self, **changed: Any) -> ElectionRun:
        return ElectionRun(replace(self.federation, **changed), OPEN, self.final, {"teacher": self.teacher})

    def peer(self, name: str, split: str, **settings: Any) -> PeerRun:
        learner = self.teacher if name in ("solo", "central") else replace(self.teacher, epochs=EPOCHS)
        if name == "fedgen":  # its generator draws inputs of the last of several consecutive layers
            learner = replace(learner, augment=(), module="cnn" if learner.module == "resnet8" else learner.module)
        return PeerRun(replace(self.federation, split=split), name, learner, settings)

    def extras(self) -> tuple[Line, ...]:
        remark = f"public: {self.foreign}"
        return (
            Line("ours, best setting", (self.ours(),), remark="FedKT's open vote, odds; the same networks"),
            Line("FedKD, out-of-domain public data", (self.fedkd(public=self.foreign),), remark=remark),
            Line("ours, out-of-domain public data", (self.ours(public=self.foreign),), remark=remark),
        )


CIFAR10 = Setup(
    "CIFAR-10, CIFAR-100 public", Federation("cifar10", 20, public="cifar100/train"), LOCAL, CENTRAL, "svhn"
)
CIFAR10_OWN = replace(
    CIFAR10, name="CIFAR-10, half of its test set public", federation=Federation("cifar10", 20),
    substitute="half of the test set for CIFAR-100 as public data",
)  # fmt: skip
CIFAR100 = Setup(
    "CIFAR-100, ImageNet 32 × 32 public", Federation("cifar100", 20, public="imagenet32/train", public_rows=125_000),
    LOCAL, replace(CENTRAL, epochs=10, batch=512), "cifar10",
)  # fmt: skip
MNIST = Setup(
    "MNIST, MLP", Federation("mnist", 20), MLP, replace(MLP, epochs=60, augment=("shift",)), "fashion-mnist",
    "MNIST for CIFAR-10 and a small network for ResNet-8, for machines without a GPU",
)  # fmt: skip

PEERS = {"FedAvg": "fedavg", "FedProx": "fedprox", "FedAvgM": "fedavgm", "FedDF": "feddf", "FedGEN": "fedgen",
         "FedMD": "fedmd"}  # fmt: skip
Printed = Mapping[str, tuple[tuple[float, float], tuple[float, float]]]
"""Mean and standard deviation at α = 1 and α = 0.1."""
ON_CIFAR10: Printed = {
    "FedAvg": ((78.57, 0.22), (68.37, 0.50)), "FedProx": ((76.32, 1.95), (68.65, 0.77)),
    "FedAvgM": ((77.79, 1.22), (68.63, 0.79)), "FedDF": ((80.69, 0.43), (71.36, 1.07)),
    "FedGEN": ((80.31, 0.97), (68.13, 1.37)), "FedMD": ((80.37, 0.37), (69.23, 1.31)),
    "Standalone": ((61.11, 24.90), (28.99, 27.24)), "FedKD": ((80.98, 0.11), (65.46, 3.45)),
}  # fmt: skip
ON_CIFAR100: Printed = {
    "FedAvg": ((42.54, 0.51), (36.72, 1.50)), "FedProx": ((42.94, 1.23), (35.74, 1.00)),
    "FedAvgM": ((42.83, 0.36), (36.29, 1.98)), "FedDF": ((47.43, 0.45), (39.33, 0.03)),
    "FedGEN": ((45.97, 0.23), (35.97, 0.31)), "FedMD": ((45.83, 0.58), (38.86, 0.78)),
    "Standalone": ((27.49, 14.76), (16.31, 15.75)), "FedKD": ((45.55, 0.38), (40.61, 2.54)),
}  # fmt: skip


def _table1_row(setup: Setup, printed: Printed | None) -> Row:
    lines = []
    for i, alpha in enumerate((1.0, 0.1)):
        split, of = f"dirichlet:{alpha:g}", f", α = {alpha:g}"

        def figure(name: str, i: int = i) -> Figure | None:
            return None if printed is None else Figure(*printed[name][i])

        for name, peer in PEERS.items():
            mu = {"mu": 0.1} if peer == "fedprox" else {}
            run = setup.peer(peer, split, rounds=ROUNDS, **mu)
            substitute = "a CNN for ResNet-8, whose layers are not consecutive" if run.learner.module == "cnn" else ""
            lines.append(
                Line(f"{name}{of}", (run,), figure(name), remark=f"{ROUNDS} rounds", substitute=substitute, series=name)
            )
        lines += [
            Line(f"Standalone{of}", (setup.peer("solo", split),), figure("Standalone")),
            Line(f"FedKD{of}", (setup.fedkd(split=split),), figure("FedKD")),
            Line(f"ours, best setting{of}", (setup.ours(split=split),), remark="FedKT's open vote, odds"),
        ]
    return Row(setup.name, setup.federation.data, (*lines, *setup.extras()[1:]), setup.substitute)


TABLE1 = Table(
    "fedkd/table1", "FedKD compared with iterative methods, 20 parties (AAAI 2022, table 1)",
    (_table1_row(CIFAR10, ON_CIFAR10), _table1_row(CIFAR10_OWN, ON_CIFAR10), _table1_row(CIFAR100, ON_CIFAR100),
     _table1_row(MNIST, None)),
    digits=2,
    notes=(SHORT, "Bandwidth in the paper, in float64: on CIFAR-10 FedKD 0.078 GB, FedMD 6.24 GB, the others 58 GB; on "
           "CIFAR-100 2, 160 and 63 GB."),
    reduced_note=REDUCED_NOTE, lighter=_lighter,
)  # fmt: skip


def _table2_row(setup: Setup, printed: bool) -> Row:
    at1 = {"split": "dirichlet:1"}
    several = FedKD.paper(passes=5, augment=setup.final.augment)
    variants = {
        "plain mean, τ = ∞": (FedKD.paper(weights="uniform"), 79.92, ""),
        "equation 1, τ = 3": (FedKD.paper(temperature=3.0), 80.01, ""),
        "equation 1, τ = ∞": (FedKD.paper(), 80.98, ""),
        "equation 1, τ = ∞, several passes": (several, 81.89, "5 passes; the paper has 50, which send 3.91 GB"),
    }
    lines = [Line(name, (setup.fedkd(method, **at1),), Figure(value) if printed else None, remark=remark)
             for name, (method, value, remark) in variants.items()]  # fmt: skip
    return Row(setup.name, setup.federation.data, (*lines, *setup.extras()), setup.substitute)


TABLE2 = Table(
    "fedkd/table2", "Aggregation and distillation variants, α = 1 (AAAI 2022, table 2)",
    (_table2_row(CIFAR10, True), _table2_row(CIFAR10_OWN, True), _table2_row(MNIST, False)), digits=2, notes=(SHORT,),
    reduced_note=REDUCED_NOTE, lighter=_lighter,
)  # fmt: skip


def _figure2_row(setup: Setup) -> Row:
    at1 = {"split": "dirichlet:1"}
    lines = []
    for share in (0.2, 0.5, 1.0):
        for noise in (0.5, 1.0, 2.0, 5.0, 10.0):
            run = setup.fedkd(FedKD(gamma=1 / noise), share=share, **at1)
            series = f"{share:.0%} of the public rows"
            lines.append(Line(f"1/γ = {noise:g}, {series}", (run,), series=series, at=noise))
    for scale in (2, 20, 200, 2000):
        run = setup.fedkd(FedKD(scale=scale, gamma=inf), **at1)
        lines.append(Line(f"S = {scale}, no noise", (run,)))
    return Row(setup.name, setup.federation.data, (*lines, *setup.extras()), setup.substitute)


FIGURE2 = Table(
    "fedkd/figure2", "FedKD by noise, public rows and quantisation (AAAI 2022, figure 2)",
    (_figure2_row(CIFAR10), _figure2_row(CIFAR10_OWN), _figure2_row(MNIST)),
    picture=Picture("lines", "1/γ", log=True), digits=2, reduced_note=REDUCED_NOTE, lighter=_lighter,
    notes=(SHORT, "The paper prints no numbers for this figure."),
)  # fmt: skip

TEXT = Torch("textcnn", epochs=6, batch=64)
SUBSTITUTE = "TextCNN with GloVe's word vectors for DistilBERT, whose pretrained weights are not available here"
AGNEWS = Setup("AG News, TextCNN", Federation("agnews", 10, "dirichlet:1", vocabulary="glove", tokens=64), TEXT,
                 replace(TEXT, epochs=20), "sst2", SUBSTITUTE)  # fmt: skip
SST2 = replace(
    AGNEWS,
    name="SST-2, TextCNN",
    foreign="imdb",
    federation=Federation("sst2", 10, "dirichlet:1", vocabulary="glove", tokens=40, public="train"),
)


def _without_glove(setup: Setup) -> Setup:
    return replace(
        setup, name=f"{setup.name}, own vocabulary", federation=replace(setup.federation, vocabulary="own"),
        substitute=setup.substitute.replace("GloVe's word vectors", "word vectors trained from scratch"),
    )  # fmt: skip


PRINTED5 = {"agnews": (91.98, 92.57, 92.58, (86.30, 5.21), 93.11), "sst2": (87.13, 88.51, 91.50, (74.80, 5.05), 90.07)}


def _table5_row(setup: Setup) -> Row:
    fedavg, feddf, fedkd, alone, central = PRINTED5[setup.federation.data]
    split = setup.federation.split
    few = {"rounds": 10}
    lines = (
        Line("FedAvg", (setup.peer("fedavg", split, **few),), Figure(fedavg), remark="10 rounds"),
        Line("FedDF", (setup.peer("feddf", split, **few),), Figure(feddf), remark="10 rounds"),
        Line("FedKD", (setup.fedkd(FedKD.paper()),), Figure(fedkd)),
        Line("Standalone", (setup.peer("solo", split),), Figure(*alone)),
        Line("Centralized", (setup.peer("central", split),), Figure(central)),
        *setup.extras()[:2],
        Line("DistilBERT", remark="not run: its pretrained weights are not available here, and no learner loads them"),
    )
    return Row(setup.name, setup.federation.data, lines, setup.substitute)


TABLE5 = Table(
    "fedkd/table5", "Text, 10 parties (AAAI 2022, table 5)",
    tuple(map(_table5_row, (AGNEWS, SST2, _without_glove(AGNEWS), _without_glove(SST2)))), digits=2,
    notes=("Bandwidth in the paper: FedAvg 10,217 MB, FedDF 10,235 and 10,221 MB, FedKD 36.6 and 10.3 MB.",
           "Parties train for 6 epochs, or 10 rounds of 2, and distillation takes 20 epochs (paper: 100 and 20).",
           "The paper names no public set; by its bandwidth it has 120,000 and 67,349 rows, as many as the training "
           "set. Here it is half of AG News's test set and a fifth of SST-2's training rows.",
           "Rows are divided by Dirichlet α = 1; the paper does not say how.",
           "The own vocabulary is that of the private training texts, also for out-of-domain public texts."),
)  # fmt: skip

TABLES = (TABLE1, TABLE2, TABLE5, FIGURE2)
