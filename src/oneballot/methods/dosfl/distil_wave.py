"""Lessons that are learned side by side: for each batch of the parties' rows, a step of Adam on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ...fleet import draws
from ...fleet.gpu.graphs import no_garbage_collection
from ...fleet.train.recipe import ABSENT
from ...types import Array
from .distillation import Distilled, Party, first_labels
from .lessons import Lesson, slopes, take
from .logits import Logits, Weights

ROWS_AT_ONCE = 64
"""Of a party's batch, whose products are in memory together where windows of images are."""
AHEAD = 16
"""Batches whose rows are looked up together: each needs the order of a whole epoch."""
BETAS, TINY = (0.5, 0.999), 1e-8
"""As in the published code of dataset distillation and of soft labels, whose settings the paper takes over."""


class Recorded:
    """The slopes of a batch as one graph, after a first batch as it is, in which libraries set themselves up."""

    def __init__(self, slopes: Callable[..., list[Tensor]], count: int) -> None:
        self.slopes, self.count = slopes, count
        self.graph: torch.cuda.CUDAGraph | None = None
        self.held: list[Tensor] = []

    def __call__(self, *given: Tensor) -> list[Tensor]:
        if not self.held:
            self.held = [part.clone() for part in given]
            aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                found = self.slopes(*self.held)
            torch.cuda.current_stream().wait_stream(aside)
            return found
        for held, part in zip(self.held, given, strict=True):
            held.copy_(part)
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with no_garbage_collection(), torch.cuda.graph(self.graph):
                self.found = self.slopes(*self.held)
        self.graph.replay()
        return self.found


