"""The built-in architectures by name: their settings with bounds, the rows they take, and how they are built.

A stranger's ballot names an architecture and its settings, so every setting has a smallest and a largest value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...errors import ElectionError
from . import images, text
from .inputs import Takes

Shape = tuple[int, ...]
LARGEST_ROW = 1 << 20
MOST_CLASSES = 1 << 16


@dataclass(frozen=True)
class Whole:
    """A setting that is a whole number."""

    usual: int
    low: int
    high: int

    def read(self, value: Any) -> int:
        if type(value) is not int or not self.low <= value <= self.high:
            raise ValueError(f"a whole number from {self.low} to {self.high}")
        return value


@dataclass(frozen=True)
class Wholes:
    """A setting that is a list of whole numbers."""

    usual: Sequence[int]
    high: int
    most: int = 8
    fewest: int = 1

    def read(self, value: Any) -> list[int]:
        good = isinstance(value, list | tuple) and self.fewest <= len(value) <= self.most
        if not good or not all(type(v) is int and 1 <= v <= self.high for v in value):
            raise ValueError(f"a list of {self.fewest} to {self.most} whole numbers from 1 to {self.high}")
        return list(value)


@dataclass(frozen=True)
class Fraction:
    """A setting from 0 up to, and without, 1."""

    usual: float

    def read(self, value: Any) -> float:
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise ValueError("a number from 0 up to 1")
        return float(value)


@dataclass(frozen=True)
class Choice:
    usual: str
    known: tuple[str, ...]

    def read(self, value: Any) -> str:
        if value not in self.known:
            raise ValueError(f"one of {', '.join(self.known)}")
        return str(value)


Setting = Whole | Wholes | Fraction | Choice


@dataclass(frozen=True)
class Architecture:
    """takes: "numbers" of any shape, "images" of at least `side` pixels a side, or "tokens".

    widest: how many numbers a row is, by settings and shape, where the network is widest.
    """

    takes: Takes
    build: Callable[..., nn.Module]
    settings: Mapping[str, Setting]
    widest: Callable[[Mapping[str, Any], Shape], int]
    side: int = 1


_TEXT: dict[str, Setting] = {
    "vocabulary": Whole(20_000, 2, 4_000_000),
    "dimension": Whole(100, 1, 2048),
    "embedding": Choice("trained", ("trained", "frozen")),
}
_CONVOLUTIONS: dict[str, Setting] = {
    "channels": Wholes((6, 16), 512, most=2, fewest=2),
    "hidden": Wholes((120, 84), 8192),
}


def _pixels(shape: Shape) -> int:
    return shape[1] * shape[2]


ARCHITECTURES: dict[str, Architecture] = {
    "mlp": Architecture(
        "numbers", images.mlp, {"hidden": Wholes((100, 100), 8192, fewest=0)},
        lambda s, shape: max([math.prod(shape), *s["hidden"]]),
    ),
    "cnn": Architecture(
        "images", lambda **s: images.convolutional(pad=0, **s), _CONVOLUTIONS,
        lambda s, shape: max(s["channels"][0], s["channels"][1] // 4 + 1, shape[0]) * _pixels(shape), side=16,
    ),
    "lenet": Architecture(
        "images", lambda **s: images.convolutional(pad=2, **s), _CONVOLUTIONS,
        lambda s, shape: max(s["channels"][0], s["channels"][1] // 4 + 1, shape[0]) * _pixels(shape), side=12,
    ),
    "vgg9": Architecture(
        "images", images.vgg9,
        {"width": Whole(32, 1, 256), "hidden": Whole(512, 1, 8192), "dropout": Fraction(0.1)},
        lambda s, shape: max(2 * s["width"], shape[0]) * _pixels(shape), side=8,
    ),
    "resnet8": Architecture(
        "images", lambda **s: images.ResNet(blocks=(1, 1, 1), **s), {"width": Whole(16, 1, 256)},
        lambda s, shape: max(s["width"], shape[0]) * _pixels(shape), side=4,
    ),
    "resnet34": Architecture(
        "images", lambda **s: images.ResNet(blocks=(3, 4, 6, 3), **s), {"width": Whole(64, 1, 256)},
        lambda s, shape: max(s["width"], shape[0]) * _pixels(shape), side=8,
    ),
    "textcnn": Architecture(
        "tokens", text.TextCNN,
        _TEXT | {"filters": Whole(100, 1, 4096), "widths": Wholes((3, 4, 5), 64), "dropout": Fraction(0.0)},
        lambda s, shape: max(s["dimension"], s["filters"]) * shape[0],
    ),
    "bilstm": Architecture(
        "tokens", text.BiLSTM, _TEXT | {"hidden": Whole(100, 1, 2048), "layers": Whole(2, 1, 8)},
        lambda s, shape: max(s["dimension"], 4 * s["hidden"]) * shape[0],
    ),
    "transformer": Architecture(
        "tokens", text.Transformer,
        _TEXT | {"heads": Whole(4, 1, 64), "layers": Whole(2, 1, 32), "width": Whole(400, 1, 16384),
                 "dropout": Fraction(0.1)},
        lambda s, shape: max(3 * s["dimension"], s["width"], s["heads"] * shape[0]) * shape[0],
    ),
}  # fmt: skip


def check_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of an architecture, those left out as usual. Raises ElectionError for what cannot be.

    Each may also have `shape`, of a row as the network sees it: a flat row of 784 numbers as [1, 28, 28].
    """
    if name not in ARCHITECTURES:
        raise ElectionError(f"there is no architecture {name!r:.60}; there are {', '.join(ARCHITECTURES)}")
    known = ARCHITECTURES[name].settings
    if not isinstance(settings, Mapping):
        raise ElectionError(f"{name}: settings must be names with values, not {settings!r:.60}")
    if unknown := [str(key)[:40] for key in settings if key not in known and key != "shape"]:
        raise ElectionError(f"{name} has no setting {', '.join(unknown)}; it has {', '.join([*known, 'shape'])}")
    out: dict[str, Any] = {}
    for key, setting in [*known.items(), ("shape", Wholes((), LARGEST_ROW, most=3))]:
        if key == "shape" and key not in settings:
            continue
        try:
            out[key] = setting.read(settings.get(key, setting.usual))
        except ValueError as error:
            raise ElectionError(f"{name}: {key} must be {error}, not {settings[key]!r:.60}") from None
    if name == "transformer" and out["dimension"] % out["heads"]:
        raise ElectionError(f"transformer: {out['heads']} heads do not divide the dimension {out['dimension']}")
    return out


