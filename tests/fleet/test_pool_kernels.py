"""Kernels give what torch gives. Without a GPU, Triton's own interpreter runs them, where it is installed."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytest.importorskip("triton")

import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.func import jvp, vjp  # noqa: E402

from oneballot.fleet.gpu.pool_kernels import Pooled, try_out  # noqa: E402
from oneballot.fleet.models.network import built_in  # noqa: E402
from oneballot.fleet.train.chain import Chain  # noqa: E402
from oneballot.methods.dosfl.along_kernels import PooledAlong  # noqa: E402
from oneballot.methods.dosfl.initial import initial  # noqa: E402
from oneballot.methods.dosfl.logits import Logits  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CASES = {
    "one depth": (2, 3, 1, 12, 12, 6, 5, 0),
    "an odd pixel, which no pool has": (2, 2, 3, 11, 12, 4, 3, 1),
    "padding": (2, 3, 2, 12, 13, 5, 5, 2),
    "more rows than a tile": (1, 9, 2, 14, 14, 2, 3, 0),
    "sixteen channels": (1, 2, 6, 12, 12, 16, 5, 0),
}


def expected(x: Tensor, weight: Tensor, bias: Tensor, padding: int, d: Tensor) -> list[Tensor]:
    """The result and all slopes, by torch's own layers and autograd, model by model."""
    given = [part.clone().requires_grad_() for part in (x, weight, bias)]
    y = torch.stack([F.relu(F.max_pool2d(F.conv2d(*one, padding=padding), 2)) for one in zip(*given, strict=True)])
    y.backward(d)
    return [y.detach(), *(part.grad for part in given)]


