"""The methods that an election's data allow: the election with each of them, and why the rest cannot run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import plugins
from .election.election import Election
from .election.file import make
from .errors import ElectionError, OneBallotError, OneBallotWarning
from .settings import parse_settings

VARIANTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "ensemble": ({"weights": "open"}, {"weights": "seen"}),
    "analytic": ({"features": "fourier"}, {"features": "none"}),
}
"""The settings to run a method with; others run with their defaults."""
FALLBACK: Mapping[str, Mapping[str, Any]] = {"fedkd": {"temperature": 0.0}}
"""Settings that need less of a learner, for a method that cannot run with its defaults."""


def candidates(election: Election, chosen: Sequence[str] | None = None) -> tuple[dict[str, Election], dict[str, str]]:
    """The election with its own and with other methods, by label; and why the rest cannot run.

    `chosen` names the other methods as NAME or NAME:SETTING=VALUE,…; None stands for all that are not costly.
    """
    own = election.method
    possible, skipped = {own.name: election}, dict[str, str]()
    described = [plugins.describe(own)]
    for label, settings in _settings(chosen):
        costly = plugins.find("methods", settings["name"]).costly
        if costly and chosen is None and settings["name"] != own.name:
            skipped[label] = f"{costly}; to run it, give --method {label}"
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OneBallotWarning)
                variant = _with_method(election, settings)
        except OneBallotError as error:
            skipped[label] = str(error)
            continue
        if label not in possible and plugins.describe(variant.method) not in described:
            described.append(plugins.describe(variant.method))
            possible[label] = variant
    return possible, skipped


def _settings(chosen: Sequence[str] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The label and the settings of each method to try."""
    if chosen is not None:
        for text in chosen:
            name, _, rest = text.partition(":")
            settings = {"name": name.strip(), **parse_settings(rest)}
            make("methods", settings, f"--method {text}")  # a wrong name or setting is an error, not a skipped method
            yield text, settings
        return
    for name in plugins.names("methods"):
        for variant in VARIANTS.get(name, ({},)):
            shown = ",".join(f"{key}={value}" for key, value in variant.items())
            yield f"{name}:{shown}" if shown else name, {"name": name, **variant}


def _with_method(election: Election, settings: Mapping[str, Any]) -> Election:
    """The election with another method. Roles that both methods have keep their learners.

    If the learners are the defaults of the election's own method, they are those of the other method.
    """
    method = plugins.find("methods", settings["name"])(**{k: v for k, v in settings.items() if k != "name"})
    learner: Any = election.learners.get("local", election.learner)
    learners = {role: each for role, each in election.learners.items() if role in method.needs}
    if election.has_default_learners and type(method) is not type(election.method):
        learner, learners = None, {}  # the method's own
    try:
        calibrate = election.calibrate and method.calibrates
        return replace(
            election, method=method, learner=learner, learners=learners, calibrate=calibrate, variant_of=None
        )
    except ElectionError:
        if settings["name"] not in FALLBACK or len(settings) > 1:
            raise
        return _with_method(election, {**settings, **FALLBACK[settings["name"]]})
