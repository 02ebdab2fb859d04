"""What a report says first: whether the model can be used, and what speaks against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oneballot.report.metrics import evaluate
from oneballot.report.outcome.subject import Subject, assess
from oneballot.server.verdict import Verdict

from .conftest import CLASSES, Place, draw, text_of, write_rows

Make = Callable[..., Place]


def test_without_labelled_rows_the_report_says_what_is_unknown_and_how_to_find_out(make_place: Make) -> None:
    place = make_place()
    text = text_of(Subject(place.outcome, place.folder))
    assert "It is unknown how good the model is" in text
    assert "--data test.csv" in text
    assert "What the model predicts for 150 public rows" in text
    assert "notice good" not in text
    assert "add --election" in text


def test_a_site_where_the_model_fails_is_said_first_and_nothing_is_green(make_place: Make, tmp_path: Path) -> None:
    place, (X, y) = make_place(), draw(300, 6)
    sites = np.array(["north", "south", "west"], dtype=object)[np.arange(300) % 3]
    wrong = np.where((sites == "west") & (np.arange(300) % 10 > 0), 1 - y, y)
    path = write_rows(tmp_path / "test.csv", X, wrong, site=sites.tolist())
    text = text_of(Subject(place.outcome, place.folder, tested=assess(place.outcome, path, ["site"])))
    assert 'class="notice good' not in text
    first = text[text.index('class="notice') : text.index('id="what-was-decided"')]
    assert first.startswith('class="notice bad"')
    groups = text[text.index("Metrics by site") : text.index('id="privacy"')]
    for part in (first, groups):
        assert "he model is worse than always predicting the most frequent class of the group" in part
        assert "for west" in part
        assert "Worst: west" in part
        assert "(more than chance explains)" in part


def test_equally_good_sites_leave_the_box_green(make_place: Make, tmp_path: Path) -> None:
    place, (X, y) = make_place(), draw(300, 6)
    path = write_rows(tmp_path / "test.csv", X, y, site=["north", "south", "west"] * 100)
    text = text_of(Subject(place.outcome, place.folder, tested=assess(place.outcome, path, ["site"])))
    assert 'class="notice good' in text
    assert 'class="notice bad' not in text[: text.index('id="what-was-decided"')]
    assert "(within chance)" in text


def test_a_collapsed_model_is_said_first(make_place: Make) -> None:
    place = make_place()
    names = [str(each) for each in CLASSES]
    verdict = Verdict(150, dict(zip(names, (1.0, 0.0), strict=True)), dict(zip(names, (0.5, 0.5), strict=True)))
    text = text_of(Subject(replace(place.outcome, verdict=verdict), place.folder))
    first = text.index('class="notice')
    assert text[first:].startswith('class="notice bad"')
    assert "The model has collapsed. Do not use it." in text[first : first + 200]


@pytest.mark.parametrize("calibrate", [False, True])
def test_poor_probabilities_are_said_with_what_to_compare(make_place: Make, calibrate: bool) -> None:
    place = make_place(**({"calibrate": True} if calibrate else {}))
    assert (place.outcome.temperature is not None) == calibrate
    tested = assess(place.outcome, place.test)
    poor = replace(tested, metrics=replace(tested.metrics, values={**tested.metrics.values, "ece": 0.3}))
    text = text_of(Subject(place.outcome, place.folder, tested=poor))
    said = text.index("The probabilities are poorly calibrated")
    assert said > text.index("Tested on labelled rows"), "it says nothing against labels and ranking"
    assert ".md" not in text[: said + 1000]
    assert f"ompare with calibrate = {'false' if calibrate else 'true'} in the election" in text


@pytest.mark.parametrize(
    ("sure", "right", "said"),
    [
        (0.95, 0.6, "too sure:"),
        (0.55, 0.9, "too unsure:"),
        (0.8, 0.8, "too sure of some rows and too unsure of others:"),
    ],
)
def test_poor_probabilities_are_said_to_be_too_high_or_too_low(
    make_place: Make, sure: float, right: float, said: str
) -> None:
    place = make_place()
    tested = assess(place.outcome, place.test)
    chosen = np.where(np.arange(tested.rows) < right * tested.rows, tested.y, 1 - tested.y)
    found = np.where(chosen[:, None] == [0, 1], sure, 1 - sure)
    metrics = replace(tested.metrics, values={**tested.metrics.values, "ece": 0.3})
    text = text_of(Subject(place.outcome, place.folder, tested=replace(tested, probabilities=found, metrics=metrics)))
    assert f"The model is {said} its predictions have a probability of {100 * sure:.1f} % on average, and" in text
    assert f"{100 * right:.1f} % of them are right" in text


def test_a_model_no_better_than_a_constant_never_passes_as_success(make_place: Make, tmp_path: Path) -> None:
    place = make_place()
    X, y = draw(300, 7)
    noise = np.random.default_rng(0).permutation(y)
    tested = assess(place.outcome, write_rows(tmp_path / "noise.csv", X, noise))
    text = text_of(Subject(place.outcome, place.folder, tested=tested))
    assert "Do not use it" in text
    assert "notice good" not in text


def test_doubt_about_rows_of_nearly_one_class_is_said_unless_labelled_rows_have_the_others(make_place: Make) -> None:
    place = make_place()
    common, rare = (str(each) for each in CLASSES)
    verdict = Verdict(150, {common: 1.0, rare: 0.0}, {common: 0.97, rare: 0.03})
    outcome = replace(place.outcome, verdict=verdict)
    assert verdict.doubt()
    assert not verdict.collapsed
    said = "Nearly all rows have one class, so accuracy says nothing"
    text = text_of(Subject(outcome, place.folder))
    first = text.index('class="notice')
    assert text[first:].startswith('class="notice bad"')
    assert said in text[first : first + 200]
    assert "97.0 % of the parties' rows are of class" in text
    tested = assess(outcome, place.test)
    assert said not in text_of(Subject(outcome, place.folder, tested=tested)), "these rows show what it recognises"
    y = np.zeros_like(tested.y)
    found = evaluate(tested.metrics.target, tested.probabilities, y)
    assert said in text_of(Subject(outcome, place.folder, tested=replace(tested, y=y, metrics=found)))
