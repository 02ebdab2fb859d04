"""Objects that notebooks show as HTML. What is shown is in `report.notebook`, which lower rooms may not import."""

from __future__ import annotations

from importlib import import_module


class Shown:
    """Has an HTML representation where jinja2 (the extra `report`) is installed."""

    def _repr_html_(self) -> str | None:
        """A fragment for a notebook; None without jinja2, so that the notebook shows the text instead."""
        fragment: str | None = import_module("oneballot.report.notebook").fragment(self)
        return fragment
