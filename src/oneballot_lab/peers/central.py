"""Central: one model trained on the pooled rows of all parties, an upper bound that real parties cannot reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np

from oneballot.interfaces import TallyContext
from oneballot.peers import Peer, Round
from oneballot.settings import settings
from oneballot.types import Data, Task


@settings
class Central(Peer):
    name: ClassVar[str] = "central"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> Iterator[Round]:
        X, y = (np.concatenate([getattr(data, name) for data in parties]) for name in ("X", "y"))
        targets: Literal["labels", "multilabel"] = "multilabel" if ctx.multilabel else "labels"
        task = Task(
            np.arange(len(X)), y, targets, seed=ctx.shared_seed("final"), required=True, label="the central model"
        )
        yield Round([ctx.fit("final", X, [task], len(ctx.classes))[0]], up=X.nbytes + y.nbytes, down=0)


plugin = Central
