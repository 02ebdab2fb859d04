"""What all suites share: running checks, collecting their sentences, and the checks of settings and predictions."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..election.schema import as_plain
from ..election.toml import toml_key, toml_value
from ..errors import OneBallotWarning
from ..interfaces import Model, Plugin
from ..runtime.progress import track
from ..types import Array

Case = TypeVar("Case")
Sentences = Iterable[str]
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
FOLDER = Path(__file__).parent


class ConformanceError(AssertionError):
    """A plug-in lacks something. `problems` has a sentence for each thing, with what to do about it."""

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        listed = "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"{what} does not conform; docs/extending.md explains each point:{listed}")


def run_checks(what: str, case: Case, checks: Sequence[Callable[[Case], Sentences]]) -> None:
    """Run every check and raise one ConformanceError with all their sentences.

    The docstring of a check is its requirement. It begins the sentence about an exception that was not expected.
    """
    problems: list[str] = []
    stopped: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)  # about classes that a party lacks, and the like
        for check in track(f"checking {what}", checks, len(checks)):
            try:
                problems += check(case)
            except Exception as error:
                if (reason := describe(error)) not in stopped:
                    problems.append(f"{requirement(check)} Instead, {reason}.")
                stopped[reason] += 1
    for reason, times in stopped.items():
        if times > 1:
            problems.append(f"Also stopped {times - 1} more checks: {reason}.")
    if problems:
        raise ConformanceError(what, list(dict.fromkeys(problems)))


def requirement(check: Callable[..., Any]) -> str:
    return " ".join((check.__doc__ or check.__name__).split())


def describe(error: BaseException) -> str:
    """The exception and the place in the plug-in, or in OneBallot, that raised it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent != FOLDER]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())[:300].rstrip(".")
    return f"{type(error).__name__} was raised{where}: {text}"


def check_name(name: object, kind: str) -> Iterator[str]:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"The {kind} has the name {name!r}. Use lower-case letters and digits, with - between words."


def check_settings(plugin: Plugin) -> Iterator[str]:
    """Settings can be written in TOML and read back, and describe the plug-in by plain values."""
    cls = type(plugin)
    if not dataclasses.is_dataclass(plugin) or not cls.__dataclass_params__.frozen:
        yield f"{cls.__name__} is not a frozen dataclass. Decorate it with `oneballot.settings.settings`."
        return
    known = {field.name for field in dataclasses.fields(plugin)}
    if unknown := sorted(set(plugin.files) - known):
        yield f"`files` names {', '.join(unknown)}, but there is no such setting."
    try:
        json.dumps(plugin.describe(), default=as_plain, sort_keys=True)
    except (TypeError, ValueError) as error:
        yield f"`describe` must return plain values for the digest (numbers, text, lists, mappings): {error}."
        return
    made = yield from read_back(plugin)
    if made is not None and made.describe() != plugin.describe():
        changed = [k for k, v in made.describe().items() if v != plugin.describe().get(k)]
        yield (
            f"Settings in TOML and back differ in {', '.join(changed)}. Store a setting as it was given, and make it "
            "comparable."
        )


def read_back(plugin: Any) -> Any:
    """A generator of problems that returns the plug-in with the settings that its TOML says; None if it has none."""
    lines = []
    for field in dataclasses.fields(plugin):
        value = getattr(plugin, field.name)
        default = plugin.in_files.get(field.name, field.default)
        if value is None and default is not None:
            yield f"The setting {field.name} is None, which TOML cannot hold, but its default is {default!r}."
        if value is None or (field.name in plugin.files and not isinstance(value, str)):
            continue
        try:
            lines.append(f"{toml_key(field.name)} = {toml_value(value)}\n")
        except TypeError:
            yield (
                f"The setting {field.name} is of type {type(value).__name__}, which an election file cannot hold. Use "
                "numbers, text, booleans, lists or mappings of them."
            )
            return None
    return type(plugin)(**{**plugin.in_files, **tomllib.loads("".join(lines))})


def wrong_probabilities(values: Any, rows: int, classes: int) -> str:
    """What is wrong with predictions that should be probabilities `(rows, classes)`; empty if nothing is."""
    if not isinstance(values, np.ndarray) or values.shape != (rows, classes):
        shape = values.shape if isinstance(values, np.ndarray) else type(values).__name__
        return f"they have the shape {shape}, not {(rows, classes)}: one column for each class, even one without rows"
    if not np.isfinite(values).all():
        return "some are not finite"
    if (values < 0).any() or (np.abs(values.sum(axis=1) - 1) > 1e-3).any():
        return "they are negative, or do not sum to 1 in each row"
    return ""


def check_model(model: Any, X: Array, classes: int, what: str) -> Iterator[str]:
    """Sentences about a trained model: its base class, its probabilities and its scores."""
    if not isinstance(model, Model):
        yield f"{what} is of type {type(model).__name__}, which is not a subclass of `oneballot.interfaces.Model`."
        return
    if wrong := wrong_probabilities(model.predict_proba(X), len(X), classes):
        yield f"The probabilities of {what} are invalid: {wrong}."
    scores = model.scores(X)
    if scores.shape != (len(X), classes) or np.isnan(scores).any():
        yield f"`scores` of {what} must be numbers of the shape {(len(X), classes)}; it returns {scores.shape}."
