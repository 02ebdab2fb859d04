"""Lessons against plain autograd, finite differences and a closed form."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from oneballot.fleet.models.network import Network, built_in  # noqa: E402
from oneballot.methods.dosfl.initial import initial  # noqa: E402
from oneballot.methods.dosfl.lessons import Lesson, slopes, step, take  # noqa: E402
from oneballot.methods.dosfl.logits import Logits  # noqa: E402

CPU, DOUBLE = torch.device("cpu"), torch.float64
SHAPES = {
    "mlp": ({"hidden": [4]}, (3,)),
    "lenet": ({"channels": [5, 3], "hidden": [5]}, (1, 14, 14)),  # images of few channels, and of more
    "textcnn": ({"vocabulary": 9, "dimension": 4, "embedding": "frozen", "filters": 3, "widths": [2, 3]}, (6,)),
    "bilstm": ({"vocabulary": 9, "dimension": 4, "embedding": "frozen", "hidden": 3, "layers": 2}, (5,)),
    "transformer": (
        {"vocabulary": 9, "dimension": 4, "embedding": "frozen", "heads": 2, "layers": 1, "width": 6, "dropout": 0.5},
        (5,),
    ),
}


@cache
def network(name: str) -> Network:
    settings, shape = SHAPES[name]
    return built_in(name, settings, shape, 3)


def lesson_for(net: Logits, models: int, steps: int = 2, batch: int = 2) -> Lesson:
    rng = torch.Generator().manual_seed(5)
    inputs = torch.randn(models, steps, batch, *net.shape, generator=rng, dtype=DOUBLE)
    labels = torch.rand(models, steps, batch, 3, generator=rng, dtype=DOUBLE)
    rates = 0.1 + torch.rand(models, steps, generator=rng, dtype=DOUBLE)
    return Lesson(inputs, labels, rates)


def real_loss(net: Logits, weights: list[Tensor]) -> Tensor:
    rng = torch.Generator().manual_seed(6)
    x = torch.randn(len(weights[0]), 4, *net.shape, generator=rng, dtype=DOUBLE)
    return net(weights, x).log_softmax(-1)[..., 0].mean(1).neg()


def found_slopes(net: Logits, start: list[Tensor], lesson: Lesson, epochs: int) -> tuple[Tensor, Tensor, Tensor]:
    path = take(net, start, lesson, epochs)
    held = [weight.detach().requires_grad_() for weight in path[-1]]
    return slopes(net, path, lesson, torch.autograd.grad(real_loss(net, held).sum(), held))


@pytest.mark.parametrize("name", SHAPES)
def test_slopes_are_those_of_the_unrolled_loop(name: str) -> None:
    """Plain autograd through every step at once, one model at a time and without vmap's help for models."""
    net = Logits(network(name), CPU, DOUBLE)
    start = net.stack([initial(network(name), "xavier-uniform", seed) for seed in (1, 2)])
    lesson = lesson_for(net, 2)
    ours = found_slopes(net, start, lesson, epochs=2)
    for i in range(2):
        parts = [part[i : i + 1].clone().requires_grad_() for part in (lesson.inputs, lesson.labels, lesson.rates)]
        weights = [weight[i : i + 1].clone().requires_grad_() for weight in start]
        for _ in range(2):
            for j in range(2):
                x, y, rate = (part[:, j] for part in parts)
                loss = -(y * net(weights, x).log_softmax(-1)).sum(-1).mean()
                found = torch.autograd.grad(loss, weights, create_graph=True)
                weights = [w - rate.squeeze() * g for w, g in zip(weights, found, strict=True)]
        theirs = torch.autograd.grad(real_loss(net, [torch.cat([w, w]) for w in weights])[i], parts)
        for mine, plain in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine[i : i + 1], plain, rtol=1e-9, atol=1e-12)


