"""Parsers for public data sets in the formats in which they are published. Nothing is unpickled.

Each parser takes a folder and returns X, y, X_test, y_test and the names of the classes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from oneballot.data.files import OPENERS, read_bytes
from oneballot.data.libsvm import read_libsvm
from oneballot.errors import DataError
from oneballot.types import Array

Parts = tuple[Array, Array, Array, Array, tuple[str, ...]]

DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
INCOMES = ("<=50K", ">50K")
QUESTIONS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
TOPICS = ("World", "Sports", "Business", "Sci/Tech")
LUNGS = ("normal", "pneumonia")
SEXES = ("female", "male")
MOODS = ("negative", "positive")


def find(folder: Path, file: str) -> Path | None:
    """The path of a file in the folder, plain or compressed, or None."""
    candidates = (folder / (file + suffix) for suffix in ("", *OPENERS))
    return next((path for path in candidates if path.exists()), None)


def locate(folder: Path, file: str) -> Path:
    if path := find(folder, file):
        return path
    raise DataError(f"{folder} has no file {file}, plain or compressed")


def _as_text(lines: Sequence[str]) -> Array:
    return np.array(lines, dtype=object)


def _encode_labels(labels: Sequence[str], values: Sequence[str], source: Path) -> Array:
    """Class numbers: the position of each label in `values`."""
    numbers = {value: i for i, value in enumerate(values)}
    if unexpected := set(labels) - numbers.keys():
        raise DataError(f"{source}: unexpected labels {', '.join(sorted(unexpected))}; expected {', '.join(values)}")
    return np.array([numbers[label] for label in labels], dtype=np.int64)


def _read_idx(path: Path) -> Array:
    """The IDX format: two zeros, the type (8: unsigned bytes), the number of axes, their sizes, the values."""
    data = read_bytes(path)
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise DataError(f"{path} is not an IDX file of unsigned bytes")
    shape = np.frombuffer(data, ">u4", count=data[3], offset=4).astype(int)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    if len(values) != np.prod(shape):
        raise DataError(f"{path} has {len(values):,} values; its header declares {np.prod(shape):,}. Copy it again.")
    return values.reshape(shape).copy()  # torch warns about read-only arrays, such as views of bytes


def mnist(folder: Path, classes: tuple[str, ...] = DIGITS) -> Parts:
    X, y, X_test, y_test = (
        _read_idx(locate(folder, f"{part}-{content}-ubyte"))
        for part in ("train", "t10k")
        for content in ("images-idx3", "labels-idx1")
    )
    return X[:, None], y.astype(np.int64), X_test[:, None], y_test.astype(np.int64), classes


def fashion_mnist(folder: Path) -> Parts:
    return mnist(folder, CLOTHES)


def _read_cifar(path: Path, label_bytes: int) -> tuple[Array, Array]:
    """CIFAR's binary format: label bytes, of which the last is the class, then 1,024 bytes each of red, green, blue."""
    data = np.frombuffer(bytearray(read_bytes(path)), np.uint8)
    if len(data) == 0 or len(data) % (label_bytes + 3072):
        raise DataError(f"{path}: {len(data):,} bytes are not a multiple of the record size {label_bytes + 3072}")
    records = data.reshape(-1, label_bytes + 3072)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), records[:, label_bytes - 1].astype(np.int64)


def cifar10(folder: Path) -> Parts:
    batches = [_read_cifar(locate(folder, f"data_batch_{i}.bin"), 1) for i in range(1, 6)]
    X, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return X, y, *_read_cifar(locate(folder, "test_batch.bin"), 1), THINGS


def cifar100(folder: Path) -> Parts:
    names = tuple(read_bytes(locate(folder, "fine_label_names.txt")).decode().split())
    X, y = _read_cifar(locate(folder, "train.bin"), 2)
    return X, y, *_read_cifar(locate(folder, "test.bin"), 2), names


def svhn(folder: Path) -> Parts:
    from scipy.io import loadmat

    def read_mat(path: Path) -> tuple[Array, Array]:
        try:
            mat = loadmat(path)
            X, y = mat["X"], mat["y"]
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            raise DataError(f"{path} is not a cropped-digits file of SVHN with X and y ({error})") from error
        # The file stores images as (32, 32, 3, rows) and labels the digit 0 as 10.
        return np.ascontiguousarray(X.transpose(3, 2, 0, 1)), y.ravel().astype(np.int64) % 10

    return *read_mat(folder / "train_32x32.mat"), *read_mat(folder / "test_32x32.mat"), DIGITS


def pneumoniamnist(folder: Path) -> Parts:
    return _read_medmnist(folder / "pneumoniamnist.npz", LUNGS)


def chest_xray(folder: Path) -> Parts:
    return _read_medmnist(folder / "chest-xray.npz", LUNGS)


def rsna(folder: Path) -> Parts:
    return _read_medmnist(folder / "rsna.npz", LUNGS)


def celeba(folder: Path) -> Parts:
    return _read_medmnist(folder / "celeba.npz", SEXES)


def imagenet32(folder: Path) -> Parts:
    return _read_medmnist(folder / "imagenet32.npz", tuple(map(str, range(1000))))


