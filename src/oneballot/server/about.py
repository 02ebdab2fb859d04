"""What an outcome keeps of its election for reports and model cards: public settings and versions, no names."""

from __future__ import annotations

import json
import platform
import sys
from functools import cache
from importlib.metadata import version
from typing import Any

from .. import plugins
from ..election.election import Election
from ..election.schema import as_plain


def describe_election(election: Election) -> dict[str, Any]:
    """The election's name, method, learner of each role, number of public rows, and the versions used, as plain
    values."""
    learners = {role: election.learner_of(role) for role in sorted(election.roles)}
    libraries = sorted({learner.name for learner in learners.values()} & {"lightgbm", "torch", "xgboost"})
    loaded = {name: str(getattr(sys.modules.get(name), "__version__", "")) for name in libraries}
    about = {
        "name": election.name,
        "method": plugins.describe(election.method),
        "learners": {role: plugins.describe(learner) for role, learner in learners.items()},
        "public_rows": election.public_rows,
        "versions": {**_versions(), **{name: found for name, found in loaded.items() if found}},
    }
    plain: dict[str, Any] = json.loads(json.dumps(about, default=as_plain))
    return plain


@cache
def _versions() -> dict[str, str]:
    found = {name: version(name) for name in ("oneballot", "numpy", "scikit-learn")}
    return {"python": platform.python_version(), **found}
