"""Two tallies at a terminal: an election is written, cast, tallied by two servers and combined."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import oneballot as ob
from oneballot.ballot.keys import new_key, new_server_key
from oneballot.cli import app

SERVERS = ("a", "b")


def run(*arguments: object, status: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == status, result.output + result.stderr
    return result


@pytest.fixture
def agreed(clinic: Path) -> Path:
    """An election file for three parties, and a folder for each server."""
    keys = [new_server_key(clinic / f"server-{side}" / "server.key") for side in SERVERS]
    election = clinic / "election.toml"
    run("new", election, "--public", clinic / "public.csv", "--label", "ill", "--level", "L2", "--epsilon", "5",
        "--tallies", *keys)  # fmt: skip
    for name in "abc":
        run("keys", "add", election, name, new_key(clinic / f"{name}.key"))
    for side in SERVERS:
        for name in ("election.toml", "public.csv"):
            (clinic / f"server-{side}" / name).write_bytes((clinic / name).read_bytes())
    return election


def cast(agreed: Path, *names: str) -> None:
    for name in names:
        run("cast", agreed, "--party", name, "--data", agreed.parent / f"{name}.csv", "--to", agreed.parent / "box",
            "--keep", agreed.parent / "kept")  # fmt: skip


def share(agreed: Path, side: str, *more: object, status: int = 0) -> Result:
    home = agreed.parent / f"server-{side}"
    return run("tally", home / "election.toml", "--from", agreed.parent / "box", "--out", home / "out", "--share", side,
               *more, status=status)  # fmt: skip


def exchange(agreed: Path, *more: object) -> tuple[Path, Path]:
    for side in SERVERS:
        share(agreed, side)
    lists = {side: agreed.parent / f"server-{side}" / "out" / f"ballots-{side}.json" for side in SERVERS}
    share(agreed, "a", "--other", lists["b"], *more)
    share(agreed, "b", "--other", lists["a"], *more)
    one, two = (agreed.parent / f"server-{side}" / "out" / f"partial-{side}" for side in SERVERS)
    return one, two


def test_two_organisations_run_an_election(agreed: Path, clinic: Path) -> None:
    assert "NOT YET" not in run("check", agreed).output
    assert "two tallies" in run("check", agreed).output
    cast(agreed, "b", "c")
    shown = run("cast", agreed, "--party", "a", "--data", clinic / "a.csv", "--to", clinic / "box", "--keep",
                clinic / "kept").output  # fmt: skip
    assert "Nobody alone can read it, and no readable copy is kept" in shown
    assert not list((clinic / "kept").glob("*.open"))
    shown = run("inspect", clinic / "box" / "a.ballot", "--election", agreed).output
    assert "a share for one server" in shown
    one, two = exchange(agreed)
    shown = run("combine", one, two, "--out", clinic / "outcome", "--publish", clinic / "public").output
    assert "against the public or either server alone, not both together" in shown
    assert "What each party changed is unknown: with two tallies nobody can read what one of them sent." in shown
    outcome = ob.Outcome.load(clinic / "outcome")
    assert sorted(outcome.voted) == ["a", "b", "c"]
    assert not outcome.count.by_party
    run("predict", clinic / "outcome", "--data", clinic / "test.csv", "--out", clinic / "predictions.csv")
    run("log", clinic / "outcome")
    page = clinic / "report.html"
    run("report", clinic / "outcome", "--data", clinic / "test.csv", "--out", page)
    assert "not both together" in page.read_text("utf-8")


def test_another_election_over_the_same_rows_is_said_to_cost_when_it_is_opened(agreed: Path) -> None:
    shown = " ".join(run("election", "set", agreed, "privacy.max_silos_per_person=2").output.split())
    assert "Casting again is free, but every opening draws new noise, and costs of both elections add up." in shown
    assert "At L2 casting again" not in shown
    checked = run("check", agreed).output
    assert "for people with rows at up to 2 parties" in checked
    assert "in all:" not in checked  # the epsilon of one opening is about all parties of a person


def test_a_receipt_shows_that_a_ballot_was_counted(agreed: Path, clinic: Path) -> None:
    cast(agreed, "a", "b", "c")
    run("combine", *exchange(agreed), "--out", clinic / "outcome", "--publish", clinic / "published")
    run("receipt", clinic / "kept" / "a.receipt.json", clinic / "published")


def test_a_dossier_says_that_nobody_alone_can_read_the_ballot(agreed: Path, clinic: Path) -> None:
    page = clinic / "dossier.html"
    run("cast", agreed, "--party", "a", "--data", clinic / "a.csv", "--dry-run", "--dossier", page)
    text = page.read_text("utf-8")
    assert "Nobody alone" in text
    assert "an encrypted share" in text
    assert "no number can be read from it" in text
    assert "not both together" in text


def test_the_box_is_checked_with_the_key_of_either_server(agreed: Path, clinic: Path) -> None:
    cast(agreed, "a", "b")
    for side in SERVERS:
        found = json.loads(run("box", "check", agreed, clinic / "box", "--key",
                               clinic / f"server-{side}" / "server.key", "--json").output)  # fmt: skip
        assert [ballot["status"] for ballot in found["ballots"]] == ["valid", "valid"]
        assert found["awaited"] == ["c"]


def test_commands_that_need_single_ballots_are_refused(agreed: Path, clinic: Path) -> None:
    cast(agreed, "a", "b", "c")
    wrong = run("tally", agreed, "--from", clinic / "box", "--out", clinic / "outcome", status=1)
    assert "--share a" in wrong.stderr
    wrong = run("tally", agreed, "--from", clinic / "box", "--out", clinic / "outcome", "--share", "x", status=1)
    assert "--share is a or b" in wrong.stderr
    run("combine", *exchange(agreed), "--out", clinic / "outcome")
    wrong = run("appraise", clinic / "outcome", "--data", clinic / "test.csv", "--election", agreed, status=1).stderr
    assert "an appraisal is impossible with two tallies, by design" in wrong
    wrong = run("withdraw", clinic / "outcome", "a", "--election", agreed, status=1).stderr
    assert "2 ballots would remain, and at least 3 are needed" in wrong


def test_servers_sign_with_keys_that_the_election_names(agreed: Path, clinic: Path, monkeypatch) -> None:
    signs = {}
    for side in SERVERS:  # as docs/two-tallies.md says
        made = run("keys", "new", "log", "--dir", clinic / f"server-{side}", "--json")
        shown = run("keys", "show", clinic / f"server-{side}" / "log.key", "--json")
        signs[side] = json.loads(made.output)["public"]
        assert json.loads(shown.output)["public"] == signs[side]
    for path in (agreed, *(clinic / f"server-{side}" / "election.toml" for side in SERVERS)):
        lines = "".join(f'\n{side}_signs = "{key}"' for side, key in signs.items())
        path.write_text(path.read_text().replace("[tallies]", f"[tallies]{lines}"))
    cast(agreed, "a", "b", "c")
    lists = {side: clinic / f"server-{side}" / "out" / f"ballots-{side}.json" for side in SERVERS}

    def at(side: str, *more: object, status: int = 0) -> Result:
        monkeypatch.setenv("ONEBALLOT_LOG_KEY", str(clinic / f"server-{side}" / "log.key"))
        return share(agreed, side, *more, status=status)

    at("a")
    at("b")
    assert f"log key, {signs['a']}" in at("a", "--other", lists["b"]).output
    at("b", "--other", lists["a"])
    partials = [clinic / f"server-{side}" / "out" / f"partial-{side}" for side in SERVERS]
    shown = run("combine", *partials, "--out", clinic / "outcome").output
    assert "Both partials are signed with the servers' keys that the election names." in shown
    monkeypatch.setenv("ONEBALLOT_LOG_KEY", str(clinic / "server-b" / "log.key"))
    assert "Set ONEBALLOT_LOG_KEY to the file of the right key" in share(agreed, "a", status=1).stderr
    partials[0].write_bytes(partials[0].read_bytes()[:-96])
    wrong = run("combine", *partials, "--out", clinic / "outcome", status=1).stderr
    assert "the partial of server a is not signed" in wrong


def test_withdraw_names_the_commands_that_the_servers_run_and_they_work(
    agreed: Path, clinic: Path, monkeypatch
) -> None:
    for path in (agreed, *(clinic / f"server-{side}" / "election.toml" for side in SERVERS)):
        path.write_text(path.read_text().replace("min_difference = 3", "min_difference = 1"))
    cast(agreed, "a", "b", "c")
    run("combine", *exchange(agreed), "--out", clinic / "outcome")
    path, box = agreed.rename(clinic / "our election.toml"), clinic / "box"
    shown = run("withdraw", clinic / "outcome", "a", "--election", path, "--from", box, status=1).stderr
    assert "costs again, beyond the budget: add --over-budget to the commands with --other" in shown
    assert "They will refuse" not in shown
    lines = [shlex.split(line, comments=True) for line in shown.splitlines() if line.startswith("  oneballot ")]
    assert [line[1] for line in lines] == ["tally"] * 4 + ["combine"]
    monkeypatch.chdir(clinic)  # as copied, but for the keys: both servers are on this machine
    for side in SERVERS:
        (clinic / f"openings-{side}").symlink_to(clinic / f"server-{side}" / f"openings-{side}")
    for _, *words in lines:
        side = words[words.index("--share") + 1] if "--share" in words else None
        key = ["--key", clinic / f"server-{side}" / "server.key"] if side else []
        run(*words, *key, *(["--over-budget"] if "--other" in words else []))
    outcome = ob.Outcome.load(clinic / "outcome")
    assert (sorted(outcome.voted), outcome.without, outcome.ledger.drawn) == (["b", "c"], ("a",), 2)


def test_withdraw_leaves_a_place_for_the_box_that_it_does_not_know(agreed: Path, clinic: Path, monkeypatch) -> None:
    cast(agreed, "a", "b", "c")
    run("combine", *exchange(agreed), "--out", clinic / "outcome")
    monkeypatch.chdir(clinic)
    shown = run("withdraw", "outcome", "a", "--out", "new outcome", status=1).stderr
    assert "oneballot tally election.toml --from BOX --out at-a --share a --without a  # at server a" in shown
    assert "--other at-b/ballots-b.json  # at server a, with the list of b" in shown
    assert "combine at-a/partial-a at-b/partial-b --out 'new outcome' --election election.toml" in shown


def test_a_simulation_of_the_file_runs_both_servers(agreed: Path, clinic: Path) -> None:
    shown = run("simulate", agreed, "--data", clinic / "a.csv", "--parties", "3", "--split", "homogeneous").output
    assert "accuracy" in shown.lower()


def test_the_text_of_a_new_election_names_both_keys_and_says_what_is_missing(clinic: Path) -> None:
    keys = [new_server_key(clinic / f"{side}.key") for side in SERVERS]
    shown = run(
        "new", clinic / "e.toml", "--public", clinic / "public.csv", "--label", "ill", "--tallies", *keys
    ).output
    assert "Two tallies need a roster" in shown
    made = ob.Election.read(clinic / "e.toml")
    assert made.tallies is not None
    assert (made.tallies.a, made.tallies.b) == tuple(keys)
    assert made.method.name == "analytic"
    assert "NOT YET" in run("check", clinic / "e.toml").output


@pytest.mark.parametrize(("level", "unit", "other"), [("L1", "party", "add-remove"), ("L2", "row", "the server")])
def test_a_new_election_says_where_the_noise_is_drawn_and_offers_no_adjacency_that_is_refused(
    level: str, unit: str, other: str, clinic: Path
) -> None:
    keys = [new_server_key(clinic / f"{side}.key") for side in SERVERS]
    run("new", clinic / "e.toml", "--public", clinic / "public.csv", "--label", "ill", "--level", level,
        "--epsilon", "5", "--tallies", *keys)  # fmt: skip
    section = (clinic / "e.toml").read_text("utf-8").partition("[privacy]")[2].partition("[tallies]")[0]
    assert f"two servers add noise to the total: protects a {unit}; trusted not to pool their shares" in section
    assert "noise at " not in section
    assert other not in section
    assert ('"add-remove"' in section) == (level == "L2")
