"""`oneballot encoder`: files of images become files of features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.methods._encoder import encode, read_encoder
from oneballot.methods._learn_encoder import learn_encoder

IMAGES = np.random.default_rng(0).integers(0, 256, (130, 17, 16)).astype(np.uint8)
SMALL = ("--filters", "4", "--features", "3")


def oneballot(*args: object) -> Result:
    return CliRunner().invoke(app, ["encoder", *map(str, args)])


@pytest.fixture
def public(tmp_path: Path) -> Path:
    path = tmp_path / "public.npz"
    labels = np.arange(130) % 2
    np.savez(path, image=IMAGES, label=np.where(labels, "yes", "no"), patient=np.arange(130))
    return path


def test_a_file_of_images_becomes_a_file_of_features(public: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "e.safetensors", tmp_path / "out.npz"
    made = json.loads(oneballot("new", public, "--out", file, *SMALL, "--seed", 3, "--json").output)
    encoder = read_encoder(file)
    assert made == {"encoder": str(file), "digest": str(encoder), "images": 130, "features": 3}
    assert encoder == learn_encoder(IMAGES, filters=4, features=3, seed=3)
    result = oneballot("apply", file, public, "--out", out)
    assert "130 rows of 3 features instead of image" in result.output
    with np.load(out, allow_pickle=False) as arrays:
        assert set(arrays.files) == {"features", "label", "patient"}
        np.testing.assert_array_equal(arrays["features"], encode(IMAGES, encoder).astype(np.float32))
        assert arrays["label"].tolist() == ["no", "yes"] * 65
        assert arrays["patient"].tolist() == list(range(130))


def test_flat_rows_need_their_shape(tmp_path: Path) -> None:
    file = tmp_path / "flat.npz"
    np.savez(file, pixels=IMAGES.reshape(130, -1))
    assert "state the shape" in oneballot("new", file, "--out", tmp_path / "e").output
    assert "--shape 17x16: expected" in oneballot("new", file, "--out", tmp_path / "e", "--shape", "17x16").output
    assert oneballot("new", file, "--out", tmp_path / "e", "--shape", "1,17,16", *SMALL).exit_code == 0
    assert read_encoder(tmp_path / "e") == learn_encoder(IMAGES, filters=4, features=3)


@pytest.mark.parametrize(
    ("arrays", "options", "reason"),
    [
        ({"label": [1, 2]}, (), "none"),
        ({"a": [[1, 2]], "b": [[3, 4]]}, (), "a, b. Choose one with --column"),
        ({"a": [[1, 2]]}, ("--column", "c"), "no array of images 'c'"),
        ({"a": np.zeros((0, 16, 16))}, (), "no rows"),
    ],
)
def test_a_file_without_images_is_refused(tmp_path: Path, arrays: dict, options: tuple[str, ...], reason: str) -> None:
    file = tmp_path / "data.npz"
    np.savez(file, **arrays)
    result = oneballot("new", file, "--out", tmp_path / "e", *options)
    assert result.exit_code == 1
    assert reason in result.output
    assert not (tmp_path / "e").exists()


def test_other_files_are_refused(public: Path, tmp_path: Path) -> None:
    table, file = tmp_path / "table.csv", tmp_path / "e"
    table.write_text("a,b\n1,2\n")
    assert "images are read from NPZ files" in oneballot("new", table, "--out", file).output
    assert "not a network" in oneballot("apply", table, public, "--out", tmp_path / "o.npz").output
    assert oneballot("new", public, "--out", file, *SMALL).exit_code == 0
    assert "ends in .npz" in oneballot("apply", file, public, "--out", tmp_path / "o.csv").output
    np.savez(tmp_path / "other.npz", image=IMAGES[:, :16])
    result = oneballot("apply", file, tmp_path / "other.npz", "--out", tmp_path / "o.npz")
    assert "rows of shape (16, 16); the network was trained on rows of shape (1, 17, 16)" in result.output
    np.savez(tmp_path / "twice.npz", image=IMAGES, features=np.zeros(130))
    assert (
        "already has an array" in oneballot("apply", file, tmp_path / "twice.npz", "--out", tmp_path / "o.npz").output
    )
    assert not (tmp_path / "o.npz").exists()
