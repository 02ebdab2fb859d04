"""What the documents of an outcome state: only facts that may be published, each as Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...election.columns import Category, Column, Date, Number, Tensor, Text
from ...models import HasMembers
from ...privacy.card import guarantee_card
from .markdown import code, escaped, listed

if TYPE_CHECKING:
    from ..outcome import Outcome
    from ..verdict import Verdict

WEAK_EPSILON = 10
"""A guarantee with a larger epsilon is called weak."""


@dataclass(frozen=True)
class ModelFile:
    """The file of the model: its name, format and hash, and how many rows of parties it holds as they are at most."""

    name: str
    format: str
    sha256: str
    rows_held: int = 0


@dataclass(frozen=True)
class Performance:
    """Metrics on labelled rows: by name, the value and, if known, its 95 % interval. source: which rows they are."""

    rows: int
    source: str
    values: Mapping[str, float]
    names: Mapping[str, str]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """An outcome and the file of its model, as sentences and cells of tables."""

    outcome: Outcome
    model: ModelFile
    performance: Performance | None = None

    @property
    def name(self) -> str:
        return str(self.outcome.about.get("name", "election"))

    @property
    def level(self) -> str:
        return self.outcome.ledger.level

    @property
    def verdict(self) -> Verdict | None:
        """What may be published of the verdict."""
        return None if self.outcome.verdict is None else self.outcome.verdict.published()

    @cached_property
    def task(self) -> str:
        """The task by the names of Hugging Face."""
        schema = self.outcome.schema
        only = schema.columns[0] if schema is not None and len(schema.columns) == 1 else None
        if isinstance(only, Tensor) and only.kind != "features":
            return {"image": "image-classification", "tokens": "text-classification"}[only.kind]
        if isinstance(only, Text):
            return "text-classification"
        dtype = self.outcome.model.row_dtype_
        if schema is None and dtype is not None and dtype.name == "uint8":
            return "image-classification"
        if schema is None and dtype is not None and dtype.name == "int32":
            return "text-classification"
        return "tabular-classification" if self.outcome.target.estimator == "classifier" else "tabular-regression"

    @property
    def predicts(self) -> str:
        """What the model predicts, in a sentence."""
        outcome, schema = self.outcome, self.outcome.schema
        column = "" if schema is None else f" (column{'s' * (len(schema.label_columns) > 1)} "
        column += "" if schema is None else f"{listed(schema.label_columns)})"
        if not outcome.classes:
            return f"A number{column}."
        names = listed(outcome.classes)
        if outcome.target.exclusive:
            return f"One of {len(outcome.classes)} classes{column}: {names}."
        return f"Each of {len(outcome.classes)} labels, of which a row may have several{column}: {names}."

    @property
    def output(self) -> str:
        if not self.outcome.classes:
            return "A number for each row."
        if self.outcome.target.exclusive:
            return (
                "A probability for each class, which sum to 1. The predicted class is the most probable one; there is "
                "no other threshold."
            )
        return "A probability for each label. A label is predicted if its probability is 0.5 or more."

    @property
    def method(self) -> str:
        """The method and its settings."""
        return described(self.outcome.about.get("method")) or "The outcome does not state the method."

    @property
    def learners(self) -> list[str]:
        """The learner of each role."""
        learners = self.outcome.about.get("learners") or {}
        if not learners:
            learner: Any = self.outcome.model.learner
            learners = {} if learner is None else {"final": {"name": learner.name, **learner.describe()}}
        return [f"{escaped(role)}: {described(learner)}" for role, learner in learners.items()]

    @property
    def architecture(self) -> str:
        """What the model is."""
        if isinstance(self.outcome.model.model_, HasMembers):
            return "An ensemble: it holds the parties' own models and combines their predictions."
        return "A single model."

    @property
    def public_rows(self) -> str:
        rows = self.outcome.about.get("public_rows")
        return "not stated" if rows is None else f"{int(rows):,}"

    @property
    def parties(self) -> str:
        """How many parties took part, without names. At L1 also the number is left out."""
        outcome = self.outcome
        if self.level == "L1" or not outcome.voted:
            return "The published part of the outcome does not state how many parties took part, or which."
        if self.level == "L2":  # who abstained, or why, is not part of what has noise
            return f"{len(outcome.voted):,} ballot{'s' * (len(outcome.voted) != 1)} arrived."
        counted = sum(ballot.abstained is None for ballot in outcome.voted.values())
        others = {
            "abstained": len(outcome.voted) - counted,
            "rejected": len(outcome.spoiled),
            "left out on request": len(outcome.without),
        }
        rest = "".join(f", {number:,} {what}" for what, number in others.items() if number)
        return f"{counted:,} ballot{'s were' if counted != 1 else ' was'} counted{rest}."

    @property
    def privacy(self) -> list[str]:
        """The ledger, and what it means."""
        ledger = self.outcome.ledger
        lines = [f"{escaped(line[:1].upper() + line[1:])}." for line in ledger.describe(whole=True)]
        card = guarantee_card(ledger)
        if card.guess is None:
            return [*lines, escaped(card.summary)]
        parts = [f"{heading}: {' '.join(sentences)}" for heading, sentences in card.sections().items()]
        return [*lines, *map(escaped, [card.summary, *parts])]

    @property
    def columns(self) -> list[list[str]]:
        """A line for each feature column: name, type, range or categories, missing values, other values."""
        schema = self.outcome.schema
        return [] if schema is None else [[code(c.name), *_column(c)] for c in schema.columns]

    @property
    def limitations(self) -> list[str]:
        """What the outcome itself knows to be weak."""
        outcome, verdict, ledger = self.outcome, self.verdict, self.outcome.ledger
        found = []
        if outcome.verdict is not None and outcome.verdict.collapsed:
            published = "" if verdict is None else "; ".join(verdict.collapsed)
            found.append(
                f"**The model has collapsed{': ' * bool(published)}{escaped(published)}.** Do not use it untested."
            )
        if verdict is None or not verdict.rows:
            found.append("No public rows were there to judge the model at the tally.")
        elif verdict.never:
            found.append(f"It predicted none of {verdict.rows:,} public rows as {listed(verdict.never)}.")
        if self.performance is None:
            found.append("It was not tested on labelled rows when this card was written.")
        if ledger.rehearsal:
            found.append("**It is a rehearsal and not private:** its noise can be reproduced. Do not publish it.")
        elif ledger.epsilon is None:
            found.append("It has no privacy guarantee.")
        elif ledger.epsilon > WEAK_EPSILON:
            found.append(f"Its privacy guarantee is weak: epsilon is above {WEAK_EPSILON}.")
        if isinstance(outcome.model.model_, HasMembers):
            found.append(
                "It contains the parties' own models, which reveal more about their data than one model would."
            )
        if self.model.rows_held:
            found.append(f"**It holds {self.model.rows_held:,} rows of the parties verbatim.** Do not publish it.")
        if self.level == "L0" and outcome.voted and outcome.spoiled:
            found.append("Not all ballots were counted: some were rejected.")
        found.append("The parties' data were never pooled, so their quality was checked by each party alone.")
        return found

    @property
    def versions(self) -> list[list[str]]:
        return [[escaped(name), escaped(value)] for name, value in self.outcome.about.get("versions", {}).items()]


def described(plugin: Mapping[str, Any] | None) -> str:
    """A plug-in and its settings, such as `fedkt` with `subsets = 1`."""
    if not plugin:
        return ""
    settings = [f"{key} = {_value(value)}" for key, value in plugin.items() if key != "name"]
    return code(plugin.get("name", "")) + (f" with {listed(settings, most=30)}" if settings else "")


def _value(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _column(column: Column) -> Sequence[str]:
    if isinstance(column, Number | Date):
        low, high = (f"{limit:g}" if isinstance(limit, float | int) else str(limit) for limit in column.range)
        outside = "clipped" if column.outside == "clip" else "refused"
        missing = "marked by a second feature" if column.missing else "refused"
        return column.kind, f"{low} to {high}", missing, outside
    if isinstance(column, Category):
        outside = "no category" if column.outside == "blank" else "refused"
        missing = (
            "a category of its own" if column.missing == "feature" else "no category" if column.missing else "refused"
        )
        return "category", listed(column.categories), missing, outside
    if isinstance(column, Text):
        return "text", f"words hashed to {column.features:,} features", "no words", "any text"
    shape = " × ".join(map(str, column.shape))
    return column.kind, f"array of {shape}", "refused", "refused"
