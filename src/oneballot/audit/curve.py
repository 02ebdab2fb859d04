"""The audit's test: are the scores of canaries further apart than the claimed trade-off curve allows?

**The claim.** A canary's coin, 0 or 1, decides between two neighbours, P and Q. The mechanism's exact composition says
how well anything released can tell them apart: a trade-off curve f, the least false negative rate at each false
positive rate. Equivalently, with δ(ε) = max over events A of P(A) − e^ε·Q(A), in the worse direction (Dong, Roth, Su
2022, proposition 6): f is the envelope of its tangents, one for each ε ≥ 0, and δ(ε) is the intercept of a tangent.

**One guess.** At the level ε the auditor guesses a coin, or abstains. A right guess pays 1, a wrong one costs e^ε. Let
A₁ be the event that the guess is 1 and A₀ that it is 0. With a fair coin the expected payoff is

    ½[Q(A₁) − e^ε P(A₁)] + ½[P(A₀) − e^ε Q(A₀)] ≤ δ(ε),

whatever the rule of guessing. It may use the other coins, and earlier runs: the claim holds whatever they are. At ε =
0 this counts right minus wrong guesses; at larger ε only confident guesses count. Testing several levels tests
several tangents of f.

**One run.** X is the mean, over canaries, of the payoffs minus their δ(ε), at one level or averaged over some. Given
all earlier runs and the other coins, each term has a mean of at most 0, and so has X, however the canaries of a run
depend on each other (they share queries, and a mechanism could reveal all of them with a small probability). And X ≥
−B, where B is the mean cost e^ε plus the mean δ(ε), both known before the run.

**Many runs.** Start with a wealth of 1 and multiply it by 1 + θ·X/B after each run, 0 < θ < 1. It stays positive and
its expectation never grows, so it is a supermartingale under the claim; so is the mean of the wealths of several θ, and
of several choices of levels (level 0 alone: best for many canaries in few runs; all levels: best for few canaries). By
Ville's inequality it ever reaches 1/α with a probability of at most α. The audit rejects the claim if it does: at most
a fraction α of audits of a true claim are false alarms, for any number of runs and any time to stop. Nothing is
asymptotic. If the canaries are further apart than allowed, X is positive on average, and wealth grows exponentially.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import Array

FRACTIONS = np.geomspace(0.02, 0.98, 10)
"""The values of θ. Small ones suit a small excess in many runs."""
STEPS = (0.0, 0.5, 1.0, 1.5, 2.0)
"""Levels, in standard deviations of the log-likelihood ratio under the claim."""
MOST_LEVEL = 1.0
"""A wrong guess at a higher level would cost so much that bets had to be tiny."""


@dataclass(frozen=True)
class Level:
    """The guesses at one point of the curve. allowed: the mean payoff, right − e^ε·wrong, that the claim allows."""

    epsilon: float
    right: int
    wrong: int
    canaries: int
    allowed: float

    @property
    def payoff(self) -> float:
        return float(self.right - np.exp(self.epsilon) * self.wrong) / self.canaries


def choose_levels(spread: float) -> Array:
    """The levels ε for a log-likelihood ratio with this standard deviation. They do not depend on what is observed."""
    return np.unique(np.minimum(np.multiply(STEPS, spread), MOST_LEVEL))


def guess(losses: Array, coins: Array, levels: Array) -> tuple[Array, Array]:
    """Whether each guess is right, and whether it is wrong, bool `(levels, canaries)`.

    losses: the log-likelihood ratio of coin 1 to coin 0 for each canary. Below the level, the auditor abstains.
    """
    agrees = np.where(coins == 1, losses, -losses)
    return agrees > levels[:, None], -agrees > levels[:, None]


def payoff(right: Array, wrong: Array, levels: Array) -> Array:
    """The mean payoff of a run's guesses at each level."""
    return np.asarray((right - np.exp(levels)[:, None] * wrong).mean(axis=1))


def bets(payoffs: Array, allowed: Array, levels: Array) -> Array:
    """X/B, at least −1, at level 0 and for all levels together: `(…, 2)`, from payoffs and δ(ε), both `(…, levels)`."""
    costs, excess = np.exp(levels), payoffs - allowed
    first = excess[..., 0] / (costs[0] + allowed[..., 0])
    return np.stack([first, excess.mean(axis=-1) / (costs.mean() + allowed.mean(axis=-1))], axis=-1)


def log_wealth(stakes: Array) -> Array:
    """The logarithm of the largest wealth so far, after each run: `(…, runs)`, from `bets` `(…, runs, 2)`."""
    grown = np.full(stakes.shape[:-1], -np.inf)
    for fraction in FRACTIONS:
        every = np.cumsum(np.log1p(fraction * stakes), axis=-2)
        grown = np.logaddexp(grown, np.logaddexp.reduce(every, axis=-1))
    return np.asarray(np.maximum.accumulate(grown - np.log(len(FRACTIONS) * stakes.shape[-1]), axis=-1))
