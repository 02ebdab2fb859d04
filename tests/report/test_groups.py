"""Metrics by group: any column, numbers in quantiles, IDs, missing values, small and many groups, the worst group."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from oneballot.data.read import Table
from oneballot.election.targets import Classes, Labels
from oneballot.errors import DataError, WillNotWork
from oneballot.report.grouping import group, group_columns
from oneballot.report.groups import Group, Groups, evaluate_by
from oneballot.report.metrics import summarize
from oneballot.runtime.progress import report_progress_to
from oneballot.types import Array

TWO = Classes(["no", "yes"])


def predictions(right: Array, y: Array) -> Array:
    """Probabilities of two classes that are right where `right` says."""
    chosen = np.where(right, y, 1 - y)
    return np.where(chosen[:, None] == [0, 1], 0.8, 0.2)


def test_each_group_has_the_metrics_of_its_rows() -> None:
    rng = np.random.default_rng(0)
    y, sites = rng.integers(0, 2, 300), np.array(["north", "south", "west"], dtype=object)[np.arange(300) % 3]
    p = predictions(rng.random(300) < 0.8, y)
    found = evaluate_by(TWO, p, y, sites, "site", resamples=50)
    assert [g.name for g in found.groups] == ["north", "south", "west"]
    for each in found.groups:
        rows = sites == each.name
        assert each.rows == 100
        assert dict(each.metrics.values) == pytest.approx(dict(summarize(TWO, p[rows], y[rows]).values))
        assert each.metrics.intervals["accuracy"][0] < each.score < each.metrics.intervals["accuracy"][1]
    assert found.whole.rows == 300
    assert found.worst is not None
    assert found.best is not None
    assert found.spread == pytest.approx(found.best.score - found.worst.score)
    described = found.describe()
    assert described["worst"] == found.worst.name
    assert [g["rows"] for g in described["groups"]] == [100, 100, 100]


def test_the_worst_group_is_named_and_compared_with_the_other_rows() -> None:
    rng = np.random.default_rng(1)
    sites = np.repeat(["good", "bad", "tiny"], [400, 200, 3]).astype(object)
    y = rng.integers(0, 2, len(sites))
    right = rng.random(len(sites)) < np.where(sites == "good", 0.95, 0.7)
    right[-3:] = False
    found = evaluate_by(TWO, predictions(right, y), y, sites, "site", resamples=0)
    assert found.worst is not None
    assert found.worst.name == "bad", "a group of three rows is not called the worst"
    gap, p = found.gap
    others = right[sites != "bad"]
    assert gap == pytest.approx(others.mean() - right[sites == "bad"].mean())
    assert 0 < p < 1e-6
    assert found.describe()["p_value"] == p
    said = " ".join(found.sentences())
    assert "Worst: bad" in said
    assert "more than chance explains" in said
    assert "Fewer than 10 rows, so their metrics say little: tiny." in said
    assert [g["small"] for g in found.describe()["groups"]] == [False, False, True]


@pytest.mark.parametrize(
    ("groups", "rows", "accuracy"), [(20, 10, 0.2), (10, 10, 0.2), (10, 10, 0.35), (5, 80, 0.8), (20, 10, 0.95)]
)
@pytest.mark.parametrize("labels", [1, 3])
def test_groups_that_do_not_differ_are_within_chance_as_often_as_it_says(
    groups: int, rows: int, accuracy: float, labels: int
) -> None:
    rng, beyond, y = np.random.default_rng(2), 0, np.zeros(rows, dtype=int)
    metrics = summarize(TWO, predictions(y == 0, y), y)
    for _ in range(400):
        scores = (rng.random((groups, rows, labels)) < accuracy).mean(axis=2)
        found = Groups("site", [Group(str(i), metrics, None, each) for i, each in enumerate(scores)], metrics)
        beyond += found.gap[1] <= 0.05
    assert beyond / 400 <= (0.05 if labels == 1 else 0.07), "5 %, and the chance in 400 trials where it is near that"


def test_if_all_groups_are_small_none_is_the_worst() -> None:
    y = np.arange(40) % 2
    found = evaluate_by(TWO, predictions(y == 0, y), y, np.arange(40) // 5, "site", resamples=0)
    assert found.worst is found.best is None
    assert found.sentences() == ["Every group has fewer than 10 rows: their metrics say little, and none is the worst."]
    described = found.describe()
    assert [described[key] for key in ("worst", "best", "spread", "worst_below_others", "p_value")] == [None] * 5


def test_numbers_are_divided_into_five_groups_with_readable_names_and_missing_values_are_one() -> None:
    ages = np.array([*map(str, range(100)), "", "NA", " "], dtype=object)
    names, which = group(ages)
    assert names == ["below 20", "20 to 39", "40 to 59", "60 to 79", "80 or more", "(missing)"]
    assert np.bincount(which).tolist() == [20, 20, 20, 20, 20, 3]
    assert np.bincount(group(np.r_[np.arange(100.0), np.nan])[1]).tolist() == [20, 20, 20, 20, 20, 1]
    names, which = group(np.random.default_rng(0).normal(1.3, 0.2, 500))
    assert names[1:3] == ["1.13 to below 1.24", "1.24 to below 1.34"]
    assert np.bincount(which).min() > 80
    assert group(np.arange(1960, 2020))[0][1] == "1972 to 1983", "a year has no comma"


@pytest.mark.parametrize(
    "numbers",
    [
        np.r_[np.zeros(90), np.arange(20)],  # most quantiles are equal
        np.r_[np.arange(20), [10**12]],
        np.r_[np.arange(11), np.full(50, 7)],
        np.linspace(1e-9, 2e-9, 30),
        np.linspace(-0.5, 0.5, 11),
        -np.arange(40) / 8,
        np.r_[np.zeros(50), np.linspace(1000, 1001, 50)],
        10.0 ** np.arange(-20, 20),
    ],
)
def test_no_group_of_numbers_is_empty_and_each_holds_what_its_name_says(numbers: Array) -> None:
    names, which = group(numbers)
    assert len(names) == len(set(names)) == which.max() + 1 <= 5
    assert np.bincount(which).min() > 0
    ordered = which[np.argsort(numbers, kind="stable")]
    assert (np.diff(ordered) >= 0).all()
    for name, number in zip((names[i] for i in which), numbers, strict=True):
        words = name.split()
        if words[0] == "below":
            assert number < float(words[1])
        elif words[1:] and words[1] == "or":
            assert number >= float(words[0])
        elif words[1:] and words[-2] == "below":
            assert float(words[0]) <= number < float(words[-1])
        else:
            assert float(words[0]) <= number <= float(words[-1])


def test_dates_are_divided_by_month_or_by_day_if_they_span_few_months() -> None:
    days = np.arange("2021-01-01", "2021-12-27", dtype="datetime64[D]")
    names, which = group(np.array([*map(str, days), ""], dtype=object))
    assert names == [
        "before 2021-03",
        "2021-03 to 2021-04",
        "2021-05 to 2021-07",
        "2021-08 to 2021-09",
        "2021-10 or later",
        "(missing)",
    ]
    for name, low, high in (("2021-03 to 2021-04", "2021-03-01", "2021-04-30"), ("2021-10 or later", "2021-10-01", "")):
        inside = days[which[:-1] == names.index(name)]
        assert str(inside.min()) == low
        assert not high or str(inside.max()) == high
    german = np.array([f"{day.day:02d}.{day.month:02d}.{day.year} 13:05" for day in days.tolist()], dtype=object)
    assert group(german)[0] == names[:-1]
    assert group(days.astype("datetime64[s]"))[0] == names[:-1]
    names, which = group(np.array([str(day) for day in days[:20]], dtype=object))
    assert names[:2] == ["before 2021-01-05", "2021-01-05 to 2021-01-08"]
    assert np.bincount(which).tolist() == [4, 4, 4, 4, 4]
    times = np.array([f"2021-01-01 {hour:02d}:00" for hour in range(24)] * 2, dtype=object)
    assert len(group(times)[0]) == 20, "times of one day are single values"
    mostly = np.r_[np.repeat(days[0], 300), days[:100:5]]
    assert np.bincount(group(mostly)[1]).min() > 0


@pytest.mark.parametrize("rows", [11, 300])
def test_a_column_that_looks_like_an_id_has_no_groups(rows: int) -> None:
    with pytest.raises(DataError, match=f"column 'patient' looks like an ID .{rows} of its {rows} values.*such as a"):
        group(np.array([f"P-{i}" for i in range(rows)], dtype=object), column="patient")
    with pytest.raises(DataError, match="looks like an ID"):
        group(np.array([f"P-{i}" for i in range(20)] + ["P-0"], dtype=object), column="patient")
    assert len(group(np.arange(rows))[0]) <= 5, "numbers are divided at their quantiles"
    assert len(group(np.array([f"P-{i // 2}" for i in range(rows)], dtype=object))[0]) <= 20


def test_the_id_of_the_schema_has_no_groups() -> None:
    table = Table({"mrn": np.arange(60) // 20, "site": np.arange(60) // 30}, "test.csv")
    assert list(group_columns(table, ["site"], "mrn")) == ["site"]
    with pytest.raises(DataError, match="column 'mrn' is the ID that the election's schema names"):
        group_columns(table, ["site", "mrn"], "mrn")
    with pytest.raises(DataError, match=r"test\.csv has no column 'ward'; it has mrn, site"):
        group_columns(table, ["ward"])


def test_a_page_states_no_small_number_of_rows_nor_what_would_reveal_it() -> None:
    sites = np.repeat(["north", "south", "tiny"], [63, 58, 4]).astype(object)
    y = np.arange(len(sites)) % 2
    found = evaluate_by(TWO, predictions(y >= 0, y), y, sites, "site", resamples=0)
    assert found.stated_rows == ["about 60", "about 60", "< 10"]
    found = evaluate_by(TWO, predictions(y >= 0, y)[:121], y[:121], sites[:121], "site", resamples=0)
    assert found.stated_rows == ["63", "58"]


def test_few_numbers_are_values_in_their_order() -> None:
    assert group(np.array([10, 2, 2, 1]))[0] == ["1", "2", "10"]
    assert group(np.array(["1.0", "b", "10", "2"], dtype=object))[0] == ["1.0", "2", "10", "b"]
    assert group(np.array([True, False, True]))[0] == ["false", "true"]
    assert group(np.array(["2024-01-02", "NaT"], dtype="datetime64[D]"))[0] == ["2024-01-02", "(missing)"]
    names, which = group(np.array(["", ""], dtype=object))
    assert (names, which.tolist()) == (["(missing)"], [0, 0])


def test_of_many_values_the_rarer_ones_are_one_group() -> None:
    values = np.array([f"site {i}" for i in range(50) for _ in range(i + 1)], dtype=object)
    names, which = group(values, most=20)
    assert len(names) == 20
    assert names[-1] == "(other)"
    assert "site 49" in names
    assert "site 5" not in names
    assert np.bincount(which).sum() == len(values)
    assert group(values, most=50)[0][-1] != "(other)"


def test_a_column_of_images_has_no_groups() -> None:
    with pytest.raises(DataError, match="one value per row"):
        group(np.zeros((3, 8, 8)))


def test_a_group_in_which_the_model_is_useless_is_a_warning() -> None:
    y = np.tile(np.repeat([0, 1], [30, 10]), 2)
    right = np.r_[np.ones(40, dtype=bool), np.zeros(40, dtype=bool)]
    found = evaluate_by(TWO, predictions(right, y), y, np.repeat(["a", "b"], 40).astype(object), "site", resamples=0)
    with pytest.warns(WillNotWork, match="by site: the model is worse than always .* of the group, .*, for b$"):
        found.warn_if_useless()


def test_a_group_below_its_majority_rate_by_chance_is_a_note() -> None:
    y = np.tile(np.repeat([0, 1], [14, 6]), 2)
    right = np.ones(40, dtype=bool)
    right[[0, 1, 2, 3, 14, 15, 16]] = False  # 13 of 20, where always predicting no has 14 of 20
    found = evaluate_by(
        TWO, predictions(right, y), y, np.repeat(["low", "high"], 20).astype(object), "ward", resamples=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.warn_if_useless()
    assert any("which may be chance: low." in sentence for sentence in found.sentences())


def test_groups_with_rows_of_one_class_are_not_called_useless() -> None:
    y = np.repeat([0, 0, 1], 20)
    right = np.arange(60) % 10 > 0
    right[:20] = False
    found = evaluate_by(
        TWO, predictions(right, y), y, np.repeat(["a", "b", "b"], 20).astype(object), "site", resamples=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.warn_if_useless()
    assert not any("most frequent class" in sentence for sentence in found.sentences())


def test_several_labels_per_row_have_groups_even_where_no_label_is_known() -> None:
    rng = np.random.default_rng(3)
    y = rng.choice([-1, 1], size=(60, 2))
    y[:20] = 0
    p = np.clip(0.5 + 0.3 * y + rng.normal(0, 0.2, y.shape), 0, 1)
    found = evaluate_by(Labels("ab"), p, y, np.repeat(["x", "y", "z"], 20).astype(object), "site", resamples=20)
    assert np.isnan(found.groups[0].metrics.accuracy)
    assert found.groups[1].metrics.accuracy > 0.8


def test_progress_is_reported_for_each_group() -> None:
    seen: list[tuple[str, int, int]] = []
    y = np.arange(60) % 2
    with report_progress_to(lambda *step: seen.append(step)):
        evaluate_by(TWO, predictions(y >= 0, y), y, np.arange(60) % 3, "site", resamples=5)
    assert [step for step in seen if step[0] == "metrics by site"][-1][1:] == (3, 3)
