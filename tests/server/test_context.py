"""What a method may use at the tally: `prepare`, the party's name, and strangers' networks with gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ElectionError, Spoiled
from oneballot.formats.safetensors import ConstantModel
from oneballot.interfaces import Method
from oneballot.party.cast import cast_together
from oneballot.server.context import TallyContext
from oneballot.types import Blob, Count, Plan, PublicNeed, Task


@dataclass(frozen=True)
class Roll(Method):
    """Sends its party's name, and counts how often the tally prepares."""

    name: ClassVar[str] = "roll"
    prepared: ClassVar[list[str]] = []

    def plan(self, data: Any, ctx: Any) -> Plan:
        return Plan(0, "a name", None)

    def cast(self, data: Any, ctx: Any) -> Mapping[str, Any]:
        return {"name": np.frombuffer(ctx.party.encode(), np.uint8)}

    def prepare(self, ctx: Any) -> str:
        self.prepared.append(ctx.party)
        return "the roll"

    def count(self, ballot: Any, ctx: Any) -> Count:
        assert ctx.prepared == "the roll"
        assert ballot.array("name", np.uint8, (len(ballot.party),)).tobytes().decode() == ballot.party
        return Count({"parties": np.ones(1, np.int64)})

    def close(self, count: Count, ctx: Any) -> Any:
        assert ctx.prepared == "the roll"
        return ConstantModel(np.full(len(ctx.classes), 1 / len(ctx.classes)))


def test_a_method_prepares_once_per_tally_and_knows_its_party(digits: Any) -> None:
    election = ob.Election(range(10), digits.public, method=Roll())
    parties = {party: election.data(digits.X[:30], digits.y[:30]) for party in ("north", "south", "west")}
    ballots = cast_together(election, parties)
    Roll.prepared.clear()
    outcome = ob.tally(election, ballots)
    assert Roll.prepared == ["the tally"]
    assert outcome.count.sums["parties"].tolist() == [3]


def test_a_method_that_needs_public_rows_or_labels_is_refused_without_them(digits: Any) -> None:
    @dataclass(frozen=True)
    class Needy(Roll):
        needs_public: PublicNeed = "rows"

    with pytest.raises(ElectionError, match="method roll needs a public set: rows that every party may have"):
        ob.Election(range(10), method=Needy())
    with pytest.raises(ElectionError, match="method roll needs the labels of the public set"):
        ob.Election(range(10), digits.public, method=Needy("labels"))
    assert ob.Election(range(10), digits.public, method=Needy()).public_rows == len(digits.public)


class TestOpen:
    @pytest.fixture
    def election(self, digits: Any) -> ob.Election:
        pytest.importorskip("torch")
        return ob.Election(range(10), digits.public, method=ob.Ensemble(), learner=ob.Torch("mlp", epochs=2))

    @pytest.fixture
    def blob(self, election: ob.Election, digits: Any) -> Blob:
        task = Task(np.arange(len(digits.y)), digits.y, seed=1)
        blob: Blob = election.learner.fit_many(election.data(digits.X, digits.y).X, [task], 10)[0].dump()
        return blob

    def test_a_network_is_a_module_with_gradients_and_the_predictions_of_the_sandbox(
        self, election: ob.Election, blob: Blob
    ) -> None:
        import torch

        assert election.public is not None
        with TallyContext(election) as ctx:
            module = ctx.open(blob, classes=10)
            rows = torch.tensor(election.public[:20], dtype=torch.float32, requires_grad=True)
            logits = module(rows)
            logits.sum().backward()
            assert rows.grad is not None
            assert rows.grad.abs().sum() > 0
            expected = ctx.ask(blob, election.public[:20], classes=10)
        assert np.allclose(logits.softmax(-1).detach().numpy(), expected, atol=1e-6)
        assert not module.training

    def test_a_damaged_or_foreign_model_is_spoiled(self, election: ob.Election, blob: Blob) -> None:
        with TallyContext(election) as ctx:
            with pytest.raises(Spoiled):
                ctx.open(replace(blob, data=blob.data[:-40]), classes=10)
            with pytest.raises(Spoiled, match="for 10 classes; expected 3"):
                ctx.open(blob, classes=3)
            with pytest.raises(Spoiled, match="unknown format 'pickle'"):
                ctx.open(Blob("pickle", b""), classes=10)
            tree = ob.Sklearn("DecisionTreeClassifier").fit_many(np.eye(64), [Task(np.arange(10), np.arange(10))], 10)
            with pytest.raises(Spoiled, match="the format skops does not hold a network"):
                ctx.open(tree[0].dump(), classes=10)

    def test_a_constant_model_is_a_module_with_the_same_logits_for_every_row(self, election: ob.Election) -> None:
        import torch

        model = ConstantModel(np.arange(10) / 45)
        with TallyContext(election) as ctx:
            logits = ctx.open(model.dump(), classes=10)(torch.randn(3, 64, requires_grad=True))
        assert np.allclose(logits.softmax(-1).detach().numpy(), np.tile(np.arange(10) / 45, (3, 1)), atol=1e-6)
        assert logits.requires_grad
