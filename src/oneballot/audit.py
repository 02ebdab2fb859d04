"""An audit: attack an election's own cast and tally, and see how much of the claimed epsilon can be proved by it.

The guarantee is for any data and any learner, so the audit takes the worst that it can think of. Canaries sit on public
rows of their own, all other voters are tied there, and the nearest-neighbour learner repeats what it has seen: the coin
of a canary decides the vote. One run with noise, one almost without: the second must be caught, or nothing is shown.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from . import plugins
from .election.election import Election
from .errors import ElectionError
from .interfaces import VotingMethod
from .party.cast import cast_together
from .party.context import PartyContext
from .privacy.audit_bound import canaries_needed, epsilon_lower_bound
from .privacy.guarantee import VotesGuarantee
from .privacy.settings import PrivacySettings
from .runtime.progress import track
from .server.tally import tally
from .types import Array, Data

NO_NOISE = 2.0**-6
"""A scale at which noise never changes a vote."""

FAR = 1000.0
MOST_CANARIES = 2000
USUAL_RUNS = 100


@dataclass(frozen=True)
class Finding:
    """How the guesses went, over all runs."""

    canaries: int
    guesses: int
    right: int
    epsilon: float  # at least


@dataclass(frozen=True)
class Audit:
    claimed: float
    delta: float
    unit: str
    adjacency: str
    confidence: float
    runs: int
    most: float  # what so many canaries can show at all
    with_noise: Finding
    without_noise: Finding

    @property
    def holds(self) -> bool:
        """Nothing was found against the claim."""
        return self.with_noise.epsilon <= self.claimed

    @property
    def catches(self) -> bool:
        """Without noise the claim is refuted: the audit is able to find something."""
        return self.without_noise.epsilon > self.claimed


def audit(
    election: Election, *, canaries: int | None = None, runs: int | None = None, confidence: float = 0.95
) -> Audit:
    """Attack the election's mechanism with canaries: if not told, as many as refute the claim where there is no noise.

    They are spread over independent runs. The fewer share a run, the more queries each decides, and the more is seen;
    the bound for one run holds for all together, because no canary has a part in any other run than its own.
    """
    guarantee, privacy = election.guarantee, election.privacy
    if guarantee is None or privacy.rehearsal:
        raise ElectionError("there is nothing to audit: the election claims no epsilon (level L0, or a rehearsal)")
    if not isinstance(guarantee, VotesGuarantee):
        raise ElectionError(
            f"the audit attacks noisy votes, and {election.method.name} releases {guarantee.numbers_name}"
        )
    wanted = canaries or min(MOST_CANARIES, 2 * canaries_needed(guarantee.epsilon(), privacy.delta, confidence))
    runs = min(wanted, runs or USUAL_RUNS)
    each = min(-(-wanted // runs), guarantee.queries)
    ground = _Ground.of(election, _with_scale(guarantee, guarantee.query.scale), each)
    claimed, count = guarantee.epsilon(), runs * each
    noisy = ground.attack(runs, confidence, "attacking with noise")
    bare = _Ground.of(election, _with_scale(guarantee, NO_NOISE), each)
    caught = bare.attack(runs, confidence, "attacking without noise")
    most = epsilon_lower_bound(count, max(1, count // 2), max(1, count // 2), privacy.delta, confidence)
    unit = "party" if privacy.level == "L1" else "row"
    return Audit(claimed, privacy.delta, unit, privacy.adjacency, confidence, runs, most, noisy, caught)


@dataclass(frozen=True)
class _Ground:
    """An election of the same method, noise and number of queries, over public rows that suit the attack."""

    election: Election
    public: Array
    canaries: int
    block: int  # public rows that one canary decides

    @classmethod
    def of(cls, election: Election, privacy: PrivacySettings, canaries: int) -> _Ground:
        assert isinstance(election.guarantee, VotesGuarantee)
        queries = election.guarantee.queries
        block = queries // canaries
        # A block's rows lie around its canary, nearer to it than to each other, so that nothing is ever nearer.
        public = np.zeros((queries, 1 + block), dtype=np.float32)
        public[:, 0] = FAR * np.minimum(np.arange(queries) // block, canaries)
        public[np.arange(queries), 1 + np.arange(queries) % block] = 1.0
        assert isinstance(election.method, VotingMethod)
        nearest = plugins.find("learners", "sklearn")("KNeighborsClassifier", {"n_neighbors": 1})
        # Rows are told apart by IDs, which the auditor chooses so that each comes where it is wanted.
        if privacy.level == "L2":
            privacy = replace(privacy, stable_ids=True)
        made = replace(
            election, public=public, method=election.method.for_audit(privacy.level), learner=nearest, learners={},
            schema=None, privacy=privacy,
        ).in_one_place()  # fmt: skip
        return cls(made, public, canaries, block)

    @property
    def subsets(self) -> int:
        assert isinstance(self.election.guarantee, VotesGuarantee)
        return self.election.guarantee.subsets

    def attack(self, runs: int, confidence: float, what: str) -> Finding:
        """Throw the coins, run the election, and guess them from what everybody can see."""
        coins = np.random.default_rng().integers(2, size=(runs, self.canaries))
        lead = np.array([self._lead(thrown) for thrown in track(what, coins, runs)]).ravel()
        guessed = np.argsort(-np.abs(lead), kind="stable")[: max(1, lead.size // 2)]
        right = int(((lead[guessed] > 0) == coins.ravel()[guessed].astype(bool)).sum())
        found = epsilon_lower_bound(lead.size, len(guessed), right, self.election.privacy.delta, confidence)
        return Finding(lead.size, len(guessed), right, found)

    def _lead(self, coins: Array) -> Array:
        """Of one run, canary by canary: by how much the rows that it decides speak for a 1."""
        private = self.election.level == "L2"
        outcome = tally(
            self.election, cast_together(self.election, self.one_party(coins) if private else self.many_parties(coins))
        )
        if private:  # a ballot is seen by others, and the count is the sum of what ballots say
            seen = outcome.count.sums["votes"][:, :2].astype(float)
        else:
            seen = outcome.model.predict_proba(self.public)[:, :2]
        lead = (seen[:, 1] - seen[:, 0])[: self.canaries * self.block]
        return np.asarray(lead.reshape(self.canaries, self.block).sum(axis=1))

    def place(self, canary: int) -> Array:
        at = np.zeros(self.public.shape[1], dtype=np.float32)
        at[0] = FAR * canary
        return at

    def one_party(self, coins: Array) -> dict[str, Data]:
        """At L2: every teacher has a row at every place; the canary's teacher has the canary, the others are tied."""
        names, rows, labels = [iter(ids) for ids in self.names], [], []
        ids: list[str] = []
        for canary, coin in enumerate(coins):
            for teacher, label in self._tied(self.subsets, canary % self.subsets, int(coin)):
                rows.append(self.place(canary))
                labels.append(label)
                ids.append(next(names[teacher]))
        return {"audited": Data(np.array(rows), np.array(labels), np.array(ids))}

    def many_parties(self, coins: Array) -> dict[str, Data]:
        """At L1: every canary is a party, which decides at its own place and is one of the tied ones at all others."""
        places = np.array([self.place(canary) for canary in range(self.canaries)])
        labels = np.array([
            [label for _, label in self._tied(self.canaries, own, int(coin))] for own, coin in enumerate(coins)
        ])  # fmt: skip
        return {f"party-{i:04d}": Data(places, labels[:, i]) for i in range(self.canaries)}

    def _tied(self, voters: int, own: int, coin: int) -> list[tuple[int, int]]:
        """What each voter says at a place: one by its coin, the others half and half, an odd one something else."""
        others = itertools.cycle((0, 1))
        told = [(voter, coin if voter == own else next(others)) for voter in range(voters)]
        if voters % 2 == 0 and len(self.election.classes) > 2:
            last = max(voter for voter in range(voters) if voter != own)
            told[last] = (last, 2)
        return told

    @cached_property
    def names(self) -> list[list[str]]:
        """For each subset IDs whose keyed hash puts their rows there, in every partition."""
        assert isinstance(self.election.guarantee, VotesGuarantee)
        ctx, partitions = PartyContext(self.election, "audited"), self.election.guarantee.partitions
        found: list[list[str]] = [[] for _ in range(self.subsets)]
        begin = 0
        while min(map(len, found)) < self.canaries:
            tried = np.array([f"row-{i}" for i in range(begin, begin + 20_000)])
            begin += len(tried)
            data = Data(np.zeros((len(tried), 1)), np.zeros(len(tried), dtype=np.int64), tried)
            where = np.zeros((partitions, len(tried)), dtype=np.int64)
            for j in range(partitions):
                for k, rows in enumerate(ctx.assign_subsets(data, self.subsets, "partition", j)):
                    where[j, rows] = k
            for i in np.flatnonzero((where == where[0]).all(axis=0)):
                found[where[0, i]].append(str(tried[i]))
            if begin > 5_000_000:
                raise ElectionError("too many partitions for an audit: no ID falls into the same subset in all of them")
        return found


def _with_scale(guarantee: VotesGuarantee, scale: float) -> PrivacySettings:
    """Terms that state this very noise, whatever budget it came from. Tests of Confident-GNMax are left out."""
    return replace(
        guarantee.privacy, epsilon=None, gamma=None, sigma=None, scale=scale, mechanism=guarantee.query.mechanism,
        threshold=None, answers=None, test_sigma=None, sampler="oneballot", accountant="rdp",
    )  # fmt: skip
