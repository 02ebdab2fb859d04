"""The table of public data sets: file layouts, parsers, download URLs and checksums.

Checksums are the published ones (torchvision, torchtext, MedMNIST, CIFAR's own page) or, for a9a, cod-rna and TREC,
those of the original files. Users have to provide the files of a data set without a checksum themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import parsers
from .download import Download

_IMAGES, _LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
_IDX = (f"train-{_IMAGES}", f"train-{_LABELS}", f"t10k-{_IMAGES}", f"t10k-{_LABELS}")
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
_FASHION = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
_LIBSVM = ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/",)
_TORONTO = ("https://www.cs.toronto.edu/~kriz/",)
_SVHN = ("http://ufldl.stanford.edu/housenumbers/",)
_TREC = ("https://cogcomp.seas.upenn.edu/Data/QA/QC/", "http://cogcomp.org/Data/QA/QC/")
_IMDB = ("https://ai.stanford.edu/~amaas/data/sentiment/",)
_GLUE = ("https://dl.fbaipublicfiles.com/glue/data/",)
_AG_NEWS = ("https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",)
_MEDMNIST = ("https://zenodo.org/records/10519652/files/",)


@dataclass(frozen=True)
class Layout:
    """A folder below the data folder, the files (plain or compressed) it must contain, and their parser.

    note: how these files differ from the complete original data set.
    """

    folder: str
    files: tuple[str, ...]
    parse: Callable[[Path], parsers.Parts]
    note: str = ""


@dataclass(frozen=True)
class Entry:
    """A data set. layouts: the usual one first. unpack_folders: the folders to unpack from a downloaded archive."""

    about: str
    layouts: tuple[Layout, ...]
    downloads: tuple[Download, ...] = ()
    unpack_folders: tuple[str, ...] = ()


def _downloads(sites: tuple[str, ...], checksums: dict[str, str]) -> tuple[Download, ...]:
    return tuple(Download(file, tuple(site + file for site in sites), check) for file, check in checksums.items())


def _cifar(
    name: str, folder: str, files: tuple[str, ...], parse: Callable[[Path], parsers.Parts]
) -> tuple[Layout, ...]:
    return tuple(Layout(place, files, parse) for place in (f"{name}/{folder}", name, folder))


ENTRIES = {
    "mnist": Entry(
        "handwritten digits, 1x28x28, 10 classes, 60,000 + 10,000 rows",
        tuple(Layout(place, _IDX, parsers.mnist) for place in ("mnist", "MNIST/raw")),
        _downloads(
            _MNIST,
            {
                "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
                "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
                "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
            },
        ),
    ),
    "fashion-mnist": Entry(
        "articles of clothing, 1x28x28, 10 classes, 60,000 + 10,000 rows",
        # The last one is where Debian's package dataset-fashion-mnist installs it.
        tuple(
            Layout(place, _IDX, parsers.fashion_mnist)
            for place in ("fashion-mnist", "FashionMNIST/raw", "/usr/share/datasets/fashion-mnist")
        ),
        _downloads(
            _FASHION,
            {
                "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
                "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
                "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
            },
        ),
    ),
    "adult": Entry(
        "income from census answers (a9a), 123 binary features, <=50K (-1) and >50K (+1), 32,561 + 16,281 rows",
        (Layout("adult", ("a9a", "a9a.t"), parsers.adult),),
        _downloads(
            _LIBSVM,
            {
                "a9a": "sha256:f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
                "a9a.t": "sha256:1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
            },
        ),
    ),
    "cod-rna": Entry(
        "non-coding RNA (LIBSVM), 8 features, classes -1 and +1, 59,535 + 271,617 rows",
        (Layout("cod-rna", ("cod-rna", "cod-rna.t"), parsers.cod_rna),),
        _downloads(
            _LIBSVM,
            {
                "cod-rna": "sha256:65b7cc0689fc29bba5db8b50fab0b6446d985f4bf8f6f5dd474f7df8b2f1ab6c",
                "cod-rna.t": "sha256:58cff16df896436b06343df78ccaef37a6979d819abbcadbec3cb16b93938df6",
            },
        ),
    ),
    "cifar10": Entry(
        "photographs, 3x32x32, 10 classes, 50,000 + 10,000 rows",
        _cifar(
            "cifar10",
            "cifar-10-batches-bin",
            (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"),
            parsers.cifar10,
        ),
        _downloads(_TORONTO, {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"}),
        ("cifar-10-batches-bin",),
    ),
    "cifar100": Entry(
        "photographs, 3x32x32, 100 fine classes, 50,000 + 10,000 rows",
        _cifar("cifar100", "cifar-100-binary", ("train.bin", "test.bin", "fine_label_names.txt"), parsers.cifar100),
        _downloads(_TORONTO, {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"}),
        ("cifar-100-binary",),
    ),
    "svhn": Entry(
        "house numbers, cropped digits, 3x32x32, 10 classes, 73,257 + 26,032 rows",
        (Layout("svhn", ("train_32x32.mat", "test_32x32.mat"), parsers.svhn),),
        _downloads(
            _SVHN,
            {
                "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
                "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
            },
        ),
    ),
    "pneumoniamnist": Entry(
        "chest X-rays (MedMNIST), 1x28x28, normal and pneumonia, 4,708 + 624 rows, without the 524 validation rows",
        (Layout("pneumoniamnist", ("pneumoniamnist.npz",), parsers.pneumoniamnist),),
        _downloads(_MEDMNIST, {"pneumoniamnist.npz": "md5:28209eda62fecd6e6a2d98b1501bb15f"}),
    ),
    "chest-xray": Entry(
        "chest X-rays (Kaggle), grey, normal and pneumonia, 5,216 + 624 rows; in the format of MedMNIST's files",
        (Layout("chest-xray", ("chest-xray.npz",), parsers.chest_xray),),
    ),
    "rsna": Entry(
        "chest X-rays (RSNA), grey, normal and pneumonia, 26,684 rows; in the format of MedMNIST's files",
        (Layout("rsna", ("rsna.npz",), parsers.rsna),),
    ),
    "celeba": Entry(
        "faces by gender, 3x32x32, 162,770 + 19,962 rows; in the format of MedMNIST's files",
        (Layout("celeba", ("celeba.npz",), parsers.celeba),),
    ),
    "imagenet32": Entry(
        "photographs, 3x32x32, 1,000 classes, any number of rows; in the format of MedMNIST's files",
        (Layout("imagenet32", ("imagenet32.npz",), parsers.imagenet32),),
    ),
    "trec": Entry(
        "questions by the type of answer (TREC-6), text, 6 classes, 5,452 + 500 rows",
        (Layout("trec", ("train_5500.label", "TREC_10.label"), parsers.trec),),
        _downloads(
            _TREC,
            {
                "train_5500.label": "sha256:9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
                "TREC_10.label": "sha256:033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
            },
        ),
    ),
    "imdb": Entry(
        "film reviews, text, negative and positive, 25,000 + 25,000 rows",
        tuple(
            Layout(place, ("train/neg", "train/pos", "test/neg", "test/pos"), parsers.imdb)
            for place in ("imdb/aclImdb", "aclImdb")
        ),
        _downloads(_IMDB, {"aclImdb_v1.tar.gz": "md5:7c2ac02c03563afcf9b574c7e56c153a"}),
        ("aclImdb/train/neg", "aclImdb/train/pos", "aclImdb/test/neg", "aclImdb/test/pos"),
    ),
    "sst2": Entry(
        "phrases of film reviews (GLUE), text, negative and positive, 67,349 + 872 rows; the dev set is the test set",
        (
            Layout("sst2/SST-2", ("train.tsv", "dev.tsv"), parsers.sst2),
            Layout("SST-2", ("train.tsv", "dev.tsv"), parsers.sst2),
            Layout(
                "sst2",
                ("glue_train.tsv", "glue_dev.tsv", "glue_test.tsv"),
                parsers.sst2_cut,
                "training rows in another order",
            ),
        ),
        _downloads(_GLUE, {"SST-2.zip": "md5:9f81648d4199384278b86e315dac217c"}),
        ("SST-2",),
    ),
    "agnews": Entry(
        "news by topic, text, 4 classes, 120,000 + 7,600 rows",
        (
            Layout("agnews", ("train.csv", "test.csv"), parsers.agnews),
            Layout(
                "agnews",
                ("alps_dev.tsv", "test.csv"),
                parsers.agnews_sample,
                "10,001 of the 120,000 training rows, and no titles",
            ),
        ),
        _downloads(
            _AG_NEWS,
            {
                "train.csv": "md5:b1a00f826fdfbd249f79597b59e1dc12",
                "test.csv": "md5:d52ea96a97a2d943681189a97654912d",
            },
        ),
    ),
    "sent140": Entry(
        "tweets, text, negative and positive, 1,600,000 + 359 rows",
        (
            Layout(
                "sent140",
                ("training.1600000.processed.noemoticon.csv", "testdata.manual.2009.06.14.csv"),
                parsers.sent140,
            ),
            Layout("sent140", ("sample.csv",), parsers.sent140_sample, "a sample; every fifth row is the test set"),
        ),
    ),
}
