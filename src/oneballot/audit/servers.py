"""Two tallies on the stage: real shares, lists and partials, and what one of the two servers learns from them.

A server knows its own noise and can subtract it, so the noise of the other one alone protects a unit against it. The
audit therefore attacks the total with the noise of one server, as the other one sees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ..ballot.keys import public_text
from ..ballot.shares import as_signed
from ..election.election import Election
from ..election.tallies import SIDES, Side
from ..server.context import TallyContext
from ..server.prefetch import InMemory
from ..server.two_tallies.counting import count_shares, list_ballots
from ..server.two_tallies.roll import with_numbers
from ..server.two_tallies.share import make_partial
from ..types import Array

PROBES = 1000
"""Draws of signs that measure how many draws of noise a number of the total is made of."""


class Servers:
    """Both servers of an election, with keys of their own. attacked: the server whose noise the other one sees."""

    def __init__(self, election: Election, attacked: Side) -> None:
        assert election.tallies is not None
        self.attacked: Side = attacked
        self._keys = {side: X25519PrivateKey.generate() for side in SIDES}
        a, b = (public_text(self._keys[side]) for side in SIDES)
        tallies = replace(election.tallies, a=a, b=b, a_signs=None, b_signs=None)
        self.election = replace(election, tallies=tallies, variant_of=election.digest)
        self._deviations = self._measure()

    def open(self, sealed: Mapping[str, bytes], *, muted: bool) -> Array:
        """The total as the other server sees it: each number in units of one draw of noise. Muted: without noise."""
        source, election = InMemory(dict(sealed)), self.election
        listed = {side: list_ballots(count_shares(election, source, side, self._keys[side])) for side in SIDES}
        agreed = listed["a"].every & listed["b"].every
        counters = {
            side: count_shares(election, source, side, self._keys[side], agreed=with_numbers(agreed)) for side in SIDES
        }
        layout = counters["a"].settle()
        assert layout is not None, "every party of the audit sends sums"
        numbers = {side: counters[side].total(layout) for side in SIDES}
        if not muted:
            numbers[self.attacked] = make_partial(election, counters[self.attacked], agreed, 1).numbers
        sums = layout.split(as_signed(numbers["a"] + numbers["b"], layout.bits))
        noised = [name for name in sums if self._noised is None or name in self._noised]
        return np.concatenate([(sums[name] / self._deviations.get(name, 1.0)).ravel() for name in noised])

    def _measure(self) -> dict[str, Array]:
        """The standard deviation of the noise on each number, in draws, where a method makes it of several draws.

        Such noise is a sum of draws with whole factors, so that its variance is a whole number of draws.
        """
        method, rng = self.election.method, np.random.default_rng(0)
        with TallyContext(self.election) as ctx:
            ranges = method.shared_sums(ctx)
            self._noised = None if ranges is None else {name for name, most in ranges.items() if most.noised}

            def signs() -> Mapping[str, Array] | None:
                return method.shared_noise(lambda count: rng.integers(2, size=count) * 2 - 1, ctx)

            if signs() is None:
                return {}
            total: dict[str, Array] = {}
            for _ in range(PROBES):
                for name, value in (signs() or {}).items():
                    total[name] = total.get(name, 0) + value.astype(np.float64) ** 2
        return {name: np.sqrt(np.rint(value / PROBES)) for name, value in total.items()}
