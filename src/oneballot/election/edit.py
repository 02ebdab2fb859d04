"""Change an election.toml in place, keeping its comments and layout.

The result is validated as a whole before it replaces the file, and the digest of the public set is refreshed.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..ballot.keys import ENCRYPTION_PREFIX, public_key
from ..errors import ElectionError, OneBallotError, OneBallotWarning
from ..runtime.files import write_atomic
from .election import Election
from .file import public_digest
from .names import check_party_name
from .signing import signature_path
from .toml import toml_key, toml_value


@dataclass(frozen=True)
class Change:
    """A setting, and its TOML text before and after; None where there is no value."""

    key: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.key}: {self.old or 'not set'} → {self.new or 'removed'}"


@dataclass(frozen=True)
class Edited:
    """What was changed. The digest before is None if the file was not a valid election."""

    changes: tuple[Change, ...]
    before: str | None
    after: Election

    @property
    def same_election(self) -> bool:
        """Whether ballots that were cast before still count."""
        return self.before == self.after.digest


def set_values(path: Path, values: Sequence[str], *, unset: Sequence[str] = (), refresh: bool = False) -> Edited:
    """Change settings given as `key=value`, and remove those in `unset`.

    The digest of the public set is refreshed if it fitted before, if `public.path` changes, or with `refresh`.
    """
    pairs = [(key.strip(), value.strip()) for key, equals, value in (v.partition("=") for v in values) if equals]
    if wrong := [value for value in values if "=" not in value]:
        raise ElectionError(f"{wrong[0]}: write KEY=VALUE, such as method.queries=100")
    if not (pairs or unset or refresh):
        raise ElectionError("nothing to change: give KEY=VALUE, --unset KEY or --refresh")
    with _editing(path) as (document, changes):
        refresh = refresh or _fits(path) or any(key == "public.path" for key, _ in pairs)
        for key, text in pairs:
            _set(document, _split(key), _parse(text), changes)
        for key in unset:
            _unset(document, _split(key), changes)
        if refresh and "public" in document:
            digest = public_digest(_plain(document), path)
            _set(document, ["public", "digest"], digest, changes)
        return _replace(path, document, changes)


def add_key(path: Path, party: str, key: str) -> Edited:
    """Add a public key to the roster: of a new party, or beside the keys that a party has."""
    party = check_party_name(party)
    if key.startswith(ENCRYPTION_PREFIX):
        raise ElectionError(f"{key} is a server's key; set it with: oneballot election set {path} server_key={key}")
    public_key(key, party)
    with _editing(path) as (document, changes):
        names = {check_party_name(name): name for name in _plain(document).get("roster", {})}
        listed = _plain(document).get("roster", {}).get(names.get(party, party), [])
        known = [listed] if isinstance(listed, str) else list(listed)
        if key in known:
            raise ElectionError(f"{path}: this key of {party} is already listed")
        value = key if not known else [*known, key]
        _set(document, ["roster", names.get(party, party)], value, changes)
        return _replace(path, document, changes)


@contextmanager
def _editing(path: Path) -> Iterator[tuple[Any, list[Change]]]:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        yield tomlkit.parse(path.read_text("utf-8")), []
    except FileNotFoundError:
        raise ElectionError(f"there is no election {path}; write one: `oneballot new {path} …`") from None
    except (TOMLKitError, UnicodeDecodeError, RecursionError) as error:
        raise ElectionError(f"{path} is not TOML: {error}") from None


def _replace(path: Path, document: Any, changes: list[Change]) -> Edited:
    """Validate the new text beside the old file, then replace it."""
    if not (made := [change for change in changes if change.old != change.new]):
        raise ElectionError(f"{path} already says so; nothing was changed")
    part = path.with_name(f".{path.name}.part")
    text = document.as_string().encode()
    write_atomic(part, text)
    try:
        after = Election.read(part)
    except OneBallotError as error:
        error.args = tuple(str(each).replace(str(part), str(path)).replace(part.name, path.name) for each in error.args)
        raise
    finally:
        part.unlink(missing_ok=True)
    before = _digest(path)
    write_atomic(path, text, path.stat().st_mode & 0o777)
    if signature_path(path).exists():
        warning = (
            f"{signature_path(path)} no longer fits: sign again with `oneballot election sign {path} --key YOUR.key`"
        )
        warnings.warn(warning, OneBallotWarning, stacklevel=4)
    return Edited(tuple(made), before, after)


def _digest(path: Path) -> str | None:
    try:
        return Election.read(path).digest
    except OneBallotError:
        return None


def _fits(path: Path) -> bool:
    """Whether the public set is the one whose digest the election states."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
        return bool(public_digest(content, path) == content["public"]["digest"])
    except (OneBallotError, KeyError, TypeError, ValueError):
        return False


