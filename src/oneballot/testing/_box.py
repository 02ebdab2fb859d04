"""The suite of boxes: whole ballots that are never replaced, missing ballots, simultaneous deliveries and reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import BinaryIO

from ..boxes import box_at
from ..election.names import file_name
from ..errors import AlreadyCast, BoxError, NotFound, OneBallotError
from ..interfaces import Box
from ..runtime.progress import report_progress_to
from ._suite import check_name, describe, run_checks

PASSWORD = "pass-word-1234"
NAMES = ("clinic-a", "b.2", file_name("Universitätsklinikum Köln – Haus 3"))


def check_box(box: Box | Callable[[], Box], *, large: int = 2**22) -> None:
    """Deliver and read ballots, and raise ConformanceError with a sentence for everything that the box lacks.

    box: an empty box, or one that does not exist yet, or a function that connects to it: with a function, every
    thread has its own connection, as parties have. The suite leaves its ballots in the box. large: the size of the
    largest ballot, in bytes.
    """
    connect: Callable[[], Box] = (lambda: box) if isinstance(box, Box) else box
    first = connect()
    if not isinstance(first, Box):
        raise TypeError(f"{first!r} is not a box: pass an instance of a subclass of `oneballot.interfaces.Box`")
    run_checks(f"box {first.name}", BoxCase(connect, large), CHECKS)


@dataclass
class BoxCase:
    connect: Callable[[], Box]
    large: int


def check_declarations(case: BoxCase) -> Iterator[str]:
    """The box has a name, and its text never shows the password of its address."""
    box = case.connect()
    yield from check_name(box.name, "box")
    address = f"{box.name}://user:{PASSWORD}@host.invalid/box"
    try:
        other = box_at(address)
        shown = f"{other} {other!r}"
    except OneBallotError as error:
        shown = str(error)
        if "unknown box" in shown:
            yield f"The box {box.name} is not installed. Register it in the entry-point group `oneballot.boxes`."
            shown = str(type(box)(address))  # type: ignore[call-arg]
    if PASSWORD in shown:
        yield "`str(box)`, or an error about its address, shows the password. Leave it out: it ends up in logs."


def check_empty(case: BoxCase) -> Iterator[str]:
    """A box that does not exist yet raises NotFound, and an empty one lists nothing."""
    try:
        found = list(case.connect().names())
    except NotFound:
        return
    if found:
        yield f"The box is not empty: it lists {found[0][0]!r}. Give the suite a box of its own."


def check_delivery(case: BoxCase) -> Iterator[str]:
    """A delivered ballot is listed with its size, and read as it was sent."""
    sent = {name: f"ballot of {name}".encode() * 50 for name in NAMES} | {
        "large": bytes(range(256)) * (case.large // 256)
    }
    for name, data in sent.items():
        case.connect().deliver(name, data)
    listed = dict(case.connect().names())
    for name, data in sent.items():
        if listed.get(name) != len(data):
            yield f"`names` lists {name!r} with the size {listed.get(name)}; {len(data):,} bytes were delivered."
        with case.connect().open(name) as file:
            if _read(file) != data:
                yield f"`open` returns other bytes than were delivered as {name!r}."


def check_missing(case: BoxCase) -> Iterator[str]:
    """Opening or reading a ballot that does not exist raises NotFound."""
    try:
        with case.connect().open("nobody") as file:
            file.read()
    except NotFound:
        return
    except Exception as error:
        yield f"For a ballot that does not exist {describe(error)}. Raise `oneballot.errors.NotFound` instead."
        return
    yield "A ballot that does not exist can be opened and read. Raise `oneballot.errors.NotFound`."


def check_replacement(case: BoxCase) -> Iterator[str]:
    """A ballot is never replaced: the same bytes may be delivered again, other bytes raise AlreadyCast."""
    case.connect().deliver("twice", b"first")
    try:
        case.connect().deliver("twice", b"first")
    except OneBallotError as error:
        yield f"The same bytes cannot be delivered again, as a party does after a lost reply: {describe(error)}."
    for other in (b"other", b"longer than the first"):
        try:
            case.connect().deliver("twice", other)
        except AlreadyCast:
            pass
        except Exception as error:
            yield f"For another ballot of the same name {describe(error)}. Raise `AlreadyCast` instead."
        else:
            yield "Another ballot of the same name is accepted. Raise `oneballot.errors.AlreadyCast`."
    with case.connect().open("twice") as file:
        if file.read() != b"first":
            yield "Another ballot of the same name has replaced the first one. A ballot in the box never changes."


def check_simultaneous(case: BoxCase) -> Iterator[str]:
    """Of several simultaneous deliveries of one name exactly one succeeds, and it is complete."""
    ballots = [bytes([i]) * 100_000 for i in range(6)]

    def deliver(data: bytes) -> bool:
        try:
            case.connect().deliver("race", data)
        except AlreadyCast:
            return False
        return True

    with ThreadPoolExecutor(len(ballots)) as threads:
        won = [data for data, success in zip(ballots, threads.map(deliver, ballots), strict=True) if success]
    with case.connect().open("race") as file:
        kept = _read(file)
    if len(won) != 1:
        yield f"Of {len(ballots)} simultaneous deliveries of one name, {len(won)} succeed; expected exactly one."
    elif kept != won[0]:
        yield "After simultaneous deliveries the box holds another ballot than the one that was accepted."


def check_atomic(case: BoxCase) -> Iterator[str]:
    """A reader never sees a part of a ballot, whether its delivery is under way or was interrupted."""
    data, ended, seen = bytes(case.large), Event(), set[int]()

    def look() -> None:
        while not ended.is_set():
            seen.update(size for name, size in case.connect().names() if name == "slow")

    with ThreadPoolExecutor(1) as threads:
        reader = threads.submit(look)
        try:
            case.connect().deliver("slow", data)
        finally:
            ended.set()
        reader.result()

    def interrupt(what: str, done: int, total: int) -> None:
        if 0 < done < total:
            raise KeyboardInterrupt

    try:
        with report_progress_to(interrupt):
            case.connect().deliver("interrupted", data)
    except KeyboardInterrupt:
        pass
    seen |= {size for name, size in case.connect().names() if name == "interrupted"}
    if seen - {len(data)}:
        yield (
            f"A reader sees {min(seen):,} bytes of a ballot of {len(data):,}. Write to a temporary name that `names` "
            "leaves out, then rename."
        )
    case.connect().deliver("interrupted", data)
    if dict(case.connect().names()).get("interrupted") != len(data):
        yield "After an interrupted delivery the ballot cannot be delivered again."


def check_concurrent(case: BoxCase) -> Iterator[str]:
    """If `concurrent` is True, several threads read whole ballots from one box at once."""
    box = case.connect()
    if not box.concurrent:
        return
    sent = {f"many-{i}": bytes([i]) * 50_000 for i in range(8)}
    for name, data in sent.items():
        case.connect().deliver(name, data)

    def read(name: str) -> bool:
        with box.open_once(name) as file:
            return _read(file) == sent[name]

    with ThreadPoolExecutor(4) as threads:
        try:
            if not all(threads.map(read, [*sent] * 3)):
                yield "Several threads that read at once get wrong bytes. Set `concurrent = False`, or separate them."
        except BoxError as error:
            yield f"Several threads cannot read at once: {describe(error)}. Set `concurrent = False`, or separate them."


def _read(file: BinaryIO) -> bytes:
    """All bytes, read in parts as a tally does."""
    parts = []
    while part := file.read(60_000):
        parts.append(part)
    return b"".join(parts)


CHECKS = (
    check_declarations,
    check_empty,
    check_delivery,
    check_missing,
    check_replacement,
    check_simultaneous,
    check_atomic,
    check_concurrent,
)
