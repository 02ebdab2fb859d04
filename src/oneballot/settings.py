"""Settings: frozen dataclasses that pydantic validates, with readable errors.

Methods, learners and privacy settings use the decorator `settings`, so an invalid value raises the same ElectionError
in a file and in Python.
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
COMPLETE = ("missing", "value_error", "extra_forbidden")
"""Types of errors whose message need not quote the value."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, Field))
def settings(cls: type[Class]) -> type[Class]:
    """Decorate a class of settings. Invalid values raise an ElectionError that names the class, or its `called`."""
    made: Any = dataclass(frozen=True, config={"extra": "forbid", "arbitrary_types_allowed": True})(cls)
    validate, known = made.__init__, [f.name for f in dataclasses.fields(made)]

    @wraps(validate)
    def init(self: Any, *values: Any, **named: Any) -> None:
        try:
            validate(self, *values, **named)
        except ValidationError as error:
            called = getattr(cls, "called", cls.__name__)
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


def describe_errors(error: ValidationError) -> list[str]:
    """A sentence for each error in a document: its place, what is allowed, and the value."""
    sentences = []
    for each in error.errors():
        place = ".".join(str(part).rstrip("_") for part in each["loc"] if part != "function-after")
        sentences.append(_sentence(place, _message(each), each))
    return sentences


def _message(error: Any) -> str:
    return str(error["msg"].removeprefix("Value error, "))


def _sentence(name: str, message: str, error: Any) -> str:
    given = "" if error["type"] in COMPLETE else f" (got {error['input']!r:.80})"
    return f"{name or 'settings'}: {message}{given}"
