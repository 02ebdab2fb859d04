"""A drafted election is TOML that can be read back, for any names of columns and classes."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oneballot as ob
from oneballot.election.columns import Number
from oneballot.election.election import Election
from oneballot.election.infer import Choices
from oneballot.election.schema import Schema
from oneballot.election.template import draft, private, section, write
from oneballot.errors import DataError, ElectionError
from oneballot.learners._recipes import RECIPES


def public_file(folder, header, rows):
    path = Path(folder) / "public.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def drafted(public, label, name="election.toml", **settings):
    path = public.parent / name
    if "row_id" in settings:
        settings["choices"] = Choices(settings.pop("row_id"))
    path.write_text(draft(public, label, beside=path, **settings).text, "utf-8")
    return Election.read(path)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["1", "0", "10"], (0, 1, 10)),
        (["-1", "1", "1"], (-1, 1)),
        (["1.0", "0.0", "1.0"], (0, 1)),
        (["yes", "no", "yes"], ("no", "yes")),
        (["True", "False", "True"], ("False", "True")),
        (["true", "false", ""], ("false", "true")),
        (["0.5", "1.5", "1.5"], ("0.5", "1.5")),
        (['"', "\\", "é 😀"], ('"', "\\", "é 😀")),
    ],
)
def test_labels_of_any_type_become_the_classes(tmp_path, labels, classes):
    public = public_file(tmp_path, ["x", "y"], [[i, label] for i, label in enumerate(labels)])
    election = drafted(public, "y")
    assert election.classes == classes
    assert election.schema.label == "y"
    assert election.public.shape == (len(labels), 2)


def test_a_drafted_election_reads_the_files_of_its_parties(clinic):
    election = drafted(clinic / "public.csv", "ill")
    data = election.read_data(clinic / "a.csv")
    assert election.name == "election"
    assert data.X.shape == (150, 2 + 2 + 3)
    assert set(data.y) == {0, 1}
    assert data.ids is None


def test_the_id_column_is_not_a_feature(tmp_path):
    public = public_file(tmp_path, ["patient", "x", "y"], [["a", 1, 0], ["b", 2, 1]])
    election = drafted(public, "y", row_id="patient")
    assert [column.name for column in election.schema.columns] == ["x"]
    assert election.read_data(public).ids.tolist() == ["a", "b"]


def test_classes_must_be_given_if_the_public_file_has_no_labels(tmp_path):
    public = public_file(tmp_path, ["x", "z"], [[1, 0], [2, 1]])
    with pytest.raises(DataError, match=r"no column 'y', so the classes are unknown: .*--classes a,b,c .*are x, z"):
        draft(public, "y", beside=tmp_path / "election.toml")
    election = drafted(public, "y", classes=("no", "yes"))
    assert election.classes == ("no", "yes")
    assert [column.name for column in election.schema.columns] == ["x", "z"]


def test_given_classes_override_those_of_the_file(tmp_path):
    public = public_file(tmp_path, ["x", "y"], [[1, "b"], [2, "a"]])
    assert drafted(public, "y", classes=("b", "a", "c")).classes == ("b", "a", "c")


def test_a_single_class_is_rejected(tmp_path):
    public = public_file(tmp_path, ["x", "y"], [[1, "b"], [2, "b"]])
    with pytest.raises(ElectionError, match=r"at least two classes, not 1 \(b\)"):
        draft(public, "y", beside=tmp_path / "election.toml")


def test_a_public_file_without_features_is_rejected(tmp_path):
    public = public_file(tmp_path, ["y"], [["a"], ["b"]])
    with pytest.raises(DataError, match="no features to learn from"):
        draft(public, "y", beside=tmp_path / "election.toml")


def test_an_infinite_number_is_reported_with_its_column(tmp_path):
    public = public_file(tmp_path, ["x", "y"], [["1e400", "a"], [2, "b"]])
    with pytest.raises(DataError, match="column 'x' has an infinite value"):
        draft(public, "y", beside=tmp_path / "election.toml", choices=Choices(strict=True))
    (column,) = drafted(public, "y").schema.columns
    assert column.range == (2, 2)


def test_a_missing_public_file_is_reported(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        draft(tmp_path / "public.csv", "y", beside=tmp_path / "election.toml")


def test_a_draft_can_use_arrays(tmp_path):
    np.savez(tmp_path / "p.npz", X=np.zeros((3, 1, 2, 2), dtype=np.uint8), y=np.array([0, 1, 2]))
    election = drafted(tmp_path / "p.npz", "y")
    assert election.public.dtype == np.uint8
    assert election.public.shape == (3, 1, 2, 2)
    assert election.classes == (0, 1, 2)


def test_a_public_file_in_another_folder_is_given_by_its_full_path(tmp_path):
    public = public_file(tmp_path, ["x", "y"], [[1, 0], [2, 1]])
    (tmp_path / "sub").mkdir()
    same_folder = draft(public, "y", beside=tmp_path / "e.toml").text
    other_folder = draft(public, "y", beside=tmp_path / "sub" / "e.toml").text
    assert 'path = "public.csv"' in same_folder
    assert f'path = "{public.resolve()}"' in other_folder
    (tmp_path / "sub" / "e.toml").write_text(other_folder, "utf-8")
    assert Election.read(tmp_path / "sub" / "e.toml").public.shape == (2, 2)


def test_a_draft_can_set_the_name_and_the_method(tmp_path):
    public = public_file(tmp_path, ["x", "y"], [[1, 0], [2, 1]])
    schema = Schema(label="y", columns=(Number(name="x", range=(1, 2)),))
    path = tmp_path / "e.toml"
    method = '[method]\nname = "fedkt"\nqueries = 0.5\n'
    path.write_text(write(path, public, [0, 1], schema, name="one", method=method), "utf-8")
    election = Election.read(path)
    assert (election.name, election.method.queries) == ("one", 0.5)


ODD = [
    "a.b",
    "a b",
    'say "hi"',
    "it's",
    "back\\slash",
    "tab\there",
    "new\nline",
    "é",
    "日本",
    "😀",
    "#x",
    "[x]",
    "del\x7f",
    "=",
]


@pytest.mark.parametrize("odd", ODD)
def test_odd_names_of_columns_labels_ids_and_files_are_kept(tmp_path, odd):
    header = [f"{odd} id", odd, f"{odd} ward", f"{odd} label"]
    public = public_file(tmp_path, header, [["1", 1, f"{odd}!", f"{odd}?"], ["2", 2, "b", "c"], ["3", 3, "b", "c"]])
    election = drafted(public, header[3], name=f"{odd}.toml", row_id=header[0])
    assert election.name == odd
    assert (election.schema.id, election.schema.label) == (header[0], header[3])
    assert [column.name for column in election.schema.columns] == header[1:3]
    assert set(election.schema.columns[1].categories) == {f"{odd}!", "b"}
    assert set(election.classes) == {f"{odd}?", "c"}
    assert election.read_data(public).y.shape == (3,)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=12).filter(
    lambda name: name == name.strip() and "\ufeff" not in name
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(NAMES, min_size=2, max_size=4, unique=True), st.lists(NAMES, min_size=2, max_size=2, unique=True))
def test_any_names_of_columns_and_classes_are_read_back(header, classes):
    with TemporaryDirectory() as folder:
        public = public_file(folder, header, [[*[i + 0.5] * (len(header) - 1), name] for i, name in enumerate(classes)])
        election = drafted(public, header[-1], classes=tuple(f"class {name}" for name in classes))
        assert election.schema.label == header[-1]
        assert [column.name for column in election.schema.columns] == header[:-1]
        assert election.classes == tuple(f"class {name}" for name in classes)


@pytest.mark.parametrize(
    ("rows", "module", "settings"),
    [
        (np.zeros((60, 1, 28, 28), dtype=np.uint8), "cnn", {}),
        (np.zeros((60, 1, 8, 8), dtype=np.uint8), "mlp", {}),
        (np.full((60, 12), 1200, dtype=np.int32), "textcnn", {"vocabulary": 2000}),
    ],
)
@pytest.mark.parametrize("method", ["ensemble", "fedkt", "fedkd"])
def test_images_and_tokens_get_networks(tmp_path, method, rows, module, settings):
    pytest.importorskip("torch")
    np.savez(tmp_path / "public.npz", rows=rows, y=np.arange(60) % 2)
    election = drafted(tmp_path / "public.npz", "y", method=section(method))
    for role in election.roles:
        learner = election.learner_of(role)
        assert (learner.name, learner.module, learner.settings) == ("torch", module, settings)


def test_colour_images_get_a_network_whose_recipe_is_written_out(tmp_path):
    pytest.importorskip("torch")
    rows = np.zeros((60, 3, 32, 32), dtype=np.uint8)
    np.savez(tmp_path / "public.npz", rows=rows, y=np.arange(60) % 2)
    election = drafted(tmp_path / "public.npz", "y", method=section("fedkt"))
    text = (tmp_path / "election.toml").read_text()
    for role in election.roles:
        learner = election.learner_of(role)
        assert learner == replace(ob.Torch("convnet"), augment=("crop", "flip"))
        learner.check_rows(rows[:2])
    for name, value in RECIPES["convnet"].items():
        if name != "augment":
            assert f"\n{name} = {json.dumps(value)}\n" in text
    assert '\naugment = ["crop", "flip"]' in text


def test_networks_at_l2_have_a_fixed_number_of_steps(tmp_path):
    pytest.importorskip("torch")
    np.savez(tmp_path / "public.npz", rows=np.zeros((600, 1, 16, 16), dtype=np.uint8), y=np.arange(600) % 2)
    election = drafted(tmp_path / "public.npz", "y", method=section("fedkt", "L2"), privacy=private("L2", 50.0))
    assert election.learner_of("teacher").steps == 500
