"""FedProx: FedAvg with the proximal term μ/2·‖w − start‖² (Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith 2020).

With `init = "outcome"` after a FedKT election it is FedKT-Prox (FedKT, section 5.4).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from oneballot.settings import settings

from ._averaging import Averaging


@settings
class FedProx(Averaging):
    """mu (μ): the weight of the proximal term. Other settings as for FedAvg."""

    name: ClassVar[str] = "fedprox"

    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1

    @property
    def proximal(self) -> float:
        return self.mu


plugin = FedProx
