"""How large a ballot is with two tallies, beside a plain one: python benchmarks/shares.py

A ballot of one party with 1,200 random rows, where the public set has as many rows and columns as Adult's: 4,070 and
14, two classes. Sizes follow from the election and not from the rows. The target is four times a plain ballot and two
bytes a number.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import oneballot as ob
from figures import begin, end, show
from oneballot.ballot.keys import public_text
from oneballot.interfaces import Method
from oneballot.party.context import PartyContext
from oneballot.privacy.settings import L0

PUBLIC, ROWS, COLUMNS = 4070, 1200, 14
KEY = Ed25519PrivateKey.generate()
SERVERS = {side: public_text(X25519PrivateKey.generate()) for side in "ab"}
L2, L1 = ob.L2(1.0, stable_ids=True), ob.L1(8.0)
TEACHERS = ob.FedKT(open_vote="off", subsets=50)
CASES: dict[str, tuple[Method, Any, dict[str, int]]] = {
    "fedkt, L0, hard votes": (ob.FedKT(influence="claimed", open_vote="hard"), L0, {}),
    "fedkt, L0, weighted": (ob.FedKT(influence="claimed", open_vote="weighted"), L0, {}),
    "fedkt, L0, odds": (ob.FedKT(influence="claimed", open_vote="odds"), L0, {}),
    "fedkt, L0, class counts": (ob.FedKT(influence="claimed", weights="class-counts"), L0, {}),
    "fedkt, L1": (ob.FedKT(open_vote="off"), L1, {}),
    "fedkt, L2": (TEACHERS, L2, {}),
    "fedkt, L2, no class counts, 20 parties": (replace(TEACHERS, count_classes=False), L2, {"parties": 20}),
    "fedkt, L2, soft votes": (replace(TEACHERS, voting="soft"), L2, {}),
    "fedkd, L0": (ob.FedKD(temperature=0.0, influence="claimed"), L0, {}),
    "fedkd, L1": (ob.FedKD(temperature=0.0), L1, {}),
    "fedkd, L2": (ob.FedKD(temperature=0.0, subsets=25), L2, {}),
    "neighbours, L0": (ob.Neighbours(influence="claimed"), L0, {}),
    "neighbours, L1": (ob.Neighbours(), L1, {}),
    "neighbours, L2": (ob.Neighbours(), L2, {}),
    "analytic, L0": (ob.Analytic(influence="claimed"), L0, {}),
    "analytic, L2": (ob.Analytic(), L2, {}),
}


def cast(method: Method, privacy: Any, tallies: dict[str, Any] | None) -> tuple[ob.Election, int]:
    """The election, and the bytes of a ballot."""
    rng = np.random.default_rng(0)
    public, X = (rng.random((rows, COLUMNS), dtype=np.float32) for rows in (PUBLIC, ROWS))
    if tallies is None and isinstance(method, ob.FedKT):
        method = replace(method, count_classes=None)
    election = ob.Election(
        classes=[0, 1], public=public, method=method, learner=ob.Sklearn("GaussianNB"), privacy=privacy,
        tallies=tallies, roster={"a": public_text(KEY)}, server_key=None if tallies else "none",
    )  # fmt: skip
    ids = np.arange(ROWS).astype(str) if privacy.level == "L2" else None
    return election, len(ob.cast(election, X, rng.integers(2, size=ROWS), party="a", ids=ids, key=KEY).sealed)


def main() -> int:
    begin()
    for name, (method, privacy, settings) in CASES.items():
        _, plain = cast(method, privacy, None)
        election, shared = cast(method, privacy, {**SERVERS, **settings})
        ranges = election.method.shared_sums(PartyContext(election, "a"))
        assert ranges is not None, "built-in methods declare their sums"
        most = 4 * plain + 2 * sum(int(np.prod(each.shape)) for each in ranges.values())
        figures = f"plain {plain:,} B, two tallies {shared:,} B, {shared / most:.2f} of the target"
        show(name, figures, f"≤ {most:,} B", shared <= most)
    return end()


if __name__ == "__main__":
    sys.exit(main())
