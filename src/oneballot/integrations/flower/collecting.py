"""Asks each node for its ballot as it appears, and puts what comes back into the box, until it is time to tally.

A node that is offline when a message is sent to it never gets it, so nodes are looked for again and again. One that was
away and is back is asked again, and so is, after a while, one that could not vote. After the deadline nobody is waited
for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flwr.app import Message
from flwr.serverapp import Grid

from ...ballot.seal import unseal
from ...election.checks import check_party_name
from ...election.election import Election
from ...errors import BallotError, BoxError, ElectionError, Spoiled, printable
from ...interfaces import Box
from ...party.delivery import deliver
from ...types import Ballot
from .wire import Reply, answered, ask

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

log = logging.getLogger("flwr.oneballot")


@dataclass(frozen=True)
class Pace:
    """How often things are done, in seconds."""

    poll: float = 2.0
    ask_again: float = 60.0  # after a refusal; doubled each time, to an hour at most
    calibrate: float = 15.0  # where no deadline says how long: no new node, and no reply that is due, for so long
    remind: float = 60.0


@dataclass
class _Asked:
    """A node, since when it has been there without a break, and what became of its question."""

    session: str
    message: str | None
    party: str = ""  # whose ballot it has sent
    failed: float | None = None
    wait: float = 0.0


@dataclass
class Collecting:
    grid: Grid
    current: Callable[[], Election]  # another one where roster, revocations, quorum or deadline were changed
    box: Box
    key: X25519PrivateKey | None = None  # opens ballots that are encrypted to the server
    simulated: frozenset[str] = frozenset()
    pace: Pace = field(default_factory=Pace)
    voted: dict[str, bool] = field(default_factory=dict)  # and whether it counts: an abstention does not
    read_names: set[tuple[str, int]] = field(default_factory=set)  # names in the box, with their sizes
    nodes: dict[int, _Asked] = field(default_factory=dict)
    online: frozenset[int] = frozenset()
    changed: float = field(default_factory=time.monotonic)
    begun: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self.election = self.current()  # the one that `voted` goes by: both change together, in `look_into_box`

    @property
    def expected(self) -> frozenset[str]:
        """Whose ballots are all that can come; empty if nobody knows."""
        return self.simulated or frozenset(self.election.roster)

    def run(self) -> None:
        """Return when it is time to tally."""
        self.look_into_box()
        self._tell()
        reminded = time.monotonic()
        while not self.is_over():
            self.ask_nodes()
            if self.fetch() + self.look_into_box() or time.monotonic() - reminded > self.pace.remind:
                self._tell()
                reminded = time.monotonic()
            time.sleep(self.pace.poll)

    def is_over(self) -> bool:
        """Whether all have voted, or the deadline has come, or, if there is none ahead, all who can have answered.

        A run that starts after the deadline is for late ballots: it takes those of all nodes that are there.
        """
        if self.expected and self.expected <= self.voted.keys():
            return True
        if (deadline := self._deadline) is not None:
            return datetime.now(UTC) >= deadline
        enough = bool(self.simulated) or sum(self.voted.values()) >= self.election.quorum  # no other nodes will come
        return enough and not self._training() and time.monotonic() - self.changed > self.pace.calibrate

    @property
    def _deadline(self) -> datetime | None:
        """The one that was ahead when the run began, or is now."""
        deadline = self.election.deadline
        return deadline if deadline is not None and deadline > self.begun else None

    def ask_nodes(self) -> None:
        """Ask those that have just come, or are back, or whose time it is to be asked again."""
        now = time.monotonic()
        sessions = {node.node_id: str(node.last_activated_at) for node in self.grid.get_nodes()}
        for node in sorted(self.online - sessions.keys()):
            log.warning("node %s has gone; it is asked again when it is back", node)
        self.online = frozenset(sessions)
        for node, session in sessions.items():
            known = self.nodes.get(node)
            again = known is not None and known.failed is not None and now - known.failed > known.wait
            if known is not None and known.session == session and not again:
                continue
            message = next(iter(self.grid.push_messages([ask(self.election.digest, node)])), None)
            if not message:  # it has gone this very moment
                continue
            self.nodes[node] = _Asked(session, message, wait=0.0 if known is None else known.wait)
            self.changed = now
            log.info("node %s is asked for its ballot%s", node, " again" if known else "")

    def fetch(self) -> int:
        """Take the replies that have come, one in memory at a time; how many brought a ballot."""
        ballots = 0
        for node, known in self.nodes.items():
            if known.message is None:
                continue
            for reply in self._replies(known.message):
                known.message, self.changed = None, time.monotonic()
                if reason := reply.reason or self._put(known, reply):
                    self._failed(node, known, reason)
                else:
                    ballots += 1
        return ballots

    def _replies(self, message: str) -> Iterator[Reply]:
        """To one message: none yet, or what a stranger sent, and it may be that Flower cannot make a message of it.

        What Flower, protobuf and whatever else raise then has no common name. It is that node's affair alone; a
        SuperLink that cannot be reached is noticed when nodes are looked for.
        """
        try:
            for reply in self.grid.pull_messages([message]):
                yield _answered(reply)
        except Exception as error:
            yield _unreadable(error)

    def _put(self, known: _Asked, reply: Reply) -> str:
        """Put a ballot into the box; the reason if it is none that could count."""
        sealed = reply.sealed
        try:
            ballot = self._read(sealed)
            name = reply.name if self.election.encrypted else ballot.party
            check_party_name(name)  # a stranger's, and it names a file
            deliver(self.election, self.box, name, ballot.party, sealed)
        except (BallotError, ElectionError) as error:
            return f"its ballot was refused: {error}"
        log.info("%s has voted: %s bytes, %s", ballot.party, f"{len(sealed):,}", ballot.digest)
        self.voted[ballot.party], known.party = ballot.abstained is None, ballot.party
        return ""

    def look_into_box(self) -> int:
        """How many have voted whose ballots are from an earlier run, or were brought as files.

        Where the election has changed all is looked at again, as other keys may count now, and so many as do not count
        any more are among the number.
        """
        before = set(self.voted)
        if (current := self.current()) is not self.election:
            self.election = current
            self.voted.clear()
            self.read_names.clear()
        for name, size in self.box.names():
            if (name, size) in self.read_names:
                continue
            self.read_names.add((name, size))
            try:
                with self.box.open(name) as file:
                    ballot = self._read(file.read(min(size, self._limit) + 1))
                self.voted.setdefault(ballot.party, ballot.abstained is None)
            except (BallotError, BoxError) as error:
                log.warning("%s in the box would be spoiled: %s", printable(name), error)
        for node, known in self.nodes.items():
            if known.party and known.party not in self.voted:
                self._failed(node, known, f"that of {known.party} does not count any more")
                known.party = ""
        return len(self.voted.keys() ^ before)

    @property
    def _limit(self) -> int:
        return self.election.max_ballot_mb * 2**20

    def _read(self, sealed: bytes) -> Ballot:
        """The ballot in these bytes, which is all that the server looks at before it tallies: whose it is."""
        if len(sealed) > self._limit:
            raise Spoiled(f"it has {len(sealed):,} bytes, and the election allows {self._limit:,}")
        return unseal(sealed, self.election, self.key)

    def _failed(self, node: int, known: _Asked, reason: str) -> None:
        known.failed, known.wait = time.monotonic(), min(3600.0, known.wait * 2 or self.pace.ask_again)
        when = f"in {known.wait:.0f} s" if node in self.online else "when it is back"
        log.error("node %s sends no ballot: %s. It is asked again %s.", node, reason, when)

    def _training(self) -> list[int]:
        return [node for node, known in self.nodes.items() if node in self.online and known.message is not None]

    def _tell(self) -> None:
        """Who has voted and who is awaited."""
        awaited = sorted(self.expected - self.voted.keys())
        of = f" of {len(self.expected)}" if self.expected else ""
        who = ", ".join(awaited) or ("nobody" if self.expected else "whoever comes")
        until = f" until {self._deadline}" if self._deadline else ""
        log.info("%d%s have voted: %s. Awaited%s: %s. At work now: %d nodes.", len(self.voted), of,
                 ", ".join(sorted(self.voted)) or "nobody", until, who, len(self._training()))  # fmt: skip


def _answered(message: Message) -> Reply:
    """By itself, so that a reply that cannot be read takes no other with it."""
    try:
        return answered(message)
    except Exception as error:
        return _unreadable(error)


def _unreadable(error: Exception) -> Reply:
    return Reply(reason=printable(f"its reply cannot be read: {error!r}", 500))
