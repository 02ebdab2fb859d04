"""A small election with two tallies: digits, five parties with keys, and the keys of both servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import oneballot as ob
from oneballot.ballot.keys import public_text
from oneballot.boxes.folder import Folder
from oneballot.election.tallies import Side
from oneballot.party.cast import cast
from oneballot.simulation import divide
from oneballot.types import Ballot, Data

NAMES = ("clinic-1", "clinic-2", "clinic-3", "clinic-4", "clinic-5", "clinic-6", "clinic-7")


@dataclass
class Federation:
    """An election and all its secret keys. `cast` puts a party's ballot into the box."""

    election: ob.Election
    parties: dict[str, Data]
    keys: dict[str, Ed25519PrivateKey]
    servers: dict[Side, X25519PrivateKey]
    box: Folder
    ballots: dict[str, Ballot] = field(default_factory=dict)

    def make(self, party: str) -> Ballot:
        data = self.parties[party]
        return cast(self.election, data.X, data.y, party=party, key=self.keys[party])

    def cast(self, *names: str) -> None:
        for party in names:
            self.ballots[party] = self.make(party)
            self.box.deliver(party, self.ballots[party].sealed)


@pytest.fixture
def federation(digits, tmp_path) -> Callable[..., Federation]:
    servers: dict[Side, X25519PrivateKey] = {"a": X25519PrivateKey.generate(), "b": X25519PrivateKey.generate()}
    keys = {name: Ed25519PrivateKey.generate() for name in NAMES}
    parties = dict(zip(NAMES, divide(Data(digits.X, digits.y), len(NAMES), "homogeneous").values(), strict=True))

    def make(tallies: dict[str, Any] | None = None, **settings: Any) -> Federation:
        usual = {
            "classes": range(10), "public": digits.public[:60], "method": ob.Analytic(influence="claimed"),
            "roster": {name: public_text(key) for name, key in keys.items()}, "quorum": 3,
        }  # fmt: skip
        shared = {"a": public_text(servers["a"]), "b": public_text(servers["b"]), **(tallies or {})}
        election = ob.Election(**{**usual, **settings, "tallies": shared})
        return Federation(election, parties, keys, servers, Folder(tmp_path / "box"))

    return make


def plain(election: ob.Election) -> ob.Election:
    """The same election, with the same digest and hence the same seeds, with one tally."""
    method = election.method
    if isinstance(method, ob.FedKT):  # without the settings that need two tallies
        method = replace(method, estimate=None, count_classes=None)
    return replace(election, tallies=None, method=method, roster={}, quorum=1, variant_of=election.digest)
