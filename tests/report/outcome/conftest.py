"""Outcomes for reports: names of columns, classes and parties that try to be HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.election.columns import Number
from oneballot.election.schema import Schema
from oneballot.party.cast import cast_together
from oneballot.report.outcome.subject import Subject
from oneballot.report.outcome.write import render_report
from oneballot.server.outcome import CountedBallot, Outcome
from oneballot.types import Array, Data

HTML = "<img src=x onerror=alert(1)>"
CLASSES = ("<script>alert('no')</script>", 'yes & "so"')
COLUMNS = ("<b>age</b>", "dose")
LABEL = "<i>ill</i>"
HOSPITALS = ("mercy-hospital", "saint-johns", "county-clinic", "lakeside-centre")
TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 5})


@dataclass(frozen=True)
class Place:
    """A folder with an outcome and labelled rows."""

    election: ob.Election
    outcome: Outcome
    folder: Path
    test: Path


def draw(rows: int, seed: int) -> tuple[Array, Array]:
    X = np.random.default_rng(seed).uniform(size=(rows, 2)).astype(np.float32)
    return X, (X.sum(axis=1) > 1).astype(np.int64)


def write_rows(path: Path, X: Array, y: Array, **extra: list[str]) -> Path:
    from ...conftest import write_csv

    rows = [
        [*x, CLASSES[c], *(cells[i] for cells in extra.values())] for i, (x, c) in enumerate(zip(X, y, strict=True))
    ]
    return write_csv(path, [*COLUMNS, LABEL, *extra], rows)


@pytest.fixture(scope="session")
def make_place(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Place]:
    made: dict[str, Place] = {}

    def make(**settings: Any) -> Place:
        key = repr(settings)
        if key not in made:
            made[key] = build(tmp_path_factory.mktemp("place"), settings)
        return made[key]

    return make


def build(folder: Path, settings: Mapping[str, Any]) -> Place:
    schema = Schema(label=LABEL, columns=tuple(Number(name=name, range=(0, 1)) for name in COLUMNS))
    election = ob.Election(
        classes=CLASSES, schema=schema, public=draw(150, 1)[0], learner=TREE, name=f"trial {HTML}", **settings
    )
    held = {party: Data(*draw(60, 10 + i)) for i, party in enumerate(HOSPITALS)}
    ballots = cast_together(election, held)
    outcome = ob.tally(election, ballots)
    outcome.save(folder / "outcome")
    X, y = draw(240, 5)
    test = write_rows(folder / "test.csv", X, y, site=[("north", HTML, "")[i % 3] for i in range(240)])
    return Place(election, outcome, folder / "outcome", test)


def with_trouble(outcome: Outcome) -> Outcome:
    """The same outcome with a party that abstained, one that was left out, and a spoiled ballot, all with HTML."""
    abstained = CountedBallot(f"{HTML}.ballot", "0" * 64, 10, f"too few rows {HTML}")
    return replace(
        outcome,
        voted={**outcome.voted, f"party {HTML}": abstained},
        spoiled={f"file {HTML}": f"not a ballot {HTML}"},
        without=(f"left out {HTML}",),
    )


def text_of(subject: Subject, *, secret: bool = False) -> str:
    page = render_report(subject.for_page(secret=secret))
    return unescape(re.sub('<span class="whole">(.*?)</span>', r"\1", page))
