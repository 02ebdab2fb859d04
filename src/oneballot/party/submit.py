"""A party's ballot as files: read the data, cast, keep a copy, deliver.

The sealed ballot is on the party's own disk before anything is delivered; every retry delivers those bytes.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ballot.encryption import check_readers, look
from ..ballot.keys import fingerprint, public_text, read_key
from ..ballot.seal import check_size, unseal
from ..ballot.signatures import check_signer
from ..election.checks import check_learner, check_party_name
from ..election.election import Election
from ..election.file import make
from ..errors import AlreadyCast, BoxError, ElectionError, NotFound, OneBallotWarning, Spoiled
from ..interfaces import Box, Learner
from ..privacy.charges import Charges
from ..privacy.ledger import MAX_CASTS
from ..runtime.files import check_writable
from .cast import cast_data
from .context import PartyContext
from .outbox import Kept, alone_with_kept, check_kept, find_kept, read_kept
from .outbox import keep as keep_copy

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def cast_file(
    election: Election, party: str, data: Path, *, keep: Path, box: Box | None = None, key: Path | None = None,
    beside: Path = Path(), choices: Iterable[str] = (), recast: bool = False, resign: bool = False,
    data_dependent: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Cast the ballot of a file's rows, or deliver again the one that was already cast."""
    desks: dict[str, PartyContext] = {}
    check_party_name(party)
    _warn_if_late(election)
    check_readers(election)
    signer = find_key(election, party, key, beside)
    path = keep / f"{party}.ballot"
    with alone_with_kept(path):
        charges = _charges(election, party, beside)
        charge = _charge(election, charges)
        kept = None if recast else find_kept(election, path, charges, signer, resign=resign)
        if trained := kept is None:
            _check_free(election, party, path, charges, box, signer, recast=recast)
            kept = _cast(election, party, data, keep, charge, signer, choices, desks)
        assert kept is not None
        keep_copy(election, path, kept)
        opened, name = kept.opened, _box_name(election, party, signer, kept.sealed)
        if box is not None:
            try:
                name = deliver(election, box, name, party, kept.sealed)
            except BoxError as error:
                raise BoxError(
                    f"{error}\nThe ballot is kept in {path}, and the same command delivers it again."
                ) from None
    return {
        "party": party, "ballot": str(path), "bytes": len(kept.sealed), "digest": opened.digest, "trained": trained,
        "abstained": opened.manifest.abstained, "delivered": box is not None, "name": name,
        "encrypted_to": encrypted_to(election), "privacy": opened.manifest.privacy.model_dump(mode="json"),
        "privacy_spent": opened.manifest.privacy.describe(),
        **({"do_not_publish": _seen(election, desks.get(party))} if data_dependent else {}),
    }  # fmt: skip


def _check_free(
    election: Election, party: str, path: Path, charges: Charges, box: Box | None, signer: Ed25519PrivateKey | None,
    *, recast: bool,
) -> None:  # fmt: skip
    """Raise AlreadyCast, before anybody trains, if another ballot of this party stands in the way of a new one."""
    if box is not None and _holds(election, box, _box_name(election, party, signer), party):
        raise AlreadyCast(
            f"the box already holds a ballot of {party}, and a ballot is never replaced. Your own copy is not in "
            f"{path.parent} (--keep FOLDER names another): if it was you who cast, there is nothing to do. If it is to "
            "be replaced, ask the operator to move it away first; then cast again with --recast."
        )
    if charges.draws and not recast:
        raise AlreadyCast(
            f"{charges.path} says that {party} has cast in this election, and {path} is not there. Deliver the ballot "
            "that you have kept (--keep FOLDER), or draw new noise on the same rows with --recast: its cost adds."
        )


def _charge(election: Election, charges: Charges) -> Callable[[], int]:
    """To be called before noise is drawn; refuses if anybody has drawn since now."""
    drawn = charges.draws
    return (lambda: charges.charge(MAX_CASTS, after=drawn)) if election.level == "L2" else (lambda: 1)


def _cast(
    election: Election, party: str, data: Path, keep: Path, charge: Callable[[], int],
    signer: Ed25519PrivateKey | None, choices: Iterable[str], desks: dict[str, PartyContext],
) -> Kept:  # fmt: skip
    learners = dict(choose_learner(election, text) for text in choices)
    rows = election.read_data(data)
    check_writable(keep)
    keep.mkdir(parents=True, exist_ok=True)
    ballot = cast_data(election, rows, party=party, key=signer, learners=learners, charge=charge, desks=desks)
    return Kept(ballot.sealed, ballot.clear or ballot.sealed)


