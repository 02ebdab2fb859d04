"""An exact audit: real casts and tallies on two neighbours, and what all their noisy answers together tell apart.

The guarantee is for any data and any learner, so these are the worst there are. Every public row lies at a corner of
its own, and private rows in the middle are nearer to all of them than they are to each other: a nearest-neighbour
teacher says about every query what its nearest private row says. Nothing is estimated: all that may come out of either
neighbour is enumerated, with its probability.
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
"""How often a right sampler may be taken for a wrong one."""

SIDE, DEPTH, BELOW = 0.5, 0.3, 0.5
"""Half of the queries lie on either side of the middle; rows in the middle lie above or below others there."""

Row = tuple[float, float, int]  # side, depth, label
Leads = Sequence[int | None]
Pair = tuple[Array, Array]  # what may come out, with its probability on either neighbour


@dataclass(frozen=True)
class Case:
    """An election, and what its parties hold on either neighbour; or what a hostile one seals without a cast."""

    election: ob.Election
    here: Mapping[str, Data | Contents]
    there: Mapping[str, Data | Contents]


@dataclass
class Run:
    """What noise was drawn on, in votes and rows, and what the ledger says of it."""

    votes: list[Array] = field(default_factory=list)  # (queries, classes)
    counts: list[Array] = field(default_factory=list)  # (classes,)
    drawn: Counter[str] = field(default_factory=Counter)
    ballots: list[Ballot] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)


@dataclass(frozen=True)
class Finding:
    reached: float  # how far the gap of a query was shifted
    exact: float  # epsilon at the ledger's delta
    claimed: float


@contextmanager
def watched(*, deaf: bool = False) -> Iterator[Run]:
    """Desks as they are, but what they are asked to release is written down. Deaf ones always answer the same."""
    run = Run()

    def watching(kind: Any) -> Any:
        class Watched(kind):  # type: ignore[misc]
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
    """Arranges neighbours, runs them, and checks what their election promises. Checks raise AssertionError."""

    new_case, new_run, watched = Case, Run, staticmethod(watched)

    def forget(self) -> None:
        """What was computed before the code was changed."""
        calibration.calibrate.cache_clear()
        ledgers._multiply.cache_clear()

    def arrange(
        self, privacy: Any, *, classes: int = 2, public: int = 12, others: int = 6, leads: Leads = (2, 2),
        elsewhere: int = 0, unit_rows: int = 1, moved: int | None = None, learner: Any = NEAREST, **method: Any,
    ) -> Case:  # fmt: skip
        """One row (L2) or party (L1) moves its vote from class 0 to class 1 on every query.

        `leads`: by how much the other voters are for class 1, on either side (None: they say nothing); `elsewhere` of
        them are for the last class. `moved`: of how many teachers the row is to change the mind.
        """
        rows = privacy.level == "L2"
        moved = moved or (2 if rows and privacy.adjacency == "replace" and not privacy.stable_ids else 1)
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
        """The teachers of one party. Below the row in question lies another, which decides where that one is away."""
        rows = [(moved + k, row) for k, own in enumerate(base) for row in own]
        rows += [(k, (0.0, BELOW, 1 - k)) for k in range(moved)]
        rows += [(0, (0.0, 0.0, 0)), (moved - 1, (0.0, 0.0, 1))]
        X, y, ids = self._placed(election, rows)
        ids[-1] = ids[-2]  # a stable ID stays
        kept = np.arange(len(y) - 2)
        changed = np.append(kept, len(y) - 1) if election.privacy.adjacency == "replace" else kept
        return Case(election, *({"unit": Data(X[r], y[r], ids[r])} for r in (np.append(kept, len(y) - 2), changed)))

    def _placed(self, election: ob.Election, rows: Sequence[tuple[int, Row]]) -> tuple[Array, Array, Array]:
        """Rows that the keyed hash puts into these subsets, in every partition: by their ID, or a hair deeper."""
        ctx, guarantee = PartyContext(election, "unit"), _promise(election)
        found, names = [], []
        for number, (subset, row) in enumerate(rows):
            begin, right = 0, np.empty(0, np.int64)
            while not right.size:
                many = _data(election, [row] * 8 * guarantee.subsets**guarantee.partitions)
                many.X[:, -1] += (begin + np.arange(len(many))) * np.float32(1e-5)
                ids = np.array([f"row {number}.{begin + i}" for i in range(len(many))], dtype=object)
                deals = [ctx.assign_subsets(Data(many.X, many.y, ids), guarantee.subsets, "partition", j)[subset]
                         for j in range(guarantee.partitions)]  # fmt: skip
                right = np.array(sorted(set.intersection(*map(set, deals))), dtype=np.int64)
                begin += len(many)
            found.append(many.X[right[0]])
            names.append(ids[right[0]])
        return np.array(found), np.array([row[2] for _, row in rows]), np.array(names, dtype=object)

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
        """Run both neighbours, and compare what comes of them with what the ledger says."""
        here, there = (self.run(case.election, parties) for parties in (case.here, case.there))
        reached = self.check_votes(case.election, here, there)
        for run in (here, there):
            self.check_drawn(run)
        ballots = [{b.party: b.digest for b in run.ballots if b.party != "unit"} for run in (here, there)]
        assert ballots[0] == ballots[1], "the ballot of a party depends on another's data"
        exact = self.check_ledger(case.election.privacy, here, there)
        return Finding(reached, exact, float(there.ledger.epsilon or 0))

    def check_nothing_else(self, case: Case) -> None:
        """Whatever the unit does, what others see is the same as long as the noisy answers are."""
        seen: list[Any] = []
        for parties in (case.here, case.there):
            cast = {name: data for name, data in parties.items() if isinstance(data, Data)}
            with watched(deaf=True):
                ballots = cast_module.cast_together(case.election, cast)
                if case.election.level == "L2":
                    seen.append([ballot.sealed for ballot in ballots])
                else:
                    told = tally_module.tally(case.election, ballots).published()
                    seen.append((told.model.dump(), told.ledger, told.summary(), told.count.sums))
        assert seen[0] == seen[1], "something else than noisy answers depends on the unit"

    def check_votes(self, election: ob.Election, here: Run, there: Run) -> float:
        """No query and no count changes by more than one unit may change it; returns how far a gap was shifted."""
        query, counts = _promise(election).query, _promise(election).numbers
        assert [v.shape for v in here.votes] == [v.shape for v in there.votes], "what is decided depends on the unit"
        change = np.concatenate(there.votes) - np.concatenate(here.votes)
        came, went = np.maximum(change, 0).sum(axis=1), np.maximum(-change, 0).sum(axis=1)
        most = query.reach if query.one_sided else query.reach / 2
        assert max(came.max(), went.max()) <= most + 1e-12, "the votes change by more than the reach of a unit"
        assert not query.one_sided or (came * went).max() == 0, "votes move, and are charged as if they came or went"
        for a, b in zip(here.counts, there.counts, strict=True):
            assert ((a - b) ** 2).sum() <= counts.squared_shift, "the class counts change by more than is charged"
        return float((change.max(axis=1) - change.min(axis=1)).max())

    def check_drawn(self, run: Run) -> None:
        """All that was drawn, and nothing else, is on the ledger."""
        told = {line.what: line.times for line in run.ledger.lines}
        decided = {"test" if "test" in told else "vote": sum(map(len, run.votes)), "class counts": len(run.counts)}
        for what, times in decided.items():
            assert told.get(what, 0) == run.drawn[what] == times, f"the ledger does not have what was drawn: {what}"
        assert run.drawn["vote"] <= told["vote"], "more was drawn than is on the ledger"

    def check_ledger(self, terms: Any, here: Run, there: Run) -> float:
        """At the ledger's ε, and at those that it has for other δ, no more than δ is lost; returns the least such ε."""
        ledger = there.ledger
        assert ledger.epsilon is not None, "the ledger has no epsilon"
        assert ledger.delta is not None
        assert terms.epsilon is None or ledger.epsilon <= terms.epsilon * (1 + 1e-9), "the ledger exceeds the budget"
        p, q = outcomes(terms, here, there)
        for delta in (ledger.delta, 1e-2, 1e-7):
            claimed = ledger.epsilon if delta == ledger.delta else ledger.epsilon_at(delta)
            assert lost(p, q, claimed) <= delta * (1 + 1e-6), "the answers tell more apart than the ledger says"
        most, least = ledger.epsilon + 1e-9, ledger.delta
        return float(brentq(lambda e: lost(p, q, e) - least, 0, most)) if lost(p, q, 0) > least else 0.0

    def check_law(self, election: ob.Election, unit: int = 1) -> None:
        """What a desk draws on votes has the law of the ledger's line: χ², with the operating system's entropy."""
        ctx, lines = self._desk(election)
        classes, queries, scale = lines["vote"].classes, _promise(election).queries, lines["vote"].scale
        votes = np.round(scale * unit * np.linspace(0, 2, classes)).astype(np.int64)
        labels = ctx.decide(np.tile(votes, (queries, 1)), cell="law", unit=unit)
        expected = win_probability(votes[None] / unit, lines["vote"].mechanism, scale)[0]
        if "test" in lines:
            passed = float(ndtr((votes.max() / unit - election.privacy.threshold) / lines["test"].scale))
            expected = np.append(expected * passed, 1 - passed)  # no answer is -1, and comes last
        found = np.bincount(labels % len(expected), minlength=len(expected))
        assert len(labels) == queries, "a query was left out"
        surprise = (((found - queries * expected) ** 2) / (queries * expected)).sum()
        assert chi2.sf(surprise, len(expected) - 1) > HARDLY_EVER, "the noise on votes is not that of the ledger"

    def check_counts_law(self, election: ob.Election, draws: int = 200) -> None:
        """Class counts have the deviation that the ledger says."""
        sigma = self._desk(election)[1]["class counts"].scale
        numbers = np.full(len(election.classes), 10**6)
        drawn = np.concatenate(
            [self._desk(election)[0].release(numbers, cell="class counts") - numbers for _ in range(draws)]
        )
        surprise = ((drawn / sigma) ** 2).sum()
        for tail in (chi2.sf, chi2.cdf):
            assert tail(surprise, drawn.size) > HARDLY_EVER, "the noise on class counts is not that of the ledger"

    def check_fresh(self, election: ob.Election) -> None:
        """Noise is never drawn twice alike."""
        tied = np.full((_promise(election).queries, _promise(election).query.classes), 50)
        assert len(tied) >= 40
        one, other = (self._desk(election)[0].decide(tied, cell="partition 0") for _ in range(2))
        assert (one != other).any(), "the same noise was drawn twice"

    @staticmethod
    def _desk(election: ob.Election) -> tuple[PartyContext, dict[str, Any]]:
        ctx = TallyContext(election) if election.level == "L1" else PartyContext(election, "unit")
        ledger = ctx.ledger() if isinstance(ctx, TallyContext) else election.ballot_ledger
        return ctx, {line.what: line for line in ledger.lines}


