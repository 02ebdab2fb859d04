"""Distils what parties hold into lessons, all of them as one fleet (Zhou et al. 2021, Algorithm 1, DISTILLDATA).

A lesson is learned by Adam: its inputs, its rates and, if they are soft, its labels, so that a network which starts at
given weights and takes the lesson has a small loss on the party's own rows.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..core import Array
from ..errors import DataError, ElectionError
from ..progress import steps as watched
from . import draws
from .devices import find_device, one_thread, precision
from .inputs import as_tensor, check_tokens
from .lessons import Lesson, slopes, take
from .logits import Logits, Weights
from .network import Network
from .recipe import ABSENT, Recipe

ROWS_AT_ONCE = 64
"""Of a party's batch, whose products are in memory together."""
SHARE = 0.7
"""Of a GPU's free memory that a wave is planned to need."""
AHEAD = 16
"""Batches whose rows are looked up together: each needs the order of a whole epoch."""
BETAS, TINY = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class Distillation:
    """steps (S_d), epochs (E_d), batch (B_d): a lesson is so many steps of so many inputs, taken so many times.

    first_rate (η₀): of a step, before it is learned. learning_rate (α), multiplied by `decay` every `decay_period` (τ)
    of the `local_epochs` (E), with batches of `local_batch` of the party's rows.
    soft_labels: labels are learned too. soft_reset (σ²_sr): the variance of normal noise on the first weights, drawn
    anew for each batch. masking (p_rm): how likely the inputs of a step are replaced by normal noise for one batch.
    """

    steps: int = 30
    epochs: int = 3
    batch: int = 10
    first_rate: float = 0.02
    learning_rate: float = 0.01
    decay: float = 0.5
    decay_period: int = 40
    local_epochs: int = 30
    local_batch: int = 512
    soft_labels: bool = False
    soft_reset: float = 0.0
    masking: float = 0.0

    def __post_init__(self) -> None:
        whole = ("steps", "epochs", "batch", "decay_period", "local_epochs", "local_batch")
        if bad := [name for name in whole if getattr(self, name) < 1]:
            raise ElectionError(f"{', '.join(bad)} must be 1 or more")
        if not (self.first_rate > 0 and self.learning_rate >= 0 and self.soft_reset >= 0 and 0 <= self.masking <= 1):
            raise ElectionError("first_rate must be above 0, soft_reset a variance, masking a probability")

    @property
    def form(self) -> Distillation:
        """What lessons that are learned side by side have in common."""
        return replace(self, soft_labels=False, soft_reset=0.0, masking=0.0)

    @property
    def recipe(self) -> Recipe:
        return Recipe(epochs=self.local_epochs, batch=self.local_batch)


@dataclass(frozen=True)
class Party:
    """Who distils: its rows of a shared X with their class numbers y, and the weights that its lesson starts at."""

    rows: Array
    y: Array
    start: Mapping[str, Array]
    seed: int
    plan: Distillation
    label: str = "a party"


@dataclass(frozen=True)
class Distilled:
    """A lesson of one party: inputs `(steps, batch, …)`, labels `(steps, batch, classes)` and rates `(steps,)`."""

    inputs: Array
    labels: Array
    rates: Array


def distil(
    network: Network, X: Array, parties: Sequence[Party], classes: int, *,
    device: str = "auto", workers: int = 1, kind: torch.dtype = torch.float32, exactly: str = "float32",
) -> list[Distilled]:  # fmt: skip
    """The lessons of all parties. On a CPU each is distilled by itself, so it is the same to the last bit whoever else
    is there; on a GPU all are one fleet, the same up to rounding, which many steps make visible."""
    for party in parties:
        if not len(party.rows) == len(party.y) > 0:
            raise DataError(f"{party.label} has {len(party.rows)} rows and {len(party.y)} labels to distil")
    if network.tokens:
        check_tokens(X, network.tokens)
    place = find_device(device)
    with precision(Recipe(precision=exactly), place), one_thread():
        rows = as_tensor(X.reshape(len(X), *network.shape), place)
        job = _Job(network, rows, parties, classes, kind)
        run = job.on_cpu(workers) if place.type == "cpu" else job.on_gpu()
        epochs = sum(party.plan.local_epochs for party in parties)
        for _ in watched(f"distilling for {len(parties)} parties, epochs", run, epochs):
            pass
    return [job.found[i] for i in range(len(parties))]


