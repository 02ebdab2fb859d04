"""SCAFFOLD: control variates against client drift (Karimireddy, Kale, Mohri, Reddi, Stich, Suresh 2020).

Each step of party i has c − c_i added to its direction. Option II: after K steps of rate η from x to y, its variate c_i
becomes c_i − c + (x − y)/(K·η), the mean direction of its optimizer. With plain SGD, as in the paper, directions are
gradients; with Adam, as in FedKT's experiments, they are normalized gradients.

Parties are weighted by rows, so that SCAFFOLD without variates is FedAvg; the paper weights them equally.
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
    """The variates of the server (common) and of the parties (own), initially 0."""

    copies = 2

    def __init__(self, assembly: Assembly, rate: float) -> None:
        super().__init__(assembly)
        self.rate = rate
        self.common: dict[str, Array] = {key: np.zeros(assembly.initial[key].shape) for key in assembly.trainable}
        self.own: dict[int, dict[str, Array]] = {}

    def offsets(self, who: Sequence[int]) -> list[Values] | None:
        """c − c_i of each party."""
        return [{key: common - self._of(i)[key] for key, common in self.common.items()} for i in who]

    def _of(self, party: int) -> dict[str, Array]:
        if party not in self.own:
            self.own[party] = {key: np.zeros_like(value) for key, value in self.common.items()}
        return self.own[party]

    def step(self, before: Values, who: Sequence[int], trained: Sequence[Values]) -> Values:
        out = self.assembly.mean(who, trained)
        shares = self.assembly.rows / self.assembly.rows.sum()
        learning_rate = self.assembly.recipe.learning_rate
        change = {key: np.zeros_like(value) for key, value in self.common.items()}
        for i, after in zip(who, trained, strict=True):
            own, scale = self._of(i), self.assembly.steps(i) * learning_rate
            for key, common in self.common.items():
                change_of_own = (before[key].astype(np.float64) - after[key]) / scale - common
                change[key] += shares[i] * change_of_own
                own[key] += change_of_own
        for key, common in self.common.items():
            common += change[key]
            update = out[key].astype(np.float64) - before[key]
            out[key] = (before[key] + self.rate * update).astype(out[key].dtype)
        return out


@settings
class SCAFFOLD(Averaging):
    """server_rate (η_g): the learning rate of the server. Other settings as for FedAvg."""

    name: ClassVar[str] = "scaffold"

    learning_rate: Positive | None = None
    server_rate: Rate = 1.0

    def server(self, assembly: Assembly) -> Server:
        return Variates(assembly, self.server_rate)


plugin = SCAFFOLD
