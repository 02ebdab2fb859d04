"""FedKD with several labels a row, some of them unknown: five questions about the people of Adult; as Markdown.

ONEBALLOT_DATA=DIR python benchmarks/fedkd_multilabel.py [--seeds 3]

DIR/adult/adult.data is UCI's file. Six parties with 6,000 rows, dealt by Dirichlet(0.3) over the rarest label of a row;
three have looked at income, marriage and sex, the other three at sex, hours and degree, so that no party knows all five
(as the two sources of the paper's chest X-rays do). 1,000 public rows, of which the last two lines know the labels, as
in the paper's Table 4; 5,000 rows test. Areas under the ROC curve in %.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import oneballot as ob
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Array, Data, Task

QUESTIONS = ("above 50K", "married", "male", "over 40 hours", "degree")
KNOWN = ((0, 1, 2), (2, 3, 4))
PARTIES, ROWS, PUBLIC, TESTED = 6, 1000, 1000, 5000
NETWORK = ob.Torch("mlp", epochs=20, device="cpu")
FINAL = ob.Torch("mlp", epochs=60, device="cpu")


def read(path: Path) -> tuple[Array, Array]:
    """Age, capital, and where people work, come from and look like; and the answers to the five questions."""
    with path.open(newline="") as file:
        people = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
    column = {i: np.array([row[i] for row in people]) for i in range(15)}
    numbers = [column[0].astype(float) / 90, *(np.log1p(column[i].astype(float)) / 12 for i in (10, 11))]
    one_hot = [(column[i][:, None] == np.unique(column[i])).astype(float) for i in (1, 6, 8, 13)]
    answers = (
        column[14] == ">50K", np.char.startswith(column[5], "Married"), column[9] == "Male",
        column[12].astype(int) > 40, column[4].astype(int) >= 13,
    )  # fmt: skip
    return np.column_stack([*numbers, *one_hot]).astype(np.float32), np.column_stack(answers).astype(int)


def area(scores: Array, y: Array) -> float:
    """Under the ROC curve: how often a row that has it is above one that has not, ties counting half."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    yes = int((y == 1).sum())
    return float((ranks[y == 1].sum() - yes * (yes + 1) / 2) / (yes * (len(y) - yes)))


def areas(probabilities: Array, y: Array) -> Array:
    return np.array([100 * area(probabilities[:, c], y[:, c]) for c in range(len(QUESTIONS))])


def trained(X: Array, y: Array, tested: Array, seed: int) -> Array:
    (model,) = NETWORK.fit_many(X, [Task(np.arange(len(y)), y, "multilabel", seed=seed)], len(QUESTIONS))
    return model.predict_proba(tested)


def run(X: Array, y: Array, seed: int) -> dict[str, Array]:
    order = np.random.default_rng(seed).permutation(len(y))
    public, private, test = np.split(order[: PUBLIC + PARTIES * ROWS + TESTED], [PUBLIC, PUBLIC + PARTIES * ROWS])

    def election(**settings: Any) -> ob.Election:
        labels = {"public_labels": y[public]} if settings.get("join_public") else {}
        method = ob.FedKD(**settings)
        learners = {"teacher": NETWORK, "final": FINAL}
        return ob.Election(QUESTIONS, X[public], method, learners=learners, multilabel=True, seed=seed, **labels)

    parties: dict[str, Data] = {}
    for i, (name, data) in enumerate(
        divide(election().data(X[private], y[private]), PARTIES, "dirichlet:0.3", seed).items()
    ):
        marks = np.where(np.isin(np.arange(5), KNOWN[i % 2]), data.y, 0)
        parties[name] = Data(data.X, marks)
    found = {"parties alone": np.nanmean([alone(data, X[test], y[test], seed) for data in parties.values()], axis=0)}
    for name, settings in {
        "FedKD": {}, "FedKD, γ = 1": {"gamma": 1.0}, "FedKD, plain mean": {"weights": "uniform"},
        "FedKD, labels (τ = 0)": {"temperature": 0.0}, "FedKD, labelled public rows joined": {"join_public": True},
    }.items():  # fmt: skip
        simulation = simulate_parties(election(**settings), parties)
        found[name] = areas(simulation.outcome.model.predict_proba(X[test]), y[test])
        found.setdefault("bytes", np.array([max(len(b.sealed) for b in simulation.ballots)]))
    marks = 2 * y - 1
    found["labelled public rows only"] = areas(trained(X[public], marks[public], X[test], seed), y[test])
    pooled = np.concatenate([d.X for d in parties.values()] + [X[public]])
    known = np.concatenate([d.y for d in parties.values()] + [marks[public]])
    found["all of it together"] = areas(trained(pooled, known, X[test], seed), y[test])
    return found


def alone(data: Data, X: Array, y: Array, seed: int) -> Array:
    """A party's own model, on the questions that it knows."""
    return np.where((data.y != 0).any(axis=0), areas(trained(data.X, data.y, X, seed), y), np.nan)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    told = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)  # parties lack classes: that is the point
    X, y = read(Path(os.environ.get("ONEBALLOT_DATA", ".")) / "adult" / "adult.data")
    runs = [run(X, y, seed) for seed in range(told.seeds)]
    print(f"| | {' | '.join(QUESTIONS)} | mean |\n|{'---|' * (len(QUESTIONS) + 2)}")
    for name in (k for k in runs[0] if k != "bytes"):
        values = np.stack([r[name] for r in runs])
        means = values.mean(axis=1)
        shown = [f"{v:.1f}" for v in values.mean(axis=0)]
        print(
            f"| {name} | {' | '.join(shown)} | {means.mean():.2f} ± {means.std(ddof=1) if len(means) > 1 else 0:.2f} |"
        )
    print(f"\nSeeds: {told.seeds}. The largest sealed ballot: {max(int(r['bytes'][0]) for r in runs):,} bytes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
