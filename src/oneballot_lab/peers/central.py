"""Central: one model trained on the pooled rows of all parties, an upper bound that real parties cannot reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from oneballot.interfaces import TallyContext
from oneballot.peers import Peer, PeerSteps, Round
from oneballot.settings import settings
from oneballot.types import Data, Fit, Task


@settings
class Central(Peer):
    name: ClassVar[str] = "central"
    targets: ClassVar[frozenset[str]] = frozenset({"classes", "labels"})
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> PeerSteps:
        X, y = (np.concatenate([getattr(data, name) for data in parties]) for name in ("X", "y"))
        kind, seed = ctx.target.task, ctx.shared_seed("final")
        task = Task(np.arange(len(X)), y, kind, seed=seed, required=True, label="the central model")
        models = yield Fit("final", X, [task], len(ctx.classes))
        yield Round([models[0]], up=X.nbytes + y.nbytes, down=0)


plugin = Central
