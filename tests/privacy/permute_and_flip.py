import math

import numpy as np

from oneballot.privacy.mechanisms import NoisyArgmax
from oneballot.privacy.sampling import bernoulli_exp, uniform_below


class PermuteAndFlip(NoisyArgmax):
    """McKenna and Sheldon 2020: each class has heads with probability exp(−(max v − v)/b); one of them wins."""

    name = "permute-and-flip"

    @property
    def pure(self):  # epsilon of one query
        return self.reach / self.scale

    @classmethod
    def log_loss(cls, gaps):  # of two classes: the smaller count has heads, and is chosen
        return -gaps - math.log(2)

    @classmethod
    def win_probability(cls, votes):  # p_j · ∫₀¹ Π_{k≠j} (1 − t·p_k) dt, a polynomial in t
        p = np.exp(votes - votes.max(axis=1, keepdims=True))[..., None]
        t, weights = np.polynomial.legendre.leggauss(votes.shape[1] // 2 + 1)
        others = 1 - p * (t + 1) / 2
        return (p * others.prod(axis=1, keepdims=True) / others) @ weights / 2

    @classmethod
    def sample(cls, votes, steps, entropy):  # exact: integers only, no floating-point noise
        behind = (votes.max(axis=1, keepdims=True) - votes).astype(np.uint64)
        heads = bernoulli_exp(behind.ravel(), steps, entropy).reshape(votes.shape)
        winners = np.empty(len(votes), np.int64)
        for count in range(1, votes.shape[1] + 1):
            rows = np.flatnonzero(heads.sum(axis=1) == count)
            chosen = uniform_below(count, len(rows), entropy).astype(np.int64)
            with_heads = np.nonzero(heads[rows])[1].reshape(-1, count)
            winners[rows] = with_heads[np.arange(len(rows)), chosen]
        return winners
