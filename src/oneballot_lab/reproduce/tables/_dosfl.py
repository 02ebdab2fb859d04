"""What DOSFL's tables share: tasks with their networks, and the additions to plain distillation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oneballot.learners.torch import Torch
from oneballot.methods.dosfl.method import DOSFL
from oneballot.methods.fedkt.method import FedKT

from ..distilled import Chain
from ..experiments import Peered, Vote
from ..federations import Federation
from ..table import Cell, Figure

SPLITS = {"IID": "homogeneous", "non-IID": "shards:2"}
READ = (
    "MNIST: 40 inputs a step, as in the paper's table 5 (its text says 10); twice its learning rate, halved every 10 "
    "passes; pixels are scaled by two public numbers, mean and deviation, for which those of the test set stand."
)
MILDER = (
    "Soft resets draw a share of each layer's variance anew, and soft labels are not below 0: taken literally both "
    "fail (docs/dosfl.md)."
)
TEXT = (
    "MNIST has soft labels and soft resets, texts have soft labels, as the paper says of IMDB. Lessons for TextCNN "
    "begin with rates of 0.001 (paper: 0.01 on IMDB, 0.3 on Sent140) and are learned at 0.05 (0.01), halved every 17 "
    "passes (10): with the paper's nothing was learned in trials, and with these little (docs/results/dosfl.md)."
)
BEST = "In brackets the best of the seeds, which the difference is of; the paper prints the best of five."
SMALLER = (
    "DOSFL is reduced most: 3 parties, 600 rows, lessons of 10 steps at the most, and an MLP for LeNet; other methods "
    "have up to 10 parties and 3,000 rows."
)
OPEN = FedKT(open_vote="odds")


@dataclass(frozen=True)
class Task:
    """A data set with its network. numbers: of one distilled input; few, many: parties of the paper's two columns;
    additions: to plain lessons, where a table says no other."""

    name: str
    federation: Federation
    method: DOSFL
    learner: Any
    row: tuple[int, ...]
    numbers: int
    classes: int
    few: int = 10
    many: int = 100
    foreign: str = ""
    final: Any = None
    additions: Mapping[str, Any] = field(default_factory=dict)
    stands_in: str = ""

    def where(self, parties: int, split: str) -> Federation:
        return replace(self.federation, parties=parties, split=SPLITS.get(split, split))

    def vote(self, parties: int, split: str, **settings: Any) -> Vote:
        return Vote(self.where(parties, split), replace(self.method, **settings), self.learner)

    def chain(self, parties: int, split: str, **settings: Any) -> Chain:
        return Chain(self.where(parties, split), replace(self.method, **settings), self.learner)

    def fedavg(self, parties: int, rounds: int) -> Peered:
        """Section 4.2: a tenth of the parties a round, 5 epochs of batches of 10, SGD of rate 0.01."""
        settings = {"rounds": rounds, "participation": 0.1, "epochs": 5, "optimizer": "sgd", "learning_rate": 0.01}
        return Peered(self.where(parties, "non-IID"), "fedavg", replace(self.learner, batch=10), settings)

    def extras(self, parties: int = 10) -> tuple[Cell, ...]:
        """Ours: FedKT's open vote with half of the test set public, where the parties are least alike."""
        where = replace(self.where(parties, "non-IID"), public="test", scaled=False)
        ours = Vote(where, OPEN, self.final or self.learner, {"teacher": self.learner})
        foreign = replace(ours, federation=replace(where, public=self.foreign)) if self.foreign else None
        return (
            Cell("ours at its best, non-IID", (ours,), words=f"FedKT's open vote, odds, {parties} parties; DOSFL needs "
                 "no public rows, this does"),
            Cell("ours, foreign public data", (foreign,) if foreign else (),
                 words=f"public: {self.foreign}" if foreign else "no foreign texts at hand"),
        )  # fmt: skip


ADDITIONS: Mapping[str, dict[str, Any]] = {
    "none": {"soft_labels": False}, "SL": {}, "SR": {"soft_labels": False, "soft_reset": 0.2},
    "RM": {"soft_labels": False, "masking": 0.3}, "SL, SR": {"soft_reset": 0.2},
    "SR, RM": {"soft_labels": False, "soft_reset": 0.2, "masking": 0.3},
    "SR, RM, SL": {"soft_reset": 0.2, "masking": 0.3},
}  # fmt: skip
"""SL soft labels, SR soft resets, RM random masking."""
RESETS = ADDITIONS["SL, SR"]

LENET = Torch("lenet", settings={"shape": [1, 28, 28]}, epochs=20)
MNIST = Task(
    "MNIST, LeNet", Federation("mnist", 10, public="none", scaled=True),
    DOSFL.paper(batch=40, learning_rate=0.02, decay_period=10), LENET,
    (1, 28, 28), 784, 10, foreign="fashion-mnist", final=replace(LENET, epochs=60, augment=("shift",)),
    additions=RESETS,
)  # fmt: skip
SLOWER: dict[str, Any] = {"first_rate": 0.001, "learning_rate": 0.05, "decay_period": 17}
TEXTCNN, BILSTM = Torch("textcnn", epochs=6), Torch("bilstm", epochs=12)
IMDB = Task("IMDB, TextCNN", Federation("imdb", 10, public="none", words="glove", tokens=200),
            DOSFL.paper("imdb", **SLOWER), TEXTCNN, (200,), 20_000, 2, foreign="sst2")  # fmt: skip
TREC = Task("TREC-6, Bi-LSTM", Federation("trec", 2, public="none", words="glove", tokens=30), DOSFL.paper("trec6"),
            BILSTM, (30,), 3_000, 6, few=2, many=29)  # fmt: skip
SENT140 = Task("Sent140, TextCNN", Federation("sent140", 10, public="none", words="glove", tokens=200),
               DOSFL.paper("sent140", **SLOWER), TEXTCNN, (200,), 20_000, 2, foreign="sst2")  # fmt: skip
TEXTS = (IMDB, TREC, SENT140)
BY_LOT = "word vectors drawn by lot and frozen, for GloVe's"


def without_glove(task: Task) -> Task:
    frozen = replace(task.learner, settings={**task.learner.settings, "embedding": "frozen"})
    return replace(task, name=f"{task.name}, drawn vectors", federation=replace(task.federation, words="own"),
                   learner=frozen, stands_in=BY_LOT)  # fmt: skip


def best(name: str, run: Any, printed: float | None, **told: Any) -> Cell:
    return Cell(name, (run,), None if printed is None else Figure(printed), statistic="best", **told)
