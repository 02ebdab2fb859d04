"""Settings: frozen dataclasses that pydantic validates, with readable errors.

Methods, learners and privacy settings use the decorator `settings`, so an invalid value raises the same ElectionError
in a file and in Python.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Iterator
from functools import wraps
from itertools import groupby
from typing import Any, ClassVar, TypeVar, dataclass_transform

from pydantic import BaseModel, Field, ValidationError
from pydantic.dataclasses import dataclass

from .errors import ElectionError
from .limits import check_limits

Class = TypeVar("Class")
COMPLETE = ("missing", "value_error", "extra_forbidden")
"""Types of errors whose message need not quote the value."""


class Section:
    """Settings that errors call by the name of their section in election files, not by that of their class."""

    called: ClassVar[str]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def settings(cls: type[Class]) -> type[Class]:
    """Decorate a class of settings. Invalid values raise an ElectionError that names the class or its section."""
    made: Any = dataclass(frozen=True, config={"extra": "forbid", "arbitrary_types_allowed": True})(cls)
    validate, known = made.__init__, [f.name for f in dataclasses.fields(made)]
    called = cls.called if issubclass(cls, Section) else cls.__name__

    @wraps(validate)
    def init(self: Any, *values: Any, **named: Any) -> None:
        try:
            check_limits({**dict(zip(known, values, strict=False)), **named})
        except ElectionError as error:
            raise ElectionError(f"{called}: {error}") from None
        try:
            validate(self, *values, **named)
        except ValidationError as error:
            raise ElectionError(f"{called}: {'; '.join(_describe_settings(error, known))}") from None

    made.__init__ = init
    return made  # type: ignore[no-any-return]


def _describe_settings(error: ValidationError, known: list[str]) -> Iterator[str]:
    """A sentence for each setting. For a union pydantic reports one error per type; "or" joins them."""
    for place, errors in groupby(error.errors(), lambda each: each["loc"][:1]):
        first, *others = errors
        by_position = bool(place) and isinstance(place[0], int) and place[0] < len(known)
        name = known[int(place[0])] if by_position else ".".join(map(str, place))
        if first["type"] == "unexpected_keyword_argument":
            yield f"unknown setting {name}; available: {', '.join(known)}"
        else:
            yield _sentence(name, " or ".join(map(_message, [first, *others])), first)


def parse_settings(text: str) -> dict[str, Any]:
    """Settings as written on the command line: `rounds=50,params.max_depth=3`. A dot reaches into a table.

    Values are written as in TOML (`[1, 2]`, `true`, `0.1`), except that plain text needs no quotes and None is None.
    """
    parts: list[str] = []
    for piece in text.split(","):
        if parts and (_depth(parts[-1]) > 0 or parts[-1].count('"') % 2):  # a comma within a list or a quoted text
            parts[-1] += f",{piece}"
        else:
            parts.append(piece)
    found: dict[str, Any] = {}
    for part in filter(None, map(str.strip, parts)):
        key, equals, value = map(str.strip, part.partition("="))
        *tables, last = key.split(".")
        if not equals or not value or not all((*tables, last)):
            raise ElectionError(f"{part!r} is not setting=value; example: rounds=50,params.max_depth=3")
        table = found
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise ElectionError(f"{part!r}: {name} already has a value, {table!r}")
        if last in table:
            raise ElectionError(f"{part!r}: {key} is given twice")
        table[last] = _parse_value(value)
    return found


def _depth(text: str) -> int:
    return sum(text.count(c) for c in "[{") - sum(text.count(c) for c in "]}")


def _parse_value(text: str) -> Any:
    if text.lower() in ("true", "false", "none"):
        return {"true": True, "false": False}.get(text.lower(), None if text == "None" else text)
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def describe_errors(error: ValidationError, document: type[BaseModel] | None = None) -> list[str]:
    """A sentence for each error in a document: its place, what is allowed, and the value."""
    sentences = []
    for each in error.errors():
        place = ".".join(str(part).rstrip("_") for part in each["loc"] if part != "function-after")
        if each["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            known = [name.rstrip("_") for name in document.model_fields] if document and len(each["loc"]) == 1 else []
            near = difflib.get_close_matches(place, known, n=1)
            sentences.append(f"{place}: there is no such setting" + (f"; did you mean {near[0]}?" if near else ""))
        else:
            sentences.append(_sentence(place, _message(each), each))
    return sentences


def _message(error: Any) -> str:
    return str(error["msg"].removeprefix("Value error, "))


def _sentence(name: str, message: str, error: Any) -> str:
    given = "" if error["type"] in COMPLETE else f" (got {error['input']!r:.80})"
    return f"{name or 'settings'}: {message}{given}"
