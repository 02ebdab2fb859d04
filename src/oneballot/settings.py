"""What people set: frozen dataclasses that pydantic checks, and whose mistakes are told in our own words.

Methods, learners and privacy terms are all made here, so a setting that cannot be is the same ElectionError in a file
and in Python, wherever it stands.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import wraps
from itertools import groupby
from typing import Any, TypeVar, dataclass_transform

from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from .errors import ElectionError

Class = TypeVar("Class")
TELL_ALL = ("missing", "value_error", "extra_forbidden")
"""Mistakes whose message leaves nothing to be said about what was given."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def settings(cls: type[Class]) -> type[Class]:
    """A class of settings. What pydantic finds wrong with them is raised as an ElectionError; in it the class goes by
    its name, or by what it is `called`."""
    made: Any = dataclass(frozen=True, config={"extra": "forbid", "arbitrary_types_allowed": True})(cls)
    check, known = made.__init__, [f.name for f in dataclasses.fields(made)]

    @wraps(check)
    def init(self: Any, *values: Any, **named: Any) -> None:
        try:
            check(self, *values, **named)
        except ValidationError as error:
            called = getattr(cls, "called", cls.__name__)
            raise ElectionError(f"{called}: {'; '.join(_of_settings(error, known))}") from None

    made.__init__ = init
    return made  # type: ignore[no-any-return]


def _of_settings(error: ValidationError, known: list[str]) -> Iterator[str]:
    """Setting by setting: where it may be one of several kinds of things, pydantic has a mistake of each."""
    for at, found in groupby(error.errors(), lambda mistake: mistake["loc"][:1]):
        first, *others = found
        name = known[at[0]] if at and isinstance(at[0], int) and at[0] < len(known) else ".".join(map(str, at))
        if first["type"] == "unexpected_keyword_argument":
            yield f"there is no setting {name}; there are {', '.join(known)}"
        else:
            yield _told(name, " or ".join([_message(first), *map(_message, others)]), first)


def describe_errors(error: ValidationError) -> list[str]:
    """What pydantic found in something larger, a sentence each: where, what is allowed, and what was given."""
    return [
        _told(
            ".".join(str(part).rstrip("_") for part in found["loc"] if part != "function-after"), _message(found), found
        )
        for found in error.errors()
    ]


def _message(found: Any) -> str:
    return str(found["msg"].removeprefix("Value error, "))


def _told(name: str, message: str, found: Any) -> str:
    given = "" if found["type"] in TELL_ALL else f" (got {found['input']!r:.80})"
    return f"{name or 'settings'}: {message}{given}"
