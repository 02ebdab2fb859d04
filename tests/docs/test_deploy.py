"""Runs every command of docs/deploy.md in the folder of its organisation, with a real WebDAV server as the box."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from typer.testing import CliRunner

from oneballot.cli import app

HERE = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```sh (\w+)\n(.*?)^```$", (HERE.parent / "docs/deploy.md").read_text("utf-8"), re.M | re.S)
CLINICS = ("clinic-a", "clinic-b", "clinic-c")
BOX = "webdav+https://box.example.org/votes"


def rows(count: int, seed: int, *, label: bool) -> str:
    rng = np.random.default_rng(seed)
    X = rng.uniform(20, 90, size=(count, 2)).round(1)
    X[:2] = (20, 20), (90, 90)  # the range of a column comes from the public rows
    ill = np.where(X.sum(axis=1) > 110, "yes", "no")
    lines = [f"{age},{pressure}" + (f",{y}" if label else "") for (age, pressure), y in zip(X, ill, strict=True)]
    return "\n".join(["age,pressure" + (",ill" if label else ""), *lines]) + "\n"


def search(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.M)
    assert match, f"no {pattern!r} in\n{text}"
    return match[1]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[str]:
    """The address of a box on a WebDAV server in another process."""
    (folder := tmp_path / "webdav").mkdir()
    command = [sys.executable, str(HERE / "boxes/servers.py"), "webdav", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        yield f"webdav+http://clinic:{quote('s3cret/word', safe='')}@127.0.0.1:{port}/votes"
        server.kill()


class Guide:
    """The page's commands in order, each run in the folder of its organisation."""

    def __init__(self, folder: Path, box: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.box, self.monkeypatch = folder, box, monkeypatch
        self.left = [(place, line) for place, text in BLOCKS for line in text.splitlines()]
        for place in ("server", *CLINICS):
            (folder / place).mkdir()

    def next(self, begin: str, *places: str) -> str:
        place, line = self.left.pop(0)
        assert line.startswith(begin), f"the page goes on with {line!r}, not {begin!r}"
        assert place in places
        return line

    def type(self, place: str, line: str) -> str:
        self.monkeypatch.chdir(self.folder / place)
        words = shlex.split(line.replace(BOX, self.box))
        if words[0] == "mv":
            shutil.move(words[1], words[2])
            return ""
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{line}\n{result.output}"
        return result.output

    def server(self, begin: str, *, key: str = "") -> str:
        return self.type("server", self.next(begin, "server", "again").replace("x25519:…", key))

    def clinics(self, begin: str, who: tuple[str, ...] = CLINICS) -> list[str]:
        line = self.next(begin, "clinic", "lost")
        return [self.type(clinic, line.replace("clinic-a", clinic)) for clinic in who]


def test_every_command_of_the_guide_runs(tmp_path: Path, box: str, monkeypatch: pytest.MonkeyPatch) -> None:
    guide, server = Guide(tmp_path, box, monkeypatch), tmp_path / "server"
    (server / "public.csv").write_text(rows(300, 0, label=True))
    (server / "test.csv").write_text(rows(300, 1, label=True))
    for i, clinic in enumerate(CLINICS):
        (tmp_path / clinic / "rows.csv").write_text(rows(150, 2 + i, label=True))
        (tmp_path / clinic / "new.csv").write_text(rows(20, 9, label=False))

    server_key = search(r"(x25519:[\w+/=]+)", guide.server("oneballot keys new"))
    keys = [search(r"(ed25519:[\w+/=]+)", text) for text in guide.clinics("oneballot keys new")]
    guide.server("oneballot new", key=server_key)
    edit(server / "election.toml", keys)
    distribute(tmp_path)

    digests = {search(r"([0-9a-f]{16,})", text) for text in guide.clinics("oneballot check")}
    assert len(digests) == 1
    assert all(clinic in text for text in guide.clinics("oneballot keys list") for clinic in CLINICS)
    guide.clinics("oneballot cast")
    assert not ballots(tmp_path)  # a dry run sends nothing
    guide.clinics("oneballot cast")
    assert len(ballots(tmp_path)) == len(CLINICS)

    assert "election: 3 ballots" in guide.server("oneballot tally")
    assert "election: 2 ballots" in guide.server("oneballot tally")
    assert float(search(r"(\d+\.\d+) ?%", guide.server("oneballot evaluate"))) > 85
    for clinic in CLINICS:
        shutil.copytree(server / "released", tmp_path / clinic / "released")
    assert all({"yes", "no"} <= set(text.replace(",", " ").split()) for text in guide.clinics("oneballot predict"))

    guide.clinics("mv", ("clinic-a",))
    (text,) = guide.clinics("oneballot keys new", ("clinic-a",))
    edit(server / "election.toml", [search(r"(ed25519:[\w+/=]+)", text), *keys[1:]], lost=keys[0])
    distribute(tmp_path)
    guide.clinics("oneballot cast", ("clinic-a",))
    printed = guide.server("oneballot tally")
    assert "election: 3 ballots" in printed
    assert "revoked" in printed
    assert guide.left == []


def ballots(folder: Path) -> list[Path]:
    return list((folder / "webdav").rglob("*.ballot"))


def edit(election: Path, keys: list[str], lost: str = "") -> None:
    """Edit the file as an operator would: fill in the roster and, for a lost key, the revocation."""
    head, rest = election.read_text("utf-8").split("\n[roster]", 1)
    roster = [f'{clinic} = "{key}"' for clinic, key in zip(CLINICS, keys, strict=True)]
    revoked = ["[revoked]", f'"{lost}" = "lost on a train"'] if lost else []
    typed = "\n".join(["", "[roster]", *roster, "", *revoked, "", ""])
    election.write_text(head + typed + rest[rest.index("[schema]") :], "utf-8")


def distribute(folder: Path) -> None:
    for clinic in CLINICS:
        for name in ("election.toml", "public.csv"):
            shutil.copy(folder / "server" / name, folder / clinic)
