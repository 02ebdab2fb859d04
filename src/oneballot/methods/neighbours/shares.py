"""How the private rows at each public row divide among the classes, estimated from noisy votes.

Private rows are assumed to lie where public rows lie. Then the expected votes are known: if the rows at public row j
divide as q_j, public row p gets Σ_j A_jp·q_jc votes for class c, up to a factor, where A says which public rows are the
nearest of which. With q = F·θ, linear in fixed features of the public rows, θ is the ridge regression of the votes on
Aᵀ·F. This undoes two effects of nearest neighbours: public rows in the middle of others get more votes than others, and
votes are a mean over k rows. Only released votes and public rows are used, so nothing here costs privacy.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ...types import Array
from .._smoothing import as_shares, fit_penalised


def estimate_shares(votes: Array, noise: float, graph: csr_array, features: Array) -> Array:
    """Shares `(public, classes)` from votes of the same shape; the sum of a row's shares is 1.

    noise: the standard deviation of the noise on each. graph: `Space.among_public`. features: `make_features`.
    """
    classes, neighbours = votes.shape[1], graph.nnz / len(votes)
    each = float(votes.sum()) / len(votes)  # the votes of a public row in the mean
    if not each > 0:
        return np.full(votes.shape, 1 / classes)
    expected = np.asarray((graph.T @ features) / neighbours)
    # A private row votes on k rows that are close to each other, so that their sampling errors add up: hence k times.
    often = np.asarray(graph.sum(axis=0)).ravel() / neighbours
    variance = (noise / each) ** 2 + np.maximum(often, 1 / neighbours) * neighbours / (each * classes)
    return as_shares(features @ fit_penalised(expected, votes / each, variance))
