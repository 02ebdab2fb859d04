"""Exact audit: real casts and tallies on two neighbours, and the exact privacy loss of all their noisy answers.

The guarantee holds for any data and any learner, so these are the worst case. Every public row lies at its own corner,
and private rows in the middle are closer to all corners than the corners are to each other: a nearest-neighbour teacher
labels every query like its nearest private row. Nothing is estimated: all outcomes on both neighbours are enumerated
with their probabilities.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2

import oneballot as ob
from oneballot.ballot.seal import open_ballot, seal
from oneballot.party import cast as cast_module
from oneballot.party.context import PartyContext
from oneballot.privacy import calibration
from oneballot.privacy import ledger as ledgers
from oneballot.privacy.forecast import win_probability
from oneballot.privacy.ledger import Ledger
from oneballot.server import tally as tally_module
from oneballot.server.context import TallyContext
from oneballot.types import Array, Ballot, Contents, Data

NEAREST = ob.Sklearn("KNeighborsClassifier", {"n_neighbors": 1})
HARDLY_EVER = 1e-8
"""The false-alarm probability of the tests of noise."""

SIDE, DEPTH, BELOW = 0.5, 0.3, 0.5
"""Half of the queries lie on either side of the middle; rows in the middle lie above or below others there."""

Row = tuple[float, float, int]  # side, depth, label
Leads = Sequence[int | None]
Pair = tuple[Array, Array]  # the probabilities of all outcomes on each neighbour


@dataclass(frozen=True)
class Case:
    """An election and the data of its parties on both neighbours; for a hostile party, the contents it seals."""

    election: ob.Election
    here: Mapping[str, Data | Contents]
    there: Mapping[str, Data | Contents]


@dataclass
class Run:
    """The votes and counts that noise was drawn on, and the resulting ledger."""

    votes: list[Array] = field(default_factory=list)  # (queries, classes)
    counts: list[Array] = field(default_factory=list)  # (classes,)
    drawn: Counter[str] = field(default_factory=Counter)
    ballots: list[Ballot] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)


@dataclass(frozen=True)
class Finding:
    reached: float  # the largest shift of a query's gap
    exact: float  # epsilon at the ledger's delta
    claimed: float


@contextmanager
def watched(*, deaf: bool = False) -> Iterator[Run]:
    """Contexts that record what they are asked to release. With `deaf`, they always give the same answers."""
    run = Run()

    def watching(context: Any) -> Any:
        class Watched(context):  # type: ignore[misc]
            def decide(self, votes: Array, *, cell: str, unit: int = 1) -> Array:
                if self.election.guarantee.side == self.side:
                    run.votes.append(votes / unit)
                    if deaf:
                        return np.arange(len(votes)) % int(votes.shape[1])
                return np.asarray(super().decide(votes, cell=cell, unit=unit))

            def release(self, counts: Array, *, cell: str) -> Array:
                if self.election.guarantee.side == self.side:
                    run.counts.append(counts)
                    if deaf:
                        return np.arange(len(counts))
                return np.asarray(super().release(counts, cell=cell))

            def _draw(self, what: str, times: int) -> None:
                run.drawn[what] += times
                super()._draw(what, times)

        return Watched

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cast_module, "PartyContext", watching(PartyContext))
        patch.setattr(tally_module, "TallyContext", watching(TallyContext))
        yield run


class ExactAudit:
    """Builds neighbours, runs them, and checks the election's guarantee. Checks raise AssertionError."""

    new_case, new_run, watched = Case, Run, staticmethod(watched)

    def forget(self) -> None:
        """Clear cached results after the code was changed."""
        calibration.calibrate.cache_clear()
        ledgers._multiply.cache_clear()

    def arrange(
        self,
        privacy: Any,
        *,
        classes: int = 2,
        public: int = 12,
        others: int = 6,
        leads: Leads = (2, 2),
        elsewhere: int = 0,
        unit_rows: int = 1,
        moved: int | None = None,
        learner: Any = NEAREST,
        **method: Any,
    ) -> Case:
        """One row (L2) or party (L1) moves its vote from class 0 to class 1 on every query.

        `leads`: the lead of class 1 among the other voters, on either side (None: they do not vote); `elsewhere` of
        them vote for the last class. `moved`: how many teachers change their vote because of the row.
        """
        rows = privacy.level == "L2"
        by_content = privacy.adjacency == "replace" and not privacy.stable_ids
        moved = moved or (2 if rows and (by_content or privacy.adjacency == "swap") else 1)
        corners = np.hstack([np.eye(public), np.zeros((public, 2))])
        corners[:, public] = np.where(np.arange(public) % 2, SIDE, -SIDE)
        usual: dict[str, Any] = {"open_vote": "off", "students": False, "subsets": others + moved if rows else 1}
        election = ob.Election(range(classes), corners, ob.FedKT(**usual | method), learner, privacy=privacy)
        base = _others(others, leads, elsewhere, classes)
        if rows:
            return self._teachers(election, base, moved)
        parties = {f"party-{i}": _data(election, own) for i, own in enumerate(base)}
        own, changed = (_data(election, [(0.0, 0.0, label)] * unit_rows) for label in (0, 1))
        there = parties if privacy.adjacency == "add-remove" else parties | {"unit": changed}
        return Case(election, parties | {"unit": own}, there)

    def _teachers(self, election: ob.Election, base: Sequence[Sequence[Row]], moved: int) -> Case:
        """The teachers of one party. Below the row lies another one, which decides if the row is absent."""
        rows = [(moved + k, row) for k, own in enumerate(base) for row in own]
        rows += [(k, (0.0, BELOW, 1 - k)) for k in range(moved)]
        rows += [(0, (0.0, 0.0, 0)), (moved - 1, (0.0, 0.0, 1))]
        X, y, ids = self._placed(election, rows)
        if election.privacy.adjacency != "swap":
            ids[-1] = ids[-2]  # a stable ID stays
        kept = np.arange(len(y) - 2)
        changed = kept if election.privacy.adjacency == "add-remove" else np.append(kept, len(y) - 1)
        return Case(election, *({"unit": Data(X[r], y[r], ids[r])} for r in (np.append(kept, len(y) - 2), changed)))

    def _placed(self, election: ob.Election, rows: Sequence[tuple[int, Row]]) -> tuple[Array, Array, Array]:
        """Rows that the keyed hash puts into these subsets in every partition, by their ID or a larger depth."""
        ctx, guarantee = PartyContext(election, "unit"), _guarantee(election)
        points, names = [], []
        for number, (subset, row) in enumerate(rows):
            begin, right = 0, np.empty(0, np.int64)
            while not right.size:
                many = _data(election, [row] * 8 * guarantee.subsets**guarantee.partitions)
                many.X[:, -1] += (begin + np.arange(len(many))) * np.float32(1e-5)
                ids = np.array([f"row {number}.{begin + i}" for i in range(len(many))], dtype=object)
                deals = [
                    ctx.assign_subsets(Data(many.X, many.y, ids), guarantee.subsets, "partition", j)[subset]
                    for j in range(guarantee.partitions)
                ]
                right = np.array(sorted(set.intersection(*map(set, deals))), dtype=np.int64)
                begin += len(many)
            points.append(many.X[right[0]])
            names.append(ids[right[0]])
        return np.array(points), np.array([row[2] for _, row in rows]), np.array(names, dtype=object)

    def run(self, election: ob.Election, parties: Mapping[str, Data | Contents]) -> Run:
        """The real cast, and at L1 the real tally."""
        with watched() as run:
            run.ballots = cast_module.cast_together(election, {n: d for n, d in parties.items() if isinstance(d, Data)})
            run.ballots += [seal(c, election, n) for n, c in parties.items() if not isinstance(c, Data)]
            if election.level == "L1":
                run.ledger = tally_module.tally(election, run.ballots).ledger
            else:
                run.ledger = open_ballot(run.ballots[0].sealed).manifest.privacy
        return run

    def check(self, case: Case) -> Finding:
        """Run both neighbours and compare the result with the ledger."""
        here, there = (self.run(case.election, parties) for parties in (case.here, case.there))
        reached = self.check_votes(case.election, here, there)
        for run in (here, there):
            self.check_drawn(run)
        ballots = [{b.party: b.digest for b in run.ballots if b.party != "unit"} for run in (here, there)]
        assert ballots[0] == ballots[1], "the ballot of a party depends on the data of another"
        exact = self.check_ledger(case.election.privacy, here, there)
        return Finding(reached, exact, float(there.ledger.epsilon or 0))

    def check_nothing_else(self, case: Case) -> None:
        """What others see depends on the unit only through the noisy answers."""
        seen: list[Any] = []
        for parties in (case.here, case.there):
            cast = {name: data for name, data in parties.items() if isinstance(data, Data)}
            with watched(deaf=True):
                ballots = cast_module.cast_together(case.election, cast)
                if case.election.level == "L2":
                    seen.append([ballot.sealed for ballot in ballots])
                else:
                    public = tally_module.tally(case.election, ballots).published()
                    seen.append((public.model.dump(), public.ledger, public.summary(), public.count.sums))
        assert seen[0] == seen[1], "something besides noisy answers depends on the unit"

    def check_votes(self, election: ob.Election, here: Run, there: Run) -> float:
        """No query and no count changes by more than a unit's reach; returns the largest shift of a gap."""
        query, counts = _guarantee(election).query, _guarantee(election).numbers
        assert [v.shape for v in here.votes] == [v.shape for v in there.votes], "the queries depend on the unit"
        change = np.concatenate(there.votes) - np.concatenate(here.votes)
        came, went = np.maximum(change, 0).sum(axis=1), np.maximum(-change, 0).sum(axis=1)
        most = query.reach if query.one_sided else query.reach / 2
        assert max(came.max(), went.max()) <= most + 1e-12, "the votes change by more than the reach of a unit"
        assert not query.one_sided or (came * went).max() == 0, "votes move, but are charged as added or removed"
        for a, b in zip(here.counts, there.counts, strict=True):
            assert ((a - b) ** 2).sum() <= counts.squared_shift, "the class counts change by more than the charge"
        return float((change.max(axis=1) - change.min(axis=1)).max())

    def check_drawn(self, run: Run) -> None:
        """The ledger lists exactly what was drawn."""
        charged = {line.what: line.times for line in run.ledger.lines}
        decided = {"test" if "test" in charged else "vote": sum(map(len, run.votes)), "class counts": len(run.counts)}
        for what, times in decided.items():
            assert charged.get(what, 0) == run.drawn[what] == times, f"the ledger does not match the draws: {what}"
        assert run.drawn["vote"] <= charged["vote"], "more was drawn than the ledger lists"

    def check_ledger(self, privacy: Any, here: Run, there: Run) -> float:
        """At the ledger's ε, for several δ, the exact loss is at most δ; returns the smallest such ε."""
        ledger = there.ledger
        assert ledger.epsilon is not None, "the ledger has no epsilon"
        assert ledger.delta is not None
        assert privacy.epsilon is None or ledger.epsilon <= privacy.epsilon * (1 + 1e-9), (
            "the ledger exceeds the budget"
        )
        p, q = outcomes(privacy, here, there)
        for delta in (ledger.delta, 1e-2, 1e-7):
            claimed = ledger.epsilon if delta == ledger.delta else ledger.epsilon_at(delta)
            assert lost(p, q, claimed) <= delta * (1 + 1e-6), "the answers reveal more than the ledger claims"
        most, least = ledger.epsilon + 1e-9, ledger.delta
        return float(brentq(lambda e: lost(p, q, e) - least, 0, most)) if lost(p, q, 0) > least else 0.0

    def check_law(self, election: ob.Election, unit: int = 1) -> None:
        """The noise on votes has the distribution of the ledger's line: χ² test with system entropy."""
        ctx, lines = self._context(election)
        classes, queries, scale = lines["vote"].classes, _guarantee(election).queries, lines["vote"].scale
        votes = np.round(scale * unit * np.linspace(0, 2, classes)).astype(np.int64)
        labels = ctx.decide(np.tile(votes, (queries, 1)), cell="law", unit=unit)
        expected = win_probability(votes[None] / unit, lines["vote"].mechanism, scale)[0]
        if "test" in lines:
            passed = float(ndtr((votes.max() / unit - election.privacy.threshold) / lines["test"].scale))
            expected = np.append(expected * passed, 1 - passed)  # no answer is -1, which comes last
        counts = np.bincount(labels % len(expected), minlength=len(expected))
        assert len(labels) == queries, "a query was left out"
        surprise = (((counts - queries * expected) ** 2) / (queries * expected)).sum()
        assert chi2.sf(surprise, len(expected) - 1) > HARDLY_EVER, "the noise on votes does not match the ledger"

    def check_counts_law(self, election: ob.Election, draws: int = 200) -> None:
        """The noise on class counts has the standard deviation of the ledger."""
        sigma = self._context(election)[1]["class counts"].scale
        numbers = np.full(len(election.classes), 10**6)
        drawn = np.concatenate(
            [self._context(election)[0].release(numbers, cell="class counts") - numbers for _ in range(draws)]
        )
        surprise = ((drawn / sigma) ** 2).sum()
        for tail in (chi2.sf, chi2.cdf):
            assert tail(surprise, drawn.size) > HARDLY_EVER, "the noise on class counts does not match the ledger"

    def check_fresh(self, election: ob.Election) -> None:
        """Two draws of noise differ."""
        tied = np.full((_guarantee(election).queries, _guarantee(election).query.classes), 50)
        assert len(tied) >= 40
        one, other = (self._context(election)[0].decide(tied, cell="partition 0") for _ in range(2))
        assert (one != other).any(), "the same noise was drawn twice"

    @staticmethod
    def _context(election: ob.Election) -> tuple[PartyContext, dict[str, Any]]:
        ctx = TallyContext(election) if election.level == "L1" else PartyContext(election, "unit")
        ledger = ctx.ledger() if isinstance(ctx, TallyContext) else election.ballot_ledger
        return ctx, {line.what: line for line in ledger.lines}


