"""The base class of all mechanisms. An object is one release: its noise, and how far a unit shifts what it hides."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar


class Mechanism(ABC):
    """What one release costs, and how the ledger describes it. Costs must hold for any data.

    The accountant `tight` composes releases of the same family with their exact optimum: those with `squared_mu`, those
    with a finite `pure`, and among these those whose `bounded_range` is less than twice `pure`. A mechanism whose
    equal releases have another optimum gives it as `composed_delta`.
    """

    name: ClassVar[str]
    """As in elections and ledgers."""
    accountants: ClassVar[tuple[str, ...]] = ("tight", "rdp")
    """The accountants that cover it."""

    @abstractmethod
    def renyi(self, order: float) -> float:
        """The largest Rényi divergence D_α between the release on two neighbours."""

    @property
    def pure(self) -> float:
        """ε of one release under pure differential privacy; infinite if there is none."""
        return math.inf

    @property
    def bounded_range(self) -> float:
        """η: the range of the log-ratios of outcomes on two neighbours; at most twice `pure`."""
        return 2 * self.pure

    @property
    def squared_mu(self) -> float | None:
        """μ² of Gaussian differential privacy; None if it does not hold."""
        return None

    def composed_delta(self, times: int, epsilon: float) -> float | None:
        """δ(ε) of so many releases like this one, fixed in advance; it must not increase with ε. None if it is not
        known, or if the properties above imply it."""
        return None

    @abstractmethod
    def line(self) -> dict[str, Any]:
        """The fields of its line in a ledger, from which it can be made again."""

    @classmethod
    def describe(cls) -> str:
        """The noise in words, for ledgers."""
        return f"{cls.name} noise"
