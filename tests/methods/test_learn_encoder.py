"""An encoder of images, learned from public rows alone: each of its parts against a second computation."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import correlate2d
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

import oneballot as ob
from oneballot.errors import DataError, ElectionError
from oneballot.formats.safetensors import read_arrays
from oneballot.formats.torch_safetensors import TorchSafetensors
from oneballot.methods import _learn_encoder
from oneballot.methods._encoder import Encoder, encode
from oneballot.methods._learn_encoder import cluster_directions, draw_patches, learn_encoder, learn_filters
from oneballot.simulation import simulate_parties
from oneballot.types import Data

pytestmark = pytest.mark.filterwarnings("error")
FILTERS, FEATURES = 16, 24


@cache
def shifted_digits(rows: int = 700) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits in 28 x 28 pixels, each at a place of its own."""
    X, y = load_digits(return_X_y=True)
    rng, out = np.random.default_rng(0), np.zeros((rows, 28, 28), dtype=np.uint8)
    for image, digit, (down, right) in zip(out, X[:rows], rng.integers(0, 5, (rows, 2)), strict=True):
        image[down : down + 24, right : right + 24] = np.kron(digit.reshape(8, 8), np.ones((3, 3))) * 15
    return out, y[:rows]


@cache
def learned(seed: int = 0) -> Encoder:
    return learn_encoder(shifted_digits()[0], filters=FILTERS, features=FEATURES, seed=seed)


def arrays_of(encoder: Encoder) -> dict[str, np.ndarray]:
    assert encoder.data is not None
    return {name: array.astype(np.float64) for name, array in read_arrays(encoder.data)[1].items()}


