"""Noisy votes: a canary's score counts the queries that went its way, minus those that went the other way.

Given the other coins, every query has known votes for either state of the canary, and the mechanism's win probability
gives the law of its answer. The score is a sum of independent steps +1, 0, −1; its law in both states, and so the exact
privacy loss of the composed noisy argmax at this position, follows from the product of their characteristic functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from ..privacy.guarantee import VotesGuarantee
from ..types import Array
from .independence import OfAnswers, Untested
from .scenes import Scene
from .signals import Excess, Signals, Trial
from .stage import Seen

REACH = 20
"""How many standard deviations of the score its law covers, beyond both means."""
HARDLY = 1e-13
"""Probabilities below this are rounding errors of the transform."""
NEVER = 1e-9
"""The chance that Confident-GNMax has spent its answers on a query that counts."""


class Argmax(Signals):
    """guarantee: of the attacked election; its reach, scale and number of queries are the claim."""

    def __init__(self, scene: Scene, guarantee: VotesGuarantee) -> None:
        self.guarantee, self.query = guarantee, guarantee.query
        probe = scene.stage.run(scene.parties(np.zeros(scene.canaries, dtype=np.int64)), muted=True)
        self.unit, self.parts = probe.unit, [len(votes) for votes in probe.votes]
        super().__init__(scene)
        self.independence: OfAnswers | Untested = OfAnswers(self.parts) if guarantee.test is None else Untested()
        self.gained, self.lost = (self._extreme(sign) for sign in (1, -1))
        # Votes that come or go lower no class: then class 0 or 1, the other of the two that the audit's rows say.
        self.lost = np.where((self.gained >= 0) & (self.lost < 0), np.where(self.gained == 0, 1, 0), self.lost)
        self.measured = self._reached()
        self.shrink = min(1.0, self.query.reach / self.measured) if self.measured else 1.0
        rng = np.random.default_rng(0)
        words = rng.integers(2**63, size=self.base.shape[1], dtype=np.uint64)
        self.words = words * np.uint64(2) + np.uint64(1)
        self.groups = Table()

    @staticmethod
    def read(seen: Seen) -> Array:
        return np.concatenate(seen.votes)

    def _extreme(self, sign: int) -> Array:
        """The class whose votes each canary raises (or lowers) on each query, `(canaries, queries)`; -2 for none."""
        each = [sign * move for move in self.moves]
        return np.array([np.where(move.max(axis=1) > 0, move.argmax(axis=1), -2) for move in each])

    def _reached(self) -> float:
        """The largest shift of a gap between two classes, in votes."""
        gaps = [np.maximum(m.max(axis=1), 0) - np.minimum(m.min(axis=1), 0) for m in self.moves]
        return float(max(gap.max(initial=0) for gap in gaps)) / self.unit

    def excess(self) -> Excess | None:
        declared = float(self.query.reach)
        return Excess("votes", declared, self.measured) if self.measured > declared * (1 + 1e-9) else None

    @property
    def reached(self) -> tuple[str, float]:
        return "votes", self.measured / float(self.query.reach)

    def too_many(self, seen: Seen) -> str:
        listed = {what: times for what, _, times in self.guarantee.lines()}
        answers = int(sum((labels >= 0).sum() for labels in seen.labels))
        asked = sum(map(len, seen.labels))
        if answers > listed["vote"] or asked > listed.get("test", listed["vote"]):
            return f"{asked:,} queries were asked and {answers:,} answered, but the ledger lists {listed}"
        return ""

    def trial(self, coins: Array) -> ArgmaxTrial:
        return ArgmaxTrial(self, coins)

    def law(self, votes: Array, factor: float = 1.0) -> Array:
        """The probability of each class `(rows, classes)`, with `factor` times the ledger's noise."""
        votes = votes * (self.shrink / self.unit)
        wins = self.query.win_probability(votes / (factor * self.query.scale))
        return wins if self.guarantee.test is None else wins * self.passes(votes, factor)[:, None]

    def passes(self, votes: Array, factor: float = 1.0) -> Array:
        """The probability that the test of Confident-GNMax passes, for votes as they are counted."""
        test, threshold = self.guarantee.test, self.guarantee.privacy.threshold or 0.0
        assert test is not None, "only Confident-GNMax has a test"
        return np.asarray(ndtr((votes.max(axis=1) - threshold) / (factor * test.sigma)))