def test_slopes_agree_with_finite_differences() -> None:
    net = Logits(network("mlp"), CPU, DOUBLE)
    start = net.stack([initial(network("mlp"), "torch", 3)])
    lesson = lesson_for(net, 1)
    ours, tiny = found_slopes(net, start, lesson, epochs=3), 1e-6
    for part, slope in zip((lesson.inputs, lesson.labels, lesson.rates), ours, strict=True):
        for place in range(part.numel()):
            values = []
            for sign in (1, -1):
                part.view(-1)[place] += sign * tiny
                values.append(real_loss(net, take(net, start, lesson, 3)[-1]).item())
                part.view(-1)[place] -= sign * tiny
            assert slope.reshape(-1)[place].item() == pytest.approx((values[0] - values[1]) / (2 * tiny), abs=1e-8)


def test_one_step_of_a_linear_model_has_its_closed_form() -> None:
    """Softmax regression at 0: g = (1/K - y)xᵀ, so the weights after a step, and the slopes by the rate, are known."""
    plain = built_in("mlp", {"hidden": [1]}, (2,), 3)
    net = Logits(plain, CPU, DOUBLE)
    start = [torch.zeros_like(weight) for weight in net.stack([plain.start(0)])]
    start[0][:] = 1.0  # the hidden unit is x₁ + x₂, where that is positive: a linear model of one feature
    x, y, rate = np.array([2.0, 3.0]), np.array([0.7, 0.2, 0.1]), 0.5
    lesson = Lesson(torch.tensor(x).view(1, 1, 1, 2), torch.tensor(y).view(1, 1, 1, 3), torch.tensor([[rate]]).double())
    path = take(net, start, lesson, 1)
    slope = np.outer(y.sum() / 3 - y, [x.sum(), 1.0])  # of the last layer's weight and bias
    np.testing.assert_allclose(path[-1][2].numpy()[0, :, 0], -rate * slope[:, 0], rtol=1e-12)
    np.testing.assert_allclose(path[-1][3].numpy()[0], -rate * slope[:, 1], rtol=1e-12)
    np.testing.assert_allclose(path[-1][0].numpy(), start[0].numpy())  # its slope is 0: the last layer is 0
    aim = [torch.zeros_like(weight) for weight in start]
    aim[2][0, 1, 0] = 1.0  # whatever is wanted, by one weight of the last layer
    by_inputs, by_labels, by_rates = slopes(net, path, lesson, aim)
    np.testing.assert_allclose(by_rates.numpy(), [[-slope[1, 0]]], rtol=1e-12)
    np.testing.assert_allclose(by_inputs.numpy().ravel(), -rate * (y.sum() / 3 - y[1]) * np.ones(2), rtol=1e-12)
    np.testing.assert_allclose(by_labels.numpy().ravel(), -rate * (1 / 3 - np.eye(3)[1]) * x.sum(), rtol=1e-12)


@pytest.mark.parametrize("implementation", ["separate", "windows"])
@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_chains_without_autograd_give_what_autograd_gives(name: str, implementation: Any) -> None:
    """And leave what they are given as it is."""
    implementations = [Logits(network(name), CPU, DOUBLE, implementation=each) for each in (implementation, "autograd")]
    start = implementations[0].stack([initial(network(name), "kaiming", seed) for seed in (1, 2, 3)])
    lesson = lesson_for(implementations[0], 3)
    before = lesson.inputs.clone()
    for one, other in zip(*(found_slopes(net, start, lesson, 2) for net in implementations), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    assert torch.equal(lesson.inputs, before)
    assert implementations[0].cuts == (name == "lenet" and implementation == "windows")


def test_a_step_is_torchs_own_sgd() -> None:
    net = Logits(network("lenet"), CPU, DOUBLE)
    values = initial(network("lenet"), "torch", 4)
    lesson = lesson_for(net, 1)
    ours = step(net, net.stack([values]), lesson.inputs[:, 0], lesson.labels[:, 0], lesson.rates[:, 0])
    module = network("lenet").make(values).double()
    optimizer = torch.optim.SGD(module.parameters(), lr=lesson.rates[0, 0].item())
    torch.nn.functional.cross_entropy(module(lesson.inputs[0, 0]), lesson.labels[0, 0]).backward()
    optimizer.step()
    for mine, theirs in zip(ours, module.parameters(), strict=True):
        torch.testing.assert_close(mine[0], theirs.detach(), rtol=1e-9, atol=1e-12)
