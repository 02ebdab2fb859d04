"""What the server and the nodes say to each other: a digest one way, a sealed ballot or a refusal the other."""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

from ...errors import printable

ELECTION, BALLOT, NAME, REFUSED = "election", "ballot", "name", "refused"
STYPE = "oneballot.ballot"
"""How the bytes of our arrays are to be read: as they are. NumPy's own format would have a stranger's header."""


class Refused(Exception):
    """Why a node sends no ballot, in words that may leave it: they never quote its data."""


@dataclass(frozen=True)
class Reply:
    """A sealed ballot, or else the reason why there is none."""

    sealed: bytes = b""
    name: str = ""  # what it is called in the box, where only the party can say it
    reason: str = ""


def ask(digest: str, node: int) -> Message:
    """The question to a node: its ballot in the election of this digest. Nothing else is sent to it."""
    return Message(RecordDict({ELECTION: ConfigRecord({"digest": digest})}), node, MessageType.QUERY)


def asked(message: Message) -> str:
    """The digest that a question names."""
    return str(message.content.config_records[ELECTION]["digest"])


def answer(question: Message, reply: Reply) -> Message:
    """Bytes travel as an array: Flower sends those in pieces, so that a large ballot is no large request."""
    if reply.reason:
        return Message(RecordDict({REFUSED: ConfigRecord({"reason": reply.reason})}), reply_to=question)
    sealed = Array(dtype="uint8", shape=(len(reply.sealed),), stype=STYPE, data=reply.sealed)
    name = ConfigRecord({"name": reply.name})
    return Message(RecordDict({BALLOT: ArrayRecord({BALLOT: sealed}), NAME: name}), reply_to=question)


def answered(message: Message) -> Reply:
    """What a node has replied, of which nothing is believed."""
    if message.has_error():
        return Reply(reason=printable(message.error.reason or f"Flower's error {message.error.code}", 500))
    refusal = message.content.config_records.get(REFUSED)
    if refusal is not None:
        return Reply(reason=printable(refusal.get("reason") or "it does not say why", 500))
    arrays = message.content.array_records.get(BALLOT)
    sealed = None if arrays is None else arrays.get(BALLOT)
    name = message.content.config_records.get(NAME, ConfigRecord()).get("name")
    if sealed is None or sealed.stype != STYPE or not isinstance(sealed.data, bytes) or not isinstance(name, str):
        return Reply(reason="its reply is neither a ballot nor a refusal")
    return Reply(sealed.data, name)
