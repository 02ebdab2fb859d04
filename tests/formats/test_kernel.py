"""Kernel models as files: hostile files are refused, and models evaluated together agree with each alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from oneballot.errors import DataError, Spoiled
from oneballot.formats import kernel
from oneballot.formats.kernel import KernelFormat, KernelModel, as_probabilities, scores_of


def make(n: int = 6, features: int = 4, classes: int = 3, seed: int = 0) -> KernelModel:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, features)).astype(np.float32)
    return KernelModel(rows, rng.normal(size=(n, classes)), rng.random(classes), 0.1 + rng.random())


def direct_scores(model: KernelModel, X: np.ndarray) -> np.ndarray:
    squares = ((X[:, None, :].astype(float) - model.rows[None].astype(float)) ** 2).sum(axis=2)
    return model.intercept + np.exp(-model.gamma * squares) @ model.coefficients.astype(float)


def test_models_evaluated_together_give_the_scores_of_each_alone(monkeypatch) -> None:
    models = [make(n, seed=n) for n in (1, 3, 0, 50, 7, 7)]
    X = np.random.default_rng(9).normal(size=(33, 4)).astype(np.float32)
    expected = [direct_scores(model, X) for model in models]
    for cells in (1 << 23, 40):  # in one product, and row by row
        monkeypatch.setattr(kernel, "CELLS", cells)
        for most in (4096, 10):
            together = [answer for group in kernel._groups(models, most) for answer in scores_of(group, X)]
            np.testing.assert_allclose(np.stack(together), np.stack(expected), atol=1e-5)


def test_images_are_stored_as_bytes_and_rows_of_another_width_are_refused() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (20, 9), dtype=np.uint8)
    model = KernelModel(rows, rng.normal(size=(20, 2)), np.zeros(2), 1e-5)
    blob = model.dump()
    KernelFormat.check(blob.data, classes=2, features=9)
    loaded = KernelFormat.load(blob.data, classes=2)
    assert loaded.rows.dtype == np.uint8
    image = rng.integers(0, 256, (5, 1, 3, 3), dtype=np.uint8)
    np.testing.assert_allclose(loaded.scores(image), direct_scores(model, image.reshape(5, 9)), atol=1e-4)
    assert loaded.dump() == blob
    with pytest.raises(DataError, match="trained on rows of 9"):
        loaded.scores(np.zeros((2, 8)))


def test_probabilities_keep_the_order_of_scores_and_are_positive() -> None:
    f = np.linspace(-3, 4, 200)
    chances = as_probabilities(np.c_[f, 1 - f])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (np.diff(chances[:, 0]) > 0).all()
    inside = (f > 0.001) & (f < 0.999)
    np.testing.assert_allclose(chances[inside, 0], f[inside])
    assert np.isfinite(as_probabilities(np.full((1, 3), -1e12))).all()


GOOD = {
    "rows": np.zeros((3, 4), np.float32),
    "coefficients": np.zeros((3, 2)),
    "intercept": np.zeros(2),
    "gamma": np.ones(1),
}
WRONG = {
    "an extra array": {"more": np.ones(1)},
    "rows of another width": {"rows": np.zeros((3, 5), np.float32)},
    "rows of another type": {"rows": np.zeros((3, 4))},
    "rows without shape": {"rows": np.array(0, np.float32)},
    "a row with NaN": {"rows": np.full((3, 4), np.nan, np.float32)},
    "a huge row": {"rows": np.full((3, 4), 1e20, np.float32)},
    "coefficients of other rows": {"coefficients": np.zeros((4, 2), np.float32)},
    "coefficients of other classes": {"coefficients": np.zeros((3, 3), np.float32)},
    "infinite coefficients": {"coefficients": np.full((3, 2), np.inf, np.float32)},
    "an intercept of other classes": {"intercept": np.zeros(3)},
    "an intercept with NaN": {"intercept": np.full(2, np.nan)},
    "gamma of 0": {"gamma": np.zeros(1)},
    "gamma that is NaN": {"gamma": np.full(1, np.nan)},
    "several gammas": {"gamma": np.ones(3)},
}


@pytest.mark.parametrize("name", WRONG)
def test_hostile_files_are_spoiled(name: str) -> None:
    KernelFormat.check(save(GOOD), classes=2, features=4)
    with pytest.raises(Spoiled):
        KernelFormat.check(save({**GOOD, **WRONG[name]}), classes=2, features=4)


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_array_is_spoiled(name: str) -> None:
    with pytest.raises(Spoiled, match="unexpected arrays"):
        KernelFormat.check(save({k: v for k, v in GOOD.items() if k != name}), classes=2, features=4)


@pytest.mark.parametrize("data", [b"", b"x" * 100, b"\xff" * 8 + b"{}"])
def test_files_that_are_not_safetensors_are_spoiled(data: bytes) -> None:
    with pytest.raises(Spoiled, match="not a safetensors file"):
        KernelFormat.check(data, classes=2, features=4)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_altered_bytes_are_spoiled_or_give_probabilities(changes) -> None:
    raw = bytearray(make().dump().data)
    for at, value in changes:
        raw[at % len(raw)] = value
    try:
        KernelFormat.check(bytes(raw), classes=3, features=4)
    except Spoiled:
        return
    chances = KernelFormat.load(bytes(raw), classes=3).predict_proba(np.ones((2, 4), np.float32))
    assert np.isfinite(chances).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1)


def test_the_largest_allowed_numbers_are_evaluated_without_a_warning() -> None:
    sign = np.where(np.arange(12).reshape(3, 4) % 2, 1e12, -1e12).astype(np.float32)
    model = KernelModel(sign, np.full((3, 2), 1e12), np.full(2, -1e12), 1e12)
    KernelFormat.check(model.dump().data, classes=2, features=4)
    for X in (sign, -sign, np.zeros((2, 4)), np.full((1, 4), 3e38, np.float32)):
        assert np.isfinite(model.predict_proba(X)).all()
