"""Networks for numbers and images: FedKT's MLP and CNN, LeNet, VGG-9, ResNets, and a network with GroupNorm."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

Shape = tuple[int, ...]
GROUPS = 8
"""Groups of channels that are normalised together, if their number divides that of the channels."""


def mlp(shape: Shape, classes: int, hidden: Sequence[int]) -> nn.Module:
    """Fully connected layers (FedKT, section 5: two of 100 units); softmax regression if `hidden` is empty."""
    sizes = [math.prod(shape), *hidden]
    layers: OrderedDict[str, nn.Module] = OrderedDict(flat=nn.Flatten())
    for i, (a, b) in enumerate(pairwise(sizes), start=1):
        layers |= {f"layer{i}": nn.Linear(a, b), f"relu{i}": nn.ReLU()}
    return nn.Sequential(layers | {"out": nn.Linear(sizes[-1], classes)})


def convolutional(shape: Shape, classes: int, channels: Sequence[int], hidden: Sequence[int], pad: int) -> nn.Module:
    """5x5 convolutions, each with 2x2 max pooling, then fully connected layers: FedKT's CNN; with pad 2, LeNet-5.

    Pooling comes before ReLU, which gives the same result at a quarter of the work.
    """
    depth, height, width = shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, size in enumerate(channels, start=1):
        around = pad if i == 1 else 0
        layers[f"conv{i}"] = nn.Conv2d(depth, size, 5, padding=around)
        layers |= {f"pool{i}": nn.MaxPool2d(2), f"relu{i}": nn.ReLU()}
        depth, height, width = size, (height + 2 * around - 4) // 2, (width + 2 * around - 4) // 2
    layers["flat"] = nn.Flatten()
    sizes = [depth * height * width, *hidden]
    for i, (a, b) in enumerate(pairwise(sizes), start=len(channels) + 1):
        layers |= {f"layer{i}": nn.Linear(a, b), f"relu{i}": nn.ReLU()}
    return nn.Sequential(layers | {"out": nn.Linear(sizes[-1], classes)})


def vgg9(shape: Shape, classes: int, width: int, hidden: int, dropout: float) -> nn.Module:
    """Table 13 of FedKT's appendix: width 32 and hidden 512 there."""
    depth, height, across = shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, times in enumerate((1, 2, 4, 4, 8, 8), start=1):
        layers[f"conv{i}"] = nn.Conv2d(depth, times * width, 3, padding=1)
        depth = times * width
        if i % 2 == 0:  # ReLU and max pooling commute
            layers[f"pool{i // 2}"] = nn.MaxPool2d(2)
        layers[f"relu{i}"] = nn.ReLU()
        if i in (4, 6):
            layers[f"drop{i // 2}"] = nn.Dropout(dropout)
    inside = depth * (height // 8) * (across // 8)
    layers |= {"flat": nn.Flatten(), "layer7": nn.Linear(inside, hidden), "relu7": nn.ReLU()}
    layers |= {"layer8": nn.Linear(hidden, hidden), "relu8": nn.ReLU(), "drop4": nn.Dropout(dropout)}
    return nn.Sequential(layers | {"out": nn.Linear(hidden, classes)})


def convnet(shape: Shape, classes: int, channels: Sequence[int]) -> nn.Module:
    """3x3 convolutions, each with group normalisation and 2x2 max pooling, then one linear layer.

    A normalised image does not depend on the others of its batch, so that few rows and uneven classes do no harm.
    """
    depth, height, width = shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, size in enumerate(channels, start=1):
        layers[f"conv{i}"] = nn.Conv2d(depth, size, 3, padding=1, bias=False)
        layers[f"norm{i}"] = nn.GroupNorm(math.gcd(size, GROUPS), size)
        layers |= {f"pool{i}": nn.MaxPool2d(2), f"relu{i}": nn.ReLU()}  # these two commute
        depth, height, width = size, height // 2, width // 2
    return nn.Sequential(layers | {"flat": nn.Flatten(), "out": nn.Linear(depth * height * width, classes)})


class Block(nn.Module):
    """Two 3x3 convolutions with batch normalisation, and a shortcut (He et al. 2016, basic block)."""

    def __init__(self, depth: int, size: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(depth, size, 3, stride, 1, bias=False)
        self.norm1 = _norm(size)
        self.conv2 = nn.Conv2d(size, size, 3, 1, 1, bias=False)
        self.norm2 = _norm(size)
        self.around: nn.Module = nn.Identity()
        if stride > 1 or depth != size:
            self.around = nn.Sequential(nn.Conv2d(depth, size, 1, stride, bias=False), _norm(size))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.around(x))


class ResNet(nn.Module):
    """Stages of blocks, each with half the side and twice the channels, then average pooling (He et al. 2016).

    Images of more than 64 pixels go through ImageNet's 7x7 convolution and pooling first, smaller ones through a 3x3.
    """

    def __init__(self, shape: Shape, classes: int, width: int, blocks: Sequence[int]) -> None:
        super().__init__()
        large = max(shape[1:]) > 64
        self.conv = nn.Conv2d(shape[0], width, 7 if large else 3, 2 if large else 1, 3 if large else 1, bias=False)
        self.norm = _norm(width)
        self.pool: nn.Module = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        layers, depth = [], width
        for stage, count in enumerate(blocks):
            for i in range(count):
                layers.append(Block(depth, width << stage, 2 if stage and not i else 1))
                depth = width << stage
        self.blocks = nn.Sequential(*layers)
        self.out = nn.Linear(depth, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.pool(F.relu(self.norm(self.conv(x)))))
        out: Tensor = self.out(x.mean((-2, -1)))
        return out


def _norm(size: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(size)
    norm.num_batches_tracked = None  # it is never read, and would be sent with every model
    return norm
