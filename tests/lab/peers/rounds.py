"""Shared by the tests of peers: run a peer alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oneballot.peers import Peer, Round
from oneballot.runtime.scheduler import run
from oneballot.server.context import TallyContext
from oneballot.types import Data


def rounds_of(peer: Peer, parties: Sequence[Data], ctx: TallyContext) -> list[Round]:
    """What a peer has after each round."""
    rounds: list[Round] = []
    run(replace(ctx.job(peer.run, parties, ctx), answers={Round: rounds.append}))
    return rounds
