"""Distillation of several parties side by side: one step of Adam for each batch of their rows.

Zhou et al. 2021, Algorithm 1, DISTILLDATA, with the soft resets and the random masking of section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ...fleet import draws
from ...fleet.gpu.graphs import no_garbage_collection
from ...fleet.train.recipe import ABSENT
from ...types import Array
from .distillation import DistilledData, Party, initial_labels
from .stacked import StackedNetwork, Weights
from .steps import DistilledSteps, backpropagate, descend

ROWS_AT_ONCE = 64
"""Rows of a party's batch whose intermediate results are in memory together, where convolutions copy windows."""
LOOKAHEAD = 16
"""Batches whose rows are looked up together, since each lookup shuffles the rows of a whole epoch."""
BETAS, EPSILON = (0.5, 0.999), 1e-8
"""As in the published code of dataset distillation and of soft labels, whose settings the paper adopts."""


class RecordedGradients:
    """Records the computation of a batch's gradients as a CUDA graph. The first batch runs unrecorded as a warm-up."""

    def __init__(self, compute: Callable[..., list[Tensor]]) -> None:
        self.compute = compute
        self.graph: torch.cuda.CUDAGraph | None = None
        self.arguments: list[Tensor] = []

    def __call__(self, *arguments: Tensor) -> list[Tensor]:
        if not self.arguments:
            self.arguments = [argument.clone() for argument in arguments]
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                gradients = self.compute(*self.arguments)
            torch.cuda.current_stream().wait_stream(stream)
            return gradients
        for recorded, argument in zip(self.arguments, arguments, strict=True):
            recorded.copy_(argument)
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with no_garbage_collection(), torch.cuda.graph(self.graph):
                self.gradients = self.compute(*self.arguments)
        self.graph.replay()
        return self.gradients


