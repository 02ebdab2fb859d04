"""Keys as people use them: key files, an election.toml that is edited by hand, and ballots that the tally rejects."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.server.outcome import Outcome


def run(*words: object, status: int = 0):
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def oneballot(*words: object, status: int = 0) -> str:
    return " ".join(run(*words, status=status).output.split())


def run_json(*words: object, status: int = 0) -> dict:
    return json.loads(run(*words, "--json", status=status).stdout)


class Place:
    """A folder with public rows, the rows and keys of two parties, and an election file that tests edit."""

    def __init__(self, clinic: Path) -> None:
        self.folder, self.toml = clinic, clinic / "election.toml"
        oneballot("new", "election.toml", "--public", "public.csv", "--label", "ill", "--method", "fedkt")
        text = self.toml.read_text().replace('estimator = "RandomForestClassifier"', 'estimator = "GaussianNB"')
        self.toml.write_text(text.replace("params = { n_estimators = 100 }", "params = {}"))
        self.public = {party: run_json("keys", "new", party)["public"] for party in "ab"}
        self.write("# clinic-a", "\n".join(f'{party} = "{key}"' for party, key in self.public.items()) + "\n# clinic-a")

    def write(self, old: str, new: str) -> None:
        text = self.toml.read_text()
        assert text.count(old) == 1, old
        self.toml.write_text(text.replace(old, new))

    def set_level(self, privacy: str) -> None:
        self.write('level = "L0"', privacy)
        for_l0_alone = ("--unset", "method.influence", "--unset", "method.second_choice")
        oneballot("election", "set", "election.toml", *for_l0_alone)

    def encrypt(self) -> None:
        public = run_json("keys", "new", "server", "--for-server")["public"]
        self.write('# server_key = "x25519:…"', f'server_key = "{public}"')

    def revoke(self, key: str, why: str = "stolen on 3 May") -> None:
        self.write("[schema] ", f'[revoked]\n"{key}" = "{why}"\n\n[schema] ')

    def new_key(self, party: str) -> str:
        Path(f"{party}.key").rename(f"{party}.old.key")
        return run_json("keys", "new", party)["public"]

    def cast(self, party: str, *more: object, to: str = "box", status: int = 0) -> dict:
        args = ("cast", "election.toml", "--party", party, "--data", f"{party}.csv", "--to", to)
        return run_json(*args, *more, status=status)

    def tally(self, *more: object, out: str = "outcome", status: int = 0) -> dict:
        return run_json("tally", "election.toml", "--from", "box", "--out", out, *more, status=status)


@pytest.fixture
def place(clinic: Path, monkeypatch) -> Place:
    monkeypatch.chdir(clinic)
    return Place(clinic)


@pytest.fixture(params=[False, True], ids=["in the clear", "encrypted"])
def either(request, place: Place) -> Place:
    if request.param:
        place.encrypt()
    return place


def only(folder: str) -> Path:
    (path,) = Path(folder).iterdir()
    return path


class TestRejectedBallots:
    @pytest.fixture(autouse=True)
    def b_has_voted(self, either: Place) -> None:
        either.cast("b")

    def test_the_ballot_of_an_unlisted_party_is_spoiled(self, either: Place) -> None:
        run_json("keys", "new", "c")
        assert "c is not on the roster" in either.cast("c", status=1)["error"]
        text = either.toml.read_text()
        public = run_json("keys", "show", "c.key")["public"]
        either.write("# clinic-a", f'c = "{public}"\n# clinic-a')  # only c's copy lists c
        either.cast("c")
        either.toml.write_text(text)
        done = either.tally()
        assert done["counted"] == ["b"]
        (reason,) = done["spoiled"].values()
        assert reason == "c is not on the roster of this election"

    def test_a_ballot_signed_with_another_key_is_spoiled(self, either: Place) -> None:
        text = either.toml.read_text()
        either.write(either.public["a"], run_json("keys", "new", "attacker")["public"])
        either.cast("a", "--key", "attacker.key")
        either.toml.write_text(text)
        done = either.tally()
        assert done["counted"] == ["b"]
        assert "names a as its party, but the signature is not theirs" in str(done["spoiled"])

    def test_an_unsigned_ballot_is_spoiled(self, either: Place) -> None:
        text = either.toml.read_text()
        either.toml.write_text(
            text.replace(f'a = "{either.public["a"]}"', "").replace(f'b = "{either.public["b"]}"', "")
        )
        Path("a.key").rename("away.key")
        either.cast("a")
        either.toml.write_text(text)
        done = either.tally()
        assert done["counted"] == ["b"]
        assert "is not signed" in str(done["spoiled"])

    def test_a_replayed_ballot_counts_once_under_any_name(self, either: Place) -> None:
        name = either.cast("a")["name"]
        first = either.tally()
        votes = Outcome.load("outcome").count.sums["votes"]
        for copy in ("b2", "zz", "c"):
            shutil.copy(f"box/{name}.ballot", f"box/{copy}.ballot")
        for out in ("outcome", "from-scratch"):
            again = either.tally(out=out)
            assert again["counted"] == first["counted"] == ["a", "b"]
            assert np.array_equal(Outcome.load(out).count.sums["votes"], votes)

    def test_a_ballot_under_another_partys_name_counts_for_its_signer(self, either: Place) -> None:
        only("box").rename("box/a.ballot")
        assert either.tally()["counted"] == ["b"]

    def test_a_ballot_of_another_election_is_spoiled(self, either: Place) -> None:
        text = either.toml.read_text()
        either.write("seed = 0", "seed = 1")
        either.cast("a")
        either.toml.write_text(text)
        done = either.tally()
        assert done["counted"] == ["b"]
        assert "is a ballot of another election" in str(done["spoiled"])

    @pytest.mark.parametrize(
        "damage",
        [
            lambda b: b[: len(b) // 2],
            lambda b: b[:-1],
            lambda b: b"",
            lambda b: b[:400] + bytes([b[400] ^ 1]) + b[401:],
        ],
    )
    def test_a_damaged_ballot_is_spoiled(self, either: Place, damage) -> None:
        name = either.cast("a")["name"]
        path = Path(f"box/{name}.ballot")
        path.write_bytes(damage(path.read_bytes()))
        done = either.tally()
        assert done["counted"] == ["b"]
        assert list(done["spoiled"]) == [name]


def test_a_ballot_with_a_changed_party_name_is_spoiled(place: Place) -> None:
    """An unencrypted ballot can be rebuilt by anyone, but not with a valid signature."""
    from oneballot.ballot.archive import unzip, zip_up

    place.cast("a")
    files = unzip(only("box").read_bytes())
    files["manifest.json"] = bytes(files["manifest.json"]).replace(b'"party":"a"', b'"party":"b"')
    Path("box/b.ballot").write_bytes(zip_up(files))
    done = place.tally()
    assert done["counted"] == ["a"]
    assert "names b as its party, but the signature is not theirs" in done["spoiled"]["b"]


class TestRotation:
    def test_a_key_can_be_rotated_while_the_election_is_open(self, either: Place) -> None:
        first = either.cast("a")
        new = either.new_key("a")
        old = either.public["a"]
        either.write(f'a = "{old}"', f'a = ["{new}", "{old}"]')
        assert either.cast("b")["trained"]
        assert either.tally()["counted"] == ["a", "b"], "ballots signed with the old key still count"
        again = either.cast("a", to="elsewhere")
        assert not again["trained"]
        assert again["digest"] == first["digest"]

    def test_a_ballot_of_a_revoked_key_is_removed_and_counts_once_signed_again(self, either: Place) -> None:
        first = either.cast("a")
        either.cast("b")
        assert either.tally()["counted"] == ["a", "b"]
        before = Outcome.load("outcome").count.sums["votes"]
        new = either.new_key("a")
        either.write(f'a = "{either.public["a"]}"', f'a = "{new}"')
        either.revoke(either.public["a"])
        assert "SPOILED: it names a as its party but is signed with a revoked key (stolen on 3 May)" in (
            oneballot("tally", "election.toml", "--from", "box", "--out", "outcome")
        )
        assert either.tally(out="scratch")["counted"] == ["b"]
        without = Outcome.load("outcome").count.sums["votes"]
        assert np.array_equal(without, Outcome.load("scratch").count.sums["votes"])
        assert not np.array_equal(without, before)
        assert "was revoked" in either.cast("a", "--key", "a.old.key", status=1)["error"]
        refused = either.cast("a", status=1)["error"]
        assert "--resign: nothing is trained" in refused
        again = either.cast("a", "--resign")
        assert not again["trained"]
        assert (again["digest"], again["name"] != first["name"]) == (first["digest"], True)
        assert either.tally()["counted"] == ["a", "b"]
        assert np.array_equal(Outcome.load("outcome").count.sums["votes"], before)
        assert not either.cast("a")["trained"], "the ballot that was signed again is the kept one"
        assert Path("ballots/a.1.ballot").exists()

    def test_signing_again_at_l2_draws_no_noise(self, either: Place) -> None:
        either.set_level('level = "L2"\nepsilon = 4.0')
        first = either.cast("a")
        either.write(f'a = "{either.public["a"]}"', f'a = "{either.new_key("a")}"')
        again = either.cast("a", "--resign")
        assert (again["digest"], again["privacy"]["drawn"]) == (first["digest"], 1)
        assert json.loads(Path("a.casts.json").read_text())["draws"].popitem()[1] == 1

    def test_a_ballot_cast_before_the_roster_existed_is_signed_without_training(self, either: Place) -> None:
        text = either.toml.read_text()
        listed = [f'{party} = "{key}"' for party, key in either.public.items()]
        either.toml.write_text(text.replace(listed[0], "").replace(listed[1], ""))
        Path("a.key").rename("away.key")
        first = either.cast("a")
        Path("away.key").rename("a.key")
        either.toml.write_text(text)
        assert "is not signed" in either.cast("a", status=1)["error"]
        again = either.cast("a", "--resign")
        assert (again["trained"], again["digest"]) == (False, first["digest"])
        done = either.tally()
        assert done["counted"] == ["a"]
        assert list(done["spoiled"]) == [first["name"]]

    def test_signing_again_requires_a_kept_ballot(self, place: Place) -> None:
        assert "nothing to sign again" in place.cast("a", "--resign", status=1)["error"]
        assert "choose one" in place.cast("a", "--resign", "--recast", status=1)["error"]
        assert not Path("box").exists()


class TestEncrypted:
    @pytest.fixture(autouse=True)
    def encrypted(self, place: Place) -> None:
        place.encrypt()

    def test_the_box_holds_neither_names_nor_votes(self, place: Place) -> None:
        place.cast("a")
        box = only("box")
        assert box.stem not in ("a", "b")
        assert b"PK\x03\x04" not in box.read_bytes()
        seen = run_json("inspect", box)
        assert seen.keys() == {"file", "bytes", "encrypted_to", "election", "verdict", "valid"}
        output = oneballot("inspect", box, "--election", "election.toml")
        assert "encrypted to: x25519:" in output
        assert "can only be seen with the server's key" in output
        opened = oneballot("inspect", box, "--election", "election.toml", "--key", "server.key")
        for words in ("party: a", "valid, of a", "it is a ballot of this election", "numbers, uint8"):
            assert words in opened
        assert run_json("inspect", box, "--key", "server.key")["party"] == "a"
        run_json("keys", "new", "other", "--for-server")
        assert "encrypted to another key" in run_json("inspect", box, "--key", "other.key", status=1)["error"]

    def test_the_party_keeps_the_encrypted_ballot_and_a_readable_copy(self, place: Place) -> None:
        first = place.cast("a")
        sent, readable = Path("ballots/a.ballot"), Path("ballots/a.ballot.open")
        assert sent.read_bytes() == only("box").read_bytes()
        assert readable.stat().st_mode & 0o777 == 0o600
        assert run_json("inspect", readable)["party"] == "a"
        output = oneballot("inspect", readable, "--election", "election.toml")
        assert "it would be spoiled: it is not encrypted" in output
        Path("a.csv").unlink()
        again = place.cast("a", to="box2")
        assert (again["trained"], again["digest"]) == (False, first["digest"])
        assert only("box2").read_bytes() == sent.read_bytes()
        shutil.copy(readable, "box/by-mistake.ballot")
        assert "not encrypted" in place.tally()["spoiled"]["by-mistake"]

    def test_a_cast_interrupted_before_encryption_resumes_and_a_lost_copy_is_reported(self, place: Place) -> None:
        first = place.cast("a")
        Path("ballots/a.ballot").unlink()
        again = place.cast("a", to="box2")
        assert (again["trained"], again["digest"]) == (False, first["digest"])
        Path("ballots/a.ballot.open").unlink()
        assert "only the server can read" in place.cast("a", to="box3", status=1)["error"]
        place.cast("a", "--recast", to="box3")
        assert Path("ballots/a.1.ballot").exists()
        shutil.copy("ballots/a.1.ballot", "ballots/a.ballot")
        Path("ballots/a.ballot.open").write_bytes(b"half")
        assert "damaged" in place.cast("a", to="box4", status=1)["error"]

    def test_a_second_ballot_never_replaces_the_first(self, place: Place) -> None:
        place.cast("a")
        before = only("box").read_bytes()
        assert "the box already holds a ballot of a" in place.cast("a", "--recast", status=1)["error"]
        assert "the box already holds a ballot of a" in place.cast("a", "--keep", "other", status=1)["error"]
        assert only("box").read_bytes() == before

    def test_a_foreign_file_under_the_same_name_does_not_block_a_delivery(self, place: Place) -> None:
        name = place.cast("a", to="elsewhere")["name"]
        Path("box").mkdir()
        Path(f"box/{name}.ballot").write_bytes(b"garbage")
        assert place.cast("a")["name"].startswith(f"{name}.")
        assert place.tally()["counted"] == ["a"]

    def test_the_server_can_tally_only_with_its_own_key(self, place: Place) -> None:
        for party in "ab":
            place.cast(party)
        assert place.tally()["counted"] == ["a", "b"]
        assert place.tally("--without", "b")["counted"] == ["a"]
        Path("server.key").rename("away.key")
        assert "give the server's secret key" in place.tally(status=1)["error"]
        run_json("keys", "new", "server", "--for-server")
        assert "the given key has fingerprint" in place.tally(status=1)["error"]
        assert "a party's key" in place.tally("--key", "a.key", status=1)["error"]
        assert place.tally("--key", "away.key")["counted"] == ["a", "b"]
        Path("away.key").chmod(0o644)
        assert "chmod 600" in place.tally("--key", "away.key", status=1)["error"]

    def test_late_ballots_are_added(self, place: Place) -> None:
        place.cast("a")
        place.tally()
        place.cast("b")
        assert place.tally()["counted"] == ["a", "b"]
        assert place.tally(out="scratch")["counted"] == ["a", "b"]
        late, scratch = (Outcome.load(out).count.sums["votes"] for out in ("outcome", "scratch"))
        assert np.array_equal(late, scratch)

    def test_dry_run_and_check_name_the_server_key(self, place: Place) -> None:
        mark = run_json("keys", "show", "server.key")["fingerprint"]
        assert mark in place.cast("a", "--dry-run")["encrypted_to"]
        assert f"encrypted: to the server's key, fingerprint {mark}" in oneballot("check", "election.toml")


def test_an_l1_cast_is_rejected_until_the_election_names_a_server_key(place: Place) -> None:
    place.set_level('level = "L1"\nscale = 1.0')
    assert "NOT YET" in oneballot("check", "election.toml")
    for more in ((), ("--dry-run",)):
        assert "server_key" in place.cast("a", *more, status=1)["error"]
    assert not Path("ballots").exists()
    args = ("simulate", "election.toml", "--data", "a.csv", "--parties", 3, "--no-compare")
    assert len(run_json(*args)["counted"]) == 3, "a simulation needs no keys"
    place.encrypt()
    assert len(run_json(*args)["counted"]) == 3
    place.cast("a")
    assert place.tally()["counted"] == ["a"]
    place.write("server_key = ", 'server_key = "none"  # ')
    assert place.cast("b", to="open")["encrypted_to"] is None
    assert only("open").name == "b.ballot"


def test_a_draft_can_include_the_server_key(place: Place) -> None:
    public = run_json("keys", "new", "server", "--for-server")["public"]
    draft = ("new", "drafted.toml", "--public", "public.csv", "--label", "ill", "--level", "L1", "--epsilon", 5)
    assert "set a server_key" in oneballot(*draft)
    Path("drafted.toml").unlink()
    assert "set a server_key" not in oneballot(*draft, "--server-key", public)
    assert run_json("check", "drafted.toml")["server_key"] == public
    Path("drafted.toml").unlink()
    assert "server_key is 'x25519:no'" in run_json(*draft, "--server-key", "x25519:no", status=1)["error"]
    assert not Path("drafted.toml").exists()


def test_keys_are_shown_and_listed(place: Place) -> None:
    place.encrypt()
    new = place.new_key("a")
    place.write(f'a = "{place.public["a"]}"', f'a = ["{new}", "{place.public["a"]}"]')
    place.revoke(place.public["a"])
    shown = run_json("keys", "show", "a.key")
    assert shown["public"] == new
    assert "PRIVATE" not in oneballot("keys", "show", "a.key")
    listed = run_json("keys", "list", "election.toml")["keys"]
    assert [(k["party"], k["state"]) for k in listed] == [
        ("the server", "ballots are encrypted to it"),
        ("a", "signs"),
        ("b", "signs"),
        ("a", "revoked: stolen on 3 May"),
    ]
    output = oneballot("keys", "list", "election.toml")
    assert shown["fingerprint"] in output
    assert 'server_key = "x25519:' in oneballot("keys", "new", "server2", "--for-server")
    assert '"a.b" = "ed25519:' in oneballot("keys", "new", "a.b")


def test_fingerprints_are_never_wrapped(place: Place) -> None:
    from oneballot.ballot.keys import fingerprint

    place.revoke(place.public["a"], "the laptop with this key was stolen on 3 May in the station")
    lines = run("keys", "list", "election.toml").output.splitlines()
    for key in place.public.values():
        assert any(fingerprint(key) in line for line in lines)


def test_inspecting_another_file_says_that_it_is_not_a_ballot(place: Place) -> None:
    assert "a.csv would be spoiled: it is not a ballot" in oneballot("inspect", "a.csv", status=1)


def test_inspecting_a_signed_ballot_of_an_election_without_a_roster_says_why_it_is_not_checked(place: Place) -> None:
    place.toml.write_text(re.sub(r'^[ab] = "ed25519.*\n', "", place.toml.read_text(), flags=re.MULTILINE))
    place.cast("a")
    shown = run_json("inspect", "box/a.ballot", "--election", "election.toml")
    assert shown["signature"] == "present, not checked: the election's roster is empty, so that anyone may vote"


KOELN = "Universitätsklinikum Köln – Haus 3"


def test_a_party_with_umlauts_and_spaces_votes(either: Place) -> None:
    made = run("keys", "new", KOELN).output
    line = next(line for line in made.splitlines() if line.startswith('"Universit'))
    either.write("# clinic-a", f"{line}\n# clinic-a")
    args = ("cast", "election.toml", "--data", "a.csv", "--to", "box", "--party")
    done = run_json(*args, unicodedata.normalize("NFD", KOELN))
    assert done["party"] == KOELN
    assert done["trained"]
    assert not run_json(*args, KOELN)["trained"]
    assert Path(done["ballot"]).name.startswith("_Universitatsklinikum-Koln-Haus-3-")
    assert KOELN in oneballot("inspect", only("box"), *(("--key", "server.key") if Path("server.key").exists() else ()))
    assert KOELN in [key["party"] for key in run_json("keys", "list", "election.toml")["keys"]]
    either.cast("b")
    assert either.tally()["counted"] == [KOELN, "b"]
    assert either.tally("--without", unicodedata.normalize("NFD", KOELN))["without"] == [KOELN]
    assert list(Outcome.load("outcome").voted) == ["b"]
