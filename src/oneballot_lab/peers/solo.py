"""Solo: each party trains on its own rows; nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from oneballot.interfaces import TallyContext
from oneballot.peers import Peer, Round
from oneballot.settings import settings
from oneballot.types import Data, Task


@settings
class Solo(Peer):
    name: ClassVar[str] = "solo"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> Iterator[Round]:
        with_rows = [data for data in parties if len(data)]
        X = np.concatenate([data.X for data in with_rows])
        blocks = np.split(np.arange(len(X)), np.cumsum([len(data) for data in with_rows])[:-1])
        tasks = [
            Task(
                rows,
                data.y,
                "multilabel" if ctx.multilabel else "labels",
                seed=ctx.shared_seed("solo", i),
                label=f"party {i + 1}",
            )
            for i, (rows, data) in enumerate(zip(blocks, with_rows, strict=True))
        ]
        models = ctx.fit("final", X, tasks, len(ctx.classes))
        yield Round([models[i] for i in range(len(with_rows))], up=0, down=0)


plugin = Solo
