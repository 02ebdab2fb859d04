"""Metrics equal scikit-learn's; intervals are fast and cover; missing classes are no error."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    roc_auc_score,
)

from oneballot.election.targets import Classes, Labels
from oneballot.errors import WillNotWork
from oneballot.report.bootstrap import bootstrap, interval
from oneballot.report.metrics import accuracy, evaluate, mean, summarize
from oneballot.types import Array


def predictions(rows: int, classes: int, seed: int = 0, rounded: bool = True) -> tuple[Array, Array]:
    """Labels, and probabilities that resemble them; rounded ones have ties."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    p = rng.dirichlet(np.ones(classes), rows) + 0.4 * np.eye(classes)[y]
    if rounded:
        p = np.round(p * 8) + 0.01
    return p / p.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("rounded", [False, True])
def test_metrics_of_several_classes_are_scikit_learns(rounded: bool) -> None:
    p, y = predictions(500, 4, rounded=rounded)
    found = evaluate(Classes("abcd"), p, y, resamples=50)
    assert found.accuracy == accuracy(p, y) == pytest.approx((p.argmax(1) == y).mean())
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(y, p.argmax(1)))
    assert found.auc == pytest.approx(roc_auc_score(y, p, multi_class="ovr"), abs=1e-6)
    assert found.average_precision == pytest.approx(average_precision_score(y, p), abs=1e-6)
    assert found.brier == pytest.approx(brier_score_loss(y, p), abs=1e-6)
    assert found.confusion is not None
    assert found.confusion.tolist() == confusion_matrix(y, p.argmax(1)).tolist()
    assert [c["support"] for c in found.by_class] == np.bincount(y).tolist()
    assert np.mean([c["auc"] for c in found.by_class]) == pytest.approx(found.auc, abs=1e-6)


def test_of_two_classes_average_precision_is_that_of_the_rarer_one() -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(2000) < 0.02).astype(int)
    rare = np.clip(rng.normal(0.05 + 0.1 * y, 0.04), 0, 1)
    for column in (0, 1):  # whichever column the rare class has
        p = np.stack([rare, 1 - rare] if column == 0 else [1 - rare, rare], axis=1)
        labels = y if column == 1 else 1 - y
        found = summarize(Classes("ab"), p, labels)
        assert found.average_precision == pytest.approx(average_precision_score(y, rare), abs=1e-6)
        assert found.auc == pytest.approx(roc_auc_score(y, rare), abs=1e-6)
        assert found.brier == pytest.approx(brier_score_loss(y, rare), abs=1e-6)
    assert found.accuracy > 0.95
    assert found.balanced_accuracy < 0.8  # accuracy hides that most rare rows are missed


def test_a_model_that_predicts_one_class_for_every_row_is_exposed() -> None:
    y = np.array([0] * 99 + [1])
    found = evaluate(Classes(["no", "yes"]), np.tile([0.9, 0.1], (100, 1)), y)
    assert (found.accuracy, found.balanced_accuracy, found.auc) == (0.99, 0.5, 0.5)
    assert found.by_class[1]["recall"] == 0


def test_a_class_without_rows_is_left_out_and_a_single_class_has_no_auc() -> None:
    p, y = predictions(300, 3)
    some = y != 2
    found = evaluate(Classes("abc"), p[some], y[some], resamples=20)
    each = [roc_auc_score(y[some] == c, p[some, c]) for c in (0, 1)]
    assert found.auc == pytest.approx(np.mean(each), abs=1e-6)
    assert np.isnan(found.by_class[2]["auc"])
    one = evaluate(Classes("abc"), p[y == 1], y[y == 1], resamples=20)
    assert np.isnan(one.auc)
    assert np.isnan(one.average_precision)
    assert one.balanced_accuracy == one.accuracy
    described = one.describe()
    assert described["auc"] is None
    assert described["intervals"]["auc"] == [None, None]
    assert evaluate(Classes("abc"), p[:1], y[:1]).intervals == {}


def test_several_labels_per_row_use_the_known_ones() -> None:
    rng = np.random.default_rng(3)
    y = rng.choice([-1, 0, 1], size=(400, 3), p=[0.5, 0.2, 0.3])
    p = np.clip(0.5 + 0.2 * y + rng.normal(0, 0.2, y.shape), 0, 1)
    found = evaluate(Labels("abc"), p, y, resamples=30)
    known = [y[:, c] != 0 for c in range(3)]
    assert found.accuracy == pytest.approx(Labels("abc").accuracy(p, y))
    assert found.auc == pytest.approx(np.mean([roc_auc_score(y[k, c] > 0, p[k, c]) for c, k in enumerate(known)]))
    recalls = [balanced_accuracy_score(y[k, c] > 0, p[k, c] >= 0.5) for c, k in enumerate(known)]
    assert found.balanced_accuracy == pytest.approx(np.mean(recalls))
    assert found.brier == pytest.approx(np.square(p - (y > 0))[y != 0].mean(), abs=1e-6)
    assert found.confusion is not None
    assert found.confusion.shape == (3, 2, 2)
    assert found.confusion.sum() == (y != 0).sum()
    assert found.intervals["auc"][0] < found.auc < found.intervals["auc"][1]


