"""What a report is about: an outcome, and what else is known: the election, labelled rows, baselines."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ...election.election import Election
from ...errors import DataError, ElectionError, OneBallotWarning
from ...interfaces import HasReplaceableMembers
from ...privacy.charges import Charges
from ...server.outcome import Outcome
from ...types import Array
from ..grouping import group_columns
from ..groups import Groups, evaluate_by
from ..metrics import Metrics, evaluate, summarize
from .benefits import BenefitFile
from .comparison import ComparisonFile

MOST_PREDICTIONS = 50_000_000
"""Above so many numbers the predictions of the parties' own models are left out."""


@dataclass(frozen=True)
class Tested:
    """Labelled rows, and what the final model and the parties' own models predict for them.

    source: the name of the file. publishable: figures about these rows may be published although the rows have no
    protection. members: the predictions of each party's own model, where the outcome keeps it. columns: the cells of
    the columns whose values are tested one by one.
    """

    source: str
    digest: str
    X: Array = field(repr=False)
    y: Array = field(repr=False)
    probabilities: Array = field(repr=False)
    metrics: Metrics
    seconds: float
    publishable: bool = False
    members: Mapping[str, Array] = field(default_factory=dict, repr=False)
    columns: Mapping[str, Array] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        return len(self.y)

    @cached_property
    def alone(self) -> dict[str, Metrics]:
        """The metrics of each party's own model."""
        target = self.metrics.target
        return {party: summarize(target, predicted, self.y) for party, predicted in self.members.items()}

    @cached_property
    def groups(self) -> list[Groups]:
        """The metrics of each value of the columns."""
        target, found, y = self.metrics.target, self.probabilities, self.y
        return [evaluate_by(target, found, y, cells, name, whole=self.metrics) for name, cells in self.columns.items()]


@dataclass(frozen=True)
class Subject:
    """What a report is about. `secret`: the page is for the server alone, so it may show what has no noise.

    baselines: metrics of other models on the same rows, by what they are. benefits: what parties measured on their own
    rows. comparison: other methods in a simulation. command: how the report was made.
    """

    outcome: Outcome
    folder: Path
    election: Election | None = None
    election_file: Path | None = None
    tested: Tested | None = None
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    benefits: Sequence[BenefitFile] = ()
    comparison: ComparisonFile | None = None
    command: str = ""
    secret: bool = False

    @property
    def level(self) -> str:
        return self.outcome.ledger.level

    @property
    def names_parties(self) -> bool:
        """Whether the page may show what the ballots say: at L1 they are raw, and the list of them has no noise."""
        return self.level != "L1" or self.secret

    @property
    def states_rows(self) -> bool:
        """Whether parties agreed to state their rows without noise."""
        return self.level == "L0" or self.secret

    @property
    def name(self) -> str:
        return f"election {self.outcome.election[:12]}" if self.election is None else self.election.name

    @property
    def visible_test(self) -> Tested | None:
        """The labelled rows, if figures about them may be on this page."""
        return None if self.hides_files else self.tested

    @property
    def hides_files(self) -> bool:
        """Whether the page, which may be published, leaves out the names of files and the command that made it."""
        published = self.tested is not None and self.tested.publishable
        return self.level == "L1" and not self.secret and not published

    def with_test(self, tested: Tested) -> Subject:
        return replace(self, tested=tested)

    def with_benefits(self, benefits: Sequence[BenefitFile]) -> Subject:
        return replace(self, benefits=benefits)

    def with_comparison(self, comparison: ComparisonFile) -> Subject:
        return replace(self, comparison=comparison)

    def made_by(self, command: str) -> Subject:
        return replace(self, command=command)

    def for_page(self, *, secret: bool) -> Subject:
        """The same subject with what may be on the page for the public, or on the page for the server."""
        shown = replace(self, secret=secret)
        return shown if shown.names_parties else replace(shown, outcome=self.outcome.published(rows=True))


def load(folder: Path, election_file: Path | None = None) -> Subject:
    """The outcome in a folder and, if given, its election. At L1 the ledger states all tallies that are recorded."""
    outcome = Outcome.load(folder)
    if election_file is None:
        return Subject(outcome, folder)
    election = Election.read(election_file)
    if election.digest != outcome.election:
        raise ElectionError(
            f"{folder} is not the outcome of {election_file}, or the election has changed since: its digest is "
            f"{election.digest[:12]}, but the outcome was tallied with {outcome.election[:12]}"
        )
    if election.level == "L1":
        outcome = outcome.with_draws(Charges(election.digest, election_file.parent / "tallies.json").draws)
    return Subject(outcome, folder, election, election_file)


def assess(outcome: Outcome, path: Path, by: Sequence[str] = (), *, publishable: bool = False) -> Tested:
    """Test the final model, and the parties' own models at L0, on the labelled rows of a file.

    by: columns of the file, for each value of which the rows are also tested alone.
    """
    test = outcome.read_labelled(path)
    rows, y = test.X, test.y
    if not len(y):
        raise DataError(f"{path} has no labelled rows, so it cannot show how good the model is")
    columns = group_columns(test.table, by, None if outcome.schema is None else outcome.schema.id)
    begin = time.perf_counter()
    probabilities = outcome.probabilities(rows)
    seconds = time.perf_counter() - begin
    metrics = evaluate(outcome.target, probabilities, y)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    found = members(outcome) if outcome.ledger.level == "L0" else {}
    own = predictions(outcome, found, rows)
    return Tested(path.name, digest, rows, y, probabilities, metrics, seconds, publishable, own, columns)


def members(outcome: Outcome) -> dict[str, int]:
    """The number of each party's own model in an ensemble; empty if the outcome keeps no models of parties."""
    model = outcome.model.model_
    if not isinstance(model, HasReplaceableMembers):
        return {}
    ballots = outcome.count.by_party
    cast = [party for party, ballot in outcome.voted.items() if ballot.abstained is None]
    found = {party: model.find_member(party, ballots.get(party)) for party in cast}
    return {party: number for party, number in found.items() if number is not None}


def predictions(outcome: Outcome, which: Mapping[str, int], rows: Array) -> dict[str, Array]:
    """What each of these members predicts, `(rows, classes)`; a member that fails is left out."""
    model = outcome.model.model_
    if not which or not isinstance(model, HasReplaceableMembers):
        return {}
    if len(rows) * len(which) * len(outcome.classes) > MOST_PREDICTIONS:
        warnings.warn("the parties' own models are too many to be tested one by one", OneBallotWarning, stacklevel=3)
        return {}
    made = dict(model.member_predictions(rows))
    uniform = 1 / len(outcome.classes)  # of a row on which a member abstains
    made = {i: np.where(own.any(axis=1, keepdims=True), own, uniform) for i, own in made.items()}
    return {party: made[number] for party, number in which.items() if number in made}


def weight_shares(outcome: Outcome, which: Mapping[str, int], rows: Array) -> dict[str, float]:
    """Each member's share of the decisions: its weight over that of all members, mean over the rows."""
    model = outcome.model.model_
    if not which or not isinstance(model, HasReplaceableMembers):
        return {}
    weights = model.member_weights(rows)
    total = weights.sum(axis=1, keepdims=True)
    shares = (weights / total.clip(1e-300)).mean(axis=0)
    return {party: float(shares[number]) for party, number in which.items()}
