"""Writes an election.toml for people to read and edit."""

from __future__ import annotations

import difflib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import plugins
from ..data.read import Table, read
from ..errors import DataError, ElectionError, OneBallotWarning
from ..types import Array
from .columns import MISSING, Category, Number, Tensor, Text, as_text
from .file import FORMAT, digest_of
from .schema import Class, Columns, Schema, as_label

FEDKT = """\
[method]                        # how ballots are made and counted: docs/fedkt.md
name = "fedkt"
partitions = 1                  # s in the paper, which has partitions = 2, subsets = 5, students = true,
                                #                             voting = "consistent", open_vote = "off"
# Left out, these are chosen by the level of privacy (at L1 and L2 open_vote = "off"); at L0 they are as here:
# open_vote = "weighted"        # "off", "hard", "weighted" (the class and 4 bits of odds), "odds" (a byte a class)
# subsets = 1                   # t in the paper; at L2 25, the teachers whose votes are noised
# students = false
# influence = "equal"           # no ballot weighs more than another: for parties that might lie (not at L1)
queries = 1.0                   # how many public rows are labelled: a fraction up to 1, or a number
ballot = "votes"                # or "models": the models behind the votes, for a market

[learners.all]                  # or one each: [learners.teacher], [learners.student], [learners.final]
name = "sklearn"                # or "xgboost", "lightgbm", "torch" (networks: docs/networks.md)
estimator = "RandomForestClassifier"
params = { n_estimators = 100 }
"""

FOREST = """\
[learners.all]                  # or one for each role; or "xgboost", "lightgbm", "torch" (networks: docs/networks.md)
name = "sklearn"
estimator = "RandomForestClassifier"
params = { n_estimators = 100 }
"""


L0 = """\
[privacy]
level = "L0"                    # no noise: whoever sees ballots or model is trusted; L1 and L2: docs/privacy.md
"""

_LEVELS = {
    "L1": "noise at the tally; the server is trusted, whoever has the model is not; the unit is a party",
    "L2": "noise at each party; nobody else is trusted; the unit is a row",
}


def section(method: str) -> str:
    """[method], and [learners.all] where it trains any: what the method says itself (`draft`), or its name alone."""
    if method == "fedkt":
        return FEDKT
    found = plugins.find("methods", method)
    told = f'[method]                        # docs/{method}.md\nname = "{method}"\n{getattr(found, "draft", "")}'
    return told if "[learners" in told or not found().needs.keys() - {"public"} else f"{told}\n{FOREST}"


def draft(
    public: Path, label: str, *, beside: Path, method: str = FEDKT,
    classes: Sequence[Class] = (), row_id: str | None = None, lenient: bool = False, privacy: str = L0,
    server_key: str | None = None, named: bool = True,
) -> str:  # fmt: skip
    """An election over the columns of a public file, with or without labels; `named`: the file is part of it."""
    table = read(public)
    _check_columns(table, label, classes, row_id)
    known = tuple(classes) or tuple(sorted_labels(table.columns[label]))
    if label in table.columns:
        others = [str(c) for c in sorted_labels(table.columns[label]) if str(c) not in map(str, known)]
        if others:
            text = f"{table.source} has labels that are not among the classes: {', '.join(others[:5])}"
            warnings.warn(text, OneBallotWarning, stacklevel=2)
    schema = infer(table.columns, label, row_id)
    return write(beside, public, known, schema.lenient() if lenient else schema, name=beside.stem,
                 method=method, privacy=privacy, server_key=server_key, named=named)  # fmt: skip


def private(level: str, epsilon: float) -> str:
    """The section [privacy] of an election with a budget."""
    told = _LEVELS[level]
    return f"""\
[privacy]                       # {told}: docs/privacy.md
level = "{level}"
epsilon = {epsilon!r}                   # the budget; the noise follows. Or state the noise: gamma, sigma or scale
delta = 1e-5
mechanism = "auto"              # the best of "gumbel", "gaussian", "laplace" for these classes and queries
adjacency = "replace"           # or "add-remove"
"""


def _check_columns(table: Table, label: str, classes: Sequence[Class], row_id: str | None) -> None:
    names = list(table.columns)
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(f"{table.source} has one column, {names[0]!r}: save it with commas between the columns")
    for what, name in (("--label", label), ("--id", row_id)):
        near = difflib.get_close_matches(name or "", names, n=1)
        if name is not None and name not in names and near:
            raise DataError(f"{what} {name}: {table.source} has no such column; did you mean {near[0]!r}?")
    if row_id is not None and row_id not in names:
        raise DataError(f"--id {row_id}: {table.source} has no such column; it has {', '.join(names)}")
    if label not in names and not classes:
        raise DataError(
            f"{table.source} has no column {label!r}, so the classes are not known: name them with --classes a,b,c "
            f"(its columns are {', '.join(names)})"
        )


