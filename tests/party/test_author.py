"""An election that its author has signed: every change is refused, and a party notices if the author is another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneballot.ballot.keys import new_key, public_text, read_key
from oneballot.cli import app
from oneballot.election import template
from oneballot.election.election import Election
from oneballot.election.signing import read_author, sign_election, signature_path
from oneballot.errors import ElectionError
from oneballot.party.author import recognize_author

FILE = "election.toml"


def run(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done.stdout if "--json" in words else done.output


@pytest.fixture
def signed(clinic: Path, monkeypatch) -> Path:
    """A folder with an election that its author has signed, and the keys of two parties on its roster."""
    keys = "".join(f'{name} = "{new_key(clinic / f"{name}.key")}"\n' for name in "ab")
    text = template.draft(clinic / "public.csv", "ill", beside=clinic / FILE).text
    text = text.replace("n_estimators = 100", "n_estimators = 3").replace("[roster]", f"[roster]\n{keys}#", 1)
    (clinic / FILE).write_text(text)
    new_key(clinic / "author.key")
    monkeypatch.chdir(clinic)
    run("election", "sign", FILE, "--key", "author.key")
    return clinic


def cast(status: int = 0, *more: str) -> str:
    words = ("cast", FILE, "--party", "a", "--data", "a.csv", "--to", "box", *more)
    return run(*words, status=status).replace("\n", " ")


def recognized(folder: Path, party: str = "a"):
    return recognize_author(folder / FILE, Election.read(folder / FILE), party, folder / "ballots")


def test_a_signed_election_is_checked_cast_and_tallied(signed: Path) -> None:
    key = public_text(read_key(signed / "author.key"))
    assert json.loads(run("check", FILE, "--json"))["author"] == key
    assert "signed with" in run("check", FILE)
    cast()
    run("tally", FILE, "--from", "box", "--out", "outcome")
    assert "1 valid" in run("box", "check", FILE, "box")


def edit(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / FILE).read_text()
        assert old in text
        (folder / FILE).write_text(text.replace(old, new, 1))

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: edit('b = "ed25519', f'c = "{new_key(folder / "c.key")}"\nb = "ed25519')(folder),
        lambda folder: edit(public_text(read_key(folder / "b.key")), new_key(folder / "c.key"))(folder),
        edit("n_estimators = 3", "n_estimators = 4"),
        edit("quorum = 1", "quorum = 2"),
    ],
    ids=["party added", "key replaced", "learner", "quorum"],
)
def test_any_change_is_refused_by_check_cast_tally_and_box_check(change, signed: Path) -> None:
    change(signed)
    for words in (
        ("check", FILE),
        ("tally", FILE, "--from", "box", "--out", "outcome"),
        ("box", "check", FILE, "box"),
        ("cast", FILE, "--party", "a", "--data", "a.csv", "--to", "box"),
    ):
        assert "is not what its author signed" in run(*words, status=1)
    assert not (signed / "box").exists()


def test_the_refusal_says_what_to_do(signed: Path) -> None:
    edit("n_estimators = 3", "n_estimators = 4")(signed)
    with pytest.raises(ElectionError, match=r"is not what its author signed.*from its author again"):
        read_author(signed / FILE, Election.read(signed / FILE))


def test_comments_and_line_endings_may_change(signed: Path) -> None:
    text = (signed / FILE).read_text()
    (signed / FILE).write_bytes(f"# a comment\n{text}".replace("\n", "\r\n").encode())
    assert read_author(signed / FILE, Election.read(signed / FILE)) is not None


def test_a_party_that_has_cast_notices_when_the_signature_vanishes(signed: Path) -> None:
    cast()
    signature_path(signed / FILE).unlink()
    assert "is not signed, but a has seen it signed" in cast(1)
    assert "is not signed" in cast(1, "--dry-run")


def test_a_party_that_has_cast_notices_another_author(signed: Path) -> None:
    cast()
    new_key(signed / "other.key")
    sign_election(signed / FILE, read_key(signed / "other.key"))
    assert "Someone else may have changed it" in cast(1)


def test_a_party_notices_when_a_changed_election_in_its_file_is_not_signed(signed: Path) -> None:
    recognized(signed)
    edit("n_estimators = 3", "n_estimators = 4")(signed)
    signature_path(signed / FILE).unlink()
    with pytest.raises(ElectionError, match="is not signed, but a has seen it signed"):
        recognized(signed)


def test_a_party_notices_an_older_version(signed: Path) -> None:
    old = signed / "old"
    old.mkdir()
    for name in (FILE, f"{FILE}.sig"):
        shutil.copy(signed / name, old / name)
    stamp = json.loads(signature_path(signed / FILE).read_text())["time"]
    while json.loads(signature_path(signed / FILE).read_text())["time"] == stamp:
        sign_election(signed / FILE, read_key(signed / "author.key"))
    recognized(signed)
    for name in (FILE, f"{FILE}.sig"):
        shutil.copy(old / name, signed / name)
    with pytest.raises(ElectionError, match="has seen a later version"):
        recognized(signed)


def test_an_author_may_sign_a_changed_election_again(signed: Path) -> None:
    recognized(signed)
    assert "no longer fits: sign again" in run("election", "set", FILE, "quorum=2")
    with pytest.raises(ElectionError, match="is not what its author signed"):
        recognized(signed)
    run("election", "sign", FILE, "--key", "author.key", "--json")
    assert recognized(signed) is not None


def test_a_dry_run_remembers_nothing_and_an_unsigned_election_needs_no_signature(signed: Path) -> None:
    assert "signed with" in cast(0, "--dry-run")
    assert not (signed / "ballots").exists()
    signature_path(signed / FILE).unlink()
    assert recognized(signed) is None
    assert not (signed / "ballots").exists()


def test_a_damaged_signature_or_memory_is_refused(signed: Path) -> None:
    recognized(signed)
    memory = signed / "ballots" / "a.author.json"
    memory.write_text("{")
    with pytest.raises(ElectionError, match=r"cannot be read\. Restore it"):
        recognized(signed)
    memory.unlink()
    signature_path(signed / FILE).write_text("{}")
    with pytest.raises(ElectionError, match="is not a signature that"):
        recognized(signed)