@pytest.fixture(scope="session")
def audit() -> ExactAudit:
    return ExactAudit()


def outcomes(privacy: Any, here: Run, there: Run) -> Pair:
    """The probabilities of all outcomes, votes and class counts, according to the ledger."""
    lines = {line.what: line for line in there.ledger.lines}
    pair = np.ones(1), np.ones(1)
    for before, after in zip(here.counts, there.counts, strict=True):
        for a, b in zip(before, after, strict=True):
            sigma = lines["class counts"].scale
            at = np.arange(math.floor(-14 * sigma), math.ceil(14 * sigma) + 1)
            p, q = (np.exp(-((at - shift) ** 2) / (2 * sigma**2)) for shift in (0, b - a))
            pair = _merged([(pair[0] * x, pair[1] * y) for x, y in zip(p / p.sum(), q / p.sum(), strict=True)])
    for votes, others in zip(here.votes, there.votes, strict=True):
        pair = _decided(pair, (votes, others), lines, privacy)
    return pair


def _decided(pair: Pair, votes: tuple[Array, Array], lines: Mapping[str, Any], privacy: Any) -> Pair:
    """Extend the outcomes by one partition's answers. With a test, queries may stay unanswered."""
    vote, test = lines["vote"], lines.get("test")
    laws = [win_probability(v, vote.mechanism, vote.scale) for v in votes]
    if test is not None:
        passed = [ndtr((v.max(axis=1, keepdims=True) - privacy.threshold) / test.scale) for v in votes]
        laws = [np.hstack([1 - go, go * law]) for go, law in zip(passed, laws, strict=True)]
    states = {0: pair}  # by the number of answered queries
    for p_law, q_law in zip(*laws, strict=True):
        after: dict[int, list[Pair]] = defaultdict(list)
        for answered, (p, q) in states.items():
            if test is not None and answered == privacy.answers:
                after[answered].append((p, q))
                continue
            for label, (x, y) in enumerate(zip(p_law, q_law, strict=True)):
                after[answered + (test is not None and label > 0)].append((p * x, q * y))
        states = {answered: _merged(pairs) for answered, pairs in after.items()}
    return _merged(list(states.values()))