def write(
    path: Path,
    public: Path,
    classes: Sequence[Class],
    schema: Schema,
    *,
    name: str,
    method: str = FEDKT,
    quorum: int = 1,
    privacy: str = L0,
    server_key: str | None = None,
    named: bool = True,
) -> str:
    """The text of an election over this schema, to be saved at `path`; `named`: the public file is part of it."""
    reader = '# server_key = "x25519:…"        ' if server_key is None else f"server_key = {_value(server_key)}  "
    reader += '# ballots are encrypted to it (at L1 they must be, or say "none"): docs/keys.md'
    if len(classes) < 2:
        raise ElectionError(f"an election needs at least two classes, and {public} has {list(classes)}")
    rows = _public(public, path, schema) if named else "# [public]                      # not needed by this method\n"
    needed = "this file and the public set" if named else "this file"
    columns = "\n".join(f"  {_inline(c.model_dump(mode='json'))}," for c in schema.columns)
    comment = '# id = "visit"               # a column with a stable ID of each row, not a feature'
    row_id = f"id = {_value(schema.id)}" if schema.id else comment
    return f"""\
# An election of OneBallot: the agreement that all parties share. Everybody needs {needed}.
format = {FORMAT}
name = {_value(name)}
classes = {_value(list(classes))}
seed = 0
quorum = {quorum}                      # how many ballots must count; like roster and deadline it may change at any time
# deadline = 2027-03-01T12:00:00Z  # until then a tally waits for all of the roster; later ballots make the next one

{reader}
# max_ballot_mb = 64             # a larger ballot is not even read
# max_model_seconds = 60         # where ballots carry models: how long one may take to answer

{rows}
{method}
{privacy}
[roster]                        # who may vote, with the key that `oneballot keys new NAME` prints; empty: anybody
# clinic-a = "ed25519:…"
# [revoked]                     # keys that do not count any more, each with the reason: docs/keys.md
# "ed25519:…" = "stolen on 3 May"

[schema]                        # how every party's file becomes numbers; nothing is learned from a party's file for it
label = {_value(schema.label)}
{row_id}
# number: range is scaled to 0..1; outside = "error" or "clip"; missing = true adds a feature that says so
# category: outside = "error" or "blank"; text: hashed into `features` numbers
columns = [
{columns}
]
"""


def _public(public: Path, path: Path, schema: Schema) -> str:
    table = read(public)
    digest = digest_of(schema.encode(table.columns, table.source))
    try:
        where = public.resolve().relative_to(path.parent.resolve())
    except ValueError:
        where = public.resolve()
        text = (
            f"the election names its public set by {where}, which other machines do not have; put it beside {path.name}"
        )
        warnings.warn(text, OneBallotWarning, stacklevel=3)
    return f"""\
[public]                        # rows without secrets that all parties and the server have; labels are not used
path = {_value(str(where))}
digest = {_value(digest)}
"""


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return _inline(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # all in which JSON and TOML text differ


def _inline(table: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in table.items()) + " }"


def sorted_labels(values: Array) -> list[Class]:
    """The distinct labels of a column: whole numbers in their order, anything else as text."""
    if values.ndim != 1:
        raise DataError(f"expected one label per row, not shape {values.shape[1:]}")
    texts = sorted({as_label(v) for v in values} - {""})
    try:
        return sorted(int(t) for t in texts)
    except ValueError:
        return list(texts)


def infer(columns: Columns, label: str, row_id: str | None = None) -> Schema:
    """A schema that fits a public table: numbers where all values are, else categories, else text."""
    if not columns.keys() - {label, row_id}:
        raise DataError(f"the file has no columns but {', '.join(columns)}: there is nothing to learn from")
    described = tuple(_infer_column(name, values) for name, values in columns.items() if name not in (label, row_id))
    return Schema(label=label, id=row_id, columns=described)


def _infer_column(name: str, values: Array) -> Number | Category | Text | Tensor:
    if values.ndim > 1:
        image = values.ndim == 4 and values.dtype == np.uint8
        tokens = values.ndim == 2 and np.issubdtype(values.dtype, np.integer)
        return Tensor(name=name, kind="image" if image else "tokens" if tokens else "features", shape=values.shape[1:])
    text = [as_text(v) for v in values]
    present = [t for t in text if t.lower() not in MISSING]
    try:
        numbers = [float(t) for t in present]
    except ValueError:
        categories = tuple(sorted({t for t in text if t}))
        if len(categories) > max(50, len(text) // 2):
            return Text(name=name)
        return Category(name=name, categories=categories, missing="" in text)
    if not numbers:
        raise DataError(f"column {name!r} is empty: take it out")
    if not all(map(math.isfinite, numbers)):
        raise DataError(f"column {name!r} has an infinite number: mend it, or leave the cell empty")
    return Number(name=name, range=(min(numbers), max(numbers)), missing=len(present) < len(text))
