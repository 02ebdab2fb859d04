"""Real servers in separate processes, started once per session, and a proxy that can be slow or lose connections."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest

from oneballot.boxes import _retry
from oneballot.boxes._remote import PROBE

USER, PASSWORD = "clinic", "s3cret/word"
KINDS = ("s3", "sftp", "webdav", "http")


@dataclass
class Place:
    """A server, and addresses on it."""

    kind: str
    port: int
    folder: Path
    home: Path

    def address(self, box: str, port: int | None = None, password: str = PASSWORD) -> str:
        host = f"127.0.0.1:{port or self.port}"
        if self.kind == "sftp":
            key = (self.folder / "host-key").read_text()
            known = self.home / ".ssh" / "known_hosts"
            known.parent.mkdir(exist_ok=True)
            with known.open("a") as hosts:
                hosts.write(f"[127.0.0.1]:{port or self.port} {key}")
        return {
            "s3": f"s3://bucket/{box}",
            "sftp": f"sftp://{USER}:{quote(password, safe='')}@{host}/{box}",
            "webdav": f"webdav+http://{USER}:{quote(password, safe='')}@{host}/{box}",
            "http": f"http://{host}/{box}",
        }[self.kind]

    def files(self, box: str) -> dict[str, bytes]:
        """The files in the box, read without our code and without the probe file."""
        return {name: data for name, data in self.all_files(box).items() if name != PROBE}

    def all_files(self, box: str) -> dict[str, bytes]:
        if self.kind == "s3":
            s3 = client(self.port)
            found = s3.list_objects_v2(Bucket="bucket", Prefix=box + "/").get("Contents", ())
            return {
                o["Key"].removeprefix(box + "/"): s3.get_object(Bucket="bucket", Key=o["Key"])["Body"].read()
                for o in found
            }
        folder = self.inside(box)
        return {p.name: p.read_bytes() for p in folder.iterdir()} if folder.is_dir() else {}

    def inside(self, box: str) -> Path:
        return self.folder / ("files" if self.kind == "sftp" else "") / box

    def put(self, box: str, name: str, data: bytes) -> None:
        """Store a file without our code."""
        if self.kind == "s3":
            client(self.port).put_object(Bucket="bucket", Key=f"{box}/{name}", Body=data)
            return
        self.inside(box).mkdir(parents=True, exist_ok=True)
        (self.inside(box) / name).write_bytes(data)


@cache
def client(port: int):
    import boto3

    keys = {"aws_access_key_id": USER, "aws_secret_access_key": PASSWORD, "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", **keys)


@pytest.fixture(scope="session")
def servers(tmp_path_factory) -> Iterator[Callable[[str], tuple[int, Path]]]:
    running: dict[str, tuple[int, Path]] = {}
    processes: list[subprocess.Popen[str]] = []

    def start(kind: str) -> tuple[int, Path]:
        if kind not in running:
            folder = tmp_path_factory.mktemp(kind)
            command = [sys.executable, str(Path(__file__).with_name("servers.py")), kind, str(folder)]
            with (folder.parent / f"{kind}.log").open("w") as log:
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
                )
            processes.append(process)
            assert process.stdout is not None
            port = next((line for line in iter(process.stdout.readline, "") if line.strip().isdigit()), None)
            assert port, f"the server did not start: {log.name}"
            running[kind] = int(port), folder
        return running[kind]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def place_of(servers, tmp_path: Path, monkeypatch) -> Callable[[str], Place]:
    """A server of one type, with this user's credentials in their usual places."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name, value in {"ACCESS_KEY_ID": USER, "SECRET_ACCESS_KEY": PASSWORD, "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(_retry, "DELAYS", (0.05,) * 5)

    def place_of(kind: str) -> Place:
        port, folder = servers(kind)
        if kind == "s3":
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")
        return Place(kind, port, folder, home)

    return place_of


@pytest.fixture(params=KINDS)
def place(request, place_of) -> Place:
    return place_of(request.param)


@dataclass
class Wire:
    """A proxy to a server that can be slow, stall, or lose connections after a number of bytes, a number of times."""

    target: int
    rate: float = float("inf")  # bytes per second, to the server
    cut_up: float = float("inf")
    cut_down: float = float("inf")
    cuts: int = 0
    up: int = 0
    down: int = 0
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    flows: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.flows.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        with near, suppress(ConnectionError), socket.create_connection(("127.0.0.1", self.target)) as far:
            down = threading.Thread(target=self._carry, args=(far, near, "down", near, far), daemon=True)
            down.start()
            self._carry(near, far, "up", near, far)
            down.join()

    def _carry(self, source: socket.socket, sink: socket.socket, way: str, *both: socket.socket) -> None:
        try:
            while data := source.recv(2**14):
                if way == "up" and self.rate < float("inf"):
                    time.sleep(len(data) / self.rate)
                self.flows.wait()
                with self.lock:
                    setattr(self, way, getattr(self, way) + len(data))
                    cut = getattr(self, way) > (self.done + 1) * getattr(self, f"cut_{way}") and self.done < self.cuts
                    self.done += cut
                if cut:
                    break
                sink.sendall(data)
        except OSError:
            pass
        for one in both:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        self.flows.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def wire(monkeypatch) -> Iterator[Callable[..., tuple[Wire, str]]]:
    """Start a proxy to a server and return it with the address of a box behind it."""
    laid: list[Wire] = []

    def lay(place: Place, box: str, **settings: float) -> tuple[Wire, str]:
        laid.append(Wire(place.port, **settings))  # type: ignore[arg-type]
        if place.kind == "s3":
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{laid[-1].port}")
        return laid[-1], place.address(box, laid[-1].port)

    yield lay
    for one in laid:
        one.close()
