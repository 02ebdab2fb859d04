"""A model that is not better than always predicting the most frequent class is a loud warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from oneballot.election.targets import Classes, Labels, Target
from oneballot.errors import WillNotWork
from oneballot.report.baseline import most_frequent
from oneballot.report.metrics import evaluate, summarize

TWO = Classes(["no", "yes"])


def test_the_no_information_rate_is_the_share_of_the_most_frequent_class() -> None:
    y = np.repeat([0, 1, 2], [20, 50, 30])
    p = np.eye(3)[y] * 0.9 + 0.03
    found = most_frequent(Classes("abc"), p, y)
    assert found is not None
    assert found.name == "b"
    assert found.metrics.accuracy == 0.5
    assert found.metrics.balanced_accuracy == pytest.approx(1 / 3)
    assert found.metrics.auc == 0.5
    assert found.accuracy == (1.0, 0.5)
    assert found.beaten
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.warn_if_unbeaten("the model", summarize(Classes("abc"), p, y))


def test_a_model_below_the_no_information_rate_is_a_loud_warning() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [90, 10])
    p = np.full(100, 0.3) + 0.05 * rng.random(100) + 0.1 * y  # ranks rows perfectly, but predicts none as yes
    p[:5] = 0.6
    both = np.column_stack([1 - p, p])
    found = most_frequent(TWO, both, y)
    assert found is not None
    assert found.difference == pytest.approx(-0.05)
    assert not found.beaten
    with pytest.warns(WillNotWork, match=r"no better than always predicting no: accuracy 85.0 %, against 90.0 %.*AUC"):
        found.warn_if_unbeaten("the model", evaluate(TWO, both, y, resamples=0))
    assert found.describe()["beaten"] is False


def test_a_difference_within_chance_does_not_count_as_better() -> None:
    y = np.repeat([0, 1], [30, 20])
    p = np.tile([0.6, 0.4], (50, 1))
    p[-1] = [0.4, 0.6]
    found = most_frequent(TWO, p, y)
    assert found is not None
    assert 0 < found.difference < found.margin
    with pytest.warns(WillNotWork, match="not shown to be better than always predicting no.*within chance"):
        found.warn_if_unbeaten("the model", summarize(TWO, p, y))


def test_several_labels_per_row_are_compared_with_the_most_frequent_value_of_each() -> None:
    y = np.array([[1, -1], [1, -1], [1, 1], [-1, 0]])
    found = most_frequent(Labels("ab"), np.where(y > 0, 0.9, 0.1), y)
    assert found is not None
    assert found.metrics.accuracy == pytest.approx(5 / 7)
    assert "each label" in found.name


def test_a_target_without_classes_has_no_baseline() -> None:
    assert most_frequent(Target(), np.zeros((3, 1)), np.zeros(3)) is None
