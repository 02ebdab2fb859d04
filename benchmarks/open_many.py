"""How many members an open ensemble of 200 parties needs, and which: accuracy by the rule that selects them.

python benchmarks/open_many.py [--parties 200] [--rows 100] [--seeds 0] [--tables Adult cod-rna]

Each party has 100 rows on average; there are 300 public rows and 2,000 test rows. "By class" is the rule of the tally
(`open_count.most_important`), with public rows and without; the others are the parties with the most rows, and random
ones. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

import oneballot as ob
from oneballot.methods.ensemble.open_count import most_important
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Array, Data
from open_tables import TABLES, Missing

SIZES = (8, 16, 32, 64, 128)
SPLITS = ("homogeneous", "dirichlet:0.5", "dirichlet:0.1")


def take(columns: dict[str, Array], rows: Array) -> dict[str, Array]:
    return {name: column[rows] for name, column in columns.items()}


def run(table: str, split: str, parties: int, rows: int, seed: int) -> dict[str, list[float]]:
    """The accuracy of each rule for each of SIZES, and last with all members."""
    columns, labels = TABLES[table]()
    test, public, own = np.split(np.random.default_rng(seed).permutation(len(labels)), [2000, 2300])
    election = ob.Election(
        np.unique(labels).tolist(),
        take(columns, public),
        method=ob.Ensemble(weights="open", most_members=parties),
        schema=ob.Schema.from_frame(columns),
        seed=seed,
    )
    data = election.data({**columns, "label": labels})
    private = Data(data.X[own[: parties * rows]], data.y[own[: parties * rows]])
    held = {party: d for party, d in divide(private, parties, split, seed).items() if len(d)}
    model: Any = simulate_parties(election, held).outcome.model.model_
    counts = np.stack([election.target.class_counts(held[party].y) for party in sorted(held)])
    rules = {
        "by class, public rows": lambda m: most_important(model, counts, m, election.public),
        "by class, own rows": lambda m: most_important(model, counts, m, None),
        "most rows": lambda m: np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:m]),
        "random": lambda m: np.sort(np.random.default_rng(seed).permutation(len(held))[:m]),
    }

    def accuracy(chosen: Any) -> float:
        return 100 * float((chosen.predict_proba(data.X[test]).argmax(axis=1) == data.y[test]).mean())

    everyone = accuracy(model)
    return {name: [*(accuracy(model.only(rule(m))) for m in SIZES), everyone] for name, rule in rules.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--tables", nargs="+", default=["Adult", "cod-rna"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"| table | split | rule | {' | '.join(map(str, SIZES))} | all | seconds |")
    print("|---" * (5 + len(SIZES)) + "|")
    for table in args.tables:
        for split in SPLITS:
            start = time.perf_counter()
            try:
                results = [run(table, split, args.parties, args.rows, seed) for seed in args.seeds]
            except Missing as error:
                print(f"{table}: skipped ({error})")
                break
            seconds = (time.perf_counter() - start) / len(args.seeds)
            for rule in results[0]:
                values = " | ".join(f"{v:.1f}" for v in np.mean([r[rule] for r in results], axis=0))
                print(
                    f"| {table} | {split.removeprefix('dirichlet:')} | {rule} | {values} | {seconds:.0f} |", flush=True
                )


if __name__ == "__main__":
    main()
