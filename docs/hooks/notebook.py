"""Hook of the documentation site: runs the notebooks of docs/ and shows each as a page, with its results."""

from __future__ import annotations

import os
import re
from typing import Any

import nbformat
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def run(path: str) -> nbformat.NotebookNode:
    """The notebook with the results of all cells. Raises CellExecutionError for a cell that fails."""
    notebook = nbformat.read(path, as_version=4)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": "."}})
    return client.execute()


def shown(output: Any) -> str:
    """One result of a cell as Markdown."""
    if output.output_type == "stream":
        return f"```text\n{COLOURS.sub('', output.text).rstrip()}\n```" if output.name == "stdout" else ""
    data = output.data
    if "image/png" in data:
        image = data["image/png"].replace("\n", "")
        return f'<img alt="The figure that this code draws" src="data:image/png;base64,{image}">'
    if "text/html" in data:
        html = re.sub(r"\n\s*\n", "\n", data["text/html"])  # an empty line would end the block
        return f'<div class="result">\n{html}\n</div>'
    return f"```text\n{data['text/plain']}\n```"


def as_markdown(notebook: nbformat.NotebookNode) -> str:
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts += [f"```python\n{cell.source}\n```", *map(shown, cell.outputs)]
    return "\n\n".join(filter(None, parts)) + "\n"


def on_files(files: Files, config: Any) -> Files:
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        try:
            page = as_markdown(run(str(file.abs_src_path)))
        except CellExecutionError as error:
            raise PluginError(f"{file.src_uri}: a cell fails: {COLOURS.sub('', str(error))}") from error
        files.append(File.generated(config, file.src_uri.removesuffix(".ipynb") + ".md", content=page))
    return files