def test_the_calibration_error_is_the_gap_between_probabilities_and_observed_shares() -> None:
    p = np.tile([0.8, 0.2], (100, 1))
    y = np.array([0] * 80 + [1] * 20)
    assert Classes("ab").calibration_error(p, y) == pytest.approx(0, abs=1e-9)
    assert Classes("ab").calibration_error(p, 1 - y) == pytest.approx(0.6)
    three = np.tile([0.7, 0.2, 0.1], (100, 1))
    assert Classes("abc").calibration_error(three, np.repeat([0, 1], [50, 50])) == pytest.approx(0.2)


def test_calibration_errors_of_the_two_classes_do_not_cancel() -> None:
    score = np.repeat([0.2, 0.8], 100)
    y = np.repeat([0, 1, 0], [100, 61, 39])  # observed: 0.00 and 0.61
    p = np.column_stack([1 - score, score])
    assert Classes("ab").calibration_error(p, y) == pytest.approx(0.195)
    assert Classes("ba").calibration_error(p[:, ::-1], 1 - y) == pytest.approx(0.195), "the rarer class, in any order"
    labels = Labels("ab").calibration_error(np.column_stack([score, score]), np.column_stack([2 * y - 1] * 2))
    assert labels == pytest.approx(0.195)


def test_resamples_give_the_metrics_of_the_drawn_rows() -> None:
    p, y = predictions(60, 3)
    weighted = Classes("abc").scorer(p, y)
    drawn = np.random.default_rng(0).integers(60, size=60)
    weights = np.bincount(drawn, minlength=60).astype(np.float32)[:, None]
    expected = summarize(Classes("abc"), p[drawn], y[drawn])
    for name, values in weighted(weights).items():
        assert values[0] == pytest.approx(expected[name], abs=1e-5), name


def test_an_interval_covers_the_true_accuracy_as_often_as_it_says() -> None:
    rng, covered = np.random.default_rng(0), 0
    for i in range(200):
        right = rng.random(150) < 0.8
        p = np.where(right[:, None], [0.9, 0.1], [0.1, 0.9])
        (drawn,) = bootstrap(Classes("ab").scorer(p, np.zeros(150, dtype=int)), rows=150, seed=i, number=300)
        low, high = interval(drawn["accuracy"])
        covered += low <= 0.8 <= high
    assert 0.9 < covered / 200 < 0.99


def test_ten_thousand_rows_take_a_few_seconds_at_most() -> None:
    p, y = predictions(10_000, 2, rounded=False)
    evaluate(Classes("ab"), p[:50], y[:50])  # imports
    begin = time.process_time()
    found = evaluate(Classes("ab"), p, y)
    assert time.process_time() - begin < 4  # about 0.6 s; the limit allows for a busy machine
    assert found.intervals["accuracy"][1] - found.intervals["accuracy"][0] < 0.03


def test_the_mean_of_several_models_leaves_out_undefined_metrics() -> None:
    p, y = predictions(200, 2)
    two = Classes("ab")
    whole, one = summarize(two, p, y), summarize(two, p[y == 0], y[y == 0])
    both = mean([whole, one])
    assert both.accuracy == pytest.approx((whole.accuracy + one.accuracy) / 2)
    assert both.auc == whole.auc
    assert set(two.metrics) <= set(whole.describe())
    assert two.row_scores(p, y).mean() == whole.accuracy


def test_a_class_that_is_never_recognised_is_a_warning_though_accuracy_is_high() -> None:
    y = np.repeat([0, 1], [990, 10])
    p = np.column_stack([np.full(1000, 0.9), np.full(1000, 0.1)])
    p[y == 1] = [0.6, 0.4]
    found = evaluate(Classes(["no", "yes"]), p, y, resamples=0)
    assert found.describe()["missed_classes"] == ["yes"]
    with pytest.warns(WillNotWork, match="none of the 10 rows of class yes.*lower probability"):
        found.warn_if_missed("the model")
    with pytest.warns(WillNotWork, match="fails on the only row of class yes.*rank it well"):
        evaluate(Classes(["no", "yes"]), p[:991], y[:991], resamples=0).warn_if_missed("the model")
    p[y == 1] = [0.4, 0.6]
    assert not evaluate(Classes(["no", "yes"]), p, y, resamples=0).missed


def test_a_class_that_is_mostly_missed_is_pointed_out() -> None:
    y = np.r_[np.zeros(160, int), np.ones(40, int)]
    predicted = np.zeros(200, int)
    predicted[160:164] = 1
    metrics = evaluate(Classes(("home", "died")), np.eye(2)[predicted], y, resamples=0)
    assert [each["class"] for each in metrics.weak] == ["died"]
    with pytest.warns(WillNotWork, match=r"only 4 of the 40 rows of class died \(10.0 %\)"):
        metrics.warn_if_missed("the model")
