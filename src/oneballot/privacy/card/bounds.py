"""What (ε, δ) leaves an attacker: how often a guess is right, and how far a suspicion may grow.

Let P and Q be the distributions of what is released from two neighbouring data sets, so that P(S) ≤ e^ε·Q(S) + δ for
every set S of results, and the same with P and Q exchanged.

- *Guess.* With even odds, the best rule is right with probability (1 + TV(P, Q)) / 2 ≤ (e^ε + δ) / (e^ε + 1), since the
  best test has false positives f and power 1 − f with 1 − f ≤ e^ε·f + δ at the corner of the trade-off curve.
- *Suspicion.* Let S = {P > c·e^ε·Q} for c > 1. Then P(S) ≤ e^ε·Q(S) + δ < P(S) / c + δ, so P(S) < δ·c / (c − 1), and
  Q(S) is smaller still. Outside of S Bayes' rule multiplies the odds by at most c·e^ε.
"""

from __future__ import annotations

import math

SLACK = 1.1
"""c: the odds of a suspicion are multiplied by at most c·e^ε, except with probability 11·δ."""
LARGEST_EXPONENT = 690.0
CERTAIN = 1 - 1e-9
"""A larger share is not stated as a percentage."""


def exp(epsilon: float) -> float | None:
    """e^ε, or None if it is beyond what a number can hold."""
    return math.exp(epsilon) if epsilon < LARGEST_EXPONENT else None


def guess_bound(epsilon: float, delta: float) -> float:
    """How often an attacker guesses right, at most, for whom both answers are equally likely beforehand."""
    wrong = math.exp(-min(epsilon, LARGEST_EXPONENT))
    return min(1.0, (1 + delta * wrong) / (1 + wrong))


def suspicion_bound(before: float, epsilon: float) -> float:
    """The largest probability, after the release, of what was this probable before; see `exception_bound`."""
    against = (1 - before) / before * math.exp(-min(epsilon, LARGEST_EXPONENT)) / SLACK
    return 1 / (1 + against)


def exception_bound(delta: float) -> float:
    """How probably a suspicion grows beyond its bound, at most."""
    return min(1.0, delta * SLACK / (SLACK - 1))


def pair_guess_bound(epsilon: float, delta: float) -> float:
    """`guess_bound` for two units together: (2ε, (1 + e^ε)·δ)."""
    odds = exp(epsilon)
    return 1.0 if odds is None else guess_bound(2 * epsilon, (1 + odds) * delta)


def twice_guess_bound(epsilon: float, delta: float) -> float:
    """`guess_bound` for two releases with this guarantee: (2ε, 2δ)."""
    return guess_bound(2 * epsilon, 2 * delta)


def often(share: float) -> str:
    """A bound on how often something happens, in words."""
    return f"at most {percent_up(share)} of the time" if share < CERTAIN else "always, for all that is promised"


def percent_up(share: float) -> str:
    """A share in percent, rounded up, with enough digits to stay below 100."""
    missing = max(100 * (1 - share), 100 * (1 - CERTAIN))
    digits = max(1, math.ceil(-math.log10(missing) - 1e-9))
    step = 10**digits
    return f"{math.ceil(100 * share * step - 1e-6) / step:.{digits}f} %"


def factor_up(odds: float) -> str:
    """A factor, rounded up."""
    return f"{math.ceil(odds):,}" if odds >= 100 else f"{math.ceil(odds * 100 - 1e-9) / 100:.2f}"
