"""The wheel of `make wheelhouse` is complete: an empty environment without the sources or internet runs the demo."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Neither the sources nor this process's settings may reach the new environment.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ONEBALLOT", "MAKE"))}
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def run(*command: str | Path, folder: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=folder, env=CLEAN, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_wheelhouse(*options: str) -> str:
    return run("make", "wheelhouse", f"BIN={Path(sys.executable).parent}", *options)


def build(folder: Path) -> str:
    """Fill a folder with wheels. Returns the command that installs from it, as `make wheelhouse` prints it."""
    probe = subprocess.run(
        [*PIP, "download", "--quiet", "--no-deps", "--retries", "0", "--dest", folder / "probe", "hatchling"],
        env=CLEAN,
        capture_output=True,
        text=True,
    )
    if probe.returncode:
        last = (probe.stderr.strip() or "no message").splitlines()[-1]
        pytest.skip(f"pip cannot reach a package index: {last}")
    return make_wheelhouse(f"WHEELHOUSE={folder}").splitlines()[-1]


def install(command: str, environment: Path) -> Path:
    """Run a pip command for a new environment. Returns the folder of its programs."""
    venv.create(environment, with_pip=False)
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    pip, *arguments = shlex.split(command)
    assert pip == "pip"
    run(*PIP, "--python", programs / "python", *arguments, "--quiet", "--no-compile", folder=environment)
    return programs


def check_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for package in ("oneballot", "oneballot_lab")
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"oneballot-{PROJECT['version']}.dist-info/"
    assert {name for name in names if not name.startswith(info)} == sources  # no tests, benchmarks or documentation
    assert {"oneballot/__init__.py", "oneballot/py.typed", "oneballot_lab/__init__.py"} <= sources
    assert {f"{info}METADATA", f"{info}entry_points.txt", f"{info}licenses/LICENSE"} <= names


@needs_make
@pytest.mark.slow
def test_an_empty_environment_runs_the_demo_from_the_wheels_alone(tmp_path: Path) -> None:
    """One test, because parallel test processes would each build and download the wheels."""
    command = build(tmp_path / "wheels")
    (wheel,) = (tmp_path / "wheels").glob("oneballot-*.whl")
    check_contents(wheel)
    programs = install(command, tmp_path / "environment")
    where = run(programs / "python", "-c", "import oneballot; print(oneballot.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path / "environment")

    oneballot = programs / "oneballot"
    assert run(oneballot, "--version", folder=tmp_path).strip().endswith(PROJECT["version"])
    for name in ("cast", "tally", "demo", "reproduce"):
        assert name in run(oneballot, "--help", folder=tmp_path)
    assert "fedkt" in run(oneballot, "reproduce", "--list", folder=tmp_path).lower()
    assert "FedKT" in run(oneballot, "demo", "--out", "demo", folder=tmp_path)
    for file in ("election.toml", "box", "outcome/outcome.json", "parties.png"):
        assert (tmp_path / "demo" / file).exists()


@needs_make
def test_the_extras_of_a_wheelhouse_can_be_chosen() -> None:
    """`make -n` prints the commands without running them."""
    for extras, expected in (("", "oneballot"), ("report,xgboost", "oneballot[report,xgboost]")):
        printed = make_wheelhouse("-n", f"EXTRAS={extras}")
        assert f"'{expected.replace('oneballot', '.')}'" in printed
        assert f"pip install --no-index --find-links wheelhouse '{expected}'" in printed
    assert "'oneballot[report]'" in make_wheelhouse("-n")
