"""Small files that expand to gigabytes are refused or read within 500 MB: real bombs, each in a process of its own."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from oneballot.election.file import LARGEST_FILE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as on Linux"),
]
MOST_MB = 500
MEASURE = """
import json, pathlib, sys, warnings
warnings.simplefilter("ignore")
from oneballot.errors import OneBallotError
what, path = sys.argv[1], pathlib.Path(sys.argv[2])
said = ""
try:
    if what == "table":
        from oneballot.data.read import read
        read(path)
    elif what == "election":
        from oneballot.election.election import Election
        Election.read(path)
    elif what == "ballot":
        from oneballot.ballot.manifest import open_ballot
        open_ballot(path.read_bytes()).contents()
    else:
        from oneballot import plugins
        from oneballot.ballot.rows_held import RowCounter
        from oneballot.types import Blob
        assert RowCounter(None).count([Blob(what, path.read_bytes())]).rows == 0
        plugins.find("formats", what).check(path.read_bytes(), classes=2, features=3)
except OneBallotError as error:
    said = str(error)
# unlike getrusage, without the memory of the parent
(peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"said": said, "mb": int(peak.split()[1]) / 1024}))
"""


def measure(what: str, path: Path) -> str:
    """What the reader says, which must need less than 500 MB. Raises for any other error."""
    done = subprocess.run([sys.executable, "-c", MEASURE, what, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["mb"] < MOST_MB, (
        f"{path.name} ({path.stat().st_size} bytes) needed {result['mb']:.0f} MB: {result['said'][:200]}"
    )
    assert len(result["said"]) < 2000
    return result["said"]


def in_members(path: Path, gigabytes: float, block: bytes) -> Path:
    """A gzip file of this size, written quickly: of equal members, which readers join."""
    member = gzip.compress(block, 9)
    path.write_bytes(gzip.compress(b"a,b\n") + member * int(gigabytes * 2**30 / len(block)))
    return path


ZEROS, ROWS, LINES = bytes(1 << 22), b"0,0\n" * (1 << 20), b"\n" * (1 << 22)


@pytest.mark.parametrize(
    ("suffix", "block", "gigabytes"),
    [
        ("csv.gz", ZEROS, 10),
        ("csv.gz", b"0" * (1 << 22), 1),
        ("csv.gz", ROWS, 1),
        ("tsv.gz", LINES, 1),
        ("libsvm.gz", ROWS, 1),
    ],
    ids=["zeros", "one cell", "rows", "lines", "LIBSVM"],
)
def test_a_gzip_file_of_gigabytes_is_refused(suffix: str, block: bytes, gigabytes: float, tmp_path: Path) -> None:
    said = measure("table", in_members(tmp_path / f"bomb.{suffix}", gigabytes, block))
    assert "expands to more than" in said


@pytest.mark.parametrize(("suffix", "module"), [("csv.bz2", bz2), ("csv.xz", lzma)])
def test_other_compressed_files_are_refused(suffix: str, module, tmp_path: Path) -> None:
    path = tmp_path / f"bomb.{suffix}"
    path.write_bytes(module.compress(b"a,b\n") + module.compress(ROWS) * 500)
    assert "expands to more than" in measure("table", path)


def test_honest_tables_that_compress_well_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "a,b,c\n" + "\n".join(f"{v:.2f},0,yes" for v in rng.normal(size=200_000))
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert measure("table", tmp_path / "table.csv.gz") == ""
    np.savez_compressed(tmp_path / "table.npz", X=np.zeros((200_000, 20), np.float32), y=np.zeros(200_000, np.int64))
    assert measure("table", tmp_path / "table.npz") == ""


@pytest.mark.parametrize("lie", [False, True], ids=["honest size", "lying size"])
def test_an_npz_of_gigabytes_is_refused(lie: bool, tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": (2**27,)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        file.write(out.getvalue())
        for _ in range(256):
            file.write(ZEROS)
    if lie:
        claim_size(path, len(out.getvalue()) + 2**24)
    assert measure("table", path)


@pytest.mark.parametrize("lie", [False, True], ids=["honest size", "lying size"])
def test_a_workbook_of_gigabytes_is_refused(lie: bool, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a", "b"])
    book.active.append(["x", 1])
    book.save(tmp_path / "honest.xlsx")
    part = "xl/worksheets/sheet1.xml"
    path, cells = tmp_path / "bomb.xlsx", b'<row><c t="n"><v>0</v></c></row>' * (1 << 15)
    with (
        zipfile.ZipFile(tmp_path / "honest.xlsx") as honest,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for name in honest.namelist():
            content = honest.read(name)
            if name != part:
                bomb.writestr(name, content)
                continue
            end = b"</sheetData>"
            head, _, tail = content.partition(end)
            with bomb.open(name, "w") as file:
                file.write(head)
                for _ in range(1500):
                    file.write(cells)
                file.write(end + tail)
    if lie:
        claim_size(path, 2**20, part)
    assert measure("table", path)


def claim_size(path: Path, size: int, name: str | None = None) -> None:
    """State another uncompressed size in the directory of a zip, and in the local header."""
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if name in (None, entry.filename):
                data[entry.header_offset + 22 : entry.header_offset + 26] = size.to_bytes(4, "little")
                at = data.rfind(entry.filename.encode()) - 46
                data[at + 24 : at + 28] = size.to_bytes(4, "little")
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["numbers", "text", "one page"])
def test_a_parquet_file_of_gigabytes_is_refused(kind: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "bomb.parquet"
    if kind == "one page":
        column, settings = pa.array(np.zeros(2**25)), {"use_dictionary": False, "data_page_size": 2**30}
    else:
        column = pa.array(np.zeros(2**24) if kind == "numbers" else ["text"] * 2**23)
        settings = {"use_dictionary": True}
    table = pa.table({f"c{i}": column for i in range(4)})
    with pq.ParquetWriter(path, table.schema, compression="zstd", **settings) as writer:
        for _ in range(4):
            writer.write_table(table, row_group_size=2**26)
    assert "expands to more than" in measure("table", path)


def test_a_parquet_file_with_lying_sizes_is_refused(tmp_path: Path) -> None:
    """The footer states other sizes and numbers of rows than the pages have."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": np.zeros(2**27)})
    settings = {"use_dictionary": False, "data_page_size": 2**31 - 1, "write_statistics": False}
    pq.write_table(table, tmp_path / "large.parquet", compression="zstd", row_group_size=2**27, **settings)
    pq.write_table(pa.table({"a": np.zeros(100)}), tmp_path / "small.parquet", compression="zstd", **settings)
    large, small = (tmp_path / "large.parquet").read_bytes(), (tmp_path / "small.parquet").read_bytes()
    pages = large[: -8 - int.from_bytes(large[-8:-4], "little")]
    footer = small[-8 - int.from_bytes(small[-8:-4], "little") :]
    (tmp_path / "bomb.parquet").write_bytes(pages + footer)
    measure("table", tmp_path / "bomb.parquet")


