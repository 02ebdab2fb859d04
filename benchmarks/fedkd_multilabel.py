"""FedKD with several labels for each row, some of them unknown: five labels of Adult; as Markdown.

ONEBALLOT_DATA=DIR python benchmarks/fedkd_multilabel.py [--seeds 3]

DIR/adult/adult.data is UCI's file. Six parties with 6,000 rows, split by Dirichlet(0.3) over the rarest label of a row.
Three know income, marriage and sex, the other three sex, hours and degree, so that no party knows all five labels, like
the two sources of the paper's chest X-rays. 1,000 public rows, labelled for the last two lines, as in the paper's
Table 4; 5,000 test rows. Areas under the ROC curve in %.
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
from sklearn.metrics import roc_auc_score

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import oneballot as ob
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Array, Data, Task

LABELS = ("above 50K", "married", "male", "over 40 hours", "degree")
KNOWN = ((0, 1, 2), (2, 3, 4))
PARTIES, ROWS, PUBLIC, TESTED = 6, 1000, 1000, 5000
NETWORK = ob.Torch("mlp", epochs=20, device="cpu")
FINAL = ob.Torch("mlp", epochs=60, device="cpu")


def read(path: Path) -> tuple[Array, Array]:
    """Features: age, capital, work class, occupation, race and country; and the five labels."""
    with path.open(encoding="utf-8", newline="") as file:
        people = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
    column = {i: np.array([row[i] for row in people]) for i in range(15)}
    numbers = [column[0].astype(float) / 90, *(np.log1p(column[i].astype(float)) / 12 for i in (10, 11))]
    one_hot = [(column[i][:, None] == np.unique(column[i])).astype(float) for i in (1, 6, 8, 13)]
    answers = (
        column[14] == ">50K",
        np.char.startswith(column[5], "Married"),
        column[9] == "Male",
        column[12].astype(int) > 40,
        column[4].astype(int) >= 13,
    )
    return np.column_stack([*numbers, *one_hot]).astype(np.float32), np.column_stack(answers).astype(int)


def areas(probabilities: Array, y: Array) -> Array:
    return np.array([100 * roc_auc_score(y[:, c], probabilities[:, c]) for c in range(len(LABELS))])


def trained(X: Array, y: Array, tested: Array, seed: int) -> Array:
    (model,) = NETWORK.fit_many(X, [Task(np.arange(len(y)), y, "multilabel", seed=seed)], len(LABELS))
    return model.predict_proba(tested)


def run(X: Array, y: Array, seed: int) -> dict[str, Array]:
    order = np.random.default_rng(seed).permutation(len(y))
    public, private, test = np.split(order[: PUBLIC + PARTIES * ROWS + TESTED], [PUBLIC, PUBLIC + PARTIES * ROWS])

    def election(**settings: Any) -> ob.Election:
        labels = {"public_labels": y[public]} if settings.get("join_public") else {}
        method = ob.FedKD(**settings)
        learners = {"teacher": NETWORK, "final": FINAL}
        return ob.Election(LABELS, X[public], method, learners=learners, multilabel=True, seed=seed, **labels)

    parties: dict[str, Data] = {}
    agreed = election()
    divided = divide(agreed.data(X[private], y[private]), PARTIES, "dirichlet:0.3", seed, target=agreed.target)
    for i, (name, data) in enumerate(divided.items()):
        marks = np.where(np.isin(np.arange(5), KNOWN[i % 2]), data.y, 0)
        parties[name] = Data(data.X, marks)
    aucs = {"parties alone": np.nanmean([alone(data, X[test], y[test], seed) for data in parties.values()], axis=0)}
    for name, settings in {
        "FedKD": {},
        "FedKD, γ = 1": {"gamma": 1.0},
        "FedKD, plain mean": {"weights": "uniform"},
        "FedKD, labels (τ = 0)": {"temperature": 0.0},
        "FedKD, labelled public rows joined": {"join_public": True},
    }.items():
        simulation = simulate_parties(election(**settings), parties)
        aucs[name] = areas(simulation.outcome.probabilities(X[test]), y[test])
        aucs.setdefault("bytes", np.array([max(len(b.sealed) for b in simulation.ballots)]))
    marks = 2 * y - 1
    aucs["labelled public rows only"] = areas(trained(X[public], marks[public], X[test], seed), y[test])
    pooled = np.concatenate([d.X for d in parties.values()] + [X[public]])
    known = np.concatenate([d.y for d in parties.values()] + [marks[public]])
    aucs["all of it together"] = areas(trained(pooled, known, X[test], seed), y[test])
    return aucs


def alone(data: Data, X: Array, y: Array, seed: int) -> Array:
    """The AUCs of a party's own model, on the labels that it knows."""
    return np.where((data.y != 0).any(axis=0), areas(trained(data.X, data.y, X, seed), y), np.nan)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)  # parties lack classes by design
    X, y = read(Path(os.environ.get("ONEBALLOT_DATA", ".")) / "adult" / "adult.data")
    runs = [run(X, y, seed) for seed in range(options.seeds)]
    print(f"| | {' | '.join(LABELS)} | mean |\n|{'---|' * (len(LABELS) + 2)}")
    for name in (k for k in runs[0] if k != "bytes"):
        values = np.stack([r[name] for r in runs])
        means = values.mean(axis=1)
        shown = [f"{v:.1f}" for v in values.mean(axis=0)]
        print(
            f"| {name} | {' | '.join(shown)} | {means.mean():.2f} ± {means.std(ddof=1) if len(means) > 1 else 0:.2f} |"
        )
    print(f"\nSeeds: {options.seeds}. The largest sealed ballot: {max(int(r['bytes'][0]) for r in runs):,} bytes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
