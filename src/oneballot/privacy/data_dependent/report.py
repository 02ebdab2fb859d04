"""What the very votes of a party, or of a tally, have cost: for the people at that desk, and not to be published."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...errors import ElectionError
from ...types import Array
from ..guarantee import Guarantee, VotesGuarantee


def describe_cost(guarantee: Guarantee | None, noised: Iterable[tuple[Array, int]]) -> str:
    """What these very votes cost, which is not to be published: it tells something about them."""
    from .accounting import look

    if guarantee is not None and guarantee.privacy.rehearsal:
        return "a rehearsal has no epsilon, on these votes or any: its noise can be repeated from its seed"
    if not isinstance(guarantee, VotesGuarantee) or guarantee.adaptive:
        return "there is no account that depends on the votes for this mechanism"
    units = {unit for _, unit in noised}
    if len(units) > 1:
        return "votes in different units have no common account"
    votes = np.concatenate([votes for votes, _ in noised])
    try:
        found = look(
            guarantee.query, votes, guarantee.privacy.delta, unit=units.pop(), abstentions=guarantee.level == "L1"
        )
    except ElectionError as error:
        return f"there is no account that depends on these votes: {error}"
    besides = f" (the votes alone, without the {guarantee.numbers_name})" if guarantee.numbers is not None else ""
    return (
        f"one draw of noise on these very votes costs epsilon {found.epsilon:.4g} at delta {found.delta:g}{besides}; "
        f"whatever the votes, {found.whatever_the_votes:.4g}"
    )
