"""Every peer passes its conformance suite, and broken ones are reported in sentences."""

from __future__ import annotations

import re
from typing import Any

import pytest

import oneballot as ob
from oneballot import plugins
from oneballot.peers import Peer, Round
from oneballot.settings import settings
from oneballot.testing import ConformanceError
from oneballot_lab.peers.central import Central
from oneballot_lab.peers.solo import Solo
from oneballot_lab.testing import check_peer

NETWORK = ob.Torch("mlp", {"hidden": [8]}, epochs=2, learning_rate=0.02)
BOOSTED = ob.XGBoost(rounds=3)
FEW = {"rounds": 2}


def marked(name: str) -> Any:
    return pytest.param(name, marks=() if name in ("central", "solo") else pytest.mark.slow)


@pytest.mark.parametrize("name", [marked(name) for name in plugins.names("peers")])
def test_a_built_in_peer_conforms(name: str) -> None:
    cls = plugins.find("peers", name)
    peer = cls(**FEW) if "rounds" in cls.__dataclass_fields__ else cls()
    if name in ("central", "solo", "pate"):
        check_peer(peer, learners=ob.Kernel(ridge=0.01))
    elif name == "bagging":
        pytest.importorskip("xgboost")
        check_peer(peer, learners=BOOSTED)
    else:
        pytest.importorskip("torch")
        check_peer(peer, learners=NETWORK)


@settings
class Forgetful(Solo):
    rounds: int = 3

    def run(self, parties: Any, ctx: Any) -> Any:
        for size in (100, 50):
            models = yield from _models(super().run(parties, ctx))
            yield Round(models, up=size, down=0)


def _models(steps: Any) -> Any:
    answer = None
    while True:
        request = steps.send(answer)
        if isinstance(request, Round):
            return request.models
        answer = yield request


class Empty(Solo):
    def run(self, parties: Any, ctx: Any) -> Any:
        models = yield from _models(super().run(parties, ctx))
        if any(not len(data) for data in parties):
            raise IndexError("no rows")
        yield Round(models, 0, 0)
        yield Round(models, 0, 0)


class NeedsPublic(Central):
    def run(self, parties: Any, ctx: Any) -> Any:
        len(ctx.public)
        return (yield from super().run(parties, ctx))


@pytest.mark.parametrize(
    ("peer", "sentences"),
    [
        (Forgetful(), ["`Round.up` falls from one round to the next"]),
        (Empty(), ["yields 2 rounds", 'a party of the kind "no-rows" IndexError was raised']),
        (NeedsPublic(), ["Without a public set TypeError was raised"]),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, Peer) else "",
)
def test_a_broken_peer_is_reported(peer: Peer, sentences: list[str]) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_peer(peer, learners=ob.Kernel(ridge=0.01))
    for sentence in sentences:
        assert re.search(re.escape(sentence), str(caught.value)), str(caught.value)


def test_what_is_not_a_peer_is_refused() -> None:
    with pytest.raises(TypeError, match="not a peer"):
        check_peer(Solo)  # type: ignore[arg-type]
