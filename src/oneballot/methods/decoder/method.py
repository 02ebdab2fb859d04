"""Decoders: the election's side of them, from a party's rows to the final model."""

from __future__ import annotations

import numpy as np

from ...errors import ElectionError, Spoiled
from ...interfaces import CastSteps, Context, Model, Models, TallyContext
from ...settings import settings
from ...types import Abstain, Array, Ballot, Blob, Contents, Count, Data, Fit, Plan, Planned, Steps, Task
from .._shared import missing_classes, planned_counts, read_class_counts
from .draw import bound_numbers, draw_rows, rows_to_make
from .format import LARGEST_NUMBER, DecoderWeights
from .layout import Layout
from .settings import DecoderSettings
from .work import Trained, TrainWork, require_torch


@settings
class Decoder(DecoderSettings):
    """Decoders that make rows (docs/decoder.md); `DecoderSettings` describes the settings."""

    def plan(self, data: Data, ctx: Context) -> Plan:
        require_torch()
        counts = {"seen": ctx.target.class_counts(data.y)}
        size = self.expected(ctx).bytes + 8 * len(ctx.classes)
        contents = (planned_counts(ctx), Planned("model", "model"))
        return Plan(1, "a decoder, rows of each class", size, sends_models=True, counts=counts, contents=contents)

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if not len(data):
            raise Abstain("it has no rows")
        require_torch()
        class_counts = ctx.target.class_counts(data.y)
        if missing := missing_classes(class_counts, ctx):
            ctx.warn(f"no rows of class {missing}")
        layout = Layout.of(ctx)
        flat = layout.flat(data.X)
        knots = layout.knots(flat)
        if np.abs(knots).max(initial=0) > LARGEST_NUMBER:
            raise ElectionError(f"decoder: its rows have numbers beyond {LARGEST_NUMBER:g}; scale the columns")
        made = layout.outputs(flat, knots, ctx.seed("ranks"))
        seed = ctx.seed("decoder")
        trained: Trained = yield TrainWork(made, data.y, len(ctx.classes), layout.sizes, self.recipe, seed)
        with np.errstate(all="ignore"):
            model = DecoderWeights(*trained, knots).dump(self.weights)
        try:
            DecoderWeights.read(model, self.expected(ctx))
        except Spoiled as error:  # the training diverged
            raise Abstain(f"{error}; lower the election's learning_rate") from None
        return {"seen": class_counts, "model": model}

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        if not read_class_counts(ballot, ctx).any():
            raise Spoiled("it has no rows of any class")
        decoder = DecoderWeights.read(ballot.blob("model"), self.expected(ctx))
        bounded = decoder.knots[Layout.of(ctx).bounded]
        if bounded.size and not (bounded.min() >= 0 and bounded.max() <= 1):
            raise Spoiled("its decoder's knots must be from 0 to 1, as the schema scales numbers")
        return Count(by_party={ballot.party: ballot.contents})

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model]:
        if not count.by_party:
            raise ElectionError("no ballot has a decoder, so there are no rows to learn from")
        X, y = self.make_rows(count, ctx)
        task = Task(np.arange(len(y)), y, seed=ctx.shared_seed("final"), required=True, label="the final model")
        models: Models = yield Fit("final", X, [task], len(ctx.classes))
        return models[0]

    def make_rows(self, count: Count, ctx: TallyContext) -> tuple[Array, Array]:
        """The labelled rows that the final model learns from, in the order of the parties' names."""
        parties, layout, expected = sorted(count.by_party), Layout.of(ctx), self.expected(ctx)
        seen = np.stack([_seen(count.by_party[party]) for party in parties])
        if missing := missing_classes(seen.sum(axis=0), ctx):
            ctx.warn(f"no party has rows of class {missing}: the final model does not know it")
        decoders = [DecoderWeights.read(_model(count.by_party[party]), expected) for party in parties]
        if self.influence == "bounded":
            decoders = bound_numbers(decoders, layout)
        features = int(np.prod(ctx.shape))
        numbers = rows_to_make(seen, features, self.rows, bounded=self.influence == "bounded")
        seeds = [ctx.shared_seed("rows", party) for party in parties]
        return draw_rows(dict(zip(parties, decoders, strict=True)), numbers, layout, seeds)


def _seen(ballot: Contents) -> Array:
    value = ballot["seen"]
    assert isinstance(value, np.ndarray)
    return value


def _model(ballot: Contents) -> Blob:
    value = ballot["model"]
    assert isinstance(value, Blob)
    return value


plugin = Decoder
