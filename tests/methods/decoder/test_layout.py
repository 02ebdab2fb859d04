"""Encoded rows as what a decoder learns, and back: every row that is made could have been encoded by the schema."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.election.columns import Category, Date, Number, Tensor, Text
from oneballot.election.schema import Schema
from oneballot.errors import DataError, ElectionError
from oneballot.methods.decoder.layout import KNOTS, Layout

MIXED = Schema(
    label="ill",
    columns=(
        Number(name="age", range=(0, 100)),
        Number(name="dose", range=(0, 1), outside="clip", missing=True),
        Date(name="seen", range=("2020-01-01", "2021-01-01")),
        Category(name="sex", categories=("f", "m")),
        Category(name="ward", categories=("a", "b", "c"), outside="blank", missing=True),
        Category(name="insurer", categories=("x",), missing="feature"),
        Text(name="note", features=8),
        Tensor(name="scan", kind="image", shape=(1, 2, 2)),
    ),
)
ROWS = 200


def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    dose = np.where(rng.random(ROWS) < 0.5, 0.25, rng.random(ROWS))
    return {
        "age": rng.integers(20, 90, ROWS).astype(float),
        "dose": np.where(rng.random(ROWS) < 0.3, np.nan, dose),
        "seen": np.array([f"2020-{1 + i % 12:02}-01" for i in range(ROWS)], dtype=object),
        "sex": rng.choice(["f", "m"], ROWS).astype(object),
        "ward": rng.choice(["a", "b", "elsewhere", ""], ROWS).astype(object),
        "insurer": rng.choice(["x", ""], ROWS).astype(object),
        "note": rng.choice(["fever and cough", "", "well"], ROWS).astype(object),
        "scan": rng.integers(0, 256, (ROWS, 1, 2, 2)),
    }


def layout_of(schema: Schema | None = None, public: np.ndarray | None = None) -> Layout:
    return Layout.of(ob.Election(range(2), public, schema=schema, method=ob.Decoder(), learner=ob.Kernel()))


@pytest.fixture(scope="module")
def encoded() -> np.ndarray:
    return MIXED.encode(table(), "the table", report=False)


@pytest.mark.filterwarnings("ignore")
def test_a_decoder_without_error_makes_the_rows_it_learned_from(encoded: np.ndarray) -> None:
    layout = layout_of(MIXED)
    flat = layout.flat(encoded)
    knots = layout.knots(flat)
    outputs = layout.outputs(flat, knots, seed=0)
    certain = outputs.copy()
    pixels, _, flags, groups = layout.sizes.split(certain)
    pixels[:] = np.log(np.clip(pixels, 1e-9, None) / np.clip(1 - pixels, 1e-9, None))
    for logits in (flags, *groups):
        logits[:] = 1000 * logits - 500
    made = layout.rows(certain, knots, np.zeros(len(layout.numbers)), np.random.default_rng(1))
    exact = np.ones(encoded.shape[1], dtype=bool)
    exact[np.concatenate([layout.numbers])] = False
    np.testing.assert_array_equal(made[:, exact], encoded[:, exact])
    scalars = layout.numbers[layout.bounded]
    np.testing.assert_allclose(made[:, scalars], encoded[:, scalars], atol=0.04)


@pytest.mark.filterwarnings("ignore")
def test_every_row_that_any_decoder_makes_is_a_valid_encoded_row(encoded: np.ndarray) -> None:
    layout = layout_of(MIXED)
    rng = np.random.default_rng(2)
    knots = layout.knots(layout.flat(encoded))
    made = layout.rows(rng.normal(0, 3, (500, layout.sizes.total)), knots, np.full(len(layout.numbers), 2.0), rng)
    assert made.dtype == encoded.dtype
    assert made.shape[1:] == encoded.shape[1:]
    age, dose, missing, seen, sex, ward, insurer, note, scan = np.split(
        made, np.cumsum([1, 1, 1, 1, 2, 3, 2, 8]), axis=1
    )
    for number in (age, dose, seen):
        assert number.min() >= 0
        assert number.max() <= 1
    assert set(np.unique(missing)) == {0, 1}
    assert not dose[missing == 1].any()
    assert (sex.sum(axis=1) == 1).all(), "this column is never blank"
    assert set(ward.sum(axis=1)) == {0, 1}, "this one may be"
    assert (insurer.sum(axis=1) == 1).all(), "missing values have a feature of their own"
    lengths = np.linalg.norm(note, axis=1)
    np.testing.assert_allclose(lengths[lengths > 0], 1, atol=1e-5)
    assert (scan == np.rint(scan)).all()
    assert scan.max() <= 255


def test_a_value_that_most_rows_have_keeps_its_share() -> None:
    layout, rng = layout_of(public=np.zeros((2, 1), dtype=np.float32)), np.random.default_rng(0)
    X = np.where(rng.random(4000) < 0.8, 0, rng.exponential(1000, 4000)).astype(np.float32)[:, None]
    knots = layout.knots(X)
    assert knots.shape == (1, KNOTS)
    scores = layout.outputs(X, knots, seed=1)
    assert abs(scores.mean()) < 0.1
    assert abs(scores.std() - 1) < 0.1
    made = layout.rows(np.zeros((4000, 1)), knots, np.ones(1), rng)
    assert abs((made == 0).mean() - 0.8) < 0.04


def test_images_are_bytes_or_numbers_from_0_to_1() -> None:
    bytes_ = layout_of(public=np.zeros((2, 1, 3, 3), dtype=np.uint8))
    made = bytes_.rows(np.full((4, 9), 2.0), np.empty((0, KNOTS)), np.empty(0), np.random.default_rng(0))
    assert made.dtype == np.uint8
    assert (made == round(255 / (1 + np.exp(-2)))).all()
    floats = layout_of(public=np.zeros((2, 1, 3, 3), dtype=np.float32))
    with pytest.raises(DataError, match=r"images have values from -2 to 0; expected bytes, or numbers from 0 to 1"):
        floats.flat(np.array([[[[0, -2, 0]] * 3]], dtype=np.float32))


def test_bytes_in_an_election_that_does_not_state_their_type_are_divided_as_networks_do(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    election = ob.Election(range(2), method=ob.Decoder(), learner=ob.Torch("mlp", {"shape": [1, 2, 2]}))
    assert Layout.of(election).flat(np.full((1, 1, 2, 2), 255, dtype=np.uint8)).max() == 1


def test_text_as_token_numbers_is_refused_before_anyone_trains() -> None:
    with pytest.raises(ElectionError, match="token numbers, which it cannot make"):
        layout_of(public=np.zeros((2, 5), dtype=np.int32))


def test_a_number_that_is_never_present_has_knots_of_zero() -> None:
    schema = Schema(label="ill", columns=(Number(name="dose", range=(0, 1), missing=True),))
    layout = layout_of(schema)
    flat = np.array([[0, 1], [0, 1]], dtype=np.float32)
    assert not layout.knots(flat).any()
    np.testing.assert_array_equal(layout.outputs(flat, layout.knots(flat), 0), [[0, 1], [0, 1]])
