"""Calls a function after each import, so that settings also reach libraries that are first imported within a step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from types import ModuleType

Loaded = Callable[[str, bool], None]


@contextmanager
def after_imports(loaded: Loaded) -> Iterator[None]:
    """Within the block, call `loaded(name, nested)` for each module that was executed, before its importer goes on.

    nested: whether this was a part of the import of another module.
    """
    finder = _Finder(loaded)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.active = False
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Returns what the finders after it find. Its loader executes a module as before, and then calls the function."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded, self.active, self.depth = loaded, True, 0

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        later = sys.meta_path[sys.meta_path.index(self) + 1 :] if self.active else []
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in later)), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader | ExtensionFileLoader):
            self._watch(name, spec.loader)
        return spec

    def _watch(self, name: str, loader: SourceFileLoader | ExtensionFileLoader) -> None:
        """The loader belongs to this module alone, so its method can be replaced."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            self.depth += 1
            try:
                execute(module)
            finally:
                self.depth -= 1
            if self.active:
                self.loaded(name, self.depth > 0)

        loader.exec_module = exec_module  # type: ignore[method-assign]
