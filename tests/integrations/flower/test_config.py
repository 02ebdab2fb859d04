"""The files for Flower's commands: their contents, and checks before they are written."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app

pytest.importorskip("flwr", reason="flwr is not installed")

from flwr.cli.config_utils import load_and_validate
from flwr.common.config import parse_config_args

from oneballot.integrations.flower import __file__ as flower_folder
from oneballot.integrations.flower import party, server

PARTIES = ("clinic-a", "clinic-b", "clinic-c")


def oneballot(*words: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result.output


def test_flower_accepts_the_app_and_the_server_reads_its_configuration(clinics: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinics / "server")
    output = oneballot("flower", "new", "app", "--election", "election.toml", "--box", "in", "--out", "of")
    assert ob.Election.read("election.toml").digest in output
    assert "flwr run app SUPERLINK --stream" in output
    config, warnings = load_and_validate(Path("app/pyproject.toml"))
    assert not warnings
    settings = server.RunConfig.read(config["tool"]["flwr"]["app"]["config"])
    home = clinics / "server"
    assert (settings.election, settings.box, settings.outcome) == (home / "election.toml", home / "in", home / "of")
    assert not settings.again
    assert settings.simulated is None
    assert (settings.intervals.poll, settings.intervals.ask_again, settings.intervals.settle) == (2, 60, 15)
    assert "is not overwritten" in oneballot("flower", "new", "app", "--election", "election.toml", status=1)


def test_no_files_are_written_for_an_election_with_two_tallies(two_tallies: Path) -> None:
    reason, home = "an election with two tallies cannot run over Flower", two_tallies / "server"
    node = two_tallies / "clinic-a"
    assert reason in oneballot("flower", "new", two_tallies / "app", "--election", home / "election.toml", status=1)
    words = ("--party", "clinic-a", "--election", node / "election.toml", "--data", node / "rows.csv")
    assert reason in oneballot("flower", "node", node / "node.toml", *words, status=1)
    assert not (two_tallies / "app").exists()
    assert not (node / "node.toml").exists()


def test_the_app_of_a_simulation_checks_and_counts_the_files_of_parties(clinics: Path) -> None:
    folder, election = clinics / "parties", clinics / "server" / "election.toml"
    folder.mkdir()
    words = ("flower", "new", clinics / "app", "--election", election, "--simulate", folder)
    assert "holds no files of parties" in oneballot(*words, status=1)
    for name in ("clinic-a.csv", "clinic-b.csv.gz", "clinic-a.key", ".hidden.csv"):
        (folder / name).write_bytes(b"")
    (folder / "ballots").mkdir()
    assert sorted(party.simulated_parties(folder)) == ["clinic-a", "clinic-b"]
    (folder / "clinic-z.csv").write_bytes(b"")
    assert "clinic-z, which are not on the election's roster" in oneballot(*words, status=1)
    (folder / "clinic-z.csv").unlink()
    assert "num-supernodes=2" in oneballot(*words)


def test_flower_reads_the_settings_of_a_node(clinics: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinics / "clinic-a")
    output = oneballot("flower", "node", "node.toml", "--party", "clinic-a", "--election", "election.toml",
                     "--data", "rows.csv", "--learner", "teacher=xgboost:rounds=7")  # fmt: skip
    assert "and in no other election" in output
    home = clinics / "clinic-a"
    expected = party.NodeConfig("clinic-a", home / "election.toml", home / "rows.csv", home / "ballots",
                          home / "clinic-a.key", ("teacher=xgboost:rounds=7",))  # fmt: skip
    assert party.NodeConfig.read(parse_config_args(["node.toml"]), {}) == expected


def test_a_node_reads_a_file_with_other_names_of_columns_and_labels(clinics: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinics / "clinic-a")
    words = ("flower", "node", "node.toml", "--party", "clinic-a", "--election", "election.toml", "--data", "own.csv")
    header, *rows = Path("rows.csv").read_text("utf-8").splitlines()
    own = [";".join(row.split(",")) for row in [header.replace("age", "Alter (Jahre)"), *rows]]
    Path("own.csv").write_text("\n".join(own), "utf-8")
    assert "age" in oneballot(*words, status=1)
    oneballot(*words, "--map", "Alter (Jahre)=age", "--sep", ";")
    node = party.NodeConfig.read(parse_config_args(["node.toml"]), {})
    assert node.mapping.columns == {"Alter (Jahre)": "age"}
    sealed = party.cast_for_server(node, ob.Election.read("election.toml").digest).sealed
    assert sealed == Path("ballots/clinic-a.ballot").read_bytes()


@pytest.mark.parametrize(
    ("file", "party_name", "more", "words"),
    [
        ("node.txt", "clinic-a", (), "ends in .toml"),
        ("election.toml", "clinic-a", (), "is not overwritten"),
        ("node.toml", "clinic-z", (), "clinic-z is not on the roster"),
        ("node.toml", "clinic-b", (), "requires clinic-b to sign"),
        ("node.toml", "clinic-a", ("--data", "none.csv"), "there is no file none.csv"),
        ("node.toml", "clinic-a", ("--learner", "nonsense"), "nonsense"),
    ],
)
def test_settings_with_which_a_node_could_not_vote_are_refused(
    file: str, party_name: str, more: tuple[str, ...], words: str, clinics: Path, monkeypatch
) -> None:
    monkeypatch.chdir(clinics / "clinic-a")
    given = ("flower", "node", file, "--party", party_name, "--election", "election.toml", "--data", "rows.csv", *more)
    assert words in oneballot(*given, status=1)
    assert not Path("node.toml").exists()


def test_only_public_modules_of_flower_are_imported() -> None:
    text = "".join(path.read_text("utf-8") for path in Path(flower_folder).parent.glob("*.py"))
    used = {line.split()[1] for line in text.splitlines() if line.strip().startswith(("from flwr", "import flwr"))}
    assert used == {"flwr.app", "flwr.clientapp", "flwr.serverapp"}


def test_without_flower_the_commands_name_the_extra(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['flwr'] = None; from oneballot.cli import main; main()"
    words = ["flower", "new", "app", "--election", "election.toml"]
    done = subprocess.run([sys.executable, "-c", hidden, *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'oneballot[flower]'" in done.stderr
    assert tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]["flower"] == ["flwr>=1.41,<1.42"]
