"""Custom modules: PyTorch modules that the user provides as a Python function, and the models trained from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ElectionError
from ..formats.torch_safetensors import ROWS_AT_ONCE, TorchModel
from ..types import Blob

PREFIX = "own:"


class CustomModule(str):
    """The name by which an election's digest knows a custom module, with the factory that builds it."""

    factory: Callable[[int], Any]

    def __new__(cls, factory: Callable[[int], Any]) -> CustomModule:
        name = getattr(factory, "__qualname__", type(factory).__qualname__)
        if name.endswith("<lambda>"):  # lambdas share one name, so the line number distinguishes them
            name += f"@{factory.__code__.co_firstlineno}"
        module = super().__new__(cls, f"{PREFIX}{getattr(factory, '__module__', '')}.{name}")
        module.factory = factory
        return module

    def __reduce__(self) -> Any:
        return CustomModule, (self.factory,)

    def __deepcopy__(self, memo: Any) -> CustomModule:
        return self


class CustomModel(TorchModel):
    """A network trained from a custom module. It predicts in this process and cannot be written to a file."""

    takes = "anything"

    def at_once(self) -> int:
        return ROWS_AT_ONCE

    def dump(self) -> Blob:
        raise ElectionError(
            f"a model of the custom module {self.description.architecture.removeprefix(PREFIX)} cannot be sent or "
            "saved, because other programs cannot build it. Let it vote (ballot = votes), use an outcome's module in "
            'Python (`outcome.model.model_.module`), or choose a built-in architecture, such as module = "cnn".'
        )


def is_module(value: Any) -> bool:
    """Whether the value is an `nn.Module`, without importing torch."""
    return any(base.__name__ == "Module" and base.__module__.startswith("torch") for base in type(value).__mro__)
