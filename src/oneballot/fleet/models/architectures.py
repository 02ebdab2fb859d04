"""The built-in architectures by name: their settings with bounds, the rows they accept, and how to build them.

An untrusted ballot names an architecture and its settings, so every setting has a lower and an upper bound.
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
class Setting:
    """A setting of an architecture. expected: what `accepts` accepts, for error messages.

    unnamed: the default is left out of descriptions, because the setting is younger than networks that are stored.
    """

    default: Any
    expected: str
    accepts: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value
    unnamed: bool = False

    def read(self, value: Any) -> Any:
        if not self.accepts(value):
            raise ValueError(self.expected)
        return self.convert(value)


def _integer(default: int, low: int, high: int) -> Setting:
    expected = f"a whole number from {low} to {high}"
    return Setting(default, expected, lambda value: type(value) is int and low <= value <= high)


def _integers(default: Sequence[int], high: int, *, fewest: int = 1, most: int = 8) -> Setting:
    def accepts(value: Any) -> bool:
        sized = isinstance(value, list | tuple) and fewest <= len(value) <= most
        return sized and all(type(v) is int and 1 <= v <= high for v in value)

    return Setting(default, f"a list of {fewest} to {most} whole numbers from 1 to {high}", accepts, list)


def _fraction(default: float) -> Setting:
    expected = "a number from 0 up to 1, without 1"
    return Setting(default, expected, lambda value: type(value) in (int, float) and 0 <= value < 1, float)


@dataclass(frozen=True)
class Architecture:
    """takes: "numbers" of any shape, "images" of at least `side` pixels a side, or "tokens".

    widest: the largest number of activations that one row needs in any layer, by settings and shape.
    """

    takes: Takes
    build: Callable[..., nn.Module]
    settings: Mapping[str, Setting]
    widest: Callable[[Mapping[str, Any], Shape], int]
    side: int = 1


_TEXT: dict[str, Setting] = {
    "vocabulary": _integer(20_000, 2, 4_000_000),
    "dimension": _integer(100, 1, 2048),
    "embedding": Setting("trained", "one of trained, frozen", lambda value: value in ("trained", "frozen")),
    "one_logit": Setting(False, "true or false", lambda value: type(value) is bool, unnamed=True),
}


def _convolutional(pad: int, side: int) -> Architecture:
    def widest(s: Mapping[str, Any], shape: Shape) -> int:
        first, second = s["channels"]
        depth: int = max(first, second // 4 + 1, shape[0])
        return depth * math.prod(shape[1:])

    settings = {"channels": _integers((6, 16), 512, most=2, fewest=2), "hidden": _integers((120, 84), 8192)}
    return Architecture("images", lambda **s: images.convolutional(pad=pad, **s), settings, widest, side)


def _resnet(blocks: tuple[int, ...], width: int, side: int) -> Architecture:
    return Architecture(
        "images",
        lambda **s: images.ResNet(blocks=blocks, **s),
        {"width": _integer(width, 1, 256)},
        lambda s, shape: max(s["width"], shape[0]) * math.prod(shape[1:]),
        side,
    )


ARCHITECTURES: dict[str, Architecture] = {
    "mlp": Architecture(
        "numbers", images.mlp, {"hidden": _integers((100, 100), 8192, fewest=0)},
        lambda s, shape: max([math.prod(shape), *s["hidden"]]),
    ),
    "cnn": _convolutional(pad=0, side=16),
    "lenet": _convolutional(pad=2, side=12),
    "vgg9": Architecture(
        "images", images.vgg9,
        {"width": _integer(32, 1, 256), "hidden": _integer(512, 1, 8192), "dropout": _fraction(0.1)},
        lambda s, shape: max(2 * s["width"], shape[0]) * math.prod(shape[1:]), side=8,
    ),
    "convnet": Architecture(
        "images", images.convnet, {"channels": _integers((64, 128, 256), 512, fewest=3, most=3)},
        lambda s, shape: max(s["channels"][0], -(-s["channels"][1] // 4), -(-s["channels"][2] // 16), shape[0])
        * math.prod(shape[1:]), side=8,
    ),
    "resnet8": _resnet((1, 1, 1), width=16, side=4),
    "resnet34": _resnet((3, 4, 6, 3), width=64, side=8),
    "textcnn": Architecture(
        "tokens", text.TextCNN,
        _TEXT | {"filters": _integer(100, 1, 4096), "widths": _integers((3, 4, 5), 64), "dropout": _fraction(0.0)},
        lambda s, shape: max(s["dimension"], s["filters"]) * shape[0],
    ),
    "bilstm": Architecture(
        "tokens", text.BiLSTM, _TEXT | {"hidden": _integer(100, 1, 2048), "layers": _integer(2, 1, 8)},
        lambda s, shape: max(s["dimension"], 4 * s["hidden"]) * shape[0],
    ),
    "transformer": Architecture(
        "tokens", text.Transformer,
        _TEXT | {"heads": _integer(4, 1, 64), "layers": _integer(2, 1, 32), "width": _integer(400, 1, 16384),
                 "dropout": _fraction(0.1)},
        lambda s, shape: max(3 * s["dimension"], s["width"], s["heads"] * shape[0]) * shape[0],
    ),
}  # fmt: skip


def check_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the settings of an architecture with its defaults. Raises ElectionError for invalid settings.

    Every architecture also accepts `shape`, the shape of a row as the network sees it: [1, 28, 28] for 784 numbers.
    """
    if name not in ARCHITECTURES:
        raise ElectionError(f"there is no architecture {name!r:.60}; there are {', '.join(ARCHITECTURES)}")
    known = ARCHITECTURES[name].settings
    if not isinstance(settings, Mapping):
        raise ElectionError(f"{name}: settings must be a table of names and values, not {settings!r:.60}")
    if unknown := [str(key)[:40] for key in settings if key not in known and key != "shape"]:
        raise ElectionError(f"{name} has no setting {', '.join(unknown)}; it has {', '.join([*known, 'shape'])}")
    out: dict[str, Any] = {}
    for key, setting in [*known.items(), ("shape", _integers((), LARGEST_ROW, most=3))]:
        if key == "shape" and key not in settings:
            continue
        try:
            out[key] = setting.read(settings.get(key, setting.default))
        except ValueError as error:
            raise ElectionError(f"{name}: {key} must be {error}, not {settings[key]!r:.60}") from None
        if setting.unnamed and out[key] == setting.default:
            del out[key]
    if name == "transformer" and out["dimension"] % out["heads"]:
        raise ElectionError(f"transformer: {out['heads']} heads do not divide the dimension {out['dimension']}")
    return out


