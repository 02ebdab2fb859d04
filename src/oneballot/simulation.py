"""Simulate a federation on one machine: split the rows, cast all ballots together, tally, and compute baselines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from .ballot.keys import public_text
from .boxes.folder import Folder
from .data.frames import as_table
from .data.split import split as split_rows
from .election.cells import as_text
from .election.defaults import main_role
from .election.election import Election
from .election.names import check_roster_names, file_name
from .election.tallies import SIDES
from .election.targets import Target
from .errors import BoxError, ElectionError, OneBallotWarning
from .interfaces import Models
from .notebook import Shown
from .party.cast import cast_steps
from .privacy.settings import L0
from .report.beside import beside
from .report.gain import Gain, Setting
from .report.metrics import Metrics, evaluate, mean, summarize
from .runtime.scheduler import Job, request, run
from .server.outcome import Outcome
from .server.prefetch import InMemory
from .server.tally import tally_steps
from .server.two_tallies.combine import combine_steps
from .server.two_tallies.share import make_partials
from .sparse import concatenate
from .types import Array, Ballot, Data, Fit, Steps, Task


@dataclass(frozen=True)
class Simulation(Shown):
    """An election that was run on one machine."""

    outcome: Outcome
    ballots: tuple[Ballot, ...]
    parties: Mapping[str, Data] = field(repr=False)
    """Each party's rows, with their IDs, which are not printed."""

    def probabilities(self, test: Data) -> Array:
        """What the final model predicts for rows that the election has encoded."""
        return self.outcome.probabilities(test.X)

    def accuracy(self, test: Data) -> float:
        return self.outcome.target.accuracy(self.probabilities(test), test.y)

    def evaluate(self, test: Data) -> Metrics:
        """All metrics of the final model."""
        return evaluate(self.outcome.target, self.probabilities(test), test.y)


@dataclass(frozen=True)
class Baselines:
    """Results without a federation: each party alone, and all data pooled (the upper bound).

    alone, pooled: accuracies. metrics: of each party. row_scores: `Target.row_scores` of each party, and pooled.
    best_predictions: what the model of the best party predicts for the test rows.
    """

    alone: Mapping[str, float]
    pooled: float
    metrics: Mapping[str, Metrics] = field(default_factory=dict, repr=False)
    pooled_metrics: Metrics | None = field(default=None, repr=False)
    row_scores: Mapping[str, Array] = field(default_factory=dict, repr=False)
    pooled_row_scores: Array | None = field(default=None, repr=False)
    best_predictions: Array | None = field(default=None, repr=False)

    @classmethod
    def of(cls, parties: Sequence[str], predictions: Sequence[Array], test: Data, target: Target) -> Baselines:
        """From the predictions of each party's model and, last, of the model of pooled data."""
        alone, pooled = dict(zip(parties, predictions[:-1], strict=True)), predictions[-1]
        accuracy = {party: target.accuracy(each, test.y) for party, each in alone.items()}
        return cls(
            accuracy,
            target.accuracy(pooled, test.y),
            {party: summarize(target, each, test.y) for party, each in alone.items()},
            evaluate(target, pooled, test.y),
            {party: target.row_scores(each, test.y) for party, each in alone.items()},
            target.row_scores(pooled, test.y),
            alone[max(accuracy, key=lambda party: accuracy[party])],
        )

    @property
    def alone_mean(self) -> float:
        return float(np.mean(list(self.alone.values())))

    @property
    def best(self) -> str:
        """The party whose own model is the most accurate on the test rows."""
        return max(self.alone, key=lambda party: self.alone[party])

    @property
    def mean_metrics(self) -> Metrics:
        return mean(list(self.metrics.values()))


def gain(election: Election, simulation: Simulation, baselines: Baselines, test: Data) -> Gain:
    """Who gains from the simulated election, who loses, and why."""
    setting = Setting(
        classes=election.classes,
        class_counts={p: election.target.class_counts(simulation.parties[p].y) for p in baselines.alone},
        row_counts={p: len(simulation.parties[p]) for p in baselines.alone},
        level=election.level,
        public_rows=election.public_rows,
        distils="final" in election.roles,
        open_ensemble=election.method.asks_by_row,
        empty=len(simulation.parties) - len(baselines.alone),
    )
    assert baselines.pooled_row_scores is not None
    assert baselines.best_predictions is not None
    target, predictions, best = election.target, simulation.probabilities(test), baselines.best
    metrics = baselines.metrics[best], baselines.mean_metrics
    others = beside(target, predictions, baselines.best_predictions, test.y, *metrics)
    federation = target.row_scores(predictions, test.y)
    return Gain.of(setting, baselines.row_scores, federation, baselines.pooled_row_scores, others)


def simulate(
    election: Election,
    X: Any,
    y: Any = None,
    *,
    parties: int | None = 10,
    split: str = "dirichlet:0.5",
    seed: int = 0,
    values: Any = None,
) -> Simulation:
    """Divide rows X with labels y (as in `cast`) among parties and run the election.

    `split="column"` divides by `values`, and `split="column:site"` by a column of the DataFrame X.
    """
    if split.startswith("column:") and values is None:
        values, split = as_table(X, "X")[split.removeprefix("column:")], "column"
    divided = divide(election.data(X, y), parties, split, seed, values, target=election.target)
    return simulate_parties(election, divided)


def simulate_parties(election: Election, parties: Mapping[str, Data]) -> Simulation:
    """Run the election among these parties, without signatures, encryption or a quorum."""
    return run(simulate_steps(election, parties))


