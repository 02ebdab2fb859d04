"""Faults of disks, links and clocks, and many or large ballots.

Each fault has no effect or gives an error that says what to do; no vote is lost or counted twice. Kills are in
test_kills.py, hostile ballots in hostile/.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from typer.testing import CliRunner

import oneballot as ob
from oneballot.ballot.inspect import describe_ballot
from oneballot.ballot.keys import public_text
from oneballot.ballot.seal import seal
from oneballot.cli import app
from oneballot.election import template
from oneballot.errors import BallotError, BoxError, OneBallotError, PrivacyError
from oneballot.party.cast import cast_together
from oneballot.party.submit import cast_file
from oneballot.server.tally import Options, tally_box

TREE = 'name = "sklearn"\nestimator = "DecisionTreeClassifier"\n'
SMALL = 256 * 1024
YEAR = 366 * 24 * 3600


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 kB; mounting it requires root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)]
    if not hasattr(os, "geteuid") or os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk requires root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Fill the disk completely."""
    with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(4096))
    assert os.statvfs(disk).f_bavail == 0
    return disk / "filler"


def election_of(clinic: Path, privacy: str = template.L0) -> ob.Election:
    text = template.draft(clinic / "public.csv", "ill", beside=clinic / "election.toml", privacy=privacy).text
    i, j = text.index('name = "sklearn"'), text.index("[privacy]")
    (clinic / "election.toml").write_text(text[:i] + TREE + "\n" + text[j:])
    return ob.Election.read(clinic / "election.toml")


