"""Targets: what an election predicts. One file each; other packages register theirs as `oneballot.targets`.

A target encodes a party's label column, says which outputs a learner has, decodes predictions, and names and computes
its metrics. No other module asks which target it is: it asks the target. `party`, `server`, `report` and everything
above may import this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import plugins
from ...errors import ElectionError
from ...interfaces import Learner, Method
from ...peers import Peer
from ...types import Class
from ._base import Better, OneVsRest, Scorer, Target
from .classes import Classes
from .labels import Labels

__all__ = [
    "Better",
    "Classes",
    "Labels",
    "OneVsRest",
    "Scorer",
    "Target",
    "describe",
    "name_for",
    "read",
    "resolve",
    "supports",
]

OLD_KEYS = {Classes.name: {"multilabel": False}, Labels.name: {"multilabel": True}}
"""How files of version 0.1.0 state these targets. Files state other targets by name and settings."""


def name_for(label: str | tuple[str, ...] | None) -> str:
    """The name of the target that a file means if it names none: several label columns are several labels per row."""
    return Labels.name if isinstance(label, tuple) else Classes.name


def resolve(given: Target | str | None, classes: Sequence[Class], *, multilabel: bool = False) -> Target:
    """The target that was given, or is meant by `multilabel`, with the election's classes."""
    if isinstance(classes, str):
        raise ElectionError(f"classes must be a list of names, such as ['no', 'yes'], not the text {classes!r}")
    target: Target = plugins.instance("targets", given or (Labels.name if multilabel else Classes.name))
    if multilabel and target.name != Labels.name:
        raise ElectionError(f'multilabel=True means target="labels", but the target is {target.name!r}; leave one out')
    if not len(classes) or tuple(classes) == target.classes:
        return target
    named = replace(target, classes=tuple(classes))
    if target.classes and named.classes != target.classes:
        raise ElectionError(
            f"the election's classes are {list(named.classes)}, but the target's {list(target.classes)}; give them once"
        )
    return named


def supports(plugin: Method | Learner | Peer, target: Target) -> bool:
    """Whether a method, learner or peer declares this target's kind in `targets`."""
    return target.kind in plugin.targets


def describe(target: Target) -> dict[str, Any]:
    """The target as plain values, for files and for the digest, where False is left out."""
    return OLD_KEYS.get(target.name, {"target": plugins.describe(target)})


def read(described: Mapping[str, Any], classes: Sequence[Class]) -> Target:
    """The target that `describe` has written."""
    if about := described.get("target"):
        settings = {name: value for name, value in about.items() if name != "name"}
        return plugins.find("targets", about["name"])(classes, **settings)  # type: ignore[no-any-return]
    return resolve(None, classes, multilabel=described.get("multilabel", False))
