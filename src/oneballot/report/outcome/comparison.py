"""Other methods and pooled data in a report, from the file that `oneballot compare --out` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from ...election.targets import Target
from ...errors import DataError
from ...server.outcome import Outcome
from ..page import Table
from ..text import plural, score


class Scores(BaseModel):
    """The metrics of a model that a table shows; None for those without a definition."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, object] = Field(init=False)

    def cells(self, target: Target) -> list[str]:
        found = self.__pydantic_extra__
        values = {name: each for name, each in found.items() if isinstance(each, int | float)}
        return [score(name, values.get(name, float("nan"))) for name in target.columns]


class Method(BaseModel):
    name: str
    metrics: Scores


class BestParty(Scores):
    party: str


class Baselines(BaseModel):
    mean_party: Scores
    best_party: BestParty
    pooled: Scores


class Peer(BaseModel):
    """An iterative or central method, after each round."""

    peer: str
    rounds: list[Scores]


class ComparisonFile(BaseModel):
    """What `oneballot compare` measured, as far as a report states it."""

    election: str
    parties: NonNegativeInt
    test_rows: NonNegativeInt
    split: str
    methods: list[Method]
    baselines: Baselines
    peers: list[Peer] = []


def read_comparison(path: Path, outcome: Outcome) -> ComparisonFile:
    """The contents of this file. Raises DataError if it is of another kind, or of another election."""
    try:
        found = ComparisonFile.model_validate_json(path.read_bytes())
    except ValidationError:
        raise DataError(
            f"{path} is not the comparison.json that `oneballot compare --out` of this version writes; run it again"
        ) from None
    if found.election != outcome.election:
        raise DataError(
            f"{path} is about election {found.election[:12]}, and this is an outcome of {outcome.election[:12]}"
        )
    return found


def comparison_table(found: ComparisonFile, target: Target) -> Table:
    """Every method that was compared, and pooled data."""
    without = found.baselines
    known: Mapping[str, Scores] = {
        "mean party": without.mean_party,
        f"best party ({without.best_party.party})": without.best_party,
        **{each.name: each.metrics for each in found.methods},
        **{f"{each.peer}, {plural(len(each.rounds), 'round')}": each.rounds[-1] for each in found.peers if each.rounds},
        "pooled data (upper bound)": without.pooled,
    }
    rows = [[name, *scores.cells(target)] for name, scores in known.items()]
    note = (
        f"Measured with oneballot compare among {plural(found.parties, 'simulated party', 'simulated parties')} (split "
        f"{found.split}) on {plural(found.test_rows, 'test row')} of its own: compare these rows with each other, not "
        "with the figures of the labelled rows above."
    )
    return Table("Other methods and pooled data, in a simulation", ["model", *target.columns.values()], rows, note=note)
