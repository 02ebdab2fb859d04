"""Temperature scaling of the final model's probabilities (Guo et al.: On Calibration of Modern Neural Networks, 2017).

The calibrated probability of a class is proportional to p^(1/T), so a T below 1 sharpens and one above 1 softens. The
order of the classes, and so the predicted label, stays the same. T minimizes the squared error (the Brier score)
between what a model predicts for public rows that it did not learn from and the votes on these rows. On other seeds
than those reported it did a little better than the paper's cross-entropy, which exact zeros of forests dominate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import Array

SMALLEST, LARGEST = 0.05, 20.0
"""The range of temperatures."""
LEAST = 1e-4
"""A probability counts as at least this, divided by the number of classes: forests predict exact zeros."""
FEWEST_ROWS = 20
"""With votes on fewer rows a temperature is mostly chance."""


def scale(probabilities: Array, temperature: float, *, exclusive: bool) -> Array:
    """Probabilities `(rows, classes)` at this temperature; `exclusive`: each row has one class."""
    least = LEAST / probabilities.shape[1]
    p = np.clip(probabilities, least, 1 - least if not exclusive else 1)
    if not exclusive:
        return np.asarray(1 / (1 + np.exp((np.log1p(-p) - np.log(p)) / temperature)))
    powers = np.exp((np.log(p) - np.log(p.max(axis=1, keepdims=True))) / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def fit_temperature(compared: Sequence[tuple[Array, Array]], *, exclusive: bool) -> float | None:
    """The temperature that suits these pairs of predictions and votes, both `(rows, classes)`; None for too few rows.

    Votes are shares, between 0 and 1.
    """
    from scipy.optimize import minimize_scalar

    if sum(len(votes) for _, votes in compared) < FEWEST_ROWS:
        return None
    predicted, votes = (np.concatenate(parts) for parts in zip(*compared, strict=True))

    def loss(log_temperature: float) -> float:
        return float(np.square(scale(predicted, np.exp(log_temperature), exclusive=exclusive) - votes).mean())

    found = minimize_scalar(loss, bounds=(np.log(SMALLEST), np.log(LARGEST)), method="bounded")
    return float(np.exp(found.x))