DEEP = 1_000_000
TOMLS = {
    "deep arrays": lambda: "a = " + "[" * DEEP,
    "closed arrays": lambda: "a = " + "[" * DEEP + "]" * DEEP,
    "deep tables": lambda: "a = " + "{a = " * DEEP,
    "dotted key": lambda: ".".join("a" * DEEP) + " = 1",
    "dotted header": lambda: "[" + ".".join("a" * DEEP) + "]",
    "dotted key of quoted parts": lambda: " . ".join(['"a \\" b"', "'c = 1'"] * (DEEP // 2)) + " = 1",
    "many keys": lambda: "\n".join(f"k{i} = 1" for i in range(1_000_000)),
    "many tables": lambda: "[[a]]\n" * 2_000_000,
    "many numbers": lambda: "a = [" + "1," * 10_000_000 + "]",
    "many inline tables": lambda: "a = [" + "{}," * 5_000_000 + "]",
    "decimal integer": lambda: "seed = " + "9" * 10_000_000,
    "hexadecimal integer": lambda: "seed = 0x" + "f" * 10_000_000,
    "long text": lambda: 'name = "' + "x" * 100_000_000 + '"',
    "long float": lambda: "a = 1." + "1" * 10_000_000,
    "exponent": lambda: "seed = 1e999999999",
}


@pytest.mark.parametrize("bomb", TOMLS)
def test_a_toml_bomb_below_the_size_limit_is_refused(bomb: str, tmp_path: Path) -> None:
    (tmp_path / "election.toml").write_text(TOMLS[bomb]()[:LARGEST_FILE])
    assert measure("election", tmp_path / "election.toml")


@pytest.mark.parametrize("bomb", ["many numbers", "long text"])
def test_a_larger_toml_file_is_not_read(bomb: str, tmp_path: Path) -> None:
    (tmp_path / "election.toml").write_text(TOMLS[bomb]())
    assert "an election has at most" in measure("election", tmp_path / "election.toml")


def test_an_honest_election_of_10_000_parties_is_read(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from oneballot.ballot.keys import public_text

    roster = "\n".join(f'party-{i} = "{public_text(Ed25519PrivateKey.generate())}"' for i in range(10_000))
    text = f'format = 1\nclasses = ["a", "b"]\n[method]\nname = "ensemble"\nweights = "open"\n[roster]\n{roster}\n'
    (tmp_path / "election.toml").write_text(text)
    said = measure("election", tmp_path / "election.toml")
    assert said == ""


@pytest.mark.parametrize("schema", ["dicts", "lists", "deep", "numbers", "zeros"])
def test_a_skops_bomb_is_refused(schema: str, tmp_path: Path) -> None:
    size = 30 * 2**20
    text = {
        "dicts": b"[" + b"{}," * (size // 3) + b"0]",
        "lists": b"[" + b"[]," * (size // 3) + b"0]",
        "deep": b"[" * size,
        "numbers": b"[" + b"1234567," * (size // 8) + b"0]",
        "zeros": bytes(size),
    }[schema]
    path = tmp_path / "bomb.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", text)
        noise = np.random.default_rng(0).bytes(2**20)
        file.writestr("1.npy", noise)  # so that the whole does not expand too far
    assert measure("skops", path)


def test_a_skops_file_with_gigabytes_of_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", json.dumps({"content": {"_fit_X": {"file": "1.npy"}}}))
        with file.open("1.npy", "w") as array:
            np.lib.format.write_array_header_1_0(array, {"descr": "<f4", "fortran_order": False, "shape": (2**26, 3)})
            for _ in range(192):
                array.write(ZEROS)
    assert measure("skops", path)


def test_a_compressed_ballot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.ballot"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("arrays.safetensors", "w") as arrays:
        for _ in range(400):
            arrays.write(ZEROS)
    assert "stored uncompressed" in measure("ballot", path)
