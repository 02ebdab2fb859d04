"""Finds methods, learners, targets, formats, boxes, mechanisms, peers and commands by name.

A built-in plug-in is a module that sets `plugin = TheClass`. A method that needs several files is a package: its class
is in `method.py`, and its own format, if any, in `format.py`. Other packages register theirs with entry points of the
groups `oneballot.methods`, `.learners`, `.targets`, `.formats`, `.boxes`, `.mechanisms`, `.peers` and `.commands`. All
peers are registered in this way, by `oneballot_lab`.
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

Kind = Literal["methods", "learners", "targets", "formats", "boxes", "mechanisms", "peers"]
ONE = {
    "methods": "method", "learners": "learner", "targets": "target", "formats": "format", "boxes": "box",
    "mechanisms": "mechanism", "peers": "peer",
}  # fmt: skip
FOLDERS = {"mechanisms": "oneballot.privacy.mechanisms", "targets": "oneballot.election.targets"}
"""Where built-ins are, if not in the folder of that name."""
BASES = {
    "peers": ("oneballot.peers", "Peer"),
    "mechanisms": ("oneballot.privacy.mechanisms", "NoisyArgmax"),
    "targets": ("oneballot.election.targets", "Target"),
}
"""The base classes that are not in `interfaces`."""


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """All names of a kind, sorted. No plug-in is imported."""
    return tuple(sorted(_built_in(kind).keys() | {e.name for e in entry_points(group=f"oneballot.{kind}")}))


def is_built_in(kind: Kind, name: str) -> bool:
    return name in _built_in(kind)


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
        loaded: Any = plugin.load()
        fits = isinstance(loaded, type) and issubclass(loaded, _base(kind))
        if not fits:
            raise ElectionError(
                f"entry point {name!r}: {plugin.value} is not a subclass of {'.'.join(_base_path(kind))}, "
                f"which every {ONE[kind]} must be (docs/extending.md)"
            )
        if loaded.name != name:
            raise ElectionError(f"entry point {name!r}: the {ONE[kind]} it names calls itself {loaded.name!r}")
        if missing := ", ".join(sorted(loaded.__abstractmethods__)):
            raise ElectionError(f"the {ONE[kind]} {name!r} ({plugin.value}) does not define {missing}")
        return loaded
    except (ImportError, AttributeError) as error:
        raise ElectionError(f"the {ONE[kind]} {name!r} ({plugin.value}) cannot be loaded: {error}") from error


def instance(kind: Kind, given: Any) -> Any:
    """A plug-in given by its name, as an object or, for a learner, as a scikit-learn estimator to train."""
    if isinstance(given, str):
        return find(kind, given)()
    if kind == "learners" and hasattr(given, "get_params"):
        return find("learners", "sklearn")(given)
    if not isinstance(given, _base(kind)):
        raise ElectionError(f"a {ONE[kind]} must be a name or a {_base(kind).__name__}, not {type(given).__name__}")
    return given


def describe(plugin: Any) -> dict[str, Any]:
    """A plug-in's name and settings as plain values, for the election's digest."""
    return {"name": plugin.name, **plugin.describe()}


def _base_path(kind: Kind) -> tuple[str, str]:
    """The public module and the name of the base class of a kind."""
    return BASES.get(kind, ("oneballot.interfaces", ONE[kind].capitalize()))


def _base(kind: Kind) -> type:
    """The base class of a kind."""
    module, name = _base_path(kind)
    base: type = vars(importlib.import_module(module))[name]
    return base


@cache
def commands() -> tuple[tuple[str, Any], ...]:
    """The commands of other packages: names, and modules like those of `oneballot.cli`."""
    found = []
    for entry in sorted(entry_points(group="oneballot.commands"), key=lambda entry: entry.name):
        try:
            parts = vars(module := entry.load()).keys()
            if missing := {"SECTION", *(() if "app" in parts else ("command", "EXAMPLE"))} - parts:
                raise ImportError(f"it has no {', '.join(sorted(missing))}")
            found.append((entry.name, module))
        except Exception as error:  # a broken package must not break the other commands
            text = f"the command {entry.name!r} ({entry.value}) cannot be loaded: {error}"
            warnings.warn(text, OneBallotWarning, stacklevel=2)
    return tuple(found)


@cache
def _built_in(kind: Kind) -> dict[str, str]:
    """The module of each built-in, by name."""
    if kind == "peers":
        return {}
    folder = importlib.import_module(FOLDERS.get(kind, f"oneballot.{kind}"))
    found: dict[str, str] = {}
    for file in pkgutil.iter_modules(folder.__path__):
        if not file.name.startswith("_"):
            found[file.name.replace("_", "-")] = f"{folder.__name__}.{file.name}" + (".method" if file.ispkg else "")
    if kind == "formats":
        methods = importlib.import_module("oneballot.methods")
        for path in (Path(root) for root in methods.__path__):
            for own in path.glob("*/format.py"):
                found[own.parent.name.replace("_", "-")] = f"oneballot.methods.{own.parent.name}.format"
    return found
