"""PATE, centralized (Papernot et al., ICLR 2017): an upper bound for FedKT.

The server has all rows and divides them among teachers at random; their votes label the public set for one student.
There is no noise, as in FedKT's paper; PATE with noise is a FedKT election of one party at L2 (docs/peers.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from oneballot.interfaces import TallyContext
from oneballot.peers import Peer, PeerSteps, Round
from oneballot.settings import settings
from oneballot.types import Data, Fit, PublicNeed, Task


@settings
class PATE(Peer):
    """teachers: default: the number of parties (appendix B of FedKT)."""

    name: ClassVar[str] = "pate"
    needs_public: ClassVar[PublicNeed] = "rows"
    needs: ClassVar[Mapping[str, frozenset[str]]] = {
        "teacher": frozenset({"probabilities"}),
        "final": frozenset({"probabilities"}),
    }

    teachers: PositiveInt | None = None

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> PeerSteps:
        assert ctx.public is not None, "checked before: pate needs a public set"
        X, y = (np.concatenate([getattr(data, name) for data in parties]) for name in ("X", "y"))
        classes, queries = len(ctx.classes), np.arange(len(ctx.public))
        subsets = ctx.assign_subsets(Data(X, y), min(self.teachers or len(parties), len(X)), "teachers")
        tasks = [
            Task(rows, y[rows], seed=ctx.shared_seed("teacher", i), ask=queries + len(X), label=f"teacher {i + 1}")
            for i, rows in enumerate(subsets)
        ]
        teachers = yield Fit("teacher", np.concatenate([X, ctx.public]), tasks, classes)
        votes = sum(np.eye(classes, dtype=np.int64)[answer.argmax(axis=1)] for answer in teachers.predictions())
        labels = ctx.decide(np.asarray(votes), cell="pate")
        task = Task(queries, labels, seed=ctx.shared_seed("final"), required=True, label="the student")
        models = yield Fit("final", ctx.public, [task], classes)
        yield Round([models[0]], up=X.nbytes + y.nbytes, down=0)


plugin = PATE
