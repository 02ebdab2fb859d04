"""The Triton kernels for many models agree with torch under vmap. Without a GPU, Triton's interpreter runs them."""

from __future__ import annotations

import os
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytest.importorskip("triton")

import torch.nn.functional as F  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.func import vmap  # noqa: E402

from oneballot.fleet.gpu import conv_kernels, vmapped  # noqa: E402
from oneballot.fleet.models.network import built_in  # noqa: E402
from oneballot.fleet.train import stacked  # noqa: E402
from oneballot.fleet.train.devices import precision  # noqa: E402
from oneballot.fleet.train.recipe import Recipe  # noqa: E402
from oneballot.fleet.train.stacked import Stacked  # noqa: E402

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HOW: dict[str, dict[str, Any]] = {
    "plain": {}, "padding": {"padding": 1}, "strides": {"stride": 2, "padding": (0, 1)}, "far": {"stride": (4, 4)},
    "holes": {"dilation": 2}, "groups": {"groups": 2}, "same": {"padding": "same"}, "uneven": {"stride": (2, 1)},
    "beyond": {"padding": 3},
}  # fmt: skip
SIZES = {
    "small": (3, 5, 4, 9, 8, 6, 3),
    "more channels than a tile": (2, 1, 20, 5, 5, 70, 3),
    "one": (2, 3, 4, 6, 6, 4, 1),
}


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An entry for each convolution by a kernel, with its number of models."""
    seen, own = [], vmapped._Convolution.forward

    def forward(x: Tensor, *others: Any) -> Tensor:
        seen.append(f"{len(x)} models")
        return own(x, *others)

    monkeypatch.setattr(vmapped._Convolution, "forward", staticmethod(forward))
    return seen


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, device=DEVICE, requires_grad=True)


def with_gradients(y: Tensor, given: list[Tensor]) -> list[Tensor]:
    d = torch.linspace(-1, 2, y.numel(), dtype=y.dtype, device=DEVICE).view(y.shape)
    return [y, *torch.autograd.grad(y, given, d)]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("size", SIZES)
def test_convolutions_agree_with_vmap(size: str, how: str, kernels: list[str]) -> None:
    models, rows, depth, height, width, channels, side = SIZES[size]
    torch.manual_seed(0)
    weight = draw(models, channels, depth // HOW[how].get("groups", 1), side, side)
    given = [draw(models, rows, depth, height, width), weight, draw(models, channels)]
    results = []
    for convolution in (vmapped.convolve, F.conv2d):
        y = vmap(lambda x, weight, bias, c=convolution: c(x, weight, bias, **HOW[how]))(*given)
        results.append(with_gradients(y, given))
    torch.testing.assert_close(*results)
    simple = ("plain", "far") if side == 1 else ("plain", "padding", "strides", "far")
    assert len(kernels) == (how in simple), "the others are left to torch"


@pytest.mark.parametrize("size", SIZES)
def test_convolutions_are_exact_on_integers_in_single_precision(size: str) -> None:
    """Sums of integers are exact; Triton compiles a separate program for each type."""
    models, rows, depth, height, width, channels, side = SIZES[size]
    shapes = (models, rows, depth, height, width), (models, channels, depth, side, side)
    exact = [torch.randint(-3, 4, shape, device=DEVICE).double().requires_grad_() for shape in shapes]
    given, results = [part.detach().float().requires_grad_() for part in exact], []
    for convolution, parts in ((vmapped.convolve, given), (F.conv2d, exact)):
        y = vmap(lambda x, weight, c=convolution: c(x, weight, stride=2, padding=side // 2))(*parts)
        d = (torch.arange(y.numel(), device=DEVICE) % 5 - 2).view(y.shape).to(y.dtype)
        results.append([part.double() for part in (y, *torch.autograd.grad(y, parts, d))])
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_models_can_share_images() -> None:
    x, weight = draw(5, 4, 9, 8), draw(3, 6, 4, 3, 3)
    y = vmap(vmapped.convolve, in_dims=(None, 0))(x, weight)
    torch.testing.assert_close(y, torch.stack([F.conv2d(x, one) for one in weight]))
    ours, theirs = (torch.autograd.grad(out.sum(), x)[0] for out in (y, F.conv2d(x, weight.flatten(0, 1))))
    torch.testing.assert_close(ours, theirs)


BAD = {
    "other depths": ((3, 1, 5, 5), (4, 2, 3, 3), None),
    "a window larger than the image": ((3, 2, 2, 2), (4, 2, 3, 3), None),
    "other types": ((3, 2, 5, 5), (4, 2, 3, 3), None), "a bias of one": ((3, 2, 5, 5), (4, 2, 3, 3), (1,)),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_invalid_arguments_raise_torchs_error(case: str) -> None:
    x, weight = (draw(*shape) for shape in BAD[case][:2])
    bias = draw(*BAD[case][2]) if BAD[case][2] else None  # type: ignore[misc]
    if case == "other types":
        weight = weight.float()
    with pytest.raises(RuntimeError) as theirs:
        F.conv2d(x, weight, bias)
    with pytest.raises(RuntimeError) as ours:
        vmapped.convolve(x, weight, bias)
    assert str(ours.value) == str(theirs.value)


def test_an_empty_batch_is_left_to_torch(kernels: list[str]) -> None:
    assert vmapped.convolve(torch.zeros(0, 2, 5, 5), torch.zeros(3, 2, 3, 3)).shape == (0, 3, 3, 3)
    assert not kernels


def test_second_derivatives_are_refused() -> None:
    x, weight = draw(2, 2, 5, 5), draw(3, 2, 3, 3)
    (gradient,) = torch.autograd.grad(vmapped.convolve(x, weight).square().sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_half_precision_is_left_to_torch(kernels: list[str]) -> None:
    with torch.autocast(DEVICE.type, torch.bfloat16):
        y = vmapped.convolve(draw(2, 2, 5, 5).float(), draw(3, 2, 3, 3).float())
    assert y.dtype == torch.bfloat16
    assert not kernels


@pytest.mark.parametrize("kind", [torch.float64, torch.float32], ids=str)
def test_stacked_networks_use_the_kernels_and_agree_with_torch(
    kind: torch.dtype, kernels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions, normalisation and running means of ResNets, with an absent row."""
    network = built_in("resnet8", {"width": 4}, (3, 8, 8), 3)
    module, starts = network.bare.to(DEVICE, kind), [network.start(seed) for seed in range(2)]
    values = {
        key: torch.stack([torch.from_numpy(start[key]) for start in starts]).to(DEVICE, kind) for key in starts[0]
    }
    learned = dict(module.named_parameters())
    torch.manual_seed(0)
    x, d = torch.rand(2, 3, 3, 8, 8, device=DEVICE, dtype=kind), torch.randn(2, 3, 3, device=DEVICE, dtype=kind)
    present = torch.tensor([[True, True, True], [True, True, False]], device=DEVICE)
    results = []
    for with_kernels in (True, False):
        monkeypatch.setattr(vmapped, "has_kernels", lambda x, use=with_kernels: use)
        weights, buffers = ({k: v.clone() for k, v in values.items() if (k in learned) == own} for own in (True, False))
        gradients = {key: torch.zeros_like(value) for key, value in weights.items()}
        stacked = Stacked(module, weights, gradients, buffers=buffers)
        with precision(Recipe(), DEVICE):
            y = stacked.forward(x, present)
            stacked.backward(d * present.unsqueeze(-1))
        results.append([y * present.unsqueeze(-1), gradients, buffers])
    near = {"rtol": 1e-9, "atol": 1e-9} if kind == torch.float64 else {"rtol": 1e-3, "atol": 1e-4}
    torch.testing.assert_close(*results, **near)
    assert kernels == ["2 models"] * 9