def custom_shape(settings: Mapping[str, Any]) -> Shape:
    """What the settings of a user's own module say of the shape of a row; empty if nothing."""
    try:
        return tuple(Wholes((), LARGEST_ROW).read(settings["shape"])) if "shape" in settings else ()
    except ValueError as error:
        raise ElectionError(f"learner torch: shape must be {error}, not {settings['shape']!r:.60}") from None


def shape_of(name: str, settings: Mapping[str, Any], row: Shape) -> Shape:
    """Of a row as the network sees it, of one as it comes. Raises ElectionError where they do not fit."""
    architecture, wanted = ARCHITECTURES[name], tuple(settings.get("shape", ()))
    if not row or math.prod(row) > LARGEST_ROW:
        raise ElectionError(f"{name}: rows of shape {row}: expected 1 to {LARGEST_ROW} numbers")
    if wanted and math.prod(wanted) != math.prod(row):
        raise ElectionError(f"{name}: shape = {list(wanted)} does not fit rows of shape {row}")
    shape = wanted or row
    if architecture.takes == "numbers":
        return wanted if len(wanted) == 3 else (math.prod(shape),)  # told that rows are images, it can move them
    if architecture.takes == "tokens":
        least = max(settings.get("widths", [1]))
        if len(shape) != 1 or shape[0] < least:
            raise ElectionError(f"{name} takes rows of {least} or more token numbers; these have the shape {shape}")
        return shape
    if len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3:
        raise ElectionError(
            f"{name} takes images (channels, height, width), and rows have the shape {row}; "
            "say what they are, as in settings = {shape = [1, 28, 28]}"
        )
    if min(shape[1:]) < architecture.side:
        raise ElectionError(f"{name} takes images of at least {architecture.side} pixels a side, not {shape[1:]}")
    return shape


def widest(name: str, settings: Mapping[str, Any], shape: Shape) -> int:
    """How many numbers a row is where the network is widest."""
    return ARCHITECTURES[name].widest(settings, shape)


def build(name: str, settings: Mapping[str, Any], shape: Shape, classes: int) -> nn.Module:
    """The network with weights that mean nothing yet. Settings are checked ones, and the shape is of `shape_of`."""
    if not 1 <= classes <= MOST_CLASSES:
        raise ElectionError(f"{name}: {classes} classes: expected 1 to {MOST_CLASSES}")
    given: dict[str, Any] = {key: value for key, value in settings.items() if key != "shape"}
    if ARCHITECTURES[name].takes != "tokens":
        given["shape"] = shape
    elif name == "transformer":
        given["length"] = shape[0]
    with _WithoutWeights():
        return ARCHITECTURES[name].build(classes=classes, **given)


class _WithoutWeights(torch.overrides.TorchFunctionMode):
    """Leaves out torch's own first weights: ours are drawn elsewhere."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def expected(name: str, settings: Mapping[str, Any], shape: Shape, classes: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all numbers of such a network. Nothing is allocated for them."""
    with torch.device("meta"):
        module = build(name, settings, shape, classes)
    return {key: tuple(value.shape) for key, value in module.state_dict().items()}