def call(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


class TestFullDisk:
    def test_a_ballot_for_a_full_box_is_kept_and_delivered_later(self, disk, clinic: Path) -> None:
        election = election_of(clinic)
        filler = fill(disk)
        box = ob.Folder(disk)
        with pytest.raises(BoxError, match="No space left on device"):
            cast_file(election, "a", clinic / "a.csv", keep=clinic / "kept", box=box)
        assert os.listdir(disk) == ["filler"], "no partial file"
        filler.unlink()
        done = cast_file(election, "a", clinic / "a.csv", keep=clinic / "kept", box=box)
        assert not done["trained"]
        assert (disk / "a.ballot").read_bytes() == (clinic / "kept" / "a.ballot").read_bytes()

    def test_nothing_is_delivered_if_the_partys_disk_is_full(self, disk, clinic: Path) -> None:
        election_of(clinic)
        cast = ("cast", clinic / "election.toml", "--party", "a", "--data", clinic / "a.csv", "--keep", disk)
        (disk / "ballots").mkdir()
        filler = fill(disk)
        code, output = call(*cast, "--to", clinic / "box")
        assert code == 1
        assert "No space left on device" in output
        assert re.search(r"a\.(rows\.json|ballot)\. Make room on that disk, and run the command again", output)
        assert not list(disk.rglob("*.ballot")) + list(clinic.glob("box/*"))
        filler.unlink()
        assert call(*cast, "--to", clinic / "box")[0] == 0
        assert len(list(clinic.glob("box/*.ballot"))) == 1

    def test_no_noise_is_drawn_if_the_charge_cannot_be_recorded(self, disk, clinic: Path) -> None:
        election = election_of(clinic, '[privacy]\nlevel = "L2"\nepsilon = 8.0\n')
        fill(disk)
        with pytest.raises(PrivacyError, match=r"a\.casts\.json cannot be written \(No space left on device\)"):
            cast_file(election, "a", clinic / "a.csv", keep=clinic / "kept", beside=disk)
        assert not list(clinic.glob("kept/*.ballot"))

    def test_an_outcome_that_does_not_fit_on_the_disk_leaves_the_old_one(self, disk, clinic: Path) -> None:
        election = election_of(clinic)
        box = ob.Folder(clinic / "box")
        cast_file(election, "a", clinic / "a.csv", keep=clinic / "kept", box=box)
        tally = ("tally", clinic / "election.toml", "--from", clinic / "box", "--out", disk / "outcome")
        assert call(*tally)[0] == 0
        cast_file(election, "b", clinic / "b.csv", keep=clinic / "kept", box=box)
        filler = fill(disk)
        code, output = call(*tally)
        assert code == 1
        assert "Make room on that disk" in output
        assert list(ob.Outcome.load(disk / "outcome").voted) == ["a"]
        filler.unlink()
        assert call(*tally)[0] == 0
        assert list(ob.Outcome.load(disk / "outcome").voted) == ["a", "b"]


def test_a_read_only_box_can_be_tallied_and_reports_failed_deliveries(disk, clinic: Path) -> None:
    election, box = election_of(clinic), ob.Folder(disk)
    cast_file(election, "a", clinic / "a.csv", keep=clinic / "kept", box=box)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(BoxError, match=r"cannot put a ballot into .*: Read-only file system"):
        cast_file(election, "b", clinic / "b.csv", keep=clinic / "kept", box=box)
    assert list(tally_box(election, box).voted) == ["a"]
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert not cast_file(election, "b", clinic / "b.csv", keep=clinic / "kept", box=box)["trained"]
    assert list(tally_box(election, box).voted) == ["a", "b"]


def test_a_ballot_kept_on_a_read_only_disk_can_be_delivered(disk, clinic: Path) -> None:
    election = election_of(clinic)
    cast_file(election, "a", clinic / "a.csv", keep=disk)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert not cast_file(election, "a", clinic / "a.csv", keep=disk, box=ob.Folder(clinic / "box"))["trained"]
    assert (clinic / "box" / "a.ballot").read_bytes() == (disk / "a.ballot").read_bytes()
    with pytest.raises(OSError, match="Read-only file system"):
        cast_file(election, "b", clinic / "b.csv", keep=disk)


@pytest.mark.parametrize("date", [10 * YEAR, 68 * YEAR, 130 * YEAR], ids=["1980", "2038", "2100"])
def test_a_wrong_clock_changes_nothing(date: int, clinic: Path, monkeypatch) -> None:
    """Whether the clock is that of a party, the server or the box."""
    election = election_of(clinic)
    cast_file(election, "a", clinic / "a.csv", keep=clinic / "kept", box=ob.Folder(clinic / "box"))
    right = tally_box(election, ob.Folder(clinic / "box"))
    for name in ("time", "time_ns"):
        monkeypatch.setattr(time, name, lambda name=name: date * (10**9 if name == "time_ns" else 1))
    cast_file(election, "a", clinic / "a.csv", keep=clinic / "again", box=ob.Folder(clinic / "other box"))
    for folder in ("kept", "again", "box", "other box"):
        os.utime(clinic / folder / "a.ballot", (date, date))
    assert (clinic / "again" / "a.ballot").read_bytes() == (clinic / "kept" / "a.ballot").read_bytes()
    outcome = tally_box(election, ob.Folder(clinic / "other box"), Options(previous=right))
    assert outcome.summary() == right.summary()
    assert outcome.model.dump() == right.model.dump()


@pytest.mark.parametrize("date", [0, 200 * YEAR], ids=["1970", "2170"])
def test_a_clock_outside_the_range_of_zip_files_is_reported(date: int, election, parties, monkeypatch) -> None:
    monkeypatch.setattr(time, "time", lambda: date)
    outcome = ob.tally(election, cast_together(election, parties))
    with pytest.raises(OneBallotError, match=r"this machine's clock says \d{4}; set it"):
        outcome.model.dump()


def test_a_truncated_download_is_spoiled_and_counts_once_complete(election, parties, tmp_path: Path) -> None:
    ballots = cast_together(election, parties)
    box = ob.Folder(tmp_path)
    for ballot in ballots[1:]:
        box.deliver(ballot.party, ballot.sealed)
    late, complete = tmp_path / f"{ballots[0].party}.ballot", ballots[0].sealed
    for length in (*range(0, len(complete), 97), len(complete) - 1):
        late.write_bytes(complete[:length])
        outcome = tally_box(election, box)
        assert list(outcome.spoiled) == [ballots[0].party]
        assert len(outcome.voted) == 4
    late.write_bytes(complete)
    later = tally_box(election, box, Options(previous=outcome))
    assert not later.spoiled
    np.testing.assert_array_equal(later.count.sums["votes"], ob.tally(election, ballots).count.sums["votes"])


def test_a_ballot_arriving_over_a_slow_link_counts_once_complete(election, parties, tmp_path: Path) -> None:
    """Another program copies it into the folder a few bytes at a time, while the box is tallied repeatedly."""
    ballots = cast_together(election, parties)
    box = ob.Folder(tmp_path)
    for ballot in ballots[1:]:
        box.deliver(ballot.party, ballot.sealed)

    def trickle() -> None:
        with (tmp_path / "slow.ballot").open("wb", buffering=0) as file:
            for i in range(0, len(ballots[0].sealed), 16):
                file.write(ballots[0].sealed[i : i + 16])
                time.sleep(0.01)

    sender = threading.Thread(target=trickle)
    sender.start()
    seen, outcome = set(), None
    while sender.is_alive():
        outcome = tally_box(election, box, Options(previous=outcome))
        assert len(outcome.voted) + len(outcome.spoiled) in (4, 5)
        seen.add(len(outcome.voted))
    sender.join()
    outcome = tally_box(election, box, Options(previous=outcome))
    assert 4 in seen
    assert len(outcome.voted) == 5
    np.testing.assert_array_equal(outcome.count.sums["votes"], ob.tally(election, ballots).count.sums["votes"])


def test_two_thousand_ballots_are_counted_exactly(make_election: Callable[..., ob.Election], tmp_path: Path) -> None:
    """benchmarks/ballots.py counts ten thousand."""
    election = make_election(public=np.random.default_rng(0).normal(size=(40, 4)))
    cast = ob.cast(election, np.random.default_rng(1).normal(size=(60, 4)), np.arange(60) % 10, party="one")
    for i in range(2000):
        sealed = seal(cast.contents, election, f"party-{i:04d}").sealed
        (tmp_path / f"party-{i:04d}.ballot").write_bytes(sealed)
    begin = time.monotonic()
    outcome = tally_box(election, ob.Folder(tmp_path))
    assert time.monotonic() - begin < 60
    assert len(outcome.voted) == 2000
    one = ob.tally(election, [cast]).count.sums["votes"]
    np.testing.assert_array_equal(outcome.count.sums["votes"], 2000 * one)


@pytest.mark.slow
def test_a_thousand_signed_and_encrypted_ballots_are_counted_exactly(make_election, tmp_path: Path) -> None:
    """One is signed by another party, and one is cut. benchmarks/ballots.py --only sealed counts ten thousand."""
    keys = {f"party-{i:04d}": Ed25519PrivateKey.from_private_bytes(i.to_bytes(32, "big")) for i in range(1000)}
    server = X25519PrivateKey.generate()
    election = make_election(
        public=np.random.default_rng(0).normal(size=(40, 4)),
        roster={name: public_text(key) for name, key in keys.items()},
        server_key=public_text(server),
    )
    X = np.random.default_rng(1).normal(size=(60, 4))
    cast = ob.cast(election, X, np.arange(60) % 10, party="party-0000", key=keys["party-0000"])
    for name, key in keys.items():
        signed_by = keys["party-0008"] if name == "party-0007" else key
        sealed = seal(cast.contents, election, name, key=signed_by).sealed
        (tmp_path / f"{name}.ballot").write_bytes(sealed[: -20 if name == "party-0009" else None])
    outcome = tally_box(election, ob.Folder(tmp_path), Options(key=server))
    assert outcome.spoiled.keys() == {"party-0007", "party-0009"}
    assert len(outcome.voted) == 998
    one = ob.tally(election, [cast], key=server).count.sums["votes"]
    np.testing.assert_array_equal(outcome.count.sums["votes"], 998 * one)


def test_a_two_gigabyte_ballot_is_rejected_without_reading_it(election, parties, tmp_path: Path) -> None:
    """The file is sparse; reading it would increase the memory of this process by its size."""
    ballots = cast_together(election, parties)
    box = ob.Folder(tmp_path)
    for ballot in ballots:
        box.deliver(ballot.party, ballot.sealed)
    with (tmp_path / "huge.ballot").open("wb") as huge:
        huge.truncate(2 * 2**30)
    resource = pytest.importorskip("resource", reason="this system does not report a process's memory")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = tally_box(election, box)
    with pytest.raises(BallotError, match="was not read"):
        describe_ballot(tmp_path / "huge.ballot", election)
    with pytest.raises(BallotError, match="give --election"):
        describe_ballot(tmp_path / "huge.ballot", None)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB
    assert len(outcome.voted) == 5
    assert "2,147,483,648 bytes, but the election allows 67,108,864" in outcome.spoiled["huge"]
    assert "raise max_ballot_mb" in outcome.spoiled["huge"]
