"""Finds methods, learners, formats, boxes, peers and commands by name.

A built-in is a file of its folder that says `plugin = TheClass`. A method that needs several files is a package: its
class is in `method.py`, and a format that it alone uses in `format.py`. Other packages register theirs with an entry
point of the group `oneballot.methods`, `.learners`, `.formats`, `.boxes`, `.peers` or `.commands`. Peers have no
built-ins; `oneballot_lab` registers its own in this way.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import warnings
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from .errors import ElectionError, OneBallotWarning

Kind = Literal["methods", "learners", "formats", "boxes", "peers"]
ONE = {"methods": "method", "learners": "learner", "formats": "format", "boxes": "box", "peers": "peer"}


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """All names of a kind, sorted. Imports none of them."""
    return tuple(sorted(_built_in(kind).keys() | {e.name for e in entry_points(group=f"oneballot.{kind}")}))


@cache
def find(kind: Kind, name: str) -> Any:
    """The class behind a name. A plug-in cannot replace a built-in."""
    if name not in names(kind):
        close = difflib.get_close_matches(name, names(kind), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ElectionError(
            f"unknown {ONE[kind]} {name!r}; available: {', '.join(names(kind))}.{hint} Plug-ins must be installed."
        )
    if module := _built_in(kind).get(name):
        return importlib.import_module(module).plugin
    (plugin, *_) = entry_points(group=f"oneballot.{kind}", name=name)
    try:
        found = plugin.load()
        if found.name != name:
            raise ElectionError(f"entry point {name!r}: the {ONE[kind]} it names calls itself {found.name!r}")
        return found
    except (ImportError, AttributeError) as error:
        raise ElectionError(f"the {ONE[kind]} {name!r} ({plugin.value}) cannot be loaded: {error}") from error


@cache
def commands() -> tuple[tuple[str, Any], ...]:
    """The commands of other packages, by name: modules as those of `oneballot.cli`."""
    found = []
    for entry in sorted(entry_points(group="oneballot.commands"), key=lambda entry: entry.name):
        try:
            found.append((entry.name, entry.load()))
        except Exception as error:  # another package's mistake: every other command still works
            text = f"the command {entry.name!r} ({entry.value}) cannot be loaded: {error}"
            warnings.warn(text, OneBallotWarning, stacklevel=2)
    return tuple(found)


@cache
def _built_in(kind: Kind) -> dict[str, str]:
    """The names of the built-ins, and the module of each."""
    if kind == "peers":
        return {}
    folder = importlib.import_module(f"oneballot.{kind}")
    found: dict[str, str] = {}
    for file in pkgutil.iter_modules(folder.__path__):
        if not file.name.startswith("_"):
            found[file.name.replace("_", "-")] = f"oneballot.{kind}.{file.name}" + (".method" if file.ispkg else "")
    if kind == "formats":
        methods = importlib.import_module("oneballot.methods")
        for path in (Path(root) for root in methods.__path__):
            for own in path.glob("*/format.py"):
                found[own.parent.name.replace("_", "-")] = f"oneballot.methods.{own.parent.name}.format"
    return found
