"""Rows of several requests in one array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..sparse import concatenate
from ..types import Array, Stack


def join_rows(stacks: Sequence[Array | Stack]) -> tuple[Array, list[Array]]:
    """All rows together, with shared parts stored once, and for each stack the indices of its rows."""
    parts: dict[int, Array] = {}
    offsets: dict[int, int] = {}
    indices = []
    for stack in stacks:
        own = stack.parts if isinstance(stack, Stack) else (stack,)
        for part in own:
            if id(part) not in parts:
                offsets[id(part)] = sum(map(len, parts.values()))
                parts[id(part)] = part
        indices.append(np.concatenate([offsets[id(part)] + np.arange(len(part)) for part in own]))
    return concatenate(list(parts.values())), indices
