"""Contents of a ballot as people can read them: votes beside public rows, counts by class, plain numbers, models."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime, timedelta

import numpy as np

from ... import plugins
from ...ballot.sealed_shares import NAMES, SHARE_FORMAT
from ...election.columns import Category, Date, Number
from ...election.schema import Schema
from ...errors import printable
from ...party.context import PartyContext
from ...sparse import as_dense
from ...types import Array, Blob, Contents, Planned
from .record import Content, Table

ROWS, COLUMNS = 12, 8
PUBLIC_COLUMNS = 4
A_SHARE = "Nobody can check it by eye: without the other share it is random, and only its server can open it."
A_MODEL = (
    "A person cannot check a model by reading it. What it reveals about its training rows is measured by attacks: see "
    "“What an attacker can do”."
)


def describe_content(name: str, contents: Contents, ctx: PartyContext | None) -> Content:
    """An array or a model of a ballot. `ctx` is None if the election is unknown."""
    value = contents[name]
    if isinstance(value, Blob) and value.format == SHARE_FORMAT:
        meaning, digest = _meaning(name, ctx), hashlib.sha256(value.data).hexdigest()
        return Content(name=name, type="an encrypted share", shape=None, bytes=value.size, meaning=meaning,
                       checkable=False, note=A_SHARE, sha256=digest)  # fmt: skip
    if isinstance(value, Blob):
        return _describe_model(name, value, _meaning(name, ctx))
    table, note, checkable = _sample(name, value, contents, ctx)
    return Content(
        name=name,
        type=str(value.dtype),
        shape=list(value.shape),
        bytes=value.nbytes,
        meaning=_meaning(name, ctx),
        checkable=checkable,
        note=note,
        sample=table,
        sha256=hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest(),
    )


def describe_planned(planned: Planned, ctx: PartyContext) -> Content:
    """An array or a model that a ballot will carry."""
    if ctx.shared:
        return Content(name=planned.name, type="an encrypted share", shape=None, bytes=None,
                       meaning=_meaning(planned.name, ctx), checkable=False, note=A_SHARE)  # fmt: skip
    size = None if planned.shape is None else np.dtype(planned.type).itemsize * math.prod(planned.shape)
    return Content(
        name=planned.name,
        type="a model" if planned.shape is None else planned.type,
        shape=None if planned.shape is None else list(planned.shape),
        bytes=size,
        meaning=_meaning(planned.name, ctx),
        checkable=False,
        note=A_MODEL if planned.shape is None else "A sample can be shown after training.",
    )


def _meaning(name: str, ctx: PartyContext | None) -> str:
    if ctx is not None and ctx.shared and name in NAMES.values():
        return f"a share of the party's sums, encrypted for server {name[-1]} alone: random without the other share"
    known = {} if ctx is None else ctx.election.method.meanings
    return known.get(name) or known.get(name.partition(".")[0]) or "not described by the method"


def _describe_model(name: str, blob: Blob, meaning: str) -> Content:
    leaf, held = None, ""
    known = blob.format in plugins.names("formats")
    if known:
        made = plugins.find("formats", blob.format)
        try:
            leaf, rows = made.smallest_leaf(blob.data), len(made.rows_held(blob.data))
            held = f"it holds {rows:,} of the rows that it was trained on verbatim" if rows else ""
        except Exception:  # a damaged or hostile file
            held = "the file cannot be read"
    if leaf is not None:
        about = f"The smallest leaf of its trees was learned from {leaf:,} rows; leaves are not held against the limit."
    else:
        about = "How many rows its smallest leaf or part was learned from cannot be known: the format does not hold it."
    held = f" Beware: {held}." if held else ""
    return Content(
        name=name,
        type=f"a model, {printable(blob.format, 60)}{'' if known else ' (unknown format)'}",
        shape=None,
        bytes=len(blob.data),
        meaning=meaning,
        checkable=False,
        note=f"{A_MODEL} {about}{held}",
        smallest_leaf=leaf,
        sha256=hashlib.sha256(blob.data).hexdigest(),
    )


def _sample(name: str, value: Array, contents: Contents, ctx: PartyContext | None) -> tuple[Table | None, str, bool]:
    """A table, how to check it, and whether a person can."""
    if ctx is not None:
        try:
            shown = ctx.election.method.sample(name, contents, ctx, ROWS)
        except Exception as error:  # of a ballot from elsewhere
            return None, f"It is not what the method writes: {printable(error, 200)}", False
        if shown is not None:
            header, rows = list(shown.header[:COLUMNS]), [list(row[:COLUMNS]) for row in shown.rows]
            more = f" The first {COLUMNS} of {len(shown.header)} columns are shown." * (len(shown.header) > COLUMNS)
            if shown.public:
                names, cells = _public_cells(ctx, shown.public)
                header = ["public row", *names, *header]
                rows = [[f"{n + 1}", *c, *r] for n, c, r in zip(shown.public, cells, rows, strict=False)]
            return Table(header=header, rows=rows), shown.note + more, shown.checkable
        if name in ctx.election.method.counts and value.shape == (len(ctx.classes),):
            rows = [[str(c), f"{n:,}"] for c, n in zip(ctx.classes, value.tolist(), strict=True)]
            return Table(header=["class", "rows"], rows=rows), "All numbers are shown.", True
    return _numbers(value), "The first numbers. A person can compare them, but hardly judge them.", False


def _numbers(value: Array) -> Table | None:
    if not value.size:
        return None
    rows = value.reshape(-1, value.shape[-1] if value.ndim else 1)[:ROWS, :COLUMNS]
    return Table(
        header=["", *(str(i) for i in range(rows.shape[1]))],
        rows=[[str(i), *(f"{v:,}" if isinstance(v, int) else f"{v:.6g}" for v in row)]
              for i, row in enumerate(rows.tolist())],
    )  # fmt: skip


def _public_cells(ctx: PartyContext, numbers: tuple[int, ...]) -> tuple[list[str], list[list[str]]]:
    """The first columns of these public rows, decoded, so that a reader finds them in the public file."""
    schema, public = ctx.election.schema, ctx.public
    if schema is None or public is None or public.ndim != 2:
        return [], [[] for _ in numbers]
    return _decode(schema, as_dense(public[np.array(numbers)], "the public set"))


def _decode(schema: Schema, rows: Array) -> tuple[list[str], list[list[str]]]:
    names, cells, start = list[str](), [list[str]() for _ in rows], 0
    for column in schema.columns:
        block, start = rows[:, start : start + column.width], start + column.width
        if len(names) == PUBLIC_COLUMNS or not isinstance(column, Number | Date | Category):
            continue
        names.append(column.name)
        for cell, values in zip(cells, block, strict=True):
            cell.append(_decode_cell(column, values))
    return names, cells


def _decode_cell(column: Number | Date | Category, values: Array) -> str:
    if isinstance(column, Category):
        best = int(values.argmax())
        return column.categories[best] if values.any() and best < len(column.categories) else "–"
    if column.missing and values[1]:
        return "–"
    if isinstance(column, Number):
        low, high = column.range
        return f"{low + float(values[0]) * (high - low):.4g}"
    first, last = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in column.range)
    return f"{first + float(values[0]) * (last + timedelta(days=1) - first):%Y-%m-%d}"
