"""The ClientApp: a node casts its party's ballot as `oneballot cast` does, when the server asks for it.

The node's own settings (`--node-config`) name its rows, key and election. A query holds only the digest of an election,
and a node that has agreed to another one refuses. The sealed ballot is on the node's disk before it is sent, so a node
that is asked again, or was killed, sends the same bytes and never casts twice.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from ...data.delimited import DETECT, Dialect
from ...data.files import OPENERS
from ...data.read import reading_as
from ...election.election import Election
from ...election.mapping import SAME_NAMES, FileMapping, mapping_files
from ...election.names import check_party_name, file_name
from ...errors import OneBallotError, OneBallotWarning
from ...party.author import recognize_author
from ...party.submit import cast_file
from ...runtime.files import lock_folder
from .wire import Refused, Reply, make_reply, read_query

log = logging.getLogger("flwr.oneballot")
"""A child of Flower's logger, so its lines appear among Flower's own."""

app = ClientApp()


@dataclass(frozen=True)
class NodeConfig:
    """The party of a node, and its files."""

    party: str
    election: Path
    data: Path
    keep: Path
    key: Path | None = None
    learners: tuple[str, ...] = ()
    dialect: Dialect = DETECT
    mapping: FileMapping = SAME_NAMES

    @classmethod
    def read(cls, node: Mapping[str, Any], run: Mapping[str, Any]) -> NodeConfig:
        """From the node's own settings or, in a simulation, from the node's number and the run's settings."""
        if "party" not in node and run.get("simulated"):
            return cls._of_simulation(node, run)
        if missing := [name for name in ("party", "election", "data") if not node.get(name)]:
            raise Refused(
                f"this node was started without {', '.join(missing)} in its --node-config; "
                "write the file with `oneballot flower node`"
            )
        return cls(
            str(node["party"]),
            Path(str(node["election"])),
            Path(str(node["data"])),
            keep=Path(str(node.get("keep") or "ballots")),
            key=Path(str(node["key"])) if node.get("key") else None,
            learners=tuple(str(node.get("learner") or "").split()),
            dialect=Dialect(*(str(node[name]) if node.get(name) else None for name in vars(DETECT))),
            mapping=FileMapping(*(json.loads(str(node.get(name) or "{}")) for name in vars(SAME_NAMES))),
        )

    @classmethod
    def _of_simulation(cls, node: Mapping[str, Any], run: Mapping[str, Any]) -> NodeConfig:
        folder, number, count = Path(str(run["simulated"])), int(node["partition-id"]), int(node["num-partitions"])
        files = simulated_parties(folder)
        if count != len(files):
            raise Refused(
                f"{folder} holds the files of {len(files)} parties, but Flower simulates {count} nodes: "
                f"start the run with --federation-config num-supernodes={len(files)}"
            )
        party, data = sorted(files.items())[number]
        key = folder / f"{file_name(party)}.key"
        return cls(party, Path(str(run["election"])), data, folder / "ballots", key if key.is_file() else None)


def simulated_parties(folder: Path) -> dict[str, Path]:
    """The data file of each simulated party, by the party's name. Keys may be in the same folder."""
    files = [p for p in folder.iterdir() if p.is_file() and p.suffix != ".key" and not p.name.startswith(".")]
    return {check_party_name(Path(p.stem).stem if p.suffix in OPENERS else p.stem): p for p in files}


@app.query()
def vote(query: Message, context: Context) -> Message:
    """Cast, or send the existing ballot again."""
    try:
        config = NodeConfig.read(context.node_config, context.run_config)
        reply = cast_for_server(config, read_query(query))
    except Refused as reason:
        log.error("no ballot: %s", reason)
        reply = Reply(reason=str(reason))
    except Exception as error:  # its text may quote rows, so it stays here
        log.error("no ballot: %s", error, exc_info=not isinstance(error, OneBallotError))
        reply = Reply(reason=f"{type(error).__name__}; the details are in the node's log only, as they may quote data")
    return make_reply(query, reply)


def cast_for_server(config: NodeConfig, digest: str) -> Reply:
    """The sealed ballot of the node's party in the election with this digest."""
    party = check_party_name(config.party)
    with log_warnings(f"{party}: "):
        election = Election.read(config.election)
        if election.digest != digest:
            raise Refused(
                f"{party} has agreed to the election {election.digest}, but the server asks about {digest}. "
                "Compare both files with `oneballot check`."
            )
        recognize_author(config.election, election, party, config.keep)
        log.info("%s: asked to vote in %s, %s", party, election.name, digest)
        queue = (
            config.keep / f".{file_name(party)}.queue"
        )  # a separate folder, as casting may lock the one it writes to
        queue.mkdir(parents=True, exist_ok=True)
        reading = reading_as(config.dialect, config.data), mapping_files(config.mapping, config.data)
        with reading[0], reading[1], lock_folder(queue):  # two queries at once are still one cast
            done = cast_file(
                election,
                party,
                config.data,
                keep=config.keep,
                key=config.key,
                beside=config.election.parent,
                choices=config.learners,
            )
            sealed = Path(done["ballot"]).read_bytes()
    how = "cast" if done["trained"] else "already cast"
    log.info("%s: %s, kept in %s, %s bytes, %s", party, how, done["ballot"], f"{len(sealed):,}", done["digest"])
    return Reply(sealed, done["name"])


@contextmanager
def log_warnings(prefix: str = "") -> Iterator[None]:
    """Log the warnings of this block when it is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OneBallotWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, OneBallotWarning):
            log.warning("%s%s", prefix, warning.message)
