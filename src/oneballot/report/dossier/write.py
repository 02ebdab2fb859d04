"""Puts a dossier on disk: FILE.html for people, and FILE.json beside it for machines.

A page about a plan, or about a refusal, is replaced by the next. A page about a sealed ballot may be signed: it is
never replaced, and stays as it is if it describes the same file with the same options. A refusal of that ballot is
written beside it, as FILE.refused.html.
"""

from __future__ import annotations

import hashlib
import shlex
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
    earlier = read_sealed(page)
    if earlier is not None and earlier.seals is not None and earlier.seals.ballot_digest != digest:
        raise OneBallotError(
            f"{page} describes the ballot {earlier.seals.ballot_digest[:16]}… and may be signed, so it is not "
            "replaced. Move it away, or choose another name with --dossier."
        )


def write_dossier(page: Path, dossier: Dossier) -> dict[str, str]:
    """Write both files, unless they say this already. Returns their names and hashes.

    Raises OneBallotError rather than replace the page of a sealed ballot; a refusal is then written beside it.
    """
    check_page(page, dossier.seals.ballot_digest if dossier.seals else None)
    earlier = read_sealed(page)
    if earlier is not None and dossier.stage == "refused":
        page, earlier = page.with_suffix(f".refused{page.suffix}"), None
        dossier = dossier.model_copy(update={"page": page.name})
        check_page(page)
    if earlier is not None and (changed := _changes(earlier, dossier)):
        raise OneBallotError(
            f"{page} may be signed, so it is not replaced, but it was written with {' and '.join(changed)}. Move it "
            "away, choose another name with --dossier, or give the options that it was written with."
        )
    twin, kept = twin_of(page), earlier is not None and page.exists()
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


def read_sealed(page: Path) -> Dossier | None:
    """The record of an existing page of a sealed ballot; None if there is none, or it is of a plan or a refusal."""
    earlier = read_dossier(page)
    return None if earlier is None or earlier.stage != "sealed" or earlier.seals is None else earlier


def _changes(earlier: Dossier, now: Dossier) -> list[str]:
    """What an existing page of the same ballot states differently."""

    def rule(dossier: Dossier) -> str:
        return f"--min-count {dossier.counts.min_count} --small-counts {dossier.counts.handling}"

    def file(dossier: Dossier) -> str | None:
        return None if dossier.seals is None else dossier.seals.file_sha256

    different = {
        "another stage": earlier.stage != now.stage,
        "another hash of the ballot file": file(earlier) != file(now),
        "another signature": earlier.signed_by != now.signed_by,
        rule(earlier): rule(earlier) != rule(now),
        "another --audit": earlier.attacks.audit != now.attacks.audit,
        "another --election": (earlier.election is None) != (now.election is None),
    }
    return [what for what, differs in different.items() if differs]


class Reviewer:
    """Writes the page of each release before anything is sent. `written`: the names and hashes of the files."""

    def __init__(self, page: Path, audit: Audited | None = None) -> None:
        self.page, self.audit, self.written = page, audit, dict[str, str]()

    def __call__(self, release: Release) -> str:
        self.written = write_dossier(self.page, of_release(release, self.page.name, self.audit))
        shown = self.written["page"]
        beside = "" if shown == str(self.page) else f" {self.page}, written with other options, is unchanged."
        return f"{shown} shows what would leave.{beside}"


def read_audit(path: Path, election: str) -> Audited:
    """What `oneballot audit --json` printed for the election with this digest."""
    try:
        audit = Audited.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError:
        command = f"oneballot audit election.toml --json > {shlex.quote(str(path))}"
        raise DataError(f"{path} is not the result of an audit of this version; write it with `{command}`") from None
    if audit.election != election:
        raise DataError(f"{path} is the audit of another election ({audit.election[:16]}…, not {election[:16]}…)")
    return audit
