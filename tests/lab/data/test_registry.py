"""Public data sets by name: downloads from a local HTTP server, and the real files if ONEBALLOT_DATA has them."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import os
import sys
import tarfile
import threading
import zipfile

import numpy as np
import pytest

import oneballot_lab
from oneballot.errors import DataError, MissingExtra
from oneballot.runtime.progress import report_progress_to
from oneballot_lab.data import registry
from oneballot_lab.data.download import Download, fetch, unpack
from oneballot_lab.data.sets import ENTRIES, Entry

REAL = os.environ.get("ONEBALLOT_DATA")
PAPERS = [
    "adult",
    "agnews",
    "celeba",
    "chest-xray",
    "cifar10",
    "cifar100",
    "cod-rna",
    "fashion-mnist",
    "imagenet32",
    "imdb",
    "mnist",
    "pneumoniamnist",
    "rsna",
    "sent140",
    "sst2",
    "svhn",
    "trec",
]


def test_every_data_set_of_the_papers_is_listed_and_described():
    assert list(registry.names()) == PAPERS
    assert "123 binary features" in registry.describe("adult")
    assert "provide the files yourself" in registry.describe("sent140")
    for entry in ENTRIES.values():
        for download in entry.downloads:
            algorithm, _, digest = download.checksum.partition(":")
            assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size


def test_a_misspelt_name_suggests_the_right_one():
    with pytest.raises(DataError, match=r"expected one of adult, .* Did you mean 'cifar10'"):
        registry.load("cifar-10")


def test_the_error_for_missing_files_says_which_files_go_where(home):
    with pytest.raises(
        DataError,
        match=r"(?s)not found. Put training\.1600000.*sent140/ in .*data or .*cache/oneballot.*set ONEBALLOT_DATA",
    ):
        registry.load("sent140")


class Server(http.server.BaseHTTPRequestHandler):
    """Serves a dict of contents; a path that begins with /cut stops halfway."""

    def __init__(self, files: dict[str, bytes], *args: object) -> None:
        self.files = files
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[1]
        if name not in self.files:
            self.send_error(404)
            return
        content = self.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.path.startswith("/cut/") else content)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def serve(home):
    servers = []

    def start(files: dict[str, bytes]) -> str:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, files))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def md5(content: bytes) -> str:
    return "md5:" + hashlib.md5(content).hexdigest()


def test_a_data_set_is_downloaded_once_and_then_read_from_the_cache(home, serve, monkeypatch):
    files = {"a9a": b"-1 1:1\n+1 2:1\n", "a9a.t": b"+1 123:1\n"}
    site = serve(files)
    downloads = tuple(Download(name, (f"{site}/gone/nothing", f"{site}/{name}"), md5(files[name])) for name in files)
    monkeypatch.setitem(ENTRIES, "adult", Entry("tiny", ENTRIES["adult"].layouts, downloads))
    reports = []
    with report_progress_to(lambda *step: reports.append(step)):
        assert registry.load("adult").X.shape == (2, 123)
    assert ("downloading a9a (MiB)", 1, 1) in reports
    files.clear()
    assert list(registry.load("adult").y) == [0, 1]
    assert sorted(path.name for path in (home / "cache/oneballot/adult").iterdir()) == ["a9a", "a9a.t"]


def test_a_downloaded_archive_is_unpacked_into_its_usual_layout(home, serve, monkeypatch):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in ("train/neg/1.txt", "train/pos/1.txt", "test/neg/1.txt", "test/pos/1.txt", "train/unsup/1.txt"):
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = 4
            tar.addfile(member, io.BytesIO(b"text"))
    content = packed.getvalue()
    download = Download("aclImdb_v1.tar.gz", (serve({"imdb": content}) + "/imdb",), md5(content))
    monkeypatch.setitem(
        ENTRIES, "imdb", Entry("tiny", ENTRIES["imdb"].layouts, (download,), ENTRIES["imdb"].unpack_folders)
    )
    assert list(registry.load("imdb").X) == ["text", "text"]
    folder = home / "cache/oneballot/imdb"
    assert [path.name for path in folder.iterdir()] == ["aclImdb"]
    assert not (folder / "aclImdb/train/unsup").exists()


def test_unpacking_a_zip_writes_only_the_requested_folder_and_nothing_outside_it(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("SST-2/train.tsv", "SST-2/original/x", "../out", "SST-2/../../out"):
            archive.writestr(name, "text")
    unpack(tmp_path / "a.zip", ("SST-2",))
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "SST-2",
        "SST-2/train.tsv",
        "a.zip",
    ]
    assert not (tmp_path.parent / "out").exists()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/a9a", "MD5 hash .* expected md5:0{32} but got 5d41402abc4b2a76b9719d911017c592"),
        ("/cut/a9a", r"IncompleteRead\(2 bytes read, 3 more expected\)"),
        ("/none", "404"),
    ],
)
def test_a_failed_download_leaves_no_file_behind(home, serve, path, message):
    url = serve({"a9a": b"hello"}) + path
    with pytest.raises(DataError, match=f"(?s)a9a could not be downloaded from {url}.*{message}"):
        fetch(Download("a9a", (url,), "md5:" + "0" * 32), home / "cache")
    assert list((home / "cache").iterdir()) == []


def test_the_error_for_an_unreachable_server_names_its_url_and_the_folders(home, monkeypatch):
    download = Download("a9a", ("http://127.0.0.1:1/a9a",), "md5:" + "0" * 32)
    monkeypatch.setitem(ENTRIES, "adult", Entry("tiny", ENTRIES["adult"].layouts, (download,)))
    with pytest.raises(
        DataError,
        match=r"(?s)not found. Put a9a, a9a\.t into.*data or .*cache.*The download failed.*http://127\.0\.0\.1:1/a9a",
    ):
        registry.load("adult")


def test_a_cached_file_with_a_wrong_checksum_is_downloaded_again(home, serve):
    site = serve({"a9a": b"hello"})
    (home / "a9a").write_bytes(b"damaged")
    fetch(Download("a9a", (f"{site}/a9a",), md5(b"hello")), home)
    assert (home / "a9a").read_bytes() == b"hello"


def test_a_download_without_pooch_names_the_extra(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtra, match=r"pip install 'oneballot\[lab\]'"):
        oneballot_lab.load("adult")


ROWS = {
    "mnist": (60_000, 10_000),
    "fashion-mnist": (60_000, 10_000),
    "adult": (32_561, 16_281),
    "cod-rna": (59_535, 271_617),
    "cifar10": (50_000, 10_000),
    "pneumoniamnist": (4_708, 624),
    "trec": (5_452, 500),
    "imdb": (25_000, 25_000),
    "sst2": (67_349, 872),
}


@pytest.mark.skipif(not REAL, reason="ONEBALLOT_DATA is not set")
@pytest.mark.parametrize("name", PAPERS)
def test_the_real_data_set_is_complete(name, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(ENTRIES, name, Entry("", ENTRIES[name].layouts))
    try:
        data = registry.load(name)
    except DataError as error:
        if "not found" not in str(error):
            raise
        pytest.skip(f"{name} is not in ONEBALLOT_DATA")
    assert (len(data.y), len(data.y_test)) == ROWS.get(name, (len(data.y), len(data.y_test)))
    assert list(np.unique(data.y)) == list(np.unique(data.y_test)) == list(range(len(data.classes)))
    assert data.X.shape[1:] == data.X_test.shape[1:]
