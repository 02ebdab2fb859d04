"""Run every method that an election's data allow among the same parties, and recommend one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import plugins
from .election.election import Election
from .election.file import make
from .errors import ElectionError, OneBallotError, OneBallotWarning
from .notebook import Shown
from .report.gain import Gain, paired
from .report.metrics import Metrics
from .runtime.progress import track
from .settings import parse_settings
from .simulation import Baselines, Simulation, baselines, gain, simulate_parties
from .types import Array, Data

VARIANTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "ensemble": ({"weights": "open"}, {"weights": "seen"}),
    "analytic": ({"features": "fourier"}, {"features": "none"}),
}
"""The settings to run a method with; others run with their defaults."""
FALLBACK: Mapping[str, Mapping[str, Any]] = {"fedkd": {"temperature": 0.0}}
"""Settings that need less of a learner, for a method that cannot run with its defaults."""
POINT = 0.01
"""A method may be recommended for its AUC if its accuracy is at most a point below the best."""


@dataclass(frozen=True)
class Entry:
    """The result of one method. bytes: the mean size of a ballot; model_bytes: of the final model."""

    label: str
    election: Election = field(repr=False)
    simulation: Simulation = field(repr=False)
    metrics: Metrics
    row_scores: Array = field(repr=False)
    seconds: float

    @property
    def bytes(self) -> int:
        return round(self.simulation.outcome.bytes / max(len(self.simulation.ballots), 1))

    @property
    def collapsed(self) -> Sequence[str]:
        verdict = self.simulation.outcome.verdict
        return () if verdict is None else verdict.collapsed

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.label,
            "settings": plugins.describe(self.election.method),
            "metrics": self.metrics.describe(),
            "bytes_per_party": self.bytes,
            "model_bytes": len(self.simulation.outcome.model.dump().data),
            "seconds": self.seconds,
            "collapsed": list(self.collapsed),
        }


@dataclass(frozen=True)
class Contest(Shown):
    """The results of all methods that could run, the election's own first, and why the others could not."""

    entries: Sequence[Entry]
    skipped: Mapping[str, str]
    without: Baselines
    test: Data = field(repr=False)

    def recommended(self) -> Entry:
        """The most accurate method; among those as accurate within a point and chance, the one with the highest AUC.

        Methods whose model has collapsed are left out, unless all have.
        """
        sound = [entry for entry in self.entries if not entry.collapsed] or list(self.entries)
        best = max(sound, key=lambda entry: entry.metrics.accuracy)
        near = [e for e in self._near(best, sound) if best.metrics.accuracy - e.metrics.accuracy <= POINT]
        return max(near, key=lambda e: (e.metrics.auc if e.metrics.auc == e.metrics.auc else 0, e.metrics.accuracy))

    def _near(self, best: Entry, entries: Iterable[Entry]) -> list[Entry]:
        """The entries that are not less accurate than this one by more than chance explains."""
        differences = [(entry, paired(best.row_scores, entry.row_scores)) for entry in entries]
        return [entry for entry, (difference, margin) in differences if difference <= margin or entry is best]

    def gain(self) -> Gain:
        """What the recommended method brings each party."""
        chosen = self.recommended()
        return gain(chosen.election, chosen.simulation, self.without, self.test)

    def sentences(self) -> list[str]:
        chosen = self.recommended()
        lines = [f"Recommended: {chosen.label}, {100 * chosen.metrics.accuracy:.1f} % accurate."]
        best = max(self.entries, key=lambda entry: entry.metrics.accuracy)
        if best is not chosen and not best.collapsed:
            lines[0] += (
                f" {best.label} has {100 * best.metrics.accuracy:.1f} %, which is within chance, but a lower AUC "
                f"({best.metrics.auc:.3f} against {chosen.metrics.auc:.3f})."
            )
        if chosen.collapsed:
            lines = [
                f"The model of every method has collapsed. {chosen.label} ranks rows best (AUC "
                f"{chosen.metrics.auc:.3f}): choose a threshold on its probabilities, or add rows of the rare class."
            ]
        smaller = [e for e in self._near(chosen, self.entries) if e.bytes < chosen.bytes / 2 and not e.collapsed]
        if smaller:
            other = min(smaller, key=lambda entry: entry.bytes)
            lines[0] += f" {other.label} is as accurate within chance, with ballots of {other.bytes:,} bytes"
            lines[0] += f" instead of {chosen.bytes:,}."
        for entry in self.entries:
            if entry.collapsed:
                lines.append(f"{entry.label} has collapsed: {'; '.join(entry.collapsed)}.")
        return lines + self.gain().sentences(advice=False)

    def describe(self) -> dict[str, Any]:
        """All results as plain values."""
        assert self.without.pooled_metrics is not None
        return {
            "methods": [entry.describe() for entry in self.entries],
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped.items()],
            "baselines": {
                "mean_party": self.without.mean_metrics.describe(),
                "best_party": {"party": self.without.best, **self.without.metrics[self.without.best].describe()},
                "pooled": self.without.pooled_metrics.describe(),
            },
            "recommended": {"name": self.recommended().label, "sentences": self.sentences()},
        }


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


def run_contest(
    election: Election, parties: Mapping[str, Data], test: Data, chosen: Sequence[str] | None = None
) -> Contest:
    """Run the election's own method and others among these parties. A method that cannot run is skipped."""
    possible, skipped = candidates(election, chosen)
    entries = []
    for label, variant in track("methods", possible.items(), len(possible)):
        begin = time.monotonic()
        try:
            with warnings.catch_warnings():
                if variant is not election:
                    warnings.simplefilter("ignore", OneBallotWarning)  # the table shows a collapsed model
                run = simulate_parties(variant, parties)
            seconds = time.monotonic() - begin
            scores = election.target.row_scores(run.probabilities(test), test.y)
            entries.append(Entry(label, variant, run, run.evaluate(test), scores, seconds))
        except OneBallotError as error:
            if variant is election:
                raise
            skipped[label] = str(error)
    return Contest(entries, skipped, baselines(election, parties, test), test)
