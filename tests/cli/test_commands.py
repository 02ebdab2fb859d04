"""The commands as people run them: two parties and a server share nothing but files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.cli.terminal import session
from oneballot.errors import OneBallotWarning
from oneballot.privacy.mechanisms import NoisyArgmax, round_up


def run(*words: object, status: int = 0):
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def oneballot(*words: object, status: int = 0) -> str:
    return run(*words, status=status).output


def run_json(*words: object, status: int = 0) -> dict:
    return json.loads(run(*words, "--json", status=status).stdout)


@pytest.fixture
def agreed(clinic: Path, monkeypatch) -> Path:
    """One folder per organisation with the election and the public set; a party's folder also has its rows."""
    monkeypatch.chdir(clinic)
    keys = {name: run_json("keys", "new", f"clinic-{name}", "--dir", clinic / f"at-{name}") for name in "ab"}
    oneballot("new", clinic / "election.toml", "--public", clinic / "public.csv", "--label", "ill")
    text = (clinic / "election.toml").read_text().replace("n_estimators = 100", "n_estimators = 10")
    roster = "\n".join(f'{k["party"]} = "{k["public"]}"' for k in keys.values())
    text = text.replace('# clinic-a = "ed25519:…"', roster).replace("quorum = 1 ", "quorum = 2 ")
    for place in ("at-a", "at-b", "server"):
        folder = clinic / place
        folder.mkdir(exist_ok=True)
        (folder / "election.toml").write_text(text)
        (folder / "public.csv").write_bytes((clinic / "public.csv").read_bytes())
    for name in "ab":
        (clinic / f"{name}.csv").rename(clinic / f"at-{name}" / "rows.csv")
    return clinic


def cast(agreed: Path, name: str, monkeypatch, *more: object) -> dict:
    monkeypatch.chdir(agreed / f"at-{name}")
    return run_json("cast", "election.toml", "--party", f"clinic-{name}", "--data", "rows.csv", *more)


def test_two_parties_and_a_server_run_an_election_with_files_only(agreed: Path, monkeypatch) -> None:
    for name in "ab":
        assert cast(agreed, name, monkeypatch, "--to", agreed / "box")["delivered"]
    monkeypatch.chdir(agreed / "server")
    output = oneballot("tally", "election.toml", "--from", agreed / "box", "--out", "outcome")
    assert "clinic-a" in output
    assert "counted" in output
    seen = oneballot("inspect", agreed / "box" / "clinic-a.ballot", "--election", "election.toml")
    assert "valid, of clinic-a" in seen
    score = run_json("evaluate", "outcome", "--data", agreed / "test.csv")
    assert score["accuracy"] > 0.85
    predictions = oneballot("predict", "outcome", "--data", agreed / "test.csv").splitlines()
    assert predictions[0] == "row,prediction,p_no,p_yes"
    assert len(predictions) == 201
    oneballot("predict", "outcome", "--data", agreed / "test.csv", "--out", "p.csv")
    assert Path("p.csv").read_text().splitlines() == predictions


def test_a_quorum_that_is_not_met_leaves_no_outcome(agreed: Path, monkeypatch) -> None:
    cast(agreed, "a", monkeypatch, "--to", agreed / "box")
    monkeypatch.chdir(agreed / "server")
    error = run_json("tally", "election.toml", "--from", agreed / "box", "--out", "outcome", status=1)
    assert error["kind"] == "QuorumError"
    assert not Path("outcome").exists()
    cast(agreed, "b", monkeypatch, "--to", agreed / "box")
    monkeypatch.chdir(agreed / "server")
    done = run_json("tally", "election.toml", "--from", agreed / "box", "--out", "outcome")
    assert done["counted"] == ["clinic-a", "clinic-b"]


