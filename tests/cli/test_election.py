"""`oneballot election set` and `oneballot keys add`: an election is changed in place, or not at all."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.election.election import Election

KEYS = ["ed25519:5b0aSJpmO3/nG5PTiCqAGpcFtSIw4ujn7+EMBZUK9a0=", "ed25519:sV5Ls6q5teFtga26CF3OPCLkR7xCMR2XqTpn4CdnRpM="]
SERVER = "x25519:MxZRPcVocdkwpyqqTEgvGqFQAmjvEAhfXPtY+VEr50I="
TOML = Path("election.toml")


def run(*words: object, status: int = 0):
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def change(*words: object, status: int = 0) -> str:
    return " ".join(run("election", "set", TOML, *words, status=status).output.split())


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(20 + i, "ab"[i % 2], ["no", "yes"][i > 30]) for i in range(60)]
    with Path("public.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("age", "ward", "ill"), *rows])
    run("new", TOML, "--public", "public.csv", "--label", "ill", "--method", "fedkt")


def test_settings_change_in_place_and_comments_stay() -> None:
    before = TOML.read_text()
    said = change("method.queries=30", "learners.all.params.n_estimators=50", "name=Küste")
    after = TOML.read_text()
    assert "method.queries: 1.0 → 30" in said
    assert "WARNING: ballots cast under the old digest no longer count" in said
    assert Election.read(TOML).digest in said
    content = tomllib.loads(after)
    assert (content["method"]["queries"], content["name"]) == (30, "Küste")
    assert content["learners"]["all"]["params"] == {"n_estimators": 50}
    changed = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    assert len(changed) == 3
    assert all(a.partition("#")[2] == b.partition("#")[2] for a, b in changed)


def test_settings_outside_the_digest_leave_ballots_valid() -> None:
    digest = Election.read(TOML).digest
    done = json.loads(run("election", "set", TOML, "deadline=2027-03-01T12:00:00Z", "quorum=2", "--json").stdout)
    assert done["same"]
    assert done["digest"] == done["before"] == digest
    assert "The digest is unchanged, so ballots that were cast still count" in change("--unset", "deadline")
    assert Election.read(TOML).deadline is None


def test_a_new_setting_stands_in_its_section() -> None:
    error = change("privacy.level=L2", "privacy.epsilon=2", status=1)
    unset = ["--unset", "method.influence", "--unset", "method.second_choice"]  # which the draft states for L0
    assert " ".join(unset) in error
    change("privacy.level=L2", "privacy.epsilon=2", *unset)
    text = TOML.read_text()
    assert text.index("[privacy]") < text.index("epsilon = 2") < text.index("[roster]")
    assert Election.read(TOML).privacy.epsilon == 2


def test_a_change_of_the_schema_refreshes_the_digest_of_the_public_set() -> None:
    assert "public.digest: " in change("schema.columns.age.range=[0, 120]")
    assert Election.read(TOML).schema.columns[0].range == (0, 120)


def test_a_changed_public_file_is_accepted_only_on_request() -> None:
    with Path("public.csv").open("a") as file:
        file.write("33,a,no\n")
    before = TOML.read_bytes()
    said = change("quorum=1", "seed=5", status=1)
    assert "run: oneballot election set FILE --refresh" in said
    assert TOML.read_bytes() == before
    assert "public.digest: " in change("--refresh")
    assert Election.read(TOML).public_rows == 61


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("method.queries=banana",), "election.toml, [method]: FedKT: queries: Input should be a valid number"),
        (("nothing=1",), "election.toml: nothing: there is no such setting"),
        (("privacy.level=L2",), "level L2 needs a privacy budget"),
        (("method.queries",), "method.queries: write KEY=VALUE"),
        (("method.queries=1.0",), "election.toml already says so"),
        (("schema.columns.agee.outside=clip",), "schema.columns has no 'agee'; it has age, ward"),
        (("name.first=a",), "cannot be set"),
        (("--unset", "deadline"), "deadline is not set"),
        ((), "nothing to change"),
    ],
)
def test_an_invalid_change_leaves_the_file_as_it_was(words: tuple[str, ...], why: str) -> None:
    before = TOML.read_bytes()
    assert why in change(*words, status=1)
    assert TOML.read_bytes() == before
    assert {path.name for path in Path().iterdir()} == {"election.toml", "public.csv"}


def test_keys_are_added_to_the_roster() -> None:
    digest, party = Election.read(TOML).digest, "Universitätsklinikum Köln – Haus 3"
    said = run("keys", "add", TOML, party, KEYS[0]).output
    assert "ballots that were cast still count" in said
    run("keys", "add", TOML, "b", KEYS[1])
    election = Election.read(TOML)
    assert election.roster == {party: (KEYS[0],), "b": (KEYS[1],)}
    assert election.digest == digest
    assert "# clinic-a" in TOML.read_text()
    assert TOML.read_text().index(party) < TOML.read_text().index("[schema]")


def test_keys_are_added_one_at_a_time_before_the_roster_meets_the_quorum() -> None:
    run("election", "set", TOML, "quorum=2")
    said = run("keys", "add", TOML, "a", KEYS[0]).output
    assert "The roster lists 1 of the 2 parties that the quorum needs: add the others." in said
    assert "a quorum of 2 cannot be met" in run("check", TOML, status=1).output
    assert "quorum needs" not in run("keys", "add", TOML, "b", KEYS[1]).output
    run("check", TOML)


def test_a_second_key_of_a_party_stands_beside_the_first() -> None:
    for key in KEYS:
        run("keys", "add", TOML, "a", key)
    assert Election.read(TOML).roster == {"a": tuple(KEYS)}
    assert "already listed" in run("keys", "add", TOML, "a", KEYS[0], status=1).output


def test_keys_that_are_no_partys_are_refused() -> None:
    assert f"oneballot election set election.toml server_key={SERVER}" in run(
        "keys", "add", TOML, "a", SERVER, status=1
    ).output  # fmt: skip
    assert "the line that `oneballot keys new` prints" in run("keys", "add", TOML, "a", "nonsense", status=1).output
