"""Markdown and YAML from untrusted text: names of classes, columns and elections cannot add markup or metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from ...errors import printable

MOST = 80
"""The longest name that is shown in full."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>&|~!#$^=])")
_LINK = re.compile(r"(?i)(://|www\.|mailto:|xmpp:)")


def _clean(text: object, most: int) -> str:
    """One line without control characters, of limited length."""
    line = " ".join(printable(text, most + 1).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def escaped(text: object, most: int = 2000) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no links."""
    safe = _SPECIAL.sub(r"\\\1", _clean(text, most))
    return _LINK.sub(lambda match: match[0].replace(":", "\\:").replace(".", "\\."), safe)


def code(text: object, most: int = MOST) -> str:
    """A name or value in monospace, also in a table."""
    line = _clean(text, most) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}".replace("|", r"\|")


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names in monospace, separated by commas; of a long list the first ones."""
    every = list(names)
    shown = ", ".join(code(name) for name in every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most:,} more"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are already Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def quoted(text: object, most: int = MOST) -> str:
    """A string of YAML. Control characters are gone, so JSON's escapes are also YAML's."""
    return json.dumps(_clean(text, most), ensure_ascii=False)
