"""What the outcome is worth to parties, from the files that `oneballot benefit --json` wrote there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, FiniteFloat, NonNegativeInt, ValidationError

from ...election.targets import Target
from ...errors import DataError, OneBallotError
from ...server.outcome import Outcome
from ..page import Table
from ..text import SHARES, row_count, score, signed


class Difference(BaseModel):
    """The outcome's metric less that of the party's own model, and half of its 95 % interval."""

    model_config = ConfigDict(allow_inf_nan=False)
    difference: float | None
    margin: float | None


def _values(described: Any) -> Any:
    """The metrics in what a file says of a model: it also holds lists, such as intervals."""
    if not isinstance(described, dict):
        return described
    return {name: value for name, value in described.items() if not isinstance(value, dict | list)}


Values = Annotated[dict[str, FiniteFloat | None], BeforeValidator(_values)]


class BenefitFile(BaseModel):
    """What a party measured on its own rows, as far as a report states it.

    judged_by: the metric that decided; accuracy in files of earlier versions.
    """

    election: str
    party: str | None
    verdict: Literal["better", "worse", "unclear"]
    rows: NonNegativeInt
    judged_by: str = "accuracy"
    own: Values
    outcome: Values
    differences: dict[str, Difference]


def read_benefits(paths: Sequence[Path], outcome: Outcome) -> tuple[BenefitFile, ...]:
    """The contents of these files. Raises DataError if one is of another kind, of another election, or judged by
    another metric than the outcome's target compares models by."""
    found, metric = [], _metric(outcome.target)
    for path in paths:
        try:
            each = BenefitFile.model_validate_json(path.read_bytes())
        except ValidationError:
            raise DataError(
                f"{path} was not written by `oneballot benefit --json` of this version; ask the party to run it again"
            ) from None
        if each.election != outcome.election:
            raise DataError(
                f"{path} is about election {each.election[:12]}, and this is an outcome of {outcome.election[:12]}"
            )
        if each.judged_by != metric:
            raise DataError(
                f"{path} compares models by {each.judged_by[:100]!r}, and the election's target by {metric!r}; ask the "
                "party to run `oneballot benefit --json` again with the target that is installed here"
            )
        found.append(each)
    return tuple(found)


def check_level(level: str, option: str = "--benefit", *, server_page: bool) -> None:
    """Raise OneBallotError where figures about parties' rows, which have no noise, may be on no page.

    option: which adds them.
    """
    if level == "L2" or (level == "L1" and not server_page):
        cure = "" if level == "L2" else "; with --server-page they are on the server's own page"
        raise OneBallotError(
            f"{option}: figures about a party's rows have no noise, so a report at {level} has none{cure}"
        )


def _metric(target: Target) -> str:
    """The metric by which models are compared."""
    return next(iter(target.judged()))


def benefit_table(benefits: Sequence[BenefitFile], target: Target) -> Table:
    metric = _metric(target)
    shown, points = target.metrics.get(metric, metric), metric in SHARES or metric not in target.metrics
    rows = [
        [
            each.party or "not named",
            row_count(each.rows),
            _score(metric, each.own.get(metric)),
            _score(metric, each.outcome.get(metric)),
            _shown(each.differences.get(metric), points=points),
            each.verdict,
        ]
        for each in benefits
    ]
    return Table(
        "What the outcome is worth to a party",
        [
            "party",
            "rows",
            f"{shown} of its own model",
            f"{shown} of the outcome",
            f"difference{' (points)' if points else ''}",
            "outcome is",
        ],
        rows,
        note="Measured by each party on its own rows with oneballot benefit, and not checked by the server. The "
        "difference has a 95 % interval; unclear: it is within chance.",
    )


def _score(metric: str, value: float | None) -> str:
    return score(metric, float("nan") if value is None else value)


def _shown(each: Difference | None, *, points: bool) -> str:
    if each is None or each.difference is None or each.margin is None:
        return "–"
    factor, digits = (100, 1) if points else (1, 3)
    return f"{signed(factor * each.difference, digits)} ± {factor * each.margin:.{digits}f}"
