"""A party's ballot as files: read the data, cast, keep a copy, deliver. And a look into a ballot.

The sealed ballot is on the party's own disk before anything is delivered; every retry delivers those bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import catalog
from .agreement import make
from .casting import cast_data
from .checks import check_learner, check_party_name
from .core import Array, Blob
from .desk import PartyDesk
from .disk import check_writable, write_whole
from .election import Election
from .errors import AlreadyCast, BallotError, BoxError, ElectionError, OneBallotWarning, Spoiled
from .keys import public_text, read_key
from .privacy.book import Book
from .privacy.ledger import MOST_CASTS
from .protocols import Box, Learner
from .seal import check_signer, take_apart, unseal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def cast_file(
    election: Election, party: str, data: Path, *, keep: Path, box: Box | None = None, key: Path | None = None,
    beside: Path = Path(), choices: Iterable[str] = (), recast: bool = False, data_dependent: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Cast the ballot of a file's rows, or deliver again the one that was already cast."""
    desks: dict[str, PartyDesk] = {}
    check_party_name(party)
    _warn_if_late(election)
    signer = find_key(election, party, key, beside)
    kept = keep / f"{party}.ballot"
    sealed = _kept_ballot(election, kept) if not recast else None
    book = _book(election, party, beside)
    if sealed is not None and (told := take_apart(sealed).manifest.privacy.drawn) < book.draws:
        raise AlreadyCast(
            f"{kept} is the ballot of cast number {told}, and {book.path} says that there were {book.draws}: it tells "
            "less than was spent. Deliver the latest one (--keep FOLDER), or cast again with --recast."
        )
    if trained := sealed is None:
        if box is not None and _holds(election, box, party):
            raise AlreadyCast(
                f"the box already holds a ballot of {party}, and a ballot is never replaced. "
                f"If it is to be replaced, ask the operator to move it away first; then cast again with --recast."
            )
        if book.draws and not recast:
            raise AlreadyCast(
                f"{book.path} says that {party} has cast in this election, and {kept} is not there. Deliver the ballot "
                "that you have kept (--keep FOLDER), or draw new noise on the same rows with --recast: its cost adds."
            )
        learners = dict(choose_learner(election, text) for text in choices)
        rows = election.read_data(data)
        check_writable(keep)
        keep.mkdir(parents=True, exist_ok=True)
        charge = (lambda: book.charge(MOST_CASTS)) if election.level == "L2" else (lambda: 1)
        ballot = cast_data(election, rows, party=party, key=signer, learners=learners, charge=charge, desks=desks)
        sealed = ballot.sealed
        _keep(kept, sealed)
    assert sealed is not None
    opened = take_apart(sealed)
    if box is not None:
        deliver(election, box, party, opened.digest, sealed)
    return {
        "party": party, "ballot": str(kept), "bytes": len(sealed), "digest": opened.digest, "trained": trained,
        "abstained": opened.manifest.abstained, "delivered": box is not None,
        "privacy": opened.manifest.privacy.model_dump(mode="json"), "privacy_spent": opened.manifest.privacy.words(),
        **({"do_not_publish": _seen(election, desks.get(party))} if data_dependent else {}),
    }  # fmt: skip


def _warn_if_late(election: Election) -> None:
    if election.deadline is not None and datetime.now(UTC) > election.deadline:
        late = f"the deadline of this election was {election.deadline}, if the clock here is right"
        warnings.warn(
            f"{late}: if it was tallied without you, this ballot counts at the next tally",
            OneBallotWarning,
            stacklevel=3,
        )


def _book(election: Election, party: str, beside: Path) -> Book:
    return Book(election.digest, (beside / f"{party}.casts.json") if election.level == "L2" else None, what="cast")


