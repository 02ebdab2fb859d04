"""Collects ballots: asks each node when it appears, and puts its ballot into the box, until it is time to tally.

A node that is offline never gets a message, so the server polls for nodes. A node that returns is asked again at once,
and one that could not vote after a delay.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flwr.serverapp import Grid

from ...ballot.seal import unseal
from ...election.election import Election
from ...election.names import check_party_name, file_name
from ...errors import BallotError, BoxError, ElectionError, Spoiled, printable
from ...interfaces import Box
from ...party.delivery import deliver
from ...types import Ballot
from .wire import Reply, make_query, read_reply, unreadable_reply

log = logging.getLogger("flwr.oneballot")

MAX_RETRY_SECONDS = 3600.0


@dataclass(frozen=True)
class Intervals:
    """In seconds."""

    poll: float = 2.0
    ask_again: float = 60.0  # after a refusal; doubles each time
    settle: float = 15.0  # without a deadline: how long no node and no reply may arrive before the tally
    report: float = 60.0


@dataclass
class _Node:
    """A node that was asked for its ballot."""

    session: str  # changes when the node reconnects
    message: str | None  # the query that it has not answered yet
    party: str = ""  # whose ballot it has sent
    failed: float | None = None
    delay: float = 0.0


@dataclass
class Collector:
    grid: Grid
    read_election: Callable[[], Election]  # a new object if roster, revocations, quorum or deadline have changed
    box: Box
    key: X25519PrivateKey | None = None  # decrypts ballots
    simulated: frozenset[str] = frozenset()
    intervals: Intervals = field(default_factory=Intervals)
    voted: dict[str, bool] = field(default_factory=dict)  # whether each party's ballot counts for the quorum
    checked: set[tuple[str, int]] = field(default_factory=set)  # names and sizes of files in the box
    nodes: dict[int, _Node] = field(default_factory=dict)
    online: frozenset[int] = frozenset()
    changed: float = field(default_factory=time.monotonic)
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self.election = self.read_election()  # changes only together with `voted`, in `check_box`

    @property
    def expected(self) -> frozenset[str]:
        """All parties that can vote; empty if unknown."""
        return self.simulated or frozenset(self.election.roster)

    def run(self) -> None:
        """Return when it is time to tally."""
        self.check_box()
        self._log_status()
        reported = time.monotonic()
        while not self.is_complete():
            self.ask_nodes()
            if self.fetch_replies() + self.check_box() or time.monotonic() - reported > self.intervals.report:
                self._log_status()
                reported = time.monotonic()
            time.sleep(self.intervals.poll)

    def is_complete(self) -> bool:
        """Whether all have voted, the deadline is reached or, without one ahead, all present nodes have answered.

        A run that starts after the deadline collects late ballots: those of all nodes that are present.
        """
        if self.expected and self.expected <= self.voted.keys():
            return True
        if (deadline := self._deadline) is not None:
            return datetime.now(UTC) >= deadline
        enough = bool(self.simulated) or sum(self.voted.values()) >= self.election.quorum  # no other nodes will come
        return enough and not self._training() and time.monotonic() - self.changed > self.intervals.settle

    @property
    def _deadline(self) -> datetime | None:
        """The deadline, unless it was over when the run started."""
        deadline = self.election.deadline
        return deadline if deadline is not None and deadline > self.started else None

    def ask_nodes(self) -> None:
        """Ask nodes that are new, that have returned, or whose delay after a failure is over."""
        now = time.monotonic()
        sessions = {node.node_id: str(node.last_activated_at) for node in self.grid.get_nodes()}
        for number in sorted(self.online - sessions.keys()):
            log.warning("node %s is offline; it is asked again when it returns", number)
        self.online = frozenset(sessions)
        for number, session in sessions.items():
            node = self.nodes.get(number)
            due = node is None or node.session != session
            if node is not None and node.failed is not None:
                due = due or now - node.failed > node.delay
            if not due:
                continue
            message = next(iter(self.grid.push_messages([make_query(self.election.digest, number)])), None)
            if not message:  # it has just gone offline
                continue
            self.nodes[number] = _Node(session, message, delay=0.0 if node is None else node.delay)
            self.changed = now
            log.info("node %s is asked for its ballot%s", number, " again" if node else "")

    def fetch_replies(self) -> int:
        """Store the ballots that have arrived, with one reply in memory at a time; return their number."""
        ballots = 0
        for number, node in self.nodes.items():
            if node.message is None:
                continue
            for reply in self._pull(node.message):
                node.message, self.changed = None, time.monotonic()
                if reason := reply.reason or self._store(node, reply):
                    self._ask_later(number, node, reason)
                else:
                    ballots += 1
        return ballots

    def _pull(self, message: str) -> list[Reply]:
        """The replies to a message. Whatever Flower raises for an untrusted reply concerns that node alone; if the
        SuperLink is unreachable, `ask_nodes` fails too."""
        try:
            return [read_reply(reply) for reply in self.grid.pull_messages([message])]
        except Exception as error:
            return [unreadable_reply(error)]

    def _store(self, node: _Node, reply: Reply) -> str:
        """Put a ballot into the box. Returns the reason if it would not count."""
        try:
            ballot = self._unseal(reply.sealed)
            name = file_name(check_party_name(reply.name if self.election.encrypted else ballot.party))  # untrusted
            deliver(self.election, self.box, name, ballot.party, reply.sealed)
        except (BallotError, ElectionError) as error:
            return f"its ballot was refused: {error}"
        log.info("%s has voted: %s bytes, %s", ballot.party, f"{len(reply.sealed):,}", ballot.digest)
        self.voted[ballot.party], node.party = ballot.abstained is None, ballot.party
        return ""

    def check_box(self) -> int:
        """Find ballots of an earlier run or delivered as files; return how many parties' status has changed.

        If the election has changed, all ballots are checked again, as other keys may count now.
        """
        before = set(self.voted)
        if (election := self.read_election()) is not self.election:
            self.election = election
            self.voted.clear()
            self.checked.clear()
        for name, size in self.box.names():
            if (name, size) in self.checked:
                continue
            self.checked.add((name, size))
            try:
                with self.box.open(name) as file:
                    ballot = self._unseal(file.read(min(size, self._max_bytes) + 1))
                self.voted.setdefault(ballot.party, ballot.abstained is None)
            except (BallotError, BoxError) as error:
                log.warning("%s in the box is spoiled: %s", printable(name), error)
        for number, node in self.nodes.items():
            if node.party and node.party not in self.voted:
                self._ask_later(number, node, f"the ballot of {node.party} no longer counts")
                node.party = ""
        return len(self.voted.keys() ^ before)

    @property
    def _max_bytes(self) -> int:
        return self.election.max_ballot_mb * 2**20

    def _unseal(self, sealed: bytes) -> Ballot:
        if len(sealed) > self._max_bytes:
            raise Spoiled(f"it has {len(sealed):,} bytes, but the election allows {self._max_bytes:,}")
        return unseal(sealed, self.election, self.key)

    def _ask_later(self, number: int, node: _Node, reason: str) -> None:
        node.failed = time.monotonic()
        node.delay = min(MAX_RETRY_SECONDS, node.delay * 2 or self.intervals.ask_again)
        when = f"in {node.delay:.0f} s" if number in self.online else "when it returns"
        log.error("node %s sends no ballot: %s. It is asked again %s.", number, reason, when)

    def _training(self) -> int:
        """The number of online nodes that have not answered yet."""
        return sum(number in self.online and node.message is not None for number, node in self.nodes.items())

    def _log_status(self) -> None:
        total = f" of {len(self.expected)}" if self.expected else ""
        missing = ", ".join(sorted(self.expected - self.voted.keys())) or ("none" if self.expected else "any party")
        until = f" until {self._deadline}" if self._deadline else ""
        voted = ", ".join(sorted(self.voted)) or "none"
        text = "%d%s have voted: %s. Awaited%s: %s. Nodes at work: %d."
        log.info(text, len(self.voted), total, voted, until, missing, self._training())
