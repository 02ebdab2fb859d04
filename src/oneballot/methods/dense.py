"""DENSE (Zhang et al., Data-Free One-Shot Federated Learning, NeurIPS 2022): networks, distilled without any rows.

Each party sends its network. The tally trains a generator whose rows the ensemble of all networks recognises, distils
a student on them, and repeats both. A generator starts anew in each epoch and its best batch is kept, as in the
authors' code, so that later epochs do not forget earlier batches.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from ..errors import ElectionError, OneBallotError, Spoiled
from ..interfaces import Agreement, CastSteps, Context, Learner, Method, Model, TallyContext, Work
from ..runtime.progress import track
from ..settings import settings
from ..types import Abstain, Array, Ballot, Blob, Contents, Count, Data, Fit, Plan, Planned, Steps, Task
from ._shared import CLASS_COUNTS, missing_classes, planned_counts, read_class_counts

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

MOST_TIMES = 20
"""A party's network may take so many times the operations of the election's own, for one row, and at least
LEAST_OPERATIONS."""
LEAST_OPERATIONS = 10_000_000
PROBE = 16
"""The number of random rows that a network is tried on."""
FLOOR = 1e-6
"""Added to a network's probabilities before the logarithm, so that no party moves the mean logit without bound."""
MOMENTUM = 0.9
DRAFT = """\
epochs = 200                    # of the tally; without a GPU they take minutes, so try 20 first

[learners.all]                  # a built-in architecture: docs/networks.md
name = "torch"
module = "mlp"
"""


