"""Files as hospitals have them: odd values, semicolons, Excel and dates, from `new` to `predict`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oneballot.cli import app

HEADER = ["patient_id", "age", "crp", "ward", "admitted", "country", "zip", "note", "outcome"]


def run(*words: object, status: int = 0):
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def rows(seed: int, count: int = 120) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        age, crp = rng.uniform(18.3, 87.2), rng.exponential(20)
        outcome = "krank" if age / 60 + crp / 40 + rng.normal(0, 0.2) > 1.4 else "gesund"
        day = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{rng.integers(2015, 2024)}"
        ward = str(rng.choice(["Köln", "Ulm"]))
        zipcode = str(rng.choice(["01067", "10115"]))
        cells = [f"P{seed}-{i:05d}", f"{age:.1f}", f"{crp:.2f}", ward, day, "DE", zipcode, f"came by bus {i}", outcome]
        made.append(cells)
    return made


def write(path: Path, made: list[list[str]], encoding: str = "cp1252") -> None:
    lines = [
        ";".join(HEADER),
        *(";".join(c.replace(".", ",") if k in (1, 2) else c for k, c in enumerate(r)) for r in made),
    ]
    path.write_bytes("\r\n".join(lines).encode(encoding))


@pytest.fixture
def hospital(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Semicolons, decimal commas, Windows encoding, D.M.Y dates, IDs, codes and free text."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "public.csv", rows(0))
    for seed, name in enumerate("ab", start=1):
        write(tmp_path / f"{name}.csv", rows(seed))
    return tmp_path


NEW = ("new", "election.toml", "--label", "outcome", "--method", "fedkt", "--public", "public.csv")


def test_a_semicolon_file_with_decimal_commas_works_from_new_to_predict(hospital: Path) -> None:
    result = run(*NEW)
    assert result.stderr.count("\n") == 1
    assert "note: public.csv: detected separator ';', decimal comma, encoding cp1252;" in result.stderr
    for name in "ab":
        done = run("cast", "election.toml", "--party", name, "--data", f"{name}.csv", "--to", "box")
        assert done.stderr.count("detected separator") == 1  # of the party's file; the election states the public one's
        assert "public.csv" not in done.stderr
    run("tally", "election.toml", "--from", "box", "--out", "outcome")
    scores = json.loads(run("evaluate", "outcome", "--data", "b.csv", "--json").stdout)
    assert scores["accuracy"]["value"] > 0.8 if isinstance(scores["accuracy"], dict) else scores["accuracy"] > 0.8
    run("predict", "outcome", "--data", "a.csv", "--out", "predictions.csv")
    assert len(Path("predictions.csv").read_text("utf-8").splitlines()) == 121


def test_new_says_what_it_did_with_each_column(hospital: Path) -> None:
    made = json.loads(run(*NEW, "--json").stdout)
    found = {column["name"]: (column["kind"], column["note"]) for column in made["columns"]}
    assert found["patient_id"] == ("left out", "identifier: 120 different values; as row ID: --id patient_id")
    assert found["age"][0] == found["crp"][0] == "number"
    assert found["ward"] == ("category", "Köln, Ulm")
    assert found["admitted"][0] == "date"
    assert found["admitted"][1].endswith("written DMY")
    assert found["country"] == ("left out", "constant: always DE")
    assert found["zip"] == ("category", "codes with leading zeros: 01067, 10115")
    assert found["note"] == ("left out", "free text: 120 different values; to use its words: --text note")
    assert found["outcome"][0] == "label"
    assert sum(made["labels"].values()) == 120
    Path("election.toml").unlink()
    shown = run(*NEW).stdout
    rarest = min(made["labels"], key=made["labels"].get)
    assert f"120 rows have a label; the rarest class is {rarest}, with {made['labels'][rarest]} rows" in shown
    assert all(name in shown for name in HEADER)


def test_columns_can_be_chosen(hospital: Path) -> None:
    words = (
        *NEW,
        "--id",
        "patient_id",
        "--drop",
        "crp",
        "--drop",
        "zip",
        "--category",
        "age",
        "--text",
        "note",
        "--json",
    )
    found = {column["name"]: column["kind"] for column in json.loads(run(*words).stdout)["columns"]}
    assert found == {
        "patient_id": "row ID", "age": "category", "crp": "left out", "ward": "category", "admitted": "date",
        "country": "left out", "zip": "left out", "note": "text", "outcome": "label",
    }  # fmt: skip
    assert "did you mean 'crp'" in run("new", "x.toml", *NEW[2:], "--drop", "crb", status=1).stderr


def test_a_wide_table_names_only_what_is_not_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"x{i}" for i in range(40)]
    lines = [
        ",".join([*names, "site", "y"]),
        *(",".join([*map(str, range(i, i + 40)), "A", "ab"[i % 2]]) for i in range(9)),
    ]
    Path("public.csv").write_text("\n".join(lines))
    shown = run("new", "election.toml", "--public", "public.csv", "--label", "y").stdout
    assert "constant: always A" in shown
    assert "x7" not in shown
    assert "Other columns: 40 number, 1 label." in shown


def test_one_empty_cell_never_stops_a_cast_or_a_prediction(hospital: Path) -> None:
    run(*NEW, "--id", "patient_id")
    for name in "ab":
        run("cast", "election.toml", "--party", name, "--data", f"{name}.csv", "--to", "box")
    run("tally", "election.toml", "--from", "box", "--out", "outcome")
    for column in range(len(HEADER)):
        made = rows(3)
        made[5][column] = ""
        write(hospital / "c.csv", made)
        plan = run("cast", "election.toml", "--party", "c", "--data", "c.csv", "--dry-run")
        left_out = column in (0, 8)
        assert f"rows: {120 - left_out}" in plan.stdout
        assert ("c.csv: 1 of 120 rows has no" in plan.stderr) == left_out
        run("predict", "outcome", "--data", "c.csv", "--json")
        run("evaluate", "outcome", "--data", "c.csv", "--json")


def test_odd_values_are_one_line_and_verbose_lists_them(hospital: Path) -> None:
    run(*NEW)
    made = rows(4)
    made[0][1], made[1][1], made[2][1], made[3][2], made[4][3], made[5][2] = "140", "unknown", "", "inf", "Bonn", "9999"
    write(hospital / "c.csv", made)
    words = ("cast", "election.toml", "--party", "c", "--data", "c.csv", "--dry-run")
    (line,) = [line for line in run(*words).stderr.splitlines() if "of cells" in line]
    assert line.startswith("note: c.csv: ")
    assert "3 columns clipped, 1.0 % of cells" in line
    assert "1 column with unseen categories, 0.2 % of cells" in line
    assert "2 columns with values that are not numbers, 0.3 % of cells" in line
    assert line.endswith("; --verbose lists them")
    listed = run(*words, "--verbose").stderr
    assert "  column 'age': 1 value is not a number, such as 'unknown'\n" in listed
    assert "  column 'ward': 1 value is unseen, such as 'Bonn'\n" in listed
    assert "--verbose" not in listed


def test_check_warns_loudly_if_most_values_of_a_column_are_unknown_to_the_election(hospital: Path) -> None:
    run(*NEW)
    made = rows(4)
    for i, row in enumerate(made):
        row[3] = f"Station {i % 4}"
        row[1] = "999" if i % 2 or i < 10 else row[1]
    write(hospital / "c.csv", made)
    done = run("check", "election.toml", "--data", "c.csv")
    warned = " ".join(done.stderr.split())
    assert "WARNING: c.csv, column 'ward': all 120 values are unseen, such as 'Station 0'" in warned
    assert "WARNING: c.csv, column 'age': 65 of 120 values are clipped, such as '999'" in warned
    assert warned.count("WARNING") == 2
    for words in (
        ("cast", "election.toml", "--party", "c", "--data", "c.csv"),
        ("simulate", "election.toml", "--data", "c.csv", "--parties", 2),
    ):
        assert "column 'ward': all 120 values are unseen" in " ".join(run(*words).stderr.split()), "not by check alone"
    run("cast", "election.toml", "--party", "d", "--data", "public.csv", "--to", "box")
    run("tally", "election.toml", "--from", "box", "--out", "outcome")
    for words in (
        ("predict", "outcome", "--data", "c.csv", "--out", "predictions.csv"),
        ("evaluate", "outcome", "--data", "c.csv"),
    ):
        assert "column 'ward': all 120 values are unseen" in " ".join(run(*words).stderr.split())
    write(hospital / "few.csv", made[:1])
    assert "WARNING" not in run("predict", "outcome", "--data", "few.csv").stderr, "one row says nothing of a column"
    write(hospital / "c.csv", rows(4))
    assert "WARNING" not in run("check", "election.toml", "--data", "c.csv").stderr


def test_decimal_commas_in_a_file_that_is_separated_by_commas_are_pointed_out(hospital: Path) -> None:
    run(*NEW)
    lines = [
        ",".join(HEADER),
        *(",".join(f'"{c.replace(".", ",")}"' if k == 2 else c for k, c in enumerate(r)) for r in rows(4)),
    ]
    (hospital / "c.csv").write_text("\n".join(lines), "utf-8")
    warned = " ".join(run("cast", "election.toml", "--party", "c", "--data", "c.csv", "--dry-run").stderr.split())
    first = rows(4)[0][2]
    assert f"column 'crp': none of the 120 values is a number, such as '{first.replace('.', ',')}'" in warned
    assert f"Write numbers with a decimal point: {first}; or state --decimal , on the command line." in warned
    assert "WARNING" not in run("check", "election.toml", "--data", "c.csv", "--decimal", ",").stderr


def test_a_strict_election_stops_at_odd_values(hospital: Path) -> None:
    run(*NEW, "--strict")
    made = rows(0)
    made[4][3] = "Bonn"
    write(hospital / "c.csv", made)
    error = run("cast", "election.toml", "--party", "c", "--data", "c.csv", "--dry-run", status=1).stderr
    assert "column 'ward': row 5 ('Bonn') is none of the 2 categories" in error


def test_like_publishes_rounded_ranges_and_says_so(hospital: Path) -> None:
    shown = run("new", "election.toml", "--like", "public.csv", "--label", "outcome", "--method", "analytic").stdout
    assert "The ranges of public.csv, rounded outwards, and the names of its categories are in election.toml" in shown
    text = Path("election.toml").read_text("utf-8")
    assert 'name = "age", kind = "number", range = [10.0, 90.0]' in text
    assert '"2015-01-01", "2023-12-31"' in text
    assert "\n[public]" not in text
    run("cast", "election.toml", "--party", "a", "--data", "a.csv", "--dry-run")


def test_a_label_of_many_values_is_refused(hospital: Path) -> None:
    error = run("new", "e.toml", "--public", "public.csv", "--label", "crp", status=1).stderr
    assert "the label 'crp' has 1" in error
    assert "more than 50 classes. Numbers as labels are not supported yet" in error
    error = run("new", "e.toml", "--public", "public.csv", "--label", "note", status=1).stderr
    assert "more than 50 classes. Is it the right column? Group them into classes" in error
    assert not Path("e.toml").exists()


def test_the_way_a_file_is_written_can_be_stated(hospital: Path) -> None:
    words = ("--sep", ";", "--decimal", ",", "--encoding", "cp1252")
    assert run(*NEW, *words).stderr == ""
    public = Path("election.toml").read_text("utf-8").partition("[public]")[2]
    assert 'sep = ";"\ndecimal = ","\nencoding = "cp1252"\n' in public
    cast = ("cast", "election.toml", "--party", "a", "--data", "a.csv", "--dry-run")
    assert "detected" not in run(*cast, *words).stderr
    assert "not utf-8; state the file's encoding" in run(*cast, "--encoding", "utf-8", status=1).stderr
    assert "separator must be one character" in run(*cast, "--sep", ";;", status=1).stderr
    assert json.loads(run(*cast, "--decimal", "x", "--json", status=1).stdout)["kind"] == "DataError"


def test_a_party_may_have_an_excel_or_parquet_file(hospital: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    run(*NEW)
    frame = pd.DataFrame(rows(1), columns=HEADER).astype({"age": float, "crp": float})
    frame["admitted"] = pd.to_datetime(frame["admitted"], format="%d.%m.%Y")
    frame.to_parquet("a.parquet")
    book = openpyxl.Workbook()
    for row in [HEADER, *frame.to_dict("split")["data"]]:
        book.active.append([cell.to_pydatetime() if hasattr(cell, "to_pydatetime") else cell for cell in row])
    book.save("a.xlsx")
    from oneballot import Election

    election = Election.read("election.toml")
    expected = election.read_data("a.csv")
    for name in ("a.parquet", "a.xlsx"):
        data = election.read_data(name)
        np.testing.assert_allclose(data.X, expected.X, rtol=1e-6)
        np.testing.assert_array_equal(data.y, expected.y)


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 100_000, "a." * 5000 + "a = 1", "seed = " + "9" * 10_000, "a = {b=" * 9000]
)
def test_a_nested_election_gets_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "e.toml").write_text(text)
    error = run("check", tmp_path / "e.toml", status=1).stderr
    assert error.startswith("error: ")
    assert len(error) < 3000


@pytest.mark.parametrize("command", ["new", "cast", "predict", "evaluate", "benefit", "simulate", "compare"])
def test_every_command_that_reads_a_file_has_the_options_of_readers(command: str) -> None:
    shown = run(command, "--help").stdout
    assert all(option in shown for option in ("--sep", "--decimal", "--encoding", "--verbose"))
