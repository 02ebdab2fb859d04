"""Custom modules: their random numbers are independent, and unusable modules are refused before training."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from oneballot.errors import ElectionError  # noqa: E402
from oneballot.fleet.models.custom import Generators  # noqa: E402
from oneballot.fleet.models.network import custom  # noqa: E402
from oneballot.fleet.train.chain import is_chain  # noqa: E402
from oneballot.fleet.train.engine import train  # noqa: E402
from oneballot.fleet.train.probe import why_not_stacked  # noqa: E402
from oneballot.fleet.train.recipe import Recipe  # noqa: E402
from oneballot.types import Array, Task  # noqa: E402

torch.set_num_threads(1)
CLASSES, RECIPE = 3, Recipe(epochs=2, batch=4)
X = np.random.default_rng(0).normal(size=(30, 12)).astype(np.float32)


def make_tasks(*sizes: int) -> list[Task]:
    y = np.random.default_rng(1).integers(0, CLASSES, 30)
    return [Task(np.arange(n), y[:n], seed=seed, ask=np.arange(30)) for seed, n in enumerate(sizes)]


def logits(factory: Any, tasks: list[Task], **more: Any) -> list[Array]:
    return train(custom(factory, (12,), CLASSES), X, tasks, RECIPE, CLASSES, device="cpu", **more).logits


class Plain(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(12, 8), nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Any:
        return self.out(self.inner(x).relu())


class Noisy(Plain):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x + torch.randn_like(x) if self.training else x)


def chain(classes: int) -> nn.Module:
    layers = [nn.Linear(12, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(200, classes))


def test_initial_weights_do_not_depend_on_threads() -> None:
    tasks = make_tasks(*[8] * 40)
    alone = logits(chain, tasks)
    for _ in range(3):
        for a, b in zip(alone, logits(chain, tasks, workers=2), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_modules_random_numbers_are_independent_and_leave_torchs_generators_unchanged() -> None:
    """Neither earlier draws, nor another model's rows, nor a progress watcher between epochs changes a model."""
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = logits(Noisy, make_tasks(9, 8))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    np.testing.assert_array_equal(logits(Noisy, make_tasks(9, 8))[0], first[0])
    np.testing.assert_array_equal(logits(Noisy, make_tasks(25, 8))[1], first[1])
    assert not np.array_equal(logits(Noisy, [make_tasks(9)[0], make_tasks(9)[0]])[0], logits(Plain, make_tasks(9))[0])


def test_generators_continue_where_they_stopped() -> None:
    drawn = Generators(5, 1)

    def work() -> Any:
        for _ in range(3):
            kept.append(torch.rand(2))
            yield

    kept: list[Tensor] = []
    for _ in drawn.during(work()):
        torch.rand(3)
    torch.manual_seed(drawn.seed)
    torch.testing.assert_close(torch.stack(kept), torch.rand(6).view(3, 2))


def tied(classes: int) -> nn.Module:
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 12), nn.Linear(12, classes))
    module[3].weight = module[1].weight
    return module


class Counter(Plain):
    """Its first buffer is an integer, which is not trained."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.inner, self.number = nn.Identity(), nn.Parameter(torch.arange(3), requires_grad=False)
        self.out = nn.Linear(12, classes)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Any:
        if self.training:
            self.steps.add_(1)
        return self.out(x) / (1 + self.steps)


def test_a_shared_weight_is_trained_once() -> None:
    assert not is_chain(tied(CLASSES))
    values = train(custom(tied, (12,), CLASSES), X, make_tasks(9), RECIPE, CLASSES, device="cpu").values[0]
    np.testing.assert_array_equal(values["1.weight"], values["3.weight"])


def test_integer_buffers_of_a_stacked_model_are_kept() -> None:
    network, tasks = custom(Counter, (12,), CLASSES), make_tasks(9, 17, 4)
    assert why_not_stacked(network, torch.from_numpy(X), tasks[0], CLASSES) == ""
    stacked = train(network, X, tasks, RECIPE, CLASSES, device="cpu", how="stacked")
    loop = train(network, X, tasks, RECIPE, CLASSES, device="cpu", how="loop")
    for i, steps in enumerate((6, 10, 2)):
        assert stacked.values[i]["steps"] == loop.values[i]["steps"] == steps
        np.testing.assert_allclose(stacked.logits[i], loop.logits[i], atol=1e-5)


class Detached(Plain):
    def forward(self, x: Tensor) -> Any:
        return self.out(self.inner(x).detach())


def test_modules_with_unused_weights_are_trained_in_a_loop() -> None:
    """A loop does not decay them; a fused optimizer would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reason = why_not_stacked(custom(Detached, (12,), CLASSES), torch.from_numpy(X), make_tasks(4)[0], CLASSES)
    assert reason == "its output does not depend on all of its weights (inner.weight, inner.bias)"


class Running(Plain):
    def __init__(self, classes: int, persistent: bool) -> None:
        super().__init__(classes)
        self.register_buffer("mean", torch.zeros(8), persistent=persistent)

    def forward(self, x: Tensor) -> Any:
        y = self.inner(x)
        if self.training:
            self.mean.lerp_(y.detach().mean(0), 0.5)
        return self.out(y - self.mean)


class Attribute(Plain):
    mean: Any = 0.0

    def forward(self, x: Tensor) -> Any:
        y = self.inner(x)
        if self.training:
            self.mean = y.detach().mean(0)
        return self.out(y - self.mean)


class Extra(Plain):
    def get_extra_state(self) -> Any:
        return {"a": 1}


class Pair(Plain):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x), 1


def with_(module: nn.Module, change: Any) -> nn.Module:
    change(module)
    return module


@pytest.mark.parametrize(
    ("factory", "says"),
    [
        (lambda c: None, "returns NoneType, not an nn.Module"),
        (lambda c: nn.Sequential(nn.LazyLinear(c)), "has lazy layers, whose parameters do not exist yet"),
        (Extra, r"values that are not tensors \(_extra_state\)"),
        (lambda c: Plain(c).double(), "inner.weight, .*: expected float32"),
        (lambda c: Plain(c).bfloat16(), "expected float32"),
        (lambda c: Plain(c).requires_grad_(False), "has no trainable parameter"),
        (lambda c: nn.Identity(), "has no trainable parameter"),
        (lambda c: with_(Detached(c), lambda m: m.out.requires_grad_(False)), "does not depend on"),
        (Pair, r"Pair returns tuple: expected a tensor \(rows, 3\)"),
        (lambda c: Plain(c + 2), r"\(2, 5\) for two rows: expected float32 \(2, 3\), a number for each class"),
        (lambda c: nn.Sequential(nn.Flatten(), nn.Linear(12, c - 1)), r"\(2, 2\) for two rows: expected"),
        (lambda c: nn.Sequential(nn.Flatten(), nn.Linear(13, c)), r"two rows of shape \(12,\).*cannot be multiplied"),
        (lambda c: Running(c, persistent=False), "learns something outside its state_dict"),
        (Attribute, "learns something outside its state_dict"),
    ],
    ids=range(14),
)
def test_an_unusable_module_is_refused_before_training(factory: Any, says: str) -> None:
    with pytest.raises(ElectionError, match=says):
        logits(factory, make_tasks(9))


def test_a_running_mean_in_a_buffer_is_accepted() -> None:
    assert np.isfinite(logits(lambda c: Running(c, persistent=True), make_tasks(9))[0]).all()