def _read_medmnist(file: Path, classes: tuple[str, ...]) -> Parts:
    """An .npz file with MedMNIST's arrays; images are (rows, height, width) or (rows, height, width, channels)."""
    with np.load(file, allow_pickle=False) as arrays:
        X, y, X_test, y_test = (arrays[f"{part}_{name}"] for part in ("train", "test") for name in ("images", "labels"))
    X, X_test = (rows[:, None] if rows.ndim == 3 else np.moveaxis(rows, 3, 1) for rows in (X, X_test))
    return X, y.ravel().astype(np.int64), X_test, y_test.ravel().astype(np.int64), classes


def _read_signed(folder: Path, file: str, features: int, classes: tuple[str, ...]) -> Parts:
    """Two LIBSVM files, `file` and `file.t`; label -1 is class 0, +1 is class 1."""
    train, test = (read_libsvm(locate(folder, name), features) for name in (file, f"{file}.t"))
    for part in (train, test):
        if unexpected := set(part["y"]) - {-1.0, 1.0}:
            raise DataError(f"{folder / file}: unexpected labels {unexpected}; expected -1 and +1")
    return train["X"], (train["y"] > 0).astype(np.int64), test["X"], (test["y"] > 0).astype(np.int64), classes


def adult(folder: Path) -> Parts:
    return _read_signed(folder, "a9a", 123, INCOMES)


def cod_rna(folder: Path) -> Parts:
    return _read_signed(folder, "cod-rna", 8, ("-1", "+1"))


def trec(folder: Path) -> Parts:
    def read_questions(path: Path) -> tuple[Array, Array]:
        lines = read_bytes(path).decode("iso-8859-1").split("\n")
        labels, texts = zip(*(line.split(" ", 1) for line in lines if line), strict=True)
        return _as_text(texts), _encode_labels([label.split(":")[0] for label in labels], QUESTIONS, path)

    train, test = (read_questions(locate(folder, file)) for file in ("train_5500.label", "TREC_10.label"))
    return *train, *test, QUESTIONS


def imdb(folder: Path) -> Parts:
    def read_reviews(part: str) -> tuple[Array, Array]:
        files = [
            (y, path) for y, mood in enumerate(("neg", "pos")) for path in sorted((folder / part / mood).iterdir())
        ]
        texts = _as_text([path.read_text("utf-8") for _, path in files])
        return texts, np.array([y for y, _ in files], dtype=np.int64)

    return *read_reviews("train"), *read_reviews("test"), MOODS


def _read_glue(*paths: Path) -> tuple[Array, Array]:
    """Lines of sentence, tab, label (0 or 1) below a header. Quotes are ordinary characters."""
    rows = [line.split("\t") for path in paths for line in read_bytes(path).decode("utf-8").split("\n")[1:] if line]
    return _as_text([row[0].strip() for row in rows]), _encode_labels([row[-1] for row in rows], ("0", "1"), paths[0])


def sst2(folder: Path) -> Parts:
    return *_read_glue(locate(folder, "train.tsv")), *_read_glue(locate(folder, "dev.tsv")), MOODS


def sst2_cut(folder: Path) -> Parts:
    """A copy in which glue_dev is a part of the training set and glue_test is the official dev set."""
    train, cut, dev = (locate(folder, f"glue_{part}.tsv") for part in ("train", "dev", "test"))
    return *_read_glue(train, cut), *_read_glue(dev), MOODS


def _read_rows(path: Path, encoding: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(read_bytes(path).decode(encoding), newline="")))


def _read_news(path: Path, *, title: bool) -> tuple[Array, Array]:
    rows = _read_rows(path, "utf-8")
    texts = [f"{row[1]} {row[2]}" if title else row[2] for row in rows]
    return _as_text(texts), _encode_labels([row[0] for row in rows], ("1", "2", "3", "4"), path)


def agnews(folder: Path) -> Parts:
    train, test = (_read_news(locate(folder, file), title=True) for file in ("train.csv", "test.csv"))
    return *train, *test, TOPICS


def agnews_sample(folder: Path) -> Parts:
    """10,001 rows of the training set without titles; the titles of the test set are dropped as well."""
    path = locate(folder, "alps_dev.tsv")
    texts, labels = zip(
        *(line.split("\t") for line in read_bytes(path).decode("utf-8").split("\n") if line), strict=True
    )
    test = _read_news(locate(folder, "test.csv"), title=False)
    return _as_text(texts), _encode_labels(labels, TOPICS, path), *test, TOPICS


def _read_tweets(path: Path, encoding: str) -> tuple[Array, Array]:
    """Rows that end in polarity, ID, date, query, user, text. Neutral tweets (polarity 2) are dropped."""
    rows = [row for row in _read_rows(path, encoding) if row[-6] != "2"]
    return _as_text([row[-1].strip() for row in rows]), _encode_labels([row[-6] for row in rows], ("0", "4"), path)


def sent140(folder: Path) -> Parts:
    train = _read_tweets(locate(folder, "training.1600000.processed.noemoticon.csv"), "iso-8859-1")
    return *train, *_read_tweets(locate(folder, "testdata.manual.2009.06.14.csv"), "iso-8859-1"), MOODS


def sent140_sample(folder: Path) -> Parts:
    """A sample without a test set: every fifth tweet becomes a test row."""
    X, y = _read_tweets(locate(folder, "sample.csv"), "utf-8")
    test = np.arange(len(y)) % 5 == 4
    return X[~test], y[~test], X[test], y[test], MOODS
