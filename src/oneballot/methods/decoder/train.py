"""Trains conditional variational autoencoders (Kingma and Welling 2014), with one hidden layer on both sides.

The encoder sees a row and its class, and describes the row by a normal distribution over `latent` numbers; the decoder
makes a row of these numbers and the class. The loss of a row is its negative log-likelihood plus the Kullback–Leibler
divergence of that distribution from the standard normal one: Bernoulli for pixels and flags, softmax for categories,
normal with a learned spread for numbers. All models of a wave train as one, with a first axis for the party.
"""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ...fleet.train.loop import PROCESSES_PAY_OFF, SHARED_MEMORY
from ...fleet.train.waves import run_waves
from ...runtime.executor import parallelism, run, workers
from ...runtime.progress import track
from ...types import Array
from .work import Trained, TrainWork

REPORTED = 20
"""A training reports progress so many times."""
WAVE_BYTES = 4 << 30
"""The weights, gradients and rows of a wave on a GPU."""
BLOCK = 1024
"""Rows that are described at once."""
LEAST_VARIANCE = 1e-6
NARROWEST, WIDEST = math.log(0.02), math.log(3.0)
"""Bounds of the logarithm of a spread."""

Layer = tuple[Tensor, Tensor]


def train(works: Sequence[TrainWork], device: torch.device) -> list[Trained]:
    """A decoder for each party. On a CPU each is trained by itself, so that none depends on the others."""
    found: dict[int, Trained] = {}
    steps = _on_cpu(works, found) if device.type == "cpu" else _on_gpu(works, found, device)
    label = f"training {len(works)} decoders" if len(works) > 1 else "training a decoder"
    for _ in track(label, steps, REPORTED * len(works)):
        pass
    return [found[i] for i in range(len(works))]


def _on_cpu(works: Sequence[TrainWork], found: dict[int, Trained]) -> Iterator[int]:
    """One after the other, or in processes if that is worthwhile."""
    begin, several = time.monotonic(), parallelism(workers()) > 1
    for i, work in enumerate(works):
        (found[i],) = yield from train_wave([work], torch.device("cpu"))
        left = (time.monotonic() - begin) / (i + 1) * (len(works) - i - 1)
        if several and left > PROCESSES_PAY_OFF:
            break
    calls = [(os.getpid(), work) for work in works[len(found) :]]
    for trained in run(_train_in_process, calls, workers=workers(), **SHARED_MEMORY) if calls else ():
        found[len(found)] = trained
        yield from [1] * REPORTED


def _train_in_process(owner: int, work: TrainWork) -> Trained:
    torch.set_num_threads(1)
    parent, steps = os.getppid(), train_wave([replace(work, X=np.array(work.X))], torch.device("cpu"))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            (trained,) = done.value
            return trained  # type: ignore[no-any-return]
        if os.getpid() != owner and os.getppid() != parent:  # the parent process was killed
            os._exit(1)


