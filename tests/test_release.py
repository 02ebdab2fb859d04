"""Releases: dependencies locked by hashes, a bill of materials, known licences, and reproducible builds."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "release"))
dependencies = pytest.importorskip("dependencies", reason="packaging is not installed")

UNLOCKED = {"pip", "setuptools", "torch", "uv"}
"""Not in requirements.lock: torch has other files for CPUs, and the others install the rest."""


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}


def test_every_locked_package_has_hashes_and_the_version_of_the_constraints() -> None:
    locked, pinned = dependencies.locked(), constraints()
    assert len(locked) > 200
    assert not [name for name, (_, hashes) in locked.items() if not hashes]
    assert not {name: version for name, (version, _) in locked.items() if pinned.get(name, version) != version}
    direct = {each.name for each in dependencies.own_dependencies("dev") if each.marker is None}
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in direct} - UNLOCKED <= locked.keys()


@pytest.mark.parametrize("name", ["requirements.lock", "constraints.txt"])
def test_no_registry_is_named(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert "://" not in text
    assert "index" not in re.findall(r"^--?(\w+)", text, re.M)


def test_the_makefile_verifies_hashes_and_does_not_go_on_after_a_mismatch() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    assert "-c requirements.lock" in text
    assert "ash mismatch" in text


def test_every_dependency_has_a_known_licence() -> None:
    found = dependencies.find_dependencies()
    assert {"numpy", "scikit-learn", "skops", "cryptography", "pydantic"} <= found.keys()
    assert not [name for name, (each, _) in found.items() if not dependencies.license_of(each)]
    listed = dict(re.findall(r"^\| ([\w.-]+) \| (.+) \|$", dependencies.LICENSES.read_text("utf-8"), re.M))
    missing = {name for name, (each, _) in found.items() if listed.get(name) != dependencies.license_of(each)}
    assert not missing, "run `make licenses`"
    assert not [text for text in listed.values() if re.search(r"\bA?GPL", text)], "a licence that binds users"


def test_the_bill_of_materials_lists_every_dependency_and_what_needs_it() -> None:
    bill = json.loads(dependencies.bill_of_materials("1.0", 1_700_000_000))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    parts = {part["bom-ref"]: part for part in bill["components"]}
    assert parts["numpy"]["purl"] == f"pkg:pypi/numpy@{parts['numpy']['version']}"
    links = {link["ref"]: link["dependsOn"] for link in bill["dependencies"]}
    assert "numpy" in links["oneballot"]
    assert "numpy" in links["scikit-learn"]
    assert {need for needs in links.values() for need in needs} <= parts.keys()
    assert dependencies.bill_of_materials("1.0", 1_700_000_000) == json.dumps(bill, indent=1) + "\n"


@pytest.mark.slow
def test_two_builds_of_a_release_have_the_same_bytes(tmp_path: Path) -> None:
    if not Path(sys.executable).with_name("uv").exists() or shutil.which("git") is None:
        pytest.skip("needs uv and git")
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("needs a git checkout")
    command = [sys.executable, ROOT / "release" / "build.py", "--out", tmp_path / "dist"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "TZ": "Asia/Tokyo"})
    if done.returncode and re.search(r"[Ff]ailed to fetch|resolve|network|connect", done.stderr):
        pytest.skip("the build backend cannot be downloaded")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "dist").iterdir()}
    version = dependencies.project()["version"]
    wheel, source = f"oneballot-{version}-py3-none-any.whl", f"oneballot-{version}.tar.gz"
    assert names == {wheel, source, f"oneballot-{version}.cdx.json", "LICENSES.md", "requirements.lock", "SHA256SUMS"}
    for line in (tmp_path / "dist" / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((tmp_path / "dist" / name).read_bytes()).hexdigest() == digest


@pytest.mark.slow
def test_a_package_with_another_hash_is_not_installed(tmp_path: Path) -> None:
    """uv verifies the hashes of constraints, so that `make` can install the project itself in editable form."""
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("needs uv")
    (tmp_path / "bad.lock").write_text(f"iniconfig=={constraints()['iniconfig']} --hash=sha256:{'0' * 64}\n")
    command = [uv, "pip", "install", "--no-cache", "--target", tmp_path / "out"]
    command += ["-c", tmp_path / "bad.lock", "iniconfig"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ash mismatch" not in done.stderr and re.search(r"[Ff]ailed to fetch|connect", done.stderr):
        pytest.skip("the package cannot be downloaded")
    assert done.returncode != 0
    assert "Hash mismatch" in done.stderr
    assert not (tmp_path / "out" / "iniconfig").exists()
