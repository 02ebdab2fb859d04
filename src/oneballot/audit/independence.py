"""Is the noise on different numbers, queries, partitions and runs independent? Tests that need no guesses of coins.

**Signs.** Independent noise that is symmetric about 0 has, given its absolute values, independent fair signs. So have
the products r_i·r_j over pairs (i, j) without a cycle, such as all pairs at one distance. By Hoeffding's inequality
z = Σ r_i·r_j / √(Σ r_i²·r_j²) then exceeds t, in either direction, with a probability of at most 2·exp(−t²/2), whatever
the scale of the noise. Noise that is shared makes z grow with the root of the number of pairs.

**Swaps.** The answers to two queries with the same votes have the same law, and may be swapped. Let a, a′ be answers of
one part and b, b′ answers of another part to queries with the same votes there. Independent of a and a′, the swap of b
and b′ turns [a=b] + [a′=b′] − [a=b′] − [a′=b] into its negative: again a fair sign, whatever the scale.

**Repetition.** No value of discrete Gaussian noise has a probability above 1/(σ·√2π). Given the values before it, the
i-th repeats one of them with a probability of at most (i−1) times that, so the number of repetitions has the upper tail
of a Poisson variable (Chernoff), and two numbers hardly ever have the same noise in each of many runs.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from ..types import Array

FALSE_ALARM = 1e-9
"""The probability that one of the three tests finds something in independent noise, at most."""
LOG_ALARM = math.log(FALSE_ALARM)
SEEN = 2.0
"""Dependence whose z would exceed the bound by so much, on average, counts as noticed."""
KEPT = 2**22
"""Numbers in memory to find noise that is the same in every run."""
MOST_PAIRS = 200
"""Of partitions that are compared."""
MORE_OFTEN = 4
"""Weaker noise, too, repeats values more often, but hardly so much more often."""


class Independence(ABC):
    """Collects the noise, or the answers, of all runs."""

    @abstractmethod
    def findings(self) -> list[str]:
        """What independent noise hardly ever shows."""

    @abstractmethod
    def left_out(self) -> str:
        """What dependence could not have been noticed."""


class OfNumbers(Independence):
    """size: how many numbers each run releases. sigma: of their noise."""

    def __init__(self, what: str, size: int, sigma: float) -> None:
        self.what, self.size, self.sigma, self.runs = what, size, sigma, 0
        self.likeliest = 1 / (sigma * math.sqrt(2 * math.pi))
        self.products, self.squares = np.zeros(size + 1), np.zeros(size + 1)  # each distance, random, consecutive runs
        self.repeated = 0
        self.kept: list[Array] = []
        self.before: Array | None = None
        self.rng = np.random.default_rng()

    def add(self, noise: Array) -> None:
        """noise: what was added to each number in one run `(size,)`."""
        noise = np.round(noise.astype(np.float64), 6)
        self.runs += 1
        self.repeated += len(noise) - len(np.unique(noise))
        if (len(self.kept) + 1) * self.size <= KEPT:
            self.kept.append(noise)
        scaled = noise / self.sigma
        mixed = self.rng.permutation(scaled)
        pairs = [mixed[1:] * mixed[:-1], scaled * (0 if self.before is None else self.before)]
        self.products += [*_at_each_distance(scaled), *(pair.sum() for pair in pairs)]
        self.squares += [*_at_each_distance(scaled**2), *((pair**2).sum() for pair in pairs)]
        self.before = scaled

    def findings(self) -> list[str]:
        return [*self._same_in_every_run(), *self._repeated(), *self._correlated()] if self.runs else []

    def left_out(self) -> str:
        pairs, bound = self.size * self.runs / 2, (_bound(len(self.products)) + SEEN) ** 2
        noticed = ["noise that two numbers share in every run"] if self._log_chance() < LOG_ALARM else []
        if pairs > 3 * bound:  # the mean of r_i²·r_j² is 1 + 2·correlation²
            least = math.sqrt(bound / (pairs - 2 * bound))
            noticed.append(f"a correlation above {least:.2g} between all numbers at one distance, at most half of them")
        rest = f"dependence between the noise on different {self.what}"
        return f"{rest}, except {' and '.join(noticed)}" if noticed else rest

    def _same_in_every_run(self) -> list[str]:
        kept = np.array(self.kept)
        if not kept.size or self._log_chance() > LOG_ALARM:
            return []
        noised = kept[:, kept.any(axis=0)]
        first = np.take_along_axis(noised, (noised != 0).argmax(axis=0)[None], axis=0)
        _, counts = np.unique(noised * np.sign(first), axis=1, return_counts=True)
        none, same = self.size - noised.shape[1], int(counts[counts > 1].sum())
        of, found = f"of {self.size:,} numbers ({self.what}) have", list[str]()
        if none:
            found.append(f"{none:,} {of} no noise in any run")
        if same:
            found.append(f"{same:,} {of} the same noise as another one in every run, or the opposite")
        return found

    def _log_chance(self) -> float:
        """Of a number without noise, or two with the same or opposite noise, in every run that is kept."""
        return math.log(self.size**2) + len(self.kept) * math.log(min(1.0, self.likeliest))

    def _repeated(self) -> list[str]:
        expected = self.runs * self.likeliest * self.size * (self.size - 1) / 2
        if self.repeated <= MORE_OFTEN * expected:
            return []
        log_chance = self.repeated * (1 + math.log(expected / self.repeated)) - expected
        if log_chance > LOG_ALARM:
            return []
        return [
            f"the noise on {self.what} repeats {self.repeated:,} values within a run, but independent noise at most "
            f"{expected:.2g} on average"
        ]

    def _correlated(self) -> list[str]:
        known = self.squares > 1e-9 * self.squares.max(initial=0.0)
        z = np.divide(self.products, np.sqrt(np.maximum(self.squares, 0)), where=known, out=np.zeros(len(known)))
        worst = int(np.abs(z).argmax())
        if abs(z[worst]) < _bound(len(z)):
            return []
        beyond = worst - (self.size - 1)
        others = ["numbers paired at random", "the same number in consecutive runs"]
        where = f"numbers {worst + 1:,} apart" if beyond < 0 else others[beyond]
        return [
            f"what is added to {self.what} is not independent noise: {where} are correlated, {abs(z[worst]):.1f} "
            "standard deviations from 0"
        ]


class OfAnswers(Independence):
    """parts: how many queries each partition answers."""

    def __init__(self, parts: Sequence[int]) -> None:
        self.ends = np.cumsum(parts)[:-1]
        pairs = list(itertools.islice(itertools.combinations(range(len(parts)), 2), MOST_PAIRS))
        self.pairs = [(i, j) for i, j in pairs if parts[i] == parts[j]]
        names = [f"partitions {i + 1} and {j + 1}" for i, j in self.pairs]
        self.names = [*names, "the first and the second half of the queries", "neighbouring queries"]
        self.sums, self.squares = np.zeros(len(self.names)), np.zeros(len(self.names))

    def add(self, keys: Array, labels: Array) -> None:
        """keys: of the votes on each query, the same for the same votes. labels: the answers."""
        each = list(zip(np.split(keys, self.ends), np.split(labels, self.ends), strict=True))
        found = [_swapped(each[i][1], *each[j]) for i, j in self.pairs]
        halves, neighbours = [], []
        for key, label in each:
            half, even = len(label) // 2, len(label) // 2 * 2
            halves.append(_swapped(label[:half], key[half : 2 * half], label[half : 2 * half]))
            neighbours.append(_swapped(label[0:even:2], key[1:even:2], label[1:even:2]))
        found += [np.concatenate(halves), np.concatenate(neighbours)]
        self.sums += [each.sum() for each in found]
        self.squares += [(each**2).sum() for each in found]

    def findings(self) -> list[str]:
        z = self.sums / np.sqrt(np.maximum(self.squares, 1))
        return [
            f"the answers of {name} are not independent: {abs(value):.1f} standard deviations from 0"
            for name, value in zip(self.names, z, strict=True)
            if abs(value) >= _bound(len(z))
        ]

    def left_out(self) -> str:
        rest = "dependence between the noise on different queries or partitions"
        # A pair that says anything says 1 or 2, either way: with n pairs of 2, z is √n at most.
        least = 4 * (_bound(len(self.names)) + SEEN) ** 2
        tested = [name for name, square in zip(self.names, self.squares, strict=True) if square >= least]
        return f"{rest}, except strong dependence between {', or '.join(tested)}" if tested else rest


class Untested(Independence):
    """Answers that stop once enough are given depend on each other anyway."""

    def add(self, *given: Any) -> None:
        pass

    def findings(self) -> list[str]:
        return []

    def left_out(self) -> str:
        return "whether the noise on different queries or partitions is independent"


def _at_each_distance(values: Array) -> Array:
    """The sum of the products of all pairs at each distance from 1: `(size − 1,)`."""
    size = next_fast_len(2 * len(values), real=True)
    return np.asarray(irfft(np.abs(rfft(values, size)) ** 2, size)[1 : len(values)])


def _swapped(one: Array, keys: Array, other: Array) -> Array:
    """[a=b] + [a′=b′] − [a=b′] − [a′=b] for disjoint pairs of queries whose keys in the other part are the same."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.append(True, ordered[1:] != ordered[:-1]) if len(keys) else np.empty(0, bool)
    place = np.arange(len(keys)) - np.maximum.accumulate(np.where(new, np.arange(len(keys)), 0))
    second = np.flatnonzero(place % 2 == 1)
    p, q = order[second - 1], order[second]
    same = (one[p] == other[p]).astype(np.int64) + (one[q] == other[q])
    return np.asarray(same - (one[p] == other[q]) - (one[q] == other[p]))


def _bound(tests: int) -> float:
    """What none of so many |z| exceeds, except with the probability of a false alarm."""
    return math.sqrt(2 * math.log(2 * max(1, tests) / FALSE_ALARM))
