"""A cast or a tally that is killed at any step leaves the box and the outcome unchanged or complete.

A child process does the work of the command and is killed by SIGKILL before each step that touches a disk, reads
included, and by SIGXFSZ during a write.
"""

from __future__ import annotations

import builtins
import errno
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import oneballot as ob
from oneballot.ballot.keys import new_key, new_server_key, read_server_key
from oneballot.ballot.receipts import read_receipt
from oneballot.ballot.seal import unseal
from oneballot.election import template
from oneballot.errors import AlreadyCast
from oneballot.party.cast import cast_together
from oneballot.party.submit import cast_file
from oneballot.privacy.charges import Charges
from oneballot.server import log
from oneballot.server.log_check import check_log
from oneballot.server.tally import Options, tally, tally_box
from oneballot.simulation import divide

resource = pytest.importorskip(
    "resource", reason="the tests fork processes, limit their files and kill them: POSIX only"
)

STEPS = ("fsync", "link", "unlink", "replace", "chmod", "mkdir", "fdopen")
READS = ("open", "scandir")
TREE = 'name = "sklearn"\nestimator = "DecisionTreeClassifier"\n'


def killed_at(step: int, work: Callable[[], object], *, reads: bool = True) -> bool:
    """Run the work in a child process that is killed before its step-th disk access; False if it finished."""

    def run() -> None:
        seen = 0

        def counted(function):
            def call(*args, **kwargs):
                nonlocal seen
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                seen += 1
                return function(*args, **kwargs)

            return call

        for name in STEPS + READS if reads else STEPS:
            setattr(os, name, counted(getattr(os, name)))
        if reads:
            builtins.open = counted(builtins.open)
        work()

    return _killed(run)


def killed_writing(size: int, work: Callable[[], object]) -> bool:
    """Run the work in a child process that is killed when a file exceeds this many bytes; False if it finished."""

    def run() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        work()

    return _killed(run)


def _killed(run: Callable[[], None]) -> bool:
    def quietly() -> None:
        warnings.simplefilter("ignore")
        run()

    child = multiprocessing.get_context("fork").Process(target=quietly)
    child.start()
    child.join(120)
    assert child.exitcode in (0, -signal.SIGKILL, -signal.SIGXFSZ)
    return child.exitcode != 0


def election_of(clinic: Path, privacy: str = template.L0) -> ob.Election:
    text = template.draft(
        clinic / "public.csv", "ill", beside=clinic / "election.toml", privacy=privacy, server_key="none"
    ).text
    i, j = text.index('name = "sklearn"'), text.index("[privacy]")
    (clinic / "election.toml").write_text(text[:i] + TREE + "\n" + text[j:])
    return ob.Election.read(clinic / "election.toml")


@pytest.fixture
def clinic_election(clinic: Path) -> ob.Election:
    return election_of(clinic)


@pytest.mark.slow
def test_a_cast_killed_at_any_step_can_be_rerun_and_gives_one_complete_ballot(clinic: Path, clinic_election) -> None:
    first = cast_file(clinic_election, "a", clinic / "a.csv", keep=clinic / "reference")
    expected = (clinic / "reference" / "a.ballot").read_bytes()
    assert first["bytes"] == len(expected)
    step, finished, leftovers = 0, False, set()
    while not finished:
        folder = clinic / f"run {step}"
        box = ob.Folder(folder / "box")

        def work(box=box, folder=folder) -> None:
            cast_file(clinic_election, "a", clinic / "a.csv", keep=folder / "kept", box=box)

        finished = not killed_at(step, work)
        leftovers |= {(p.parent.name, p.name[:15]) for p in folder.glob("*/.*")}
        for _, kept in ((p, p.read_bytes()) for p in folder.glob("*/a.ballot")):
            assert kept == expected, "a ballot is complete or absent"
        work()
        assert (folder / "box" / "a.ballot").read_bytes() == expected
        assert [name for name, _ in box.names()] == ["a"]
        files = {"a.ballot", "a.receipt.json", "a.rows.json"}
        assert {p.name for p in folder.glob("*/*")} == files, "nothing of the killed cast is left"
        assert read_receipt(folder / "kept" / "a.receipt.json").ballot == first["digest"]
        step += 1
    assert step > 5, "the steps were counted"
    assert leftovers == {("kept", ".a.casting"), ("kept", ".oneballot-part"), ("box", ".oneballot-part")}