class _Job:
    def __init__(self, network: Network, X: Tensor, parties: Sequence[Party], classes: int, kind: torch.dtype) -> None:
        self.network, self.X, self.parties, self.classes, self.kind = network, X, parties, classes, kind
        self.found: dict[int, Distilled] = {}

    def _wave(self, numbers: Sequence[int]) -> Wave:
        net = Logits(self.network, self.X.device, self.kind)
        return Wave(net, self.X, [self.parties[i] for i in numbers], self.classes)

    def _run(self, numbers: Sequence[int]) -> Iterator[None]:
        """Yields once for each epoch of a party."""
        wave = self._wave(numbers)
        yield from wave.train()
        self.found |= dict(zip(numbers, wave.results(), strict=True))

    def on_cpu(self, workers: int) -> Iterator[None]:
        with ThreadPoolExecutor(workers) as pool:
            for epochs in pool.map(lambda i: list(self._run([i])), range(len(self.parties))):
                yield from epochs

    def on_gpu(self) -> Iterator[None]:
        """As many at once as memory allows; where the plan was wrong, half of it."""
        waves = []
        for form in dict.fromkeys(party.plan.form for party in self.parties):
            some = [i for i, party in enumerate(self.parties) if party.plan.form == form]
            some.sort(key=lambda i: -len(self.parties[i].rows))
            count = -(-len(some) // self._most_at_once(some))
            waves += [list(map(int, part)) for part in np.array_split(some, count)]
        while waves:
            numbers = waves.pop(0)
            try:
                yield from self._run(numbers)
            except torch.OutOfMemoryError:
                if len(numbers) == 1:
                    raise
                half = len(numbers) // 2
                waves[:0] = [numbers[:half], numbers[half:]]
            gc.collect()
            torch.cuda.empty_cache()

    def _most_at_once(self, numbers: Sequence[int]) -> int:
        """By what two parties need for a batch."""
        if len(numbers) < 3:
            return len(numbers)
        for _ in range(2):  # in the first, libraries set aside memory that they keep
            torch.cuda.synchronize(self.X.device)
            torch.cuda.reset_peak_memory_stats(self.X.device)
            before = torch.cuda.memory_allocated(self.X.device)
            next(self._wave(numbers[:2]).batches())
            each = (torch.cuda.max_memory_allocated(self.X.device) - before) / 2
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self.X.device)
        return max(1, int(SHARE * free / each))


