"""What exists is not replaced by an export unless that is asked for, and a wrong name is refused before any work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.errors import ExportError, MissingExtra
from oneballot.report.export import EXPORTERS
from oneballot.report.export.target import check_target, put_folder

FILES, FOLDERS = {"onnx": "m.onnx", "sklearn": "m.skops"}, {"mlflow": "m", "huggingface": "m"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X = np.random.default_rng(0).standard_normal((80, 4)).astype(np.float32)
    learner = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 2})
    election = ob.Election(classes=(0, 1), method=ob.FedKT(), public=X, learner=learner)
    folder = tmp_path_factory.mktemp("saved") / "outcome"
    ob.tally(election, [ob.cast(election, X, (X[:, 0] > 0).astype(int), party="p")]).save(folder)
    return folder


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


@pytest.mark.parametrize("to", FILES)
def test_a_file_of_another_kind_is_never_replaced(to: str, saved: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.csv"
    notes.write_text("mine")
    for more in ((), ("--overwrite",)):
        done = run(saved, "--to", to, "--out", notes, *more)
        assert done.exit_code == 1
        assert f"ends in {EXPORTERS[to].suffix}" in " ".join(done.output.split())
    assert notes.read_text() == "mine"


@pytest.mark.parametrize(("to", "name"), [*FILES.items(), *FOLDERS.items(), ("sklearn", "m.pkl")])
def test_what_exists_is_kept_without_overwrite(to: str, name: str, saved: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ExportError, match=r"m(\..*)? exists; choose another name with --out, or .*--overwrite"):
        ob.export(saved, to, tmp_path / name)
    assert (tmp_path / name).read_text() == "mine"


def test_overwrite_replaces_a_file(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "m.skops").write_text("old")
    assert run(saved, "--to", "sklearn", "--out", tmp_path / "m.skops", "--overwrite").exit_code == 0
    assert (tmp_path / "m.skops").read_bytes().startswith(b"PK")


@pytest.mark.parametrize("to", FOLDERS)
def test_overwrite_replaces_only_a_folder_of_the_same_kind(to: str, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "thesis.tex").write_text("mine")
    with pytest.raises(ExportError, match="not an export of this kind"):
        ob.export(saved, to, tmp_path / "m", overwrite=True)
    assert (tmp_path / "m" / "thesis.tex").read_text() == "mine"
    for name in EXPORTERS[to].marks:
        (tmp_path / "m" / name).write_text("old")
    check_target(tmp_path / "m", (), EXPORTERS[to].marks, overwrite=True)


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    put_folder(tmp_path / "new", tmp_path / "old")
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["old", "old/new"]


@pytest.mark.parametrize(("to", "name"), [*FILES.items(), *FOLDERS.items()])
def test_a_missing_folder_is_reported_before_any_work(to: str, name: str, tmp_path: Path) -> None:
    done = run(tmp_path / "no outcome either", "--to", to, "--out", tmp_path / "missing" / name)
    assert done.exit_code != 0
    with pytest.raises(ExportError, match=r"the folder .*missing does not exist; create it first"):
        ob.export(tmp_path / "no outcome either", to, tmp_path / "missing" / name)


@pytest.mark.slow
def test_overwrite_replaces_an_export_for_hugging_face(saved: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    pytest.importorskip("pandas")
    ob.export(saved, "huggingface", tmp_path / "m")
    (tmp_path / "m" / "old.txt").touch()
    ob.export(saved, "huggingface", tmp_path / "m", overwrite=True)
    assert not (tmp_path / "m" / "old.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_without_onnx_the_command_to_install_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((80, 4)).astype(np.float32)
    election = ob.Election(classes=(0, 1), method=ob.Analytic(), public=X)
    outcome = ob.tally(election, [ob.cast(election, X, (X[:, 0] > 0).astype(int), party="p")])
    monkeypatch.setitem(sys.modules, "onnx", None)  # importing it fails
    with pytest.raises(MissingExtra, match=r"LinearModel.*pip install 'oneballot\[onnx\]'"):
        ob.export(outcome, "huggingface", tmp_path / "m")
    assert not list(tmp_path.iterdir())
