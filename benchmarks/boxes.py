"""The time of a tally from real servers behind a connection with latency, with and without prefetching.

python benchmarks/boxes.py [--ballots 500] [--trip 20] [--only s3 sftp webdav http]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import oneballot as ob
from ballots import HARD, box, election
from figures import begin, end, show
from oneballot.interfaces import Box
from oneballot.server.tally import tally_box

SERVERS = Path(__file__).parents[1] / "tests" / "boxes" / "servers.py"
USER, PASSWORD = "clinic", "s3cret/word"
LEAST = {"s3": 2, "sftp": 3, "webdav": 2, "http": 2}
"""The expected speed-up with 500 ballots at 20 ms per round trip, with client, server and proxy on one machine."""


class OneByOne:
    """A box without prefetching."""

    def __init__(self, box: Box) -> None:
        self.deliver, self.names, self.open = box.deliver, box.names, box.open


@contextmanager
def process(*words: object) -> Iterator[int]:
    """A server that prints its port on a line of its own; it ends when its input does."""
    running = subprocess.Popen(
        [sys.executable, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield int(next(line for line in iter(running.stdout.readline, b"") if line.strip().isdigit()))
    finally:
        running.kill()
        running.communicate()


def wire(target: int, trip: float) -> None:
    """A proxy that delays bytes by half a round trip in each direction, with unlimited bandwidth."""

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop, last = asyncio.get_running_loop(), 0.0
        while data := await source.read(2**18):
            last = loop.time() + trip / 2
            loop.call_at(last, sink.write, data)
        loop.call_at(max(last, loop.time()), sink.close)

    async def connect(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, forth = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(carry(near, forth), carry(far, back), return_exceptions=True)

    async def serve() -> None:
        server = await asyncio.start_server(connect, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)

    asyncio.run(serve())


def address(kind: str, port: int, folder: Path) -> str:
    """The address of a box on the server, with this user's credentials in their usual places."""
    os.environ |= {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}", "HOME": str(folder)}
    if kind == "sftp":
        (folder / ".ssh").mkdir(exist_ok=True)
        with (folder / ".ssh" / "known_hosts").open("a") as hosts:
            hosts.write(f"[127.0.0.1]:{port} {(folder / 'host-key').read_text()}")
    who = f"{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port}"
    return {"s3": "s3://bucket/box", "sftp": f"sftp://{who}/box", "webdav": f"webdav+http://{who}/box",
            "http": f"http://127.0.0.1:{port}/box"}[kind]  # fmt: skip


def measure(kind: str, ballots: int, trip: float) -> None:
    agreed = election(HARD, 1_000, 10, ballots, signed=False)
    with tempfile.TemporaryDirectory() as folder, process(SERVERS, kind, folder) as port:
        with box(agreed, ballots, signed=False) as full:
            expected = _seconds(lambda: tally_box(agreed, full))
            fill(kind, port, Path(folder), full.path)
        with process(__file__, "--wire", port, trip) as slow:
            near = ob.box_at(address(kind, slow, Path(folder)))
            ahead = _seconds(lambda: tally_box(agreed, near))
            single = _seconds(lambda: tally_box(agreed, OneByOne(near)))
    assert ahead[1] == single[1] == expected[1], "the outcome must not depend on prefetching"
    ratio, enough = single[0] / ahead[0], LEAST[kind] if (ballots, trip) == (500, 0.02) else None
    what = f"{kind}, {ballots:,} ballots at {1000 * trip:.0f} ms per round trip: one by one, prefetched, from a folder"
    measured = f"{single[0]:.1f} s, {ahead[0]:.1f} s, {expected[0]:.1f} s: {ratio:.1f} × as fast"
    show(what, measured, f"≥ {enough} ×" if enough else "", ratio >= enough if enough else None)


def fill(kind: str, port: int, folder: Path, ballots: Path) -> None:
    """Store the ballots without our code."""
    if kind == "s3":
        import boto3

        keys = {"aws_access_key_id": USER, "aws_secret_access_key": PASSWORD, "region_name": "us-east-1"}
        s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", **keys)
        for file in ballots.iterdir():
            s3.put_object(Bucket="bucket", Key=f"box/{file.name}", Body=file.read_bytes())
    else:
        ballots.rename(folder / ("files" if kind == "sftp" else "") / "box")
        ballots.mkdir()


def _seconds(work: Callable[[], ob.Outcome]) -> tuple[float, object]:
    start = time.perf_counter()
    outcome = work()
    took = time.perf_counter() - start
    return took, (outcome.summary(), outcome.model.dump(), {n: s.tobytes() for n, s in outcome.count.sums.items()})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ballots", type=int, default=500)
    parser.add_argument("--trip", type=float, default=20, help="milliseconds per round trip")
    parser.add_argument("--only", nargs="+", choices=list(LEAST), default=list(LEAST))
    parser.add_argument("--wire", nargs=2, metavar=("PORT", "SECONDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.wire:
        wire(int(options.wire[0]), float(options.wire[1]))
        return 0
    begin()
    for kind in options.only:
        measure(kind, options.ballots, options.trip / 1000)
    return end()


if __name__ == "__main__":
    sys.exit(main())
