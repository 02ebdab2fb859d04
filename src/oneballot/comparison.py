"""Compare an election, after its one message, with iterative and central methods on the same parties."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import plugins
from .election.checks import check_learner, learner_of
from .election.election import Election
from .election.file import make
from .election.targets import supports
from .errors import DataError, ElectionError
from .interfaces import Learner
from .notebook import Shown
from .peers import Peer, Round
from .privacy.settings import L0
from .report.plots import plot_comparison
from .runtime.files import write_atomic
from .runtime.progress import progress_reporter
from .runtime.scheduler import run
from .server.context import TallyContext
from .server.outcome import Outcome
from .settings import parse_settings
from .simulation import Simulation, simulate_steps
from .sparse import as_dense
from .types import Array, Blob, Data, Steps, Together


@dataclass(frozen=True)
class RoundResult:
    """The test accuracy after a round, the bytes sent (up) and received (down) by all parties, and seconds, so far."""

    accuracy: float
    up: int
    down: int
    seconds: float

    @property
    def bytes(self) -> int:
        return self.up + self.down


@dataclass(frozen=True)
class PeerResult(Shown):
    """The results of a peer, round by round."""

    peer: Peer
    rounds: tuple[RoundResult, ...]

    @property
    def first(self) -> RoundResult:
        return self.rounds[0]

    @property
    def last(self) -> RoundResult:
        return self.rounds[-1]

    @property
    def best(self) -> RoundResult:
        """The most accurate round. It is chosen on the test rows, so it is optimistic."""
        return max(self.rounds, key=lambda result: result.accuracy)

    def within(self, bytes: int) -> RoundResult | None:
        """The last round with at most this many bytes exchanged by all parties together; None if there is none."""
        return next((result for result in reversed(self.rounds) if result.bytes <= bytes), None)

    def passing(self, accuracy: float) -> int | None:
        """The number of the first round that is at least this accurate; None if there is none."""
        return next((i for i, result in enumerate(self.rounds, start=1) if result.accuracy >= accuracy), None)


class _PeerContext(TallyContext):
    """A tally's context with the learners that the peer declares. Its `start` is the outcome of this election, if one
    is given, and its rows are dense."""

    def __init__(self, peer: Peer, election: Election, outcome: Outcome | None) -> None:
        super().__init__(replace(election, privacy=L0, roster={}, quorum=1, tallies=None))
        self._peer, self._outcome = peer, outcome

    def _learner(self, role: str) -> Learner:
        return learner_of(self._peer, {each: self.election.learner_of(each) for each in self._peer.needs}, role)

    @cached_property
    def public(self) -> Array | None:
        return None if self.election.public is None else as_dense(self.election.public, "the public set")

    @property
    def start(self) -> Blob | None:
        return super().start if self._outcome is None else self._outcome.model.dump()


def compare(
    peer: Peer | str, election: Election, parties: Mapping[str, Data], test: Data, *, outcome: Outcome | None = None
) -> PeerResult:
    """Run a peer among these parties, with the election's learners, and test it after every round.

    A peer may be given as text, as for `oneballot compare`: "fedavg:rounds=50". A peer whose `init` is "outcome" starts
    from this outcome, or else from a simulation among the same parties; the bytes of that election are included.
    """
    return run(compare_steps(peer, election, parties, test, outcome=outcome))


def compare_steps(
    peer: Peer | str, election: Election, parties: Mapping[str, Data], test: Data, *, outcome: Outcome | None = None
) -> Steps[PeerResult]:
    """The requests of `compare`, for a scheduler that runs several."""
    peer = read_peer(peer) if isinstance(peer, str) else peer
    begin, ballots, replies = time.monotonic(), 0, 0
    check_peer(peer, election)
    if not any(map(len, parties.values())):
        raise DataError("no party has any rows, so there is nothing to compare")
    if peer.starts_from_outcome:
        if outcome is None:
            outcome = (yield from simulate_steps(election, parties)).outcome
        ballots, replies = outcome.bytes, len(parties) * len(outcome.model.dump().data)
    else:
        outcome = None
    results: list[RoundResult] = []
    parties = {name: replace(data, X=as_dense(data.X, name)) for name, data in parties.items()}
    test = replace(test, X=as_dense(test.X, "the test rows"))
    tested, report = 0.0, progress_reporter(f"rounds of {peer.name}", peer.rounds)

    def record(turn: Round) -> None:
        nonlocal tested
        now = time.monotonic()
        predicted = [model.predict_proba(test.X) for model in turn.models]
        mean = float(np.mean([election.target.accuracy(each, test.y) for each in predicted]))
        results.append(RoundResult(mean, turn.up + ballots, turn.down + replies, now - begin - tested))
        tested += time.monotonic() - now
        report(len(results))

    report(0)
    with _PeerContext(peer, election, outcome) as ctx:
        job = ctx.job(peer.run, list(parties.values()), ctx)
        yield Together([replace(job, answers={**(job.answers or {}), Round: record})])
    if not results:
        raise DataError(f"{peer.name} produced no model")
    return PeerResult(peer, tuple(results))


def election_result(simulation: Simulation, test: Data, seconds: float) -> RoundResult:
    """The result of an election. Its bytes are the ballots, and the final model for every party."""
    replies = len(simulation.parties) * len(simulation.outcome.model.dump().data)
    return RoundResult(simulation.accuracy(test), simulation.outcome.bytes, replies, seconds)


def check_peer(peer: Peer, election: Election) -> None:
    """Raise ElectionError, before any training, if the peer cannot run with the election's learners."""
    if not supports(peer, election.target):
        raise ElectionError(f"{peer.name} does not support {election.target.phrase}; choose another peer")
    if peer.needs_public != "nothing" and election.public is None:
        raise ElectionError(f"{peer.name} needs a public set: rows that every party may have")
    for role in peer.needs:
        check_learner(peer, role, election.learner_of(role), election.target)
    peer.check(election.learner_of("final"))


