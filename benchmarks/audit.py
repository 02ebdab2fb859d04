"""How often the audit refutes an election: with the stated noise, half of it, and every vote or sum counted twice.

The mutants replace one function of the code that draws noise. Each audit uses the number of runs that `oneballot audit`
chooses by default. Audits of mutants end when they refute the claim, which changes nothing else.

    python benchmarks/audit.py --repeats 30
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import oneballot as ob
from oneballot.audit.power import Simulation
from oneballot.audit.run import FOR_THE_BOUND, PLANNED, _Attacker, _Guesses, audit
from oneballot.ballot.keys import public_text
from oneballot.ballot.sealed_shares import seal_shares
from oneballot.errors import OneBallotWarning
from oneballot.party import shared_count
from oneballot.party.context import PartyContext
from oneballot.privacy.mechanisms import NoisyArgmax, NoisyNumbers, round_up

CONFIDENCE = 0.95
IDS: dict[str, Any] = {"stable_ids": True}
TWO = "two tallies"
SERVERS = {side: public_text(X25519PrivateKey.generate()) for side in "ab"}
ELECTIONS: dict[str, tuple[Any, Any, int]] = {
    # privacy, method, classes
    "FedKT, L2, ε=1, 2 classes": (ob.L2(1.0, **IDS), ob.FedKT(), 2),
    "FedKT, L2, ε=4, 10 classes, no IDs": (ob.L2(4.0), ob.FedKT(), 10),
    "FedKT, L1, ε=2, 2 classes": (ob.L1(2.0), ob.FedKT(), 2),
    "FedKT, L2, ε=2, Confident-GNMax":
        (ob.L2(2.0, mechanism="confident", threshold=15, answers=100, **IDS), ob.FedKT(), 2),
    "FedKD, L2, ε=1, 2 classes": (ob.L2(1.0, **IDS), ob.FedKD(temperature=0), 2),
    "FedKD, L1, ε=2, 10 classes": (ob.L1(2.0), ob.FedKD(temperature=0), 10),
    "analytic, L2, ε=1, 2 classes": (ob.L2(1.0, **IDS), ob.Analytic(), 2),
    "neighbours, L2, ε=1, 2 classes": (ob.L2(1.0, **IDS), ob.Neighbours(), 2),
    "analytic, L2, ε=8, 10 classes, no IDs": (ob.L2(8.0), ob.Analytic(), 10),
    f"analytic, {TWO}, L2, ε=1, 2 classes": (ob.L2(1.0, **IDS), ob.Analytic(), 2),
}  # fmt: skip


@contextmanager
def half_noise() -> Iterator[None]:
    """Votes and numbers get half of the stated noise."""

    def weaker(name: str, honest: Callable[..., Any]) -> Callable[..., Any]:
        def draw(self: Any, *given: Any, **more: Any) -> Any:
            return honest(replace(self, **{name: round_up(getattr(self, name) / 2)}), *given, **more)

        return draw

    with (
        patch.object(NoisyArgmax, "draw", weaker("scale", NoisyArgmax.draw)),
        patch.object(NoisyNumbers, "draw", weaker("sigma", NoisyNumbers.draw)),
    ):
        yield


@contextmanager
def counted_twice() -> Iterator[None]:
    """What is released is counted twice before noise is added."""
    decide, release = PartyContext.decide, PartyContext.release
    with (
        patch.object(shared_count, "seal_shares", lambda numbers, *more: seal_shares(2 * numbers, *more)),
        patch.object(PartyContext, "decide", lambda self, votes, **more: decide(self, 2 * votes, **more)),
        patch.object(PartyContext, "release", lambda self, numbers, **more: release(self, 2 * numbers, **more)),
    ):
        yield


@contextmanager
def honest() -> Iterator[None]:
    yield


def election(privacy: Any, method: Any, classes: int, *, two: bool) -> ob.Election:
    public = np.random.default_rng(0).normal(size=(200, 14)).astype(np.float32)
    return ob.Election(range(classes), public, method, privacy=privacy, tallies=SERVERS if two else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--only", default="", help="elections whose name has this text")
    options = parser.parse_args()
    warnings.simplefilter("ignore", OneBallotWarning)
    most = -math.log((1 - FOR_THE_BOUND) * (1 - CONFIDENCE))
    print("| election | runs × canaries | refuted: stated noise | half | counted twice | passes above | CPU s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, settings in ELECTIONS.items():
        if options.only not in name:
            continue
        agreed = election(*settings, two=TWO in name)
        started = time.process_time()
        whole = audit(agreed)
        seconds = time.process_time() - started
        attacker = _Attacker(agreed, None, None, None)
        plan = Simulation([attacker.flip() for _ in range(PLANNED)], attacker.levels)
        runs = min(plan.runs_needed(most), whole.runs)
        shares = []
        for mutant in (honest, half_noise, counted_twice):
            with mutant():
                refuted = sum(_refutes(attacker, runs, most) for _ in range(options.repeats))
            shares.append(f"{refuted} of {options.repeats}")
        noticed = plan.noticed(runs, most)
        passes = "-" if noticed is None else f"{noticed:.0%}"
        cells = [name, f"{runs:,} × {attacker.canaries}", *shares, passes, f"{seconds:.0f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def _refutes(attacker: _Attacker, runs: int, most: float) -> bool:
    guesses = _Guesses(attacker.levels)
    for number in range(1, runs + 1):
        trial = attacker.flip()
        guesses.add(trial, trial.losses(attacker.run(trial)), attacker.canaries)
        if (number % 10 == 0 or number == runs) and math.log(guesses.wealth) >= most:
            return True
    return False


if __name__ == "__main__":
    main()
