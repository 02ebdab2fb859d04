"""The ClientApp: a node's party is asked for its ballot, and casts it as `oneballot cast` does.

Where its rows, key and election are, a node says itself (`--node-config`); a message names the digest of an election
and nothing more, and a node that has agreed to another one refuses. The sealed ballot is on the node's own disk before
it is sent, so a node that is asked again, or was killed, sends the same bytes and never casts twice.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from ...data.files import OPENERS
from ...election.election import Election
from ...errors import OneBallotError, OneBallotWarning
from ...party.submit import cast_file
from ...runtime.files import lock_folder
from .wire import Refused, Reply, answer, asked

log = logging.getLogger("flwr.oneballot")
"""A child of Flower's logger: its lines are shown, and kept, where Flower's own are."""

app = ClientApp()


@dataclass(frozen=True)
class Seat:
    """Who votes at a node, and with what files."""

    party: str
    election: Path
    data: Path
    keep: Path
    key: Path | None = None
    learners: tuple[str, ...] = ()

    @classmethod
    def of(cls, node: Mapping[str, Any], run: Mapping[str, Any]) -> Seat:
        """By the node's own settings, or, where Flower simulates nodes and numbers them, by those of the run."""
        if "party" not in node and run.get("simulated"):
            return cls.simulated(node, run)
        if missing := [name for name in ("party", "election", "data") if not node.get(name)]:
            raise Refused(
                f"this node was started without {', '.join(missing)} in its --node-config; "
                "`oneballot flower node` writes the file for it"
            )
        election = Path(str(node["election"]))
        return cls(
            str(node["party"]), election, Path(str(node["data"])), Path(str(node.get("keep") or "ballots")),
            Path(str(node["key"])) if node.get("key") else None, tuple(str(node.get("learner") or "").split()),
        )  # fmt: skip

    @classmethod
    def simulated(cls, node: Mapping[str, Any], run: Mapping[str, Any]) -> Seat:
        folder, number, count = Path(str(run["simulated"])), int(node["partition-id"]), int(node["num-partitions"])
        files = simulated_parties(folder)
        if count != len(files):
            raise Refused(
                f"{folder} holds the files of {len(files)} parties, and Flower simulates {count} nodes: "
                f"start the run with --federation-config num-supernodes={len(files)}"
            )
        party, data = sorted(files.items())[number]
        key = folder / f"{party}.key"
        return cls(party, Path(str(run["election"])), data, folder / "ballots", key if key.is_file() else None)


def simulated_parties(folder: Path) -> dict[str, Path]:
    """The parties of a simulation, each with its data: the files of a folder, by name. Keys may lie beside them."""
    files = [p for p in folder.iterdir() if p.is_file() and p.suffix != ".key" and not p.name.startswith(".")]
    return {Path(p.stem).stem if p.suffix in OPENERS else p.stem: p for p in files}


@app.query()
def vote(message: Message, context: Context) -> Message:
    """Cast, or send again what was cast."""
    try:
        seat = Seat.of(context.node_config, context.run_config)
        reply = cast(seat, asked(message))
    except Refused as reason:
        log.error("no ballot: %s", reason)
        reply = Reply(reason=str(reason))
    except Exception as error:  # whatever it is, its words may quote rows, and stay here
        log.error("no ballot: %s", error, exc_info=not isinstance(error, OneBallotError))
        reply = Reply(reason=f"{type(error).__name__}; what it says stays in the log of the node, as it may quote data")
    return answer(message, reply)


def cast(seat: Seat, digest: str) -> Reply:
    """The sealed ballot of a node's party in the election of this digest."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", OneBallotWarning)
        agreed = Election.read(seat.election)
        if agreed.digest != digest:
            raise Refused(
                f"{seat.party} has agreed to the election {agreed.digest}, and the server asks about {digest}. "
                "Compare both files with `oneballot check`."
            )
        log.info("%s: asked to vote in %s, %s", seat.party, agreed.name, digest)
        queue = seat.keep / f".{seat.party}.queue"  # of its own: a book of casts may lock the folder that it is in
        queue.mkdir(parents=True, exist_ok=True)
        with lock_folder(queue):  # two questions at once are still one cast
            done = cast_file(
                agreed, seat.party, seat.data, keep=seat.keep, key=seat.key, beside=seat.election.parent,
                choices=seat.learners,
            )  # fmt: skip
            sealed = Path(done["ballot"]).read_bytes()
    for note in notes:
        if issubclass(note.category, OneBallotWarning):
            log.warning("%s: %s", seat.party, note.message)
    how = "cast" if done["trained"] else "already cast"
    log.info("%s: %s, kept in %s, %s bytes, %s", seat.party, how, done["ballot"], f"{len(sealed):,}", done["digest"])
    return Reply(sealed, done["name"])
