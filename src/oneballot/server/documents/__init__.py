"""The documents that are saved with an outcome: a model card, README.md, and a TRIPOD+AI checklist, tripod-ai.md.

They hold only what may be published: no names of parties, no votes and, at L1, nothing that was not noised. People
complete them, so a document that was edited is never replaced. `Outcome.save` and the exports import this package.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import OneBallotWarning
from ...runtime.files import write_atomic
from .card import model_card
from .facts import Facts, ModelFile
from .tripod import tripod_checklist

if TYPE_CHECKING:
    from ..outcome import Outcome

CARD, CHECKLIST = "README.md", "tripod-ai.md"
_SEAL = re.compile(rb"\n<!-- Written by OneBallot; sha256 of the text above: ([0-9a-f]{64}) -->\s*\Z")


def write_documents(folder: Path, outcome: Outcome, model: ModelFile) -> None:
    """Write the card and the checklist into the folder of an outcome."""
    facts = Facts(outcome, model)
    for name, text in ((CARD, model_card(facts)), (CHECKLIST, tripod_checklist(facts))):
        write_document(folder / name, text)


def write_document(path: Path, text: str) -> Path:
    """Write a document, unless people have edited the one there: then the new text goes into NAME.new.md.

    If that was edited too, the text goes into NAME.new.2.md, and so on.

    The last line of a document holds the hash of the text as it was written. So an edited document is recognised
    without any record, and a document with the same facts as before is left alone. Returns the path of the text.
    """
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    sealed = data + f"\n<!-- Written by OneBallot; sha256 of the text above: {digest} -->\n".encode()
    known, edited = _written_digest(path)
    if known == digest or not edited:
        if known != digest:
            write_atomic(path, sealed)
        _remove_unedited(path)
        return path
    other = next(each for each in _names_beside(path) if _may_hold(each, digest))
    if _written_digest(other)[0] != digest:
        write_atomic(other, sealed)
    _remove_unedited(path, but=other)
    warnings.warn(
        f"{path} was edited and is kept; what OneBallot would write now is in {other.name}: copy what has changed, "
        f"including the last line, and remove {other.name}",
        OneBallotWarning,
        stacklevel=2,
    )
    return other


def _written_digest(path: Path) -> tuple[str | None, bool]:
    """The hash of the text that OneBallot wrote to this file, if any, and whether people have changed it since."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None, False
    except OSError:  # a folder, or a file that may not be read: not ours
        return None, True
    content = content.replace(b"\r\n", b"\n")  # an editor, or git on Windows, may have changed the line ends
    seal = _SEAL.search(content)
    if seal is None:
        return None, True
    digest = seal[1].decode()
    return digest, hashlib.sha256(content[: seal.start()]).hexdigest() != digest


def _names_beside(path: Path) -> Iterator[Path]:
    """NAME.new.md, NAME.new.2.md and so on."""
    yield path.with_name(f"{path.stem}.new{path.suffix}")
    for i in itertools.count(2):
        yield path.with_name(f"{path.stem}.new.{i}{path.suffix}")


def _may_hold(path: Path, digest: str) -> bool:
    """Whether this text may be written to the file, or is there already, perhaps with edits."""
    known, edited = _written_digest(path)
    return known == digest or not edited


def _remove_unedited(path: Path, but: Path | None = None) -> None:
    """Remove each earlier NAME.new.md that is now outdated, if nobody has edited it."""
    for other in path.parent.glob(f"{path.stem}.new*{path.suffix}"):
        digest, edited = _written_digest(other)
        if digest is not None and not edited and other != but:
            other.unlink(missing_ok=True)