@settings
class Dense(Method):
    """epochs (T): how often a batch is generated and the student trained on all batches so far.
    batch (b): rows in a batch. noise: the length of the generator's input. generator_steps (T_G), generator_rate (η_G):
    of the generator's training by Adam. stability (λ1): the weight of the batch normalisation loss. boundary (λ2): the
    weight of the boundary support loss. learning_rate (η_S), temperature: of the student's training by SGD.
    average: how the networks form an ensemble: "seen": for each class the mean probability over the parties that have
    rows of it; "logits": the mean of the logits, as in the paper.
    values: the lowest and highest value of a feature where neither public rows nor the schema give them.
    """

    name: ClassVar[str] = "dense"
    why_not_shared: ClassVar[str] = "its ballots are models, which cannot be added up"
    draft: ClassVar[str] = DRAFT
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})
    why_not: ClassVar[str] = "a ballot is a network trained on private rows, without noise"
    costly: ClassVar[str] = "its tally trains a generator and a student, which takes minutes without a GPU"
    alternatives: ClassVar[Mapping[str, str]] = {"gradients": "Use torch"}
    counts: ClassVar[tuple[str, ...]] = ("seen",)
    meanings: ClassVar[Mapping[str, str]] = {"seen": CLASS_COUNTS, "model": "a network trained on all rows used"}
    needs: ClassVar[Mapping[str, frozenset[str]]] = {
        "local": frozenset({"probabilities", "gradients"}),
        "final": frozenset({"probabilities", "gradients", "soft"}),
    }

    epochs: PositiveInt = 200
    batch: Annotated[int, Field(ge=2)] = 256
    noise: PositiveInt = 256
    generator_steps: PositiveInt = 30
    generator_rate: PositiveFloat = 1e-3
    stability: NonNegativeFloat = 1.0
    boundary: NonNegativeFloat = 1.0
    learning_rate: PositiveFloat = 0.01
    temperature: PositiveFloat = 20.0
    average: Literal["seen", "logits"] = "seen"
    values: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not self.values[0] < self.values[1]:
            raise ElectionError(f"values = {list(self.values)}: expected the lowest value, then a higher one")

    def default_learners(self, shape: tuple[int, ...], tokens: bool) -> Mapping[str, Mapping[str, Any]]:
        images = len(shape) > 1 and min(shape[-2:]) >= 12
        learner = {"name": "torch", "module": "lenet" if images else "mlp"}
        return {} if tokens else {"local": learner, "final": learner}

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        if not agreed.shape:
            raise ElectionError(
                "dense needs the shape of a row: give the election a schema or a public set, or the learner its shape, "
                "as in settings = {shape = [1, 28, 28]}"
            )
        for role in self.needs:  # a generator makes numbers, so learners of text refuse its rows
            learners[role].check_rows(np.full((1, *agreed.shape), 0.5, dtype=np.float32))

    def plan(self, data: Data, ctx: Context) -> Plan:
        counts = {"seen": ctx.target.class_counts(data.y)}
        contents = (planned_counts(ctx), Planned("model", "model"))
        return Plan(1, "a network, rows of each class", None, sends_models=True, counts=counts, contents=contents)

    def cast(self, data: Data, ctx: Context) -> CastSteps:
        if not len(data):
            raise Abstain("it has no rows")
        class_counts = ctx.target.class_counts(data.y)
        if missing := missing_classes(class_counts, ctx):
            ctx.warn(f"no rows of class {missing}")
        task = Task(np.arange(len(data)), data.y, seed=ctx.seed("local"))
        models = yield Fit("local", data.X, [task], len(ctx.classes))
        return {"seen": class_counts, "model": models[0].dump()}

    def prepare(self, ctx: TallyContext) -> Steps[int]:
        """The most operations that a party's network may take for one row."""
        own: int = yield Operations(ctx.shape, len(ctx.classes))
        return max(LEAST_OPERATIONS, MOST_TIMES * own)

    def count(self, ballot: Ballot, ctx: TallyContext) -> Count:
        if not read_class_counts(ballot, ctx).any():
            raise Spoiled("it has no rows of any class")
        network = ctx.open(ballot.blob("model"), classes=len(ctx.classes))
        self._check_operations(network, ctx)
        try:
            logits = _ask(network, self._probe(ctx))
        except Exception as error:  # such as a network of text, which takes no fractions
            raise Spoiled(f"its network fails for rows of this election: {type(error).__name__}") from error
        if not np.isfinite(logits).all():
            raise Spoiled("its network returns numbers that are not finite")
        return Count(by_party={ballot.party: ballot.contents})

    def _check_operations(self, network: nn.Module, ctx: TallyContext) -> None:
        try:
            found = operations(network, ctx.shape)
        except Exception as error:  # such as a network of text, which takes no fractions
            raise Spoiled(f"its network fails for rows of this election: {type(error).__name__}") from error
        if found > ctx.prepared:
            raise Spoiled(
                f"its network takes {found:,} operations for one row, but {ctx.prepared:,} are allowed: {MOST_TIMES} "
                "times those of the election's own network"
            )

    def close(self, count: Count, ctx: TallyContext) -> Steps[Model]:
        classes, uniform = len(ctx.classes), np.full((PROBE, len(ctx.classes)), 1 / len(ctx.classes))
        teachers = self._open(count, ctx)
        if missing := missing_classes(teachers.seen.sum(axis=0), ctx):
            ctx.warn(f"no network knows the class {missing}, so the final model does not")
        task = Task(np.arange(PROBE), uniform, "soft", seed=ctx.shared_seed("student"), label="the student")
        untrained = yield Fit("final", self._probe(ctx), [task], classes)  # almost: uniform targets, a few random rows
        student = ctx.open(untrained[0].dump(), classes=classes)
        distilled = yield Distil(self, teachers, student, *self._bounds(ctx), ctx.shape, ctx.shared_seed("dense"))
        for party in distilled.left_out:
            ctx.warn(f"{party} is left out: its network returns numbers that are not finite")
        X, seed = distilled.rows.reshape(-1, *ctx.shape), ctx.shared_seed("final")
        given: Any = {"start": distilled.weights, "required": True, "label": "the final model"}
        task = Task(np.arange(len(X)), distilled.targets, "soft", seed=seed, **given)
        models = yield Fit("final", X, [task], classes)
        return models[0]  # type: ignore[no-any-return]

    def _open(self, count: Count, ctx: TallyContext) -> Teachers:
        """The networks. One that predicts the same for all rows recognises nothing, and is left out."""
        probe, ballots = self._probe(ctx), dict(sorted(count.by_party.items()))
        networks = {party: ctx.open(_blob(ballot), classes=len(ctx.classes)) for party, ballot in ballots.items()}
        constant = [party for party in networks if not np.ptp(_ask(networks[party], probe), axis=0).any()]
        if len(constant) == len(networks):
            constant = []
        for party in constant:
            ctx.warn(f"{party} is left out: its model predicts the same for every row")
        seen = np.stack([_array(ballot, "seen") > 0 for ballot in ballots.values()])
        return Teachers(networks, seen, self.average).without(constant)

    def _probe(self, ctx: TallyContext) -> Array:
        low, high = self._bounds(ctx)
        drawn = np.random.default_rng(ctx.shared_seed("probe")).random((PROBE, len(low)))
        return np.asarray(low + (high - low) * drawn, dtype=np.float32).reshape(PROBE, *ctx.shape)

    def _bounds(self, ctx: TallyContext) -> tuple[Array, Array]:
        """The lowest and highest value of each feature, as networks see it."""
        low, high = (np.full(math.prod(ctx.shape), value) for value in self.values)
        drawn = ctx.draw_rows(1000, ctx.shared_seed("ranges"))
        known = ctx.public if ctx.public is not None else None if drawn is None else drawn[0]
        if known is None or not len(known) or known.dtype == np.uint8:
            return low, high
        known = known.reshape(len(known), -1).astype(np.float64)
        found = np.isfinite(known).all(axis=0)
        return np.where(found, known.min(axis=0), low), np.where(found, known.max(axis=0), high)