def test_a_cast_killed_during_a_write_leaves_no_partial_ballot(clinic: Path, clinic_election) -> None:
    cast_file(clinic_election, "a", clinic / "a.csv", keep=clinic / "reference")
    expected = (clinic / "reference" / "a.ballot").read_bytes()
    for size in (0, 1, len(expected) // 2, len(expected) - 1, len(expected)):
        folder = clinic / f"run {size}"

        def work(folder=folder) -> None:
            box = ob.Folder(folder / "box")
            cast_file(clinic_election, "a", clinic / "a.csv", keep=folder / "kept", box=box)

        assert killed_writing(size, work) == (size < len(expected))
        assert all(p.read_bytes() == expected for p in folder.glob("*/*.ballot")), "complete or absent"
        work()
        assert (folder / "box" / "a.ballot").read_bytes() == expected


def test_the_next_cast_of_another_party_clears_what_a_killed_one_left(clinic: Path, clinic_election) -> None:
    def cast(party: str) -> None:
        cast_file(clinic_election, party, clinic / f"{party}.csv", keep=clinic / "kept", box=ob.Folder(clinic / "box"))

    assert killed_writing(10, lambda: cast("a"))
    assert {p.name[:15] for p in (clinic / "kept").iterdir()} == {".a.casting", ".oneballot-part"}
    cast("b")
    assert {p.name for p in clinic.glob("kept/*")} == {"b.ballot", "b.receipt.json", "b.rows.json"}
    assert {p.name for p in clinic.glob("box/*")} == {"b.ballot"}


def test_a_delivery_killed_on_a_share_without_links_neither_loses_nor_repeats_a_vote(
    clinic: Path, clinic_election
) -> None:
    """Without links the name is taken before the bytes are written: a kill leaves a partial file, which is spoiled."""
    cast_file(clinic_election, "a", clinic / "a.csv", keep=clinic / "kept")

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    def deliver(box: ob.Folder) -> None:
        os.link = no_links
        cast_file(clinic_election, "a", clinic / "a.csv", keep=clinic / "kept", box=box)

    step, finished, partial = 0, False, 0
    link = os.link
    while not finished:
        box = ob.Folder(clinic / f"box {step}")
        finished = not killed_at(step, lambda box=box: deliver(box))
        try:
            deliver(box)
        finally:
            os.link = link
        outcome = tally_box(clinic_election, box)
        assert list(outcome.voted) == ["a"]
        partial += len(outcome.spoiled)
        step += 1
    assert partial, "some kills left a partial file"


@pytest.mark.slow
def test_an_l2_cast_killed_at_any_step_never_understates_its_privacy_loss(clinic: Path) -> None:
    election = election_of(clinic, '[privacy]\nlevel = "L2"\nepsilon = 8.0\n')
    step, finished, charged = 0, False, set()
    while not finished:
        folder = clinic / f"run {step}"
        folder.mkdir()
        box, charges = ob.Folder(folder / "box"), Charges(election.digest, folder / "a.casts.json", what="cast")

        def work(recast: bool = False, box=box, folder=folder) -> None:
            cast_file(election, "a", clinic / "a.csv", keep=folder / "kept", box=box, beside=folder, recast=recast)

        finished = not killed_at(step, work)
        charged.add(charges.draws)
        if not (folder / "kept" / "a.ballot").exists() and charges.draws:
            with pytest.raises(AlreadyCast, match="--recast"):
                work()
            work(recast=True)
        work()
        ((name, _),) = box.names()
        with box.open(name) as file:
            assert unseal(file.read(), election).casts == charges.draws
        step += 1
    assert charged == {0, 1}, "kills happened both before and after noise was drawn"


@pytest.mark.slow
def test_an_l1_tally_killed_at_any_step_never_understates_its_privacy_loss(clinic: Path) -> None:
    from typer.testing import CliRunner

    from oneballot.cli import app

    election = election_of(clinic, '[privacy]\nlevel = "L1"\nepsilon = 8.0\ntallies = 3\n')
    for party in "ab":
        cast_file(election, party, clinic / f"{party}.csv", keep=clinic / "kept", box=ob.Folder(clinic / "box"))
    charges = Charges(election.digest, clinic / "tallies.json")

    def tally(out: Path, *more: str) -> Result:
        words = ["tally", clinic / "election.toml", "--from", clinic / "box", "--out", out, *more]
        return CliRunner().invoke(app, [str(word) for word in words])

    step, finished, charged = 0, False, set()
    while not finished:
        out = clinic / f"outcome {step}"
        finished = not killed_at(step, lambda out=out: tally(out), reads=False)
        charged.add(charges.draws)
        again = tally(out)
        if again.exit_code:
            assert "--again" in again.output
            assert tally(out, "--again").exit_code == 0
        outcome = ob.Outcome.load(out)
        assert len(outcome.voted) == 2
        assert outcome.ledger.drawn == charges.draws
        (clinic / "tallies.json").unlink()
        step += 1
    assert charged == {0, 1}, "kills happened both before and after noise was drawn"


@pytest.mark.slow
def test_an_encrypted_cast_killed_at_any_step_can_be_rerun_and_gives_one_complete_ballot(
    clinic: Path, clinic_election
) -> None:
    """Each encryption has different bytes: the delivered ballot must be the kept one and match the readable copy."""
    public, party_key = new_server_key(clinic / "server.key"), new_key(clinic / "a.key")
    election = replace(clinic_election, server_key=public, roster={"a": party_key})
    opener = read_server_key(clinic / "server.key")
    expected = cast_file(election, "a", clinic / "a.csv", keep=clinic / "reference", beside=clinic)["digest"]
    step, finished = 0, False
    while not finished:
        folder = clinic / f"run {step}"
        box = ob.Folder(folder / "box")

        def work(box=box, folder=folder, **more) -> None:
            cast_file(election, "a", clinic / "a.csv", keep=folder / "kept", box=box, beside=clinic, **more)

        finished = not killed_at(step, work)
        for sealed in folder.glob("*/*.ballot"):
            assert unseal(sealed.read_bytes(), election, opener).digest == expected
        work()
        (delivered,) = (folder / "box").glob("*.ballot")
        assert delivered.read_bytes() == (folder / "kept" / "a.ballot").read_bytes()
        assert list(tally_box(election, box, Options(key=opener)).voted) == ["a"]
        step += 1
    assert step > 8, "the steps were counted"


@pytest.mark.slow
def test_an_encrypted_recast_killed_at_any_step_keeps_a_ballot_and_its_own_copy(clinic: Path, clinic_election) -> None:
    election = replace(clinic_election, server_key=new_server_key(clinic / "server.key"))
    opener = read_server_key(clinic / "server.key")
    step, finished, seen = 0, False, set()
    while not finished:
        kept = clinic / f"run {step}"
        cast_file(election, "a", clinic / "a.csv", keep=kept)
        finished = not killed_at(
            step, lambda kept=kept: cast_file(election, "a", clinic / "b.csv", keep=kept, recast=True)
        )
        done = cast_file(election, "a", clinic / "a.csv", keep=kept)
        assert not done["trained"]
        assert unseal((kept / "a.ballot").read_bytes(), election, opener).digest == done["digest"]
        seen.add(done["digest"])
        step += 1
    assert len(seen) == 2, "an early kill leaves the old ballot, a late one the new ballot"


@pytest.mark.slow
def test_a_tally_killed_at_any_step_leaves_the_old_or_the_new_outcome(
    election, parties, digits, tmp_path: Path
) -> None:
    ballots = cast_together(election, parties)
    box = ob.Folder(tmp_path / "box")
    for b in ballots[:4]:
        box.deliver(b.party, b.sealed)
    old = tally_box(election, box)
    box.deliver(ballots[4].party, ballots[4].sealed)
    new = tally_box(election, box)
    step, finished = 0, False
    seen = set()
    while not finished:
        out = tmp_path / f"outcome {step}"
        old.save(out)

        def work(out=out) -> None:
            tally_box(election, box, Options(previous=ob.Outcome.load(out))).save(out)

        finished = not killed_at(step, work)
        loaded = ob.Outcome.load(out)
        state = len(loaded.voted)
        seen.add(state)
        expected = {4: old, 5: new}[state]
        assert np.array_equal(loaded.count.sums["votes"], expected.count.sums["votes"])
        assert np.array_equal(loaded.model.predict_proba(digits.X_test), expected.model.predict_proba(digits.X_test))
        work()
        assert len(ob.Outcome.load(out).voted) == 5
        assert len(list(out.iterdir())) == 5, "no temporary file is left, and no card is taken for an edited one"
        assert "5 ballots were counted" in (out / "README.md").read_text("utf-8")
        step += 1
    assert seen == {4, 5}
    assert step > 4
    for b in ballots:
        with box.open(b.party) as file:
            assert unseal(file.read(), election).digest == b.digest


def test_a_killed_first_tally_leaves_no_outcome_or_a_complete_one(election, digits, tmp_path: Path) -> None:
    parties = divide(election.data(digits.X, digits.y), 2, "homogeneous", seed=0)
    box = ob.Folder(tmp_path / "box")
    for b in cast_together(election, parties):
        box.deliver(b.party, b.sealed)
    outcome = tally_box(election, box)
    step = 0
    while killed_at(step, lambda out=tmp_path / f"o{step}": outcome.save(out)):
        out = tmp_path / f"o{step}"
        assert not (out / "outcome.json").exists() or len(ob.Outcome.load(out).voted) == 2
        step += 1
    assert len(ob.Outcome.load(tmp_path / f"o{step}").voted) == 2


@pytest.mark.slow
def test_a_tally_killed_at_any_step_leaves_no_outcome_without_its_log_entry(election, parties, tmp_path: Path) -> None:
    box = ob.Folder(tmp_path / "box")
    for b in cast_together(election, parties):
        box.deliver(b.party, b.sealed)
    outcome, left_out = tally_box(election, box), tally_box(election, box, Options(without=(next(iter(parties)),)))
    step, finished, seen = 0, False, set()
    while not finished:
        out = tmp_path / f"outcome {step}"
        log.save(left_out, out, "tally")
        finished = not killed_at(step, lambda out=out: log.save(outcome, out, "tally"))
        entries, found = check_log(out).entries, len(ob.Outcome.load(out).voted)
        assert [len(e.facts["counted"]) for e in entries][found - 4] == found, "the outcome has an entry"
        interrupted = len(entries) == 2 and found == 4
        assert [interrupted] == [bool(check_log(out).problems)], "an entry without its outcome is reported"
        seen.add((len(entries), found))
        log.save(outcome, out, "tally")
        assert not check_log(out).problems, "and the next tally records the outcome"
        step += 1
    assert seen == {(1, 4), (2, 4), (2, 5)}


def test_a_first_tally_killed_after_its_entry_is_reported(election, parties, tmp_path: Path) -> None:
    outcome = tally(election, cast_together(election, parties))
    step, seen = 0, False
    while killed_at(step, lambda out=tmp_path / f"o{step}": log.save(outcome, out, "tally"), reads=False):
        out = tmp_path / f"o{step}"
        if (out / log.LOG).exists() and not (out / "outcome.json").exists():
            assert "interrupted before it wrote the outcome" in check_log(out).problems[0]
            seen = True
        step += 1
    assert seen
