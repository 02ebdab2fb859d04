"""FedAvg: parties train, the server averages (McMahan, Moore, Ramage, Hampson, Agüera y Arcas 2017, algorithm 1)."""

from __future__ import annotations

from typing import ClassVar

from oneballot.settings import settings

from ._averaging import Averaging


@settings
class FedAvg(Averaging):
    name: ClassVar[str] = "fedavg"


plugin = FedAvg
