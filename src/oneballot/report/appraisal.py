"""The picture, the table and the page of an appraisal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OneBallotError
from .page import Block, Figure, Section, Table, check_destination, render_page, save
from .plots import check_image_path, start
from .svg import COLOURS, INK, draw

if TYPE_CHECKING:
    from ..server.appraise.record import Appraisal

BANNER = "DO NOT PUBLISH: votes without noise. This page is for the server alone."
TITLE = "What each party adds"
COLUMNS = ("party", "Shapley value", "95 % interval")


def rows_of(appraisal: Appraisal) -> list[list[str]]:
    """The party, its value and its interval, in points."""
    return [
        [each.party, f"{100 * each.value:+.2f}", f"{100 * each.low:+.2f} to {100 * each.high:+.2f}"]
        for each in appraisal.parties
    ]


def blocks_of(appraisal: Appraisal) -> list[Block]:
    """The picture, the table and what they mean, for a page."""
    table = Table(f"{TITLE}: points of {appraisal.metric}", COLUMNS, rows_of(appraisal))
    return [Figure(picture(appraisal), f"{TITLE}: points of {appraisal.metric}."), table, *appraisal.sentences]


def picture(appraisal: Appraisal) -> str:
    """A bar for each party with its interval, as inline SVG."""
    said = "; ".join(f"{party}: {value} ({between})" for party, value, between in rows_of(appraisal))
    title = f"{TITLE} to the {appraisal.metric}"
    height = 1.3 + 0.3 * len(appraisal.parties)
    return draw(title, f"{title}, in points. {said}.", 6.5, height, lambda axes: _bars(axes, appraisal))


def check_output(path: Path, *inputs: Path | None) -> None:
    """Raise OneBallotError, before any work is done, unless a page or a picture can be written there."""
    if path.suffix.lower() == ".html":
        check_destination(path, inputs)
    elif path.suffix.lower() in (".png", ".svg", ".pdf"):
        check_image_path(path)
        start(1, 1)
    else:
        raise OneBallotError(f"{path}: the name must end in .html, .png, .svg or .pdf")


def write(appraisal: Appraisal, path: Path, name: str) -> None:
    """Write a page, or only the picture, about the outcome with this name. If secret, only its owner may read it."""
    secret = appraisal.secret
    if path.suffix.lower() == ".html":
        title = f"{'DO NOT PUBLISH – ' * secret}Appraisal: {name}"
        lead = f"Shapley values on {appraisal.rows:,} labelled validation rows."
        page = render_page(title, [Section(TITLE, blocks_of(appraisal))], lead=lead, banner=BANNER if secret else "")
        save(path, page, secret=secret)
        return
    figure, axes = start(6.5, 1.3 + 0.3 * len(appraisal.parties))
    axes.set_title(f"{'DO NOT PUBLISH: ' * secret}{TITLE} to the {appraisal.metric}", loc="left")
    _bars(axes, appraisal)
    path.touch(0o600 if secret else 0o644)
    if secret:
        path.chmod(0o600)
    figure.savefig(path, dpi=120)


def _bars(axes: Any, appraisal: Appraisal) -> None:
    shown = appraisal.parties
    values = [100 * each.value for each in shown]
    below = [100 * (each.value - each.low) for each in shown]
    above = [100 * (each.high - each.value) for each in shown]
    colours = [COLOURS[1] if value < 0 else COLOURS[0] for value in values]
    axes.barh(range(len(shown)), values, color=colours, height=0.65)
    axes.errorbar(values, range(len(shown)), xerr=[below, above], fmt="none", ecolor=INK, elinewidth=1, capsize=3)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(shown)), [each.party for each in shown])
    axes.invert_yaxis()
    axes.set_xlabel(f"points of {appraisal.metric}, with 95 % intervals")
    axes.grid(axis="x", alpha=0.3)
