"""Inline SVG of matplotlib figures: small, accessible, and readable on light and dark pages.

What is drawn in black takes the colour of the text around it (currentColor). Series take `var(--plot-1)` to
`var(--plot-6)` where the page defines them, else colours that are visible on white and on black.
"""

from __future__ import annotations

import hashlib
import io
import re
import threading
import warnings
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any

from ..errors import MissingExtra, printable_lines

INK = "#000000"
COLOURS = ("#3b82c4", "#d9730d", "#2e9e5b", "#9b6bdf", "#d9485f", "#808080")
FONT = "system-ui, sans-serif"
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "grid.color": INK,
    "grid.alpha": 0.15,
    "legend.frameon": False,
    "legend.fontsize": "small",
    "font.size": 10,
}
_DRAWING = threading.Lock()


def draw(title: str, alt: str, width: float, height: float, plot: Callable[[Any], None]) -> str:
    """An `<svg>` element, `width` by `height` inches, with what `plot` draws on its axes.

    title: shown above the axes. alt: what the figure shows, in a sentence with its numbers, for those who cannot see
    it. Raises MissingExtra without matplotlib.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("A plot", "report") from None
    with _DRAWING, rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title, loc="left")
        plot(axes)
    return inline_svg(figure, title, alt)


def inline_svg(figure: Any, title: str, description: str = "") -> str:
    """A matplotlib figure as an SVG element (Markup) for a page. Text stays text; dollar signs in it are plain,
    and control characters are spaces.

    The title, and a description of what can be seen, are the text for those who cannot see it.
    """
    from markupsafe import Markup
    from matplotlib import rc_context
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    title, description = printable_lines(title), printable_lines(description)
    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_text(printable_lines(text.get_text()))
    for axis in (each for axes in figure.axes for each in (axes.xaxis, axes.yaxis)):
        if isinstance(written := axis.get_major_formatter(), FixedFormatter | FuncFormatter):  # names, not numbers
            axis.set_major_formatter(FuncFormatter(partial(_named, written)))
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "oneballot", "text.parse_math": False}
    file = io.StringIO()
    with _DRAWING, warnings.catch_warnings(), rc_context(settings):
        warnings.simplefilter("ignore")  # letters that matplotlib's own font lacks: the browser's font has them
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return Markup(_inline(file.getvalue(), title, description))


def _named(formatter: Callable[[Any, Any], str], value: Any, position: Any) -> str:
    return printable_lines(formatter(value, position))


def _inline(svg: str, title: str, description: str) -> str:
    key = "p" + hashlib.sha256(f"{title}\n{description}\n{svg}".encode()).hexdigest()[:8]
    box = re.search(r'viewBox="[\d. ]*"', svg)
    assert box is not None
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>|<!--.*?-->", "", body, flags=re.S)
    referred = set(re.findall(r'(?:href="|url\()#([^")]+)', body))
    body = re.sub(r'\s+id="([^"]+)"', lambda m: f' id="{key}{m[1]}"' if m[1] in referred else "", body)
    body = re.sub(r'(href="|url\()#', rf"\g<1>#{key}", body)
    body = re.sub(r"<(?!image)[^>]+>", _shorten, body)
    body = re.sub(r"\s*\n\s*", "\n", body).strip()
    width = 4 / 3 * float(box[0].split()[2])  # a point is 4/3 CSS pixels
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" class="plot" role="img" '
        f'{box[0]} style="width:100%;max-width:{width:.0f}px;height:auto" '
        f'aria-label="{escape(description or title)}"><title>{escape(title)}</title>'
    )
    return head + (f"<desc>{escape(description)}</desc>" if description else "") + "\n" + body


def _shorten(tag: re.Match[str]) -> str:
    """A tag with coordinates of two decimals, the page's font and the page's colours."""
    text = re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag[0])
    text = re.sub(r'(?<= d=")[^"]*', lambda m: _straightened(m[0]), text)
    text = re.sub(r"(font: (?:\S+ )?[\d.]+px) [^;\"]*", rf"\1 {FONT}", text)
    text = re.sub(r"font-family: [^;\"]*", f"font-family: {FONT}", text)
    text = text.replace(INK, "currentColor")
    for i, colour in enumerate(COLOURS, start=1):
        text = text.replace(colour, f"var(--plot-{i}, {colour})")
    return re.sub(r"\s*\n\s*", " ", text)


_LINES = re.compile(r"M (\S+) (\S+)((?:\s+L \S+ \S+){8,})(?=\s|$)")
"""A line of many points in a path."""


def _straightened(path: str) -> str:
    """A path without the points in the middle of horizontal and vertical lines, which steps have many of."""

    def line(match: re.Match[str]) -> str:
        kept: list[tuple[float, float]] = []
        numbers = [round(float(each), 1) for each in re.findall(r"[^\sML]+", match[0])]
        for x, y in zip(numbers[::2], numbers[1::2], strict=True):
            if kept[-1:] == [(x, y)]:
                continue
            if len(kept) > 1 and _between(kept[-2], kept[-1], (x, y)):
                kept.pop()
            kept.append((x, y))
        return "M {} L {}".format(*(" ".join(f"{x:g} {y:g}" for x, y in each) for each in (kept[:1], kept[1:])))

    return _LINES.sub(line, path)


def _between(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies between a and c on a horizontal or a vertical line."""
    return any(a[i] == b[i] == c[i] and (b[1 - i] - a[1 - i]) * (c[1 - i] - b[1 - i]) >= 0 for i in (0, 1))
