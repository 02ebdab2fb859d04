"""Options of all commands that read a table: how the file is written, and whether odd values are listed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from ..data.delimited import Dialect
    from ..election.mapping import FileMapping

OPTIONS: dict[str, Any] = {
    "sep": Annotated[str | None, typer.Option(help="The separator of your CSV file: , ; | or tab. Default: detected.")],
    "decimal": Annotated[str | None, typer.Option(help="The decimal mark in it: . or , (default: detected).")],
    "encoding": Annotated[str | None, typer.Option(help="Its encoding, such as cp1252. Default: detected.")],
    "map": Annotated[
        list[str] | None,
        typer.Option(help="YOURS=OURS: a column of your file and its name in the election; may be repeated."),
    ],
    "label_map": Annotated[
        list[str] | None, typer.Option(help="Your labels and the election's classes: 0=benign,1=malignant.")
    ],
    "mapping": Annotated[Path | None, typer.Option(help="A TOML file with both, in [mapping] (docs/files.md).")],
    "verbose": Annotated[
        bool, typer.Option("--verbose", help="List the columns with clipped, unseen or missing values.")
    ],
}
MAPPING = ("map", "label_map", "mapping")


@dataclass(frozen=True)
class Reading:
    """What the options say, and the files that they are about."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    map: list[str] | None = None
    label_map: list[str] | None = None
    mapping: Path | None = None
    verbose: bool = False
    paths: tuple[Path, ...] = ()

    @property
    def dialect(self) -> Dialect:
        from ..data.delimited import Dialect

        return Dialect(self.sep, self.decimal, self.encoding)

    @property
    def file_mapping(self) -> FileMapping:
        from ..election.mapping import FileMapping

        return FileMapping.parse(self.map or (), self.label_map or (), self.mapping)

    def applied(self) -> AbstractContextManager[object]:
        """Raises DataError if an option is invalid."""
        stack = ExitStack()
        if (self.sep, self.decimal, self.encoding) != (None, None, None):
            from ..data.read import reading_as

            stack.enter_context(reading_as(self.dialect, *self.paths))
        if self.map or self.label_map or self.mapping:
            from ..election.mapping import mapping_files

            stack.enter_context(mapping_files(self.file_mapping, *self.paths))
        return stack


current: ContextVar[Reading] = ContextVar("current")


def reads_files(*parameters: str, own: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options to a command. They hold for the files that these of its parameters name.

    `own`: the files are a party's own, so their columns and labels may have other names than in the election.
    """
    available = {name: option for name, option in OPTIONS.items() if own or name not in MAPPING}

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            options = {name: given.pop(name) for name in available}
            paths = tuple(given[name] for name in parameters if given[name] is not None)
            token = current.set(Reading(**options, paths=paths))
            try:
                command(**given)
            finally:
                current.reset(token)

        declared = inspect.signature(command).parameters.values()
        extra = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False if name == "verbose" else None)
            for name in available
        ]
        hints = get_type_hints(command, include_extras=True) | available
        every = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name])
            for each in (*declared, *extra)
        ]
        vars(run).update(__signature__=inspect.Signature(every))
        run.__annotations__ = hints
        return run

    return add
