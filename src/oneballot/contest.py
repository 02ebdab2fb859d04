"""Run every method that an election's data allow among the same parties, and recommend one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import plugins
from .candidates import candidates
from .election.election import Election
from .election.targets import Target
from .errors import OneBallotError, OneBallotWarning
from .notebook import Shown
from .report.bootstrap import bootstrap
from .report.gain import Gain, paired
from .report.metrics import Metrics
from .report.text import percent, score
from .runtime.progress import track
from .simulation import Baselines, Simulation, baselines, gain, simulate_parties
from .types import Array, Data

POINT = 0.01
"""A method may be recommended for its AUC if its accuracy is at most this far below the best."""


@dataclass(frozen=True)
class Entry:
    """The result of one method. bytes: the mean size of a ballot; model_bytes: of the final model.

    drawn: bootstrap resamples of the metric that decides, if it is not the mean of the row scores.
    """

    label: str
    election: Election = field(repr=False)
    simulation: Simulation = field(repr=False)
    metrics: Metrics
    row_scores: Array = field(repr=False)
    seconds: float
    drawn: Array | None = field(default=None, repr=False)

    @property
    def judged_by(self) -> str:
        """The target's most important metric."""
        return next(iter(self.metrics.target.judged()))

    @property
    def shown(self) -> str:
        """The value of this metric, in words."""
        name = self.judged_by
        by_rows = name not in self.metrics.values
        return percent(float(self.row_scores.mean())) if by_rows else score(name, self.metrics[name])

    @property
    def value(self) -> float:
        """The same as a number of which the highest is the best; minus infinity if it has no value."""
        name = self.judged_by
        value = float(self.metrics.values.get(name, self.row_scores.mean()))
        lower = self.metrics.target.judged()[name] == "lower"
        return -float("inf") if value != value else -value if lower else value

    @property
    def auc(self) -> float | None:
        """None if the target has no AUC, or these rows have none."""
        auc = self.metrics.values.get("auc", float("nan"))
        return None if auc != auc else auc

    def beats(self, other: Entry) -> bool:
        """Whether it is better by more than chance explains."""
        if self.drawn is None or other.drawn is None:
            difference, margin = paired(self.row_scores, other.row_scores)
        else:
            apart = (self.drawn - other.drawn)[np.isfinite(self.drawn - other.drawn)]
            difference, margin = self.value - other.value, 1.96 * float(apart.std()) if len(apart) else float("inf")
        return difference > margin

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

    @property
    def target(self) -> Target:
        return self.entries[0].metrics.target

    def recommended(self) -> Entry:
        """The best method by the target's most important metric; among those near it, the one with the highest AUC.

        Near it: chance explains the difference and, if the metric is accuracy, it is at most a point. Methods whose
        model has collapsed are left out, unless all have.
        """
        sound = [entry for entry in self.entries if not entry.collapsed] or list(self.entries)
        best = max(sound, key=lambda entry: entry.value)
        point = POINT if best.judged_by == self.target.row_metric else float("inf")
        near = [entry for entry in self._near(best, sound) if best.value - entry.value <= point]
        return max(near, key=lambda entry: (entry.auc or 0, entry.value))

    def _near(self, best: Entry, entries: Iterable[Entry]) -> list[Entry]:
        """The entries that are not worse than this one by more than chance explains."""
        return [entry for entry in entries if entry is best or not best.beats(entry)]

    def gain(self) -> Gain:
        """What the recommended method brings each party."""
        chosen = self.recommended()
        return gain(chosen.election, chosen.simulation, self.without, self.test)

    def sentences(self) -> list[str]:
        chosen = self.recommended()
        metric = self.target.metrics.get(chosen.judged_by, chosen.judged_by)
        lines = [f"Recommended: {chosen.label}, {metric} {chosen.shown}."]
        best = max(self.entries, key=lambda entry: entry.value)
        if best is not chosen and not best.collapsed:
            lines[0] += f" {best.label} has {best.shown}, which is within chance"
            lines[0] += (
                f", but a lower AUC ({best.auc:.3f} against {chosen.auc:.3f})." if best.auc and chosen.auc else "."
            )
        if chosen.collapsed:
            ranks = f" {chosen.label} ranks rows best (AUC {chosen.auc:.3f}):" if chosen.auc else f" {chosen.label}:"
            lines = [
                f"The model of every method has collapsed.{ranks} choose a threshold on its probabilities, or add rows "
                "of the rare class."
            ]
        smaller = [e for e in self._near(chosen, self.entries) if e.bytes < chosen.bytes / 2 and not e.collapsed]
        if smaller:
            other = min(smaller, key=lambda entry: entry.bytes)
            lines[0] += f" {other.label} is as good within chance, with ballots of {other.bytes:,} bytes"
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
            predictions, target = run.probabilities(test), election.target
            scores, drawn = target.row_scores(predictions, test.y), None
            if (name := next(iter(target.judged()))) != target.row_metric:
                (resampled,) = bootstrap(target.scorer(predictions, test.y), rows=len(test))
                drawn = resampled[name]
            entries.append(Entry(label, variant, run, run.evaluate(test), scores, seconds, drawn))
        except OneBallotError as error:
            if variant is election:
                raise
            skipped[label] = str(error)
    return Contest(entries, skipped, baselines(election, parties, test), test)