def _warn_if_late(election: Election) -> None:
    if election.deadline is not None and datetime.now(UTC) > election.deadline:
        late = f"the deadline of this election was {election.deadline}, if the clock here is right"
        warnings.warn(
            f"{late}: if it was tallied without you, this ballot counts at the next tally",
            OneBallotWarning,
            stacklevel=3,
        )


def encrypted_to(election: Election) -> str | None:
    return f"the server's key, fingerprint {fingerprint(str(election.server_key))}" if election.encrypted else None


def _charges(election: Election, party: str, beside: Path) -> Charges:
    return Charges(election.digest, (beside / f"{party}.casts.json") if election.level == "L2" else None, what="cast")


def preview(
    election: Election, party: str, data: Path, *, keep: Path, key: Path | None, beside: Path,
    choices: Iterable[str] = (), recast: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """What a cast would train, send and spend; nothing is trained, written or sent."""
    check_party_name(party)
    check_readers(election)
    signer = find_key(election, party, key, beside)
    for text in choices:
        choose_learner(election, text)
    rows = election.read_data(data)
    counts = rows.class_counts(len(election.classes))
    plan = election.method.plan(rows, PartyContext(election, party))
    check_size(election, party, plan.bytes or 0)
    PartyContext(election, party).check(rows)
    kept, drawn = keep / f"{party}.ballot", _charges(election, party, beside).draws
    spent = [
        *election.ballot_ledger.describe(),
        *(election.guarantee.forecast(election.parties) if election.guarantee else []),
    ]
    if not recast and (found := read_kept(election, kept)) is not None:
        check_kept(election, kept, found)
        spent = [f"nothing more: {kept} was already cast, and would be delivered again"]
    elif drawn and not recast:
        spent = [f"nothing: {party} has cast {drawn} times, {kept} is not there, and --recast was not said"]
    elif drawn:
        spent = [
            f"this would be cast number {drawn + 1}: costs add up",
            *election.ballot_ledger.times(drawn + 1).describe(),
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
        "encrypted_to": encrypted_to(election) or "nobody: whoever has the ballot can read it",
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


def _seen(election: Election, ctx: PartyContext | None) -> str:
    if election.level != "L2" or ctx is None or not ctx.votes:
        return "no noise was drawn now, so there is nothing that depends on these votes"
    from ..privacy.data_dependent.report import describe_cost

    return describe_cost(election.guarantee, ctx.votes)


def _box_name(election: Election, party: str, key: Ed25519PrivateKey | None, sealed: bytes = b"") -> str:
    """What a ballot is called in the box: the party's name, unless the box's host is not to know who votes.

    The name of an encrypted ballot follows from the party's secret key, so that a second one meets the first there, and
    tells nobody anything. Without a key it follows from the ballot.
    """
    if not election.encrypted:
        return party
    if key is None:
        return hashlib.sha256(sealed).hexdigest()[:16]
    named = f"oneballot name {election.digest} {party}".encode()
    return hashlib.blake2b(named, key=key.private_bytes_raw(), digest_size=8).hexdigest()


def _holds(election: Election, box: Box, name: str, party: str) -> bool:
    """Whether the box has a ballot of this party under this name; somebody else's file there is none."""
    try:
        with box.open(name) as file:
            data = file.read(election.max_ballot_mb * 2**20)
        if election.encrypted:
            return look(data).election == election.digest
        return unseal(data, election).party == party
    except (NotFound, Spoiled):
        return False


def deliver(election: Election, box: Box, name: str, party: str, sealed: bytes) -> str:
    """Put a party's ballot into a box and return its name there: this one, if no stranger's file is in its place."""
    free = _free_name(election, box, name, party, hashlib.sha256(sealed).hexdigest())
    box.deliver(free, sealed)
    return free


def _free_name(election: Election, box: Box, name: str, party: str, mark: str) -> str:
    """The name, unless a stranger's file is in its place: the tally goes by what is inside, not by names."""
    try:
        box.open(name).close()
    except NotFound:  # or not for our eyes: then the box decides
        return name
    except Spoiled:
        pass
    return name if _holds(election, box, name, party) else f"{name}.{mark[:8]}"


def _parse(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
