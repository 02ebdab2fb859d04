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
    """velocity ← momentum·velocity + (before − mean); next = before − rate·velocity. Buffers are averaged."""

    def __init__(self, assembly: Assembly, momentum: float, rate: float) -> None:
        super().__init__(assembly)
        self.momentum, self.rate = momentum, rate
        self.velocity: dict[str, Array] = {key: np.zeros(assembly.initial[key].shape) for key in assembly.trainable}

    def step(self, before: Values, who: Sequence[int], trained: Sequence[Values]) -> Values:
        mean = self.assembly.mean(who, trained)
        for key, velocity in self.velocity.items():
            velocity *= self.momentum
            velocity += before[key].astype(np.float64) - mean[key]
            mean[key] = (before[key] - self.rate * velocity).astype(mean[key].dtype)
        return mean


@settings
class FedAvgM(Averaging):
    """momentum (β), server_rate: of the server's steps. Other settings as for FedAvg."""

    name: ClassVar[str] = "fedavgm"

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    server_rate: Rate = 1.0

    def server(self, assembly: Assembly) -> Server:
        return Momentum(assembly, self.momentum, self.server_rate)


plugin = FedAvgM
