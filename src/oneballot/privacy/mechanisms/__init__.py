"""Mechanisms: noise on what is released, each with its sampler, sensitivity, costs, win probability and words.

Each public file is one mechanism that an election can name; other packages register theirs with entry points of the
group `oneballot.mechanisms`. `Mechanism` and `NoisyArgmax` declare what one must provide and what it may. Noise on
numbers beside votes is `NoisyNumbers`. Noise is drawn exactly, on a lattice, with integer arithmetic.
"""

from __future__ import annotations

from typing import cast

from ... import plugins
from ._argmax import NoisyArgmax
from ._base import Mechanism
from ._lattice import MAX_INTEGER_SCALE, check_scale, round_up
from ._numbers import NoisyNumbers

__all__ = [
    "AUTO", "DEFAULT", "MAX_INTEGER_SCALE", "Mechanism", "NoisyArgmax", "NoisyNumbers", "check_scale", "covered_by",
    "find", "names", "round_up",
]  # fmt: skip

AUTO = ("gumbel", "gaussian", "laplace")
"""What "auto" chooses from. It is fixed, so that every party calculates the same noise, whatever it has installed."""
DEFAULT = AUTO[0]
"""The mechanism if only a scale is given, and the one whose scale others are compared at."""


def find(name: str) -> type[NoisyArgmax]:
    """The mechanism with this name. Raises ElectionError for an unknown one."""
    return cast(type[NoisyArgmax], plugins.find("mechanisms", name))


def names() -> tuple[str, ...]:
    """The mechanisms that can be named: those of "auto" first."""
    return tuple(dict.fromkeys([*AUTO, *plugins.names("mechanisms")]))


def covered_by(accountant: str) -> str:
    """Which mechanisms of "auto" this accountant covers, in words."""
    return " and ".join(name.capitalize() for name in AUTO if accountant in find(name).accountants)
