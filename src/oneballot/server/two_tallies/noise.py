"""One server's noise: the full noise of the guarantee, on every sum that depends on private rows."""

from __future__ import annotations

import numpy as np

from ...ballot.shares import Layout
from ...election.tallies import Side
from ...errors import PrivacyError
from ...privacy.sampling import SeededEntropy, SystemEntropy
from ...types import Array
from ..context import TallyContext


def draw_noise(ctx: TallyContext, layout: Layout, side: Side, opening: int) -> Array:
    """What this server adds to its share of the total, int64, joined as the layout says; zeros at L0.

    The entropy is the operating system's; a rehearsal draws from its seed, the server and the number of the opening.
    """
    guarantee, method = ctx.election.guarantee, ctx.election.method
    added = {name: np.zeros(shape, dtype=np.int64) for name, shape in layout.sums}
    if guarantee is None:
        return layout.join(added)
    numbers, seed = guarantee.numbers, ctx.election.privacy.noise_seed
    if numbers is None:
        raise PrivacyError(f"method {method.name} declares no numbers, so two tallies cannot add noise")
    entropy = SystemEntropy() if seed is None else SeededEntropy(ctx.shared_seed("noise", seed, side, opening))

    def draw(count: int) -> Array:
        return numbers.draw(np.zeros(count, dtype=np.int64), entropy)

    ranges, made = method.shared_sums(ctx), method.shared_noise(draw, ctx)
    if made is None:
        noised = [name for name in added if ranges is None or ranges[name].noised]
        made = {name: draw(added[name].size).reshape(added[name].shape) for name in noised}
    required = {name for name in added if ranges is None or ranges[name].noised}
    if made.keys() != required or any(made[name].shape != added[name].shape for name in made):
        raise PrivacyError(f"method {method.name}: `shared_noise` does not cover the sums that get noise")
    return layout.join(added | dict(made))
