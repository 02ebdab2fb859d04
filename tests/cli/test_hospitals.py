"""Three hospitals with files as they are, from `new --like` to `benefit`, without public rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oneballot.cli import app

HEADER = ["Fallnr", "Alter", "CRP", "Größe", "Geschlecht", "Datum", "Jahrgang", "Diagnose"]
OTHER = {"Alter": "age", "CRP": "crp_mg_l", "Diagnose": "dx"}
MAP = ("--map", "age=Alter", "--map", "crp_mg_l=CRP", "--map", "dx=Diagnose")
CODES = ("--label-map", "0=gutartig,1=bösartig")
SHIFT = {"gutartig": 0.0, "bösartig": 1.6, "unklar": -3.0}


def run(*words: object, status: int = 0):
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def words(*command: object, status: int = 0) -> str:
    return " ".join(run(*command, status=status).output.split())


def rows(begin: int, diagnoses: list[str], seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    made = []
    for i, diagnosis in enumerate(diagnoses):
        shift = SHIFT[diagnosis]
        day = f"20{rng.integers(21, 24)}-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}"
        crp, size = f"{np.exp(rng.normal(1 + shift, 0.7)):.2f}", f"{rng.normal(20 + 6 * shift, 5):.1f}"
        cells = [f"{begin + i:07d}", str(rng.integers(25, 90)), crp, size, str(rng.choice(["m", "w"])), day, "2024"]
        cells = [
            cell if k in (0, 6) or rng.random() > 0.04 else str(rng.choice(["", "NA"])) for k, cell in enumerate(cells)
        ]
        made.append([*cells, diagnosis])
    return made


def write(name: str, made: list[list[str]], encoding: str, *, sep: str = ";", header: list[str] = HEADER) -> None:
    comma = sep == ";"
    made = [[c.replace(".", ",") if comma and k in (2, 3) else c for k, c in enumerate(row)] for row in made]
    with Path(name).open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=sep).writerows([header, *made])


@pytest.fixture
def hospitals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A with a rare class of 3 rows, B with a single class and German dates, C with 8 rows, other names and codes."""
    monkeypatch.chdir(tmp_path)
    mixed = ["gutartig", "bösartig"] * 60
    write("a.csv", rows(17, [*mixed, *["unklar"] * 3], 1), "utf-8-sig")
    german = rows(5000, ["bösartig"] * 60, 2)
    for row in german:
        row[5] = ".".join(reversed(row[5].split("-")))
    write("b.csv", german, "cp1252")
    few = [[*row[:-1], str(int(row[-1] == "bösartig"))] for row in rows(9000, mixed[:8], 3)]
    write("c.csv", few, "utf-8", sep=",", header=[OTHER.get(name, name) for name in HEADER])
    write("test.csv", rows(20_000, mixed, 4), "utf-8-sig")


@pytest.mark.slow
def test_three_messy_hospitals_end_with_a_model_and_know_what_it_is_worth(hospitals: None) -> None:
    shown = words("new", "election.toml", "--like", "a.csv", "--label", "Diagnose")
    assert "Fallnr left out identifier" in shown
    assert "Jahrgang left out constant: always 2024" in shown
    assert "the rarest class is unklar, with 3 rows (2.4 %)" in shown
    assert words("election", "set", "election.toml", "quorum=2").startswith("quorum: 1 → 2")

    shown = words("check", "election.toml", "--data", "b.csv")
    assert "none of gutartig, unklar" in shown
    assert "not dates" not in shown
    assert "missing columns 'Alter', 'CRP', 'Diagnose'" in words("check", "election.toml", "--data", "c.csv", status=1)

    cast = ("cast", "election.toml", "--to", "box", "--party")
    assert "models to train: 2" in words(*cast, "Klinik Köln", "--data", "a.csv", "--dry-run")
    run(*cast, "Klinik Köln", "--data", "a.csv")
    run(*cast, "Haus B", "--data", "b.csv")
    run(*cast, "c", "--data", "c.csv", *MAP, *CODES)
    shown = words("tally", "election.toml", "--from", "box", "--out", "outcome")
    assert shown.count("counted") == 3
    assert "the final model cannot be judged here" in shown

    assert json.loads(run("evaluate", "outcome", "--data", "test.csv", "--json").stdout)["accuracy"] > 0.75
    run("predict", "outcome", "--data", "test.csv", "--out", "p.csv", "--id", "Fallnr")
    lines = Path("p.csv").read_text("utf-8").splitlines()
    assert lines[0] == "Fallnr,prediction,p_bösartig,p_gutartig,p_unklar"
    assert lines[1].startswith("0020000,")

    benefit = ("benefit", "outcome", "--election", "election.toml", "--party")
    assert "Tested on 123 rows of yours" in words(*benefit, "Klinik Köln", "--data", "a.csv")
    assert "All your rows are of class bösartig" in words(*benefit, "Haus B", "--data", "b.csv")
    assert "8 rows are too few to compare" in words(*benefit, "c", "--data", "c.csv", *MAP, *CODES, status=1)