class Table:
    """Numbers rows by their keys, and keeps a value for each."""

    def __init__(self) -> None:
        self.keys, self.values = np.empty(0, np.uint64), np.empty((0, 0))

    def find(self, keys: Array) -> tuple[Array, Array]:
        """The number of each key, and the position in `keys` of one of each that is new: add these, and ask again."""
        at = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        missing = np.flatnonzero(self.keys[at] != keys) if len(self.keys) else np.arange(keys.size)
        return at, missing[np.unique(keys[missing], return_index=True)[1]]

    def add(self, keys: Array, values: Array) -> None:
        order = np.argsort(joined := np.append(self.keys, keys))
        every = np.concatenate([self.values, values]) if len(self.values) else values
        self.keys, self.values = joined[order], every[order]


@dataclass(frozen=True, eq=False)
class ArgmaxTrial(Trial):
    argmax: Argmax
    coins: Array

    def losses(self, seen: Seen) -> Array:
        return self._losses(np.concatenate(seen.labels))

    def show(self, seen: Seen) -> None:
        self.argmax.independence.add(self._keys, np.concatenate(seen.labels))

    def simulate(self, factor: float, rng: np.random.Generator) -> Array:
        rows, which = np.unique(self._keys, return_index=True)
        law = self.argmax.law(self._votes[which], factor).cumsum(axis=1)
        drawn = (rng.random(len(self._keys))[:, None] > law[np.searchsorted(rows, self._keys)]).sum(axis=1)
        return self._losses(drawn)

    def _losses(self, labels: Array) -> Array:
        gained, lost = self._counted
        scores = (gained == labels).sum(axis=1) - (lost == labels).sum(axis=1)
        place = np.clip(scores - self._law[0], 0, self._ratios.shape[1] - 1)
        return np.asarray(np.take_along_axis(self._ratios, place[:, None], axis=1)[:, 0])

    def allowed(self, epsilon: float) -> Array:
        (_, zero, one), ratios, cost = self._law, self._ratios, math.exp(epsilon)
        either = (one - cost * zero) * (ratios > epsilon) + (zero - cost * one) * (ratios < -epsilon)
        return np.asarray(either.sum(axis=1) / 2)

    @property
    def spread(self) -> float:
        divergence = (self._law[2] * self._ratios).sum(axis=1)
        return float(np.median(np.sqrt(2 * np.maximum(divergence, 0))))

    def log_chance_of_repetition(self) -> float:
        _, which, times = np.unique(self._keys, return_index=True, return_counts=True)
        law = self.argmax.law(self._votes[which])
        same = (law**2).sum(axis=1) + (1 - law.sum(axis=1)) ** 2
        return float(times @ np.log(np.clip(same, 1e-300, 1)))

    @cached_property
    def _votes(self) -> Array:
        return self.argmax.at(self.coins)

    @cached_property
    def _keys(self) -> Array:
        return self._votes.astype(np.uint64) @ self.argmax.words

    @cached_property
    def _counted(self) -> tuple[Array, Array]:
        """The classes that each canary gains and loses, on the queries that count."""
        argmax = self.argmax
        if argmax.guarantee.test is None:
            return argmax.gained, argmax.lost
        counts = self._before_answers_end()
        return np.where(counts, argmax.gained, -2), np.where(counts, argmax.lost, -2)

    def _before_answers_end(self) -> Array:
        """The first queries of each partition: together they hardly ever (Chernoff) use up the answers."""
        argmax, answers = self.argmax, self.argmax.guarantee.privacy.answers or 0
        most = (self._votes + max(map(np.max, argmax.moves))) * (argmax.shrink / argmax.unit)
        passed, counts = argmax.passes(most), []
        for part in np.split(passed, np.cumsum(argmax.parts)[:-1]):
            mean = np.cumsum(part)
            with np.errstate(divide="ignore"):
                log_chance = answers - mean + answers * np.log(mean / answers)
            counts.append(((mean < answers) & (log_chance < math.log(NEVER))) | (np.arange(len(part)) < answers))
        return np.concatenate(counts)

    @cached_property
    def _ratios(self) -> Array:
        return _log_ratio(*self._law[1:])

    @cached_property
    def _law(self) -> tuple[Array, Array, Array]:
        """The smallest score, and the probabilities of the scores from there on in both states, by canary."""
        groups = self._groups()
        used = np.unique(groups[groups >= 0])
        steps = self.argmax.groups.values[used]  # up and down, in state 0 and in state 1
        place = np.full(len(self.argmax.groups.keys) + 1, len(used))
        place[used] = np.arange(len(used))
        width = len(used) + 1
        at = place[groups] + width * np.arange(len(groups))[:, None]
        times = np.bincount(at.ravel(), minlength=width * len(groups)).reshape(len(groups), width)[:, :-1]
        means = [times @ (steps[:, 2 * c] - steps[:, 2 * c + 1]) for c in (0, 1)]
        spreads = [np.sqrt(times @ (steps[:, 2 * c] + steps[:, 2 * c + 1])) for c in (0, 1)]
        middle = np.rint((means[0] + means[1]) / 2)
        wide = np.abs(means[1] - means[0]).max() / 2 + REACH * max(spread.max() for spread in spreads) + 32
        size = 2 ** math.ceil(math.log2(2 * min(wide, self.argmax.base.shape[0] + np.abs(middle).max() + 2)))
        turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
        laws = []
        for up, down in (steps[:, :2].T, steps[:, 2:].T):
            one_step = 1 + np.outer(up, turn - 1) + np.outer(down, turn.conj() - 1)
            logs = np.log(np.maximum(np.abs(one_step), 1e-300)) + 1j * np.angle(one_step)
            shift = np.outer(size // 2 - middle, np.log(turn))
            laws.append(np.maximum(np.fft.irfft(np.exp(times @ logs + shift), size, axis=1), 0))
        return (middle - size // 2).astype(np.int64), laws[0], laws[1]

    def _groups(self) -> Array:
        """The number of each (canary, query) in the table of groups, which have the same law; -1 where none counts."""
        argmax, coins = self.argmax, self.coins[:, None]
        moved = np.array([move.astype(np.uint64) @ argmax.words for move in argmax.moves])
        zero = np.where(coins == 1, self._keys - moved, self._keys)
        one = zero + moved
        gained, lost = self._counted
        tags = (gained + 2).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        keys = (zero * np.uint64(3) + one * np.uint64(5) + tags) * np.uint64(7) + (lost + 2).astype(np.uint64)
        numbers, new = argmax.groups.find(keys.ravel())
        if new.size:
            canary, query = np.unravel_index(new, keys.shape)
            move = np.array([argmax.moves[i][q] for i, q in zip(canary, query, strict=True)])
            at_zero = self._votes[query] - self.coins[canary][:, None] * move
            at_one = at_zero + move
            steps = []
            for votes in (at_zero, at_one):
                law = np.hstack([argmax.law(votes), np.zeros((len(new), 2))])  # class -2: never
                steps += [law[np.arange(len(new)), which[canary, query]] for which in (gained, lost)]
            argmax.groups.add(keys.ravel()[new], np.stack(steps, axis=1))
            numbers, _ = argmax.groups.find(keys.ravel())
        return np.where((gained >= 0) | (lost >= 0), numbers.reshape(keys.shape), -1)


def _log_ratio(zero: Array, one: Array) -> Array:
    """The log-likelihood ratio of each score, from -30 to 30; of scores that never occur, that of the nearest one."""
    ratios = np.log(np.maximum(one, HARDLY)) - np.log(np.maximum(zero, HARDLY))
    known = (zero > HARDLY) | (one > HARDLY)
    first, last = known.argmax(axis=1), zero.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
    nearest = np.clip(np.arange(zero.shape[1]), first[:, None], last[:, None])
    return np.take_along_axis(ratios, nearest, axis=1)