@dataclass(frozen=True)
class Operations(Work):
    """How many operations the learner's own network takes for one row."""

    row: tuple[int, ...]
    classes: int

    @staticmethod
    def together(learner: Any, works: Sequence[Operations]) -> list[int]:
        networks = [learner.network(work.row, work.classes) for work in works]
        return [operations(network.bare, network.shape) for network in networks]


@dataclass(frozen=True)
class Teachers:
    """The parties' networks as an ensemble. seen `(networks, classes)`: whether the party has rows of the class."""

    networks: Mapping[str, nn.Module]
    seen: Array
    average: str

    def __call__(self, rows: Tensor) -> Tensor:
        """Logits `(rows, classes)`."""
        import torch

        probabilities = torch.stack([network(rows).softmax(dim=1) for network in self.networks.values()])
        if self.average == "logits":  # up to a constant of each row
            return (probabilities + FLOOR).log().mean(dim=0)
        weights = torch.from_numpy(self.seen).to(rows)[:, None]
        return ((probabilities * weights).sum(dim=0) / weights.sum(dim=0).clamp(min=1) + FLOOR).log()

    def failing(self, rows: Tensor) -> list[str]:
        """The parties whose networks return numbers, or gradients, that are not finite."""
        return [party for party, network in self.networks.items() if not _finite(network, rows)]

    def without(self, parties: Sequence[str]) -> Teachers:
        kept = {party: network for party, network in self.networks.items() if party not in parties}
        if not kept:
            raise OneBallotError("dense: no network returns finite numbers for the generated rows")
        return Teachers(kept, self.seen[[party in kept for party in self.networks]], self.average)


@dataclass(frozen=True)
class Distilled:
    """weights: of the student. rows, targets: what it was trained on. left_out: parties whose networks failed."""

    weights: Mapping[str, Array]
    rows: Array
    targets: Array
    left_out: Sequence[str]


@dataclass(frozen=True)
class Distil(Work):
    """The training of generators and of the student, on the device of the final learner."""

    method: Dense
    teachers: Teachers
    student: nn.Module
    low: Array
    high: Array
    shape: tuple[int, ...]
    seed: int

    @staticmethod
    def together(learner: Any, works: Sequence[Distil]) -> list[Distilled]:
        with learner.place("float32") as device:
            return [work.run(device, learner.row or work.shape) for work in works]

    def run(self, device: torch.device, shape: tuple[int, ...]) -> Distilled:
        """shape: that of a generated row; the learner's settings may say that a vector is an image."""
        import torch

        torch.manual_seed(self.seed)
        method, teachers, left_out = self.method, self.teachers, list[str]()
        for network in teachers.networks.values():
            network.to(device).requires_grad_(False).eval()
        student = self.student.to(device).requires_grad_(True)
        optimizer = torch.optim.SGD(student.parameters(), lr=method.learning_rate, momentum=MOMENTUM)
        rows = torch.empty(method.epochs * method.batch, *shape, device=device)
        targets = torch.empty(len(rows), teachers.seen.shape[1], device=device)
        for end in track("distilling networks", range(method.batch, len(rows) + 1, method.batch), method.epochs):
            made = self._generate(teachers, student.eval(), shape)
            while failing := teachers.failing(made):
                left_out, teachers = [*left_out, *failing], teachers.without(failing)
                made = self._generate(teachers, student.eval(), shape)
            rows[end - method.batch : end] = made
            with torch.no_grad():
                targets[end - method.batch : end] = teachers(made)
            student.train()
            for chosen in torch.randperm(end).to(device).split(method.batch):  # type: ignore[no-untyped-call]
                loss = divergence(targets[chosen], student(rows[chosen]), method.temperature).mean()
                _step(optimizer, loss)
        weights = {key: value.cpu().numpy() for key, value in student.state_dict().items()}
        return Distilled(weights, rows.cpu().numpy(), targets.softmax(dim=1).cpu().numpy(), left_out)

    def _generate(self, teachers: Teachers, student: nn.Module, shape: tuple[int, ...]) -> Tensor:
        """The best batch of a new generator, for labels drawn uniformly from the classes that the parties have."""
        import torch
        from torch.nn import functional as F

        method, classes = self.method, teachers.seen.shape[1]
        device = next(student.parameters()).device
        low, high = (torch.from_numpy(each).float().reshape(shape).to(device) for each in (self.low, self.high))
        known = torch.from_numpy(teachers.seen.any(axis=0)).float()
        labels = known.multinomial(method.batch, replacement=True).to(device)
        noise = torch.randn(method.batch, method.noise).to(device).requires_grad_()
        generator = make_generator(method.noise + classes, shape).to(device).train()
        optimizer = torch.optim.Adam([*generator.parameters(), noise], lr=method.generator_rate, betas=(0.5, 0.999))
        best, lowest = torch.empty(0), torch.tensor(math.inf, device=device)
        with batch_norm_losses(list(teachers.networks.values())) as distances:
            for _ in range(method.generator_steps):
                distances.clear()
                made = generator(torch.cat([noise, F.one_hot(labels, classes)], dim=1))
                rows = low + (high - low) * made.reshape(-1, *shape)
                taught, learned = teachers(rows), student(rows)
                disagree = taught.argmax(dim=1) != learned.argmax(dim=1)
                loss = F.cross_entropy(taught, labels) + method.stability * sum(distances) / len(teachers.networks)
                loss = loss - method.boundary * (divergence(taught, learned) * disagree).mean()
                best = torch.where(loss < lowest, rows.detach(), best) if len(best) else rows.detach()
                lowest = torch.fmin(lowest, loss.detach())
                _step(optimizer, loss)
        return best


