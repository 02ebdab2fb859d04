"""Write a first draft of an election.toml for people to read and edit."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import plugins
from ..data.read import Table, read
from ..errors import DataError, ElectionError, OneBallotWarning
from ..types import Array
from .columns import MISSING, Category, Number, Tensor, Text, as_text
from .file import FORMAT, digest_of
from .schema import Class, Columns, Schema, as_label
from .toml import toml_table, toml_value

FEDKT = """\
[method]                        # how ballots are made and counted: docs/fedkt.md
name = "fedkt"
partitions = 1                  # s in the paper, which has partitions = 2, subsets = 5, students = true,
                                #                             voting = "consistent", open_vote = "off"
# These defaults depend on the privacy level (open_vote = "off" at L1 and L2). At L0 they are:
# open_vote = "weighted"        # "off", "hard", "weighted" (class and 4 bits of odds), "odds" (a byte per class)
# subsets = 1                   # t in the paper; at L2 25, the teachers whose votes are noised
# students = false
# influence = "equal"           # all ballots weigh the same: for parties that might lie (not at L1)
queries = 1.0                   # how many public rows are labelled: a fraction up to 1, or a number
ballot = "votes"                # or "models": send the models instead of their votes

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
level = "L0"                    # no noise: everyone who sees ballots or the model is trusted; L1, L2: docs/privacy.md
"""

_LEVELS = {
    "L1": "noise at the tally: protects a party; the server is trusted, users of the model are not",
    "L2": "noise at each party: protects a row; neither the server nor anyone else is trusted",
}


def section(method: str) -> str:
    """The section [method] and, if the method has learners, [learners.all]."""
    if method == "fedkt":
        return FEDKT
    plugin = plugins.find("methods", method)
    text = f'[method]                        # docs/{method}.md\nname = "{method}"\n{getattr(plugin, "draft", "")}'
    return text if "[learners" in text or not plugin().needs.keys() - {"public"} else f"{text}\n{FOREST}"


def draft(
    public: Path,
    label: str,
    *,
    beside: Path,
    method: str = FEDKT,
    classes: Sequence[Class] = (),
    row_id: str | None = None,
    lenient: bool = False,
    privacy: str = L0,
    server_key: str | None = None,
    has_public: bool = True,
) -> str:
    """The text of an election over the columns of a file, which is its public set unless `has_public` is False."""
    table = read(public)
    _check_columns(table, label, classes, row_id)
    known = tuple(classes) or tuple(sorted_labels(table.columns[label]))
    if label in table.columns:
        others = [str(c) for c in sorted_labels(table.columns[label]) if str(c) not in map(str, known)]
        if others:
            text = f"{table.source} has labels that are not classes of the election: {', '.join(others[:5])}"
            warnings.warn(text, OneBallotWarning, stacklevel=2)
    schema = infer(table.columns, label, row_id)
    schema = schema.lenient() if lenient else schema
    return write(
        beside, public, known, schema, method=method, privacy=privacy, server_key=server_key, has_public=has_public
    )


def private(level: str, epsilon: float) -> str:
    """The section [privacy] of an election with a privacy budget."""
    return f"""\