class Wave:
    """Parties whose lessons have one form, those with the most batches first: who is done leaves at the end."""

    def __init__(self, net: Logits, X: Tensor, parties: Sequence[Party], classes: int, *, record: bool = True) -> None:
        """record: on a GPU what a batch launches is recorded once and replayed: a fifth of the time with 10 parties."""
        self.net, self.X, self.classes, self.record = net, X, classes, record
        self.steps, self.epochs, self.batch, self.local_batch = parties[0].plan.form
        self.number = sorted(range(len(parties)), key=lambda i: -parties[i].batches)
        self.parties = [parties[i] for i in self.number]
        self.ends = [party.batches for party in self.parties]
        self.starts = net.stack([party.start for party in self.parties])
        self.begins = np.cumsum([0] + [len(party.rows) for party in self.parties])[:-1]
        self.rows = self._whole(np.concatenate([party.rows for party in self.parties]))
        self.y = self._whole(np.concatenate([party.y for party in self.parties]))
        self.lowest = self._numbers([-torch.inf if party.plan.negative_labels else 0 for party in self.parties])
        self.soft = self._numbers([party.plan.soft_labels for party in self.parties])
        self.drawn = self._numbers([party.plan.soft_reset for party in self.parties])
        self.masked = self._numbers([party.plan.masking for party in self.parties])
        self.keys = self._whole(np.array([draws.key_of(party.seed, draws.DISTIL) for party in self.parties]))
        self.learned = self._first()  # inputs, labels, and what the rates are learned by
        self.means, self.squares = ([torch.zeros_like(part) for part in self.learned] for _ in range(2))
        self.still = torch.zeros(len(parties), device=net.device)  # batches that taught nothing
        self.done: list[list[Array]] = [[] for _ in parties]

    def _numbers(self, values: Sequence[float]) -> Tensor:
        return torch.tensor([float(value) for value in values], device=self.net.device, dtype=self.net.kind)

    def _whole(self, values: Array) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.net.device)

    def _first(self) -> list[Tensor]:
        shape = self.steps, self.batch, *self.net.shape
        seeds = [party.seed if party.first is None else party.first for party in self.parties]
        known = [party.y if party.first is None else np.arange(self.classes) for party in self.parties]
        inputs = np.stack([draws.normal(seed, 0, int(np.prod(shape))).reshape(shape) for seed in seeds])
        labels = np.stack([first_labels(y, self.steps, self.batch, self.classes) for y in known])
        raw = np.log(np.expm1([party.plan.first_rate for party in self.parties]))
        rates = np.repeat(raw[:, None], self.steps, axis=1)
        return [torch.from_numpy(part).to(self.net.device, self.net.kind) for part in (inputs, labels, rates)]

    def train(self) -> Iterator[None]:
        """Yields once for each epoch of a party."""
        for number, slope in enumerate(self.batches()):
            self._adam(number, slope)
            count = len(slope[0])
            for party in self.parties[:count]:
                yield from [None] * (party.epochs_done(number + 1) - party.epochs_done(number))
            left = sum(end > number + 1 for end in self.ends)
            if left < count:
                self._leave(left)

    def batches(self) -> Iterator[list[Tensor]]:
        """For each batch the slopes of the parties' losses by what is learned."""
        recorded: Recorded | None = None
        for number in range(self.ends[0]):
            given = self._given(number)
            if self.net.device.type == "cpu" or not self.record:
                yield self.slopes(*given)
                continue
            if recorded is None or recorded.count != len(given[1]):
                recorded = Recorded(self.slopes, len(given[1]))
            yield recorded(*given)

    def _given(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """What a batch depends on besides what is learned: its number, its rows `(models, rows)`, and their shares."""
        places = self._places(number, len(self.learned[0]))
        there = torch.from_numpy(places != ABSENT).to(self.net.device)
        share = there.to(self.net.kind) / there.sum(1, keepdim=True)
        where = self._whole(np.where(places == ABSENT, 0, places) + self.begins[: len(places), None])
        return torch.tensor(number, device=self.net.device), where, share

    def slopes(self, tick: Tensor, where: Tensor, share: Tensor) -> list[Tensor]:
        """Of each party's loss on its batch, by what is learned. What is not finite, or its square, teaches nothing."""
        count = len(where)
        lesson, hidden = self._lesson(tick)
        path = take(self.net, self._starts(tick, count), lesson, self.epochs)
        last = self._last_slopes(path[-1], where, share)
        by_inputs, by_labels, by_rates = slopes(self.net, path, lesson, last)
        by_inputs = by_inputs * ~hidden.view(count, -1, *[1] * (by_inputs.dim() - 2))
        by_labels = by_labels * self.soft[:count].view(-1, 1, 1, 1)
        found = [by_inputs, by_labels, by_rates * self.learned[2].sigmoid()]
        fine = torch.stack([part.flatten(1).square().sum(1) for part in found]).sum(0).isfinite()
        return [torch.where(fine.view(-1, *[1] * (part.dim() - 1)), part, 0) for part in found]

    def _lesson(self, tick: Tensor) -> tuple[Lesson, Tensor]:
        """What is taken for this batch, and which of its steps `(models, steps)` are hidden behind noise."""
        inputs, labels, raw = self.learned
        keys = self.keys[: len(inputs)]
        chance = draws.fractions(keys, tick, 0, (self.steps,), self.net.device)
        hidden = chance.to(self.net.kind) <= self.masked[: len(inputs), None]
        if any(party.plan.masking for party in self.parties[: len(inputs)]):
            noise = draws.normals(keys, tick, 1, tuple(inputs.shape[1:]), self.net.device).to(inputs)
            inputs = torch.where(hidden.view(*hidden.shape, *[1] * (inputs.dim() - 2)), noise, inputs)
        return Lesson(inputs, labels, torch.nn.functional.softplus(raw)), hidden

    def _starts(self, tick: Tensor, count: int) -> list[Tensor]:
        """The first weights; of the variance of each layer's a share is drawn anew. What is constant stays as it is."""
        starts = [start[:count] for start in self.starts]
        if not any(party.plan.soft_reset for party in self.parties[:count]):
            return starts
        keys, share, out = self.keys[:count], self.drawn[:count, None], []
        for i, start in enumerate(starts):
            noise = draws.normals(keys, tick, i + 2, tuple(start.shape[1:]), self.net.device).to(start).flatten(1)
            spread, mean = torch.std_mean(start.flatten(1), 1, correction=0, keepdim=True)
            out.append(
                (mean + (1 - share).sqrt() * (start.flatten(1) - mean) + share.sqrt() * spread * noise).view_as(start)
            )
        return out

    def _last_slopes(self, weights: Weights, where: Tensor, share: Tensor) -> list[Tensor]:
        """Of the mean loss over a batch of each party's rows, by the weights at the end of the lesson."""
        total = [torch.zeros_like(weight) for weight in weights]
        at_once = ROWS_AT_ONCE if self.net.cuts else where.shape[1]
        for piece in range(0, where.shape[1], at_once):
            some, own = (part[:, piece : piece + at_once] for part in (where, share))
            x, present = self.net.inputs(self.X[self.rows[some]])
            labels = torch.nn.functional.one_hot(self.y[some], self.classes) * (own * own.shape[1]).unsqueeze(-1)
            torch._foreach_add_(total, self.net.slopes(weights, x, labels, present))
        return total

    def _places(self, number: int, count: int) -> Array:
        """Which of its own rows each party sees in this batch, `(models, rows)`; some batches are looked up ahead."""
        ahead = number % AHEAD
        if ahead == 0:
            self.ahead = np.full((len(self.parties), AHEAD, self.local_batch), ABSENT)
            for own, party, end in zip(self.ahead, self.parties, self.ends, strict=True):
                if (last := min(number + AHEAD, end)) > number:
                    places = party.plan.recipe.places(party.seed, len(party.rows), number, last)
                    own[: last - number, : places.shape[1]] = places
        widest = min(self.local_batch, max(len(party.rows) for party in self.parties[:count]))
        return self.ahead[:count, ahead, :widest]

    def _adam(self, number: int, found: Sequence[Tensor]) -> None:
        """Kingma and Ba 2015; each party has the learning rate of its own epoch."""
        self.still[: len(found[0])] += torch.stack([~part.flatten(1).any(1) for part in found]).all(0)
        one, two = BETAS
        rate = self._numbers([p.plan.rate(p.epochs_done(number)) for p in self.parties[: len(found[0])]])
        for value, slope, mean, square in zip(self.learned, found, self.means, self.squares, strict=True):
            mean.mul_(one).add_(slope, alpha=1 - one)
            square.mul_(two).addcmul_(slope, slope, value=1 - two)
            size = (square / (1 - two ** (number + 1))).sqrt_().add_(TINY)
            value.sub_(rate.view(-1, *[1] * (value.dim() - 1)) * (mean / (1 - one ** (number + 1))) / size)
        labels = self.learned[1]
        labels.copy_(torch.maximum(labels, self.lowest[: len(labels)].view(-1, 1, 1, 1)))

    def _leave(self, left: int) -> None:
        """Set aside what the last parties have learned, and go on without them."""
        inputs, labels, raw = (part[left:].double().cpu() for part in self.learned)
        rates = torch.nn.functional.softplus(raw)
        for i, (x, y, rate) in enumerate(zip(inputs, labels, rates, strict=True), start=left):
            self.done[i] = [part.numpy().astype(np.float32) for part in (x, y, rate)]
        self.learned, self.means, self.squares = (
            [part[:left].clone() for part in parts] for parts in (self.learned, self.means, self.squares)
        )

    def results(self) -> list[Distilled]:
        """In the order in which the parties came."""
        shares = (self.still.cpu().numpy() / self.ends).tolist()
        found = [Distilled(x, y, rates, share) for (x, y, rates), share in zip(self.done, shares, strict=True)]
        return [found[self.number.index(i)] for i in range(len(found))]