def _plain(document: Any) -> dict[str, Any]:
    return tomllib.loads(document.as_string())


def _split(key: str) -> list[str]:
    """The parts of a dotted key; parts with other characters may be in quotes, as in TOML."""
    try:
        found: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        parts = key.split(".")
        if not all(parts):
            raise ElectionError(f"{key} is not a setting; write it like method.queries") from None
        return parts
    parts = []
    while isinstance(found, dict):
        ((part, found),) = found.items()
        parts.append(part)
    return parts


def _parse(text: str) -> Any:
    """A TOML value or, if it is none, text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set(document: Any, path: Sequence[str], value: Any, changes: list[Change]) -> None:
    import tomlkit

    table: Any = document
    for i, part in enumerate(path[:-1]):
        if isinstance(table, list) or part not in table:
            if isinstance(table, list):
                table = _named(table, path, i)
                continue
            if not hasattr(table, "items"):
                raise ElectionError(f"{'.'.join(path[:i])} is a value, so {'.'.join(path)} cannot be set")
            section = i == 0 or (i == 1 and path[0] == "learners")
            table[part] = tomlkit.table() if section else tomlkit.inline_table()
        table = table[part]
    if not hasattr(table, "items"):
        raise ElectionError(f"{'.'.join(path[:-1])} is not a table, so {'.'.join(path)} cannot be set")
    old, new = table.get(path[-1]), tomlkit.item(value)
    changes.append(Change(_shown(path), None if old is None else toml_value(_unwrap(old)), toml_value(value)))
    if old is not None:
        table[path[-1]] = new
    else:
        _insert(document, table, path[-1], new)


def _named(tables: Any, path: Sequence[str], i: int) -> Any:
    """The table with this name in a list, such as a column of the schema."""
    for table in tables:
        if isinstance(table, Mapping) and table.get("name") == path[i]:
            return table
    names = ", ".join(str(table.get("name")) for table in tables if isinstance(table, Mapping))
    raise ElectionError(f"{'.'.join(path[:i])} has no {path[i]!r}; it has {names}")


def _insert(document: Any, table: Any, key: str, item: Any) -> None:
    """Add a setting after the last one of its table, before comments and blank lines that follow."""
    from tomlkit.items import AoT, InlineTable, Table

    container = table if table is document else getattr(table, "value", table)
    plain = [name for name, value in getattr(container, "body", ()) if name and not isinstance(value, Table | AoT)]
    if isinstance(table, InlineTable) or not plain:
        table[key] = item
    else:
        container._insert_after(plain[-1], key, item)


def _unset(document: Any, path: Sequence[str], changes: list[Change]) -> None:
    table: Any = document
    for i, part in enumerate(path[:-1]):
        table = _named(table, path, i) if isinstance(table, list) else table.get(part, {})
    if not hasattr(table, "items") or path[-1] not in table:
        raise ElectionError(f"{_shown(path)} is not set, so it cannot be removed")
    changes.append(Change(_shown(path), toml_value(_unwrap(table[path[-1]])), None))
    del table[path[-1]]


def _unwrap(item: Any) -> Any:
    return item.unwrap() if hasattr(item, "unwrap") else item


def _shown(path: Sequence[str]) -> str:
    return ".".join(map(toml_key, path))
