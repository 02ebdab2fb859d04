"""Two tallies in the suite of methods: shares of the sums add up to the outcome of one tally."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ..ballot.keys import public_text
from ..errors import ElectionError
from ..simulation import simulate_parties
from ._data import WHOLE, same
from ._election import MethodCase, equal_contents
from ._suite import describe


def check_shares(case: MethodCase) -> Iterator[str]:
    """If `sums_alone` is declared, two servers that add up shares at L0 get the outcome of one tally."""
    method = case.method
    if method.sums_alone and method.why_not_shared:
        yield "`sums_alone` is True, but `why_not_shared` has a reason against two tallies. Remove one of them."
        return
    if not method.sums_alone or "L0" not in method.levels:
        return
    keys: dict[str, Any] = {side: public_text(X25519PrivateKey.generate()) for side in "ab"}
    try:
        shared = case.election("L0", tallies=keys | {"min_difference": 1})
    except ElectionError:  # not with these settings
        return
    parties = {party: case.parties[party] for party in WHOLE}
    try:
        two = simulate_parties(shared, parties).outcome
    except Exception as error:
        yield (
            f"`sums_alone` is True, but an election with two tallies fails at L0: {describe(error)}. Put integers that "
            "add up into `Count.sums`, and raise ElectionError in `for_shares` for settings that need more; otherwise "
            "declare `sums_alone = False`."
        )
        return
    one = simulate_parties(replace(shared, tallies=None, variant_of=shared.digest), parties).outcome
    if not equal_contents(two.count.sums, one.count.sums):
        yield "The total of two tallies differs from the sums of one tally. `count` must add integers, of fixed shapes."
    elif not same(two.probabilities(case.X_test), one.probabilities(case.X_test)):
        yield "The outcome of two tallies differs from that of one tally. `close` must use `Count.sums` alone."
