"""FedAvgM: FedAvg with momentum at the server (Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data, 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from oneballot.settings import settings
from oneballot.types import Array

from ._assembly import Assembly, Values
from ._averaging import Averaging, Rate, Server


class Momentum(Server):
    """speed ← momentum·speed + (before − mean); next = before − rate·speed. Buffers have none: they are averaged."""

    def __init__(self, assembly: Assembly, momentum: float, rate: float) -> None:
        super().__init__(assembly)
        self.momentum, self.rate = momentum, rate
        self.speed: dict[str, Array] = {key: np.zeros(assembly.first[key].shape) for key in assembly.learned}

    def step(self, before: Values, who: Sequence[int], trained: Sequence[Values]) -> Values:
        mean = dict(super().step(before, who, trained))
        for key, speed in self.speed.items():
            speed *= self.momentum
            speed += before[key].astype(np.float64) - mean[key]
            mean[key] = (before[key] - self.rate * speed).astype(mean[key].dtype)
        return mean


@settings
class FedAvgM(Averaging):
    """momentum (β) and server_rate: of the server's steps. All else as of FedAvg."""

    name: ClassVar[str] = "fedavgm"

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    server_rate: Rate = 1.0

    def server(self, assembly: Assembly) -> Server:
        return Momentum(assembly, self.momentum, self.server_rate)


plugin = FedAvgM
