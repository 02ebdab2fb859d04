"""The suite of formats: round trips without pickle, and altered bytes that are rejected or harmless."""

from __future__ import annotations

import math
import pickle
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from .. import plugins
from ..errors import Spoiled
from ..interfaces import Format, Model
from ..server.sandbox import Sandbox
from ..types import Array, Blob
from ._data import same
from ._suite import check_name, describe, run_checks, wrong_probabilities

SECONDS = 2.0
"""How long `check` may take for a model of a few kilobytes."""
MEMORY, TIMES = 32 * 2**20, 100
"""How much memory `check` may allocate: so many bytes, and so many times the size of its input."""
ASKED = 40
"""How many altered models that pass `check` are loaded in the sandbox."""
_unpickled: list[str] | None = None


def check_format(
    form: type[Format], models: Sequence[Model | Blob], X: Array, *, classes: int, mutations: int = 300
) -> None:
    """Serialize models, alter their bytes, and raise ConformanceError with a sentence for everything that is missing.

    Nothing is loaded if the format declares `predicts = False`. models: trained models whose `dump` is in this
    format, or such blobs; X: rows that they predict, `(rows, …)`.
    mutations: how many altered versions of the models `check` gets.
    """
    if not isinstance(form, type) or not issubclass(form, Format):
        raise TypeError(f"{form!r} is not a format: pass a subclass of `oneballot.interfaces.Format`, not an instance")
    if not models:
        raise ValueError("check_format needs at least one model, or one Blob, to serialize and alter")
    with Sandbox(memory_mb=512, seconds=15) as sandbox:
        case = FormatCase(form, models, X, classes, mutations, sandbox)
        run_checks(f"format {form.name}", case, CHECKS)


@dataclass
class FormatCase:
    form: type[Format]
    models: Sequence[Model | Blob]
    X: Array
    classes: int
    mutations: int
    sandbox: Sandbox

    @property
    def blobs(self) -> list[Blob]:
        return [model if isinstance(model, Blob) else model.dump() for model in self.models]

    def check(self, data: bytes, classes: int | None = None) -> None:
        self.form.check(data, classes=classes or self.classes, features=math.prod(self.X.shape[1:]))


def check_declarations(case: FormatCase) -> Iterator[str]:
    """The format has a valid name, is installed, and is the one that its models name."""
    yield from check_name(case.form.name, "format")
    if case.form.name not in plugins.names("formats"):
        yield f"The format {case.form.name} is not installed. Register it in the entry-point group `oneballot.formats`."
    for blob in case.blobs:
        if blob.format != case.form.name:
            yield f"`dump` of a model names the format {blob.format!r}; expected {case.form.name!r}."
    case.form.prepare()


def check_round_trip(case: FormatCase) -> Iterator[str]:
    """A model that is written and loaded, once and again, predicts the same and needs no pickle."""
    if not case.form.predicts:
        yield from _check_unloadable(case)
        return
    for model, blob in zip(case.models, case.blobs, strict=True):
        with _watch_pickle() as unpickled:
            case.check(blob.data)
            loaded = case.form.load(blob.data, classes=case.classes)
            values = loaded.predict_proba(case.X)
        if unpickled:
            yield f"Loading a model unpickles {unpickled[0]}: anybody's code could run. Write plain arrays instead."
        if wrong := wrong_probabilities(values, len(case.X), case.classes):
            yield f"The probabilities of a loaded model are invalid: {wrong}."
        elif isinstance(model, Model) and not np.allclose(values, model.predict_proba(case.X), atol=1e-6):
            yield "A loaded model predicts something else than the model that was written."
        again = loaded.dump()
        case.check(again.data)
        if not same(case.form.load(again.data, classes=case.classes).predict_proba(case.X), values):
            yield "A loaded model predicts something else after it is written and loaded again."


def _check_unloadable(case: FormatCase) -> Iterator[str]:
    """A format that does not predict accepts what it wrote, and loads nothing."""
    for blob in case.blobs:
        case.check(blob.data)
        try:
            case.form.load(blob.data, classes=case.classes)
        except Spoiled:
            continue
        yield "The format declares `predicts = False`, and `load` returns a model. Raise Spoiled, or let it predict."


