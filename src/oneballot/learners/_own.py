"""Modules of the user's: by what name an election knows them, and the models that they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ElectionError
from ..formats.torch_safetensors import ROWS_AT_ONCE, TorchModel
from ..types import Blob


class Own(str):
    """A module of the user's, by the name that an election's digest knows; only Python has the factory behind it."""

    factory: Callable[[int], Any]

    def __new__(cls, factory: Callable[[int], Any]) -> Own:
        name = getattr(factory, "__qualname__", type(factory).__qualname__)
        if name.endswith("<lambda>"):  # all are called so: told apart by their line
            name += f"@{factory.__code__.co_firstlineno}"
        made = super().__new__(cls, f"own:{getattr(factory, '__module__', '')}.{name}")
        made.factory = factory
        return made

    def __reduce__(self) -> Any:
        return Own, (self.factory,)

    def __deepcopy__(self, memo: Any) -> Own:
        return self


class OwnModel(TorchModel):
    """A network of the user's own module: it answers here, and cannot travel."""

    takes = "anything"

    def at_once(self) -> int:
        return ROWS_AT_ONCE

    def dump(self) -> Blob:
        raise ElectionError(
            f"a model of the module {self.description.architecture[4:]} cannot travel or be saved: nobody else could "
            "build it. Vote with it, keep an outcome's in Python (`outcome.model.model_.module` is the nn.Module), or "
            'use an architecture by its name, such as module = "cnn"'
        )


def is_module(thing: Any) -> bool:
    return any(kind.__name__ == "Module" and kind.__module__.startswith("torch") for kind in type(thing).__mro__)
