"""A party's own file: other names of columns and labels, and the check before a cast."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneballot.cli import app


def run(*words: object, status: int = 0):
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def run_json(*words: object, status: int = 0) -> dict:
    return json.loads(run(*words, "--json", status=status).stdout)


def words(*command: object, status: int = 0) -> str:
    return " ".join(run(*command, status=status).output.split())


HEADER = ("patient", "age", "smoker", "ill")
ROWS = [(f"p{i // 2}", 20 + i % 60, ["yes", "no"][i % 2], ["healthy", "sick"][i % 60 > 30]) for i in range(120)]


def write(name: str, header: tuple[str, ...] = HEADER, rows: list[tuple] | None = None) -> None:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *(rows or ROWS)])


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch) -> Path:
    """An election over age and smoker, and a party whose file has other names and codes."""
    monkeypatch.chdir(tmp_path)
    write("public.csv")
    run("new", "election.toml", "--public", "public.csv", "--label", "ill", "--id", "patient", "--method", "fedkt",
        "--strict")  # fmt: skip
    toml = Path("election.toml")
    toml.write_text(toml.read_text().replace("n_estimators = 100", "n_estimators = 5"))
    write("ours.csv")
    codes = {"healthy": 0, "sick": 1}
    write(
        "theirs.csv", ("Fall", "Alter (J)", "smoker", "Diagnose", "Station"), [(*r[:3], codes[r[3]], 7) for r in ROWS]
    )
    Path("party.toml").write_text("""
