"""Elections with a remote box: the same commands give the same outcome as with a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.server.outcome import Outcome


def run_json(*words: object, status: int = 0) -> dict:
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert result.exit_code == status, result.output
    assert "s3cret" not in result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def cast_once(tmp_path_factory) -> dict:
    """A folder with ballots that are cast once; each test delivers them."""
    return {"folder": tmp_path_factory.mktemp("kept")}


@pytest.fixture
def agreed(clinic: Path, cast_once: dict, monkeypatch) -> Path:
    folder = cast_once["folder"]
    if not (folder / "election.toml").exists():
        for file in clinic.glob("*.csv"):
            (folder / file.name).write_bytes(file.read_bytes())
        monkeypatch.chdir(folder)
        run_json("new", "election.toml", "--public", "public.csv", "--label", "ill")
        text = (folder / "election.toml").read_text().replace("n_estimators = 100", "n_estimators = 5")
        (folder / "election.toml").write_text(text)
        for party in "ab":
            run_json("cast", "election.toml", "--party", party, "--data", f"{party}.csv", "--to", "box")
        run_json("tally", "election.toml", "--from", "box", "--out", "outcome")
    monkeypatch.chdir(folder)
    return folder


def test_cast_and_tally_give_the_same_outcome_as_with_a_folder(place, agreed: Path, tmp_path: Path) -> None:
    box = place.address("election")
    place.put("election", "b.ballot", b"a foreign file under a party's name")
    for party in "ab":
        done = run_json("cast", "election.toml", "--party", party, "--data", f"{party}.csv", "--to", box)
        assert done["delivered"]
        assert not done["trained"]
    summary = run_json("tally", "election.toml", "--from", box, "--out", tmp_path / "outcome")
    assert list(summary["spoiled"]) == ["b"]
    ours, theirs = Outcome.load(tmp_path / "outcome"), Outcome.load(agreed / "outcome")
    assert {p: v.digest for p, v in ours.voted.items()} == {p: v.digest for p, v in theirs.voted.items()}
    assert ours.voted["b"].name.startswith("b.")
    models = [sorted(p.read_bytes() for p in f.glob("model*")) for f in (tmp_path / "outcome", agreed / "outcome")]
    assert models[0] == models[1]
    assert models[0]


def test_an_unreachable_box_is_reported_before_training(place_of, agreed: Path, tmp_path, monkeypatch) -> None:
    from oneballot.boxes import _retry

    monkeypatch.setattr(_retry, "DELAYS", (0.01,))
    cast = ("cast", "election.toml", "--party", "c", "--data", "c.csv", "--keep", tmp_path)
    error = run_json(*cast, "--to", "sftp://u:s3cret@127.0.0.1:1/x", status=1)
    assert "Tried 2 times" in error["error"]
    assert not (tmp_path / "c.ballot").exists()


def test_a_failed_delivery_names_the_kept_copy_of_the_ballot(place_of, agreed: Path) -> None:
    place = place_of("http")
    error = run_json(
        "cast", "election.toml", "--party", "a", "--data", "a.csv", "--to", place.address("readonly"), status=1
    )
    assert "403" in error["error"]
    assert f"Your ballot is in {Path('ballots/a.ballot')}; run the same command again" in error["error"]


def test_a_party_with_umlauts_and_spaces_delivers_and_is_counted(place, agreed: Path, tmp_path: Path) -> None:
    box, party = place.address("names"), "Universitätsklinikum Köln – Haus 3/4"
    for _ in range(2):
        run_json("cast", "election.toml", "--party", party, "--data", "a.csv", "--to", box)
    (file,) = place.files("names")
    assert file.startswith("_Universitatsklinikum-Koln-Haus-3-4-")
    assert run_json("tally", "election.toml", "--from", box, "--out", tmp_path / "outcome")["counted"] == [party]


@pytest.mark.slow
def test_two_servers_tally_shares_from_the_same_box(place, clinic: Path, tmp_path: Path, monkeypatch) -> None:
    """Every box: parties deliver their shares once, both servers read them, and the total is opened."""
    monkeypatch.chdir(clinic)
    keys = [run_json("keys", "new", "server", "--for-server", "--dir", side)["public"] for side in "ab"]
    run_json("new", "election.toml", "--public", "public.csv", "--label", "ill", "--level", "L2", "--epsilon", 50,
             "--tallies", *keys)  # fmt: skip
    box = place.address("shares")
    for party in "abc":
        run_json("keys", "add", "election.toml", party, run_json("keys", "new", party)["public"])
    for party in "abc":
        cast = ("cast", "election.toml", "--party", party, "--data", f"{party}.csv", "--to", box)
        assert run_json(*cast)["trained"]
    delivered = place.files("shares")
    assert len(delivered) == 3
    assert not run_json(*cast)["trained"]
    assert place.files("shares") == delivered  # the same shares, although every ballot draws a new seed
    for other in (False, True):
        for side, its in ("ab", "ba"):
            share = ("--share", side, "--key", f"{side}/server.key", "--out", f"at-{side}")
            lists = ("--other", f"at-{its}/ballots-{its}.json") if other else ()
            run_json("tally", "election.toml", "--from", box, *share, *lists)
    run_json("combine", "at-a/partial-a", "at-b/partial-b", "--out", "outcome")
    assert sorted(Outcome.load(clinic / "outcome").voted) == ["a", "b", "c"]
