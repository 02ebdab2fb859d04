"""Compare FedKT after one message with rounds of FedAvg, FedProx, FedAvgM and SCAFFOLD: MNIST, 10 parties, Dirichlet.

python benchmarks/peers.py [--rows 12000] [--rounds 50] [--epochs 10] [--beta 0.5] [--module mlp] [--seed 0] [--out DIR]

As in FedKT's appendix B.1: Adam at 0.001, weight decay 1e-6, 10 local epochs. Half of the test set is public, the
other half is for testing. Prints Markdown; a seed determines the split and the election.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import oneballot as ob
from oneballot.comparison import PeerResult, RoundResult, compare, election_result, save
from oneballot.simulation import divide, simulate_parties
from oneballot_lab import load

PEERS = (
    "solo",
    "fedavg:rounds={rounds},epochs={epochs}",
    "fedprox:rounds={rounds},epochs={epochs},mu=0.1",
    "fedavgm:rounds={rounds},epochs={epochs},momentum=0.5",
    "scaffold:rounds={rounds},epochs={epochs}",
    "scaffold:rounds={rounds},epochs={epochs},optimizer=sgd,learning_rate=0.05",
    "fedprox:rounds={rounds},epochs={epochs},mu=0.1,init=outcome",
)


def line(name: str, own: RoundResult, found: PeerResult) -> str:
    same, passing = found.within(own.bytes), found.passing(own.accuracy)
    cost = "–" if passing is None else f"{passing}, {found.rounds[passing - 1].bytes / 1e6:,.1f} MB"
    return (
        f"| `{name}` | {found.first.accuracy:.1%} | {'–' if same is None else f'{same.accuracy:.1%}'} | "
        f"{found.last.accuracy:.1%} | {found.last.bytes / 1e6:,.1f} MB | {cost} | {found.last.seconds:.0f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--beta", type=float, default=0.5)
    parser.add_argument("--module", default="mlp")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", nargs="*", default=PEERS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)
    data = load("mnist")
    rng = np.random.default_rng(args.seed)
    order, half = rng.permutation(len(data.y_test)), len(data.y_test) // 2
    rows = rng.permutation(len(data.y))[: args.rows]
    learner: Any = ob.Torch(args.module, epochs=20, weight_decay=1e-6, device=args.device)
    election = ob.Election(range(10), data.X_test[order[:half]], ob.FedKT(), learner=learner, seed=args.seed)
    parties = divide(election.data(data.X[rows], data.y[rows]), 10, f"dirichlet:{args.beta:g}", args.seed)
    test = election.data(data.X_test[order[half:]], data.y_test[order[half:]])
    begin = time.perf_counter()
    run = simulate_parties(election, parties)
    own = election_result(run, test, time.perf_counter() - begin)
    print(f"MNIST, {args.module}, {args.rows:,} rows, 10 parties, Dirichlet {args.beta:g}, seed {args.seed}\n")
    print("| | 1 round | equal bytes | last round | bytes | reaches FedKT in | time |\n|---|---|---|---|---|---|---|")
    print(
        f"| FedKT, one message | {own.accuracy:.1%} | | | {own.bytes / 1e6:,.2f} MB | | {own.seconds:.0f} s |",
        flush=True,
    )
    found: dict[str, PeerResult] = {}
    for text in args.peers:
        name = text.format(rounds=args.rounds, epochs=args.epochs)
        found[name] = compare(name, election, parties, test, outcome=run.outcome)
        print(line(name, own, found[name]), flush=True)
        if args.out is not None:
            save(args.out, "fedkt", own, found, {"seed": args.seed, "beta": args.beta, "rows": args.rows})


if __name__ == "__main__":
    main()
