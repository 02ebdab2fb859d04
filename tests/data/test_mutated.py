"""Mutated CSV, Parquet, NPZ, Excel and TOML files are read or refused with a sentence, within 500 MB of memory."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "fuzz" / "tables.py"


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_tables", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_honest_files_of_every_type_are_read(fuzz, tmp_path) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("openpyxl")
    originals = fuzz.seeds(tmp_path)
    assert set(originals) == set(fuzz.SUFFIXES)
    for suffix, contents in originals.items():
        for content in contents:
            (tmp_path / f"honest.{suffix}").write_bytes(content)
            assert fuzz.accepts(tmp_path / f"honest.{suffix}")


@pytest.mark.filterwarnings("ignore")
def test_a_hundred_mutated_files_are_read_or_refused(fuzz, tmp_path) -> None:
    results = [fuzz.accepts(path) for path in fuzz.mutants(tmp_path, 100, seed=7)]
    assert set(results) == {True, False}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_five_thousand_mutated_files_need_less_than_500_mb() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--files", "5000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout)
    assert result["findings"] == 0
    assert result["files"] == 5000
    assert result["memory_mb"] < 500
