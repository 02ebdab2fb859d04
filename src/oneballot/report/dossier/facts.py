"""Fills the record of a dossier: from a release that `party` has prepared, or from a ballot file."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ... import plugins
from ...ballot.encryption import decrypt
from ...ballot.inspect import describe_ballot
from ...ballot.manifest import open_ballot
from ...ballot.seal import as_ballot
from ...election.columns import Category, Column, Date, Number, Tensor
from ...election.election import Election
from ...election.names import file_name
from ...election.schema import as_plain
from ...errors import BallotError, printable
from ...party.context import PartyContext
from ...party.outbox import rows_path_of
from ...party.record import read_cast
from ...party.release import Release
from ...party.rows import RowsUsed
from ...party.small_counts import CountRule, ReleasedCount, released_counts
from ...party.submit import recall
from ...types import Ballot
from .readers import reader, reader_of_file, signer
from .record import (
    Agreement,
    Audited,
    ColumnUse,
    Content,
    Counts,
    Dossier,
    Rows,
    Seals,
    Signer,
    StatedCount,
)
from .samples import describe_content, describe_planned
from .words import describe_attacks, describe_guarantee

EXEMPT_AT_L2 = (
    "At L2 every number in the ballot has noise, drawn before it is sealed, so none of them is an exact count. The "
    "guarantee below bounds what they reveal, also about a group of one."
)
EXEMPT_SHARES = (
    "The ballot is two shares, each random without the other, so no number can be read from it. The total of all "
    "ballots is opened, and the ledger below says with which noise."
)
UNKNOWN_ELECTION = "unknown without --election: give the election, which says which arrays are exact counts."
UNKNOWN_SPOILED = "unknown: they are not read from a ballot that would be spoiled."


def of_release(release: Release, page: str, audit: Audited | None = None) -> Dossier:
    """The dossier of a cast, planned, refused or sealed."""
    election, ballot, plan, party = release.election, release.ballot, release.plan, release.party
    if ballot is not None:
        contents = [describe_content(name, ballot.contents, release.ctx) for name in sorted(ballot.contents)]
        models = any(each.shape is None for each in contents)
    else:
        contents = [describe_planned(each, release.ctx) for each in (plan.contents if plan else ())]
        models = plan is not None and plan.sends_models
        if plan is not None and not contents:
            contents = [_unlisted(plan.carries, plan.bytes)]
    size = len(ballot.sealed) if ballot else plan.bytes if plan else None
    return Dossier(
        page=page,
        written=datetime.now(UTC).replace(microsecond=0),
        version=version("oneballot"),
        stage=release.stage,
        refusal=release.refusal,
        abstained=ballot.abstained if ballot else None,
        party=party,
        election=_agreement(release),
        method=election.method.name,
        rows=None if release.rows is None else _rows(release.rows),
        contents=contents,
        also_sent=_also_sent(party, election.digest, election.method.name),
        bytes=size,
        seconds=release.seconds,
        readable_by=reader(election),
        signed_by=signer(release.signer),
        guarantee=describe_guarantee(release.ledger, election),
        attacks=describe_attacks(release.ledger, election, models, audit),
        counts=_counts(release.counts, release.rule, election.level, shared=election.shared),
        rows_held=release.held.rows,
        seals=None if ballot is None else _seals(f"{file_name(party)}.ballot", ballot.sealed, ballot.digest),
    )


def of_ballot(
    path: Path,
    election: Election | None,
    key: X25519PrivateKey | None,
    rule: CountRule,
    page: str,
    audit: Audited | None = None,
) -> Dossier:
    """The dossier of a ballot file; with its election it says more. `key` is the server's, for an encrypted ballot.

    Rows and columns are those of the party's record, if it lies beside the ballot.
    """
    facts = describe_ballot(path, election, key, own_copy=True)
    if "contents" not in facts:
        raise BallotError(
            f"{path} is encrypted, so its contents cannot be described. Give the server's key (--key), or your own "
            "copy PARTY.ballot.open."
        )
    data = path.read_bytes()
    ballot = as_ballot(open_ballot(decrypt(data, key) if key is not None and facts["encrypted_to"] else data), data)
    ctx = None if election is None else PartyContext(election, ballot.party)
    release = None if ctx is None else _recalled(Release(ctx, "sealed", rule), path, ballot)
    rows = None if release is None else release.rows
    contents = [describe_content(name, ballot.contents, ctx) for name in sorted(ballot.contents)]
    refusal = None if facts["valid"] else f"{path}: {facts['verdict']}."
    counts, unknown = _stated(ballot, ctx, rows) if refusal is None else ((), UNKNOWN_SPOILED)
    small = [count for count in counts if count.is_small(rule)]
    if refusal is None and rule.small != "allow":
        if small:
            shown = ", ".join(map(str, small))
            refusal = f"{path} states {shown}: below --min-count {rule.min_count}. --small-counts allow permits it."
        elif unknown and ctx is not None:
            refusal = (
                f"{path}: the numbers of rows that it states could not be read, so small ones cannot be ruled out. "
                "--small-counts allow permits it."
            )
    models = any(each.shape is None for each in contents)
    return Dossier(
        page=page,
        written=datetime.now(UTC).replace(microsecond=0),
        version=version("oneballot"),
        stage="refused" if refusal else "sealed",
        refusal=refusal,
        abstained=ballot.abstained,
        party=ballot.party,
        election=None if release is None else _agreement(release),
        method=facts["method"],
        rows=None if rows is None else _rows(rows),
        contents=contents,
        also_sent=_also_sent(ballot.party, facts["election"], facts["method"]) | {"versions": facts["versions"]},
        bytes=len(data),
        seconds=None if release is None else release.seconds,
        readable_by=reader_of_file(facts, election),
        signed_by=Signer(who=facts["signature"]),
        guarantee=describe_guarantee(ballot.ledger, election),
        attacks=describe_attacks(ballot.ledger, election, models, audit),
        counts=_counts(counts, rule, ballot.ledger.level, unknown, shared=election is not None and election.shared),
        rows_held=facts["rows_held"],
        seals=_seals(path.name, data, ballot.digest),
    )


def _recalled(release: Release, path: Path, ballot: Ballot) -> Release:
    """The release with what the party recorded, if that lies beside the ballot. Without a schema nothing is."""
    return release if release.election.schema is None else recall(release, read_cast(rows_path_of(path), ballot))


def _stated(
    ballot: Ballot, ctx: PartyContext | None, rows: RowsUsed | None
) -> tuple[tuple[ReleasedCount, ...], str | None]:
    """The exact numbers of rows in a ballot; or none, and why they are unknown."""
    if ballot.ledger.level == "L2":
        return (), None
    if ctx is None:
        return (), UNKNOWN_ELECTION
    try:
        ids = None if rows is None else rows.ids_by_class
        return released_counts(ctx.election.method.read_counts(ballot.contents, ctx), ctx, ids), None
    except Exception as error:  # of a ballot from elsewhere, whose arrays may have any shape
        return (), f"unknown: the numbers of rows in the ballot could not be read ({printable(error, 200)})."


def _agreement(release: Release) -> Agreement:
    election = release.election
    learners = release.learners or {role: election.learner_of(role) for role in election.roles}
    return Agreement(
        name=election.name,
        digest=election.digest,
        method=election.method.name,
        settings=_plain(plugins.describe(election.method)),
        learners={role: _plain(plugins.describe(learner)) for role, learner in sorted(learners.items())},
        classes=[str(name) for name in election.classes],
        public_rows=election.public_rows,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else _plain(as_plain(value))


def _rows(rows: RowsUsed) -> Rows:
    odd = {each.column: [f"{o.count:,} {o.how}" for o in rows.odd if o.column == each.column] for each in rows.odd}
    columns = [
        ColumnUse(name=column.name, use="feature", encoding=_encoding(column), odd_values=odd.get(column.name, []))
        for column in rows.features
    ]
    columns += [ColumnUse(name=name, use="label") for name in rows.label]
    columns += [] if rows.id is None else [ColumnUse(name=rows.id, use="row ID")]
    columns += [ColumnUse(name=name, use="ignored") for name in rows.ignored]
    return Rows(
        file=rows.file,
        sha256=rows.sha256,
        in_file=rows.in_file,
        dropped=dict(rows.dropped),
        held_back=rows.held_back,
        withheld=dict(rows.withheld),
        used=rows.used,
        by_class=dict(rows.by_class),
        ids=rows.ids,
        columns=columns,
    )


def _encoding(column: Column) -> str:
    if isinstance(column, Number | Date):
        low, high = column.range
        between = f"{low:g} to {high:g}" if isinstance(low, float) else f"{low} to {high}"
        return f"{column.kind}, {between} scaled to 0 to 1"
    if isinstance(column, Category):
        return f"one of {len(column.categories)} categories"
    if isinstance(column, Tensor):
        return f"{column.kind} of shape {column.shape}"
    return f"{column.kind}, {column.width} numbers"


def _unlisted(carries: str, size: int | None) -> Content:
    """What a method that lists no contents says that it will send."""
    note = "The method does not list its arrays before training; the dossier of the sealed ballot does."
    return Content(
        name="all", type="not listed", shape=None, bytes=size, meaning=carries, checkable=False, note=note
    )  # fmt: skip


def _also_sent(party: str, digest: str, method: str) -> dict[str, str]:
    return {
        "party": party,
        "election": digest,
        "method": method,
        "ledger": "the privacy cost, as shown below",
        "versions": "of Python, OneBallot and the libraries that trained the models",
        "hashes": "SHA-256 of each content",
    }


def _counts(
    counts: Sequence[ReleasedCount], rule: CountRule, level: str, unknown: str | None = None, *, shared: bool
) -> Counts:
    exempt = EXEMPT_SHARES if shared else EXEMPT_AT_L2 if level == "L2" else None
    stated = [StatedCount(array=c.array, group=c.group, rows=c.rows, ids=c.ids, small=c.is_small(rule)) for c in counts]
    smallest = min((count.rows for count in counts if count.rows), default=None)
    return Counts(
        min_count=rule.min_count,
        handling=rule.small,
        exempt=exempt,
        unknown=unknown,
        stated=stated,
        smallest=smallest,
    )


def _seals(file: str, sealed: bytes, digest: str) -> Seals:
    return Seals(file=file, bytes=len(sealed), file_sha256=hashlib.sha256(sealed).hexdigest(), ballot_digest=digest)
