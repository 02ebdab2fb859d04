"""SCAFFOLD: control variates against the drift of parties (Karimireddy, Kale, Mohri, Reddi, Stich, Suresh 2020).

Each of a party's steps has c − c_i added to its direction. Option II: after its K steps of rate η from x to y its own
variate c_i becomes c_i − c + (x − y)/(K·η): the mean direction of its optimizer. Of plain SGD, which the paper has,
directions are slopes, of Adam, which FedKT's experiments have throughout, its normed ones; the sum holds for both.

Parties count by their rows, as in FedAvg, so that without variates it is FedAvg; the paper counts all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from oneballot.settings import settings
from oneballot.types import Array

from ._assembly import Assembly, Values
from ._averaging import Averaging, Rate, Server

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Variates(Server):
    """The variates of the server and of every party, 0 at first; a party's change when it takes part."""

    copies = 2

    def __init__(self, assembly: Assembly, rate: float) -> None:
        super().__init__(assembly)
        self.rate = rate
        self.common: dict[str, Array] = {key: np.zeros(assembly.first[key].shape) for key in assembly.learned}
        self.own: dict[int, dict[str, Array]] = {}

    def offsets(self, who: Sequence[int]) -> list[Values] | None:
        """c − c_i of each."""
        return [{key: common - self._of(i)[key] for key, common in self.common.items()} for i in who]

    def _of(self, party: int) -> dict[str, Array]:
        if party not in self.own:
            self.own[party] = {key: np.zeros_like(value) for key, value in self.common.items()}
        return self.own[party]

    def step(self, before: Values, who: Sequence[int], trained: Sequence[Values]) -> Values:
        out = dict(super().step(before, who, trained))
        shares = self.assembly.rows / self.assembly.rows.sum()
        learning_rate = self.assembly.recipe.learning_rate
        change = {key: np.zeros_like(value) for key, value in self.common.items()}
        for i, after in zip(who, trained, strict=True):
            own, far = self._of(i), self.assembly.steps(i) * learning_rate
            for key, common in self.common.items():
                moved = (before[key].astype(np.float64) - after[key]) / far - common
                change[key] += shares[i] * moved
                own[key] += moved
        for key, common in self.common.items():
            common += change[key]
            way = out[key].astype(np.float64) - before[key]
            out[key] = (before[key] + self.rate * way).astype(out[key].dtype)
        return out


@settings
class SCAFFOLD(Averaging):
    """server_rate (η_g): of the server's steps. All else as of FedAvg."""

    name: ClassVar[str] = "scaffold"

    learning_rate: Positive | None = None
    server_rate: Rate = 1.0

    def server(self, assembly: Assembly) -> Server:
        return Variates(assembly, self.server_rate)


plugin = SCAFFOLD
