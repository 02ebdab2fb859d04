"""OneBallot: one-shot federated learning. Every party trains on its own data and sends exactly one message."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .boxes import box_at
    from .boxes.folder import Folder
    from .comparison import compare
    from .election.election import Election
    from .election.schema import Schema
    from .errors import OneBallotError, OneBallotWarning
    from .fleet.models.vectors import read_vectors
    from .learners.kernel import Kernel
    from .learners.lightgbm import LightGBM
    from .learners.sklearn import Sklearn
    from .learners.torch import Torch
    from .learners.xgboost import XGBoost
    from .methods._learn_encoder import learn_encoder
    from .methods.analytic.method import Analytic
    from .methods.decoder.method import Decoder
    from .methods.dense import Dense
    from .methods.dosfl.method import DOSFL
    from .methods.ensemble.method import Ensemble
    from .methods.fedkd.method import FedKD
    from .methods.fedkt.method import FedKT
    from .methods.neighbours.method import Neighbours
    from .party.cast import cast
    from .privacy.settings import L1, L2
    from .report.export import export
    from .runtime.executor import spread
    from .server.appraise import appraise
    from .server.outcome import Outcome
    from .server.tally import tally
    from .server.withdraw import withdraw
    from .simulation import simulate
    from .types import Abstain, Ballot, Blob, Data, Task

_WHERE = {
    "Abstain": "types",
    "Analytic": "methods.analytic.method",
    "Ballot": "types",
    "Blob": "types",
    "DOSFL": "methods.dosfl.method",
    "Data": "types",
    "Decoder": "methods.decoder.method",
    "Dense": "methods.dense",
    "Election": "election.election",
    "FedKD": "methods.fedkd.method",
    "Ensemble": "methods.ensemble.method",
    "FedKT": "methods.fedkt.method",
    "Folder": "boxes.folder",
    "Kernel": "learners.kernel",
    "L1": "privacy.settings",
    "L2": "privacy.settings",
    "LightGBM": "learners.lightgbm",
    "Neighbours": "methods.neighbours.method",
    "OneBallotError": "errors",
    "OneBallotWarning": "errors",
    "Outcome": "server.outcome",
    "Schema": "election.schema",
    "Sklearn": "learners.sklearn",
    "Task": "types",
    "Torch": "learners.torch",
    "XGBoost": "learners.xgboost",
    "appraise": "server.appraise",
    "box_at": "boxes",
    "cast": "party.cast",
    "compare": "comparison",
    "export": "report.export",
    "learn_encoder": "methods._learn_encoder",
    "read_vectors": "fleet.models.vectors",
    "simulate": "simulation",
    "spread": "runtime.executor",
    "tally": "server.tally",
    "withdraw": "server.withdraw",
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
    "Decoder",
    "Dense",
    "Election",
    "Ensemble",
    "FedKD",
    "FedKT",
    "Folder",
    "Kernel",
    "LightGBM",
    "Neighbours",
    "OneBallotError",
    "OneBallotWarning",
    "Outcome",
    "Schema",
    "Sklearn",
    "Task",
    "Torch",
    "XGBoost",
    "appraise",
    "box_at",
    "cast",
    "compare",
    "export",
    "learn_encoder",
    "read_vectors",
    "simulate",
    "spread",
    "tally",
    "withdraw",
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
