"""ROC-AUC against scikit-learn's, and what there is to say where it is not defined."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from oneballot.metrics import auc, mean_auc


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_it_is_scikit_learns_with_ties_too(rows) -> None:
    scores, positive = np.array([r[0] for r in rows]) / 5, np.array([r[1] for r in rows])
    if positive.all() or not positive.any():
        assert math.isnan(auc(scores, positive))
    else:
        assert auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))


def test_by_hand_two_of_three_pairs_are_in_order() -> None:
    assert auc(np.array([0.9, 0.2, 0.5, 0.1]), np.array([True, False, False, False])) == 1
    assert auc(np.array([0.4, 0.2, 0.5, 0.1]), np.array([True, False, False, False])) == pytest.approx(2 / 3)


def test_of_several_classes_it_is_each_against_the_rest_and_absent_ones_are_left_out() -> None:
    rng = np.random.default_rng(0)
    chances, y = rng.dirichlet(np.ones(4), 60), rng.integers(0, 3, 60)
    expected = np.mean([roc_auc_score(y == c, chances[:, c]) for c in range(3)])
    assert mean_auc(chances, y) == pytest.approx(expected)
    two = rng.dirichlet(np.ones(2), 60)
    assert mean_auc(two, y % 2) == pytest.approx(roc_auc_score(y % 2, two[:, 1]))
    assert math.isnan(mean_auc(chances, np.zeros(60, int)))
