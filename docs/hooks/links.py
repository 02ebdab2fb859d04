"""Hook of the documentation site: files of the repository outside docs/ become pages, so that links to them work.

A Markdown file becomes a page under repository/, any other file a page that shows its text. README.md stands for the
site's own front page, and a notebook for the page that shows it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
ALWAYS = ("SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "benchmarks/README.md")
FENCE = re.compile(r"(^ *(?:```|~~~)[^\n]*\n.*?^ *(?:```|~~~) *$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\(<?|^\[[^\]\n]+\]: +)([^\s)>#]+)", re.MULTILINE)
FOLDER = "repository/"


def page_of(path: str) -> str:
    """The page of the site that shows a file of the repository; both paths are relative to their root."""
    if path.startswith("docs/"):
        return re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/"))
    if path == "README.md":
        return "index.md"
    return FOLDER + (path if path.endswith(".md") else f"{path}.md")


def rewrite_links(text: str, file: str, use: Callable[[str], None] = lambda path: None) -> str:
    """The text of a file of the repository with its links pointing at pages of the site.

    Code blocks stay as they are. `use` receives every file outside docs/ that the text links to.
    """
    here = posixpath.dirname(page_of(file))

    def rewrite(match: re.Match[str]) -> str:
        before, link = match.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), link))
        if re.match(r"[a-z][a-z0-9+.-]*:|/", link) or not (ROOT / path).is_file():
            return match[0]
        if not path.startswith("docs/"):
            use(path)
        return before + posixpath.relpath(page_of(path), here or ".")

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(rewrite, part) for part in parts[::2]]
    return "".join(parts)


def as_markdown(path: str) -> str:
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".md"):
        return text
    language = "python" if path.endswith(".py") else "text"
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{text}\n````\n"


def outside(texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The files outside docs/ that (file, text) pairs link to, directly or through one another, as rewritten pages."""
    found: dict[str, str] = {}
    waiting = list(ALWAYS)
    for file, text in texts:
        rewrite_links(text, file, waiting.append)
    while waiting:
        path = waiting.pop()
        if path not in found and path != "README.md":
            text = as_markdown(path)
            found[path] = rewrite_links(text, path, waiting.append) if path.endswith(".md") else text
    return found


def on_files(files: Files, config: Any) -> Files:
    pages = [(f"docs/{page.src_uri}", page.content_string) for page in files.documentation_pages()]
    for path, text in outside(pages).items():
        files.append(File.generated(config, page_of(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri
    return markdown if uri.startswith(FOLDER) else rewrite_links(markdown, f"docs/{uri}")
