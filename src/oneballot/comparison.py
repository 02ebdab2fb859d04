"""An election's outcome after one message beside what iterative and central methods come to on the same parties."""

from __future__ import annotations

import csv
import io
import json
import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .election.checks import check_learner
from .election.election import Election
from .election.file import make
from .errors import DataError, ElectionError
from .peers import ChoosyPeer, Peer
from .privacy.settings import L0
from .report.plots import plot_comparison
from .runtime.files import write_atomic
from .runtime.progress import track
from .server.context import TallyContext
from .server.outcome import Outcome
from .simulation import Simulation, accuracy, simulate_parties
from .types import Blob, Data


@dataclass(frozen=True)
class Standing:
    """A peer after a round. up, down: bytes of all parties together so far. seconds: of its work so far."""

    accuracy: float
    up: int
    down: int
    seconds: float

    @property
    def bytes(self) -> int:
        return self.up + self.down


@dataclass(frozen=True)
class Standings:
    """A peer after each of its rounds, the first first."""

    peer: Peer
    rounds: tuple[Standing, ...]

    @property
    def first(self) -> Standing:
        return self.rounds[0]

    @property
    def last(self) -> Standing:
        return self.rounds[-1]

    @property
    def best(self) -> Standing:
        """The most accurate round: a choice that only somebody with the test rows could make."""
        return max(self.rounds, key=lambda standing: standing.accuracy)

    def within(self, bytes: int) -> Standing | None:
        """The last round that all parties together have exchanged at most so many bytes for; None if none has."""
        return next((standing for standing in reversed(self.rounds) if standing.bytes <= bytes), None)

    def passing(self, accuracy: float) -> int | None:
        """After how many rounds it is at least so accurate, for the first time; None if never."""
        return next((i for i, s in enumerate(self.rounds, start=1) if s.accuracy >= accuracy), None)


class _Desk(TallyContext):
    """A tally's desk at which the outcome of this election is at hand to go on from."""

    def __init__(self, election: Election, outcome: Outcome | None) -> None:
        super().__init__(replace(election, privacy=L0, roster={}, quorum=1))
        self._outcome = outcome

    @property
    def start(self) -> Blob | None:
        return super().start if self._outcome is None else self._outcome.model.dump()


def compare(
    peer: Peer | str, election: Election, parties: Mapping[str, Data], test: Data, *, outcome: Outcome | None = None
) -> Standings:
    """Run a peer among these parties, with the election's learners, and test it after every round.

    A peer may be given as `oneballot compare` takes one, as in "fedavg:rounds=50".
    A peer whose `init` is "outcome" begins with the outcome, that of a simulation among the same parties if none is
    given; what that took in bytes is counted with the rest.
    """
    peer = read_peer(peer) if isinstance(peer, str) else peer
    begin, ballots, replies = time.monotonic(), 0, 0
    check_peer(peer, election)
    if not any(map(len, parties.values())):
        raise DataError("no party has a row, so there is nothing to compare")
    if getattr(peer, "init", None) == "outcome":
        outcome = outcome or simulate_parties(election, parties).outcome
        ballots, replies = outcome.bytes, len(parties) * len(outcome.model.dump().data)
    else:
        outcome = None
    found = []
    with _Desk(election, outcome) as ctx:
        seconds, begin = time.monotonic() - begin, time.monotonic()
        for turn in track(f"rounds of {peer.name}", peer.run(list(parties.values()), ctx), peer.rounds):
            seconds += time.monotonic() - begin
            right = float(np.mean([accuracy(model.predict_proba(test.X), test.y) for model in turn.models]))
            found.append(Standing(right, turn.up + ballots, turn.down + replies, seconds))
            begin = time.monotonic()
    if not found:
        raise DataError(f"{peer.name} came to no model")
    return Standings(peer, tuple(found))


def standing_of(simulation: Simulation, test: Data, seconds: float) -> Standing:
    """An election after its one message: what was cast, and the final model sent to every party."""
    replies = len(simulation.parties) * len(simulation.outcome.model.dump().data)
    return Standing(simulation.accuracy(test), simulation.outcome.bytes, replies, seconds)


def check_peer(peer: Peer, election: Election) -> None:
    """Raise ElectionError for a peer that cannot be run with the election's learners, before anything is trained."""
    if "public" in peer.needs and election.public is None:
        raise ElectionError(f"{peer.name} needs a public set: rows that everybody may have")
    for role in peer.needs.keys() - {"public", "public labels"}:
        check_learner(peer, role, election.learner_of(role), multilabel=election.multilabel)
    if isinstance(peer, ChoosyPeer):
        peer.check(election.learner_of("final"), multilabel=election.multilabel)


def read_peer(text: str) -> Peer:
    """A peer as people write one: its name, or `name:setting=value,setting=value`."""
    name, _, rest = text.partition(":")
    settings: dict[str, Any] = {"name": name.strip()}
    for part in filter(None, rest.split(",")):
        key, equals, value = map(str.strip, part.partition("="))
        if not equals or not value:
            raise ElectionError(f"peer {text!r}: {part!r} is not setting=value, as in fedavg:rounds=50,epochs=2")
        settings[key] = _read_value(value)
    peer: Peer = make("peers", settings, f"peer {text!r}")
    return peer


def _read_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def describe(label: str, own: Standing, peers: Mapping[str, Standings], about: Mapping[str, Any]) -> dict[str, Any]:
    """All that was found, as plain values."""
    return {
        **about,
        "outcome": {"name": label, **asdict(own)},
        "peers": [
            {
                "peer": name, "settings": {"name": found.peer.name, **asdict(found.peer)},  # type: ignore[call-overload]
                "rounds": [{"round": i, **asdict(s)} for i, s in enumerate(found.rounds, start=1)],
            }
            for name, found in peers.items()
        ],
    }  # fmt: skip


def save(folder: Path, label: str, own: Standing, peers: Mapping[str, Standings], about: Mapping[str, Any]) -> None:
    """comparison.json, comparison.csv and, where it can be drawn, comparison.png: accuracy against bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    told = describe(label, own, peers, about)
    write_atomic(folder / "comparison.json", json.dumps(told, indent=1, ensure_ascii=False).encode())
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(["peer", "round", "accuracy", "up", "down", "seconds"])
    named = {label: (own,), **{name: found.rounds for name, found in peers.items()}}
    table.writerows([name, i, *astuple(s)] for name, rounds in named.items() for i, s in enumerate(rounds, start=1))
    write_atomic(folder / "comparison.csv", lines.getvalue().encode())
    curves = {name: [(s.bytes, s.accuracy) for s in rounds] for name, rounds in named.items()}
    plot_comparison(curves, folder / "comparison.png")