def operations(network: nn.Module, shape: tuple[int, ...]) -> int:
    """The multiplications and additions of one row. They are counted without computing anything."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    shadow = copy.deepcopy(network).to("meta").eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        shadow(torch.empty(1, *shape, device="meta"))
    return int(counter.get_total_flops())


def make_generator(inputs: int, shape: tuple[int, ...]) -> nn.Sequential:
    """From noise and labels to rows in (0, 1): convolutions for images, two hidden layers for vectors."""
    from torch import nn

    if len(shape) == 1:
        layers: list[nn.Module] = []
        for before, after in ((inputs, 256), (256, 256)):
            layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.LeakyReLU(0.2)]
        return nn.Sequential(*layers, nn.Linear(256, shape[0]), nn.Sigmoid())
    height, width = shape[-2:]
    channels, small = math.prod(shape[:-2]), (-(-height // 4), -(-width // 4))
    layers = [nn.Linear(inputs, 128 * math.prod(small)), nn.Unflatten(1, (128, *small)), nn.BatchNorm2d(128)]
    for size, after in (((-(-height // 2), -(-width // 2)), 128), ((height, width), 64)):
        layers += [nn.Upsample(size=size), nn.Conv2d(128, after, 3, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(64, channels, 3, padding=1), nn.Sigmoid())


def divergence(taught: Tensor, learned: Tensor, temperature: float = 1.0) -> Tensor:
    """The Kullback–Leibler divergence of each row, from logits; its gradients do not depend on the temperature."""
    from torch.nn import functional as F

    true, guess = ((logits / temperature).log_softmax(dim=1) for logits in (taught, learned))
    return F.kl_div(guess, true, reduction="none", log_target=True).sum(dim=1) * temperature**2


@contextmanager
def batch_norm_losses(networks: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """A list to which each batch normalisation adds, when it is called, how far the batch is from its statistics."""
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm

    distances: list[Tensor] = []

    def measure(norm: Any, inputs: Any) -> None:
        (values,) = inputs
        axes = [axis for axis in range(values.ndim) if axis != 1]
        variance, mean = torch.var_mean(values, dim=axes, correction=0)
        distances.append((mean - norm.running_mean).norm() + (variance - norm.running_var).norm())

    norms = [module for network in networks for module in network.modules() if isinstance(module, _BatchNorm)]
    hooks = [norm.register_forward_pre_hook(measure) for norm in norms]
    try:
        yield distances
    finally:
        for hook in hooks:
            hook.remove()


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _ask(network: nn.Module, rows: Array | Tensor) -> Array:
    """The logits of a network."""
    import torch

    with torch.no_grad():
        return np.asarray(network(torch.as_tensor(rows)).cpu())


def _finite(network: nn.Module, rows: Tensor) -> bool:
    """Whether logits and gradients are finite. Gradients that are not would stop the training of every generator."""
    import torch

    rows = rows.detach().clone().requires_grad_()
    logits = network(rows)
    total = (logits.softmax(dim=1) + FLOOR).log().sum()
    gradients = torch.autograd.grad(total, rows) if total.requires_grad else ()
    return all(bool(torch.isfinite(each).all()) for each in (logits, *gradients))


def _array(ballot: Contents, name: str) -> Array:
    value = ballot[name]
    assert isinstance(value, np.ndarray)
    return value


def _blob(ballot: Contents) -> Blob:
    value = ballot["model"]
    assert isinstance(value, Blob)
    return value


plugin = Dense