@pytest.fixture(scope="session")
def audit() -> ExactAudit:
    return ExactAudit()


def outcomes(terms: Any, here: Run, there: Run) -> Pair:
    """All that may come out, votes and class counts together, by the laws that the ledger tells."""
    lines = {line.what: line for line in there.ledger.lines}
    pair = np.ones(1), np.ones(1)
    for before, after in zip(here.counts, there.counts, strict=True):
        for a, b in zip(before, after, strict=True):
            sigma = lines["class counts"].scale
            at = np.arange(math.floor(-14 * sigma), math.ceil(14 * sigma) + 1)
            p, q = (np.exp(-((at - shift) ** 2) / (2 * sigma**2)) for shift in (0, b - a))
            pair = _merged([(pair[0] * x, pair[1] * y) for x, y in zip(p / p.sum(), q / p.sum(), strict=True)])
    for votes, others in zip(here.votes, there.votes, strict=True):
        pair = _decided(pair, (votes, others), lines, terms)
    return pair


def _decided(pair: Pair, votes: tuple[Array, Array], lines: Mapping[str, Any], terms: Any) -> Pair:
    """And one partition's answers. With a test there may be no answer; after so many answers there is none."""
    vote, test = lines["vote"], lines.get("test")
    laws = [win_probability(v, vote.mechanism, vote.scale) for v in votes]
    if test is not None:
        passed = [ndtr((v.max(axis=1, keepdims=True) - terms.threshold) / test.scale) for v in votes]
        laws = [np.hstack([1 - go, go * law]) for go, law in zip(passed, laws, strict=True)]
    states = {0: pair}  # by how many were answered
    for p_law, q_law in zip(*laws, strict=True):
        after: dict[int, list[Pair]] = defaultdict(list)
        for answered, (p, q) in states.items():
            if test is not None and answered == terms.answers:
                after[answered].append((p, q))
                continue
            for label, (x, y) in enumerate(zip(p_law, q_law, strict=True)):
                after[answered + (test is not None and label > 0)].append((p * x, q * y))
        states = {answered: _merged(pairs) for answered, pairs in after.items()}
    return _merged(list(states.values()))