[mapping.columns]
Fall = "patient"
"Alter (J)" = "age"
Diagnose = "ill"
[mapping.labels]
0 = "healthy"
1 = "sick"
""")
    return tmp_path


MAPS = ("--map", "Fall=patient", "--map", "Alter (J)=age", "--map", "Diagnose=ill", "--label-map", "0=healthy,1=sick")


@pytest.mark.parametrize("options", [MAPS, ("--mapping", "party.toml")], ids=["options", "file"])
def test_a_file_with_other_names_gives_the_same_ballot(options: tuple[str, ...]) -> None:
    same = ("cast", "election.toml", "--party", "a")
    one = run_json(*same, "--data", "ours.csv", "--keep", "one")
    two = run_json(*same, "--data", "theirs.csv", "--keep", "two", *options)
    assert one["digest"] == two["digest"]


def test_predict_evaluate_and_simulate_take_a_mapping_too() -> None:
    for party in "ab":
        run("cast", "election.toml", "--party", party, "--data", "ours.csv", "--to", "box", "--keep", party)
    run("tally", "election.toml", "--from", "box", "--out", "outcome")
    for command in ("predict", "evaluate"):
        ours = run_json(command, "outcome", "--data", "ours.csv")
        assert ours == run_json(command, "outcome", "--data", "theirs.csv", "--mapping", "party.toml")
    options = ("--parties", 2, "--split", "homogeneous", "--no-compare")
    ours = run_json("simulate", "election.toml", "--data", "ours.csv", *options)
    theirs = run_json("simulate", "election.toml", "--data", "theirs.csv", "--mapping", "party.toml", *options)
    assert ours["accuracy"] == theirs["accuracy"]


def test_an_option_overrides_the_file() -> None:
    write("odd.csv", ("Fall", "Jahre", "smoker", "Diagnose"), ROWS)
    said = words("check", "election.toml", "--data", "odd.csv", "--mapping", "party.toml", status=1)
    assert "the file has no column 'Alter (J)'" in said
    Path("party.toml").write_text('[mapping.columns]\nFall = "patient"\nDiagnose = "ill"\n')
    run("check", "election.toml", "--data", "odd.csv", "--mapping", "party.toml", "--map", "Jahre=age")


def test_check_reports_what_a_cast_would_make_of_a_file() -> None:
    found = run_json("check", "election.toml", "--data", "theirs.csv", *MAPS)["data"]
    assert found["rows"] == 120
    assert found["patients"] == 60
    assert found["rows_per_class"] == {"healthy": 62, "sick": 58}
    assert found["ignored_columns"] == ["Station"]
    assert found["abstains"] is None
    said = words("check", "election.toml", "--data", "theirs.csv", *MAPS)
    assert "your file: theirs.csv, 120 rows of 60 patients (IDs)" in said
    assert "its classes: healthy: 62, sick: 58" in said
    assert "not used: Station" in said
    assert "you would: cast votes on 120 public rows" in said
    assert not list(Path().glob("ballots*"))


def test_check_counts_values_that_are_clipped_and_missing() -> None:
    Path("election.toml").unlink()
    run("new", "election.toml", "--public", "public.csv", "--label", "ill", "--id", "patient")
    write("odd.csv", rows=[("x", 500, "", "sick"), ("y", "", "maybe", "sick"), *ROWS])
    found = run_json("check", "election.toml", "--data", "odd.csv")["data"]
    assert {(each["column"], each["how"]): each["values"] for each in found["odd_values"]} == {
        ("age", "clipped"): 1, ("age", "missing"): 1, ("smoker", "missing"): 1, ("smoker", "unseen"): 1,
    }  # fmt: skip
    assert "age: 1 value clipped" in words("check", "election.toml", "--data", "odd.csv")


def test_all_missing_columns_are_reported_at_once_with_near_matches() -> None:
    write("odd.csv", ("patients", "Age", "smoke", "il"), ROWS)
    for command in (("check", "election.toml"), ("cast", "election.toml", "--party", "a")):
        said = words(*command, "--data", "odd.csv", status=1)
        for name in ("'age'", "'smoker' (did you mean 'smoke'?)", "'patient' (did you mean 'patients'?)", "'ill'"):
            assert name in said
        assert "The schema needs 'ill' for the label. The schema needs 'patient' for the row ID." in said
        assert "--map YOURS=OURS" in said


def test_all_odd_values_are_reported_at_once() -> None:
    write("odd.csv", rows=[("x", 500, "maybe", "unknown"), *ROWS])
    said = words("check", "election.toml", "--data", "odd.csv", status=1)
    assert "column 'age': row 1 ('500') is outside the range" in said
    assert "column 'smoker': row 1 ('maybe') is none of the 2 categories" in said
    assert "column 'ill': row 1 ('unknown') is not a class of the election" in said


def test_check_says_that_a_party_would_abstain() -> None:
    toml = Path("election.toml")
    text = toml.read_text()
    start, end = text.index("[method]"), text.index("[privacy]")
    method = '[method]\nname = "ensemble"\nmin_rows = 500\n\n[learners.all]\nname = "sklearn"\n\n'
    toml.write_text(text[:start] + method + text[end:])
    found = run_json("check", "election.toml", "--data", "ours.csv")
    assert "fewer than min_rows = 500 rows" in found["data"]["abstains"]
    shown = words("check", "election.toml", "--data", "ours.csv")
    assert "you would: ABSTAIN: it has fewer than min_rows = 500 rows" in shown


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--map", "Alter"), "--map Alter: write YOURS=OURS"),
        (("--map", "Altr (J)=age"), "the file has no column 'Altr (J)'; did you mean 'Alter (J)'?"),
        (("--map", "Fall=patients"), "the election has no column 'patients'; did you mean 'patient'?"),
        (("--map", "Fall=age", "--map", "Station=age"), "--map: 'age' is given twice"),
        (("--label-map", "0=healthy,0=sick"), "--label-map: '0' is given twice"),
        (("--mapping", "none.toml"), "the mapping none.toml cannot be read"),
        (("--mapping", "election.toml"), "election.toml: expected [mapping.columns]"),
    ],
)
def test_a_mapping_that_does_not_fit_is_explained(options: tuple[str, ...], why: str) -> None:
    assert why in words("check", "election.toml", "--data", "theirs.csv", *options, status=1)


def test_a_column_that_a_mapping_replaces_is_mentioned() -> None:
    write("odd.csv", (*HEADER, "Alter"), [(*row, 30) for row in ROWS])
    said = words("check", "election.toml", "--data", "odd.csv", "--map", "Alter=age")
    assert "its own column age is not used, because --map names another" in said
