"""Finds methods, learners, formats, boxes and peers by name: the files of a folder, and entry points of other packages.

A built-in is a file that says `offers = TheClass`; a plug-in is an entry point of the group `oneballot.methods` (or
`.learners`, `.formats`, `.boxes`, `.peers`) that names the class. The two are looked up in the same way, and neither is
listed.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal

from .errors import ElectionError

Kind = Literal["methods", "learners", "formats", "boxes", "peers"]
ONE = {"methods": "method", "learners": "learner", "formats": "format", "boxes": "box", "peers": "peer"}


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """All names of a kind, sorted. Imports none of them."""
    return tuple(sorted(_files(kind) | {e.name for e in entry_points(group=f"oneballot.{kind}")}))


@cache
def find(kind: Kind, name: str) -> Any:
    """The class behind a name. A built-in cannot be replaced by a plug-in."""
    if name not in names(kind):
        close = difflib.get_close_matches(name, names(kind), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ElectionError(
            f"there is no {ONE[kind]} {name!r}; there are {', '.join(names(kind))}.{hint} Plug-ins must be installed."
        )
    if name in _files(kind):
        return importlib.import_module(f"oneballot.{kind}.{name.replace('-', '_')}").offers
    (plugin, *_) = entry_points(group=f"oneballot.{kind}", name=name)
    try:
        found = plugin.load()
        if found.name != name:
            raise ElectionError(f"the entry point {name!r} names a {ONE[kind]} that calls itself {found.name!r}")
        return found
    except (ImportError, AttributeError) as error:
        raise ElectionError(f"the {ONE[kind]} {name!r} of another package ({plugin.value}) fails: {error}") from error


def _files(kind: Kind) -> set[str]:
    package = importlib.import_module(f"oneballot.{kind}")
    return {m.name.replace("_", "-") for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")}
