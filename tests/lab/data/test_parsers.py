"""Parsers of public data sets, on tiny files in the published formats."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from oneballot.errors import DataError
from oneballot_lab.data import registry


def put(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes() + values.astype(np.uint8).tobytes()


IMAGES = np.arange(2 * 28 * 28).reshape(2, 28, 28).astype(np.uint8)
CIFAR = np.arange(2 * 3072).reshape(2, 3072).astype(np.uint8)


def put_idx(folder: Path, images: np.ndarray = IMAGES) -> None:
    for part in ("train", "t10k"):
        put(folder / f"{part}-images-idx3-ubyte.gz", gzip.compress(idx(images)))
        put(folder / f"{part}-labels-idx1-ubyte", idx(np.array([7, 0])))


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
def test_idx_images_are_read_plain_or_compressed(home, name, folder):
    put_idx(home / "data" / folder)
    data = registry.load(name)
    np.testing.assert_array_equal(data.X, IMAGES[:, None])
    assert data.X.dtype == np.uint8
    assert data.X.flags.writeable
    assert list(data.y_test) == [7, 0]
    assert data.classes[7] == {"mnist": "7", "fashion-mnist": "Sneaker"}[name]
    assert data.note == ""


def test_cifar10_is_read_from_its_binary_version(home):
    for file in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        put(
            home / f"data/cifar10/cifar-10-batches-bin/{file}.bin",
            b"".join(bytes([9]) + row.tobytes() for row in CIFAR),
        )
    data = registry.load("cifar10")
    assert data.X.shape == (10, 3, 32, 32)
    np.testing.assert_array_equal(data.X_test, CIFAR.reshape(2, 3, 32, 32))
    assert {data.classes[y] for y in data.y} == {"truck"}


def test_cifar100_takes_the_fine_label_and_its_name(home):
    folder = home / "data/cifar100/cifar-100-binary"
    for file in ("train", "test"):
        put(folder / f"{file}.bin", b"".join(bytes([0, 2]) + row.tobytes() for row in CIFAR))
    put(folder / "fine_label_names.txt", "apple\naquarium_fish\nbaby\n")
    data = registry.load("cifar100")
    assert list(data.y) == [2, 2]
    assert data.classes == ("apple", "aquarium_fish", "baby")
    np.testing.assert_array_equal(data.X[1].ravel(), CIFAR[1])


def test_svhn_label_ten_is_class_zero(home):
    from scipy.io import savemat

    X = np.arange(32 * 32 * 3 * 2).reshape(32, 32, 3, 2).astype(np.uint8)
    (home / "data/svhn").mkdir(parents=True)
    for part in ("train", "test"):
        savemat(home / f"data/svhn/{part}_32x32.mat", {"X": X, "y": np.array([[10], [3]], np.uint8)})
    data = registry.load("svhn")
    assert list(data.y) == [0, 3]
    np.testing.assert_array_equal(data.X[1, 2], X[:, :, 2, 1])


def test_pneumoniamnist_is_read_from_its_npz(home):
    (home / "data/pneumoniamnist").mkdir(parents=True)
    parts = {f"{part}_images": IMAGES for part in ("train", "val", "test")}
    labels = {f"{part}_labels": np.array([[1], [0]], np.uint8) for part in ("train", "val", "test")}
    np.savez(home / "data/pneumoniamnist/pneumoniamnist.npz", **parts, **labels)
    data = registry.load("pneumoniamnist")
    assert data.X.shape == (2, 1, 28, 28)
    assert [data.classes[y] for y in data.y] == ["pneumonia", "normal"]


@pytest.mark.parametrize("name", ["celeba", "chest-xray", "imagenet32", "rsna"])
def test_prepared_image_sets_are_read_from_an_npz_with_the_same_arrays(home, name):
    (home / "data" / name).mkdir(parents=True)
    images = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)  # channels last, as most readers return them
    parts = {f"{part}_images": images for part in ("train", "test")}
    labels = {f"{part}_labels": np.array([1, 0], np.uint8) for part in ("train", "test")}
    np.savez(home / f"data/{name}/{name}.npz", **parts, **labels)
    data = registry.load(name)
    assert data.X.shape == (2, 3, 4, 5)
    np.testing.assert_array_equal(data.X[1, 2], images[1, :, :, 2])
    assert len(data.classes) == (1000 if name == "imagenet32" else 2)


def test_libsvm_sets_have_all_features_and_minus_one_as_class_zero(home):
    put(home / "data/adult/a9a", "-1 3:1 11:1\n+1 123:1\n")
    put(home / "data/adult/a9a.t", "+1 122:1\n-1 1:1\n")
    put(home / "data/cod-rna/cod-rna", "-1 1:-766 8:0.25\n")
    put(home / "data/cod-rna/cod-rna.t", "1 1:-500 2:128\n")
    adult, rna = registry.load("adult"), registry.load("cod-rna")
    assert adult.X.shape == adult.X_test.shape == (2, 123)
    assert adult.X.dtype == np.float32
    assert [adult.classes[y] for y in adult.y] == ["<=50K", ">50K"]
    assert (rna.X.shape, list(rna.y), list(rna.y_test), rna.classes) == ((1, 8), [0], [1], ("-1", "+1"))


TEXTS = {
    "trec": (
        {
            "trec/train_5500.label": "NUM:dist How far ?\nDESC:def A sister\xf0city ?\n".encode("iso-8859-1"),
            "trec/TREC_10.label": "ABBR:exp BUD ?\n",
        },
        ["How far ?", "A sisterðcity ?"],
        ["NUM", "DESC"],
    ),
    "imdb": (
        {
            f"imdb/aclImdb/{part}/{mood}/0_9.txt": f"{part} {mood}"
            for part in ("train", "test")
            for mood in ("pos", "neg")
        },
        ["train neg", "train pos"],
        ["negative", "positive"],
    ),
    "sst2": (
        {
            "sst2/SST-2/train.tsv": 'sentence\tlabel\n" a quote \t0\nfine \t1\n',
            "sst2/SST-2/dev.tsv": "sentence\tlabel\nok\t1\n",
        },
        ['" a quote', "fine"],
        ["negative", "positive"],
    ),
    "sst2 ": (
        {f"sst2/glue_{part}.tsv": f"sentence\tlabel\n{part} \t1\n" for part in ("train", "dev", "test")},
        ["train", "dev"],
        ["positive", "positive"],
    ),
    "agnews": (
        {"agnews/train.csv": '"4","Title","Says ""so""."\n', "agnews/test.csv": '"1","T","D"\n'},
        ['Title Says "so".'],
        ["Sci/Tech"],
    ),
    "agnews ": (
        {"agnews/alps_dev.tsv": "Goal.\tSports\n", "agnews/test.csv": '"1","T","D"\n'},
        ["Goal."],
        ["Sports"],
    ),
    "sent140": (
        {
            "sent140/training.1600000.processed.noemoticon.csv": '"0","1","day","NO_QUERY","me","caf\xe9 "\n'.encode(
                "latin-1"
            ),
            "sent140/testdata.manual.2009.06.14.csv": '"4","2","d","q","u","yes"\n"2","3","d","q","u","so so"\n',
        },
        ["café"],
        ["negative"],
    ),
    "sent140 ": (
        {"sent140/sample.csv": "".join(f"{i},{4 * (i % 2)},1,day,q,u,tweet {i}\n" for i in range(5))},
        [f"tweet {i}" for i in range(4)],
        ["negative", "positive", "negative", "positive"],
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts_are_read_as_strings_with_their_classes(home, case):
    files, texts, labels = TEXTS[case]
    for file, content in files.items():
        put(home / "data" / file, content)
    data = registry.load(case.strip())
    assert list(data.X) == texts
    assert [data.classes[y] for y in data.y] == labels
    assert len(data.X_test) == len(data.y_test) > 0
    assert bool(data.note) == case.endswith(" ")


def test_errors_for_damaged_files_name_the_folder_and_the_problem(home):
    put_idx(home / "data/mnist", IMAGES[:1])
    with pytest.raises(DataError, match="1 rows, 2 labels up to 7"):
        registry.load("mnist")
    put(home / "data/mnist/train-images-idx3-ubyte", idx(IMAGES)[:-5])
    with pytest.raises(DataError, match="has 1,563 values; its header declares 1,568"):
        registry.load("mnist")
    put(home / "data/pneumoniamnist/pneumoniamnist.npz", b"no zip")
    with pytest.raises(DataError, match="pneumoniamnist are not in the expected format"):
        registry.load("pneumoniamnist")
    put(home / "data/trec/train_5500.label", "WHAT:ever Who ?\n")
    put(home / "data/trec/TREC_10.label", "HUM:desc Who ?\n")
    with pytest.raises(DataError, match="unexpected labels WHAT; expected ABBR"):
        registry.load("trec")
