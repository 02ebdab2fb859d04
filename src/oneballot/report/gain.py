"""What a federation brings each party: who gains, who loses, why, and what to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..types import Array
from .beside import Beside

CLEAR = 0.001
"""A difference in accuracy below a tenth of a point is none."""
RARE = 0.05
"""The share of a class below which accuracy hardly shows whether a model finds its rows."""
NAMED = 3
"""How many parties a sentence names."""
FEW_ROWS = 100
WORTH_A_TRY = 0.02
"""If no party loses and pooled data are not more than this ahead, there is nothing to try."""


@dataclass(frozen=True)
class Setting:
    """What may explain a gain or a loss: the method and its public rows, and each party's rows of each class.

    distils: the final model learns from the public rows only. empty: how many parties the split left without rows.
    """

    classes: Sequence[Any]
    class_counts: Mapping[str, Array]
    row_counts: Mapping[str, int]
    level: str = "L0"
    public_rows: int = 0
    distils: bool = False
    open_ensemble: bool = False
    empty: int = 0

    @property
    def rarest(self) -> tuple[str, float] | None:
        """The rarest class that the parties have and its share of their rows; None if no class is rare."""
        counts = sum(self.class_counts.values(), np.zeros(len(self.classes)))
        shares = (
            {str(c): n / counts.sum() for c, n in zip(self.classes, counts, strict=True) if n} if counts.any() else {}
        )
        name = min(shares, key=lambda c: shares[c], default=None)
        return (name, float(shares[name])) if name is not None and shares[name] < RARE else None

    def lacking(self, party: str) -> list[str]:
        return [str(c) for c, n in zip(self.classes, self.class_counts[party], strict=True) if not n]

    def rows(self, party: str) -> int:
        return self.row_counts[party]


@dataclass(frozen=True)
class Gain:
    """For each party the difference of the federation's accuracy and its own, and half of its 95 % interval.

    best: the most accurate party, chosen on the test rows. above_best, below_pooled: differences of accuracies.
    others: other metrics, such as AUC, which shows what accuracy hides where a class is rare.
    """

    setting: Setting
    difference: Mapping[str, float]
    margin: Mapping[str, float]
    best: str
    above_best: float
    below_pooled: float
    others: Sequence[Beside] = ()

    @classmethod
    def of(
        cls,
        setting: Setting,
        alone: Mapping[str, Array],
        federation: Array,
        pooled: Array,
        others: Sequence[Beside] = (),
    ) -> Gain:
        """From the `Target.row_scores` of each party's own model, the federation's and that of pooled data."""
        pairs = {party: paired(federation, scores) for party, scores in alone.items()}
        best = max(alone, key=lambda party: float(alone[party].mean()))
        return cls(
            setting,
            {party: difference for party, (difference, _) in pairs.items()},
            {party: margin for party, (_, margin) in pairs.items()},
            best,
            pairs[best][0],
            float(pooled.mean() - federation.mean()),
            others,
        )

    @property
    def winners(self) -> list[str]:
        """Parties that gain beyond chance, most first."""
        better = [p for p, d in self.difference.items() if d > max(self.margin[p], CLEAR)]
        return sorted(better, key=lambda party: -self.difference[party])

    @property
    def losers(self) -> list[str]:
        """Parties that lose beyond chance, most first."""
        worse = [p for p, d in self.difference.items() if -d > max(self.margin[p], CLEAR)]
        return sorted(worse, key=lambda party: self.difference[party])

    @property
    def behind(self) -> list[Beside]:
        """Metrics by which the federation is clearly worse than the mean party or the best one."""
        return [each for each in self.others if -1 in each.signs]

    def describe(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return {
            "parties": {
                party: {
                    "rows": self.setting.rows(party),
                    "lacks": self.setting.lacking(party),
                    "gain": self.difference[party],
                    "margin": self.margin[party],
                }
                for party in self.difference
            },
            "gain": self.winners,
            "lose": self.losers,
            "best_party": self.best,
            "above_best_party": self.above_best,
            "below_pooled": self.below_pooled,
            "other_metrics": {each.name: each.describe() for each in self.others},
            "sentences": self.sentences(),
        }

    def sentences(self, *, advice: bool = True) -> list[str]:
        """The verdict in words. `advice`: also what to try, unless all methods have already been compared."""
        said = (self._who(), self._overall(), *self._others(), self._why(), self._try() if advice else "")
        return [sentence for sentence in said if sentence]

    def _who(self) -> str:
        winners, losers, parties = self.winners, self.losers, len(self.difference)
        rest = parties - len(winners) - len(losers)
        if parties == len(winners):
            text = f"All {parties} parties gain" if parties > 1 else f"{winners[0]} gains"
        else:
            text = f"{len(winners) or 'None'} of {parties} parties gain{'s' if len(winners) == 1 else ''}"
        if winners:
            mean = np.mean([self.difference[party] for party in winners])
            text += f", {100 * mean:.1f} points on average (most: {self._named(winners[:1])})"
        if losers:
            text += f"; {len(losers)} {'loses' if len(losers) == 1 else 'lose'}: {self._named(losers)}"
        if rest:
            text += f"; for {rest} the difference is within chance"
        if empty := self.setting.empty:
            text += f". {empty} of {parties + empty} parties got no rows in this split, so they are not compared"
        return text + "."

    def _overall(self) -> str:
        within = abs(self.above_best) <= self.margin[self.best]
        best = _beside(self.above_best, "the best party", loud=not within)
        chance = ", within chance" if within and _points(self.above_best) else ""
        return f"The federation is {best} ({self.best}{chance}) and {_beside(-self.below_pooled, 'pooled data')}."

    def _others(self) -> list[str]:
        """What other metrics show, and accuracy does not: losses, and gains unless all parties gain anyway."""
        all_gain = len(self.winners) == len(self.difference)
        return [each.sentence() for each in self.others if each in self.behind or (any(each.signs) and not all_gain)]

    def _why(self) -> str:
        reasons = []
        lacking = [party for party in self.winners if self.setting.lacking(party)]
        few = [party for party in self.winners if party not in lacking and self.setting.rows(party) < FEW_ROWS]
        if lacking:
            one = f"{lacking[0]} has no rows of class {', '.join(self.setting.lacking(lacking[0])[:8])}"
            many = f"{len(lacking)} of those that gain lack classes that others have ({one})"
            reasons.append(f"{one}, which others have" if len(lacking) == 1 else many)
        if few:
            one = f"{few[0]} has {self.setting.rows(few[0])}"
            many = f"{len(few)} of those that gain have few rows ({one})"
            reasons.append(f"{one} rows only" if len(few) == 1 else many)
        if self.losers and self.setting.distils:
            most = max(self.losers, key=self.setting.rows)
            if (rows := self.setting.rows(most)) > self.setting.public_rows:
                reasons.append(
                    f"the final model learns from {self.setting.public_rows:,} public rows alone, and {most} has "
                    f"{rows:,} rows of its own"
                )
        if self.behind and (rarest := self.setting.rarest):
            text = f"class {rarest[0]} has {100 * rarest[1]:.1f} % of the rows, so accuracy hardly shows who finds them"
            if self.setting.distils:
                text += f", and few of the {self.setting.public_rows:,} public rows teach it to the final model"
            reasons.append(text)
        if (self.losers or self.behind) and self.setting.level != "L0":
            reasons.append(f"the noise of {self.setting.level} costs accuracy")
        return f"Why: {'; '.join(reasons)}." if reasons else ""

    def _try(self) -> str:
        if not self.losers and not self.behind and self.below_pooled < WORTH_A_TRY:
            return ""
        ideas = []
        if self.setting.level != "L0":
            ideas.append("more parties, or a larger epsilon")
        elif not self.setting.open_ensemble:
            ideas.append(
                'the open ensemble (method "ensemble" with weights = "open"), which keeps the parties\' models'
            )
        if self.setting.distils:
            ideas.append(f"more public rows than {self.setting.public_rows:,}")
        ideas.append("`oneballot compare`, which runs every method on these rows")
        return f"What to try: {'; '.join(ideas)}."

    def _named(self, parties: Sequence[str]) -> str:
        shown = [f"{p} {100 * self.difference[p]:+.1f} ± {100 * self.margin[p]:.1f}" for p in parties[:NAMED]]
        return ", ".join(shown) + (f" and {len(parties) - NAMED} more" if len(parties) > NAMED else "")


def paired(ours: Array, theirs: Array) -> tuple[float, float]:
    """The mean difference of two models' scores on the same rows, and half of its 95 % interval.

    Half is at least 3 / rows: what n rows do not show, 3 in n other rows may (the rule of three).
    """
    difference, rows = ours - theirs, len(ours)
    margin = max(1.96 * float(difference.std(ddof=1)) / rows**0.5, 3 / rows) if rows > 1 else float("inf")
    return float(difference.mean()), margin


def _points(difference: float) -> float:
    return abs(round(100 * difference, 1))


def _beside(difference: float, what: str, *, loud: bool = False) -> str:
    """Such as "1.2 points above the best party"; a loss that counts is in capitals."""
    if not (points := _points(difference)):
        return f"as accurate as {what}"
    below = "BELOW" if loud else "below"
    return f"{points:.1f} points {'above' if difference > 0 else below} {what}"
