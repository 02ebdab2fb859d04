"""Messages between the server and the nodes: an election's digest one way, a ballot or a refusal the other."""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

from ...errors import printable

ELECTION, BALLOT, NAME, REFUSED = "election", "ballot", "name", "refused"
STYPE = "oneballot.ballot"
"""Marks arrays whose bytes are used as they are, without NumPy's format, whose header would be untrusted."""


class Refused(Exception):
    """Why a node sends no ballot. The text leaves the node, so it never quotes data."""


@dataclass(frozen=True)
class Reply:
    """A sealed ballot, or the reason why there is none."""

    sealed: bytes = b""
    name: str = ""  # of the file in the box, which only the party knows if ballots are encrypted
    reason: str = ""


def make_query(digest: str, node: int) -> Message:
    """Ask a node for its ballot in the election with this digest."""
    return Message(RecordDict({ELECTION: ConfigRecord({"digest": digest})}), node, MessageType.QUERY)


def read_query(message: Message) -> str:
    return str(message.content.config_records[ELECTION]["digest"])


def make_reply(query: Message, reply: Reply) -> Message:
    """The ballot travels as an array, which Flower sends in pieces, so a large ballot is not one large request."""
    if reply.reason:
        return Message(RecordDict({REFUSED: ConfigRecord({"reason": reply.reason})}), reply_to=query)
    sealed = Array(dtype="uint8", shape=(len(reply.sealed),), stype=STYPE, data=reply.sealed)
    name = ConfigRecord({"name": reply.name})
    return Message(RecordDict({BALLOT: ArrayRecord({BALLOT: sealed}), NAME: name}), reply_to=query)


def read_reply(message: Message) -> Reply:
    """The reply of an untrusted node."""
    try:
        return _parse_reply(message)
    except Exception as error:  # Flower's and protobuf's errors have no common base class
        return unreadable_reply(error)


def unreadable_reply(error: Exception) -> Reply:
    return Reply(reason=printable(f"its reply cannot be read: {error!r}", 500))


def _parse_reply(message: Message) -> Reply:
    if message.has_error():
        return Reply(reason=printable(message.error.reason or f"Flower's error {message.error.code}", 500))
    refusal = message.content.config_records.get(REFUSED)
    if refusal is not None:
        return Reply(reason=printable(refusal.get("reason") or "it gives no reason", 500))
    arrays = message.content.array_records.get(BALLOT)
    sealed = None if arrays is None else arrays.get(BALLOT)
    name = message.content.config_records.get(NAME, ConfigRecord()).get("name")
    if sealed is None or sealed.stype != STYPE or not isinstance(sealed.data, bytes) or not isinstance(name, str):
        return Reply(reason="its reply is neither a ballot nor a refusal")
    return Reply(sealed.data, name)
