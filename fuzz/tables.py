"""Feeds mutated tables and elections to the readers: python fuzz/tables.py [--files 5000] [--seed 0].

Every file must be read, or raise OneBallotError with a sentence. Any other error is a finding. At the end the largest
memory use of the process is printed; it must stay below 500 MB.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from oneballot.data.read import read
from oneballot.election.election import Election
from oneballot.election.infer import infer
from oneballot.election.template import draft
from oneballot.errors import OneBallotError

SUFFIXES = ("csv", "parquet", "npz", "toml", "xlsx")
WEIRD = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"'", b";", b"\t", b",", b"\n", b"\r", b"[" * 2000, b"{a=" * 500),
    *(b"a." * 3000, b"9" * 5000, b"1e999", b"-1", b"nan", b"0001-01-01", b"31.12.9999", b"\xff" * 8, b"\x7f" * 4),
    *(b"(8796093022208, 1)", b"(-1, -4)", b"True", b"0x" + b"f" * 50, b"\x80", b"1,5", b"id"),
)


def seeds(folder: Path) -> dict[str, list[bytes]]:
    """Honest files of each type."""
    rng = np.random.default_rng(0)
    ages, wards = rng.integers(18, 90, 40), rng.choice(["north", "süd", ""], 40)
    days = np.datetime64("2020-01-01", "s") + rng.integers(0, 900, 40)
    ill = np.where(ages > 50, "yes", "no")
    lines = [
        f"{a};{a / 7:.2f};{w};{d};{y}".replace(".", ",") for a, w, d, y in zip(ages, wards, days, ill, strict=True)
    ]
    text = "\n".join(["age;dose;ward;seen;ill", *lines]) + "\n"
    public = folder / "public.csv"
    public.write_text(text.replace(",", ".").replace(";", ","), "utf-8")
    npz = io.BytesIO()
    np.savez_compressed(npz, age=ages, dose=ages / 7, ward=wards, seen=days, ill=ill, X=np.zeros((40, 3), np.uint8))
    found = {
        "csv": [text.encode(), text.encode("utf-16"), text.encode("cp1252"), public.read_bytes()],
        "npz": [npz.getvalue()],
        "toml": [draft(public, "ill", beside=folder / "election.toml").text.encode()],
    }
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({"age": ages, "ward": wards.tolist(), "seen": days, "ill": ill.tolist()})
        kept = io.BytesIO(), io.BytesIO()
        pq.write_table(table, kept[0])
        pq.write_table(table, kept[1], compression="none", use_dictionary=False)
        found["parquet"] = [each.getvalue() for each in kept]
        from openpyxl import Workbook
    except ImportError:
        return found
    book = Workbook()
    for row in [["age", "ward", "seen", "ill"], *zip(ages.tolist(), wards.tolist(), days.tolist(), ill.tolist())]:  # noqa: B905
        book.active.append(row)
    excel = io.BytesIO()
    book.save(excel)
    found["xlsx"] = [excel.getvalue()]
    return found


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Overwrite, insert, delete, repeat or truncate at a few places; in a zip mostly inside one of its files."""
    if data[:2] == b"PK" and rng.random() < 0.75:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        name = rng.choice(sorted(files))
        files[name] = mutate(files[name], rng)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return packed.getvalue()
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(len(data), 200) if rng.random() < 0.3 else len(data)) if data else 0
        what = rng.choice(WEIRD) if rng.random() < 0.5 else rng.randbytes(rng.randint(1, 8))
        action = rng.choice(("overwrite", "insert", "delete", "repeat", "truncate"))
        end = at if action == "insert" else at + len(what)
        new = {"delete": b"", "repeat": data[at:end] * 3}.get(action, what)
        data = data[:at] if action == "truncate" else data[:at] + new + data[end:]
    return data


def mutants(folder: Path, count: int, seed: int) -> Iterator[Path]:
    """Write mutated files, one after another, in turn of each type."""
    rng, originals = random.Random(seed), seeds(folder)
    for i in range(count):
        suffix = sorted(originals)[i % len(originals)]
        path = folder / f"mutant.{suffix}"
        path.write_bytes(mutate(rng.choice(originals[suffix]), rng))
        yield path


def accepts(path: Path) -> bool:
    """Whether the file is read; False if it is refused with a OneBallotError."""
    try:
        if path.suffix == ".toml":
            Election.read(path)
        else:
            table = read(path)
            infer(table.columns, "ill").encode(table.columns, table.source)
    except OneBallotError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=5000, help="how many mutated files to read")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    read_files, findings = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for path in mutants(Path(folder), options.files, options.seed):
            try:
                read_files += accepts(path)
            except Exception:
                findings += 1
                print(f"{path.name}: {path.read_bytes()[:80]!r}\n{traceback.format_exc()}", file=sys.stderr)
    status = Path("/proc/self/status").read_text("utf-8")
    (peak,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    memory = int(peak.split()[1]) / 2**10  # of this process alone: getrusage also counts its parent before exec
    print(json.dumps({"files": options.files, "read": read_files, "findings": findings, "memory_mb": round(memory)}))
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
