"""OneBallot: one-shot federated learning. Every party trains on its own data and sends exactly one message."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends import spread
    from .boxes import box_at
    from .boxes.folder import Folder
    from .casting import cast
    from .comparing import compare
    from .core import Abstain, Ballot, Blob, Data, Task
    from .data.registry import load
    from .election import Election
    from .errors import OneBallotError, OneBallotWarning
    from .fleet.vectors import read_vectors
    from .learners.kernel import Kernel
    from .learners.lightgbm import LightGBM
    from .learners.sklearn import Sklearn
    from .learners.torch import Torch
    from .learners.xgboost import XGBoost
    from .methods.analytic import Analytic
    from .methods.dosfl import DOSFL
    from .methods.ensemble import Ensemble
    from .methods.fedkd import FedKD
    from .methods.fedkt import FedKT
    from .outcome import Outcome
    from .privacy.terms import L1, L2
    from .schema import Schema
    from .simulation import simulate
    from .tallying import tally

_WHERE = {
    "Abstain": "core",
    "Analytic": "methods.analytic",
    "Ballot": "core",
    "Blob": "core",
    "DOSFL": "methods.dosfl",
    "Data": "core",
    "Election": "election",
    "FedKD": "methods.fedkd",
    "Ensemble": "methods.ensemble",
    "FedKT": "methods.fedkt",
    "Folder": "boxes.folder",
    "Kernel": "learners.kernel",
    "L1": "privacy.terms",
    "L2": "privacy.terms",
    "LightGBM": "learners.lightgbm",
    "OneBallotError": "errors",
    "OneBallotWarning": "errors",
    "Outcome": "outcome",
    "Schema": "schema",
    "Sklearn": "learners.sklearn",
    "Task": "core",
    "Torch": "learners.torch",
    "XGBoost": "learners.xgboost",
    "box_at": "boxes",
    "cast": "casting",
    "compare": "comparing",
    "load": "data.registry",
    "read_vectors": "fleet.vectors",
    "simulate": "simulation",
    "spread": "backends",
    "tally": "tallying",
}

__all__ = [
    "DOSFL",
    "L1",
    "L2",
    "Abstain",
    "Analytic",
    "Ballot",
    "Blob",
    "Data",
    "Election",
    "Ensemble",
    "FedKD",
    "FedKT",
    "Folder",
    "Kernel",
    "LightGBM",
    "OneBallotError",
    "OneBallotWarning",
    "Outcome",
    "Schema",
    "Sklearn",
    "Task",
    "Torch",
    "XGBoost",
    "box_at",
    "cast",
    "compare",
    "load",
    "read_vectors",
    "simulate",
    "spread",
    "tally",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import oneballot` and `oneballot --help` stay fast."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("oneballot")
    if name not in _WHERE:
        raise AttributeError(f"module 'oneballot' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
