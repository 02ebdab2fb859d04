"""Builds a release: a source archive and a wheel, with a bill of materials, the licences and SHA-256 sums.

    python release/build.py --out dist

Builds twice, from copies of the committed files in different folders, and fails unless the bytes are the same. So
anyone can build the release from its commit and compare. Times in the archives are the commit's (SOURCE_DATE_EPOCH).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

from dependencies import LICENSES, ROOT, bill_of_materials, project


def commit_time() -> int:
    """When the commit was made, or the environment's SOURCE_DATE_EPOCH."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    return int(subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True))


def build(folder: Path, commit: str, epoch: int, umask: int) -> dict[str, bytes]:
    """The files of a release, by name, built from a copy of the commit in this folder."""
    archive = subprocess.check_output(["git", "archive", commit], cwd=ROOT)
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    command = [Path(sys.executable).with_name("uv"), "build", "--quiet", "--out-dir", folder / "out"]
    command += ["--build-constraint", folder / "requirements.lock", folder]
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(command, env=env, check=True, umask=umask)
    return {path.name: path.read_bytes() for path in (folder / "out").iterdir() if path.name.startswith("oneballot")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--commit", default="HEAD")
    options = parser.parse_args()
    epoch = commit_time()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory(prefix="another-place-") as two:
        built = build(Path(one), options.commit, epoch, 0o022)
        again = build(Path(two), options.commit, epoch, 0o077)
    if built != again or len(built) != 2:
        differ = [name for name in built.keys() | again.keys() if built.get(name) != again.get(name)]
        print(f"error: two builds of the same commit differ: {', '.join(differ)}", file=sys.stderr)
        return 1
    version = project()["version"]
    built[f"oneballot-{version}.cdx.json"] = bill_of_materials(version, epoch).encode()
    built[LICENSES.name] = LICENSES.read_bytes()
    built["requirements.lock"] = (ROOT / "requirements.lock").read_bytes()
    sums = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(built.items())]
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    for name, data in {**built, "SHA256SUMS": "".join(sums).encode()}.items():
        (options.out / name).write_bytes(data)
    print("".join(sums), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
