"""Remote boxes pass the conformance suite, against real servers."""

from __future__ import annotations

import pytest

from oneballot.boxes import box_at
from oneballot.testing import check_box

pytestmark = pytest.mark.slow


def test_a_remote_box_conforms(place) -> None:
    check_box(lambda: box_at(place.address("conformance")))
