"""Figures are XML with a title and a description, small, safe to inline together, and escape names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

import numpy as np
import pytest

from oneballot.election.targets import Classes, Labels, Target
from oneballot.report import figures
from oneballot.report.curves import Curve, curves
from oneballot.report.groups import evaluate_by
from oneballot.report.metrics import evaluate
from oneballot.report.svg import _straightened
from oneballot.types import Array

pytest.importorskip("matplotlib")
SVG = "{http://www.w3.org/2000/svg}"
NASTY = ["<script>alert(1)</script>", "_b & $c$", '"quoted"', "很好"]


def draw(target: Target, p: Array, y: Array) -> Mapping[str, str]:
    found, metrics = curves(target, p, y, number=40), evaluate(target, p, y, resamples=40)
    sites = np.array(["north", "south <&>", ""], dtype=object)[np.arange(len(y)) % 3]
    by = evaluate_by(target, p, y, sites, "site $1$", resamples=40, whole=metrics)
    assert found.calibration is not None
    drawn = {
        "roc": figures.roc(found.roc),
        "precision-recall": figures.precision_recall(found.precision_recall),
        "calibration": figures.calibration(found.calibration),
        "groups": figures.groups(by),
    }
    if found.decision is not None:
        drawn["decision"] = figures.decision_curve(found.decision)
    if metrics.confusion is not None and metrics.confusion.ndim == 2:
        drawn["confusion"] = figures.confusion(metrics.confusion, target.classes)
    return drawn


def predictions(rows: int, classes: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, rows)
    p = rng.dirichlet(np.ones(classes), rows) + 0.3 / classes**0.5 * np.eye(classes)[y]
    return p / p.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("classes", [2, 4, 10, 26, pytest.param(100, marks=pytest.mark.slow)])
def test_figures_are_xml_with_a_title_and_a_description_and_are_small(classes: int) -> None:
    names = (NASTY * 25)[:classes] if classes <= 4 else [f"class {i}" for i in range(classes)]
    drawn = draw(Classes(names), *predictions(1500, classes))
    for name, svg in drawn.items():
        root = ElementTree.fromstring(svg)
        assert root.tag == f"{SVG}svg", name
        assert root.get("role") == "img"
        assert root.get("viewBox")
        title, described = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert title is not None
        assert described is not None
        assert title.text
        assert root.get("aria-label") == described.text
        assert len(described.text or "") > len(title.text)
        assert root.find(f".//{SVG}text") is not None, "text stays text"
        assert "<script" not in svg
        assert "currentColor" in svg
        assert "var(--plot-1, " in svg or name == "confusion"
        assert figures.INK not in svg
    assert sum(map(len, drawn.values())) < 200_000
    ids = [found for svg in drawn.values() for found in re.findall(r'\bid="([^"]+)"', svg)]
    assert len(ids) == len(set(ids))
    for svg in drawn.values():
        assert set(re.findall(r'(?:href="|url\()#([^")]+)', svg)) == set(re.findall(r'\bid="([^"]+)"', svg))


def test_names_appear_as_they_are_written() -> None:
    drawn = draw(Classes(NASTY), *predictions(400, 4))
    for name, kind in ((NASTY[1], "roc"), (NASTY[3], "confusion"), ("south <&>", "groups"), ("site $1$", "groups")):
        text = " ".join(each.text or "" for each in ElementTree.fromstring(drawn[kind]).iter(f"{SVG}text"))
        assert name in text


def test_several_labels_per_row_have_figures() -> None:
    rng = np.random.default_rng(1)
    y = rng.choice([-1, 0, 1], size=(300, 3))
    drawn = draw(Labels("abc"), np.clip(0.5 + 0.2 * y + rng.normal(0, 0.2, y.shape), 0, 1), y)
    assert set(drawn) == {"roc", "precision-recall", "calibration", "groups"}


def test_the_same_figure_has_the_same_bytes() -> None:
    p, y = predictions(300, 3)
    assert draw(Classes("abc"), p, y) == draw(Classes("abc"), p, y)


def test_a_line_keeps_its_corners_and_loses_the_points_between_them() -> None:
    steps = "".join(f" L {x} {5 if x <= 20 else 9} L {x} {5 if x < 20 else 9}" for x in range(2, 41))
    assert _straightened(f"M 1 5{steps} z ") == "M 1 5 L 20 5 20 9 40 9 z "
    assert _straightened("M 0 0 L 0 3.5 ") == "M 0 0 L 0 3.5 "
    back = "M 0 0" + "".join(f" L {x} 0" for x in (*range(1, 9), 3))
    assert _straightened(back) == "M 0 0 L 8 0 3 0", "a line that turns back keeps its end"


def test_of_many_classes_the_macro_average_the_best_and_the_worst_are_drawn() -> None:
    found = curves(Classes(range(10)), *predictions(500, 10), number=0).roc
    some = figures.shown(found)
    areas = sorted(each.area for each in found if not each.macro)
    assert some[0].macro
    assert sorted(each.area for each in some[1:]) == [*areas[:2], *areas[-2:]]
    few: list[Curve] = list(found[:5])
    assert figures.shown(few) == few


def test_a_confusion_matrix_has_its_numbers_and_names_the_most_frequent_error() -> None:
    svg = figures.confusion(np.array([[1234, 5], [67, 890]]), ["no", "yes"])
    texts = {each.text for each in ElementTree.fromstring(svg).iter(f"{SVG}text")}
    assert {"1,234", "5", "67", "890"} <= texts
    assert "67 rows of yes are predicted as no" in svg
    assert "2,124 of 2,196 rows are right" in svg


def test_control_characters_and_broken_names_are_spaces_in_figures() -> None:
    names = ["a\x1b]0;owned\x07", "b\x00\udcff"]
    p, y = predictions(300, 2)
    drawn = draw(Classes(names), p, y)
    assert "confusion" in drawn
    for name, svg in drawn.items():
        ElementTree.fromstring(svg)
        svg.encode()
        assert all(c.isprintable() or c == "\n" for c in svg), name
    assert "a ]0;owned " in drawn["confusion"]
