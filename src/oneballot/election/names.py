"""Names of parties: any printable text, compared after Unicode normalisation, and the file names made of them."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

from ..errors import ElectionError

MOST_CHARACTERS = 100
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names that are their own file name."""


def check_party_name(name: str) -> str:
    """The name in Unicode's composed form (NFC). Raises ElectionError for a name that cannot be shown reliably."""
    composed = unicodedata.normalize("NFC", name)
    if not composed:
        wrong = "it is empty"
    elif len(composed) > MOST_CHARACTERS:
        wrong = f"it has {len(composed)} characters"
    elif composed != composed.strip():
        wrong = "it begins or ends with a space"
    elif composed.startswith("."):
        wrong = "it begins with a dot, like a hidden file or a path"
    elif hidden := next((c for c in composed if not c.isprintable()), None):
        wrong = f"it holds the character U+{ord(hidden):04X}, which cannot be seen"
    else:
        return composed
    raise ElectionError(
        f"party name {name[: MOST_CHARACTERS + 1]!r}: {wrong}; use 1 to {MOST_CHARACTERS} printable characters, with "
        "spaces only between them"
    )


def check_roster_names(names: Iterable[str]) -> None:
    """Raise ElectionError for an invalid name, or for two names that people would take for the same."""
    seen: dict[str, str] = {}
    for name in map(check_party_name, names):
        other = seen.setdefault(_skeleton(name), name)
        if other is not name:
            raise ElectionError(
                f"roster: {other!r} and {name!r} differ only in case, spaces or the form of their characters; "
                "give every party a name that cannot be mistaken for another"
            )


def file_name(party: str) -> str:
    """The party's name in the names of files and ballots: itself if it is plain, else a readable part and a hash.

    The hash is of the whole name, so different parties have different files on every system and in every box. A plain
    name never begins with an underscore.
    """
    if PLAIN.fullmatch(party):
        return party
    digest = hashlib.sha256(party.encode()).hexdigest()[:16]
    letters = unicodedata.normalize("NFKD", party.replace("ß", "ss")).encode("ascii", "ignore").decode()
    readable = re.sub(r"[^A-Za-z0-9]+", "-", letters).strip("-")[:40]
    return f"_{readable}-{digest}" if readable else f"_{digest}"


def _skeleton(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())
