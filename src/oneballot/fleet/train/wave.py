"""Models that are trained side by side: one matrix, a row a model, those with the most steps first.

So the models that still train are always the first rows. On a CPU the others are left at once; on a GPU, where steps
are recorded as graphs, when enough are done to record new ones, and until then their numbers are set aside.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

import numpy as np
import torch
from torch import Tensor, nn

from ...types import Array, Task
from .. import draws
from ..models.inputs import move, scaled
from ..models.network import Network
from .ahead import ahead
from .chain import Chain
from .layout import Layout
from .losses import aim, targets_of, weights_of
from .optimizers import MEMORIES, Lean
from .recipe import Recipe
from .schedule import Timetable
from .stacked import Stacked
from .steps import Steps

DTYPES = {"float64": torch.float64}
BLOCK_BYTES = 64 << 20


class Wave:
    """Tasks are of one kind and width. X is on the device, rows in the shape that the network takes."""

    def __init__(
        self, network: Network, X: Tensor, tasks: Sequence[Task], recipe: Recipe, classes: int, *, chain: bool
    ) -> None:
        self.X, self.recipe, self.classes, self.device, self.network = X, recipe, classes, X.device, network
        self.number = sorted(range(len(tasks)), key=lambda i: -recipe.steps_of(len(tasks[i].rows)))
        self.tasks = [tasks[i] for i in self.number]
        self.kind = tasks[0].kind
        self.dtype = DTYPES.get(recipe.precision, torch.float32)
        self.module: nn.Module = copy.deepcopy(network.bare).to(self.device, self.dtype)
        self.chain = chain and recipe.precision != "bfloat16"
        self.block = self._steps_at_once()
        self.looks_ahead = self.device.type == "cuda"  # on a CPU the other cores have waves of their own
        self.times = self._timetable()
        self._lay_out()
        self._gather_targets()
        self.tick = torch.zeros((), dtype=torch.int64, device=self.device)
        self.keys = torch.tensor([draws.dropout_key(task.seed) for task in self.tasks], device=self.device)
        self.runners: dict[int, Steps] | None = None
        """Those of a wave that is trained again and again, by the step that each begins with."""

    def _timetable(self) -> Timetable:
        recorded = self.device.type == "cuda"
        return Timetable(self.recipe, self.tasks, tuple(self.X.shape), at_once=self.block, recorded=recorded)

    def _lay_out(self) -> None:
        starts = [self.network.initial(task) for task in self.tasks]
        learned = {key for key, weight in self.module.named_parameters() if weight.requires_grad}
        whole = {key for key, value in self.module.state_dict().items() if not value.is_floating_point()}
        given = [(key, value) for key, value in self.module.state_dict().items() if key in starts[0]]
        self.layout = Layout.of((key, value) for key, value in given if key in learned)
        self.side = Layout.of((key, value) for key, value in given if key not in learned | whole)
        self.weights = self.layout.pack(starts, self.device, self.dtype)
        self.buffers = self.side.pack(starts, self.device, self.dtype)
        self.whole = {
            key: torch.from_numpy(np.stack([start[key] for start in starts])).to(self.device) for key in sorted(whole)
        }
        pulls, offsets = self._pulls(), self._offsets()
        leans = pulls is not None or offsets is not None
        self.lean = Lean(self.recipe, self.weights, pulls, offsets) if leans else None
        self.slopes = torch.zeros_like(self.weights)
        self.memory = self.weights.new_zeros(MEMORIES[self.recipe.optimizer], *self.weights.shape)
        apart = self.device.type == "cuda"  # there a model that is done is trained on for a while
        held = [self.weights, self.buffers, *self.whole.values()]
        self.final = [part.clone() for part in held] if apart else held

    def _pulls(self) -> Tensor | None:
        pulls = [[task.proximal] for task in self.tasks]
        return torch.tensor(pulls, device=self.device, dtype=self.dtype) if any(map(any, pulls)) else None

    def _offsets(self) -> Tensor | None:
        if all(task.offset is None for task in self.tasks):
            return None
        none = {name: np.zeros(shape) for name, shape in zip(self.layout.names, self.layout.shapes, strict=True)}
        return self.layout.pack([task.offset or none for task in self.tasks], self.device, self.dtype)

    def again(self, tasks: Sequence[Task]) -> None:
        """Back to the first step with other first numbers, seeds and offsets; the rest of each task is as it was."""
        self.tasks = [tasks[i] for i in self.number]
        self.times.tasks = self.tasks
        starts = [self.network.initial(task) for task in self.tasks]
        self.weights.copy_(self.layout.pack(starts, self.device, self.dtype))
        self.buffers.copy_(self.side.pack(starts, self.device, self.dtype))
        for key, part in self.whole.items():
            part.copy_(torch.from_numpy(np.stack([start[key] for start in starts])))
        if self.lean is not None:
            self.lean.again(self.weights, self._offsets())
        self.keys.copy_(torch.tensor([draws.dropout_key(task.seed) for task in self.tasks]))
        self.memory.zero_()
        self.tick.zero_()

    def _gather_targets(self) -> None:
        """Rows, targets and weights of all tasks behind one another; the last place is nobody's and weighs nothing."""
        parts = [targets_of(task, self.classes) for task in self.tasks]
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
        return max(1, min(16, BLOCK_BYTES // each)) if self.device.type == "cuda" else 1

    def train(self) -> Iterator[int]:
        """Yields now and then how many epochs of models were trained since."""
        times, drawn = self.times, self.times.schedules()
        with closing(ahead(drawn) if self.looks_ahead else drawn) as schedules:
            for count, begun, until in times.stages():
                runner = self._runner(count, begun)
                for first, last in times.cuts(count, begun, until):
                    runner.load(*next(schedules))
                    for a, b in times.pieces(first, last):
                        with runner.here():
                            runner.go(a - first, b - first)
                            self._set_aside(times.done_at(b))
                    yield times.epochs(count, first, last)
                if self.runners is None:
                    runner.wait()
                    runner.forget()
                else:  # a device that is busy with these steps has the schedule of the next when it is done
                    self.runners[begun] = runner
                    if until == times.ends[0]:
                        runner.wait()
                del runner  # and with it what it holds on the device

    def trial(self) -> None:
        """One step of all models, as it is: to see what it needs."""
        places, moves, rates = self.times.schedule(len(self.tasks), 0, 1)
        runner = Steps(self, len(self.tasks), 0)
        given = (None if part is None else torch.from_numpy(part).to(self.device) for part in (places, moves, rates))
        runner.steps(*given)

    def _runner(self, count: int, step: int) -> Steps:
        """A new one, or the one that began here the last time, with the graphs that it has recorded."""
        if self.runners is None or step not in self.runners:
            return self.runner(count, step)
        self.runners[step].again()
        return self.runners[step]

    def runner(self, count: int, step: int) -> Steps:
        if self.device.type == "cuda":
            from ..gpu.graphs import Recorded

            return Recorded(self, count, step)
        return Steps(self, count, step)

    def _set_aside(self, some: slice) -> None:
        """The numbers of these models, which are done."""
        if self.final[0] is not self.weights and some.stop:
            for kept, part in zip(self.final, [self.weights, self.buffers, *self.whole.values()], strict=True):
                kept[some] = part[some]

    def net(self, weights: Tensor, buffers: Tensor, whole: Iterable[Tensor], slopes: Tensor | None) -> Chain | Stacked:
        """All models whose numbers these are, to be trained, or without slopes to be asked."""
        count = len(weights)
        learned = self.layout.views(weights)
        lower = None if slopes is None else self.layout.views(slopes)
        if self.chain:
            assert isinstance(self.module, nn.Sequential)
            return Chain(self.module, learned, lower, self.keys[:count], self.tick)
        state = self.side.views(buffers) | dict(zip(self.whole, whole, strict=True))
        half = self.recipe.precision == "bfloat16"
        return Stacked(self.module, learned, lower, self.keys[:count], self.tick, buffers=state, half=half)

    def batch(self, places: Tensor, moves: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows, who is present, gain and pull of the places `(…, models, batch)`."""
        present = places < self.times.nobody
        factor = self.weight[places] / present.sum(-1, keepdim=True).clamp(min=1)
        gain, proximal = aim(self.kind, self.targets[places], factor, self.classes)
        x = self.X[self.rows[places]]
        if moves is not None:
            x = move(x, moves)
        return scaled(x, self.dtype), present, gain, proximal

    def values(self) -> list[dict[str, Array]]:
        """The numbers of each model, in the order of the tasks."""
        weights, buffers = (part.float().cpu().numpy() for part in self.final[:2])
        whole = [part.cpu().numpy() for part in self.final[2:]]
        out: list[dict[str, Array]] = [{} for _ in self.tasks]
        for row, i in enumerate(self.number):
            out[i] = self.layout.unpack(weights[row]) | self.side.unpack(buffers[row])
            out[i] |= {key: np.array(part[row]) for key, part in zip(self.whole, whole, strict=True)}
        return out

    def finite(self) -> list[bool]:
        """Whether all numbers of each model are, in the order of the tasks."""
        parts = [part for part in self.final[:2] if part.shape[1]]
        ends = torch.stack([end for part in parts for end in part.aminmax(dim=1)])  # NaN if any number is
        fine, out = ends.isfinite().all(0).tolist(), [True] * len(self.tasks)
        for row, i in enumerate(self.number):
            out[i] = fine[row]
        return out

    def answers(self) -> list[Array]:
        """Logits of what each task asks `(asked, classes)`, in the order of the tasks."""
        asked = [np.empty(0, dtype=np.int64) if task.ask is None else task.ask for task in self.tasks]
        who = [i for i, rows in enumerate(asked) if len(rows)]
        out = [np.empty((0, self.classes), dtype=np.float32) for _ in self.tasks]
        if who:
            at_once = min(max(2 * self.recipe.batch, 64), 512)  # an answer must not depend on what else is asked
            longest = max(len(asked[i]) for i in who)
            table = np.zeros((len(who), -(-longest // at_once) * at_once), dtype=np.int64)
            for row, i in zip(table, who, strict=True):
                row[: len(asked[i])] = asked[i]
            pick = torch.tensor(who, device=self.device)
            weights, buffers, *whole = (part[pick] for part in self.final)
            net = self.net(weights, buffers, whole, None)
            parts = []
            with torch.no_grad():
                for rows in torch.from_numpy(table).to(self.device).split(at_once, 1):  # type: ignore[no-untyped-call]
                    parts.append(net.forward(scaled(self.X[rows], self.dtype)).float())
            logits = torch.cat(parts, 1).cpu().numpy()
            for row, i in zip(logits, who, strict=True):
                out[self.number[i]] = row[: len(asked[i])]
        return out