class Wave:
    """Parties whose lessons have one form, those with the most batches first: who is done leaves at the end."""

    def __init__(self, net: Logits, X: Tensor, parties: Sequence[Party], classes: int) -> None:
        self.net, self.X, self.classes, self.plan = net, X, classes, parties[0].plan.form
        self.number = sorted(range(len(parties)), key=lambda i: -self.plan.recipe.steps_of(len(parties[i].rows)))
        self.parties = [parties[i] for i in self.number]
        self.ends = [self.plan.recipe.steps_of(len(party.rows)) for party in self.parties]
        self.starts = net.stack([party.start for party in self.parties])
        self.begins = np.cumsum([0] + [len(party.rows) for party in self.parties])[:-1]
        self.rows = self._whole(np.concatenate([party.rows for party in self.parties]))
        self.y = self._whole(np.concatenate([party.y for party in self.parties]))
        self.soft = self._numbers([party.plan.soft_labels for party in self.parties])
        self.spread = self._numbers([party.plan.soft_reset**0.5 for party in self.parties])
        self.masked = self._numbers([party.plan.masking for party in self.parties])
        self.keys = self._whole(np.array([draws.key_of(party.seed, draws.DISTIL) for party in self.parties]))
        self.learned = self._first()  # inputs, labels, and what the rates are learned by
        self.means, self.squares = ([torch.zeros_like(part) for part in self.learned] for _ in range(2))
        self.done: list[list[Array]] = [[] for _ in parties]

    def _numbers(self, values: Sequence[float]) -> Tensor:
        return torch.tensor([float(value) for value in values], device=self.net.device, dtype=self.net.kind)

    def _whole(self, values: Array) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.net.device)

    def _first(self) -> list[Tensor]:
        plan, shape = self.plan, (self.plan.steps, self.plan.batch, *self.net.shape)
        inputs = np.stack([draws.normal(party.seed, 0, int(np.prod(shape))).reshape(shape) for party in self.parties])
        labels = np.stack([first_labels(party.y, plan.steps, plan.batch, self.classes) for party in self.parties])
        rates = np.full((len(self.parties), plan.steps), np.log(np.expm1(plan.first_rate)))
        return [torch.from_numpy(part).to(self.net.device, self.net.kind) for part in (inputs, labels, rates)]

    def train(self) -> Iterator[None]:
        """Yields once for each epoch of a party."""
        for number, slope in enumerate(self.batches()):
            self._adam(number, slope)
            count = len(slope[0])
            for i in range(count):
                rows = len(self.parties[i].rows)
                recipe = self.plan.recipe
                yield from [None] * (recipe.epochs_done(rows, number + 1) - recipe.epochs_done(rows, number))
            left = sum(end > number + 1 for end in self.ends)
            if left < count:
                self._leave(left)

    def batches(self) -> Iterator[list[Tensor]]:
        """For each batch the slopes of the parties' losses by what is learned. What is not finite teaches nothing."""
        for number in range(self.ends[0]):
            count = len(self.learned[0])
            lesson, hidden = self._lesson(number)
            path = take(self.net, self._starts(number, count), lesson, self.plan.epochs)
            last = self._last_slopes(number, path[-1])
            by_inputs, by_labels, by_rates = slopes(self.net, path, lesson, last)
            by_inputs = by_inputs * ~hidden.view(count, -1, *[1] * (by_inputs.dim() - 2))
            by_labels = by_labels * self.soft[:count].view(-1, 1, 1, 1)
            found = [by_inputs, by_labels, by_rates * self.learned[2].sigmoid()]
            fine = torch.stack([part.flatten(1).sum(1) for part in found]).sum(0).isfinite()
            yield [torch.where(fine.view(-1, *[1] * (part.dim() - 1)), part, 0) for part in found]

    def _lesson(self, number: int) -> tuple[Lesson, Tensor]:
        """What is taken for this batch, and which of its steps `(models, steps)` are hidden behind noise."""
        inputs, labels, raw = self.learned
        keys, tick = self.keys[: len(inputs)], torch.tensor(number, device=self.net.device)
        chance = draws.fractions(keys, tick, 0, (self.plan.steps,), self.net.device)
        hidden = chance.to(self.net.kind) <= self.masked[: len(inputs), None]
        if any(party.plan.masking for party in self.parties[: len(inputs)]):
            noise = draws.normals(keys, tick, 1, tuple(inputs.shape[1:]), self.net.device).to(inputs)
            inputs = torch.where(hidden.view(*hidden.shape, *[1] * (inputs.dim() - 2)), noise, inputs)
        return Lesson(inputs, labels, torch.nn.functional.softplus(raw)), hidden

    def _starts(self, number: int, count: int) -> list[Tensor]:
        starts = [start[:count] for start in self.starts]
        if not any(party.plan.soft_reset for party in self.parties[:count]):
            return starts
        tick, keys, out = torch.tensor(number, device=self.net.device), self.keys[:count], []
        for i, start in enumerate(starts):
            noise = draws.normals(keys, tick, i + 2, tuple(start.shape[1:]), self.net.device).to(start)
            out.append(start + noise * self.spread[:count].view(-1, *[1] * (start.dim() - 1)))
        return out

    def _last_slopes(self, number: int, weights: Weights) -> list[Tensor]:
        """Of the mean loss over a batch of each party's rows, by the weights at the end of the lesson."""
        count = len(weights[0])
        places = self._places(number, count)
        there = torch.from_numpy(places != ABSENT).to(self.net.device)
        share = there.to(self.net.kind) / there.sum(1, keepdim=True)
        where = self._whole(np.where(places == ABSENT, 0, places) + self.begins[:count, None])
        total = [torch.zeros_like(weight) for weight in weights]
        for piece in range(0, places.shape[1], ROWS_AT_ONCE):
            part = slice(piece, piece + ROWS_AT_ONCE)
            x, present = self.net.inputs(self.X[self.rows[where[:, part]]])
            with torch.enable_grad():
                held = [weight.detach().requires_grad_() for weight in weights]
                logs = self.net(held, x, present).log_softmax(-1)
                loss = -logs.gather(-1, self.y[where[:, part]].unsqueeze(-1)).squeeze(-1)
                found = torch.autograd.grad((loss * share[:, part]).sum(), held)
            torch._foreach_add_(total, list(found))
        return total

    def _places(self, number: int, count: int) -> Array:
        """Which of its own rows each party sees in this batch, `(models, rows)`; some batches are looked up ahead."""
        recipe, ahead = self.plan.recipe, number % AHEAD
        if ahead == 0:
            self.ahead = np.full((len(self.parties), AHEAD, recipe.batch), ABSENT)
            for own, party, end in zip(self.ahead, self.parties, self.ends, strict=True):
                if (last := min(number + AHEAD, end)) > number:
                    own[: last - number] = recipe.places(party.seed, len(party.rows), number, last)
        widest = min(recipe.batch, max(len(party.rows) for party in self.parties[:count]))
        return self.ahead[:count, ahead, :widest]

    def _adam(self, number: int, found: Sequence[Tensor]) -> None:
        """Kingma and Ba 2015; each party has the learning rate of its own epoch."""
        plan, one, two = self.plan, *BETAS
        epochs = [plan.recipe.epochs_done(len(p.rows), number) for p in self.parties[: len(found[0])]]
        rate = self._numbers([plan.learning_rate * plan.decay ** (epoch // plan.decay_period) for epoch in epochs])
        for value, slope, mean, square in zip(self.learned, found, self.means, self.squares, strict=True):
            mean.mul_(one).add_(slope, alpha=1 - one)
            square.mul_(two).addcmul_(slope, slope, value=1 - two)
            size = (square / (1 - two ** (number + 1))).sqrt_().add_(TINY)
            value.sub_(rate.view(-1, *[1] * (value.dim() - 1)) * (mean / (1 - one ** (number + 1))) / size)

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
        return [Distilled(*self.done[self.number.index(i)]) for i in range(len(self.parties))]


def first_labels(y: Array, steps: int, batch: int, classes: int) -> Array:
    """One-hot `(steps, batch, classes)`: one of each class, as in the paper; a batch too small for that goes through
    the classes that the party has, the most frequent first."""
    seen = np.bincount(y, minlength=classes)
    order = np.argsort(-seen, kind="stable")
    if batch < classes:
        order = order[: np.count_nonzero(seen)]
    return np.eye(classes, dtype=np.float32)[np.resize(order, steps * batch)].reshape(steps, batch, classes)
