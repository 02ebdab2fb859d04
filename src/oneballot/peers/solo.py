"""Solo: each party alone on its own rows, without any message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from ..core import Data, Task
from ..protocols import TallyDesk
from ..rounds import Round
from ..settings import settings


@settings
class Solo:
    name: ClassVar[str] = "solo"
    rounds: ClassVar[int] = 1
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    def run(self, parties: Sequence[Data], desk: TallyDesk) -> Iterator[Round]:
        held = [data for data in parties if len(data)]
        X = np.concatenate([data.X for data in held])
        blocks = np.split(np.arange(len(X)), np.cumsum([len(data) for data in held])[:-1])
        tasks = [
            Task(
                rows,
                data.y,
                "multilabel" if desk.multilabel else "labels",
                seed=desk.shared_seed("solo", i),
                label=f"party {i + 1}",
            )
            for i, (rows, data) in enumerate(zip(blocks, held, strict=True))
        ]
        models = desk.fit("final", X, tasks, len(desk.classes))
        yield Round([models[i] for i in range(len(held))], up=0, down=0)


offers = Solo
