"""Gradients through gradient descent, against plain autograd, finite differences and a closed form."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from oneballot.fleet.models.network import Network, built_in  # noqa: E402
from oneballot.methods.dosfl.initialization import draw_initial_weights  # noqa: E402
from oneballot.methods.dosfl.stacked import StackedNetwork  # noqa: E402
from oneballot.methods.dosfl.steps import DistilledSteps, backpropagate, descend, sgd_step  # noqa: E402

CPU, DOUBLE = torch.device("cpu"), torch.float64
WORDS = {"vocabulary": 9, "dimension": 4, "embedding": "frozen"}
NETWORKS = {
    "mlp": ({"hidden": [4]}, (3,)),
    "lenet": ({"channels": [5, 3], "hidden": [5]}, (1, 14, 14)),
    "textcnn": ({**WORDS, "filters": 3, "widths": [2, 3]}, (6,)),
    "bilstm": ({**WORDS, "hidden": 3, "layers": 2}, (5,)),
    "transformer": ({**WORDS, "heads": 2, "layers": 1, "width": 6, "dropout": 0.5}, (5,)),
}


@cache
def network(name: str) -> Network:
    settings, shape = NETWORKS[name]
    return built_in(name, settings, shape, 3)


def random_steps(net: StackedNetwork, models: int, steps: int = 2, batch: int = 2) -> DistilledSteps:
    rng = torch.Generator().manual_seed(5)
    inputs = torch.randn(models, steps, batch, *net.shape, generator=rng, dtype=DOUBLE)
    labels = torch.rand(models, steps, batch, 3, generator=rng, dtype=DOUBLE)
    rates = 0.1 + torch.rand(models, steps, generator=rng, dtype=DOUBLE)
    return DistilledSteps(inputs, labels, rates)


def parts(steps: DistilledSteps) -> tuple[Tensor, Tensor, Tensor]:
    return steps.inputs, steps.labels, steps.rates


def loss_on_rows(net: StackedNetwork, weights: list[Tensor]) -> Tensor:
    rng = torch.Generator().manual_seed(6)
    x = torch.randn(len(weights[0]), 4, *net.shape, generator=rng, dtype=DOUBLE)
    return net(weights, x).log_softmax(-1)[..., 0].mean(1).neg()


def loss_gradients(
    net: StackedNetwork, initial: list[Tensor], steps: DistilledSteps, epochs: int
) -> tuple[Tensor, Tensor, Tensor]:
    path = [initial, *descend(net, initial, steps, epochs)]
    final = [weight.detach().requires_grad_() for weight in path[-1]]
    return backpropagate(net, path, steps, torch.autograd.grad(loss_on_rows(net, final).sum(), final))


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_equal_those_of_the_unrolled_loop(name: str) -> None:
    """Plain autograd through all steps at once, one model at a time."""
    net = StackedNetwork(network(name), CPU, DOUBLE)
    initial = net.stack([draw_initial_weights(network(name), "xavier-uniform", seed) for seed in (1, 2)])
    steps = random_steps(net, 2)
    ours = loss_gradients(net, initial, steps, epochs=2)
    for i in range(2):
        leaves = [part[i : i + 1].clone().requires_grad_() for part in parts(steps)]
        weights = [weight[i : i + 1].clone().requires_grad_() for weight in initial]
        for _ in range(2):
            for j in range(2):
                x, y, rate = (part[:, j] for part in leaves)
                loss = -(y * net(weights, x).log_softmax(-1)).sum(-1).mean()
                gradients = torch.autograd.grad(loss, weights, create_graph=True)
                weights = [w - rate.squeeze() * g for w, g in zip(weights, gradients, strict=True)]
        theirs = torch.autograd.grad(loss_on_rows(net, [torch.cat([w, w]) for w in weights])[i], leaves)
        for mine, plain in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine[i : i + 1], plain, rtol=1e-9, atol=1e-12)


def test_gradients_agree_with_finite_differences() -> None:
    net = StackedNetwork(network("mlp"), CPU, DOUBLE)
    initial = net.stack([draw_initial_weights(network("mlp"), "torch", 3)])
    steps = random_steps(net, 1)
    gradients, tiny = loss_gradients(net, initial, steps, epochs=3), 1e-6
    for part, gradient in zip(parts(steps), gradients, strict=True):
        for place in range(part.numel()):
            losses = []
            for sign in (1, -1):
                part.view(-1)[place] += sign * tiny
                *_, final = descend(net, initial, steps, 3)
                losses.append(loss_on_rows(net, final).item())
                part.view(-1)[place] -= sign * tiny
            assert gradient.reshape(-1)[place].item() == pytest.approx((losses[0] - losses[1]) / (2 * tiny), abs=1e-8)


def test_one_step_of_a_linear_model_has_its_closed_form() -> None:
    """Softmax regression at 0: g = (1/K - y)xᵀ, so the weights after a step and the gradient by the rate are known."""
    plain = built_in("mlp", {"hidden": [1]}, (2,), 3)
    net = StackedNetwork(plain, CPU, DOUBLE)
    initial = [torch.zeros_like(weight) for weight in net.stack([plain.start(0)])]
    initial[0][:] = 1.0  # the hidden unit is x₁ + x₂, where that is positive: a linear model of one feature
    x, y, rate = np.array([2.0, 3.0]), np.array([0.7, 0.2, 0.1]), 0.5
    steps = DistilledSteps(
        torch.tensor(x).view(1, 1, 1, 2), torch.tensor(y).view(1, 1, 1, 3), torch.tensor([[rate]]).double()
    )
    path = [initial, *descend(net, initial, steps, 1)]
    gradient = np.outer(y.sum() / 3 - y, [x.sum(), 1.0])  # of the last layer's weight and bias
    np.testing.assert_allclose(path[-1][2].numpy()[0, :, 0], -rate * gradient[:, 0], rtol=1e-12)
    np.testing.assert_allclose(path[-1][3].numpy()[0], -rate * gradient[:, 1], rtol=1e-12)
    np.testing.assert_allclose(path[-1][0].numpy(), initial[0].numpy())  # its gradient is 0: the last layer is 0
    last = [torch.zeros_like(weight) for weight in initial]
    last[2][0, 1, 0] = 1.0  # the loss is one weight of the last layer
    by_inputs, by_labels, by_rates = backpropagate(net, path, steps, last)
    np.testing.assert_allclose(by_rates.numpy(), [[-gradient[1, 0]]], rtol=1e-12)
    np.testing.assert_allclose(by_inputs.numpy().ravel(), -rate * (y.sum() / 3 - y[1]) * np.ones(2), rtol=1e-12)
    np.testing.assert_allclose(by_labels.numpy().ravel(), -rate * (1 / 3 - np.eye(3)[1]) * x.sum(), rtol=1e-12)


@pytest.mark.parametrize("implementation", ["separate", "windows"])
@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_chains_give_the_gradients_of_autograd_and_leave_their_inputs_unchanged(name: str, implementation: Any) -> None:
    chain, autograd = (StackedNetwork(network(name), CPU, DOUBLE, mode=each) for each in (implementation, "autograd"))
    initial = chain.stack([draw_initial_weights(network(name), "kaiming", seed) for seed in (1, 2, 3)])
    steps = random_steps(chain, 3)
    before = steps.inputs.clone()
    gradients = (loss_gradients(net, initial, steps, 2) for net in (chain, autograd))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    assert torch.equal(steps.inputs, before)
    assert chain.unfolds == (name == "lenet" and implementation == "windows")


def test_a_step_equals_a_step_of_torch_sgd() -> None:
    net = StackedNetwork(network("lenet"), CPU, DOUBLE)
    weights = draw_initial_weights(network("lenet"), "torch", 4)
    steps = random_steps(net, 1)
    ours = sgd_step(net, net.stack([weights]), *steps[0])
    module = network("lenet").make(weights).double()
    optimizer = torch.optim.SGD(module.parameters(), lr=steps.rates[0, 0].item())
    torch.nn.functional.cross_entropy(module(steps.inputs[0, 0]), steps.labels[0, 0]).backward()
    optimizer.step()
    for mine, theirs in zip(ours, module.parameters(), strict=True):
        torch.testing.assert_close(mine[0], theirs.detach(), rtol=1e-9, atol=1e-12)
