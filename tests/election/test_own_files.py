"""Files as hospitals have them: what is ignored, what is refused, and whether the message names the cure."""

from __future__ import annotations

import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest

from oneballot.data.delimited import Dialect
from oneballot.data.read import read
from oneballot.election.frames import encode_frame, frame_data
from oneballot.election.infer import Choices, recognise
from oneballot.election.mapping import FileMapping, mapping_files
from oneballot.election.schema import Schema
from oneballot.election.targets import Classes
from oneballot.election.template import draft
from oneballot.errors import DataError, OddValues, OneBallotWarning, WillNotWork

AGE = {"kind": "number", "name": "Alter (Jahre)", "range": [0, 100], "outside": "clip", "missing": True}
SCHEMA = Schema.model_validate({"label": "Befund", "columns": [AGE]})
TARGET = Classes(("gesund", "krank"))


def put(folder: Path, text: str, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def cast(path: Path, schema: Schema = SCHEMA) -> list[int]:
    return frame_data(schema, TARGET, path, None, None, "mine").y.tolist()


def test_columns_that_the_election_does_not_use_may_share_a_name(tmp_path: Path) -> None:
    rows = "Bemerkung,Alter (Jahre),Bemerkung,Befund\nx,54,y,krank\n,61,,gesund\n"
    path = put(tmp_path, rows)
    assert cast(path) == [1, 0]
    assert read(path).repeated == ("Bemerkung",)
    with pytest.raises(DataError, match=r"mine\.csv has duplicate column names: Bemerkung; rename them"):
        read(path)["Bemerkung"]
    written = draft(path, "Befund", beside=tmp_path / "election.toml", has_public=False)
    assert ("Bemerkung", "left out") in [(each.name, each.kind) for each in written.found]
    with pytest.raises(DataError, match="duplicate column names: Bemerkung"):
        draft(path, "Befund", beside=tmp_path / "e.toml", has_public=False, choices=Choices(drop=["Bemerkung"]))


@pytest.mark.parametrize("twice", ["Alter (Jahre)", "Befund"])
def test_columns_that_the_election_uses_must_have_different_names(tmp_path: Path, twice: str) -> None:
    path = put(tmp_path, f"Alter (Jahre),Befund,{twice}\n54,krank,1\n")
    with pytest.raises(DataError, match=r"duplicate column names: .*rename them"):
        cast(path)


def test_mapped_columns_must_have_different_names(tmp_path: Path) -> None:
    path = put(tmp_path, "Alter,Alter,Alter (Jahre),Alter (Jahre),age,Befund\n1,2,3,4,54,krank\n")
    with mapping_files(FileMapping({"Alter": "Alter (Jahre)"}), path), pytest.raises(DataError, match="names: Alter;"):
        cast(path)
    with mapping_files(FileMapping({"age": "Alter (Jahre)"}), path):
        assert SCHEMA.read(path)["Alter (Jahre)"].tolist() == ["54"], "the file's own columns of this name are not used"
        assert cast(path) == [1]


def test_columns_of_a_dataframe_that_are_not_used_may_share_a_name() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([["x", 50, "y"]], columns=["Bemerkung", "Alter (Jahre)", "Bemerkung"])
    assert encode_frame(SCHEMA, frame, "X").tolist() == [[0.5, 0]]
    with pytest.raises(DataError, match=r"duplicate column names: Alter \(Jahre\)"):
        encode_frame(SCHEMA, frame.set_axis(["Alter (Jahre)", "Alter (Jahre)", "Bemerkung"], axis=1), "X")


def test_a_name_in_another_case_is_named_as_the_nearest(tmp_path: Path) -> None:
    path = put(tmp_path, "ALTER (JAHRE),Alles (ohne),Befund\n54,1,gesund\n")
    with pytest.raises(DataError, match=r"'Alter \(Jahre\)' \(did you mean 'ALTER \(JAHRE\)'\?\)"):
        cast(path)
    with (
        mapping_files(FileMapping({"alter (jahre)": "Alter (Jahre)"}), path),
        pytest.raises(DataError, match=r"no column 'alter \(jahre\)'; did you mean 'ALTER \(JAHRE\)'"),
    ):
        cast(path)
    with pytest.raises(DataError, match=r"--label BEFUND: .*did you mean 'Befund'\?"):
        draft(path, "BEFUND", beside=tmp_path / "election.toml", has_public=False)


def test_labels_in_another_case_are_mapped_by_the_suggested_option(tmp_path: Path) -> None:
    path = put(tmp_path, "Alter (Jahre),Befund\n54,Gesund\n61,krank\n70,KRANK\n")
    with pytest.raises(DataError, match=r"They differ in case: --label-map Gesund=gesund,KRANK=krank$"):
        cast(path)
    with mapping_files(FileMapping.parse(labels=["Gesund=gesund,KRANK=krank"]), path):
        assert cast(path) == [0, 1, 1]


def test_a_missing_column_and_unmapped_labels_are_reported_together(tmp_path: Path) -> None:
    path = put(tmp_path, "age,Befund\n54,0\n61,1\n")
    with pytest.raises(DataError, match=r"(?s)missing column 'Alter \(Jahre\)'.*are not classes of the election"):
        cast(path)


@pytest.mark.parametrize(("ours", "theirs"), [("NFC", "NFD"), ("NFD", "NFC"), ("NFD", "NFD")])
def test_names_of_columns_are_the_same_in_every_unicode_form(tmp_path: Path, ours: str, theirs: str) -> None:
    pd = pytest.importorskip("pandas")
    column = AGE | {"name": unicodedata.normalize(ours, "Größe")}
    schema = Schema.model_validate({"label": unicodedata.normalize(ours, "Prüfung"), "columns": [column]})
    path = put(tmp_path, unicodedata.normalize(theirs, "Größe,Prüfung\n54,krank\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cast(path, schema) == [1]
        frame = pd.DataFrame({unicodedata.normalize(theirs, "Größe"): [50]})
        assert encode_frame(schema, frame, "X").tolist() == [[0.5, 0]]
    own = put(tmp_path, unicodedata.normalize(theirs, "Länge,Prüfung\n54,1\n"), "own.csv")
    mapping = FileMapping({unicodedata.normalize(ours, "Länge"): "Größe"}, {"1": "krank"})
    with mapping_files(mapping, own):
        assert cast(own, schema) == [1]


def test_in_python_the_cure_for_a_missing_column_exists_in_python() -> None:
    with pytest.raises(DataError, match=r"df\.rename\(columns=\{'YOURS': 'OURS'\}\)") as error:
        encode_frame(SCHEMA, {"age": [50]}, "X")
    assert "--map" not in str(error.value)
    with pytest.raises(DataError, match=r"df\.rename"):
        frame_data(SCHEMA, TARGET, {"age": [50], "Befund": ["krank"]}, None, None, "X")


PLZ = Schema.model_validate(
    {
        "label": "y",
        "columns": [
            {"kind": "category", "name": "PLZ", "categories": ["01067", "04103", "80331"], "outside": "blank"}
            | {"missing": "feature"}
        ],
    }
)


@pytest.mark.parametrize("file", ["mine.csv", "mine.xlsx", "mine.parquet"])
def test_lost_leading_zeros_are_pointed_out(tmp_path: Path, file: str) -> None:
    pd = pytest.importorskip("pandas")
    path = tmp_path / file
    frame = pd.DataFrame({"PLZ": [80331, 80331, 80331, 80331, None, 4103.0, 1067.0], "y": 1})
    {"csv": frame.to_csv, "xlsx": frame.to_excel, "parquet": frame.to_parquet}[path.suffix[1:]](path, index=False)
    if file == "mine.csv":  # 80331.0 is unseen as well
        path.write_text(path.read_text("utf-8").replace(".0", ""), "utf-8")
    table = PLZ.read(path)
    with pytest.warns(WillNotWork) as caught:
        PLZ.encode(table.columns, table.source)
    (text,) = [str(each.message) for each in caught if each.category is WillNotWork]
    assert (
        "2 of 7 values are unseen, such as '4103'. Leading zeros are lost: write PLZ as text, such as '01067'." in text
    )


def test_other_unseen_values_are_not_called_lost_zeros() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        PLZ.encode({"PLZ": np.array(["80331", "80331", "80331", "80331", "999", "x"], dtype=object)}, "a.csv")
        PLZ.encode({"PLZ": np.array(["10115"] * 6, dtype=object)}, "a.csv")
    (text,) = [str(each.message) for each in caught if each.category is WillNotWork]
    assert (
        "all 6 values are unseen, such as '10115', so a model can use little or nothing of it. Is it the right" in text
    )


def test_quoted_decimal_commas_are_read_with_the_option_that_the_warning_names(tmp_path: Path) -> None:
    path = put(tmp_path, "Alter (Jahre),Befund\n" + '"24,5",krank\n' * 6)
    with pytest.warns(
        WillNotWork, match=r"none of the 6 values is a number.* 24\.5; or state --decimal , on the command"
    ):
        cast(path)
    table = SCHEMA.read(path, dialect=Dialect(decimal=","))
    assert table["Alter (Jahre)"].tolist() == ["24.5"] * 6
    thousands = put(tmp_path, "Alter (Jahre),Befund\n" + '"1,234",krank\n' * 6, "b.csv")
    with pytest.warns(WillNotWork, match=r"Write numbers with a decimal point: 1234\.$"):
        cast(thousands)


def test_a_column_of_mostly_numbers_is_to_be_written_as_numbers() -> None:
    texts = [f"{i / 7:.3f}" for i in range(70)] + ["<0.1"] * 15 + [f"<{i}.5" for i in range(15)]
    (found,) = recognise({"lab": np.array(texts, dtype=object)}, "y")
    assert found.note == (
        "30 of 100 values are not numbers, such as '<0.1'; to use the column, write numbers for the others, or leave "
        "those cells empty"
    )


def test_a_title_above_an_excel_table_is_pointed_out(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Export of 3 May"], [], ["Alter (Jahre)", "PLZ", "Befund"], [54, "01067", "krank"]):
        book.active.append(row)
    book.save(tmp_path / "mine.xlsx")
    with pytest.raises(DataError, match=r"'Export of 3 May', must name all columns: remove titles above it"):
        cast(tmp_path / "mine.xlsx")


def test_a_warning_names_the_line_that_called_the_package() -> None:
    frame = {"Alter (Jahre)": ["54", "x", "", "61", "999"], "Befund": ["krank", "krank", "gesund", "", "krank"]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encode_frame(SCHEMA, frame, "X")
        frame_data(SCHEMA, TARGET, frame, None, None, "X")
    assert {each.category for each in caught} == {OddValues, OneBallotWarning}
    assert {each.filename for each in caught} == {__file__}


@pytest.mark.parametrize("row", [{"Alter (Jahre)": 54}, {"Alter (Jahre)": "54"}, {"Alter (Jahre)": None}])
def test_a_row_as_a_dict_is_refused_with_the_form_of_a_row(row: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"X: 'Alter \(Jahre\)' is a single value.*: \['?(54|None)'?\], …\} or pandas"):
        encode_frame(SCHEMA, row, "X")