def pooled_by_hand(image: np.ndarray, weights: np.ndarray, biases: np.ndarray) -> np.ndarray:
    """Answers of the filters, the largest of 2 x 2 of them, means of 5 x 5 of those, the largest of 2 x 2 again."""

    def largest(maps: np.ndarray) -> np.ndarray:
        height, width = (side // 2 * 2 for side in maps.shape)
        return maps[:height, :width].reshape(height // 2, 2, width // 2, 2).max(axis=(1, 3))

    out = []
    for weight, bias in zip(weights[:, 0], biases, strict=True):
        answers = largest(np.maximum(correlate2d(image / 255, weight, mode="valid") + bias, 0))
        out.append(largest(correlate2d(answers, np.full((5, 5), 1 / 25), mode="valid")).ravel())
    return np.concatenate(out)


@pytest.mark.parametrize("rows", [110, 70])
def test_the_network_computes_pooled_answers_and_their_principal_components(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more images than the 80 answers, and with fewer."""
    monkeypatch.setattr(_learn_encoder, "LEAST_ROWS", 50)
    images = shifted_digits()[0][:rows]
    encoder = learn_encoder(images, filters=5, features=9)
    arrays = arrays_of(encoder)
    pooled = np.stack([pooled_by_hand(image, arrays["conv1.weight"], arrays["conv1.bias"]) for image in images])
    pca = PCA(9).fit(pooled)
    divided = pca.explained_variance_ * (len(pooled) - 1) / len(pooled)
    expected = pca.transform(pooled) / divided**_learn_encoder.HALF_WHITENED
    expected /= expected.std()
    features = encoder.features(images)
    features -= features.mean(axis=0)
    signs = np.sign((features * expected).sum(axis=0))
    np.testing.assert_allclose(features, expected * signs, atol=2e-4 * np.abs(expected).max())


def test_no_feature_of_a_public_image_is_cut_off_at_zero() -> None:
    features = learned().features(shifted_digits()[0])
    assert (features > 0).all()
    reach = np.abs(features - features.mean(axis=0)).max(axis=0)
    assert (features.min(axis=0) > 0.9 * reach).all(), "other images may be as far from the mean again"


def test_a_filter_answers_at_its_share_of_places_and_ignores_brightness() -> None:
    images = np.random.default_rng(1).random((60, 2, 16, 16)).astype(np.float32)
    weights, biases = learn_filters(images, 6, np.random.default_rng(2))
    assert weights.shape == (6, 2, 5, 5)
    patches = draw_patches(images, 20_000, np.random.default_rng(3)).reshape(20_000, -1)
    answers = patches @ weights.reshape(6, -1).T + biases
    np.testing.assert_allclose((answers > 0).mean(axis=0), _learn_encoder.ACTIVE, atol=0.02)
    brighter = (patches + 0.7) @ weights.reshape(6, -1).T + biases
    np.testing.assert_allclose(brighter, answers, atol=1e-4)


def test_patches_are_parts_of_the_images_at_all_places() -> None:
    images = np.arange(2 * 3 * 7 * 8, dtype=np.float32).reshape(2, 3, 7, 8)
    every = {
        images[i, :, y : y + 5, x : x + 5].tobytes() for i in range(2) for y in range(3) for x in range(4)
    }  # fmt: skip
    drawn = draw_patches(images, 600, np.random.default_rng(0))
    assert {np.ascontiguousarray(patch).tobytes() for patch in drawn} == every


def test_spherical_k_means_finds_separate_directions() -> None:
    rng = np.random.default_rng(0)
    truth = np.eye(8)[:4]
    points = np.repeat(truth, 200, axis=0) + rng.normal(scale=0.05, size=(800, 8))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    centres = cluster_directions(points, 12, rng)
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1)
    assert ((centres @ truth.T).max(axis=0) > 0.99).all()


def test_the_same_images_and_seed_give_the_same_file() -> None:
    again = learn_encoder(shifted_digits()[0], filters=FILTERS, features=FEATURES)
    assert again.data == learned().data
    assert learned(1).data != learned().data


def test_of_many_images_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    images = shifted_digits()[0]
    monkeypatch.setattr(_learn_encoder, "MOST_IMAGES", 300)
    drawn = images[np.random.default_rng(0).permutation(len(images))[:300]]
    encoder = learn_encoder(images, filters=4, features=3)
    features = encoder.features(drawn)
    assert np.cov(features.T) == pytest.approx(np.diag(np.diag(np.cov(features.T))), abs=1e-4), "their components"


def test_flat_rows_and_rows_with_a_channel_are_the_same_images() -> None:
    images = shifted_digits()[0]
    flat = learn_encoder(images.reshape(len(images), -1), shape=(1, 28, 28), filters=FILTERS, features=FEATURES)
    assert flat == learned()
    np.testing.assert_array_equal(encode(images.reshape(len(images), -1), flat), encode(images[:, None], flat))


def test_features_of_an_image_are_the_same_bit_by_bit_whatever_is_encoded_beside_it() -> None:
    images = shifted_digits()[0]
    np.testing.assert_array_equal(learned().apply(images)[520:530], learned().apply(images[520:530]))


def test_features_show_a_pattern_wherever_it_is_and_single_pixels_do_not() -> None:
    """Short bars, horizontal or vertical, at random places."""
    rng = np.random.default_rng(0)
    y, images = rng.integers(2, size=300), np.zeros((300, 20, 20), dtype=np.uint8)
    for image, upright in zip(images, y, strict=True):
        for down, right in rng.integers(0, 20, (25, 2)):
            along = np.arange(5)
            image[(down + along * upright) % 20, (right + along * (1 - upright)) % 20] = 255
    encoder, shares = learn_encoder(images[:200], filters=16, features=8), []
    for rows in (encode(images, None), encode(images, encoder)):
        shares.append(LogisticRegression(max_iter=500).fit(rows[:200], y[:200]).score(rows[200:], y[200:]))
    assert shares[0] < 0.65
    assert shares[1] > 0.95


def test_colour_images_as_floats_can_be_encoded() -> None:
    images = np.random.default_rng(0).random((120, 3, 18, 17)).astype(np.float32)
    encoder = learn_encoder(images, filters=5, features=5)
    assert encoder.features(images).shape == (120, 5)
    as_bytes = learn_encoder((255 * images).astype(np.uint8), filters=5, features=5)
    np.testing.assert_allclose(
        arrays_of(as_bytes)["conv1.bias"], arrays_of(encoder)["conv1.bias"], atol=0.05
    )  # fmt: skip


def test_the_file_is_a_network_that_every_method_with_an_encoder_takes(tmp_path: Path) -> None:
    images, y = shifted_digits()
    encoder = learned()
    assert encoder.data is not None
    TorchSafetensors.check(encoder.data, classes=1, features=784)
    file = tmp_path / "encoder.safetensors"
    file.write_bytes(encoder.data)
    for method in (
        ob.Neighbours(features="encoder", encoder=file, neighbours=5),
        ob.Analytic(features="encoder", encoder=encoder),
    ):
        forest = {"final": ob.Sklearn("ExtraTreesClassifier")} if method.needs else {}
        election = ob.Election(range(10), images[:300], method=method, learners=forest)
        simulation = simulate_parties(
            election, {"a": Data(images[300:420], y[300:420]), "b": Data(images[420:600], y[420:600])}
        )
        assert simulation.accuracy(Data(images[600:], y[600:])) > 0.5


@pytest.mark.parametrize(
    ("given", "error", "reason"),
    [
        ({"images": np.zeros((99, 16, 16), np.uint8)}, DataError, "99 public images"),
        ({"images": np.zeros((200, 15, 16))}, DataError, "16 pixels a side"),
        ({"images": np.zeros((200, 400))}, DataError, "state the shape"),
        ({"images": np.zeros((200, 400)), "shape": (1, 20, 21)}, DataError, "does not fit"),
        ({"images": np.full((200, 16, 16), np.nan)}, DataError, "NaN"),
        ({"images": np.full((200, 16, 16), "a")}, DataError, "as numbers"),
        ({"images": np.full((200, 16, 16), 3.0)}, DataError, "nothing to learn"),
        ({"images": np.zeros((200, 16, 16)), "filters": 1}, ElectionError, "2 to 512"),
        ({"images": np.zeros((200, 16, 16)), "features": 0}, ElectionError, "1 to 64"),
        ({"images": np.zeros((101, 16, 16)), "features": 101, "filters": 200}, ElectionError, "1 to 100"),
        ({"images": np.zeros((100, 60, 60), np.uint8)}, ElectionError, "smaller images"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(given: dict[str, Any], error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        learn_encoder(**given)