def _merged(pairs: Sequence[Pair]) -> Pair:
    """Merge outcomes with the same likelihood ratio, which does not change the privacy loss."""
    p, q = (np.concatenate(side) for side in zip(*pairs, strict=True))
    with np.errstate(divide="ignore"):
        _, same = np.unique(np.round(np.log(p) - np.log(q), 9), return_inverse=True)
    return np.bincount(same, p), np.bincount(same, q)


def lost(p: Array, q: Array, epsilon: float) -> float:
    """The exact δ(ε), in the worse direction."""
    return max(float(np.maximum(a - math.exp(min(epsilon, 700)) * b, 0).sum()) for a, b in ((p, q), (q, p)))


def _guarantee(election: ob.Election) -> Any:
    assert election.guarantee is not None
    return election.guarantee


def _others(voters: int, leads: Leads, elsewhere: int, classes: int) -> list[list[Row]]:
    """The rows of all voters but the unit: one on either side, with the given leads of class 1 over class 0."""
    rows: list[list[Row]] = [[] for _ in range(voters)]
    for side, lead in zip((-SIDE, SIDE), leads, strict=True):
        if lead is not None:
            for_one, odd = divmod(voters - elsewhere + lead, 2)
            assert not odd, "this number of voters cannot have this lead"
            labels = [classes - 1] * elsewhere + [1] * for_one
            for own, label in zip(rows, labels + [0] * (voters - len(labels)), strict=True):
                own.append((side, DEPTH, label))
    return rows


def _data(election: ob.Election, rows: Sequence[Row]) -> Data:
    X = np.zeros((len(rows), *election.shape), dtype=np.float32)
    for x, row in zip(X, rows, strict=True):
        x[-2:] = row[:2]
    return Data(X, np.array([label for _, _, label in rows], dtype=np.int64))