def check_classes(name: str, settings: Mapping[str, Any], classes: int) -> None:
    """Raise ElectionError if a network with these settings cannot tell so many classes apart."""
    if settings.get("one_logit") and classes != 2:
        raise ElectionError(f"{name}: one_logit is for two classes, but there are {classes}; leave it out")


def custom_shape(settings: Mapping[str, Any]) -> Shape:
    """The shape of a row in the settings of a custom module; empty if it has none."""
    try:
        return tuple(_integers((), LARGEST_ROW).read(settings["shape"])) if "shape" in settings else ()
    except ValueError as error:
        raise ElectionError(f"learner torch: shape must be {error}, not {settings['shape']!r:.60}") from None


def shape_of(name: str, settings: Mapping[str, Any], row: Shape) -> Shape:
    """The shape in which the network sees a row of shape `row`. Raises ElectionError if they do not fit."""
    architecture, wanted = ARCHITECTURES[name], tuple(settings.get("shape", ()))
    if not row or math.prod(row) > LARGEST_ROW:
        raise ElectionError(f"{name}: rows of shape {row}: expected 1 to {LARGEST_ROW} numbers")
    if wanted and math.prod(wanted) != math.prod(row):
        raise ElectionError(f"{name}: shape = {list(wanted)} does not fit rows of shape {row}")
    shape = wanted or row
    if architecture.takes == "numbers":
        return wanted if len(wanted) == 3 else (math.prod(shape),)  # images can be augmented
    if architecture.takes == "tokens":
        least = max(settings.get("widths", [1]))
        if len(shape) != 1 or shape[0] < least:
            raise ElectionError(f"{name} takes rows of {least} or more token numbers; these have the shape {shape}")
        return shape
    if len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3:
        raise ElectionError(
            f"{name} takes images (channels, height, width), but the rows have the shape {row}; "
            "say what they are, as in settings = {shape = [1, 28, 28]}"
        )
    if min(shape[1:]) < architecture.side:
        raise ElectionError(f"{name} takes images of at least {architecture.side} pixels a side, not {shape[1:]}")
    return shape


def widest(name: str, settings: Mapping[str, Any], shape: Shape) -> int:
    """The largest number of activations that one row needs in any layer."""
    return ARCHITECTURES[name].widest(settings, shape)


def build(name: str, settings: Mapping[str, Any], shape: Shape, classes: int) -> nn.Module:
    """The network with uninitialized weights. Takes the results of `check_settings` and `shape_of`."""
    if not 1 <= classes <= MOST_CLASSES:
        raise ElectionError(f"{name}: {classes} classes: expected 1 to {MOST_CLASSES}")
    check_classes(name, settings, classes)
    given: dict[str, Any] = {key: value for key, value in settings.items() if key != "shape"}
    if ARCHITECTURES[name].takes != "tokens":
        given["shape"] = shape
    elif name == "transformer":
        given["length"] = shape[0]
    with _WithoutWeights():
        return ARCHITECTURES[name].build(classes=classes, **given)


class _WithoutWeights(torch.overrides.TorchFunctionMode):
    """Skips torch's initialization: `weights.initial_weights` does it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def expected(name: str, settings: Mapping[str, Any], shape: Shape, classes: int) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all entries of the network's state_dict, without allocating them."""
    with torch.device("meta"):
        module = build(name, settings, shape, classes)
    return {key: tuple(value.shape) for key, value in module.state_dict().items()}