def numbers(case: str, *, whole: bool = False) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """Images, weights and biases of models, which lie behind one another as in a wave; padding; slopes."""
    models, rows, depth, height, width, channels, side, padding = CASES[case]
    drawn = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        if whole:
            return torch.randint(-1, 2, shape, generator=drawn).double().to(DEVICE)
        return torch.randn(*shape, generator=drawn, dtype=torch.float64).to(DEVICE)

    count = channels * depth * side * side
    all_of = draw(models, count + channels + 3)
    weight, bias = all_of[:, :count].view(models, channels, depth, side, side), all_of[:, count : count + channels]
    down, wide = ((edge + 2 * padding - side + 1) // 2 for edge in (height, width))
    x, d = draw(models, rows, depth, height, width), draw(models, rows, channels, down, wide)
    return x, weight, bias, padding, d


@pytest.mark.parametrize("whole", [False, True], ids=["any numbers", "whole numbers, of which many are equal"])
@pytest.mark.parametrize("case", CASES)
def test_convolution_pooling_and_relu_in_one(case: str, whole: bool) -> None:
    x, weight, bias, padding, d = numbers(case, whole=whole)
    slopes = torch.full_like(weight, 7), torch.full_like(bias, 7)
    layer = Pooled(padding, weight, bias, *slopes)
    y = layer.forward(x)
    found = [y, layer.backward(d, True), *slopes]
    for ours, theirs in zip(found, expected(x, weight, bias, padding, d), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_single_precision_too(case: str) -> None:
    """Whole numbers, of which sums are exact: Triton makes other programs of other types."""
    x, weight, bias, padding, d = numbers(case, whole=True)
    slopes = torch.empty_like(weight, dtype=torch.float32), torch.empty_like(bias, dtype=torch.float32)
    layer = Pooled(padding, weight.float(), bias.float(), *slopes)
    found = [layer.forward(x.float()), layer.backward(d.float(), True), *slopes]
    for ours, theirs in zip(found, expected(x, weight, bias, padding, d), strict=True):
        assert torch.equal(ours.double(), theirs)


def pooled(x: Tensor, weight: Tensor, bias: Tensor, padding: int) -> Tensor:
    return F.relu(F.max_pool2d(F.conv2d(x, weight, bias, padding=padding), 2))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's own use of it
@pytest.mark.parametrize("first", [True, False], ids=["the first layer", "images that change too"])
@pytest.mark.parametrize("case", CASES)
def test_changes_along_a_direction_are_those_of_forward_over_reverse(case: str, first: bool) -> None:
    x, weight, bias, padding, d = numbers(case)
    drawn = torch.Generator().manual_seed(1)
    turned, other, moved, drift = (
        torch.randn(part.shape, generator=drawn, dtype=part.dtype).to(DEVICE) for part in (weight, bias, x, d)
    )
    slopes, spare = ((torch.full_like(weight, 7), torch.full_like(bias, 7)) for _ in range(2))
    layer = PooledAlong(
        Pooled(padding, weight, bias, *slopes),
        Pooled(padding, weight, 0 * bias, *spare),
        Pooled(padding, turned, other),
    )
    y, change = layer.forward(x, None if first else moved)
    back, by_images = layer.backward(d, drift)

    def slopes_of(*given: Tensor) -> tuple[Tensor, ...]:
        result, proximal = vjp(lambda *own: pooled(*own, padding), *given[:3])
        return result, *proximal(given[3])

    for i in range(len(x)):
        along = torch.zeros_like(x[i]) if first else moved[i]
        values, changes = jvp(slopes_of, (x[i], weight[i], bias[i], d[i]), (along, turned[i], other[i], drift[i]))
        ours = [y[i], change[i], by_images[i], slopes[0][i], slopes[1][i]]
        theirs = [values[0], changes[0], changes[1], changes[2], changes[3]]
        if not first:
            ours, theirs = [*ours, back[i]], [*theirs, values[1]]
        for one, plain in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, plain, rtol=1e-11, atol=1e-11)


def test_what_is_not_a_number_stays_so() -> None:
    x, weight, bias, padding, _ = numbers("one depth")
    weight[1] = torch.nan
    y = Pooled(padding, weight, bias).forward(x)
    assert y[0].isfinite().all()
    assert y[1].isnan().all()


def test_a_chain_joins_what_fits() -> None:
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Conv2d(4, 40, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(40, 2),
    ).to(DEVICE, torch.float64)  # fmt: skip
    weights = {name: torch.stack([part.detach()] * 2) for name, part in module.named_parameters()}
    chain = Chain(module, weights, way="kernels")
    kinds = [type(layer).__name__ for layer in chain.layers]
    assert kinds == ["Pooled", "Windows", "_ReLU", "Windows", "_ReLU", "_Pool", "_Flat", "Linear"]
    x = torch.rand(2, 5, 1, 14, 14, dtype=torch.float64, device=DEVICE)
    torch.testing.assert_close(chain.forward(x), torch.stack([module(one) for one in x]))


def test_slopes_and_their_change_are_autograds_in_chains_that_join_what_fits() -> None:
    """Of the second convolution the channels do not fit: products of windows."""
    network = built_in("lenet", {"channels": [2, 20], "hidden": [5]}, (1, 14, 14), 3)
    ours, plain = (Logits(network, DEVICE, torch.float64, way=way) for way in ("kernels", "autograd"))
    assert ours.cuts
    assert not Logits(built_in("lenet", {}, (1, 14, 14), 3), DEVICE, way="kernels").cuts
    weights = ours.stack([initial(network, "kaiming", seed) for seed in (1, 2)])
    drawn = torch.Generator().manual_seed(0)
    x, labels, *direction = (
        torch.rand(shape, generator=drawn, dtype=torch.float64).to(DEVICE)
        for shape in [(2, 3, 1, 14, 14), (2, 3, 3), *(weight.shape for weight in weights)]
    )
    change, by_weights, *others = ours.along(weights, x, labels, direction)
    expected_change, expected_by_weights, *expected_others = plain.along(weights, x, labels, direction)
    found = [change, *by_weights, *others, *ours.slopes(weights, x, labels)]
    wanted = [expected_change, *expected_by_weights, *expected_others, *plain.slopes(weights, x, labels)]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_trying_out() -> None:
    try_out(DEVICE)
