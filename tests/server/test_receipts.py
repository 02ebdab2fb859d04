"""A party's receipt shows whether an outcome has counted its ballot, and a published outcome reveals nothing else."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.ballot.keys import new_key, read_key
from oneballot.ballot.receipts import make_code, own_code, read_receipt
from oneballot.boxes.folder import Folder
from oneballot.cli import app
from oneballot.election import template
from oneballot.errors import BallotError, OneBallotError
from oneballot.party.submit import cast_file
from oneballot.server.files import tally_files
from oneballot.server.log import LOG, publish
from oneballot.server.receipts import check_receipt, describe_ballots

L0, L1, L2 = (
    template.L0,
    '[privacy]\nlevel = "L1"\nepsilon = 50.0\ntallies = 5\n',
    '[privacy]\nlevel = "L2"\nepsilon = 50.0\n',
)


def agree(clinic: Path, privacy: str, *, signed: bool = True) -> ob.Election:
    """An election on whose roster a, b and c are."""
    keys = "".join(f'{name} = "{new_key(clinic / f"{name}.key")}"\n' for name in "abc") if signed else ""
    draft = template.draft(
        clinic / "public.csv", "ill", beside=clinic / "election.toml", privacy=privacy, server_key="none"
    )
    text = draft.text.replace("n_estimators = 100", "n_estimators = 3").replace("[roster]", f"[roster]\n{keys}#", 1)
    (clinic / "election.toml").write_text(text)
    return ob.Election.read(clinic / "election.toml")


def cast(election: ob.Election, clinic: Path, names: str, *, rows: str = "", keep: str = "kept", to: str = "box"):
    for name in names:
        box = Folder(clinic / to)
        cast_file(election, name, clinic / f"{rows or name}.csv", keep=clinic / keep, box=box, beside=clinic)


def tally(
    election: ob.Election, clinic: Path, *, publish_to: str = "published", box: str = "box", **more
) -> ob.Outcome:
    own = clinic / "outcome"
    outcome = tally_files(election, Folder(clinic / box), own, beside=clinic, again=election.level == "L1", **more)
    publish(outcome, own, clinic / publish_to, describe_ballots(election, outcome))
    return outcome


def answers(clinic: Path, name: str, *, keep: str = "kept") -> tuple[str, str]:
    """What the published copy and the server's own copy say."""
    receipt = read_receipt(clinic / keep / f"{name}.receipt.json")
    return check_receipt(receipt, clinic / "published").answer, check_receipt(receipt, clinic / "outcome").answer


@pytest.mark.parametrize("privacy", [L0, L1, L2], ids=["L0", "L1", "L2"])
def test_a_party_sees_whether_its_signed_ballot_was_counted(privacy: str, clinic: Path) -> None:
    election = agree(clinic, privacy)
    cast(election, clinic, "abc")
    tally(election, clinic, without=["c"])
    assert answers(clinic, "a") == ("counted", "counted")
    assert answers(clinic, "c") == ("left out", "left out")


@pytest.mark.parametrize("privacy", [L0, L1], ids=["L0", "L1"])
def test_a_party_sees_that_another_ballot_in_its_name_was_counted(privacy: str, clinic: Path) -> None:
    election = agree(clinic, privacy)
    cast(election, clinic, "abc")
    cast(election, clinic, "a", rows="b", keep="thief", to="other")
    cast(election, clinic, "bc", to="other")
    tally(election, clinic, box="other")
    assert answers(clinic, "a") == ("another", "another")
    assert answers(clinic, "a", keep="thief") == ("counted", "counted")


def test_an_unsigned_ballot_is_found_by_its_digest(clinic: Path) -> None:
    election = agree(clinic, L0, signed=False)
    cast(election, clinic, "abc")
    tally(election, clinic, without=["c"])
    assert answers(clinic, "a") == ("counted", "counted")
    assert answers(clinic, "c") == ("left out", "left out")


def test_without_a_roster_an_outcome_at_l1_says_nothing_about_its_ballots(clinic: Path) -> None:
    election = agree(clinic, L1, signed=False)
    cast(election, clinic, "abc")
    tally(election, clinic)
    assert answers(clinic, "a") == ("unknown", "counted")
    facts = json.loads((clinic / "published" / LOG).read_text())["facts"]
    assert facts["ballots"] is None