def test_a_spoiled_ballot_and_an_excluded_party_are_reported(agreed: Path, monkeypatch) -> None:
    for name in "ab":
        cast(agreed, name, monkeypatch, "--to", agreed / "box")
    monkeypatch.chdir(agreed / "server")
    (agreed / "box" / "zz.ballot").write_bytes(b"nonsense")
    assert "SPOILED" in oneballot("tally", "election.toml", "--from", agreed / "box", "--out", "outcome")
    text = Path("election.toml").read_text().replace("quorum = 2 ", "quorum = 1 ")
    Path("election.toml").write_text(text)
    done = run_json("tally", "election.toml", "--from", agreed / "box", "--out", "outcome", "--without", "clinic-b")
    assert done["counted"] == ["clinic-a"]
    assert list(done["spoiled"]) == ["zz"]
    assert done["without"] == ["clinic-b"]


def test_markup_in_a_ballot_is_printed_literally(agreed: Path, monkeypatch) -> None:
    from oneballot.ballot.keys import read_key
    from oneballot.ballot.seal import seal
    from oneballot.election.election import Election

    cast(agreed, "a", monkeypatch, "--to", agreed / "box")
    monkeypatch.chdir(agreed / "server")
    text = Path("election.toml").read_text().replace("quorum = 2 ", "quorum = 1 ")
    Path("election.toml").write_text(text)
    key = read_key(agreed / "at-b" / "clinic-b.key")
    ballot = seal({}, Election.read("election.toml"), "clinic-b", key=key, reason="[/x] [red]")
    (agreed / "box" / "clinic-b.ballot").write_bytes(ballot.sealed)
    assert "abstains: [/x] [red]" in oneballot("tally", "election.toml", "--from", agreed / "box", "--out", "outcome")


def test_a_dry_run_describes_the_ballot_and_sends_nothing(agreed: Path, monkeypatch) -> None:
    plan = cast(agreed, "a", monkeypatch, "--to", agreed / "box", "--dry-run")
    assert plan["models_to_train"] == 3  # a model and two claim models
    assert plan["signed_with"].startswith("ed25519:")
    assert not (agreed / "box").exists()


def test_simulate_compares_alone_together_and_the_outcome(clinic: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinic)
    oneballot("new", "election.toml", "--public", "public.csv", "--label", "ill", "--method", "fedkt")
    text = Path("election.toml").read_text()
    Path("election.toml").write_text(text.replace("n_estimators = 100", "n_estimators = 10"))
    args = ("simulate", "election.toml", "--data", "a.csv", "--parties", 3, "--split", "homogeneous")
    result = run_json(*args, "--test", "test.csv", "--out", "run")
    assert list(result["accuracy"]) == ["alone", "best", "outcome", "together"]
    assert result["accuracy"]["alone"] <= result["accuracy"]["best"]
    for metrics in result["metrics"].values():
        assert 0.5 < metrics["auc"] <= 1
        assert 0 < metrics["brier"] < 0.5
    assert result["metrics"]["outcome"]["intervals"]["accuracy"][0] < result["accuracy"]["outcome"]
    assert result["gain"]["sentences"]
    assert result["gain"]["parties"].keys() == {"party-1", "party-2", "party-3"}
    assert len(result["counted"]) == 3
    assert len(list(Path("run/box").glob("*.ballot"))) == 3
    assert run_json("evaluate", "run/outcome", "--data", "test.csv")["accuracy"] == result["accuracy"]["outcome"]
    by_ward = run_json("simulate", "election.toml", "--data", "a.csv", "--split", "column:ward", "--no-compare")
    assert len(by_ward["counted"]) == 2
    output = oneballot(*args)
    for part in ("mean party", "best party (party-", "federation (fedkt)", "pooled data (upper bound)", "AUC"):
        assert part in output
    assert "The federation is" in output