def _on_gpu(works: Sequence[TrainWork], found: dict[int, Trained], device: torch.device) -> Iterator[int]:
    first = works[0]
    weights = 2 * first.recipe.hidden * (first.sizes.total + first.classes + first.recipe.latent)
    each = 16 * weights + 4 * max(work.X.size for work in works)  # the weights, their gradients and two moments
    waves = [list(map(int, w)) for w in np.array_split(np.arange(len(works)), -(-len(works) * each // WAVE_BYTES))]

    def one(numbers: Sequence[int]) -> Iterator[int]:
        steps = train_wave([works[i] for i in numbers], device)
        try:
            while True:
                yield next(steps) * len(numbers)
        except StopIteration as done:
            found.update(zip(numbers, done.value, strict=True))

    for count in run_waves(waves, one):
        yield from [1] * count


def train_wave(works: Sequence[TrainWork], device: torch.device) -> Generator[int, None, list[Trained]]:
    """Train these together. Yields 1 at each report of progress, and returns a decoder for each."""
    first, recipe = works[0], works[0].recipe
    rows = [torch.from_numpy(work.X).to(device) for work in works]
    labels = [F.one_hot(torch.from_numpy(work.y.astype(np.int64)), first.classes).float().to(device) for work in works]
    generators = [torch.Generator().manual_seed(work.seed % 2**63) for work in works]
    batches = [_batches(len(work.y), recipe.steps, recipe.batch, work.seed) for work in works]
    model = _Model(first, generators, device)
    optimizer = torch.optim.Adam(model.parameters, lr=recipe.learning_rate, fused=device.type == "cpu")
    reports = [-(-recipe.steps * i // REPORTED) for i in range(1, REPORTED + 1)]
    for step in range(recipe.steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * (1 + math.cos(math.pi * step / recipe.steps)) / 2
        chosen = [torch.from_numpy(numbers[step]).to(device) for numbers in batches]
        x, y = (torch.stack([own[at] for own, at in zip(all_, chosen, strict=True)]) for all_ in (rows, labels))
        noise = torch.stack([torch.randn(recipe.batch, recipe.latent, generator=g) for g in generators]).to(device)
        optimizer.zero_grad()
        model.loss(x, y, noise).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        yield from [1] * reports.count(step + 1)
    return model.decoders(rows, [work.y for work in works], labels)


def _batches(rows: int, steps: int, batch: int, seed: int) -> Array:
    """The rows of each step `(steps, batch)`: one random order of all rows after the other."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(rows) for _ in range(-(-steps * batch // rows))]
    return np.concatenate(orders)[: steps * batch].reshape(steps, batch)


class _Model:
    """The weights of all parties `(parties, inputs, outputs)`, and their loss."""

    def __init__(self, work: TrainWork, generators: Sequence[torch.Generator], device: torch.device) -> None:
        self.sizes, recipe, classes = work.sizes, work.recipe, work.classes
        self.divergence = recipe.divergence

        def layer(inputs: int, outputs: int) -> Layer:
            drawn = torch.stack([torch.rand(inputs, outputs, generator=g) for g in generators])
            weights = ((2 * drawn - 1) / math.sqrt(inputs)).to(device).requires_grad_()
            return weights, torch.zeros(len(generators), 1, outputs, device=device, requires_grad=True)

        self.seen = layer(work.sizes.total + classes, recipe.hidden)
        self.latent = layer(recipe.hidden, 2 * recipe.latent)
        self.hidden = layer(recipe.latent + classes, recipe.hidden)
        self.made = layer(recipe.hidden, work.sizes.total)
        self.spread = torch.zeros(len(generators), 1, work.sizes.numbers, device=device, requires_grad=True)
        self.parameters = [*self.seen, *self.latent, *self.hidden, *self.made, self.spread]

    def loss(self, x: Tensor, y: Tensor, noise: Tensor) -> Tensor:
        """The sum over parties of the mean loss of a row; so the parties' gradients do not mix."""
        mean, variance = self._encode(x, y)
        z = mean + (variance / 2).exp() * noise
        made = _apply(self.made, _apply(self.hidden, torch.cat([z, y], dim=2)).relu())
        divergence = (mean.square() + variance.exp() - 1 - variance).sum() / 2
        total: Tensor = (self._reconstruction(made, x) + self.divergence * divergence) / x.shape[1]
        return total

    def _reconstruction(self, made: Tensor, x: Tensor) -> Any:
        sizes = self.sizes
        parts = [sizes.pixels, sizes.numbers, sizes.flags, *sizes.groups]
        pixels, numbers, flags, *groups = torch.split(made, parts, dim=2)
        true_pixels, true, true_flags, *chosen = torch.split(x, parts, dim=2)
        total = F.binary_cross_entropy_with_logits(pixels, true_pixels, reduction="sum")
        total = total + F.binary_cross_entropy_with_logits(flags, true_flags, reduction="sum")
        spread = self.spread.clamp(NARROWEST, WIDEST)
        total = total + (((true - numbers) / spread.exp()).square() / 2 + spread).sum()
        for logits, one_hot in zip(groups, chosen, strict=True):
            total = total - (logits.log_softmax(dim=2) * one_hot).sum()
        return total

    def _encode(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The mean of each row's distribution, and the logarithm of its variance."""
        hidden = _apply(self.seen, torch.cat([x, y], dim=2)).relu()
        mean, variance = _apply(self.latent, hidden).chunk(2, dim=2)
        return mean, variance

    def decoders(self, rows: Sequence[Tensor], y: Sequence[Array], labels: Sequence[Tensor]) -> list[Trained]:
        """The decoders, each with a normal distribution for every class that fits where its rows are described."""

        def arrays(layer: Layer, i: int) -> tuple[Array, Array]:
            weights, bias = (each[i].detach().cpu().numpy() for each in layer)
            return weights.T.copy(), bias[0].copy()

        spreads = self.spread.detach().clamp(NARROWEST, WIDEST).exp().cpu().numpy()[:, 0]
        found = []
        for i, numbers in enumerate(y):
            centres, shapes = fit_classes(*self._describe(i, rows[i], labels[i]), numbers, labels[i].shape[1])
            found.append(Trained(*arrays(self.hidden, i), *arrays(self.made, i), centres, shapes, spreads[i]))
        return found

    def _describe(self, party: int, x: Tensor, y: Tensor) -> tuple[Array, Array]:
        """The means and variances of a party's rows `(rows, latent)`."""
        alone = copy.copy(self)
        alone.seen, alone.latent = ((w[party : party + 1], b[party : party + 1]) for w, b in (self.seen, self.latent))
        with torch.no_grad():
            blocks = zip(torch.split(x[None], BLOCK, dim=1), torch.split(y[None], BLOCK, dim=1), strict=True)
            means, variances = zip(*(alone._encode(*block) for block in blocks), strict=True)
        return tuple(torch.cat(each, 1)[0].double().cpu().numpy() for each in (means, variances))  # type: ignore[return-value]


def fit_classes(means: Array, variances: Array, y: Array, classes: int) -> tuple[Array, Array]:
    """For each class the mean of its rows' distributions `(classes, latent)`, and a triangular matrix with the root of
    their covariance `(classes, latent, latent)`; zeros for classes without rows."""
    latent = means.shape[1]
    centres, shapes = np.zeros((classes, latent), np.float32), np.zeros((classes, latent, latent), np.float32)
    for c in np.unique(y):
        own = means[y == c]
        covariance = np.diag(np.exp(variances[y == c]).mean(axis=0) + LEAST_VARIANCE)
        covariance += np.cov(own.T, bias=True).reshape(latent, latent)
        finite = np.isfinite(covariance).all()  # otherwise the training diverged
        centres[c], shapes[c] = own.mean(axis=0), np.linalg.cholesky(covariance) if finite else np.nan
    return centres, shapes


def _apply(layer: Layer, rows: Tensor) -> Tensor:
    return torch.baddbmm(layer[1], rows, layer[0])
