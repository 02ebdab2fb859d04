"""Write a first draft of an election.toml for people to read and edit."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import plugins
from ..data.delimited import Dialect
from ..data.files import ambiguous_columns
from ..data.read import Table, read
from ..errors import DataError, ElectionError, OneBallotWarning
from ..privacy.mechanisms import AUTO
from ..types import Class
from .cells import as_label
from .draft_learners import fit_learners
from .file import FORMAT, digest_of
from .infer import DEFAULT, MAX_CLASSES, Choices, Found, as_schema, count_labels, recognise, sorted_labels
from .near import nearest
from .schema import Schema
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
influence = "bounded"           # no ballot decides alone; "equal": all weigh the same; "claimed": trust every party
second_choice = true            # a vote for "not mine" names a class as well, for rows that nobody claims
queries = 1.0                   # how many public rows are labelled: a fraction up to 1, or a number
ballot = "votes"                # or "models": send the models instead of their votes
final_weights = "rare"          # of public rows in the final model: "uniform", "lead", or "rare": rare classes more

[learners.all]                  # or one each: [learners.teacher], [learners.student], [learners.final]
name = "sklearn"                # or "xgboost", "lightgbm", "torch" (networks: docs/networks.md)
estimator = "RandomForestClassifier"
params = { n_estimators = 100 }

[learners.final]                # the learner of the final model, trained on the votes
name = "sklearn"
estimator = "ExtraTreesClassifier"
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


def section(method: str, level: str = "L0") -> str:
    """The section [method] for this privacy level and, if the method has learners, [learners.all]."""
    if method == "fedkt":
        private = FEDKT.replace('final_weights = "rare"   ', 'final_weights = "uniform"')
        return FEDKT if level == "L0" else re.sub(r"^(influence|second_choice) = .*\n", "", private, flags=re.MULTILINE)
    plugin = plugins.find("methods", method)
    settings = plugin.draft if level == "L0" or plugin.private_draft is None else plugin.private_draft
    page = f"                        # docs/{method}.md" if plugins.is_built_in("methods", method) else ""
    text = f'[method]{page}\nname = "{method}"\n{settings}'
    return text if "[learners" in text or not plugin().needs else f"{text}\n{FOREST}"


@dataclass(frozen=True)
class Draft:
    """The text of an election, what became of each column, and how many rows of the file have each label."""

    text: str
    found: Sequence[Found]
    labels: Mapping[str, int]


def draft(
    public: Path,
    label: str,
    *,
    beside: Path,
    method: str | None = None,
    classes: Sequence[Class] = (),
    choices: Choices = DEFAULT,
    privacy: str = L0,
    server_key: str | None = None,
    has_public: bool = True,
) -> Draft:
    """An election over the columns of a file, which is its public set unless `has_public` is False.

    method: the section [method]; by default FedKT's for the level of `privacy`.
    """
    table = read(public)
    _check_columns(table, label, classes, choices)
    counts = count_labels(table[label]) if label in table.columns else Counter[str]()
    if not has_public and label not in table.columns:
        text = f"{table.source} has no column {label!r}, which every party's file needs: is --label spelled right?"
        warnings.warn(text, OneBallotWarning, stacklevel=2)
    known = tuple(classes) or _as_classes(table, label)
    if others := [text for text in counts if text not in {as_label(c) for c in known}]:
        text = f"{table.source} has labels that are not classes of the election: {', '.join(others[:5])}"
        warnings.warn(text, OneBallotWarning, stacklevel=2)
    found = recognise(table.columns, label, choices)
    found += [Found(name, "left out", "several columns have this name; rename them") for name in table.repeated]
    schema = as_schema(found, label, choices.id)
    level = "L2" if 'level = "L2"' in privacy else "L0"
    private_level = next((name for name in _LEVELS if f'level = "{name}"' in privacy), "L0")
    method = section("fedkt", private_level) if method is None else method
    method = fit_learners(method, schema, table.columns, level)
    text = write(
        beside, public, known, schema, method=method, privacy=privacy, server_key=server_key,
        has_public=has_public, dialect=table.dialect,
    )  # fmt: skip
    return Draft(text, found, counts)


def _as_classes(table: Table, label: str) -> tuple[Class, ...]:
    labels = sorted_labels(table[label])
    if len(labels) > MAX_CLASSES:
        numbers = all(re.fullmatch(r"[-+]?\d+([.,]\d+)?(e[-+]?\d+)?", str(each), re.IGNORECASE) for each in labels)
        what = "Numbers as labels are not supported yet: group" if numbers else "Is it the right column? Group"
        raise DataError(
            f"{table.source}: the label {label!r} has {len(labels):,} different values ({labels[0]}, {labels[1]}, …), "
            f"more than {MAX_CLASSES} classes. {what} them into classes, or list the classes with --classes a,b,c"
        )
    return tuple(labels)


def two_tallies(method: str, privacy: str, a: str, b: str) -> tuple[str, str]:
    """The sections [method] and [privacy] of an election with two servers, of which the second has [tallies] too."""
    method = re.sub(r'influence = "bounded" .*', 'influence = "claimed"           # two tallies see sums alone', method)
    for level, unit in (("L1", "party"), ("L2", "row")):
        trusted = f"two servers add noise to the total: protects a {unit}; trusted not to pool their shares"
        privacy = privacy.replace(_LEVELS[level], trusted)
    privacy = re.sub(r' +# or "add-remove"\n', "\n", privacy)  # at L1 the servers see who casts a ballot
    return method, (
        f"{privacy}\n[tallies]                       # two servers, each with a share of every ballot: "
        f"docs/two-tallies.md\na = {toml_value(a)}\nb = {toml_value(b)}\n"
        "min_difference = 3              # openings must differ by so many parties\n"
        "openings = 1                    # how many openings the privacy budget covers\n"
    )


def private(level: str, epsilon: float) -> str:
    """The section [privacy] of an election with a privacy budget."""
    choices = ", ".join(f'"{name}"' for name in AUTO)
    neighbours = '"add-remove"' if level == "L1" else '"swap", "add-remove"'
    return f"""\
