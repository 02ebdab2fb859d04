"""Research tools on top of oneballot: peers to compare elections with, public data sets, the papers' privacy accounts
and `oneballot reproduce`.

Peers (FedAvg, FedProx, SCAFFOLD, …) register with `oneballot compare` through the entry-point group
`oneballot.peers`, the command `reproduce` through `oneballot.commands`. This package imports oneballot; oneballot never
imports this package. Public names are imported lazily.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data.registry import DataSet, load
    from .peers.bagging import Bagging
    from .peers.central import Central
    from .peers.fedavg import FedAvg
    from .peers.fedavgm import FedAvgM
    from .peers.feddf import FedDF
    from .peers.fedgen import FedGEN
    from .peers.fedmd import FedMD
    from .peers.fedprox import FedProx
    from .peers.pate import PATE
    from .peers.pfnm import PFNM
    from .peers.scaffold import SCAFFOLD
    from .peers.solo import Solo

__all__ = [
    "PATE",
    "PFNM",
    "SCAFFOLD",
    "Bagging",
    "Central",
    "DataSet",
    "FedAvg",
    "FedAvgM",
    "FedDF",
    "FedGEN",
    "FedMD",
    "FedProx",
    "Solo",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "data.registry" if name in ("DataSet", "load") else f"peers.{name.lower()}"
    return getattr(importlib.import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    return __all__
