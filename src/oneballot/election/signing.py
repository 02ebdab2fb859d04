"""The author's signature of an election, in a file beside it: ELECTION.toml.sig.

It covers every setting of the file, the roster and the revoked keys included, and the digest, which covers the public
set and the other files that the election names. Comments and the order of settings are not covered.
"""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints, ValidationError

from ..ballot.keys import fingerprint, public_key, public_text
from ..errors import ElectionError, KeyFileError
from ..runtime.files import write_atomic
from .election import Election

PURPOSE = b"oneballot election 1\n"


class AuthorSignature(BaseModel):
    """The content of a signature file: who signed the election, and when by the author's clock."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: Literal[1] = 1
    key: str
    time: AwareDatetime
    signature: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")] = "0" * 128

    def __str__(self) -> str:
        return f"the key with fingerprint {fingerprint(self.key)}, at {self.time:%Y-%m-%d %H:%M:%S}Z"


def signature_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sig")


def sign_election(path: Path, key: Ed25519PrivateKey) -> AuthorSignature:
    """Sign an election file, and write the signature beside it."""
    election = Election.read(path)
    unsigned = AuthorSignature(key=public_text(key), time=datetime.now(UTC).replace(microsecond=0))
    made = unsigned.model_copy(update={"signature": key.sign(_message(path, election, unsigned)).hex()})
    write_atomic(signature_path(path), f"{made.model_dump_json(indent=1)}\n".encode())
    return made


def read_author(path: Path, election: Election) -> AuthorSignature | None:
    """Who signed the election that was read from this file; None if it is not signed.

    Raises ElectionError if the file, or anything that it names, has changed since it was signed.
    """
    beside = signature_path(path)
    try:
        made = AuthorSignature.model_validate_json(beside.read_bytes())
        public_key(made.key, "the author").verify(bytes.fromhex(made.signature), _message(path, election, made))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ElectionError(f"{beside} cannot be read: {error.strerror}") from None
    except (ValidationError, KeyFileError):
        raise ElectionError(f"{beside} is not a signature that `oneballot election sign` wrote; get it again") from None
    except InvalidSignature:
        raise ElectionError(
            f"{path} is not what its author signed ({made}): a setting, the roster or a key has changed since. Get "
            f"the election and {beside.name} from its author again. If you are the author and have changed it, run: "
            f"oneballot election sign {path} --key YOUR.key"
        ) from None
    return made


def _message(path: Path, election: Election, made: AuthorSignature) -> bytes:
    content = tomllib.loads(path.read_text("utf-8"))
    signed = [election.digest, content, made.key, made.time.astimezone(UTC).isoformat()]
    return PURPOSE + json.dumps(signed, sort_keys=True, separators=(",", ":"), default=str).encode()