class DistilWave:
    """Parties whose settings have equal sizes, sorted by descending number of batches: finished ones are at the end."""

    def __init__(
        self, net: StackedNetwork, X: Tensor, parties: Sequence[Party], classes: int, *, record: bool = True
    ) -> None:
        """record: on a GPU, record a batch as a CUDA graph and replay it."""
        self.net, self.X, self.classes, self.record = net, X, classes, record
        self.labels = net.labels_of(classes)
        self.steps, self.epochs, self.batch, self.local_batch = parties[0].sizes
        self.order = sorted(range(len(parties)), key=lambda i: -parties[i].batches)
        self.parties = [parties[i] for i in self.order]
        self.ends = [party.batches for party in self.parties]
        self.initial = net.stack([party.initial for party in self.parties])
        self.offsets = np.cumsum([0] + [len(party.rows) for party in self.parties])[:-1]
        self.rows = self._integers(np.concatenate([party.rows for party in self.parties]))
        self.y = self._integers(np.concatenate([party.y for party in self.parties]))
        settings = [party.settings for party in self.parties]
        self.min_labels = self._floats([-torch.inf if one.negative_labels else 0 for one in settings])
        self.soft_labels = self._floats([one.soft_labels for one in settings])
        self.soft_reset = self._floats([one.soft_reset for one in settings])
        self.among = self._compared_classes()
        self.masking = self._floats([one.masking for one in settings])
        self.keys = self._integers(np.array([draws.key_of(party.seed, draws.DISTIL) for party in self.parties]))
        self.learned = self._initial_data()  # inputs, labels, and softplus⁻¹ of the learning rates
        self.means, self.squares = ([torch.zeros_like(part) for part in self.learned] for _ in range(2))
        self.skipped = torch.zeros(len(parties), device=net.device)
        self.finished: list[list[Array]] = [[] for _ in parties]  # inputs, labels, learning rates

    def _floats(self, values: Sequence[float]) -> Tensor:
        return torch.tensor([float(value) for value in values], device=self.net.device, dtype=self.net.dtype)

    def _integers(self, values: Array) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.net.device)

    def _compared_classes(self) -> Tensor | None:
        """The classes `(models, classes)` among which each party's loss compares; None if these are always all."""
        if all(party.settings.loss_classes == "all" for party in self.parties):
            return None
        counts = [np.bincount(party.y, minlength=self.classes) for party in self.parties]
        every = [party.settings.loss_classes == "all" for party in self.parties]
        return torch.from_numpy((np.stack(counts) > 0) | np.array(every)[:, None]).to(self.net.device)

    def _initial_data(self) -> list[Tensor]:
        """Normal inputs, one-hot labels and the same learning rate for each step (section 3, step 2)."""
        shape = self.steps, self.batch, *self.net.shape
        inputs, labels = [], []
        for party in self.parties:
            seed, y = party.seed, party.y
            if party.noise_seed is not None:
                seed, y = party.noise_seed, np.arange(self.classes)
            inputs.append(draws.normal(seed, 0, int(np.prod(shape))).reshape(shape))
            labels.append(initial_labels(y, self.steps, self.batch, self.classes)[..., -self.labels :])
        raw = np.log(np.expm1([party.settings.first_rate for party in self.parties]))
        data = np.stack(inputs), np.stack(labels), np.repeat(raw[:, None], self.steps, axis=1)
        return [torch.from_numpy(part).to(self.net.device, self.net.dtype) for part in data]

    def train(self) -> Iterator[None]:
        """Yield once for each epoch of each party."""
        for number, gradients in enumerate(self.batches()):
            self._adam(number, gradients)
            count = len(gradients[0])
            for party in self.parties[:count]:
                yield from [None] * (party.epochs_done(number + 1) - party.epochs_done(number))
            remaining = sum(end > number + 1 for end in self.ends)
            if remaining < count:
                self._finish(remaining)

    def batches(self) -> Iterator[list[Tensor]]:
        """Yield, for each batch, the gradients of the parties' losses by what is learned."""
        recorded, recorded_count = RecordedGradients(self.gradients), len(self.parties)
        for number in range(self.ends[0]):
            arguments = self._arguments(number)
            if self.net.device.type == "cpu" or not self.record:
                yield self.gradients(*arguments)
                continue
            if recorded_count != len(arguments[1]):
                recorded, recorded_count = RecordedGradients(self.gradients), len(arguments[1])
            yield recorded(*arguments)

    def _arguments(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """A batch's number, its rows `(models, rows)`, and the weight of each row in the mean loss."""
        places = self._places(number, len(self.learned[0]))
        present = torch.from_numpy(places != ABSENT).to(self.net.device)
        weight = present.to(self.net.dtype) / present.sum(1, keepdim=True)
        rows = self._integers(np.where(places == ABSENT, 0, places) + self.offsets[: len(places), None])
        return torch.tensor(number, device=self.net.device), rows, weight

    def _places(self, number: int, count: int) -> Array:
        """Which of its own rows each party sees in this batch, `(models, rows)`."""
        ahead = number % LOOKAHEAD
        if ahead == 0:
            self.ahead = np.full((len(self.parties), LOOKAHEAD, self.local_batch), ABSENT)
            for own, party, end in zip(self.ahead, self.parties, self.ends, strict=True):
                if (last := min(number + LOOKAHEAD, end)) > number:
                    places = party.recipe.places(party.seed, len(party.rows), number, last)
                    own[: last - number, : places.shape[1]] = places
        widest = min(self.local_batch, max(len(party.rows) for party in self.parties[:count]))
        return self.ahead[:count, ahead, :widest]

    def gradients(self, number: Tensor, rows: Tensor, weight: Tensor) -> list[Tensor]:
        """The gradients of each party's loss on its batch by what is learned; 0 if they, or their squares, overflow."""
        count = len(rows)
        steps, masked = self._masked_steps(number)
        initial = self._reset_weights(number, count)
        path = [initial, *descend(self.net, initial, steps, self.epochs)]
        last = self._loss_gradients(path[-1], rows, weight)
        by_inputs, by_labels, by_rates = backpropagate(self.net, path, steps, last)
        by_inputs = by_inputs * ~masked.view(count, -1, *[1] * (by_inputs.dim() - 2))
        by_labels = by_labels * self.soft_labels[:count].view(-1, 1, 1, 1)
        gradients = [by_inputs, by_labels, by_rates * self.learned[2].sigmoid()]
        finite = torch.stack([part.flatten(1).square().sum(1) for part in gradients]).sum(0).isfinite()
        return [torch.where(finite.view(-1, *[1] * (part.dim() - 1)), part, 0) for part in gradients]

    def _masked_steps(self, number: Tensor) -> tuple[DistilledSteps, Tensor]:
        """The steps for this batch, and which of them `(models, steps)` random masking replaces by noise."""
        inputs, labels, raw = self.learned
        keys = self.keys[: len(inputs)]
        chance = draws.fractions(keys, number, 0, (self.steps,), self.net.device)
        masked = chance.to(self.net.dtype) <= self.masking[: len(inputs), None]
        if any(party.settings.masking for party in self.parties[: len(inputs)]):
            noise = draws.normals(keys, number, 1, tuple(inputs.shape[1:]), self.net.device).to(inputs)
            inputs = torch.where(masked.view(*masked.shape, *[1] * (inputs.dim() - 2)), noise, inputs)
        return DistilledSteps(inputs, labels, F.softplus(raw)), masked

    def _reset_weights(self, number: Tensor, count: int) -> list[Tensor]:
        """The initial weights after a soft reset, which keeps each layer's mean and variance and all constants."""
        initial = [weight[:count] for weight in self.initial]
        if not any(party.settings.soft_reset for party in self.parties[:count]):
            return initial
        keys, share, reset = self.keys[:count], self.soft_reset[:count, None], []
        for i, weight in enumerate(initial):
            noise = draws.normals(keys, number, i + 2, tuple(weight.shape[1:]), self.net.device).to(weight).flatten(1)
            flat = weight.flatten(1)
            deviation, mean = torch.std_mean(flat, 1, correction=0, keepdim=True)
            drawn = mean + (1 - share).sqrt() * (flat - mean) + share.sqrt() * deviation * noise
            reset.append(drawn.view_as(weight))
        return reset

    def _loss_gradients(self, weights: Weights, rows: Tensor, weight: Tensor) -> list[Tensor]:
        """The gradient of the mean loss over each party's batch by the final weights."""
        total = [torch.zeros_like(part) for part in weights]
        among = None if self.among is None else self.among[: len(rows)]
        at_once = ROWS_AT_ONCE if self.net.unfolds else rows.shape[1]
        for begin in range(0, rows.shape[1], at_once):
            some, share = (part[:, begin : begin + at_once] for part in (rows, weight))
            x, present = self.net.inputs(self.X[self.rows[some]])
            labels = F.one_hot(self.y[some], self.classes) * (share * share.shape[1]).unsqueeze(-1)
            torch._foreach_add_(total, self.net.gradients(weights, x, labels, present, among))
        return total

    def _adam(self, number: int, gradients: Sequence[Tensor]) -> None:
        """One step of Adam (Kingma and Ba 2015) with the learning rate of each party's epoch."""
        count, (beta1, beta2) = len(gradients[0]), BETAS
        self.skipped[:count] += torch.stack([~part.flatten(1).any(1) for part in gradients]).all(0)
        rate = self._floats([party.learning_rate(number) for party in self.parties[:count]])
        for value, gradient, mean, square in zip(self.learned, gradients, self.means, self.squares, strict=True):
            mean.mul_(beta1).add_(gradient, alpha=1 - beta1)
            square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            size = (square / (1 - beta2 ** (number + 1))).sqrt_().add_(EPSILON)
            value.sub_(rate.view(-1, *[1] * (value.dim() - 1)) * (mean / (1 - beta1 ** (number + 1))) / size)
        labels = self.learned[1]
        labels.copy_(torch.maximum(labels, self.min_labels[:count].view(-1, 1, 1, 1)))

    def _finish(self, remaining: int) -> None:
        """Store the data of the parties behind the first `remaining`, and continue without them."""
        inputs, labels, raw = (part[remaining:].double().cpu() for part in self.learned)
        for i, parts in enumerate(zip(inputs, labels, F.softplus(raw), strict=True), start=remaining):
            self.finished[i] = [part.numpy().astype(np.float32) for part in parts]
        self.learned, self.means, self.squares = (
            [part[:remaining].clone() for part in parts] for parts in (self.learned, self.means, self.squares)
        )

    def results(self) -> list[DistilledData]:
        """In the order of the parties that the wave was made with."""
        skipped = (self.skipped.cpu().numpy() / self.ends).tolist()
        data = [DistilledData(x, y, rate, share) for (x, y, rate), share in zip(self.finished, skipped, strict=True)]
        return [data[self.order.index(i)] for i in range(len(data))]
