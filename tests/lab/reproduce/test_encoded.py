"""Federations of features: the encoder is learned from the public rows of the same seed alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from oneballot.errors import DataError
from oneballot.methods._encoder import encode
from oneballot.methods._learn_encoder import learn_encoder
from oneballot_lab.data.registry import DataSet
from oneballot_lab.reproduce import encoded, federations
from oneballot_lab.reproduce.cells import cell_digest
from oneballot_lab.reproduce.encoded import EncodedFederation
from oneballot_lab.reproduce.experiments import ElectionRun
from oneballot_lab.reproduce.federations import Federation
from oneballot_lab.reproduce.table import Row
from oneballot_lab.reproduce.tables.ours_privacy import IMAGES, PRIVACY


@pytest.fixture(autouse=True)
def sets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Data sets of random images: flat squares, and rows that are no images."""

    def load(name: str) -> DataSet:
        rng, width = np.random.default_rng(0), 256 if name == "images" else 250
        X = rng.integers(0, 256, (700, width)).astype(np.uint8)
        y = rng.integers(0, 2, 700)
        return DataSet(name, X[:300], y[:300], X[300:], y[300:], ("a", "b"))

    monkeypatch.setattr(federations.registry, "load", load)
    federations._load.cache_clear()
    encoded._encoded.cache_clear()
    yield
    federations._load.cache_clear()
    encoded._encoded.cache_clear()


def test_rows_are_features_of_an_encoder_of_the_public_rows() -> None:
    plain = Federation("images", 2).load(5)
    data = EncodedFederation("images", 2, filters=4, features=3).load(5)
    encoder = learn_encoder(plain.public.reshape(-1, 16, 16), filters=4, features=3, seed=5)
    centre = encode(plain.public.reshape(-1, 16, 16), encoder).mean(axis=0)
    for rows, images in ((data.X, plain.X), (data.X_test, plain.X_test), (data.public, plain.public)):
        np.testing.assert_allclose(rows, encode(images.reshape(-1, 16, 16), encoder) - centre, atol=1e-5)
    np.testing.assert_array_equal(data.y, plain.y)


def test_private_and_test_rows_do_not_change_the_encoder() -> None:
    few = EncodedFederation("images", 2, rows=20, test_rows=20, filters=4, features=3).load(0)
    all_rows = EncodedFederation("images", 2, filters=4, features=3).load(0)
    np.testing.assert_array_equal(few.public, all_rows.public)
    np.testing.assert_array_equal(few.X, all_rows.X[:20])


def test_a_reduced_version_is_still_encoded_and_has_a_digest_of_its_own() -> None:
    full = EncodedFederation("images", 20)
    small = full.smaller()
    assert isinstance(small, EncodedFederation)
    assert (small.parties, small.filters, small.features) == (10, 16, 16)
    cells = {cell_digest(ElectionRun(f, None, None), 0) for f in (full, small, Federation("images", 20))}
    assert len(cells) == 3


def test_rows_that_are_no_square_images_are_refused() -> None:
    with pytest.raises(DataError, match="250 numbers are no square images"):
        EncodedFederation("rows", 2).load(0)


@pytest.mark.parametrize("row", PRIVACY.rows, ids=lambda row: row.group)
def test_all_methods_of_a_row_have_the_same_parties_and_features(row: Row) -> None:
    federations = {experiment.federation for line in row.lines for experiment in line.experiments}
    (federation,) = federations
    assert isinstance(federation, EncodedFederation) == (row.group in IMAGES)
    assert {line.series for line in row.lines} >= {"neighbours", "analytic", "fedkt", "fedkd"}
