"""The dossier in a real browser: no errors, no network, no sideways scrolling, no table cut on paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.party.context import PartyContext
from oneballot.party.release import Release, sealed_release
from oneballot.party.small_counts import CountRule
from oneballot.report.dossier.facts import of_release
from oneballot.report.dossier.write import write_dossier

from ...browser import check_page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ballot of 40 classes with long names, so that its tables need more than one printed page."""
    X = np.random.default_rng(0).random((400, 4), dtype=np.float32)
    classes = [f"<b>class {i} with a long name" for i in range(40)]
    learner = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 3})
    election = ob.Election(classes=classes, public=X, method=ob.FedKD(temperature=0.0), learner=learner)
    data = election.data(X, [classes[i % 40] for i in range(400)])
    release = Release(PartyContext(election, "<u>clinic"), "planned", CountRule(small="allow"))
    ballot = ob.cast(election, data, party="<u>clinic")
    path = tmp_path_factory.mktemp("pages") / "dossier.html"
    write_dossier(path, of_release(sealed_release(release, ballot), path.name))
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_errors_and_prints_whole_tables(page: Path, width: int) -> None:
    text = page.read_text("utf-8")
    assert "<b>" not in text
    assert "<u>" not in text
    check_page(page, width)
