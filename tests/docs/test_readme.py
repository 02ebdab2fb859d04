"""What the README tells a newcomer to type works as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_is_a_front_page() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150
    assert (README.parent / "docs/images/report.png").stat().st_size < 150_000


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
