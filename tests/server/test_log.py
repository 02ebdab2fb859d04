"""The log of an outcome: every tally is an entry, and what was done to the log or to the outcome is noticed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import oneballot as ob
from oneballot.ballot.keys import new_key, public_text, read_key
from oneballot.boxes.folder import Folder
from oneballot.errors import KeyFileError, OneBallotError
from oneballot.party.cast import cast_together
from oneballot.server import log
from oneballot.server.files import tally_files
from oneballot.server.log_check import check_log


@pytest.fixture
def out(election, parties, tmp_path: Path) -> Path:
    """An outcome that was tallied with two, three, four and five ballots."""
    box = Folder(tmp_path / "box")
    for i, ballot in enumerate(cast_together(election, parties), start=1):
        box.deliver(ballot.party, ballot.sealed)
        if i > 1:
            tally_files(election, box, tmp_path / "outcome", beside=tmp_path)
    return tmp_path / "outcome"


def lines(out: Path) -> list[str]:
    return (out / log.LOG).read_text().splitlines()


def write(out: Path, kept: list[str]) -> None:
    (out / log.LOG).write_text("".join(f"{line}\n" for line in kept))


def test_every_tally_is_an_entry_with_its_ballots(out: Path) -> None:
    checked, outcome = check_log(out), ob.Outcome.load(out)
    assert not checked.problems
    assert [entry.number for entry in checked.entries] == [1, 2, 3, 4]
    assert {entry.kind for entry in checked.entries} == {"tally"}
    assert [len(entry.facts["counted"]) for entry in checked.entries] == [2, 3, 4, 5]
    facts = checked.entries[-1].facts
    assert facts["counted"] == {party: ballot.digest for party, ballot in outcome.voted.items()}
    assert facts["election"] == outcome.election
    assert facts["privacy"]["level"] == "L0"
    assert facts["replaces"] == checked.entries[-2].facts["outcome"]
    if os.name == "posix":
        assert (out / log.LOG).stat().st_mode & 0o777 == 0o600, "it names the parties"


def test_an_appended_entry_follows_the_others(out: Path) -> None:
    entry = log.append(out, "withdrawal", {"party": "party-1"})
    checked = check_log(out)
    assert not checked.problems
    assert checked.head == entry.hash
    assert checked.entries[-1].facts["party"] == "party-1"


def edit(kept: list[str]) -> list[str]:
    return [kept[0], kept[1].replace('"spoiled": {}', '"spoiled": {"x": "y"}'), *kept[2:]]


def edit_and_hash_again(kept: list[str]) -> list[str]:
    entry = log.Entry.model_validate_json(kept[1])
    facts = {**entry.facts, "spoiled": {"x": "y"}}
    changed = entry.model_copy(update={"facts": facts})
    rehashed = changed.model_copy(update={"hash": log.hashlib.sha256(changed.signed()).hexdigest()})
    return [kept[0], json.dumps(rehashed.model_dump()), *kept[2:]]


@pytest.mark.parametrize(
    ("attack", "sentence"),
    [
        (edit, "entry 2 was edited"),
        (edit_and_hash_again, "entry 2 is not signed with the key that it names"),
        (lambda kept: [kept[0], *kept[2:]], "entry 3 does not follow entry 1"),
        (lambda kept: [kept[0], kept[2], kept[1], kept[3]], "entry 3 does not follow entry 1"),
        (lambda kept: kept[1:], "entry 2 is the first in the file"),
        (lambda kept: [*kept, kept[1]], "entry 2 does not follow entry 4"),
        (lambda kept: kept[:-1], "outcome.json is not the outcome of any entry"),
        (lambda kept: [*kept[:2], "nonsense", *kept[2:]], "the line after entry 2 is not an entry"),
        (lambda kept: [*kept[:3], kept[3][:40]], "the line after entry 3 is not an entry"),
        (lambda kept: ["{}"], "the line at the beginning is not an entry"),
    ],
    ids=[
        "edited", "edited and hashed again", "dropped", "reordered", "beginning dropped", "repeated", "truncated",
        "nonsense", "cut within a line", "all replaced",
    ],
)  # fmt: skip
def test_a_rewritten_log_is_noticed(attack: Callable[[list[str]], list[str]], sentence: str, out: Path) -> None:
    write(out, attack(lines(out)))
    assert sentence in " ".join(check_log(out).problems)


def test_a_log_signed_again_with_another_key_is_noticed(out: Path, tmp_path: Path, monkeypatch) -> None:
    entries, first = check_log(out).entries, lines(out)[:1]
    server_key = os.environ[log.KEY_FILE]
    new_key(tmp_path / "forger.key")
    monkeypatch.setenv(log.KEY_FILE, str(tmp_path / "forger.key"))
    (out / log.LOG).unlink()
    for entry in entries:
        log.append(out, entry.kind, entry.facts)
    assert not check_log(out).problems, "the forger's own machine takes it for its own"
    (problem,) = check_log(out, signer=entries[0].key).problems
    assert "someone else has written it" in problem
    forged = lines(out)
    write(out, [*first, *forged[1:]])
    monkeypatch.setenv(log.KEY_FILE, server_key)
    assert "signed with another key" in check_log(out).problems[0]
    write(out, forged)
    (problem,) = check_log(out).problems
    assert "this machine's log key" in problem


def test_a_tally_refuses_a_log_of_another_key_before_it_counts(
    out: Path, election, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv(log.KEY_FILE, str(tmp_path / "other" / "log.key"))
    before = (out / "outcome.json").read_bytes()
    with pytest.raises(KeyFileError, match="Set ONEBALLOT_LOG_KEY to the file with the first key"):
        tally_files(election, Folder(tmp_path / "box"), out, beside=tmp_path)
    assert (out / "outcome.json").read_bytes() == before


def test_the_log_of_another_outcome_is_noticed(out: Path, election, tmp_path: Path) -> None:
    other = tmp_path / "other"
    tally_files(
        election, Folder(tmp_path / "box"), other, beside=tmp_path, without=[next(iter(ob.Outcome.load(out).voted))]
    )
    shutil.copy(other / log.LOG, out / log.LOG)
    (problem,) = check_log(out).problems
    assert "is not the outcome of any entry" in problem


def test_a_log_that_was_cut_off_is_noticed_by_those_who_kept_a_later_hash(out: Path) -> None:
    head = log.append(out, "release", {"to": "onnx"}).hash
    assert not check_log(out, expect=head).problems
    write(out, lines(out)[:-1])
    assert not check_log(out).problems, "nothing else can show it"
    (problem,) = check_log(out, expect=head).problems
    assert "cut off or rewritten" in problem


@pytest.mark.parametrize("name", ["model", "count"])
def test_a_changed_model_or_count_is_noticed(name: str, out: Path) -> None:
    (file,) = out.glob(f"{name}-*")
    file.write_bytes(file.read_bytes() + b" ")
    (problem,) = check_log(out).problems
    assert f"is not the {name} of entry 4" in problem


def test_an_old_outcome_that_was_put_back_is_noticed(out: Path, election, tmp_path: Path) -> None:
    old = (out / "outcome.json").read_bytes()
    tally_files(
        election, Folder(tmp_path / "box"), out, beside=tmp_path, without=[next(iter(ob.Outcome.load(out).voted))]
    )
    (out / "outcome.json").write_bytes(old)
    (problem,) = check_log(out).problems
    assert "is the outcome of entry 4, but entry 5 is later" in problem


def test_a_tally_after_a_break_goes_on_and_records_it(out: Path, election, tmp_path: Path) -> None:
    write(out, edit(lines(out)))
    with pytest.warns(ob.OneBallotWarning, match="is broken, and the new entry says so: entry 2 was edited"):
        tally_files(election, Folder(tmp_path / "box"), out, beside=tmp_path)
    checked = check_log(out)
    assert len(checked.problems) == 1
    assert checked.entries[-1].facts["broken"].startswith("entry 2 was edited")


def test_an_outcome_without_a_log_stays_readable_and_says_why_there_is_none(out: Path, election, tmp_path) -> None:
    (out / log.LOG).unlink()
    assert ob.Outcome.load(out).election == election.digest
    with pytest.raises(OneBallotError, match=r"has no log\.jsonl.*a version before 0\.6"):
        check_log(out)
    log.record_release(out, {"to": "onnx"})
    assert not (out / log.LOG).exists(), "only a tally begins a log"
    tally_files(election, Folder(tmp_path / "box"), out, beside=tmp_path)
    assert not check_log(out).problems


def test_the_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv(log.KEY_FILE)
    monkeypatch.setenv("XDG_CONFIG_HOME" if os.name == "posix" else "APPDATA", str(tmp_path))
    key = public_text(log.log_key())
    assert public_text(log.log_key()) == key == public_text(read_key(tmp_path / "oneballot" / "log.key"))
    if os.name == "posix":
        assert (tmp_path / "oneballot" / "log.key").stat().st_mode & 0o777 == 0o600


def test_a_key_that_cannot_be_written_is_an_error_with_a_way_out(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(log.KEY_FILE, str(tmp_path / "file" / "log.key"))
    with pytest.raises(KeyFileError, match=r"cannot be written: .* Set ONEBALLOT_LOG_KEY"):
        log.log_key()


def test_equal_facts_have_different_hashes(out: Path) -> None:
    """Without the salt a reader of a hash could test guesses of who voted."""
    assert log.append(out, "x", {}).hash != log.append(out, "x", {}).hash
    first, second = check_log(out).entries[-2:]
    assert first.salt != second.salt