[privacy]                       # {_LEVELS[level]}: docs/privacy.md
level = "{level}"
epsilon = {epsilon!r}                   # the privacy budget, which determines the noise; or set gamma, sigma or scale
delta = 1e-5
mechanism = "auto"              # the best of "gumbel", "gaussian", "laplace" for these classes and queries
adjacency = "replace"           # or "add-remove"
"""


def _check_columns(table: Table, label: str, classes: Sequence[Class], row_id: str | None) -> None:
    names = list(table.columns)
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(f"{table.source} has only one column, {names[0]!r}: save it with commas between the columns")
    for what, name in (("--label", label), ("--id", row_id)):
        near = difflib.get_close_matches(name or "", names, n=1)
        if name is not None and name not in names and near:
            raise DataError(f"{what} {name}: {table.source} has no such column; did you mean {near[0]!r}?")
    if row_id is not None and row_id not in names:
        raise DataError(f"--id {row_id}: {table.source} has no such column; it has {', '.join(names)}")
    if label not in names and not classes:
        raise DataError(
            f"{table.source} has no column {label!r}, so the classes are unknown: give them with --classes a,b,c "
            f"(its columns are {', '.join(names)})"
        )


def write(
    path: Path,
    public: Path,
    classes: Sequence[Class],
    schema: Schema,
    *,
    name: str | None = None,
    method: str = FEDKT,
    privacy: str = L0,
    server_key: str | None = None,
    has_public: bool = True,
) -> str:
    """The text of an election with this schema, to be saved at `path`. By default the file's stem is its name."""
    key = '# server_key = "x25519:…"        ' if server_key is None else f"server_key = {toml_value(server_key)}  "
    key += '# ballots are encrypted to this key (required at L1, or "none"): docs/keys.md'
    if len(classes) < 2:
        raise ElectionError(
            f"an election needs at least two classes, not {len(classes)} ({', '.join(map(str, classes))})"
        )
    rows = "# [public]                      # not needed by this method\n"
    rows = _public(public, path, schema) if has_public else rows
    needed = "this file and the public set" if has_public else "this file"
    columns = "\n".join(f"  {toml_table(c.model_dump(mode='json'))}," for c in schema.columns)
    comment = '# id = "patient"             # a column with the patient of each row (IDs may repeat), not a feature'
    row_id = f"id = {toml_value(schema.id)}" if schema.id else comment
    return f"""\
# An election of OneBallot: the agreement that all parties share. Every party needs {needed}.
format = {FORMAT}
name = {toml_value(name or path.stem)}
classes = {toml_value(list(classes))}
seed = 0
quorum = 1                      # valid ballots needed; quorum, roster and deadline may change at any time
# deadline = 2027-03-01T12:00:00Z  # until then a tally waits for the whole roster; later ballots count at the next

{key}
# max_ballot_mb = 64             # larger ballots are rejected unread
# max_model_seconds = 60         # if ballots carry models: the time limit for one to predict

{rows}
{method}
{privacy}
[roster]                        # who may vote, with the key that `oneballot keys new NAME` prints; empty: anyone
# clinic-a = "ed25519:…"
# [revoked]                     # keys that no longer count, each with the reason: docs/keys.md
# "ed25519:…" = "stolen on 3 May"

[schema]                        # how every party's file is encoded; nothing is learned from a party's file
label = {toml_value(schema.label)}
{row_id}
# number: the range is scaled to 0..1; outside = "error" or "clip"; missing = true adds a feature for missing values
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
            f"the public set is outside the election's folder ({where}), so other machines will not find it; move it "
            f"next to {path.name}"
        )
        warnings.warn(text, OneBallotWarning, stacklevel=3)
    return f"""\
[public]                        # public rows that all parties and the server have; labels are not used
path = {toml_value(where.as_posix())}
digest = {toml_value(digest)}
"""


def sorted_labels(values: Array) -> list[Class]:
    """The distinct labels of a column: integers in order, anything else as sorted text."""
    if values.ndim != 1:
        raise DataError(f"expected one label per row, not shape {values.shape[1:]}")
    texts = sorted({as_label(v) for v in values} - {""})
    try:
        return sorted(int(t) for t in texts)
    except ValueError:
        return list(texts)


def infer(columns: Columns, label: str, row_id: str | None = None) -> Schema:
    """A schema for a public table. A column has numbers if all its values are, else categories, or text if too many."""
    if not columns.keys() - {label, row_id}:
        raise DataError(f"the file has only the columns {', '.join(columns)}: there are no features to learn from")
    features = tuple(_infer_column(name, values) for name, values in columns.items() if name not in (label, row_id))
    return Schema(label=label, id=row_id, columns=features)


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
        raise DataError(f"column {name!r} is empty: remove it")
    if not all(map(math.isfinite, numbers)):
        raise DataError(f"column {name!r} has an infinite value: correct it, or leave the cell empty")
    return Number(name=name, range=(min(numbers), max(numbers)), missing=len(present) < len(text))
