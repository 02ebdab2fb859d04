"""What the README tells a newcomer to type works as it stands."""

from __future__ import annotations

import hashlib
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_is_a_front_page() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150
    assert (README.parent / "docs/images/report.png").stat().st_size < 150_000


def test_the_picture_of_the_report_shows_what_the_report_of_the_demo_holds_now(tmp_path: Path) -> None:
    """Its outline is compared, not its pixels. If it differs: make picture."""
    made = runpy.run_path(str(README.parent / "release" / "picture.py"))
    shown = json.loads(made["OUTLINE"].read_text("utf-8"))
    assert hashlib.sha256(made["PICTURE"].read_bytes()).hexdigest() == shown["sha256"]
    command = [sys.executable, "-m", "oneballot", "demo", "--out", "demo"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    page = (tmp_path / "demo" / "report.html").read_text("utf-8")
    assert made["outline"](page) == shown["shows"], "run: make picture"
    # a column more, or another title, is noticed; another number is not
    assert made["outline"](page.replace(">recall</", ">sensitivity</")) != shown["shows"]
    assert made["outline"](re.sub(r"0\.9\d\d", "0.123", page)) == shown["shows"]
    with pytest.raises(ValueError, match="no table"):
        made["outline"](page.replace("By class", "Of classes"))


def test_three_clinics_and_a_server_run_the_readmes_election(tmp_path: Path) -> None:
    (typed,) = re.findall(r"```sh\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = f"set -e\noneballot demo\n{typed}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "it is a ballot of this election" in done.stdout
    assert re.search(r"clinic-a\s+counted", done.stdout)
    assert "</html>" in (tmp_path / "report.html").read_text("utf-8")
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 451
    (accuracy,) = re.findall(r"accuracy ([0-9.]+) %", done.stdout.split("counted")[-1])
    assert float(accuracy) > 70
