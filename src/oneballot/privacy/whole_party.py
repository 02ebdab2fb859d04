"""The cost of a whole party's rows at L2: every teacher of a partition may change its vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .mechanisms import Mechanism, NoisyArgmax


def of_whole_party(wide: NoisyArgmax, accountant: str) -> Mechanism:
    """A query of t teachers whose votes may all change. `wide` has the reach 2t.

    Among more than two classes, and with the papers' accountants, `wide` itself is the best bound that is known.
    """
    return BoundedGap(wide) if wide.classes == 2 and accountant in BoundedGap.accountants else wide


@dataclass(frozen=True)
class BoundedGap(Mechanism):
    """A query between two classes whose gap stays within t, and may be anywhere there after the change.

    The worst neighbours are t votes for one class and t for the other: with one side fixed, the divergence between two
    binary outcomes grows with the distance of the other side, in both directions.
    """

    name: ClassVar[str] = "bounded gap"

    wide: NoisyArgmax

    def renyi(self, order: float) -> float:
        (win,), (lose,) = self.wide.log_odds_of_two(np.array([self.wide.reach / 2]))
        return float(np.logaddexp(order * win + (1 - order) * lose, order * lose + (1 - order) * win)) / (order - 1)

    @property
    def pure(self) -> float:
        return self.wide.pure

    @property
    def bounded_range(self) -> float:
        return self.wide.bounded_range

    @property
    def squared_mu(self) -> float | None:
        return self.wide.squared_mu

    def line(self) -> dict[str, Any]:
        return self.wide.line()
