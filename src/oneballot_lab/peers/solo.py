"""Solo: each party trains on its own rows; nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from oneballot.interfaces import TallyContext
from oneballot.peers import Peer, PeerSteps, Round
from oneballot.settings import settings
from oneballot.types import Data, Fit, Task


@settings
class Solo(Peer):
    name: ClassVar[str] = "solo"
    targets: ClassVar[frozenset[str]] = frozenset({"classes", "labels"})
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> PeerSteps:
        with_rows = [data for data in parties if len(data)]
        X = np.concatenate([data.X for data in with_rows])
        blocks = np.split(np.arange(len(X)), np.cumsum([len(data) for data in with_rows])[:-1])
        tasks = [
            Task(
                rows,
                data.y,
                ctx.target.task,
                seed=ctx.shared_seed("solo", i),
                label=f"party {i + 1}",
            )
            for i, (rows, data) in enumerate(zip(blocks, with_rows, strict=True))
        ]
        models = yield Fit("final", X, tasks, len(ctx.classes))
        yield Round([models[i] for i in range(len(with_rows))], up=0, down=0)


plugin = Solo
