"""A sentence about the data-dependent cost of a party's or a tally's votes, for those who hold them. Do not publish."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...errors import ElectionError
from ...types import Array
from ..accounting import epsilon
from ..guarantee import Guarantee, VotesGuarantee


def describe_cost(guarantee: Guarantee | None, noised: Iterable[tuple[Array, int]]) -> str:
    """What one draw of noise on these votes, each with its unit, costs; or why that isn't known."""
    from .accounting import data_dependent_epsilon

    noised = list(noised)
    if not noised:
        return "no noise was drawn now, so there is nothing that depends on these votes"
    if guarantee is not None and guarantee.privacy.rehearsal:
        return "a rehearsal has no epsilon: its noise can be reproduced from its seed"
    if not isinstance(guarantee, VotesGuarantee) or guarantee.adaptive:
        return "there is no data-dependent epsilon for this mechanism"
    units = {unit for _, unit in noised}
    if len(units) > 1:
        return "there is no data-dependent epsilon for votes in different units"
    votes, unit, query = np.concatenate([votes for votes, _ in noised]), units.pop(), guarantee.query
    delta, abstentions = guarantee.privacy.delta, guarantee.level == "L1"
    try:
        cost = data_dependent_epsilon(query, votes, delta, unit=unit, abstentions=abstentions)
    except ElectionError as error:
        return f"there is no data-dependent epsilon for these votes: {error}"
    without = f" (the votes only, without the {guarantee.numbers_name})" if guarantee.numbers is not None else ""
    return (
        f"one draw of noise on these votes costs epsilon {cost:.4g} at delta {delta:g}{without}; the data-independent "
        f"guarantee is {epsilon(query, len(votes), delta):.4g}"
    )
