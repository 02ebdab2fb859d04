"""The learners of a drafted election: those of the method's draft, or networks if rows are images or tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from ..learners._recipes import RECIPES
from ..types import Array
from .schema import Schema
from .toml import toml_value

SIDE = 16
"""The least height and width, in pixels, of images for the network `cnn`."""
COLOURS = 3
"""Channels of an image that is drafted as a photograph."""
ROUND_TO = 1000
_FORESTS = re.compile(r'(\[learners\.\w+\][^\n]*\n)name = "sklearn"[^\n]*\n(?:\w+ = [^\n]*\n)*')


def fit_learners(section: str, schema: Schema, columns: Mapping[str, Array], level: str) -> str:
    """A section [method] whose learners take the rows of this schema."""
    if len(schema.shape) == 1 and schema.dtype != np.int32:
        return section
    if level == "L0" and len(schema.shape) == 3 and schema.shape[0] == COLOURS and min(schema.shape[1:]) >= SIDE:
        network = f'name = "torch"\n{_for_photographs()}\n'
    else:
        length = "steps = 500                     # the same for every model" if level == "L2" else "epochs = 20"
        network = f'name = "torch"\n{_network(schema, columns)}\n{length}\n'
    return _FORESTS.sub(lambda found: found[1] + network, section)


def _for_photographs() -> str:
    """The settings of `convnet`, each of its recipe on a line, so that the file says what is chosen."""
    recipe = {**RECIPES["convnet"], "augment": ["crop", "flip"]}
    remarks = {"augment": 'without "flip" where a mirrored image shows something else'}
    lines = ['module = "convnet"              # smaller: settings = { channels = [32, 64, 128] } (docs/networks.md)']
    for name, value in recipe.items():
        line = f"{name} = {toml_value(value)}"
        lines.append(f"{line:<32}# {remarks[name]}" if name in remarks else line)
    return "\n".join(lines)


def _network(schema: Schema, columns: Mapping[str, Array]) -> str:
    """The settings of a network that takes these rows."""
    if schema.dtype == np.int32:
        largest = int(columns[schema.columns[0].name].max(initial=1))
        vocabulary = -(-(largest + 1) // ROUND_TO) * ROUND_TO
        return (
            'module = "textcnn"              # or "bilstm", "transformer"; with word vectors: docs/networks.md\n'
            f"settings = {{ vocabulary = {vocabulary} }}  # every party's tokens must be below it"
        )
    if len(schema.shape) == 3 and min(schema.shape[1:]) >= SIDE:
        return 'module = "cnn"                  # or "resnet8", "vgg9": docs/networks.md'
    return 'module = "mlp"                  # for images of 16 × 16 pixels and more: "cnn" (docs/networks.md)'
