"""Files as hospitals have them: what is ignored, what is refused, and whether the message names the cure."""

from __future__ import annotations

import unicodedata
import warnings
from pathlib import Path

import pytest

from oneballot.data.read import read
from oneballot.election.frames import encode_frame, frame_data
from oneballot.election.infer import Choices
from oneballot.election.mapping import FileMapping, mapping_files
from oneballot.election.schema import Schema
from oneballot.election.targets import Classes
from oneballot.election.template import draft
from oneballot.errors import DataError

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
