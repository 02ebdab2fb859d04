"""Convolutions and normalisation of many models by kernels are what vmap makes of torch's. Without a GPU, Triton's own
interpreter runs them, where it is installed."""

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

from oneballot.fleet import conv_kernels, stacked, vmapped  # noqa: E402

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


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, device=DEVICE, requires_grad=True)


def with_slopes(y: Tensor, given: list[Tensor]) -> list[Tensor]:
    d = torch.linspace(-1, 2, y.numel(), dtype=y.dtype, device=DEVICE).view(y.shape)
    return [y, *torch.autograd.grad(y, given, d)]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("size", SIZES)
def test_convolutions(size: str, how: str) -> None:
    models, rows, depth, height, width, channels, side = SIZES[size]
    torch.manual_seed(0)
    weight = draw(models, channels, depth // HOW[how].get("groups", 1), side, side)
    given = [draw(models, rows, depth, height, width), weight, draw(models, channels)]
    found = []
    for convolution in (vmapped.convolve, F.conv2d):
        y = vmap(lambda x, weight, bias, c=convolution: c(x, weight, bias, **HOW[how]))(*given)
        found.append(with_slopes(y, given))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("size", SIZES)
def test_single_precision_too(size: str) -> None:
    """Whole numbers, of which sums are exact: Triton makes other programs of other types."""
    models, rows, depth, height, width, channels, side = SIZES[size]
    shapes = (models, rows, depth, height, width), (models, channels, depth, side, side)
    exact = [torch.randint(-3, 4, shape, device=DEVICE).double().requires_grad_() for shape in shapes]
    given, found = [part.detach().float().requires_grad_() for part in exact], []
    for convolution, parts in ((vmapped.convolve, given), (F.conv2d, exact)):
        y = vmap(lambda x, weight, c=convolution: c(x, weight, stride=2, padding=side // 2))(*parts)
        d = (torch.arange(y.numel(), device=DEVICE) % 5 - 2).view(y.shape).to(y.dtype)
        found.append([part.double() for part in (y, *torch.autograd.grad(y, parts, d))])
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_images_that_all_models_see() -> None:
    x, weight = draw(5, 4, 9, 8), draw(3, 6, 4, 3, 3)
    y = vmap(vmapped.convolve, in_dims=(None, 0))(x, weight)
    torch.testing.assert_close(y, torch.stack([F.conv2d(x, one) for one in weight]))
    ours, theirs = (torch.autograd.grad(out.sum(), x)[0] for out in (y, F.conv2d(x, weight.flatten(0, 1))))
    torch.testing.assert_close(ours, theirs)


def test_one_model_needs_no_vmap() -> None:
    x, weight = draw(5, 4, 9, 8), draw(6, 4, 3, 3)
    torch.testing.assert_close(vmapped.convolve(x, weight), F.conv2d(x, weight))


def test_sums_over_pixels_do_not_depend_on_how_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, d = draw(2, 9, 3, 16, 16), draw(2, 4, 3, 3, 3), draw(2, 9, 4, 16, 16)
    found = []
    for programs in (1, 4096):
        monkeypatch.setattr(conv_kernels, "PROGRAMS", programs)
        found.append(conv_kernels.slopes_by_weight(x.detach(), weight.detach(), d.detach(), 1, (1, 1)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("shape", [(3, 5, 4, 7), (2, 6, 3, 1), (2, 40, 2, 100)], ids=str)
def test_normalisation_of_the_rows_that_are_present(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    given = [draw(*shape), draw(shape[0], shape[2]), draw(shape[0], shape[2])]
    present = torch.rand(shape[:2], device=DEVICE) > 0.3
    present[0] = shape[0] == 2  # or a model without any row
    found = []
    for normalize in (vmapped.normalize, stacked._normalize):
        y, *others = vmap(lambda x, weight, bias, there, n=normalize: n(x, weight, bias, there, 1e-5))(*given, present)
        found.append([*with_slopes(y, given), *others])
    torch.testing.assert_close(*found)