def test_one_model_works_without_vmap() -> None:
    x, weight = draw(5, 4, 9, 8), draw(6, 4, 3, 3)
    torch.testing.assert_close(vmapped.convolve(x, weight), F.conv2d(x, weight))


def test_sums_over_pixels_do_not_depend_on_how_they_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, d = draw(2, 9, 3, 16, 16), draw(2, 4, 3, 3, 3), draw(2, 9, 4, 16, 16)
    results = []
    for programs in (1, 4096):
        monkeypatch.setattr(conv_kernels, "PROGRAMS", programs)
        results.append(conv_kernels.gradient_by_weight(x.detach(), weight.detach(), d.detach(), 1, (1, 1)))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("shape", [(3, 5, 4, 7), (2, 6, 3, 1), (2, 40, 2, 100)], ids=str)
def test_normalisation_uses_only_the_rows_that_are_present(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    given = [draw(*shape), draw(shape[0], shape[2]), draw(shape[0], shape[2])]
    present = torch.rand(shape[:2], device=DEVICE) > 0.3
    present[0] = shape[0] == 2  # all rows of the first model, or none
    results = []
    for normalize in (vmapped.normalize, stacked._normalize):
        y, *others = vmap(lambda x, weight, bias, there, n=normalize: n(x, weight, bias, there, 1e-5))(*given, present)
        results.append([*with_gradients(y, given), *others])
    torch.testing.assert_close(*results)