def read_peer(text: str) -> Peer:
    """A peer from text: its name, or `name:setting=value,setting=value`."""
    name, _, rest = text.partition(":")
    try:
        settings = parse_settings(rest)
    except ElectionError as error:
        raise ElectionError(f"peer {text!r}: {error}") from None
    peer: Peer = make("peers", {"name": name.strip(), **settings}, f"peer {text!r}")
    return peer


def describe(label: str, own: RoundResult, peers: Mapping[str, PeerResult], about: Mapping[str, Any]) -> dict[str, Any]:
    """All results as plain values."""
    return {
        **about,
        "outcome": {"name": label, **asdict(own)},
        "peers": [
            {
                "peer": name,
                "settings": plugins.describe(result.peer),
                "rounds": [{"round": i, **asdict(r)} for i, r in enumerate(result.rounds, start=1)],
            }
            for name, result in peers.items()
        ],
    }


def save(
    folder: Path,
    label: str,
    own: RoundResult,
    peers: Mapping[str, PeerResult],
    about: Mapping[str, Any],
    methods: Mapping[str, RoundResult] | None = None,
) -> None:
    """Write comparison.json, comparison.csv and, with matplotlib, comparison.png: accuracy against bytes.

    `methods` are the results of other one-shot methods.
    """
    folder.mkdir(parents=True, exist_ok=True)
    described = describe(label, own, peers, about)
    write_atomic(folder / "comparison.json", json.dumps(described, indent=1, ensure_ascii=False).encode())
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(["peer", "round", "accuracy", "up", "down", "seconds"])
    others = {name: (result,) for name, result in (methods or {}).items() if name != label}
    named = {label: (own,), **others, **{name: result.rounds for name, result in peers.items()}}
    table.writerows([name, i, *astuple(r)] for name, rounds in named.items() for i, r in enumerate(rounds, start=1))
    write_atomic(folder / "comparison.csv", lines.getvalue().encode())
    curves = {name: [(r.bytes, r.accuracy) for r in rounds] for name, rounds in named.items()}
    plot_comparison(curves, folder / "comparison.png")
