"""What the outcome is worth to parties, from the files that `oneballot benefit --json` wrote there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from ...errors import DataError, OneBallotError
from ...server.outcome import Outcome
from ..page import Table
from ..text import row_count, score, signed


class Difference(BaseModel):
    """The outcome's metric less that of the party's own model, and half of its 95 % interval."""

    model_config = ConfigDict(allow_inf_nan=False)
    difference: float | None
    margin: float | None


class Accuracy(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    accuracy: float | None


class BenefitFile(BaseModel):
    """What a party measured on its own rows, as far as a report states it."""

    election: str
    party: str | None
    verdict: Literal["better", "worse", "unclear"]
    rows: NonNegativeInt
    own: Accuracy
    outcome: Accuracy
    differences: dict[str, Difference]


def read_benefits(paths: Sequence[Path], outcome: Outcome) -> tuple[BenefitFile, ...]:
    """The contents of these files. Raises DataError if one is of another kind, or of another election."""
    found = []
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


def benefit_table(benefits: Sequence[BenefitFile]) -> Table:
    rows = [
        [
            each.party or "not named",
            row_count(each.rows),
            _score(each.own.accuracy),
            _score(each.outcome.accuracy),
            _shown(each.differences.get("accuracy")),
            each.verdict,
        ]
        for each in benefits
    ]
    return Table(
        "What the outcome is worth to a party",
        ["party", "rows", "accuracy of its own model", "accuracy of the outcome", "difference (points)", "outcome is"],
        rows,
        note="Measured by each party on its own rows with oneballot benefit, and not checked by the server. The "
        "difference has a 95 % interval; unclear: it is within chance.",
    )


def _score(value: float | None) -> str:
    return score("accuracy", float("nan") if value is None else value)


def _shown(each: Difference | None) -> str:
    if each is None or each.difference is None or each.margin is None:
        return "–"
    return f"{signed(100 * each.difference, 1)} ± {100 * each.margin:.1f}"
