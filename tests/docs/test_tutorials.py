"""Every code block of the tutorials runs, in the order of the page, and so does every cell of the notebook."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs/tutorials"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
EXPECTED = {
    # what the commands must print, in this order
    "first_election.md": (
        r"hospital-a\s+counted", r"hospital-b\s+counted", r"accuracy 9\d\.\d %", r"169 predictions", "own model",
    ),
    "three_organisations.md": (
        r"centre\s+no valid ballot yet", r"centre\s+counted", r"accuracy 9\d\.\d %", r"centre\s+left out",
        r"malignant +[\d.]+ % +[3-6]\d\.\d %",
    ),
    "private_election.md": ("epsilon 1.0000", "18 sums", r"accuracy [789]\d\.\d %", "epsilon 1 at delta 1e-05",
                            r"accuracy 9\d\.\d %"),
    "own_network.md": ("together: ", "open ensemble: 9"),
}  # fmt: skip


def program(page: str) -> list[str]:
    """The command that runs a page: as Python where all blocks are, and otherwise as a script of the shell."""
    blocks = BLOCK.findall((TUTORIALS / page).read_text("utf-8"))
    languages = {language for language, _ in blocks}
    assert languages <= {"python", "sh"}, f"{page} has code blocks that no test runs: {languages}"
    if languages == {"python"}:
        ignored = "import warnings, oneballot\nwarnings.simplefilter('ignore', oneballot.OneBallotWarning)\n"
        return [sys.executable, "-c", ignored + "\n".join(text for _, text in blocks)]
    as_shell = {"sh": "{}", "python": f"'{sys.executable}' - <<'END_OF_PYTHON'\n{{}}END_OF_PYTHON\n"}
    return ["bash", "-c", "set -e\n" + "\n".join(as_shell[language].replace("{}", text) for language, text in blocks)]


def test_every_tutorial_has_an_expectation() -> None:
    assert {path.name for path in TUTORIALS.glob("*.md")} == EXPECTED.keys()


@pytest.mark.slow
@pytest.mark.parametrize("page", EXPECTED)
def test_a_tutorial_runs_as_it_stands(page: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    if page == "own_network.md":
        pytest.importorskip("torch")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        program(page),
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    position = 0
    for pattern in EXPECTED[page]:
        match = re.compile(pattern).search(done.stdout, position)
        assert match, f"no {pattern!r} in\n{done.stdout[position:]}"
        position = match.end()


@pytest.mark.slow
def test_the_notebook_runs_from_the_first_cell_to_the_last(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    notebook = nbformat.read(TUTORIALS / "notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "results are made when the site is built"
    done = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    scores = next(o["data"]["text/plain"] for c in done.cells for o in c.get("outputs", ()) if "alone" in str(o))
    values = {name.strip(): float(value) for name, value in re.findall(r"^(.+?) +(0\.\d+|1\.0)$", scores, re.M)}
    assert values.pop("all three") > max(values.values()) - 0.02
    assert len(values) == 3
    assert any("image/png" in o.get("data", ()) for c in done.cells for o in c.get("outputs", ()))
