"""Vote ballots: their size, and what counting ten thousand of them costs in time and memory.

python benchmarks/ballots.py [--quick] [--only sizes speed memory large sealed] [--megabytes 256]
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import oneballot as ob
from figures import begin, end, seconds, show
from oneballot.ballot.keys import public_text
from oneballot.ballot.seal import seal, unseal
from oneballot.boxes.folder import Folder
from oneballot.interfaces import Model
from oneballot.server.context import TallyContext
from oneballot.server.tally import Options, tally, tally_box
from oneballot.types import Count, Steps

ROWS, CLASSES = 10_000, 10
HARD = ob.FedKT(open_vote="hard")
TINY = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 1})


def election(method: ob.FedKT, rows: int, classes: int, parties: int, *, signed: bool = True) -> ob.Election:
    public = np.random.default_rng(0).normal(size=(rows, 4))
    roster = {name_of(i): public_text(key_of(i)) for i in range(parties)} if signed else {}
    return ob.Election(classes=list(range(classes)), public=public, method=method, learner=TINY, roster=roster)


@cache
def key_of(party: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(party.to_bytes(32, "big"))


def name_of(party: int) -> str:
    return f"party-{party:05d}"


def votes(agreed: ob.Election, seed: int) -> dict[str, np.ndarray]:
    """What a party would write that holds random opinions."""
    method, classes = agreed.method, len(agreed.classes) + (agreed.method.open_vote != "off")
    opinion = np.random.default_rng(seed).dirichlet(np.ones(classes), (method.partitions, len(agreed.public)))
    return {"votes": method.encoding(TallyContext(agreed)).encode(opinion)}


def measure_sizes() -> None:
    """Signed ballots of a party with a long name."""
    party = "x" * 64
    for partitions, rows, classes in [(1, 100, 2), (2, 4_070, 2), (1, 10_000, 10), (2, 10_000, 10), (5, 2_000, 100)]:
        hard = {
            "labels": ob.FedKT.paper(partitions=partitions),
            "open vote, hard": replace(HARD, partitions=partitions),
        }
        soft = {"soft": ob.FedKT.paper(partitions=partitions, voting="soft", students=False),
                "open vote, odds": ob.FedKT(partitions=partitions, open_vote="odds")}  # fmt: skip
        bits = {name: math.ceil(math.log2(classes + 1)) for name in hard} | dict.fromkeys(soft, 8 * classes)
        for name, method in (hard | soft).items():
            agreed = replace(election(method, rows, classes, 0), roster={party: public_text(key_of(0))})
            size = len(seal(votes(agreed, 0), agreed, party, key=key_of(0)).sealed)
            most = partitions * rows * bits[name] / 8 + 2048
            what = f"a ballot, {name}, s={partitions}, {rows:,} rows, {classes} classes"
            show(what, f"{size:,} bytes", f"≤ {most:,.0f}", size <= most)


@contextmanager
def box(agreed: ob.Election, parties: int, *, signed: bool) -> Iterator[Folder]:
    """A box of ballots with few different votes and all different names."""
    with tempfile.TemporaryDirectory() as folder:
        contents = [votes(agreed, seed) for seed in range(5)]
        for i in range(parties):
            ballot = seal(contents[i % 5], agreed, name_of(i), key=key_of(i) if signed else None)
            Path(folder, f"{name_of(i)}.ballot").write_bytes(ballot.sealed)
        yield Folder(folder)


class Stopwatch:
    """Times the counting of ballots, without what `close` takes."""

    def __init__(self) -> None:
        self.closing = 0.0
        close = ob.FedKT.close

        def timed(method: ob.FedKT, count: Count, ctx: TallyContext) -> Steps[Model]:
            start = time.perf_counter()
            model = yield from close(method, count, ctx)
            self.closing = time.perf_counter() - start
            return model

        ob.FedKT.close = timed

    def seconds(self, *work: object) -> float:
        return seconds(*work) - self.closing


def measure_speed(parties: int, repeats: int) -> None:
    watch = Stopwatch()
    cases = [("labels", HARD, True), ("labels", HARD, False), ("weighted", ob.FedKT(open_vote="weighted"), True)]
    for name, method, signed in cases:
        agreed = election(method, ROWS, CLASSES, parties, signed=signed)
        what = f"{parties:,} ballots, {name}, {'signed' if signed else 'unsigned'}"
        with box(agreed, parties, signed=signed) as full:
            names = [n for n, _ in full.names()]
            held = [_read(full, n) for n in names]
            times = [
                (
                    seconds(lambda: [unseal(b, agreed) for b in held]),  # noqa: B023
                    seconds(lambda: [unseal(_read(full, n), agreed) for n in names]),  # noqa: B023
                    watch.seconds(tally, agreed, held),
                    watch.seconds(tally_box, agreed, full),
                )
                for _ in range(repeats)
            ]
        held_alone, box_alone, held_count, box_count = (statistics.median(t) for t in zip(*times, strict=True))
        each = 1e6 / parties
        listed = ", ".join(f"{t * each:.0f}" for t in (held_alone, box_alone, held_count, box_count))
        show(f"{what}: unseal in memory, from the box; count in memory, from the box", f"{listed} µs each")
        for how, count, alone in [
            ("count of the box over reading and unsealing it", box_count, box_alone),
            ("count in memory over unsealing in memory", held_count, held_alone),
        ]:
            show(f"{what}: {how}", f"{count / alone:.2f} ×", "≤ 2 ×", count <= 2 * alone)


def _read(full: Folder, name: str) -> bytes:
    with full.open(name) as file:
        return file.read()


def measure_memory(many: int) -> None:
    """The peak of a process that does nothing but tally a box, for a tenth of the ballots and for all."""
    peaks = []
    for parties in (many // 10, many):
        agreed = election(HARD, ROWS, CLASSES, parties)
        with box(agreed, parties, signed=True) as full:
            command = [sys.executable, __file__, "--tally", str(full.path), str(parties)]
            peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024)
    growth = peaks[1] / peaks[0] - 1
    show(f"peak memory of a tally, {many:,} ballots against {many // 10:,}",
         f"{peaks[1]:.1f} MB against {peaks[0]:.1f} MB, {growth:+.1%}", "≤ +10 %", growth <= 0.1)  # fmt: skip


def tally_and_tell_peak(folder: str, parties: int) -> None:
    tally_box(election(HARD, ROWS, CLASSES, parties), Folder(folder))
    print(peak())


LARGE = {"as it is": 1.1, "encrypted": 2.2}
"""How many times its size one large ballot may take: once as it came, and once decrypted."""


def election_of_large(kind: str, megabytes: int) -> tuple[ob.Election, X25519PrivateKey | None]:
    key = X25519PrivateKey.from_private_bytes(bytes(range(32))) if kind == "encrypted" else None
    agreed = replace(election(HARD, 100, CLASSES, 0, signed=False), max_ballot_mb=2 * megabytes)
    return replace(agreed, server_key=public_text(key)) if key else agreed, key


def measure_large(megabytes: int) -> None:
    """What one large ballot takes, in a process that does nothing but tally a box.

    Its votes are too many for the election: it is read, decrypted, hashed and refused, and a small one counts.
    """
    for kind, most in LARGE.items():
        agreed, _ = election_of_large(kind, megabytes)
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--tally-large", folder, kind, str(megabytes)]
            peaks = []
            for name, contents in [
                ("small", votes(agreed, 0)),
                ("large", {"votes": np.zeros(megabytes << 20, np.uint8)}),
            ]:
                Path(folder, f"{name}.ballot").write_bytes(seal(contents, agreed, name).sealed)
                peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024)
        grown = peaks[1] - peaks[0]
        what = f"a ballot of {megabytes:,} MiB, {kind}: what the peak memory of a tally grows by"
        times = grown / megabytes
        show(what, f"{grown:,.0f} MiB, {times:.2f} × the ballot", f"≤ {most} ×", times <= most)


def tally_large_and_tell_peak(folder: str, kind: str, megabytes: int) -> None:
    agreed, key = election_of_large(kind, megabytes)
    assert set(tally_box(agreed, Folder(folder), Options(key=key)).voted) == {"small"}
    print(peak())


def peak() -> str:
    """In kB; getrusage would tell the peak of the parent, if that was higher."""
    return re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))[1]


def measure_sealed(parties: int) -> None:
    """A tally of signed and encrypted ballots, each by a party of its own, from the box to the outcome."""
    key = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    agreed = replace(election(HARD, 1_000, CLASSES, parties), server_key=public_text(key))
    with box(agreed, parties, signed=True) as full:
        start = time.process_time()
        outcome = tally_box(agreed, full, Options(key=key))
        spent = time.process_time() - start
    counted = len(outcome.voted)
    show(f"{parties:,} signed and encrypted ballots: counted", f"{counted:,}", f"{parties:,}", counted == parties)
    show("their tally, on one core", f"{spent:.1f} s, {1e3 * spent / parties:.2f} ms each", "≤ 5 ms each",
         spent <= 0.005 * parties)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the ballots, each time once")
    kinds = ["sizes", "speed", "memory", "large", "sealed"]
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--megabytes", type=int, default=256, help="of the large ballot")
    parser.add_argument("--tally", nargs=2, metavar=("BOX", "PARTIES"), help=argparse.SUPPRESS)
    parser.add_argument("--tally-large", nargs=3, metavar=("BOX", "KIND", "MEGABYTES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tally:
        tally_and_tell_peak(options.tally[0], int(options.tally[1]))
        return 0
    if options.tally_large:
        tally_large_and_tell_peak(*options.tally_large[:2], int(options.tally_large[2]))
        return 0
    parties = 1_000 if options.quick else 10_000
    begin()
    if "sizes" in options.only:
        measure_sizes()
    if "speed" in options.only:
        measure_speed(parties, 1 if options.quick else 3)
    if "memory" in options.only:
        measure_memory(parties)
    if "large" in options.only:
        measure_large(options.megabytes)
    if "sealed" in options.only:
        measure_sealed(parties)
    return end()


if __name__ == "__main__":
    sys.exit(main())
