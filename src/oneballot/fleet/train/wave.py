"""A wave: models that train together. Their parameters are one matrix, a row for each, models with most steps first.

So the models that still train are always the first rows. A CPU drops a model as soon as it is done. A GPU records steps
as graphs: it drops models when enough are done to record new graphs, and until then keeps copies of their results.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

import numpy as np
import torch
from torch import Tensor, nn

from ...types import Array, Task
from .. import draws
from ..models.inputs import move, scaled
from ..models.network import Network
from .chain import Chain
from .layout import Layout
from .losses import gain_and_shift, targets_of, weights_of
from .optimizers import OPTIMIZERS, Optimizer
from .recipe import Recipe
from .schedule import Schedule, prefetch
from .stacked import Stacked
from .steps import Steps

DTYPES = {"float64": torch.float64}
BLOCK_BYTES = 64 << 20


class Wave:
    """Tasks have the same type of target and batch width. X is on the device, in the shape that the network takes."""

    def __init__(
        self, network: Network, X: Tensor, tasks: Sequence[Task], recipe: Recipe, classes: int, *, chain: bool
    ) -> None:
        self.X, self.recipe, self.classes, self.device, self.network = X, recipe, classes, X.device, network
        self.order = sorted(range(len(tasks)), key=lambda i: -recipe.steps_of(len(tasks[i].rows)))
        self.tasks = [tasks[i] for i in self.order]
        self.kind = tasks[0].kind
        self.dtype = DTYPES.get(recipe.precision, torch.float32)
        self.module: nn.Module = copy.deepcopy(network.bare).to(self.device, self.dtype)
        self.chain = chain and recipe.precision != "bfloat16"
        self.on_gpu = self.device.type == "cuda"
        self.block = self._steps_at_once()
        self.schedule = Schedule(recipe, self.tasks, tuple(X.shape), block=self.block, recorded=self.on_gpu)
        self._allocate()
        self._gather_targets()

    def _allocate(self) -> None:
        starts = [self.network.initial(task) for task in self.tasks]
        learned = {key for key, weight in self.module.named_parameters() if weight.requires_grad}
        given = [(key, value) for key, value in self.module.state_dict().items() if key in starts[0]]
        integers = [key for key, value in given if not value.is_floating_point()]
        self.learned = Layout((key, value) for key, value in given if key in learned)
        self.others = Layout((key, value) for key, value in given if key not in {*learned, *integers})
        self.weights = self.learned.pack(starts, self.device, self.dtype)
        self.buffers = self.others.pack(starts, self.device, self.dtype)
        self.integers = {key: stack(starts, key).to(self.device) for key in sorted(integers)}
        self.gradients = torch.zeros_like(self.weights)
        self.state = self.weights.new_zeros(OPTIMIZERS[self.recipe.optimizer].STATE, *self.weights.shape)
        self.tick = torch.zeros((), dtype=torch.int64, device=self.device)
        self.keys = self.dropout_keys().to(self.device)
        parts = [self.weights, self.buffers, *self.integers.values()]
        self.results = [part.clone() for part in parts] if self.on_gpu else parts

    def dropout_keys(self) -> Tensor:
        return torch.tensor([draws.key_of(task.seed, draws.DROPOUT) for task in self.tasks])

    def optimizer(self, count: int, first: int) -> Optimizer:
        """The optimizer of the first `count` models, which have done `first` steps."""
        optimizer, state = OPTIMIZERS[self.recipe.optimizer], self.state[:, :count]
        return optimizer(self.recipe, self.weights[:count], self.gradients[:count], state, first)

    def _gather_targets(self) -> None:
        """Concatenate rows, targets and weights of all tasks; the last place is for absent rows and has weight 0."""
        parts = [targets_of(task) for task in self.tasks]
        targets = np.concatenate([*parts, np.zeros_like(parts[0][:1])])
        weight = np.concatenate([*map(weights_of, self.tasks), np.zeros(1, dtype=np.float32)])
        rows = np.concatenate([*(task.rows for task in self.tasks), np.zeros(1, dtype=np.int64)])
        self.targets = torch.from_numpy(targets).to(self.device)
        if self.kind != "labels":
            self.targets = self.targets.to(self.dtype)
        self.weight = torch.from_numpy(weight).to(self.device, self.dtype)
        self.rows = torch.from_numpy(rows).to(self.device)

    def _steps_at_once(self) -> int:
        """How many steps' rows are gathered together, and on a GPU recorded as one graph."""
        width = self.recipe.width(len(self.tasks[0].rows))
        each = math.prod(self.X.shape[1:]) * 4 * len(self.tasks) * width
        return max(1, min(16, BLOCK_BYTES // each)) if self.on_gpu else 1

    def train(self) -> Iterator[int]:
        """Train all models. Yields how many of their epochs were completed since the last time."""
        schedule, drawn = self.schedule, self.schedule.draw_all()
        # On a CPU the other cores train other waves, so nothing is drawn in advance.
        with closing(prefetch(drawn) if self.on_gpu else drawn) as chunks:
            for count, begin, end in schedule.stages():
                runner = self.new_runner(count, begin)
                for first, last in schedule.chunks(count, begin, end):
                    runner.load(*next(chunks))
                    for a, b in schedule.split_where_done(first, last):
                        with runner.here():
                            runner.run(a - first, b - first)
                            self._keep_results(schedule.done_at(b))
                    yield schedule.epochs(count, first, last)
                self.release(runner)
                del runner  # frees its memory on the device

    def trial(self) -> None:
        """Run one step of all models, to measure the memory that it needs."""
        chunk = self.schedule.draw(len(self.tasks), 0, 1)
        parts = (None if part is None else torch.from_numpy(part).to(self.device) for part in chunk)
        Steps(self, len(self.tasks), 0).compute(*parts)

    def release(self, runner: Steps) -> None:
        """Finish with a runner: its steps are done, and others follow."""
        runner.wait()
        runner.forget()

    def new_runner(self, count: int, step: int) -> Steps:
        if self.on_gpu:
            from ..gpu.graphs import RecordedSteps

            return RecordedSteps(self, count, step)
        return Steps(self, count, step)

    def _keep_results(self, done: slice) -> None:
        if self.results[0] is not self.weights and done.stop:
            for kept, part in zip(self.results, [self.weights, self.buffers, *self.integers.values()], strict=True):
                kept[done] = part[done]

    def net(
        self, weights: Tensor, buffers: Tensor, integers: Iterable[Tensor], gradients: Tensor | None
    ) -> Chain | Stacked:
        """The models with these parameters: for training, or without gradients for prediction."""
        named = self.learned.views(weights)
        by_name = None if gradients is None else self.learned.views(gradients)
        keys = self.keys[: len(weights)]
        if self.chain:
            assert isinstance(self.module, nn.Sequential)
            return Chain(self.module, named, by_name, keys, self.tick)
        state = self.others.views(buffers) | dict(zip(self.integers, integers, strict=True))
        half = self.recipe.precision == "bfloat16"
        return Stacked(self.module, named, by_name, keys, self.tick, buffers=state, half=half)

    def batch(self, places: Tensor, moves: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows, which are present, and gain and shift of the loss, at places `(…, models, width)`."""
        present = places < self.schedule.absent
        factor = self.weight[places] / present.sum(-1, keepdim=True).clamp(min=1)
        gain, shift = gain_and_shift(self.kind, self.targets[places], factor, self.classes)
        x = self.X[self.rows[places]]
        if moves is not None:
            x = move(x, moves)
        return scaled(x, self.dtype), present, gain, shift

    def values(self) -> list[dict[str, Array]]:
        """The parameters and buffers of each model, in the order of the tasks."""
        weights, buffers = (part.float().cpu().numpy() for part in self.results[:2])
        integers = dict(zip(self.integers, (part.cpu().numpy() for part in self.results[2:]), strict=True))
        out: list[dict[str, Array]] = [{} for _ in self.tasks]
        for row, i in enumerate(self.order):
            out[i] = self.learned.unpack(weights[row]) | self.others.unpack(buffers[row])
            out[i] |= {key: np.array(part[row]) for key, part in integers.items()}
        return out

    def finite(self) -> list[bool]:
        """Whether all parameters and buffers of each model are finite, in the order of the tasks."""
        parts = [part for part in self.results[:2] if part.shape[1]]
        extremes = torch.stack([end for part in parts for end in part.aminmax(dim=1)])  # NaN if any value is
        fine = dict(zip(self.order, extremes.isfinite().all(0).tolist(), strict=True))
        return [fine[i] for i in range(len(self.tasks))]

    def predict(self) -> list[Array]:
        """The logits of the rows that each task asks about `(asked, classes)`, in the order of the tasks."""
        out = [np.empty((0, self.classes), dtype=np.float32) for _ in self.tasks]
        asked = {row: task.ask for row, task in enumerate(self.tasks) if task.ask is not None and len(task.ask)}
        if not asked:
            return out
        batch = min(max(2 * self.recipe.batch, 64), 512)  # fixed, so that a result does not depend on other rows
        longest = max(map(len, asked.values()))
        table = np.zeros((len(asked), -(-longest // batch) * batch), dtype=np.int64)
        for line, rows in zip(table, asked.values(), strict=True):
            line[: len(rows)] = rows
        chosen = torch.tensor(list(asked), device=self.device)
        weights, buffers, *integers = (part[chosen] for part in self.results)
        net = self.net(weights, buffers, integers, None)
        parts = []
        with torch.no_grad():
            for rows in torch.from_numpy(table).to(self.device).split(batch, 1):  # type: ignore[no-untyped-call]
                parts.append(net.forward(scaled(self.X[rows], self.dtype)).float())
        logits = torch.cat(parts, 1).cpu().numpy()
        for (row, rows), each in zip(asked.items(), logits, strict=True):
            out[self.order[row]] = each[: len(rows)]
        return out


def stack(starts: Sequence[Mapping[str, Array]], key: str) -> Tensor:
    return torch.from_numpy(np.stack([start[key] for start in starts]))