def preview(
    election: Election, party: str, data: Path, *, keep: Path, key: Path | None, beside: Path,
    choices: Iterable[str] = (), recast: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """What a cast would train, send and spend; nothing is trained, written or sent."""
    check_party_name(party)
    signer = find_key(election, party, key, beside)
    for text in choices:
        choose_learner(election, text)
    rows = election.read_data(data)
    counts = rows.seen(len(election.classes))
    plan = election.method.plan(rows, PartyDesk(election, party))
    PartyDesk(election, party).check(rows)
    kept, drawn = keep / f"{party}.ballot", _book(election, party, beside).draws
    spent = [
        *election.ballot_ledger.words(),
        *(election.promise.expectation(election.parties) if election.promise else []),
    ]
    if not recast and _kept_ballot(election, kept) is not None:
        spent = [f"nothing more: {kept} was already cast, and would be delivered again"]
    elif drawn and not recast:
        spent = [f"nothing: {party} has cast {drawn} times, {kept} is not there, and --recast was not said"]
    elif drawn:
        spent = [
            f"this would be cast number {drawn + 1}: costs add up",
            *election.ballot_ledger.times(drawn + 1).words(),
        ]
    return {
        "election": f"{election.name}, {election.digest[:16]}…",
        "party": party,
        "rows": len(rows),
        "classes": ", ".join(f"{c}: {n}" for c, n in zip(election.classes, counts, strict=True)),
        "models_to_train": plan.models,
        "ballot_carries": plan.carries,
        "bytes": "known after training" if plan.bytes is None else f"{plan.bytes:,}, and up to 2 kB of manifest",
        "signed_with": public_text(signer) if signer else "nothing",
        "privacy_spent": "; ".join(spent),
    }


def find_key(election: Election, party: str, given: Path | None, beside: Path) -> Ed25519PrivateKey | None:
    """The key that was given, or PARTY.key here or beside the election; none only if the election lists no keys."""
    places = [given] if given is not None else [Path(f"{party}.key"), beside / f"{party}.key"]
    found = next((path for path in places if path.is_file()), given)
    key = None if found is None else read_key(found)
    check_signer(election, party, key)
    return key


def choose_learner(election: Election, text: str) -> tuple[str, Learner]:
    """A party's own choice from `[ROLE=]NAME[:KEY=VALUE,…]`."""
    head, _, settings = text.partition(":")
    role, _, name = head.rpartition("=")
    role = role or "all"
    values = dict(pair.partition("=")[::2] for pair in settings.split(",") if pair)
    learner: Learner = make(
        "learners", {"name": name, **{k: _parse(v) for k, v in values.items()}}, f"--learner {text}"
    )
    if role != "all" and role not in election.roles - {"final"}:
        roles = ", ".join(sorted(election.roles - {"final"}))
        raise ElectionError(f"--learner {text}: a party may choose {roles}; the final model is the server's")
    for needed in election.roles - {"final"} if role == "all" else [role]:
        check_learner(election.method, needed, learner)
    return role, learner


def describe_ballot(path: Path, election: Election | None) -> dict[str, Any]:
    """What a ballot file says of itself, and whether an election would take it. Loads no model."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BallotError(f"cannot read {path}: {error.strerror}") from None
    try:
        opened = take_apart(data)
        contents = opened.contents()
    except Spoiled as reason:
        raise Spoiled(f"{path} would be spoiled: {reason}") from None
    signature, verdict = "none" if opened.signature is None else "present, not checked (give --election)", ""
    if election is not None:
        try:
            unseal(data, election)
            verdict = "it is a ballot of this election; what it carries is checked by the tally"
            if election.roster:
                signature = f"valid, of {opened.manifest.party}"
        except Spoiled as reason:
            verdict = f"it would be spoiled: {reason}"
    manifest = opened.manifest
    return {
        "file": str(path),
        "bytes": len(data),
        "party": manifest.party,
        "election": manifest.election,
        "digest": opened.digest,
        "method": manifest.method,
        "abstained": manifest.abstained,
        "privacy": manifest.privacy.model_dump(mode="json"),
        "ledger": manifest.privacy.words(),
        "signature": signature,
        "verdict": verdict,
        "valid": not verdict.startswith("it would be spoiled"),
        "versions": ", ".join(f"{k} {v}" for k, v in manifest.versions.items()),
        "contents": [[name, *_describe_content(c)] for name, c in sorted(contents.items())],
    }


def _describe_content(content: Array | Blob) -> tuple[str, int]:
    if isinstance(content, Blob):
        known = content.format in catalog.names("formats")
        return f"a model, {content.format}{'' if known else ' (a format that is not known here)'}", len(content.data)
    return f"numbers, {content.dtype} {content.shape}", content.nbytes


def _kept_ballot(election: Election, path: Path) -> bytes | None:
    """The ballot that this party has already sealed for this election."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    try:
        theirs = take_apart(data).manifest.election
    except Spoiled as reason:
        raise AlreadyCast(f"{path} is damaged: {reason}. Move it away, and cast again with --recast.") from None
    if theirs != election.digest:
        raise AlreadyCast(f"{path} is a ballot of another election; keep this one elsewhere with --keep FOLDER")
    try:
        unseal(data, election)
    except Spoiled as reason:
        raise AlreadyCast(f"{path} would be spoiled: {reason}. Cast again with --recast.") from None
    return data


def _seen(election: Election, desk: PartyDesk | None) -> str:
    if election.level != "L2" or desk is None or not desk.votes:
        return "no noise was drawn now, so there is nothing that depends on these votes"
    from .privacy.promise import seen_in_words

    return seen_in_words(election.promise, desk.votes)


def _keep(path: Path, sealed: bytes) -> None:
    """Write the party's own copy; an earlier one is kept beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_bytes() != sealed:
        number = 1
        while (old := path.with_name(f"{path.stem}.{number}.ballot")).exists():
            number += 1
        write_whole(old, path.read_bytes())
    write_whole(path, sealed)


def _holds(election: Election, box: Box, party: str) -> bool:
    """Whether the box has a ballot of this party under its name; somebody else's file there is none."""
    try:
        with box.open(party) as file:
            return unseal(file.read(election.max_ballot_mb * 2**20), election).party == party
    except (BoxError, Spoiled):
        return False


def deliver(election: Election, box: Box, party: str, digest: str, sealed: bytes) -> None:
    """Put a party's ballot into a box, under its name if a stranger's file is not in its place."""
    box.deliver(_free_name(election, box, party, digest), sealed)


def _free_name(election: Election, box: Box, party: str, digest: str) -> str:
    """The party's name, unless a stranger's file is in its place: the tally goes by what is inside, not by names."""
    try:
        taken = any(name == party for name, _ in box.names())
    except BoxError:  # a box that is not there yet is empty: the first delivery makes it
        taken = False
    return f"{party}.{digest[:8]}" if taken and not _holds(election, box, party) else party


def _parse(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
