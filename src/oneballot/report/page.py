"""Self-contained HTML pages: jinja2 templates with inline CSS, script and SVG, which load nothing from anywhere.

A page is a template of `templates/` that extends `base.html`, or `page.html` filled with sections of the blocks below.
Every value is escaped, except the SVG of figures, which svg.py draws.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import MissingExtra, OneBallotError
from ..runtime.files import check_writable, write_atomic
from .svg import inline_svg as inline_svg

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_OPTION = re.compile(r"(?<![\w-])--[a-z]+(-[a-z]+)*")
_CODE = re.compile(r"`([^`]+)`")
_NUMBER = re.compile(r"(about |[-+–—~<>≥≤±])?\s?\d[\d,.  ]*\s?(%|[kMG]?B|bytes|ms|s|min|h)?( ?(±|to) .*)?")

GENERATOR = b'<meta name="generator" content="OneBallot">'
"""In the head of every page, so that only pages are overwritten by pages."""
HEAD_BYTES = 4096


@dataclass(frozen=True)
class Table:
    """A table. The first cell of each row is its header.

    caption: what it shows; required, as screen readers announce it. emphasis: numbers of the rows to highlight. empty:
    the sentence to show if there are no rows. sortable: whether the script may sort it.
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[object]
    rows: Sequence[Sequence[object]]
    note: str = ""
    emphasis: Sequence[int] = ()
    empty: str = "None."
    sortable: bool = True

    @functools.cached_property
    def numeric(self) -> list[bool]:
        """For each column, except the first, whether all its cells are numbers, which are aligned to the right."""
        cells = [[str(cell).strip() for cell in column] for column in zip(*self.rows, strict=True)]
        known = [[cell for cell in column if cell not in ("", "–")] for column in cells]
        return [i > 0 < len(column) and all(map(_NUMBER.fullmatch, column)) for i, column in enumerate(known)]


@dataclass(frozen=True)
class Facts:
    """Names and values, such as versions and digests. A value may be a sequence, one line each."""

    kind: ClassVar[str] = "facts"
    values: Mapping[str, object]


@dataclass(frozen=True)
class Figure:
    """A plot: `svg` comes from svg.py, which escapes what it draws."""

    kind: ClassVar[str] = "figure"
    svg: str
    caption: str

    @property
    def markup(self) -> str:
        from markupsafe import Markup

        return Markup(self.svg if self.svg.startswith("<svg") else "")


@dataclass(frozen=True)
class Figures:
    """Several plots beside each other, where there is space."""

    kind: ClassVar[str] = "figures"
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Notice:
    """A sentence in a box. tone: good, info, warning or bad."""

    kind: ClassVar[str] = "notice"
    text: str
    tone: str = "info"
    title: str = ""


@dataclass(frozen=True)
class Commands:
    """Lines to type in a terminal."""

    kind: ClassVar[str] = "commands"
    lines: Sequence[str]


@dataclass(frozen=True)
class Bullets:
    kind: ClassVar[str] = "bullets"
    items: Sequence[object]


@dataclass(frozen=True)
class Details:
    """Blocks behind a line that opens them; they are printed."""

    kind: ClassVar[str] = "details"
    summary: str
    blocks: Sequence[Block]


Block = str | Table | Facts | Figure | Figures | Notice | Commands | Bullets | Details
"""A part of a section; a string is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A heading and its blocks, and sections below it. anchor: the id of the heading; empty: made from the title."""

    title: str
    blocks: Sequence[Block] = ()
    sections: Sequence[Section] = field(default=())
    anchor: str = ""

    @property
    def id(self) -> str:
        return self.anchor or "-".join(re.findall(r"[^\W_]+", self.title.lower())) or "section"


def render(template: str, **context: Any) -> str:
    """The text of a template with these values. Raises MissingExtra without jinja2."""
    return _environment().get_template(template).render(context)


def render_page(
    title: str, sections: Sequence[Section], *, lead: str = "", notices: Sequence[Notice] = (), banner: str = ""
) -> str:
    """A whole page from sections, without a template of its own. `banner`: a warning above everything."""
    numbered = _number_ids(sections, {"main"})
    return render("page.html", title=title, lead=lead, notices=notices, sections=numbered, banner=banner)


def _number_ids(sections: Sequence[Section], taken: set[str]) -> list[Section]:
    """The sections with ids that differ: equal ones are numbered. Adds them to `taken`."""
    found = []
    for section in sections:
        names = (section.id, *(f"{section.id}-{i}" for i in range(2, len(taken) + 3)))
        name = next(each for each in names if taken.isdisjoint((each, f"{each}-title")))
        taken |= {name, f"{name}-title"}
        found.append(replace(section, anchor=name, sections=_number_ids(section.sections, taken)))
    return found


def render_blocks(blocks: Sequence[Block]) -> str:
    """The blocks as HTML without a page around them, such as for a notebook."""
    return render("blocks.html", blocks=blocks)


def save(path: Path, text: str, *, secret: bool = False) -> None:
    """Write a page. A process killed at any moment leaves the old page or the new one.

    secret: for its owner only. What UTF-8 cannot express, such as parts of a file's name, becomes a question mark.
    """
    write_atomic(path, text.encode(errors="replace"), 0o600 if secret else 0o644)


def check_destination(path: Path, inputs: Sequence[Path | None] = ()) -> None:
    """Raise an error, before any work is done, if a page cannot or must not be written there.

    inputs: files and folders that the command reads; a folder may hold the page, but no file of it is replaced.
    """
    if find_spec("jinja2") is None or find_spec("matplotlib") is None:
        raise MissingExtra("Writing a page", "report")
    if path.suffix.lower() != ".html":
        raise OneBallotError(f"{path}: the name of a page must end in .html")
    if any(each is not None and each.resolve() == path.resolve() for each in inputs):
        raise OneBallotError(f"{path} is also read by this command; choose another name for the page")
    if not path.parent.is_dir():
        raise OneBallotError(f"{path}: there is no folder {path.parent}; create it first")
    check_writable(path.parent)
    if path.is_dir():
        raise OneBallotError(f"{path} is a folder; choose another name for the page")
    if path.exists():
        with path.open("rb") as file:
            ours = GENERATOR in file.read(HEAD_BYTES)
        if not ours:
            raise OneBallotError(
                f"{path} exists and is not a page that OneBallot wrote; choose another name, or remove it"
            )


def _keep_options(text: object) -> Markup:
    """Text whose command-line options, such as --min-count, are not broken at their hyphens; `code` looks like code."""
    from markupsafe import Markup, escape

    unbroken = _OPTION.sub(r'<span class="whole">\g<0></span>', str(escape(text)))
    return Markup(_CODE.sub(r"<code>\1</code>", unbroken))


@functools.cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtra("Writing a page", "report") from None
    from markupsafe import Markup

    loader = PackageLoader("oneballot.report", "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    folder = resources.files("oneballot.report") / "templates"
    script = folder.joinpath("page.js").read_text("utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made.filters["keep_options"] = _keep_options
    made.globals["style"] = Markup(folder.joinpath("page.css").read_text("utf-8").strip())
    made.globals["script"], made.globals["script_digest"] = Markup(script), digest
    return made