def simulate_steps(election: Election, parties: Mapping[str, Data]) -> Steps[Simulation]:
    """The requests of `simulate_parties`, for a scheduler that runs several."""
    election = election.on_one_machine()
    election.warn_if_hopeless(len(parties))
    if election.tallies is not None:
        return (yield from _simulate_two_tallies(election, parties))
    ballots = yield from cast_steps(election, parties)
    outcome = yield from tally_steps(election, ballots)
    return Simulation(outcome, tuple(ballots), parties)


def _simulate_two_tallies(election: Election, parties: Mapping[str, Data]) -> Steps[Simulation]:
    """With keys of its own for both servers, since the election's secret keys are not here."""
    assert election.tallies is not None
    keys = {side: X25519PrivateKey.generate() for side in SIDES}
    public = {side: public_text(key) for side, key in keys.items()}
    tallies = replace(election.tallies, a=public["a"], b=public["b"])
    election = replace(election, tallies=tallies, variant_of=election.digest)
    ballots = yield from cast_steps(election, parties)
    source = InMemory({ballot.party: ballot.sealed for ballot in ballots})
    outcome = yield from combine_steps(election, *make_partials(election, source, keys))
    return Simulation(outcome, tuple(ballots), parties)


def divide(
    data: Data, parties: int | None, split: str, seed: int = 0, values: Any = None, *, target: Target | None = None
) -> dict[str, Data]:
    """The data of each party, by party name. All rows of an ID go to one party, unless a column decides.

    The target says how labels are divided; without one they are class numbers.
    """
    labels = data.y if target is None else target.groups(data.y)
    if split == "column":
        rows = split_rows(labels, parties, split, seed, None if values is None else np.asarray(values))
    else:
        first, rows_of = _by_id(data)
        rows = [rows_of(each) for each in split_rows(labels[first], parties, split, seed, None)]
    width = len(str(len(rows)))
    names = [f"party-{i:0{width}d}" for i in range(1, len(rows) + 1)]
    if split == "column":
        names = _names_of(np.unique(np.asarray(values)), names)
    return {name: data.take(r) for name, r in zip(names, rows, strict=True)}


def _names_of(values: Array, otherwise: list[str]) -> list[str]:
    """The values of a column as names of parties, if all of them may be names."""
    names = [as_text(value) for value in values]
    try:
        check_roster_names(names)
    except ElectionError:
        return otherwise
    return names


def read_parties(
    election: Election, data: Path, parties: int | None, split: str, seed: int, test: Path | None, holdout: float
) -> tuple[dict[str, Data], Data]:
    """The rows of a file, divided among parties, and the test rows: those of `test`, or a share of the same file."""
    table = election.read_table(data)
    rows = election.encode_table(table)
    values = None
    if split.startswith("column:"):
        values, split = table[split.removeprefix("column:")], "column"
    elif parties is None:
        parties = 10
    if test is not None:
        tested = election.read_data(test)
    else:
        first, rows_of = _by_id(rows)  # test rows of patients that were trained on would flatter the model
        order = np.random.default_rng(seed).permutation(len(first))
        kept, used = map(rows_of, np.split(order, [max(1, round(holdout * len(first)))]))
        tested, rows = rows.take(kept), rows.take(used)
        values = None if values is None else values[used]
    return divide(rows, parties, split, seed, values, target=election.target), tested


def check_empty(folder: Path) -> None:
    """Raise BoxError, before a simulation, if the folder already holds ballots."""
    if any((folder / "box").glob("*")):
        raise BoxError(f"{folder / 'box'} already holds ballots; choose another folder, or empty it")


def save(simulation: Simulation, folder: Path) -> None:
    """Write the outcome, and the ballots in a box."""
    simulation.outcome.save(folder / "outcome")
    box = Folder(folder / "box")
    for ballot in simulation.ballots:
        box.deliver(file_name(ballot.party), ballot.sealed)


def baselines(election: Election, parties: Mapping[str, Data], test: Data) -> Baselines:
    """Train the election's learner on each party's rows, and on all rows pooled."""
    held = {party: data for party, data in parties.items() if len(data)}
    if not election.roles:
        return _baselines_by_tallies(election, held, test)
    X = concatenate([*(d.X for d in held.values()), test.X])
    y = np.concatenate([d.y for d in held.values()])
    ends = np.cumsum([len(d) for d in held.values()])
    asked = np.arange(len(y), len(X))
    blocks = [*np.split(np.arange(len(y)), ends[:-1]), np.arange(len(y))]
    names = [*held, "pooled data"]
    kind = election.target.task
    tasks = [Task(rows, y[rows], kind, ask=asked, label=name) for name, rows in zip(names, blocks, strict=True)]
    fit = Fit(main_role(election.roles), X, tasks, len(election.classes), keep=False)
    models: Models = run(Job(request(fit), election.learner_of, "", election.digest))
    return Baselines.of(list(held), models.predictions(), test, election.target)


def _baselines_by_tallies(election: Election, held: Mapping[str, Data], test: Data) -> Baselines:
    """For a method without learners: run elections with one party each, without noise."""
    alone = replace(election, privacy=L0, tallies=None)
    whole = Data(concatenate([d.X for d in held.values()]), np.concatenate([d.y for d in held.values()]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)  # about classes that a party lacks
        runs = [simulate_parties(alone, {"one": data}) for data in (*held.values(), whole)]
    return Baselines.of(list(held), [run.probabilities(test) for run in runs], test, election.target)


def _by_id(data: Data) -> tuple[Array, Callable[[Array], Array]]:
    """A row of each ID, and a function from numbers of IDs to all their rows. Without IDs every row is its own."""
    if data.ids is None or len(np.unique(data.ids)) == len(data):
        return np.arange(len(data)), lambda numbers: numbers
    _, first, owner = np.unique(data.ids, return_index=True, return_inverse=True)
    return first, lambda numbers: np.flatnonzero(np.isin(owner, numbers))