def test_new_refuses_to_overwrite_and_needs_classes_without_labels(clinic: Path) -> None:
    args = ("new", clinic / "election.toml", "--public", clinic / "public.csv", "--label")
    assert "give them with --classes" in run_json(*args, "sick", status=1)["error"]
    assert run_json(*args, "sick", "--classes", "no,yes")["classes"] == ["no", "yes"]
    assert "not overwritten" in run_json(*args, "sick", "--classes", "no,yes", status=1)["error"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("tally", "nowhere.toml", "--from", "box", "--out", "o"), "there is no election nowhere.toml"),
        (("predict", "nowhere", "--data", "x.csv"), "there is no outcome in nowhere"),
        (("inspect", "nowhere.ballot"), "cannot read nowhere.ballot"),
        (("keys", "new", "../evil"), "party name"),
        (("predict", "a.txt", "--data", "x.csv"), "a.txt is a file; expected the folder of an outcome"),
        (("tally", ".", "--from", "box", "--out", "o"), "is a folder; expected the file of an election"),
    ],
)
def test_an_error_is_a_sentence_with_exit_status_1(words, error: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").touch()
    assert error in oneballot(*words, status=1)
    assert error in run_json(*words, status=1)["error"]


COMMANDS = (
    *("demo", "new", "keys new", "cast", "tally", "inspect", "predict"),
    *("benefit", "evaluate", "simulate", "epsilon", "check", "audit", "compare"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command: str) -> None:
    output = oneballot(*command.split(), "--help")
    assert f"Example: oneballot {command}" in " ".join(output.split())
    assert "--json" in output


def test_the_demo_runs_and_its_files_work(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run_json("demo", "--parties", 4)
    alone, best, paper, votes, opened, together = (row["accuracy"] for row in shown["results"])
    assert alone < best < opened
    assert paper < votes < together
    assert opened > 0.9
    assert all(Path(path).exists() for path in shown["saved"].values())
    assert run_json("evaluate", "demo/outcome", "--data", "demo/test.csv")["accuracy"] == opened
    text = " ".join(unescape(re.sub("<[^>]*>", " ", Path("demo/report.html").read_text("utf-8"))).split())
    assert f"the best party's own model (chosen on these rows) {best:.1%}".replace("%", " %") in text
    assert re.search(r"tally \d+\.\d s at the server", text)
    assert json.loads(Path("demo/dossier.json").read_text())["seconds"] > 0
    assert run_json("log", "demo/outcome")["intact"]


@pytest.mark.slow
def test_the_demo_prints_tables(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "Rows per class at each party" in oneballot("demo", "--parties", 2)


def test_the_installed_command_starts(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("oneballot")
    output = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    assert "casts" in output


def test_a_damaged_outcome_is_recounted_and_one_of_another_election_is_kept(agreed: Path, monkeypatch) -> None:
    for name in "ab":
        cast(agreed, name, monkeypatch, "--to", agreed / "box")
    monkeypatch.chdir(agreed / "server")
    tally = ("tally", "election.toml", "--from", agreed / "box", "--out", "outcome")
    oneballot(*tally)
    next(Path("outcome").glob("count-*")).write_bytes(b"damaged")
    assert "all ballots are counted again" in oneballot(*tally)
    oneballot(*tally)
    Path("election.toml").write_text(Path("election.toml").read_text().replace("seed = 0", "seed = 1"))
    assert "outcome of another election" in run_json(*tally, status=1)["error"]


def test_rows_to_predict_may_have_a_blank_label(clinic: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinic)
    oneballot("new", "election.toml", "--public", "public.csv", "--label", "ill")
    oneballot("simulate", "election.toml", "--data", "a.csv", "--parties", 2, "--no-compare", "--out", "run")
    Path("new.csv").write_text("age,dose,ward,ill\n50,0.5,north,\n")
    assert len(run_json("predict", "run/outcome", "--data", "new.csv")["labels"]) == 1


def test_predictions_keep_the_ids_and_give_a_probability_for_each_class(clinic: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinic)
    for name in ("public", "a", "test"):
        header, *rows = Path(f"{name}.csv").read_text().splitlines()
        numbered = [f"visit,{header}", *(f"V{i},{row}" for i, row in enumerate(rows))]
        Path(f"{name}.csv").write_text("\n".join(numbered) + "\n")
    oneballot("new", "election.toml", "--public", "public.csv", "--label", "ill", "--id", "visit")
    oneballot("simulate", "election.toml", "--data", "a.csv", "--parties", 2, "--no-compare", "--out", "run")
    labelled = oneballot("predict", "run/outcome", "--data", "test.csv").splitlines()
    assert labelled[0] == "visit,prediction,p_no,p_yes"
    for i, line in enumerate(labelled[1:]):
        visit, prediction, *chances = line.split(",")
        assert visit == f"V{i}"
        assert prediction == ("no", "yes")[float(chances[1]) > float(chances[0])]
        assert sum(map(float, chances)) == pytest.approx(1, abs=1e-4)
    found = run_json("predict", "run/outcome", "--data", "test.csv")
    assert found["ids"][:2] == ["V0", "V1"]
    assert found["classes"] == ["no", "yes"]
    rows = [line.split(",") for line in Path("test.csv").read_text().splitlines()]
    Path("new.csv").write_text("".join(f"{dose},{ward},{age}\n" for _, age, dose, ward, _ in rows))
    unlabelled = oneballot("predict", "run/outcome", "--data", "new.csv").splitlines()
    numbered = [line.partition(",") for line in unlabelled]
    assert [line[2] for line in numbered] == [line.partition(",")[2] for line in labelled]
    assert [line[0] for line in numbered] == ["row", *map(str, range(1, len(rows)))]


def test_an_operating_system_error_is_a_sentence(clinic: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinic)
    args = ("--public", "public.csv", "--label", "ill")
    assert "File name too long" in run_json("new", "e" * 300, *args, status=1)["error"]
    assert run_json("new", "nowhere/e.toml", *args, status=1)["error"] == "there is no folder nowhere; create it first"


def test_the_demo_does_not_touch_another_election(clinic: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinic)
    oneballot("new", "election.toml", "--public", "public.csv", "--label", "ill")
    before = Path("election.toml").read_bytes()
    assert "another election" in run_json("demo", "--out", ".", status=1)["error"]
    assert Path("election.toml").read_bytes() == before


def test_the_rarest_class_is_one_of_the_election(clinic: Path) -> None:
    lines = ["x,ill", *(f"{i},{'yes' if i % 2 else 'no'}" for i in range(40)), "7,perhaps"]
    (clinic / "more.csv").write_text("\n".join(lines))
    args = ("new", clinic / "more.toml", "--like", clinic / "more.csv", "--label", "ill", "--classes", "no,yes")
    assert "40 rows have a label; the rarest class is no, with 20 rows (50.0 %)." in oneballot(*args)


def test_an_example_without_the_label_is_pointed_out(clinic: Path) -> None:
    args = ("new", clinic / "other.toml", "--label", "outcome", "--classes", "no,yes")
    assert "has no column 'outcome', which every party's file needs" in run(*args, "--like", clinic / "a.csv").stderr
    (clinic / "other.toml").unlink()
    assert "outcome" not in run(*args, "--public", clinic / "public.csv").stderr  # public rows have no labels


def test_a_typo_in_new_is_reported_and_leaves_no_file(clinic: Path) -> None:
    args = ("new", clinic / "election.toml", "--public", clinic / "public.csv")
    assert "did you mean 'ill'" in run_json(*args, "--label", "il", "--classes", "no,yes", status=1)["error"]
    assert "no such column" in run_json(*args, "--label", "ill", "--id", "patient", status=1)["error"]
    assert "at least two" in run_json(*args, "--label", "ill", "--classes", "yes,", status=1)["error"]
    assert not (clinic / "election.toml").exists()
    assert [p for p in clinic.iterdir() if p.name.startswith(".")] == []


def test_results_go_to_stdout_while_progress_is_on_the_terminal(clinic: Path) -> None:
    """With a terminal as stderr and a file as stdout, the file contains the result and nothing else."""
    import os
    import pty

    oneballot("new", clinic / "election.toml", "--public", clinic / "public.csv", "--label", "ill")
    words = ("simulate", "election.toml", "--data", "a.csv", "--parties", "3", "--json")
    command = [sys.executable, "-m", "oneballot", *words]
    master, slave = pty.openpty()
    with (clinic / "out.json").open("wb") as out:
        done = subprocess.Popen(command, cwd=clinic, stdout=out, stderr=slave)
        os.close(slave)
        seen = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            if not part:
                break
            seen += part
        assert done.wait(60) == 0
    assert json.loads((clinic / "out.json").read_text())["accuracy"]
    assert b"training" in seen


def test_help_has_no_stray_backslashes_and_the_version_is_printed() -> None:
    assert "\\[" not in oneballot("cast", "--help")
    assert oneballot("--version").startswith("oneballot ")


class TestEpsilon:
    KEYS = {  # noqa: RUF012
        *("epsilon", "delta", "unit", "adjacency", "adjacency_means", "accountant", "publishable", "mechanism"),
        *("scale", "queries"),
    }

    def test_noise_and_queries_give_epsilon_and_its_definition(self) -> None:
        result = run_json(
            "epsilon", "--gamma", 0.04, "--queries", 40, "--level", "L2", "--partitions", 2, "--accountant", "rdp"
        )
        assert result.keys() == self.KEYS
        assert round(result["epsilon"], 4) == 1.4718
        definition = [result[key] for key in ("unit", "adjacency", "mechanism", "scale")]
        assert definition == ["patient", "replace", "laplace", 25]
        paper = run_json("epsilon", "--mechanism", "laplace", "--gamma", 0.04, "--queries", 40, "--accountant", "paper")
        assert round(paper["epsilon"], 2) == 2.59

    def test_a_budget_gives_the_noise_or_the_queries(self) -> None:
        noise = run_json("epsilon", "--epsilon", 2, "--queries", 1000, "--classes", 10, "--mechanism", "gumbel")
        assert round(noise["scale"], 2) == 63.04
        bought = run_json("epsilon", "--epsilon", 2, "--scale", noise["scale"], "--classes", 10)
        assert bought["queries"] == 1000

    @pytest.mark.parametrize(
        ("words", "error"),
        [
            (("--epsilon", 2), "give two of"),
            (("--gamma", 1), "add --queries to compute"),
            (("--gamma", 1, "--sigma", 1, "--queries", 5), "give one noise scale"),
            (("--gamma", 1, "--mechanism", "gumbel", "--queries", 5), "--gamma is laplace noise"),
            (("--gamma", 1, "--queries", 5, "--epsilon", 1), "leave out the one to compute"),
            (("--gamma", 1, "--queries", 5, "--delta", 1), "delta must lie between 0 and 1"),
            (("--sigma", 1, "--queries", 5, "--accountant", "paper"), "Laplace noise only"),
            (("--scale", 0.1, "--epsilon", 0.01), "a single query costs"),
            (("--sigma", -1, "--queries", 5), "must be a number from"),
        ],
    )
    def test_invalid_questions_are_rejected_with_the_reason(self, words, error: str) -> None:
        assert error in run_json("epsilon", *words, status=1)["error"]

    def test_a_table_and_a_picture_are_available_on_request(self, tmp_path: Path) -> None:
        picture = tmp_path / "epsilon.png"
        output = oneballot("epsilon", "--sigma", 40, "--queries", 100, "--compare", "--picture", picture)
        assert "publish" in output
        assert "gumbel" in output
        assert picture.read_bytes().startswith(b"\x89PNG")


class TestPrivacy:
    @pytest.fixture
    def private(self, clinic: Path, monkeypatch) -> Path:
        monkeypatch.chdir(clinic)
        output = oneballot(
            "new", "election.toml", "--public", "public.csv", "--label", "ill", "--level", "L2", "--epsilon", 4
        )
        assert "When all 25 teachers of a party agree" in output
        text = (
            Path("election.toml")
            .read_text()
            .replace('estimator = "RandomForestClassifier"', 'estimator = "GaussianNB"')
        )
        Path("election.toml").write_text(text.replace("params = { n_estimators = 100 }", "params = {}"))
        return clinic

    def at_l1(self, clinic: Path) -> None:
        text = (clinic / "election.toml").read_text()
        public = run_json("keys", "new", "server", "--for-server", "--dir", clinic)["public"]
        text = text.replace('# server_key = "x25519:…"', f'server_key = "{public}"')
        (clinic / "election.toml").write_text(text.replace('level = "L2"', 'level = "L1"'))

    def test_the_privacy_loss_at_l2_is_reported_from_draft_to_outcome(self, private: Path) -> None:
        output = " ".join(oneballot("check", "election.toml").split())
        for words in ("epsilon 4 at delta 1e-05 for each row", "adjacency replace", "25 teachers of a party"):
            assert words in output
        dry = run_json("cast", "election.toml", "--party", "a", "--data", "a.csv", "--dry-run")
        assert "epsilon 4" in dry["privacy_spent"]
        done = run_json("cast", "election.toml", "--party", "a", "--data", "a.csv", "--to", "box")
        assert done["privacy"]["epsilon"] == pytest.approx(4, rel=1e-3)
        shown = " ".join(oneballot("inspect", "box/a.ballot", "--election", "election.toml").split())
        assert "epsilon 4 at delta 1e-05 for each row" in shown
        tallied = " ".join(oneballot("tally", "election.toml", "--from", "box", "--out", "outcome").split())
        assert "epsilon 4 at delta 1e-05 for each row" in tallied
        assert run_json("tally", "election.toml", "--from", "box", "--out", "o2")["privacy"]["unit"] == "row"

    def test_the_privacy_losses_of_recasts_add_up(self, private: Path) -> None:
        for number in (1, 2, 3):
            done = run_json("cast", "election.toml", "--party", "a", "--data", "a.csv", "--recast")
            assert done["privacy"]["drawn"] == number
        assert done["privacy"]["epsilon"] > 7
        again = run_json("cast", "election.toml", "--party", "a", "--data", "a.csv", "--to", "box")
        assert not again["trained"]
        assert again["digest"] == done["digest"]
        away = ("cast", "election.toml", "--party", "a", "--data", "a.csv", "--keep", "elsewhere")
        assert "records a cast of a in this election" in run_json(*away, status=1)["error"]
        assert "cast number 4" in run_json(*away, "--recast", "--dry-run")["privacy_spent"]
        assert run_json(*away, "--recast")["privacy"]["drawn"] == 4
        assert "nothing more" in run_json(*away, "--dry-run")["privacy_spent"]
        stale = run_json("cast", "election.toml", "--party", "a", "--data", "a.csv", "--to", "box2", status=1)
        assert "its ledger is too small" in stale["error"]
        Path("full").write_text("a file")
        for keep in ("full", "full/in"):
            lost = run_json("cast", "election.toml", "--party", "new", "--data", "a.csv", "--keep", keep, status=1)
            assert keep in lost["error"]
        assert not Path("new.casts.json").exists()

    def test_an_empty_file_casts_a_ballot_at_l2(self, private: Path) -> None:
        Path("none.csv").write_text(Path("a.csv").read_text().splitlines()[0] + "\n")
        done = run_json("cast", "election.toml", "--party", "none", "--data", "none.csv", "--to", "box")
        assert done["delivered"]
        assert done["abstained"] is None

    def test_repeated_l1_tallies_are_recorded_beside_the_election(self, private: Path) -> None:
        self.at_l1(private)
        for party in "ab":
            oneballot("cast", "election.toml", "--party", party, "--data", f"{party}.csv", "--to", "box")
        first = run_json("tally", "election.toml", "--from", "box", "--out", "one", "--publish", "public")
        assert Path("tallies.json").exists()
        kept = run("tally", "election.toml", "--from", "box", "--out", "one")
        assert "is left unchanged" in kept.output
        refused = run_json("tally", "election.toml", "--from", "box", "--out", "one", "--again", status=1)
        assert "tally number 2" in refused["error"]
        Path("copy.toml").write_text(Path("election.toml").read_text())
        for name in ("election.toml", "copy.toml"):
            refused = run_json("tally", name, "--from", "box", "--out", "elsewhere", status=1)
            assert "--again and --over-budget" in refused["error"]
        assert not Path("elsewhere").exists()
        assert run_json("tally", "election.toml", "--from", "box", "--out", "one")["privacy"] == first["privacy"]
        second = run_json("tally", "election.toml", "--from", "box", "--out", "elsewhere", "--over-budget", "--again")
        assert second["privacy"]["drawn"] == 2
        later = run_json("tally", "election.toml", "--from", "box", "--out", "one", "--publish", "later")
        assert later["privacy"] == second["privacy"]
        assert json.loads(Path("later/outcome.json").read_text())["privacy"]["drawn"] == 2
        assert second["privacy"]["epsilon"] > first["privacy"]["epsilon"]
        assert "ballot" not in "".join(p.name for p in Path("public").iterdir())
        assert "a.ballot" not in Path("public/outcome.json").read_text()
        assert run_json("evaluate", "public", "--data", "test.csv")["rows"] > 0

    def test_an_l1_tally_that_cannot_be_saved_is_rejected_before_it_is_charged(self, private: Path) -> None:
        self.at_l1(private)
        for party in "ab":
            oneballot("cast", "election.toml", "--party", party, "--data", f"{party}.csv", "--to", "box")
        tally = ("tally", "election.toml", "--from", "box", "--out")
        Path("file").touch()
        assert "Not a directory" in run_json(*tally, "file/in", status=1)["error"]
        for publish in ("one", "box", "./one/../one", "one/public", "box/public"):
            assert "separate folders" in run_json(*tally, "one", "--publish", publish, status=1)["error"]
        assert not Path("tallies.json").exists()
        assert run_json(*tally, "one", "--publish", "public")["published"] == "public"
        assert "confirm with --again" in run_json(*tally, "one", "--without", "a", status=1)["error"]
        assert "written by --publish" in run_json(*tally, "public", status=1)["error"]
        assert json.loads(Path("tallies.json").read_text())["draws"].popitem()[1] == 1

    def test_l1_options_are_rejected_at_l2(self, private: Path) -> None:
        oneballot("cast", "election.toml", "--party", "a", "--data", "a.csv", "--to", "box")
        for option in ("--again", "--over-budget", "--data-dependent"):
            refused = run_json("tally", "election.toml", "--from", "box", "--out", "outcome", option, status=1)
            assert "are for L1" in refused["error"]

    @pytest.mark.slow
    def test_the_audit_prints_its_result(self, private: Path) -> None:
        text = (private / "election.toml").read_text().replace("epsilon = 4.0", "epsilon = 1.0")
        (private / "election.toml").write_text(text)
        output = " ".join(oneballot("audit", "election.toml", "--runs", 5, "--confidence", 0.9999).split())
        assert "almost without noise" in output
        assert "does not refute the claim" in output
        assert "could NOT have noticed" in output
        assert "It did not attack" in output
        result = run_json("audit", "election.toml", "--runs", 5, "--confidence", 0.9999)
        assert result["holds"]
        assert result["levels"][0]["epsilon"] == 0
        assert result["wealth"] < result["refuting_wealth"]
        assert result["without_noise"]["epsilon"] > result["with_noise"]["epsilon"]

    @pytest.mark.slow
    def test_the_audit_refutes_half_of_the_noise(self, private: Path, monkeypatch) -> None:
        honest = NoisyArgmax.draw

        def less(self, *given, **more):
            return honest(replace(self, scale=round_up(self.scale / 2)), *given, **more)

        monkeypatch.setattr(NoisyArgmax, "draw", less)
        output = oneballot("audit", "election.toml", "--runs", 400, status=1)
        assert "THE CLAIM IS REFUTED" in output

    def test_a_level_requires_a_budget(self, clinic: Path, monkeypatch) -> None:
        monkeypatch.chdir(clinic)
        refused = run_json("new", "e.toml", "--public", "public.csv", "--label", "ill", "--level", "L2", status=1)
        assert "need --epsilon" in refused["error"]
        assert not Path("e.toml").exists()


@pytest.mark.parametrize(
    "method",
    [
        *("analytic", "dosfl", "fedkd", "fedkt"),
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("decoder", "dense", "ensemble")),
    ],
)
def test_every_method_goes_from_a_draft_to_a_model(method: str, clinic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clinic)
    Path("election.toml").unlink(missing_ok=True)
    run_json("new", "election.toml", "--public", "public.csv", "--label", "ill", "--method", method, "--lenient")
    run_json("cast", "election.toml", "--party", "a", "--data", "a.csv", "--to", "box")
    assert run_json("tally", "election.toml", "--from", "box", "--out", "outcome")["counted"] == ["a"]
    assert run_json("evaluate", "outcome", "--data", "test.csv")["accuracy"] > 0.5


@pytest.mark.parametrize("method", ["analytic", "dosfl"])
def test_a_method_without_public_rows_needs_only_an_example_of_the_columns(method, clinic: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinic)
    args = ("new", "election.toml", "--like", "public.csv", "--label", "ill", "--lenient", "--method")
    run_json(*args, method)
    Path("public.csv").unlink()
    assert run_json("check", "election.toml")["public_rows"] == 0
    run_json("cast", "election.toml", "--party", "a", "--data", "a.csv", "--to", "box")
    assert run_json("tally", "election.toml", "--from", "box", "--out", "outcome")["counted"] == ["a"]
    assert run_json("evaluate", "outcome", "--data", "test.csv")["accuracy"] > 0.5


def test_a_method_with_public_rows_needs_more_than_an_example_of_the_columns(clinic: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinic)
    args = ("new", "election.toml", "--label", "ill")
    error = run_json(*args, "--method", "fedkt", "--like", "public.csv", status=1)["error"]
    assert error.startswith("method fedkt needs a public set")
    assert "--public FILE" in error
    private = run_json(*args, "--like", "public.csv", "--level", "L1", "--epsilon", 2, status=1)["error"]
    assert private == "at L1 parties vote on public rows: give --public FILE instead of --like"
    for both in ((), ("--like", "public.csv", "--public", "public.csv")):
        assert "give --public FILE, or --like FILE" in run_json(*args, *both, status=1)["error"]
    assert not Path("election.toml").exists()


def test_one_note_of_each_type_is_shown_first(capsys) -> None:
    """A rare note after a dozen similar ones would be missed."""
    with session(False):
        for i in range(12):
            warnings.warn(f"party-{i}: no rows of class {i % 3}", OneBallotWarning, stacklevel=1)
        warnings.warn("member 3 is left out: it answers nonsense", OneBallotWarning, stacklevel=1)
    notes = capsys.readouterr().err.splitlines()
    assert notes[:3] == [
        "note: party-0: no rows of class 0",
        "note: member 3 is left out: it answers nonsense",
        "note: party-1: no rows of class 1",
    ]
    assert notes[6:] == ["note: … and 7 more like these"]
