"""Puts a dossier on disk: FILE.html for people, and FILE.json beside it for machines.

A page about a plan, or about a refusal, is replaced by the next. A page about a sealed ballot may be signed: it is
never replaced, and stays as it is if it describes the same ballot.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from ...errors import DataError, OneBallotError
from ...party.release import Release
from ...runtime.files import check_writable, write_atomic
from ..page import render, save
from .facts import of_release
from .page import render_dossier
from .record import Audited, Dossier


def twin_of(page: Path) -> Path:
    return page.with_suffix(".json")


def read_dossier(page: Path) -> Dossier | None:
    """The record of an existing page; None if there is neither a page nor a JSON file. Raises OneBallotError."""
    twin = twin_of(page)
    if not page.exists() and not twin.exists():
        return None
    try:
        return Dossier.model_validate_json(twin.read_bytes())
    except (OSError, ValidationError):
        there = page if page.exists() else twin
        raise OneBallotError(f"{there} exists and is not a dossier; choose another name with --dossier") from None


def check_page(page: Path, digest: str | None = None) -> None:
    """Raise an error, before any training, if a page of the ballot with this digest cannot be written there."""
    if page.suffix.lower() not in (".html", ".htm"):
        raise OneBallotError(
            f"--dossier {page}: expected a name that ends in .html; the JSON file is written beside it"
        )
    render("blocks.html", blocks=())  # raises MissingExtra
    check_writable(page.parent)
    described = _described(page)
    if described not in (None, digest):
        raise OneBallotError(
            f"{page} describes the ballot {str(described)[:16]}… and may be signed, so it is not "
            "replaced. Move it away, or choose another name with --dossier."
        )


def write_dossier(page: Path, dossier: Dossier) -> dict[str, str]:
    """Write both files, unless they describe this very ballot already. Returns their names and hashes."""
    twin = twin_of(page)
    check_page(page, dossier.seals.ballot_digest if dossier.seals else None)
    kept = page.exists() and _described(page) is not None
    if not kept:
        page.parent.mkdir(parents=True, exist_ok=True)
        text = (dossier.model_dump_json(indent=2) + "\n").encode()
        shown = render_dossier(dossier, twin.name, hashlib.sha256(text).hexdigest())
        write_atomic(twin, text)
        save(page, shown)
    return {
        "page": str(page),
        "json": str(twin),
        "stage": dossier.stage,
        "page_sha256": hashlib.sha256(page.read_bytes()).hexdigest(),
        "json_sha256": hashlib.sha256(twin.read_bytes()).hexdigest(),
        "written": "unchanged" if kept else "new",
    }


def _described(page: Path) -> str | None:
    """The digest of the sealed ballot that an existing page describes; None for a plan or a refusal."""
    earlier = read_dossier(page)
    return (
        None if earlier is None or earlier.stage != "sealed" or earlier.seals is None else earlier.seals.ballot_digest
    )


class Reviewer:
    """Writes the page of each release before anything is sent. `written`: the names and hashes of the files."""

    def __init__(self, page: Path, audit: Audited | None = None) -> None:
        self.page, self.audit, self.written = page, audit, dict[str, str]()

    def __call__(self, release: Release) -> str:
        self.written = write_dossier(self.page, of_release(release, self.page.name, self.audit))
        return f"{self.page} shows what would leave."


def read_audit(path: Path, election: str) -> Audited:
    """What `oneballot audit --json` printed for the election with this digest."""
    try:
        audit = Audited.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError:
        command = f"oneballot audit election.toml --json > {path}"
        raise DataError(f"{path} is not the result of an audit of this version; write it with `{command}`") from None
    if audit.election != election:
        raise DataError(f"{path} is the audit of another election ({audit.election[:16]}…, not {election[:16]}…)")
    return audit
