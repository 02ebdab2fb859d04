"""Plain averages: which models are selected, and how much each counts for a class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...influence import bounded_rows, cap_weights
from ...interfaces import Context
from ...types import Array, Contents
from .open_count import array_of
from .settings import EnsembleSettings


def select_members(method: EnsembleSettings, ballots: Sequence[Contents], group: Array, ctx: Context) -> Array:
    """The members among a group of parties (section 3); ties are broken at random."""
    if method.select == "all":
        return group
    if method.k is not None and method.k > len(group):
        ctx.warn(f"k = {method.k}, but there are {len(group)} models to select from: all are selected")
    order = np.random.default_rng(ctx.shared_seed("select")).permutation(len(ballots))[group]
    rank = np.zeros(len(group))
    if method.select == "cv":
        rank = np.array([-int(array_of(ballots[i], "score")[0]) for i in group])
    elif method.select == "size":
        rank = np.array([-int(array_of(ballots[i], "seen").sum()) for i in group])
    return np.sort(group[np.lexsort((order, rank))[: method.k]])


def class_weights(method: EnsembleSettings, class_counts: Array, selected: Array) -> Array:
    """How much each member's prediction for each class counts, `(members, classes)`; 0 for one that is not selected."""
    weights = np.zeros(class_counts.shape)
    if method.weights == "uniform":
        weights[selected] = 1
    elif method.weights == "seen":
        weights[selected] = np.minimum(class_counts[selected], 1)
    elif method.influence == "claimed":
        weights[selected] = np.minimum(class_counts[selected], method.most_rows)
    else:
        weights[selected] = bounded_counts(class_counts[selected], method.most_rows)
    return weights


def bounded_counts(class_counts: Array, most_rows: int) -> Array:
    """Rows of each class `(parties, classes)` as they count: a party's in total at most its bounded rows, of a class at
    most `most_rows`, and at most its share of the class's weight. Where fewer parties have a class than the cap needs,
    they count alike."""
    declared = class_counts.sum(axis=1)
    scale = np.minimum(1, bounded_rows(declared) / np.maximum(declared, 1))
    counts = np.minimum(class_counts * scale[:, None], most_rows)
    capped, _ = cap_weights(counts.T, 0.0)
    fewest = np.where(counts > 0, counts, np.inf).min(axis=0)
    return np.asarray(np.maximum(capped.T, np.minimum(counts, fewest)))
