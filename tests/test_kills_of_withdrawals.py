"""A withdrawal at L1 that is killed at any step never understates its privacy loss."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import oneballot as ob
from oneballot.party.submit import cast_file
from oneballot.privacy.charges import Charges
from oneballot.server.files import tally_files
from oneballot.server.withdraw import withdraw_files

pytest.importorskip("resource", reason="the tests fork processes and kill them: POSIX only")

from .test_kills import election_of, killed_at


@pytest.mark.slow
def test_an_l1_withdrawal_killed_at_any_step_never_understates_its_privacy_loss(clinic: Path) -> None:
    election = election_of(clinic, '[privacy]\nlevel = "L1"\nepsilon = 8.0\ntallies = 3\n')
    box, tallied = ob.Folder(clinic / "box"), clinic / "tallied"
    for party in "ab":
        cast_file(election, party, clinic / f"{party}.csv", keep=clinic / "kept", box=box)
    tallied.mkdir()
    tally_files(election, box, tallied / "outcome", beside=tallied)
    step, finished, charged, left = 0, False, set(), set()
    while not finished:
        place = clinic / f"run {step}"
        shutil.copytree(tallied, place)
        charges = Charges(election.digest, place / "tallies.json")

        def withdraw(place: Path = place) -> None:
            withdraw_files(election, place / "outcome", "b", beside=place, box=box, again=True)

        finished = not killed_at(step, withdraw, reads=False)
        charged.add(charges.draws)
        outcome = ob.Outcome.load(place / "outcome")
        left.add("b" in outcome.voted)
        assert outcome.ledger.drawn <= charges.draws, "no outcome states less than was drawn"
        if "b" in outcome.voted:
            withdraw()
            outcome = ob.Outcome.load(place / "outcome")
        assert list(outcome.voted) == ["a"]
        assert outcome.ledger.drawn == charges.draws
        step += 1
    assert charged == {1, 2}, "kills happened both before and after noise was drawn"
    assert left == {True, False}, "and before and after the outcome was replaced"
