"""Accuracy on Adult with two tallies, beside L2, where every party adds noise of its own.

python benchmarks/two_tallies.py [--seeds 10] [--first 0] [--only analytic fedkt] [--split homogeneous dirichlet:0.5]
                                 [--epsilon 0.4]

20 parties, the unit is a row, delta 1e-5, adjacency replace with stable IDs. Both servers run in this process, with the
functions that `oneballot tally --share` and `oneballot combine` use. Settings were chosen on seeds 100 to 105.
"""

from __future__ import annotations

import argparse
import sys
from itertools import islice

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import oneballot as ob
from figures import Cut, begin, cuts, end, show
from oneballot.ballot.keys import public_text
from oneballot.interfaces import Method
from oneballot.report.metrics import accuracy
from oneballot.simulation import divide, simulate_parties

DELTA = 1e-5
PARTIES = 20
SPLITS = ("dirichlet:0.5", "homogeneous")
TEACHER = ob.Sklearn("LogisticRegression", {"class_weight": "balanced", "max_iter": 200})
FINAL = ob.Sklearn("LogisticRegressionCV", {
    "Cs": [10**x for x in np.linspace(-4.5, 1, 8).tolist()], "cv": 3, "scoring": "neg_log_loss", "max_iter": 200,
    "l1_ratios": [0.0], "use_legacy_attributes": False,
})  # fmt: skip
METHODS: dict[tuple[str, bool], Method] = {
    ("analytic", False): ob.Analytic(), ("analytic", True): ob.Analytic(),
    ("fedkt", False): ob.FedKT(open_vote="off", subsets=50, final_weights="lead"),
    ("fedkt", True): ob.FedKT(open_vote="off", subsets=100),
}  # fmt: skip
"""By name, and whether ballots are shared. With each party's noise the lead of a label is the better weight. With one
noise for all parties, more teachers raise the votes and not the noise."""
BUDGETS = {"analytic": (0.2, 0.4, 1.0), "fedkt": (0.5, 1.0)}
BARS = {("analytic", 0.4, "dirichlet:0.5"): 83.0, ("fedkt", 0.5, "dirichlet:0.5"): 80.0}
KEYS = {side: public_text(X25519PrivateKey.generate()) for side in "ab"}


def run(name: str, epsilon: float, cut: Cut, split: str, seed: int, *, shared: bool) -> float:
    """The accuracy of one election, in percent."""
    learners = {"teacher": TEACHER, "final": FINAL} if name == "fedkt" else {}
    election = ob.Election(
        classes=[0, 1], public=cut.public, method=METHODS[name, shared], learners=learners, seed=seed,
        privacy=ob.L2(epsilon, DELTA, stable_ids=True), tallies=KEYS if shared else None,
    )  # fmt: skip
    assert election.guarantee is not None
    assert election.guarantee.epsilon() <= epsilon
    data = election.data(cut.X, cut.y, ids=np.arange(len(cut.y)).astype(str))
    made = simulate_parties(election, divide(data, PARTIES, split, seed))
    test = election.data(cut.X_test, cut.y_test)
    return 100 * accuracy(made.probabilities(test), test.y)


def measure(name: str, epsilon: float, split: str, first: int, seeds: int) -> None:
    several = list(islice(cuts("adult", first + seeds), first, None))
    found = {
        shared: [run(name, epsilon, cut, split, seed, shared=shared) for seed, cut in several]
        for shared in (False, True)
    }
    if several:
        words = {shared: f"{np.mean(each):.1f} ± {np.std(each, ddof=1):.1f} %" for shared, each in found.items()}
        least = BARS.get((name, epsilon, split))
        met = None if least is None else bool(np.mean(found[True]) >= least)
        target = "" if least is None else f"≥ {least} %"
        show(f"{name}, {split}, ε = {epsilon:g}", f"L2 {words[False]}; two tallies {words[True]}", target, met)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(BUDGETS))
    parser.add_argument("--split", nargs="*", default=list(SPLITS))
    parser.add_argument("--epsilon", type=float, nargs="*")
    options = parser.parse_args()
    begin()
    for name in options.only:
        for split in options.split:
            for epsilon in options.epsilon or BUDGETS[name]:
                measure(name, epsilon, split, options.first, options.seeds)
    return end()


if __name__ == "__main__":
    sys.exit(main())