def _merged(pairs: Sequence[Pair]) -> Pair:
    """What is as likely on one neighbour as on the other, by the same factor, is told apart no better."""
    p, q = (np.concatenate(side) for side in zip(*pairs, strict=True))
    with np.errstate(divide="ignore"):
        _, same = np.unique(np.round(np.log(p) - np.log(q), 9), return_inverse=True)
    return np.bincount(same, p), np.bincount(same, q)


def lost(p: Array, q: Array, epsilon: float) -> float:
    """δ(ε), in the worse direction."""
    return max(float(np.maximum(a - math.exp(min(epsilon, 700)) * b, 0).sum()) for a, b in ((p, q), (q, p)))


def _promise(election: ob.Election) -> Any:
    assert election.guarantee is not None
    return election.guarantee


def _others(voters: int, leads: Leads, elsewhere: int, classes: int) -> list[list[Row]]:
    """What all but the unit hold: a row on either side, for class 1 by so many votes more than for class 0."""
    rows: list[list[Row]] = [[] for _ in range(voters)]
    for side, lead in zip((-SIDE, SIDE), leads, strict=True):
        if lead is not None:
            for_one, odd = divmod(voters - elsewhere + lead, 2)
            assert not odd, "so many voters cannot have this lead"
            labels = [classes - 1] * elsewhere + [1] * for_one
            for own, label in zip(rows, labels + [0] * (voters - len(labels)), strict=True):
                own.append((side, DEPTH, label))
    return rows


def _data(election: ob.Election, rows: Sequence[Row]) -> Data:
    X = np.zeros((len(rows), *election.shape), dtype=np.float32)
    for x, row in zip(X, rows, strict=True):
        x[-2:] = row[:2]
    return Data(X, np.array([label for _, _, label in rows], dtype=np.int64))
