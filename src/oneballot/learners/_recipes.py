"""The training that suits an architecture, where a user leaves its settings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import ArgsKwargs

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "convnet": {
        "epochs": 40,
        "batch": 64,
        "optimizer": "adamw",
        "learning_rate": 2e-3,
        "weight_decay": 0.05,
        "augment": ("auto",),
    },
}
"""By architecture. They are filled in when a learner is made, so an election's digest covers them. Changing one changes
what the files of existing elections mean."""


def completed(given: ArgsKwargs, names: Sequence[str]) -> ArgsKwargs:
    """The settings with which a learner is made, and those of its architecture's recipe that are left out.

    names: of all settings, in their order.
    """
    named = given.kwargs or {}
    settings = {**dict(zip(names, given.args, strict=False)), **named}
    module = settings.get("module")
    recipe = RECIPES.get(module, {}) if isinstance(module, str) else {}
    return ArgsKwargs(given.args, {**{name: recipe[name] for name in recipe if name not in settings}, **named})
