"""FedKD: parties send quantized logits on the public set; the server sums them and distils the final model.

The paper's z_max, the largest logit of all parties, would take a second message; here each ballot carries its party's
own. The paper's noise (`gamma`) is here for comparison and does not give differential privacy (docs/fedkd.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from math import inf

import numpy as np
from scipy.special import expit, softmax

from ...errors import ElectionError, Spoiled
from ...influence import ENOUGH_PARTIES, Opinions
from ...interfaces import CastSteps, Context, Model, TallyContext
from ...settings import settings
from ...types import (
    Abstain,
    Array,
    Ballot,
    Contents,
    Count,
    Data,
    Fit,
    Plan,
    Planned,
    Sample,
    Stack,
    Steps,
    Task,
    TaskKind,
)
from .._final import fit_final
from .._queries import choose_queries
from .._shared import missing_classes, planned_counts, public_rows, read_class_counts
from .bounds import bound
from .grid import LARGEST, UNIT, ensemble, largest_logit, lower_unknown_classes
from .opinions import MOST_LOGITS, PartyLogits
from .passes import further_passes
from .settings import Settings

DISAGREES = 0.1
"""A warning names a party that counts for less than this share of what the others count for, relative to their rows."""


@settings
class FedKD(Settings):
    """The method. Its settings are described in `Settings`."""

    def plan(self, data: Data, ctx: Context) -> Plan:
        if ctx.level != "L0":
            return self._softened.plan(ctx)
        rows, classes = self.passes * len(public_rows(ctx)), len(ctx.classes)
        size, weighted = self._grid.size(rows * classes), self.weights == "class-counts"
        contents = [Planned("levels", "uint8", (size,))]
        contents += [Planned("half-step", "int64", (1,))] * (self.bound is None) + [planned_counts(ctx)] * weighted
        counts = {"seen": np.minimum(ctx.target.class_counts(data.y), self.most_rows)} if weighted else {}
        carries = f"logits of {classes} classes on {rows:,} public rows, {self._grid.bits} bits each"
        size += 8 * (self.bound is None) + 8 * classes * weighted
        return Plan(1, carries, size, counts=counts, contents=contents)

    def read_counts(self, contents: Contents, ctx: Context) -> Mapping[str, Array]:
        """Without the labelled public rows, which everyone can subtract."""
        counts = super().read_counts(contents, ctx)
        if not self.join_public or ctx.public_labels is None:
            return counts
        return {name: seen - ctx.target.class_counts(ctx.public_labels) for name, seen in counts.items()}

    def sample(self, name: str, contents: Contents, ctx: Context, rows: int) -> Sample | None:
        """The logits, or parts of a vote, of the first public rows."""
        if name == "parts":
            asked, cells = choose_queries(self.queries, ctx), np.asarray(contents[name])[:rows]
            shown = tuple(tuple(f"{value:,}" for value in row) for row in cells)
            note = "Thousandths of a vote for each class on these public rows, summed over the party's teachers."
        elif name == "levels":
            asked, classes = np.arange(self.passes * len(public_rows(ctx))), len(ctx.classes)
            levels = self._grid.decode(np.asarray(contents[name]), (len(asked), classes))[:rows]
            step = self._shared_half_step or int(np.asarray(contents["half-step"])[0])
            shown = tuple(tuple(f"{v:.2f}" for v in row) for row in self._grid.half_steps(levels) * (step * UNIT))
            note = "The logit of each class on these public rows: the highest is the class that the party's model says."
        else:
            return None
        asked = asked[:rows] % len(public_rows(ctx))
        return Sample(tuple(map(str, ctx.classes)), shown, note, tuple(asked.tolist()))

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if ctx.level != "L0":
            return (yield from self._softened.cast(data, ctx))
        if not len(data):
            raise Abstain("it has no rows")
        if not ctx.target.known(data.y).any():
            raise Abstain("none of its labels is known")
        public, y = public_rows(ctx), data.y
        if self.join_public:
            assert ctx.public_labels is not None, "the election has been checked"
            y = np.concatenate([y, ctx.public_labels])
        class_counts = ctx.target.class_counts(y)
        self._warn_of_class_counts(class_counts, ctx)
        parts = (data.X, public) if self.passes == 1 else (data.X, public, self._further_passes(ctx))
        asked = len(data) + np.arange(self.passes * len(public))
        task = Task(np.arange(len(y)), y, ctx.target.task, seed=ctx.seed("teacher"), ask=asked, answer="scores")
        models = yield Fit("teacher", Stack(parts), [task], len(ctx.classes), keep=False)
        (logits,) = models.predictions()
        if np.isnan(logits).any():
            raise Abstain("its model predicts NaN")
        return self._encode(logits, class_counts)

    def _encode(self, logits: Array, class_counts: Array) -> Contents:
        contents, half_step = {}, self._shared_half_step
        logits = np.clip(logits, -LARGEST, LARGEST)
        if self.centre and class_counts.any():
            logits = logits - logits[:, class_counts > 0].mean(axis=1, keepdims=True)
        if half_step is None:
            half_step = self._grid.half_step(largest_logit(logits, class_counts))
            contents["half-step"] = np.array([half_step])
        levels = self._grid.quantize(logits, half_step)
        if self.weights == "class-counts":
            contents["seen"] = np.minimum(class_counts, self.most_rows)
            levels[:, class_counts == 0] = 0  # their weight is 0, so they need not be revealed
        return {**contents, "levels": self._grid.encode(levels)}

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        if ctx.level != "L0":
            return self._softened.count(ballot, ctx)
        half_steps = self._read_half_steps(ballot, ctx)
        weight, length = self._read_weight(ballot, ctx), self._read_half_step(ballot)
        if self.influence == "bounded":
            return Count(by_party={ballot.party: ballot.contents})
        return Count({"logits": half_steps * (weight * length), "weight": weight})

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model]:
        public = public_rows(ctx)
        if ctx.level == "L0":
            logits, weight = self._ensemble(count, ctx)
            rows = np.arange(len(logits))
            if self.passes > 1:
                public = np.concatenate([public, self._further_passes(ctx)])
        else:
            weight, rows = np.ones(len(ctx.classes)), choose_queries(self.queries, ctx)
            logits = self._softened.logits(count, ctx)
        kind, targets = self._targets(logits, weight, ctx)
        output, seed = ctx.target.output, ctx.shared_seed("final")
        task = Task(rows, targets, kind, output=output, seed=seed, required=True, label="the final model")
        shares = softmax(logits, axis=1) if ctx.target.exclusive else expit(logits)
        return (yield from fit_final(public, task, shares, ctx, rows % len(public_rows(ctx))))

    def opinions(self, count: Count, ctx: TallyContext, rows: Array | None = None) -> Opinions | None:
        """What each party's logits say about the public rows, while the count keeps them apart."""
        public, classes = len(public_rows(ctx)), len(ctx.classes)
        held = len(count.by_party) * self.passes * public * classes
        if rows is not None or not ctx.target.exclusive or not 0 < held <= MOST_LOGITS:
            return None
        names = sorted(count.by_party)
        ballots = [Ballot(name, count.by_party[name], "", None, b"") for name in names]
        steps = [self._read_half_steps(ballot, ctx) * self._read_half_step(ballot) for ballot in ballots]
        seen = np.array([self._read_weight(ballot, ctx) for ballot in ballots])
        unit, noise = UNIT * (self._shared_half_step or 1), self._noise((self.passes * public, classes), ctx)
        stacked = np.stack([each.astype(np.int32) for each in steps])
        logits = PartyLogits(tuple(names), stacked, unit, seen, noise, self.temperature, public)
        return logits.opinions(np.arange(public))

    def _ensemble(self, count: Count, ctx: TallyContext) -> tuple[Array, Array]:
        """The logits of equation 2, `(rows, classes)`, and the weight of each class in them."""
        logits, weight = self._bounded(count, ctx) if count.by_party else self._sum(count)
        if not weight.any():
            raise ElectionError("no ballot has a row of any class, so there is nothing to train the final model on")
        if missing := missing_classes(weight, ctx):
            ctx.warn(f"no party has rows of class {missing}: the final model will not know it")
        if self.gamma < inf:
            logits += self._noise(logits.shape, ctx)
        if ctx.target.exclusive:
            lower_unknown_classes(logits, weight)
        else:  # no row has a class that no party has
            logits[:, weight == 0] = -np.abs(logits).max(initial=1.0)
        return logits, weight

    def _sum(self, count: Count) -> tuple[Array, Array]:
        weight = count.sums["weight"]
        return ensemble(count.sums["logits"], weight, (self._shared_half_step or 1) * UNIT), weight

    def _bounded(self, count: Count, ctx: TallyContext) -> tuple[Array, Array]:
        """As `_sum`, with bounds on each party from ENOUGH_PARTIES parties on; warns of parties that disagree."""
        names = sorted(count.by_party)
        ballots = [Ballot(name, count.by_party[name], "", None, b"") for name in names]
        if len(ballots) < ENOUGH_PARTIES:
            total, plain = Count(), replace(self, influence="claimed")
            for ballot in ballots:
                total += plain.count(ballot, ctx)
            return self._sum(total)
        logits, step = [], self._shared_half_step
        for ballot in ballots:
            unit = UNIT * (step or self._read_half_step(ballot))
            logits.append((self._read_half_steps(ballot, ctx) * unit).astype(np.float32))
        seen = np.array([self._read_weight(ballot, ctx) for ballot in ballots])
        clipped, weights = bound(logits, seen, ctx.target.exclusive)
        counted = weights.sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
        for name, share, rows in zip(names, counted, seen, strict=True):
            if share < DISAGREES * np.median(counted):
                single = ctx.target.exclusive and np.count_nonzero(rows) == 1
                why = (
                    "its rows are of one class"
                    if single
                    else "its logits differ from the others'. Ask it to check its labels and columns"
                )
                ctx.warn(f"{name} counts for {share:.1%} of the rows it declares: {why}")
        weight = weights.sum(axis=0)
        return np.einsum("krc,kc->rc", clipped, weights) / np.where(weight > 0, weight, 1), weight

    def _targets(self, logits: Array, weight: Array, ctx: TallyContext) -> tuple[TaskKind, Array]:
        """What the final model learns (equations 5 to 7): logits, softened probabilities, or labels."""
        if self.temperature == inf:
            return "scores", logits
        if self.temperature > 0:
            powers = np.exp((logits - logits.max(axis=1, keepdims=True)) / self.temperature)
            return "soft", powers / powers.sum(axis=1, keepdims=True)
        if not ctx.target.exclusive:
            return ctx.target.task, np.where((logits > 0) & (weight > 0), 1, -1)
        return "labels", logits.argmax(axis=1) if ctx.level == "L1" else ctx.decide(logits, cell="tally")

    def _noise(self, shape: tuple[int, ...], ctx: TallyContext) -> Array:
        """The paper's noise on the combined logits; 0 with gamma = inf."""
        return np.random.default_rng(ctx.shared_seed("noise")).laplace(scale=1 / self.gamma, size=shape)

    def _read_half_steps(self, ballot: Ballot, ctx: TallyContext) -> Array:
        """The logits of a ballot in half-steps, `(rows, classes)`."""
        shape = (self.passes * len(public_rows(ctx)), len(ctx.classes))
        encoded = ballot.array("levels", np.uint8, (self._grid.size(math.prod(shape)),))
        return self._grid.half_steps(self._grid.decode(encoded, shape))

    def _read_weight(self, ballot: Ballot, ctx: TallyContext) -> Array:
        """How much a ballot declares to weigh for each class `(classes,)`."""
        if self.weights == "uniform":
            return np.ones(len(ctx.classes), dtype=np.int64)
        return read_class_counts(ballot, ctx, self.most_rows)

    def _read_half_step(self, ballot: Ballot) -> int:
        """1 where all parties share a grid."""
        if self._shared_half_step is not None:
            return 1
        half_step, most = int(ballot.array("half-step", np.int64, (1,))[0]), self._grid.half_step(LARGEST)
        if not 1 <= half_step <= most:
            raise Spoiled(f"half-step {half_step}: expected 1 to {most}, which is a z_max up to {LARGEST:g}")
        return half_step

    def _further_passes(self, ctx: Context) -> Array:
        return further_passes(public_rows(ctx), self.passes, self.augment, ctx.shared_seed("passes"))

    def _warn_of_class_counts(self, class_counts: Array, ctx: Context) -> None:
        if missing := missing_classes(class_counts, ctx):
            ctx.warn(f"no rows of class {missing}")
        if ctx.target.exclusive and np.count_nonzero(class_counts) == 1:
            ctx.warn("all its rows are of one class: its model cannot distinguish public rows")
        if self.weights == "class-counts" and (most := class_counts.max()) > self.most_rows:
            ctx.warn(f"it has {most:,} rows of a class, and is weighted as if it had {self.most_rows:,} (most_rows)")


plugin = FedKD
