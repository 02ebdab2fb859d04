"""A party's own copy of its ballot, written before delivery so that every retry delivers the same bytes.

A party cannot read a ballot that is encrypted to the server. So next to PARTY.ballot, which is delivered, it keeps
PARTY.ballot.open: the same ballot before encryption, readable only by its owner.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..ballot.encryption import read_header
from ..ballot.manifest import OpenBallot, open_ballot
from ..ballot.receipts import make_receipt, read_receipt
from ..ballot.seal import as_ballot, check_ballot, encrypt_for, sign_again
from ..election.election import Election
from ..election.names import check_party_name, file_name
from ..errors import AlreadyCast, BallotError, ElectionError, OneBallotWarning, Spoiled, printable
from ..privacy.charges import Charges
from ..runtime.files import lock_file, write_atomic
from ..runtime.leftovers import CASTING, clear_files
from ..types import Ballot

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

WINDOWS = os.name == "nt"
DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
"""Names of devices on Windows, with any suffix."""


class Outbox:
    """Where one party keeps its ballot of one election."""

    def __init__(self, election: Election, party: str, folder: Path) -> None:
        if WINDOWS and DEVICES.fullmatch(party):
            raise ElectionError(f"party name {party!r}: Windows reserves it for a device; choose another name")
        self.election, self.party = election, party
        self.path = folder / f"{file_name(party)}.ballot"

    @property
    def clear_path(self) -> Path:
        return _clear_path(self.path)

    @property
    def holdout_path(self) -> Path:
        """The record of the rows that were kept back (`party.holdout`)."""
        return self.path.with_name(f"{file_name(self.party)}.holdout.json")

    @property
    def receipt_path(self) -> Path:
        """What the party keeps to check later whether its ballot was counted (`ballot.receipts`)."""
        return _receipt_path(self.path)

    @property
    def rows_path(self) -> Path:
        """The record of the rows that the ballot was cast from (`party.record`)."""
        return rows_path_of(self.path)

    def read(self) -> Ballot | None:
        """The kept ballot, as it was cast; None if there is none."""
        opened, sealed, clear = self._read()
        return None if opened is None else as_ballot(opened, sealed, clear)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Raise AlreadyCast while another cast of this party is running: both would draw noise and keep a ballot.

        A read-only folder needs no lock, since nothing is written there.
        """
        folder, lock = self.path.parent, self.path.with_name(f".{file_name(self.party)}{CASTING}")
        clear_files(folder)
        with ExitStack() as stack:
            for place in (*reversed(folder.parents), folder):
                if not os.path.exists(place):  # a refused cast leaves no empty folder behind
                    stack.callback(_remove_if_empty, place)
            try:
                stack.enter_context(lock_file(lock))
            except BlockingIOError as error:
                raise AlreadyCast(
                    f"{printable(error.strerror, 100)} is casting the ballot of {self.party} ({lock}). Run the command "
                    "again when it has finished: it delivers the same ballot."
                ) from None
            except PermissionError:
                if os.path.exists(lock):
                    raise AlreadyCast(
                        f"another user is casting the ballot of {self.party}, or was interrupted: {lock} is theirs. "
                        "Remove it when they have finished, or keep your ballot elsewhere (--keep FOLDER)."
                    ) from None
            except OSError as error:
                if error.errno != errno.EROFS:
                    raise
            yield

    def find(self, charges: Charges, signer: Ed25519PrivateKey | None = None, *, resign: bool = False) -> Ballot | None:
        """The kept ballot, to be delivered again; None if there is none. `resign` signs it with a new key.

        Raises AlreadyCast if the kept ballot would be spoiled, or if its ledger states less than was spent.
        """
        opened, sealed, clear = self._read()
        if resign:
            if opened is None or signer is None:
                raise AlreadyCast(f"nothing to sign again: --resign needs the kept ballot ({self.path}) and a new key")
            if (again := sign_again(clear, signer)) != clear:
                opened, sealed, clear = open_ballot(again), encrypt_for(self.election, again), again
        if opened is None:
            return None
        self._check(opened)
        if (stated := opened.manifest.privacy.drawn) < charges.draws:
            raise AlreadyCast(
                f"{self.path} is the ballot of cast number {stated}, but {charges.path} records {charges.draws} casts, "
                "so its ledger is too small. Deliver the latest ballot (--keep FOLDER), or cast again with --recast."
            )
        return as_ballot(opened, sealed, clear)

    def keep(self, ballot: Ballot, record: bytes | None = None, *, secret: bool = False) -> None:
        """Write the party's copy, and the record of its rows. An earlier ballot is renamed, not lost.

        secret: only the owner may read the ballot.

        An old PARTY.ballot is removed first and the new one is written last. So even after the process is killed, a
        PARTY.ballot always has a matching PARTY.ballot.open.
        """
        path, clear_path = self.path, self.clear_path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            if path.read_bytes() == ballot.sealed:
                if secret and stat.S_IMODE(path.stat().st_mode) & 0o077:
                    path.chmod(0o600)
                return
            number = 1
            while (old := path.with_name(f"{path.stem}.{number}.ballot")).exists():
                number += 1
            write_atomic(old, path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
            for beside in (_clear_path, _receipt_path, rows_path_of):
                if beside(path).exists():
                    write_atomic(beside(old), beside(path).read_bytes(), 0o600)
        if self.election.encrypted:
            path.unlink(missing_ok=True)
            write_atomic(clear_path, ballot.clear or ballot.sealed, 0o600)
        if record is not None:
            write_atomic(self.rows_path, record, 0o600)
        write_atomic(path, ballot.sealed, 0o600 if secret else 0o644)

    def keep_receipt(self, ballot: Ballot, key: Ed25519PrivateKey | None) -> Path:
        """Write the receipt of the kept ballot, unless it is there already."""
        path = self.receipt_path
        try:
            written = read_receipt(path).ballot == ballot.digest
        except BallotError:  # missing, damaged, or of an interrupted cast
            written = False
        if not written:
            text = make_receipt(self.election, ballot, key).model_dump_json(indent=1)
            try:
                write_atomic(path, f"{text}\n".encode(), 0o600)
            except OSError as error:  # the ballot was kept earlier, and the folder is read-only now
                warning = f"the receipt {path} cannot be written ({error.strerror}); the ballot counts without it"
                warnings.warn(warning, OneBallotWarning, stacklevel=3)
        return path

    def _read(self) -> tuple[OpenBallot | None, bytes, bytes]:
        """The kept ballot, its bytes to deliver, and its bytes before encryption."""
        sealed = self.path.read_bytes() if self.path.is_file() else None
        if not self.election.encrypted:
            if sealed is None:
                return None, b"", b""
            return self._open(sealed), sealed, sealed
        clear = self.clear_path.read_bytes() if self.clear_path.is_file() else None
        if sealed is None and clear is None:
            return None, b"", b""
        length = None if sealed is None else self._check_header(sealed)
        if clear is None:
            raise AlreadyCast(
                f"{self.path} exists, but {self.clear_path.name} beside it is missing, so only the server can read "
                f"what was cast. Put {self.path} into the box yourself, or cast again with --recast."
            )
        opened = self._open(clear)
        if sealed is None:  # the last cast was interrupted before anything was delivered
            return opened, encrypt_for(self.election, clear), clear
        if length != len(clear):
            raise AlreadyCast(
                f"{self.clear_path} and {self.path} are not the same ballot. Move both away, and cast again with "
                "--recast."
            )
        return opened, sealed, clear

    def _open(self, data: bytes) -> OpenBallot:
        try:
            opened = open_ballot(data)
        except Spoiled as reason:
            raise self._damaged(reason) from None
        self._check_election(opened.manifest.election)
        if opened.manifest.party != self.party:
            raise AlreadyCast(
                f"{self.path} is a ballot of {opened.manifest.party}, not of {self.party}; keep yours elsewhere with "
                "--keep FOLDER"
            )
        return opened

    def _check_header(self, sealed: bytes) -> int:
        """The length of the ballot before encryption."""
        try:
            header = read_header(sealed)
        except Spoiled as reason:
            raise self._damaged(reason) from None
        self._check_election(header.election)
        return header.length

    def _damaged(self, reason: Spoiled) -> AlreadyCast:
        return AlreadyCast(f"{self.path} is damaged: {reason}. Move it away, and cast again with --recast.")

    def _check_election(self, digest: str) -> None:
        if digest != self.election.digest:
            raise AlreadyCast(
                f"{self.path} is a ballot of another election (digest {digest[:12]}, not {self.election.digest[:12]}). "
                "Name another folder for the ballots of this election: --keep FOLDER"
            )

    def _check(self, opened: OpenBallot) -> None:
        try:
            check_ballot(opened, self.election)
        except Spoiled as reason:
            raise AlreadyCast(
                f"{self.path} would be spoiled: {reason}. If only your key has changed, sign the same ballot again "
                "with --resign: nothing is trained and no noise is drawn. Otherwise cast again with --recast."
            ) from None


def kept_digest(election: Election, party: str, folder: Path) -> str | None:
    """The digest of the ballot that a party has kept; None if there is none."""
    ballot = Outbox(election, check_party_name(party), folder).read()
    return None if ballot is None else ballot.digest


def party_of(path: Path) -> str | None:
    """The party of a kept ballot; None if it cannot be read."""
    clear = _clear_path(path)
    try:
        return open_ballot((clear if clear.is_file() else path).read_bytes()).manifest.party
    except Spoiled:
        return None


def _clear_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.open")


def _receipt_path(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix('.ballot')}.receipt.json")


def rows_path_of(path: Path) -> Path:
    """The record of the rows of this kept ballot, or of its open copy (`party.record`)."""
    return path.with_name(f"{path.name.removesuffix('.open').removesuffix('.ballot')}.rows.json")


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
