"""Values and keys as TOML text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date, time
from typing import Any

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return toml_table(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}"
    if isinstance(value, date | time):  # also a date with a time
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML, unlike JSON, must escape DEL


def toml_table(table: Mapping[str, Any]) -> str:
    """A table on one line. TOML has no null, so settings without a value are left out."""
    pairs = ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in table.items() if v is not None)
    return f"{{ {pairs} }}" if pairs else "{}"


def toml_key(name: str) -> str:
    """A key, in quotes if it needs them."""
    return name if BARE_KEY.fullmatch(name) else toml_value(name)
