"""What it costs to suppress small counts, on digits: accuracy with all rows, without small classes, and with 0 sent.

python benchmarks/small_counts.py
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import OneBallotWarning
from oneballot.party.cast import cast_together
from oneballot.party.context import PartyContext
from oneballot.party.small_counts import CountRule, released_counts, suppress_small
from oneballot.server.tally import tally
from oneballot.simulation import divide
from oneballot.types import Ballot, Data

RULE = CountRule(10, "suppress")
METHODS = {
    "open ensemble": ob.Ensemble(weights="open"),
    "ensemble": ob.Ensemble(),
    "analytic": ob.Analytic(features="fourier"),
    "fedkt, class counts": ob.FedKT(weights="class-counts", open_vote="off"),
}


def suppressed(election: ob.Election, party: str, data: Data) -> Data:
    ctx = PartyContext(election, party)
    return suppress_small(data, released_counts(election.method.plan(data, ctx).counts, ctx, data), RULE, ctx)[0]


def with_zero(election: ob.Election, ballot: Ballot) -> Ballot:
    """The ballot with small counts as 0, of a model that has learned from the rows."""
    seen = np.asarray(ballot.contents["seen"])
    return seal({**ballot.contents, "seen": np.where(seen < RULE.min_count, 0, seen)}, election, ballot.party)


def main() -> None:
    warnings.simplefilter("ignore", OneBallotWarning)
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    print("method, Dirichlet: withheld, accuracy, suppressed, 0 sent (%)")
    for name, method in METHODS.items():
        for beta in (0.5, 0.1):
            found = []
            for seed in range(3):
                test, public, private = np.split(np.random.default_rng(seed).permutation(len(y)), [450, 900])
                election = ob.Election(classes=range(10), public=X[public], method=method)
                held = divide(election.data(X[private], y[private]), 10, f"dirichlet:{beta}", seed)
                fewer = {party: suppressed(election, party, data) for party, data in held.items()}
                ballots = cast_together(election, held)
                zero = [with_zero(election, b) for b in ballots] if "seen" in ballots[0].contents else []
                gone = 1 - sum(map(len, fewer.values())) / len(private)
                scores = [
                    np.mean(tally(election, cast).probabilities(X[test]).argmax(axis=1) == y[test]) if cast else np.nan
                    for cast in (ballots, cast_together(election, fewer), zero)
                ]
                found.append([gone, *scores])
            print(f"{name}, {beta}:", *(f"{100 * value:.1f}" for value in np.mean(found, axis=0)), flush=True)


if __name__ == "__main__":
    main()
