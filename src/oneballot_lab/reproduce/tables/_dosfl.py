"""Shared by DOSFL's tables: data sets with their networks, and the additions to plain distillation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oneballot.learners.torch import Torch
from oneballot.methods.dosfl.method import DOSFL
from oneballot.methods.fedkt.method import FedKT

from ..dosfl import ChainRun
from ..experiments import ElectionRun, PeerRun
from ..federations import Federation
from ..table import Figure, Line

SPLITS = {"IID": "homogeneous", "non-IID": "shards:2"}
MNIST_SETTINGS = (
    "MNIST: 40 inputs per step, as in the paper's table 5 (its text says 10); twice its learning rate, halved every 10 "
    "epochs; pixels are standardized by a public mean and standard deviation, here those of the test set."
)
SOFT = (
    "On MNIST soft resets redraw a share of each layer's variance, and soft labels are not negative: as described in "
    "the paper, both fail (docs/dosfl.md)."
)
TEXT = (
    "Texts use soft labels, as in the paper for IMDB. IMDB and Sent140: one logit with binary cross-entropy, labels of "
    "any sign, two sentences per step (paper: one) and a constant learning rate (paper: halved every 10 epochs). "
    "TREC-6: six sentences per step, one per class (paper: one); parties start from the same noise, and unless a line "
    "says otherwise the mean of the weights that their data lead to is taken (paper: interleaved steps). Its loss on "
    "the non-IID split compares a party's own classes, except in LP-DOSFL; parties with one class abstain. E_d = 6 has "
    "η₀ = 0.3 (paper: E_d = 1, η₀ = 1.5)."
)
BEST = "In brackets: the best seed, to which the difference refers. The paper prints the best of five runs."
REDUCED_NOTE = (
    "DOSFL is reduced most: 3 parties, 600 rows, at most 10 distilled steps, and an MLP for LeNet; other methods have "
    "up to 10 parties and 3,000 rows."
)
OPEN = FedKT(open_vote="odds")


@dataclass(frozen=True)
class Setup:
    """A data set with its network. input_size: values in one distilled input. few, many: the numbers of parties in the
    paper's columns. additions: to plain distillation, unless a table says otherwise; unlike: further ones where each
    party has few classes. variants: settings of further lines, by label.
    """

    name: str
    federation: Federation
    method: DOSFL
    learner: Any
    row: tuple[int, ...]
    input_size: int
    classes: int
    few: int = 10
    many: int = 100
    foreign: str = ""
    final: Any = None
    additions: Mapping[str, Any] = field(default_factory=dict)
    unlike: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    substitute: str = ""

    def divide(self, parties: int, split: str) -> Federation:
        return replace(self.federation, parties=parties, split=SPLITS.get(split, split))

    def election(self, parties: int, split: str, **settings: Any) -> ElectionRun:
        return ElectionRun(self.divide(parties, split), replace(self.method, **settings), self.learner)

    def chain(self, parties: int, split: str, **settings: Any) -> ChainRun:
        return ChainRun(self.divide(parties, split), replace(self.method, **settings), self.learner)

    def added(self, split: str, variant: str = "") -> dict[str, Any]:
        """The additions on this split, with those of a variant."""
        unlike = {} if split == "IID" else self.unlike
        return {**self.additions, **unlike, **(self.variants[variant] if variant else {})}

    def lines(self, parties: int, split: str, printed: float) -> tuple[Line, ...]:
        """DOSFL with the additions, then each variant: the paper prints one figure."""
        return tuple(
            best(", ".join(filter(None, (f"DOSFL, {parties}, {split}", variant))),
                 self.election(parties, split, **self.added(split, variant)), printed)
            for variant in ("", *self.variants)
        )  # fmt: skip

    def fedavg(self, parties: int, rounds: int) -> PeerRun:
        """Section 4.2: a tenth of the parties per round, 5 epochs with batches of 10, SGD at 0.01."""
        settings = {"rounds": rounds, "participation": 0.1, "epochs": 5, "optimizer": "sgd", "learning_rate": 0.01}
        return PeerRun(self.divide(parties, "non-IID"), "fedavg", replace(self.learner, batch=10), settings)

    def extras(self, parties: int = 10) -> tuple[Line, ...]:
        """Our best setting, FedKT's open vote with half of the test set public, on the non-IID split."""
        federation = replace(self.divide(parties, "non-IID"), public="test", scaled=False)
        ours = ElectionRun(federation, OPEN, self.final or self.learner, {"teacher": self.learner})
        remark = f"FedKT's open vote, odds, {parties} parties; needs public rows, unlike DOSFL"
        best_line = Line("ours, best setting, non-IID", (ours,), remark=remark)
        name = "ours, out-of-domain public data"
        if not self.foreign:
            return best_line, Line(name, remark="no out-of-domain texts available")
        foreign = replace(ours, federation=replace(federation, public=self.foreign))
        return best_line, Line(name, (foreign,), remark=f"public: {self.foreign}")