@contextmanager
def _watch_pickle() -> Iterator[list[str]]:
    """The classes and functions that are unpickled in this block."""
    global _unpickled
    if _unpickled is None:  # a hook cannot be removed again
        sys.addaudithook(lambda event, args: _note(".".join(map(str, args))) if event == "pickle.find_class" else None)
    found: list[str] = []
    _unpickled = found
    try:
        yield found
    finally:
        _unpickled = []


def _note(name: str) -> None:
    if _unpickled is not None:
        _unpickled.append(name)


def check_other_election(case: FormatCase) -> Iterator[str]:
    """A model with another number of classes is rejected, or predicts for that number."""
    for blob in case.blobs:
        for classes in (case.classes + 1, max(2, case.classes - 1)):
            if classes == case.classes:
                continue
            try:
                case.check(blob.data, classes)
                if not case.form.predicts:
                    continue
                values = case.form.load(blob.data, classes=classes).predict_proba(case.X)
            except Spoiled:
                continue
            if wrong := wrong_probabilities(values, len(case.X), classes):
                yield (
                    f"`check` accepts a model of {case.classes} classes for an election of {classes}, and its "
                    f"probabilities are invalid: {wrong}."
                )


def check_altered_bytes(case: FormatCase) -> Iterator[str]:
    """Altered bytes are rejected with Spoiled, quickly and in little memory, or give probabilities."""
    passed = []
    for blob in case.blobs:
        for what, data in altered(blob.data, max(1, case.mutations // len(case.models))):
            try:
                seconds, memory = _measure(case, data)
            except Exception as error:
                yield f"`check` crashes for {what}: {describe(error)}. Raise Spoiled with a reason instead."
                continue
            if memory > MEMORY + TIMES * len(data):
                yield f"`check` allocates {memory / 2**20:.0f} MiB for {what} ({len(data):,} bytes). Check sizes first."
            if seconds > SECONDS:
                yield f"`check` takes {seconds:.1f} s for {what} ({len(data):,} bytes). Check sizes first."
            try:
                case.check(data)
            except Spoiled:
                continue
            if what.startswith("a pickle"):
                yield "`check` accepts a pickle."
            passed.append((what, data))
    step = max(1, len(passed) // ASKED)
    for what, data in passed[::step]:
        yield from _check_accepted(case, what, data)


def _measure(case: FormatCase, data: bytes) -> tuple[float, int]:
    """The computing time and the memory that `check` takes. Spoiled is what is expected."""
    begin = time.process_time()
    tracemalloc.start()
    try:
        case.check(data)
    except Spoiled:
        pass
    finally:
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return time.process_time() - begin, memory


def _check_accepted(case: FormatCase, what: str, data: bytes) -> Iterator[str]:
    """Altered bytes that pass `check` may give other probabilities, but must not crash."""
    if not case.form.predicts or case.form.name not in plugins.names("formats"):
        return
    try:
        case.sandbox.ask(Blob(case.form.name, data), case.X, classes=case.classes)
    except Spoiled as reason:
        text = str(reason)
        if "crashed" in text or "longer than" in text or "more memory" in text:
            yield f"`check` accepts {what}, and then the model {text.partition(' model ')[2]}."
        elif case.form.inert and "cannot be read" in text:
            yield f"`check` accepts {what}, and then `load` fails in the server's own process: {text}."


def altered(data: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    """Altered versions of a model's bytes, the same at every call."""
    rng = np.random.default_rng(len(data))
    yield "no bytes", b""
    yield "bytes of 0xFF", b"\xff" * len(data)
    yield "bytes of 0", bytes(len(data))
    yield "random bytes", rng.bytes(len(data))
    yield "the model twice", data + data
    yield "a pickle", pickle.dumps({"model": np.arange(3)})
    for _ in range(count):
        at, changed = int(rng.integers(len(data))), bytearray(data)
        kind = rng.integers(4)
        if kind == 0:
            yield f"a model that ends after {at} bytes", data[:at]
            continue
        size = (1, 4, 8)[kind - 1]
        replaced = [b"\xff", rng.bytes(1), b"\0"] if size == 1 else [b"\xff" * size, rng.bytes(size), b"\x7f" * size]
        changed[at : at + size] = replaced[int(rng.integers(3))]
        yield f"a model with {size} bytes altered at {at}", bytes(changed[: len(data)])


CHECKS = (check_declarations, check_round_trip, check_other_election, check_altered_bytes)
