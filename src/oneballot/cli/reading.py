"""Options of all commands that read a table: how the file is written, and whether odd values are listed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

OPTIONS: dict[str, Any] = {
    "sep": Annotated[str | None, typer.Option(help="The separator of your CSV file: , ; | or tab. Default: detected.")],
    "decimal": Annotated[str | None, typer.Option(help="The decimal mark in it: . or , (default: detected).")],
    "encoding": Annotated[str | None, typer.Option(help="Its encoding, such as cp1252. Default: detected.")],
    "verbose": Annotated[
        bool, typer.Option("--verbose", help="List the columns with clipped, unseen or missing values.")
    ],
}


@dataclass(frozen=True)
class Reading:
    """What the options say, and the files that they are about."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    verbose: bool = False
    paths: tuple[Path, ...] = ()

    def applied(self) -> AbstractContextManager[None]:
        """Raises DataError if an option is invalid."""
        if (self.sep, self.decimal, self.encoding) == (None, None, None):
            return nullcontext()
        from ..data.delimited import Dialect
        from ..data.read import reading_as

        return reading_as(Dialect(self.sep, self.decimal, self.encoding), *self.paths)


current: ContextVar[Reading] = ContextVar("current")


def reads_files(*parameters: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options to a command. They hold for the files that these of its parameters name."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            options = {name: given.pop(name) for name in OPTIONS}
            paths = tuple(given[name] for name in parameters if given[name] is not None)
            token = current.set(Reading(**options, paths=paths))
            try:
                command(**given)
            finally:
                current.reset(token)

        own = inspect.signature(command).parameters.values()
        extra = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False if name == "verbose" else None)
            for name in OPTIONS
        ]
        hints = get_type_hints(command, include_extras=True) | OPTIONS
        every = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name]) for each in (*own, *extra)
        ]
        vars(run).update(__signature__=inspect.Signature(every))
        run.__annotations__ = hints
        return run

    return add