def test_a_published_outcome_at_l1_hides_who_and_how_many_have_voted(clinic: Path) -> None:
    """The pairs of two publications have nothing in common, and their number is that of the roster."""
    election = agree(clinic, L1)
    cast(election, clinic, "ab")
    first = tally(election, clinic)
    cast(election, clinic, "c")
    second = tally(election, clinic)
    text = (clinic / "published" / LOG).read_text()
    one, two = (json.loads(line)["facts"]["ballots"] for line in text.splitlines())
    assert len(one) == len(two) == 3
    assert len({each for pair in one + two for each in pair}) == 12
    assert one == sorted(one), "not in the order of the parties"
    for ballot in (*first.voted.values(), *second.voted.values()):
        assert ballot.code is not None
        assert ballot.code not in text
        assert ballot.digest not in text


def test_a_code_copied_from_another_party_is_ignored(clinic: Path) -> None:
    election = agree(clinic, L0)
    code = make_code(election.digest, "a", read_key(clinic / "a.key"))
    assert own_code(election, "a", code) == code
    assert own_code(election, "b", code) is None
    resigned = replace(election, roster={"a": election.roster["b"]}, revoked={election.roster["a"][0]: ""})
    assert own_code(resigned, "a", code) == code, "a ballot that was signed again keeps its code"


def test_a_receipt_is_secret_and_stays_when_the_ballot_is_delivered_again(clinic: Path) -> None:
    election = agree(clinic, L0)
    cast(election, clinic, "a")
    path = clinic / "kept" / "a.receipt.json"
    before = path.read_bytes()
    cast(election, clinic, "a")
    assert path.read_bytes() == before
    assert os.name != "posix" or path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    cast(election, clinic, "a")
    assert read_receipt(path).ballot == json.loads(before)["ballot"], "an interrupted cast is completed"


def test_a_recast_keeps_the_receipt_of_the_old_ballot(clinic: Path) -> None:
    election = agree(clinic, L0)
    cast(election, clinic, "a")
    old = (clinic / "kept" / "a.receipt.json").read_bytes()
    cast_file(election, "a", clinic / "b.csv", keep=clinic / "kept", beside=clinic, recast=True)
    assert (clinic / "kept" / "a.1.receipt.json").read_bytes() == old
    assert (clinic / "kept" / "a.receipt.json").read_bytes() != old


def test_a_changed_receipt_is_rejected(clinic: Path) -> None:
    cast(agree(clinic, L0), clinic, "a")
    path = clinic / "kept" / "a.receipt.json"
    path.write_text(path.read_text().replace('"time": "20', '"time": "19'))
    with pytest.raises(BallotError, match="was changed after a signed it"):
        read_receipt(path)
    path.write_text("{}")
    with pytest.raises(BallotError, match="is not a receipt"):
        read_receipt(path)


def test_the_command_answers_with_a_sentence_and_its_exit_status(clinic: Path, monkeypatch) -> None:
    election = agree(clinic, L0)
    cast(election, clinic, "abc")
    tally(election, clinic, without=["c"])
    monkeypatch.chdir(clinic)

    def run(name: str, *more: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["receipt", f"kept/{name}.receipt.json", "published", *more])
        return done.exit_code, done.stdout

    status, said = run("a")
    assert (status, said[:8]) == (0, "COUNTED:")
    status, said = run("c", "--json")
    assert (status, json.loads(said)["answer"]) == (1, "left out")
    assert run("a", "--signer", "ed25519:other")[0] == 1


def test_a_broken_log_or_another_election_shows_nothing(clinic: Path) -> None:
    election = agree(clinic, L0)
    cast(election, clinic, "abc")
    tally(election, clinic)
    receipt = read_receipt(clinic / "kept" / "a.receipt.json")
    with pytest.raises(OneBallotError, match="outcome of another election"):
        check_receipt(receipt.model_copy(update={"election": "0" * 64}), clinic / "published")
    path = clinic / "published" / LOG
    facts = json.loads(path.read_text())
    facts["facts"]["ballots"].pop()
    path.write_text(json.dumps(facts))
    with pytest.raises(OneBallotError, match="is broken, so it shows nothing: entry 1 was edited"):
        check_receipt(receipt, clinic / "published")