ADDITIONS: Mapping[str, dict[str, Any]] = {
    "none": {"soft_labels": False}, "SL": {}, "SR": {"soft_labels": False, "soft_reset": 0.2},
    "RM": {"soft_labels": False, "masking": 0.3}, "SL, SR": {"soft_reset": 0.2},
    "SR, RM": {"soft_labels": False, "soft_reset": 0.2, "masking": 0.3},
    "SR, RM, SL": {"soft_reset": 0.2, "masking": 0.3},
}  # fmt: skip
"""SL: soft labels, SR: soft resets, RM: random masking."""
RESETS = ADDITIONS["SL, SR"]

LENET = Torch("lenet", settings={"shape": [1, 28, 28]}, epochs=20)
MNIST = Setup(
    "MNIST, LeNet", Federation("mnist", 10, public="none", scaled=True),
    DOSFL.paper(batch=40, learning_rate=0.02, decay_period=10), LENET,
    (1, 28, 28), 784, 10, foreign="fashion-mnist", final=replace(LENET, epochs=60, augment=("shift",)),
    additions=RESETS,
)  # fmt: skip
TEXTCNN, BILSTM = Torch("textcnn", settings={"one_logit": True}, epochs=6), Torch("bilstm", epochs=12)
TWO_CLASSES: dict[str, Any] = {"batch": 2, "negative_labels": True, "decay": 1.0}
"""As in the code that the paper builds on, with two sentences per step; learner: one logit."""
LONGER: dict[str, Any] = {"epochs": 6, "first_rate": 0.3}
MERGES = {
    "averaged": {"merging": "averaged"}, "interleaved": {"merging": "interleaved"}, "E_d = 6": LONGER,
    "E_d = 6, averaged": {**LONGER, "merging": "averaged"},
    "E_d = 6, interleaved": {**LONGER, "merging": "interleaved"},
}  # fmt: skip
IMDB = Setup("IMDB, TextCNN", Federation("imdb", 10, public="none", vocabulary="glove", tokens=200),
            DOSFL.paper("imdb", **TWO_CLASSES), TEXTCNN, (200,), 20_000, 2, foreign="sst2")  # fmt: skip
TREC = Setup("TREC-6, Bi-LSTM", Federation("trec", 2, public="none", vocabulary="glove", tokens=30),
             DOSFL.paper("trec6", batch=6), BILSTM, (30,), 3_000, 6, few=2, many=29,
             additions={"merging": "weights", "first_lessons": "shared"}, unlike={"loss_classes": "own"},
             variants=MERGES)  # fmt: skip
SENT140 = Setup("Sent140, TextCNN", Federation("sent140", 10, public="none", vocabulary="glove", tokens=200),
               DOSFL.paper("sent140", **TWO_CLASSES), TEXTCNN, (200,), 20_000, 2, foreign="sst2")  # fmt: skip
TEXTS = (IMDB, TREC, SENT140)
RANDOM_VECTORS = "random, frozen word vectors for GloVe's"


def without_glove(setup: Setup) -> Setup:
    frozen = replace(setup.learner, settings={**setup.learner.settings, "embedding": "frozen"})
    return replace(setup, name=f"{setup.name}, random vectors", federation=replace(setup.federation, vocabulary="own"),
                   learner=frozen, substitute=RANDOM_VECTORS)  # fmt: skip


def best(name: str, run: Any, printed: float | None, **settings: Any) -> Line:
    return Line(name, (run,), None if printed is None else Figure(printed), statistic="best", **settings)
