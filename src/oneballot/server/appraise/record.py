"""The result of an appraisal, and the file that keeps it beside its outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...election.outcome_files import INDEX, appraisal_name
from ...errors import OneBallotError
from ...runtime.files import write_atomic
from ...types import Array

HOW = {
    "members": "A coalition is worth the {metric} of the ensemble of its members' models.",
    "refit": "A coalition is worth the {metric} of the final model that its ballots alone would give.",
    "labels": "A quick proxy: a coalition is worth the {metric} of its votes on the public rows that are most similar "
    "to each validation row. No final model is trained again; --exact does that.",
    "undistilled": "A quick proxy: a coalition is worth the {metric} of the ensemble of its members' models before it "
    "is distilled into one model. No final model is trained again; --exact does that.",
}
Z = 1.959964
"""The 97.5 % quantile of the normal distribution, for intervals of 95 %."""


@dataclass(frozen=True)
class PartyValue:
    """A party's Shapley value: what it adds to the metric, with its 95 % interval."""

    party: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Appraisal:
    """What each party adds, the most valuable first. The values sum to `whole` − `empty`.

    metric: "accuracy" or "balanced accuracy". rows: the number of validation rows. how: what a coalition is worth, a
    key of HOW. whole: the worth of all parties together; empty: of none. final: the metric of the outcome's model,
    which a proxy only approximates. orders: how many orders of the parties were sampled; 0 if all coalitions were
    valued. correlation: with --exact, the rank correlation of the quick proxy with these values. secret: it uses votes
    without noise, so that only the server may see it.
    """

    parties: tuple[PartyValue, ...]
    metric: str
    rows: int
    how: str
    whole: float
    empty: float
    final: float
    orders: int = 0
    correlation: float | None = None
    secret: bool = False

    @property
    def sentences(self) -> list[str]:
        """What the numbers mean."""
        covers = "the 95 % intervals cover the choice of the validation rows"
        certainty = f"All {2 ** len(self.parties):,} coalitions were valued, so the values are exact; {covers}."
        if self.orders:
            certainty = (
                f"{self.orders:,} orders of the parties were sampled, half of them the reverse of the others. The "
                f"estimates are unbiased, and {covers} and of the orders."
            )
        lines = [
            HOW[self.how].format(metric=self.metric),
            f"The values sum to {100 * (self.whole - self.empty):.2f} points: {100 * self.whole:.2f} % with all "
            f"parties, {100 * self.empty:.2f} % if every row gets the same class. The outcome's model has "
            f"{100 * self.final:.2f} %.",
            certainty,
        ]
        if self.correlation is not None:
            lines.append(f"The quick proxy ranks the parties with a correlation of {self.correlation:.2f} to this.")
        return lines

    def describe(self) -> dict[str, Any]:
        """As plain values, for files and --json."""
        described = asdict(self) | {"parties": [asdict(each) for each in self.parties], "sentences": self.sentences}
        return {"do_not_publish": True, **described} if self.secret else described

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Appraisal:
        rest = {name: value for name, value in described.items() if name not in ("sentences", "do_not_publish")}
        return cls(**{**rest, "parties": tuple(PartyValue(**each) for each in described["parties"])})


def rank_correlation(one: Array, other: Array) -> float:
    """Spearman's rank correlation; 1 if there is nothing to rank."""
    from scipy.stats import spearmanr

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 1.0
    return float(spearmanr(one, other).statistic)


def save_appraisal(folder: Path, appraisal: Appraisal) -> Path:
    """Keep an appraisal beside the outcome, for its report. The next tally that changes the outcome removes it."""
    path = folder / appraisal_name((folder / INDEX).read_bytes())
    write_atomic(path, json.dumps(appraisal.describe(), indent=1).encode(), 0o600)
    return path


def read_appraisal(folder: Path) -> Appraisal | None:
    """The appraisal of the outcome in this folder, as it is now; None if there is none. Raises OneBallotError if it is
    damaged."""
    try:
        path = folder / appraisal_name((folder / INDEX).read_bytes())
        return Appraisal.read(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise OneBallotError(f"{path} is damaged ({error!r}); run `oneballot appraise` again, or remove it") from None