[privacy]                       # {_LEVELS[level]}: docs/privacy.md
level = "{level}"
epsilon = {epsilon!r}                   # the privacy budget, which determines the noise; or set gamma, sigma or scale
delta = 1e-5
mechanism = "auto"              # the best of {choices} for these classes and queries
adjacency = "replace"           # or {neighbours}
"""


def _check_columns(table: Table, label: str, classes: Sequence[Class], choices: Choices) -> None:
    names = list(table.columns)
    given = [("--label", label), *([] if choices.id is None else [("--id", choices.id)])]
    given += [(f"--{what}", name) for what in ("drop", "category", "text") for name in getattr(choices, what)]
    for option, name in given:
        if name in names:
            continue
        if name in table.repeated:
            raise ambiguous_columns(table.source, [name])
        if near := nearest(name, names):
            raise DataError(f"{option} {name}: {table.source} has no such column; did you mean {near!r}?")
        if option == "--label" and classes:
            continue
        if option == "--label":
            raise DataError(
                f"{table.source} has no column {label!r}, so the classes are unknown: give them with --classes a,b,c "
                f"(its columns are {', '.join(names)})"
            )
        raise DataError(f"{option} {name}: {table.source} has no such column; it has {', '.join(names)}")


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
    dialect: Dialect | None = None,
) -> str:
    """The text of an election with this schema, to be saved at `path`. By default the file's stem is its name."""
    key = '# server_key = "x25519:…"        ' if server_key is None else f"server_key = {toml_value(server_key)}  "
    key += '# ballots are encrypted to this key (required at L1, or "none"): docs/keys.md'
    if len(classes) < 2:
        raise ElectionError(
            f"an election needs at least two classes, not {len(classes)} ({', '.join(map(str, classes))}); if this "
            "file lacks some, list all with --classes a,b,c"
        )
    rows = "# [public]                      # not needed by this method\n"
    rows = _public(public, path, schema, dialect) if has_public else rows
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
# calibrate = true               # make the final model's probabilities match the votes on public rows

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
# number, date: the range is scaled to 0..1; outside = "error" or "clip"; missing = true adds a feature that says so
# category: outside = "error" or "blank"; missing = "feature" adds one; text: hashed into `features` numbers
columns = [
{columns}
]
"""


def _public(public: Path, path: Path, schema: Schema, dialect: Dialect | None) -> str:
    table = schema.read(public, dialect=dialect)
    digest = digest_of(schema.encode(table.columns, table.source, report=False))
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
{_how(table)}"""


def _how(table: Table) -> str:
    """How the public file is written, if that is unusual: then no party has to detect it."""
    usual = "\t" if ".tsv" in Path(table.source).suffixes else ","
    if not table.dialect.describe(usual):
        return ""
    return "".join(
        f"{name} = {toml_value(value)}\n" for name, value in vars(table.dialect).items() if value is not None
    )
