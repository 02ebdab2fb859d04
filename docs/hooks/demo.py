"""Hook of the documentation site: runs `oneballot demo`, and adds the pages that it writes to the gallery."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

PAGES = {
    "report.html": "[The report](gallery/report.html): who voted, what each party brought, how good the model is.",
    "dossier.html": "[The release dossier](gallery/dossier.html): what leaves a party, before it leaves.",
}
MARK = "<!-- pages of the demo -->"
FOLDER = "gallery/"


def pages_of_the_demo() -> dict[str, str]:
    """The pages that the demo writes, by their names."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "oneballot", "demo", "--out", "demo"]
        done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PluginError(f"the demo fails, so there is nothing to show in the gallery:\n{done.stderr}")
        made = [Path(folder, "demo", name) for name in PAGES]
        return {path.name: path.read_text("utf-8") for path in made if path.exists()}


def on_files(files: Files, config: Any) -> Files:
    for name, page in pages_of_the_demo().items():
        files.append(File.generated(config, f"{FOLDER}{name}", content=page))
    return files


def on_page_markdown(markdown: str, files: Files, **_: Any) -> str:
    made = [text for name, text in PAGES.items() if files.get_file_from_path(f"{FOLDER}{name}")]
    return markdown.replace(MARK, "\n".join(f"- {text}" for text in made) or "This version writes no pages yet.")
