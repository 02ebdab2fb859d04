"""Privacy audit: attack an election's cast and tally with canaries and compare the result with the claimed epsilon.

The guarantee holds for any data and any learner, so the audit uses the worst case. Each canary, whose label is a coin
flip, decides the vote on its own public rows: all other voters are tied there, and a nearest-neighbour learner
memorizes the rows. The attack is repeated almost without noise: that must refute the claim, or the audit is void.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from . import plugins
from .election.election import Election
from .errors import ElectionError, OneBallotWarning
from .party.cast import cast_together
from .party.context import PartyContext
from .privacy.audit_bound import canaries_needed, epsilon_lower_bound
from .privacy.guarantee import VotesGuarantee
from .runtime.progress import track
from .server.tally import tally
from .types import Array, Data

NO_NOISE = 2.0**-6
"""A noise scale at which noise never changes a vote."""
DISTANCE = 1000.0
MAX_CANARIES = 2000
DEFAULT_RUNS = 100
MAX_IDS = 5_000_000


@dataclass(frozen=True)
class Attack:
    """The guesses of all runs, and the lower bound on epsilon that they prove."""

    canaries: int
    guesses: int
    right: int
    epsilon: float


@dataclass(frozen=True)
class Audit:
    claimed: float
    delta: float
    unit: str
    adjacency: str
    confidence: float
    runs: int
    most: float  # the largest epsilon that this number of canaries can refute
    with_noise: Attack
    without_noise: Attack

    @property
    def holds(self) -> bool:
        """Whether the attack does not refute the claim."""
        return self.with_noise.epsilon <= self.claimed

    @property
    def catches(self) -> bool:
        """Whether the attack refutes the claim without noise, which shows that it is strong enough."""
        return self.without_noise.epsilon > self.claimed


def audit(
    election: Election, *, canaries: int | None = None, runs: int | None = None, confidence: float = 0.95
) -> Audit:
    """Attack the election's mechanism with canaries, by default with enough to refute the claim without noise.

    The canaries are spread over independent runs. The fewer share a run, the more queries each decides, and the
    stronger the attack. The bound for one run also holds for all runs, because a canary affects only its own run.
    """
    guarantee, privacy = election.guarantee, election.privacy
    if guarantee is None or privacy.rehearsal:
        raise ElectionError("there is nothing to audit: the election claims no epsilon (level L0 or a rehearsal)")
    if not isinstance(guarantee, VotesGuarantee):
        released = guarantee.numbers_name
        raise ElectionError(f"the audit attacks noisy votes, but {election.method.name} releases {released}")
    claimed = guarantee.epsilon()
    wanted = canaries or min(MAX_CANARIES, 2 * canaries_needed(claimed, privacy.delta, confidence))
    runs = min(wanted, runs or DEFAULT_RUNS)
    per_run = min(-(-wanted // runs), guarantee.queries)
    with warnings.catch_warnings():  # about the audit's own rows and missing noise, not about this election
        warnings.simplefilter("ignore", OneBallotWarning)
        noisy = _Attacker.of(election, guarantee, guarantee.query.scale, per_run)
        with_noise = noisy.attack(runs, confidence, "attacking with noise")
        bare = _Attacker.of(election, guarantee, NO_NOISE, per_run)
        without_noise = bare.attack(runs, confidence, "attacking without noise")
    total = runs * per_run
    most = epsilon_lower_bound(total, max(1, total // 2), max(1, total // 2), privacy.delta, confidence)
    return Audit(
        claimed, privacy.delta, guarantee.unit, privacy.adjacency, confidence, runs, most, with_noise, without_noise
    )


@dataclass(frozen=True)
class _Attacker:
    """An election with the same method, noise and number of queries, with public rows chosen for the attack."""

    election: Election
    public: Array
    canaries: int
    block: int  # public rows that one canary decides
    subsets: int
    partitions: int

    @classmethod
    def of(cls, election: Election, guarantee: VotesGuarantee, scale: float, canaries: int) -> _Attacker:
        method = election.method.for_audit(guarantee.level)
        if method is None:
            raise ElectionError(f"the method {election.method.name} releases votes, but cannot be audited (for_audit)")
        queries, block = guarantee.queries, guarantee.queries // canaries
        # The rows of a block lie around its canary, closer to it than to each other, so it is their nearest neighbour.
        public = np.zeros((queries, 1 + block), dtype=np.float32)
        public[:, 0] = DISTANCE * np.minimum(np.arange(queries) // block, canaries)
        public[np.arange(queries), 1 + np.arange(queries) % block] = 1.0
        # Set the noise scale instead of a budget, without the test of Confident-GNMax. At L2 the auditor chooses the
        # IDs of rows so that each row falls into the intended subset.
        privacy = replace(
            guarantee.privacy,
            epsilon=None,
            gamma=None,
            sigma=None,
            scale=scale,
            mechanism=guarantee.query.name,
            threshold=None,
            answers=None,
            test_sigma=None,
            sampler="oneballot",
            accountant="rdp",
            stable_ids=True if guarantee.level == "L2" else None,
        )
        nearest = plugins.find("learners", "sklearn")("KNeighborsClassifier", {"n_neighbors": 1})
        attacked = replace(
            election,
            public=public,
            method=method,
            learner=nearest,
            learners={},
            schema=None,
            privacy=privacy,
        ).on_one_machine()
        made = attacked.guarantee
        assert isinstance(made, VotesGuarantee)
        return cls(attacked, public, canaries, block, made.subsets, made.partitions)

    def attack(self, runs: int, confidence: float, what: str) -> Attack:
        """Flip the coins, run the elections, and guess the coins from the published results."""
        coins = np.random.default_rng().integers(2, size=(runs, self.canaries))
        scores = np.array([self._score(flipped) for flipped in track(what, coins, runs)]).ravel()
        guessed = np.argsort(-np.abs(scores), kind="stable")[: max(1, scores.size // 2)]
        right = int(((scores[guessed] > 0) == coins.ravel()[guessed].astype(bool)).sum())
        delta = self.election.privacy.delta
        bound = epsilon_lower_bound(scores.size, len(guessed), right, delta, confidence)
        return Attack(scores.size, len(guessed), right, bound)

    def _score(self, coins: Array) -> Array:
        """For each canary of one run, the evidence of its public rows that its coin is 1."""
        row_level = self.election.level == "L2"
        parties = self._one_party(coins) if row_level else self._many_parties(coins)
        outcome = tally(self.election, cast_together(self.election, parties))
        if row_level:  # the ballots are visible, and the count is the sum of their votes
            visible = outcome.count.sums["votes"][:, :2].astype(float)
        else:
            visible = outcome.probabilities(self.public)[:, :2]
        lead = (visible[:, 1] - visible[:, 0])[: self.canaries * self.block]
        return np.asarray(lead.reshape(self.canaries, self.block).sum(axis=1))

    def _place(self, canary: int) -> Array:
        place = np.zeros(self.public.shape[1], dtype=np.float32)
        place[0] = DISTANCE * canary
        return place

    def _one_party(self, coins: Array) -> dict[str, Data]:
        """L2: every teacher has a row at every place. One of these rows is the canary; the others are tied."""
        names, rows, labels, ids = [iter(names) for names in self.row_ids], [], [], []
        for canary, coin in enumerate(coins):
            for teacher, label in enumerate(self._votes(self.subsets, canary % self.subsets, int(coin))):
                rows.append(self._place(canary))
                labels.append(label)
                ids.append(next(names[teacher]))
        return {"audited": Data(np.array(rows), np.array(labels), np.array(ids))}

    def _many_parties(self, coins: Array) -> dict[str, Data]:
        """L1: every canary is a party. It decides the vote at its own place and is one of the tied voters elsewhere."""
        places = np.array([self._place(canary) for canary in range(self.canaries)])
        labels = np.array([self._votes(self.canaries, own, int(coin)) for own, coin in enumerate(coins)])
        return {f"party-{i:04d}": Data(places, labels[:, i]) for i in range(self.canaries)}

    def _votes(self, voters: int, own: int, coin: int) -> list[int]:
        """The votes at a place: the canary votes its coin, the others are tied; an odd one votes for a third class."""
        others = itertools.cycle((0, 1))
        votes = [coin if voter == own else next(others) for voter in range(voters)]
        if voters % 2 == 0 and len(self.election.classes) > 2:
            votes[max(voter for voter in range(voters) if voter != own)] = 2
        return votes

    @cached_property
    def row_ids(self) -> list[list[str]]:
        """For each subset, IDs whose keyed hash puts their rows there in every partition."""
        ctx = PartyContext(self.election, "audited")
        chosen: list[list[str]] = [[] for _ in range(self.subsets)]
        for start in range(0, MAX_IDS, 20_000):
            names = np.array([f"row-{i}" for i in range(start, start + 20_000)])
            data = Data(np.zeros((len(names), 1)), np.zeros(len(names), dtype=np.int64), names)
            subset_of = np.zeros((self.partitions, len(names)), dtype=np.int64)
            for j in range(self.partitions):
                for k, rows in enumerate(ctx.assign_subsets(data, self.subsets, "partition", j)):
                    subset_of[j, rows] = k
            for i in np.flatnonzero((subset_of == subset_of[0]).all(axis=0)):
                chosen[subset_of[0, i]].append(str(names[i]))
            if min(map(len, chosen)) >= self.canaries:
                return chosen
        raise ElectionError("too many partitions for an audit: no ID falls into the same subset in all of them")
