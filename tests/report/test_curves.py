"""Curves equal scikit-learn's and closed forms; bands cover as often as they say, and are fast."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from oneballot.election.targets import Classes, Labels, Target
from oneballot.report.curves import calibration, curves, decision_curve, thin
from oneballot.report.metrics import evaluate
from oneballot.runtime.progress import report_progress_to
from oneballot.types import Array


def predictions(rows: int, classes: int, seed: int = 0, rounded: bool = False) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    p = rng.dirichlet(np.ones(classes), rows) + 0.3 / classes**0.5 * np.eye(classes)[y]
    p = p / p.sum(axis=1, keepdims=True)
    return (np.round(p * 8) / 8 if rounded else p), y


@pytest.mark.parametrize("rounded", [False, True])
def test_roc_and_precision_recall_curves_are_scikit_learns(rounded: bool) -> None:
    p, y = predictions(150, 3, rounded=rounded)
    found = curves(Classes("abc"), p, y, number=0)
    assert [c.name for c in found.roc] == ["macro average", "a", "b", "c"]
    for c in range(3):
        fallout, recall, _ = roc_curve(y == c, p[:, c])
        roc, pr = found.roc[c + 1], found.precision_recall[c + 1]
        np.testing.assert_array_equal((roc.x, roc.y), (fallout, recall))
        precision, recall, _ = precision_recall_curve(y == c, p[:, c])
        np.testing.assert_array_equal((pr.x, pr.y), (recall[::-1], precision[::-1]))
        assert roc.area == pytest.approx(roc_auc_score(y == c, p[:, c]))
        assert pr.area == pytest.approx(average_precision_score(y == c, p[:, c]))
        assert (roc.positives, roc.rows) == ((y == c).sum(), 150)
        assert roc.band is None
    metrics = evaluate(Classes("abc"), p, y, resamples=0)
    assert found.roc[0].area == pytest.approx(metrics.auc, abs=1e-6)
    assert found.precision_recall[0].area == pytest.approx(metrics.average_precision, abs=1e-6)


def test_the_macro_average_is_the_mean_of_the_classes_recall_at_each_false_positive_rate() -> None:
    p, y = predictions(400, 4)
    macro = curves(Classes("abcd"), p, y, number=0).roc[0]
    each = [np.interp(macro.x, *roc_curve(y == c, p[:, c], drop_intermediate=False)[:2]) for c in range(4)]
    np.testing.assert_allclose(macro.y, np.mean(each, axis=0), atol=1e-6)


def test_of_two_classes_the_curves_are_those_of_the_rarer_one() -> None:
    p, y = predictions(400, 2)
    some = (y == 1) | (np.arange(400) < 100)
    found = curves(Classes("ab"), p[some], y[some], number=20)
    assert [c.name for c in found.roc] == ["a"]
    assert found.calibration is not None
    assert found.decision is not None
    assert found.calibration.name == found.decision.name == "a"


def test_a_long_curve_is_thinned_and_keeps_its_ends_and_shape() -> None:
    p, y = predictions(20_000, 2)
    x, recall, _ = roc_curve(y == 1, p[:, 1])
    few, thinned = thin(x, recall)
    assert len(x) > 1000
    assert len(few) <= 202
    assert (few[0], thinned[0], few[-1], thinned[-1]) == (0, 0, 1, 1)
    assert np.abs(np.interp(x, few, thinned) - recall)[x > 0].max() < 0.02


def test_the_calibration_curve_is_scikit_learns_with_an_interval_of_each_share() -> None:
    p, y = predictions(2000, 2)
    found = calibration(Classes("ab"), p, y)
    assert found is not None
    positive = 0 if found.name == "a" else 1
    observed, predicted = calibration_curve(y == positive, p[:, positive], n_bins=15)
    np.testing.assert_allclose(found.predicted, predicted)
    np.testing.assert_allclose(found.observed, observed)
    assert found.rows.sum() == 2000
    assert (found.low <= found.observed + 1e-9).all()
    assert (found.observed <= found.high + 1e-9).all()
    assert found.ece == Classes("ab").calibration_error(p, y)
    # Wilson's interval of 8 of 10 is 0.490 to 0.943 (Newcombe 1998, method 3)
    eight = calibration(Classes("ab"), np.tile([0.8, 0.2], (10, 1)), np.repeat([0, 1], [8, 2]))
    assert eight is not None
    assert (1 - eight.high[0], 1 - eight.low[0]) == pytest.approx((0.490, 0.943), abs=1e-3)


@pytest.mark.parametrize(("classes", "name"), [(2, "a"), (5, "predicted class"), (0, "all labels")])
def test_the_gaps_of_the_calibration_curve_are_the_calibration_error(classes: int, name: str) -> None:
    p, y = predictions(900, classes or 2)
    target: Target = Classes("abcde"[:classes]) if classes else Labels("ab")
    found = calibration(target, p, y if classes else 2 * np.column_stack([y == 0, y == 1]) - 1)
    assert found is not None
    assert found.name == name
    gaps = (np.abs(found.observed - found.predicted) * found.rows).sum() / found.rows.sum()
    assert gaps == pytest.approx(found.ece)


def test_the_decision_curve_is_its_closed_form() -> None:
    p, y = predictions(500, 2, seed=3)
    p = np.round(p, 2)  # some probabilities equal a threshold: they reach it
    one = Classes("ab").one_vs_rest(p, y)[0]
    found = decision_curve(one, number=0)
    for t, benefit, all_treated in zip(found.thresholds, found.net_benefit, found.treat_all, strict=True):
        treated = one.score >= t
        expected = (treated & one.true).mean() - (treated & ~one.true).mean() * t / (1 - t)
        assert benefit == pytest.approx(expected, abs=1e-6)
        assert all_treated == pytest.approx(one.true.mean() - (~one.true).mean() * t / (1 - t))
    perfect = decision_curve(one._replace(score=one.true.astype(float)), number=50)
    np.testing.assert_allclose(perfect.net_benefit, one.true.mean(), atol=1e-6)
    assert perfect.useful == (0.01, 0.99)
    assert perfect.band is not None
    assert perfect.band.low[0] < one.true.mean() < perfect.band.high[0]
    useless = decision_curve(one._replace(score=np.zeros(len(y))), number=0)
    assert useless.useful is None


def test_several_labels_per_row_have_curves_of_the_known_ones() -> None:
    rng = np.random.default_rng(3)
    y = rng.choice([-1, 0, 1], size=(400, 3), p=[0.5, 0.2, 0.3])
    p = np.clip(0.5 + 0.2 * y + rng.normal(0, 0.2, y.shape), 0, 1)
    found = curves(Labels("abc"), p, y, number=50)
    for c in range(3):
        known = y[:, c] != 0
        roc = found.roc[c + 1]
        assert roc.area == pytest.approx(roc_auc_score(y[known, c] > 0, p[known, c]))
        assert roc.rows == known.sum()
        assert roc.interval is not None
        assert roc.interval[0] < roc.area < roc.interval[1]
    assert found.calibration is not None
    assert found.calibration.name == "all labels"
    assert found.calibration.rows.sum() == (y != 0).sum()
    assert found.decision is None


def test_a_class_without_rows_has_no_curve_and_a_target_without_classes_has_none() -> None:
    p, y = predictions(200, 3)
    assert [c.name for c in curves(Classes("abc"), p[y != 2], y[y != 2], number=10).roc] == ["macro average", "a", "b"]
    one = curves(Classes("abc"), p[y == 2], y[y == 2], number=10)
    assert (one.roc, one.precision_recall, one.decision) == ([], [], None)
    assert one.calibration is not None
    none = curves(Target(), np.zeros((5, 1)), np.zeros(5))
    assert (none.roc, none.calibration, none.decision) == ([], None, None)
    assert none.describe() == {"roc": [], "precision_recall": []}


def test_bands_cover_the_true_curve_as_often_as_they_say() -> None:
    """Scores N(1, 1) of positive and N(0, 1) of negative rows: the recall at a false positive rate is known."""
    from scipy.stats import norm

    rng, grid, covered, areas = np.random.default_rng(0), np.array([10, 30, 50]), [], []
    recall = norm.sf(norm.isf(grid / 100) - 1)
    for i in range(120):
        y = np.repeat([0, 1], 100)
        p = norm.cdf(rng.normal(y, 1))
        band = (found := curves(Classes("ab"), np.column_stack([1 - p, p]), y, number=150, seed=i).roc[0]).band
        assert band is not None
        assert found.interval is not None
        covered.append((band.low[grid] <= recall) & (recall <= band.high[grid]))
        areas.append(found.interval[0] <= norm.cdf(1 / 2**0.5) <= found.interval[1])
    assert 0.9 < np.mean(covered) < 0.99
    assert 0.89 < np.mean(areas) < 0.99


def test_bands_in_cells_are_close_to_those_of_all_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    p, y = predictions(4000, 2)
    rough = curves(Classes("ab"), p, y, number=100)
    monkeypatch.setattr("oneballot.report.bands.MOST_CELLS", 10_000)
    exact = curves(Classes("ab"), p, y, number=100)
    for kind in ("roc", "precision_recall"):
        one, other = getattr(rough, kind)[0], getattr(exact, kind)[0]
        for end in ("low", "high"):
            gap = np.abs(getattr(one.band, end) - getattr(other.band, end))[1:]
            assert gap.max() < 0.03
            assert gap.mean() < 0.002
        assert one.interval == pytest.approx(other.interval, abs=1e-3)


def test_twenty_thousand_rows_take_a_few_seconds_with_progress() -> None:
    p, y = predictions(20_000, 2)
    curves(Classes("ab"), p[:50], y[:50], number=5)  # imports
    seen: list[tuple[str, int, int]] = []
    begin = time.process_time()
    with report_progress_to(lambda *step: seen.append(step)):
        found = curves(Classes("ab"), p, y)
    assert time.process_time() - begin < 6  # about 1 s; the limit allows for a busy machine
    assert seen[-1][0] == "bootstrap"
    assert seen[-1][1] == seen[-1][2] > 1
    assert found.roc[0].interval is not None
    assert found.roc[0].interval[1] - found.roc[0].interval[0] < 0.03
