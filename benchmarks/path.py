"""How many files and functions of OneBallot run in one cast and in one tally, and how deep the main path is.

    python benchmarks/path.py [--list]

Three parties with small CSV files, FedKT with a forest, a folder as the box: the commands `cast` and `tally`, traced in
this process. Functions that only run while modules are imported are not counted.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from typer.testing import CliRunner

import oneballot
from oneballot.cli import app

HOME = Path(oneballot.__file__).parent


def write_rows(path: Path, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "dose", "ward", "ill"])
        writer.writerows([[20, 0.0, "north", "no"], [90, 1.0, "south", "yes"]])  # the whole range of each column
        for _ in range(rows):
            ward, ill = rng.choice(["north", "south"]), rng.choice(["yes", "no"])
            writer.writerow([rng.integers(20, 90), round(rng.random(), 3), ward, ill])


def traced(run: Callable[[], None]) -> set[tuple[str, str]]:
    """The functions of OneBallot that ran, each with its file."""
    ran: set[tuple[str, str]] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and Path(code.co_filename).is_relative_to(HOME) and not code.co_name.startswith("<"):
            ran.add((str(Path(code.co_filename).relative_to(HOME)), code.co_qualname))

    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return ran


def command(*words: object) -> None:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exit_code:
        raise SystemExit(f"{result.output} {result.exception!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="also list the functions")
    listed = parser.parse_args().list
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for i, name in enumerate(("public", "a", "b", "c")):
            write_rows(here / f"{name}.csv", 80, i)
        election = here / "election.toml"
        command("new", election, "--public", here / "public.csv", "--label", "ill")
        text = election.read_text("utf-8").replace("n_estimators = 100", "n_estimators = 5")
        election.write_text(text, "utf-8")

        def cast(party: str) -> None:
            where = ("--data", here / f"{party}.csv", "--to", here / "box", "--keep", here / "kept")
            command("cast", election, "--party", party, *where)

        def tally() -> None:
            command("tally", election, "--from", here / "box", "--out", here / "outcome")

        cast("a")  # modules are imported by now
        jobs: dict[str, Callable[[], None]] = {"cast": lambda: cast("b"), "tally": tally}
        for name, job in jobs.items():
            ran = traced(job)
            functions = {f for f in ran if not f[1].rpartition(".")[2].startswith("__")}
            print(f"{name}: {len({file for file, _ in functions})} files, {len(functions)} functions")
            if listed:
                print("\n".join(f"  {file}: {function}" for file, function in sorted(functions)))


if __name__ == "__main__":
    main()
