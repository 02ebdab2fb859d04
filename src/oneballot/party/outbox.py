"""The party's own copy of its ballot: on its disk before anything is delivered, and delivered again byte by byte.

Where ballots are encrypted to the server, the party could not read what it has sent: beside PARTY.ballot, which is
delivered, PARTY.ballot.open is the same ballot before it was encrypted, for the party's eyes alone.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..ballot.encryption import is_envelope, look
from ..ballot.seal import OpenBallot, check_ballot, encrypt, open_ballot, sign_again
from ..election.election import Election
from ..errors import AlreadyCast, Spoiled, printable
from ..privacy.charges import Charges
from ..runtime.files import lock_file, write_atomic

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True)
class Kept:
    """A ballot as it is delivered, and as the party can read it; the same bytes where nothing is encrypted."""

    sealed: bytes
    clear: bytes

    @property
    def opened(self) -> OpenBallot:
        return open_ballot(self.clear)


@contextmanager
def alone_with_kept(path: Path) -> Iterator[None]:
    """Of two casts of one party at once the second is refused: each would train, draw noise, and keep another ballot.

    In a folder that cannot be written to nothing is kept, so that nothing is to be guarded there.
    """
    party, folder = path.name.removesuffix(".ballot"), path.parent
    lock = path.with_name(f".{party}.casting")
    with ExitStack() as held:
        for place in (*reversed(folder.parents), folder):
            if not os.path.exists(place):  # a cast that is refused leaves nothing behind
                held.callback(_remove_if_empty, place)
        try:
            held.enter_context(lock_file(lock))
        except BlockingIOError as error:
            raise AlreadyCast(
                f"{printable(error.strerror, 100)} is casting the ballot of {party} ({lock}); when it has ended, the "
                "same command delivers the same ballot"
            ) from None
        except PermissionError:
            if os.path.exists(lock):
                raise AlreadyCast(
                    f"another user is casting the ballot of {party}, or was stopped: {lock} is theirs. When they have "
                    "ended, remove it, or keep your ballot elsewhere (--keep FOLDER)"
                ) from None
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def own_copy(path: Path) -> Path:
    return path.with_name(f"{path.name}.open")


def read_kept(election: Election, path: Path) -> Kept | None:
    """The ballot that this party has already sealed for this election; None if it has not."""
    own = own_copy(path)
    sealed = path.read_bytes() if path.is_file() else None
    clear = own.read_bytes() if election.encrypted and own.is_file() else None
    if sealed is None and clear is None:
        return None
    try:
        theirs = {look(data).election if is_envelope(data) else open_ballot(data).manifest.election
                  for data in (sealed, clear) if data is not None}  # fmt: skip
    except Spoiled as reason:
        raise AlreadyCast(f"{path} is damaged: {reason}. Move it away, and cast again with --recast.") from None
    if theirs != {election.digest}:
        raise AlreadyCast(f"{path} is a ballot of another election; keep this one elsewhere with --keep FOLDER")
    _check_owner(path, clear or sealed)
    if not election.encrypted:
        assert sealed is not None
        return Kept(sealed, sealed)
    if clear is None:
        raise AlreadyCast(
            f"{path} is there, and {own.name} beside it is not: only the server can tell what was cast. Put {path} "
            "into the box yourself, or cast again with --recast."
        )
    if sealed is not None and look(sealed).length != len(clear):
        raise AlreadyCast(f"{own} is not what was encrypted as {path}. Move both away, and cast again with --recast.")
    # Without the encrypted one nothing was delivered yet: the last cast was cut off.
    return Kept(encrypt(clear, election) if sealed is None else sealed, clear)


def _check_owner(path: Path, kept: bytes | None) -> None:
    if kept is None or is_envelope(kept):
        return  # only the server could tell
    party, named = open_ballot(kept).manifest.party, path.name.removesuffix(".ballot")
    if party != named:
        raise AlreadyCast(f"{path} is a ballot of {party}, not of {named}; keep yours elsewhere with --keep FOLDER")


def check_kept(election: Election, path: Path, kept: Kept) -> None:
    """Raise AlreadyCast if what is kept would not count."""
    try:
        check_ballot(kept.opened, election)
    except Spoiled as reason:
        raise AlreadyCast(
            f"{path} would be spoiled: {reason}. If only your key has changed, sign the same ballot again with "
            "--resign: nothing is trained, no noise is drawn. Otherwise cast again with --recast."
        ) from None


def find_kept(
    election: Election, path: Path, charges: Charges, signer: Ed25519PrivateKey | None, *, resign: bool
) -> Kept | None:
    """The ballot that was cast, if it may be delivered again; signed again if that is asked for."""
    kept = read_kept(election, path)
    if resign:
        kept = _signed_again(election, path, kept, signer)
    if kept is None:
        return None
    check_kept(election, path, kept)
    if (told := kept.opened.manifest.privacy.drawn) < charges.draws:
        raise AlreadyCast(
            f"{path} is the ballot of cast number {told}, and {charges.path} says that there were {charges.draws}: it "
            "tells less than was spent. Deliver the latest one (--keep FOLDER), or cast again with --recast."
        )
    return kept


def _signed_again(election: Election, path: Path, kept: Kept | None, key: Ed25519PrivateKey | None) -> Kept:
    """The same ballot, by its digest, with the signature of another key."""
    if kept is None or key is None:
        raise AlreadyCast(f"there is nothing to sign again: --resign is for the kept ballot ({path}) and a new key")
    clear = sign_again(kept.clear, key)
    return kept if clear == kept.clear else Kept(encrypt(clear, election), clear)


def keep(election: Election, path: Path, kept: Kept) -> None:
    """Write the party's own copy; an earlier one is kept beside it.

    Where there are two files, the one that is delivered is written last, and a stale one is gone before: killed at any
    moment, what is there to deliver is what can be read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    own = own_copy(path)
    if path.exists():
        if path.read_bytes() == kept.sealed:
            return
        number = 1
        while (old := path.with_name(f"{path.stem}.{number}.ballot")).exists():
            number += 1
        write_atomic(old, path.read_bytes())
        if own.exists():
            write_atomic(own_copy(old), own.read_bytes(), 0o600)
    if election.encrypted:
        path.unlink(missing_ok=True)
        write_atomic(own, kept.clear, 0o600)
    write_atomic(path, kept.sealed)
