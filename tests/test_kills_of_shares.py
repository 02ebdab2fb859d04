"""A server of two tallies that is killed at any step opens nothing twice, and the next run finishes its work."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import oneballot as ob
from oneballot.ballot.keys import public_text
from oneballot.boxes.folder import Folder
from oneballot.party.cast import cast
from oneballot.server import log
from oneballot.server.outcome import Outcome
from oneballot.server.two_tallies.combine import combine
from oneballot.server.two_tallies.openings import Openings
from oneballot.server.two_tallies.partial import Partial
from oneballot.server.two_tallies.roll import Roll
from oneballot.server.two_tallies.share import tally_share

pytest.importorskip("resource", reason="the tests fork processes, limit their files and kill them: POSIX only")

from .test_kills import killed_at, killed_writing

PARTIES = ("a", "b", "c")


@pytest.fixture
def servers() -> dict[str, X25519PrivateKey]:
    return {side: X25519PrivateKey.generate() for side in "ab"}


@pytest.fixture
def keys() -> dict[str, Ed25519PrivateKey]:
    return {name: Ed25519PrivateKey.generate() for name in PARTIES}


@pytest.fixture
def election(servers, keys) -> ob.Election:
    return ob.Election(
        classes=[0, 1], public=np.eye(4), method=ob.Analytic(), privacy=ob.L2(50.0), quorum=3,
        roster={name: public_text(key) for name, key in keys.items()},
        tallies={side: public_text(key) for side, key in servers.items()},
    )  # fmt: skip


@pytest.fixture
def box(election, keys, tmp_path: Path) -> Folder:
    """Three ballots, and the list of server b."""
    made, rng = Folder(tmp_path / "box"), np.random.default_rng(0)
    for name, key in keys.items():
        y = rng.integers(0, 2, 30)
        made.deliver(name, cast(election, rng.random((30, 4)) + y[:, None], y, party=name, key=key).sealed)
    return made


def listed(election, box, servers, folder: Path) -> Path:
    return tally_share(election, box, folder / "b", "b", servers["b"], beside=folder / "at-b").roll_path


def test_a_server_killed_at_any_step_gives_one_partial_for_one_charge(election, box, servers, tmp_path: Path) -> None:
    other = listed(election, box, servers, tmp_path)

    def work() -> object:
        return tally_share(election, box, tmp_path / "a", "a", servers["a"], beside=tmp_path / "at-a", other=other)

    step, seen = 0, set[bytes]()
    while killed_at(step, work, reads=False):
        for path in tmp_path.glob("a/partial-a"):
            seen.add(path.read_bytes())
        for path in tmp_path.glob("a/ballots-a.json"):
            assert len(Roll.read(path, election, "a").ballots) == 3
        kept = Openings(election, "a", tmp_path / "at-a")
        assert len(kept.read() if kept.folder.exists() else []) <= 1
        seen.update(partial.dump() for partial in (kept.read() if kept.folder.exists() else []))
        step += 1
    made = work()
    assert made.reused
    seen.add((tmp_path / "a" / "partial-a").read_bytes())
    assert len(seen) == 1, "noise was drawn twice for the same ballots"
    assert step > 5


def test_a_server_killed_during_a_write_leaves_no_damaged_file(election, box, servers, tmp_path: Path) -> None:
    other = listed(election, box, servers, tmp_path)

    def work() -> object:
        return tally_share(election, box, tmp_path / "a", "a", servers["a"], beside=tmp_path / "at-a", other=other)

    for size in (0, 100, 500):
        assert killed_writing(size, work)
        assert not list(tmp_path.glob("a/partial-a"))
        assert not list(tmp_path.glob("at-a/openings-a/*.partial"))
    assert work().partial.opening == 1


def test_combining_killed_at_any_step_leaves_no_outcome_or_a_complete_one(
    election, box, servers, tmp_path: Path
) -> None:
    other = listed(election, box, servers, tmp_path)
    own = tally_share(election, box, tmp_path / "a", "a", servers["a"], beside=tmp_path / "at-a", other=other)
    back = tally_share(election, box, tmp_path / "b", "b", servers["b"], beside=tmp_path / "at-b", other=own.roll_path)

    def work() -> object:
        return log.save(combine(election, own.partial, back.partial), tmp_path / "outcome", "tally")

    for step in (0, 4, 9):  # tests/test_kills.py has every step of saving an outcome
        assert killed_at(step, work, reads=False)
        if (tmp_path / "outcome" / "outcome.json").exists():
            assert sorted(Outcome.load(tmp_path / "outcome").voted) == list(PARTIES)
        shutil.rmtree(tmp_path / "outcome", ignore_errors=True)
    work()
    assert sorted(Outcome.load(tmp_path / "outcome").voted) == list(PARTIES)
    again = combine(election, *(Partial.parse(each.partial.dump(), "copy") for each in (own, back)))
    assert again.model.dump() == Outcome.load(tmp_path / "outcome").model.dump()
