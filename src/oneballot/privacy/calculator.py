"""`oneballot epsilon`: a question about noise, queries and budget, of which one is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from ..errors import ElectionError
from .accounting import Accountant, check_delta, epsilon
from .budget import noise_for, queries_for
from .mechanisms import UNITS, Adjacency, Level, Mechanism, NoisyArgmax, compositions, reach_of

OWN = {"gamma": "laplace", "sigma": "gaussian"}


@dataclass(frozen=True)
class Question:
    noise: Mapping[str, float]
    queries: int | None
    budget: float | None = None
    mechanism: Mechanism | None = None
    classes: int = 2
    delta: float = 1e-5
    level: Level = "L1"
    partitions: int = 1
    adjacency: Adjacency = "replace"
    stable_ids: bool = True
    accountant: Accountant = "tight"

    def compositions(self, queries: int) -> int:
        return compositions(self.level, queries, self.partitions)


def answer(question: Question) -> dict[str, Any]:
    """The missing one of noise, queries and budget, with all that an epsilon must be printed with."""
    check_delta(question.delta)
    query = _query(question)
    queries, told = question.queries, question.budget
    if query is None:
        if told is None or queries is None:
            raise ElectionError("give two of: the noise (--gamma, --sigma or --scale), --queries, --epsilon")
        blank = NoisyArgmax(question.mechanism or "gumbel", 1.0, question.classes, _reach(question))
        query = noise_for(told, blank, question.compositions, queries, question.delta, question.accountant)
    elif told is not None and queries is not None:
        raise ElectionError("the noise, --queries and --epsilon are all given; leave out the one to be found")
    elif queries is None:
        if told is None:
            raise ElectionError("give --queries as well for epsilon, or --epsilon for the number of queries")
        queries = queries_for(told, query, question.compositions, question.delta, question.accountant)
    spent = epsilon(query, question.compositions(queries), question.delta, question.accountant)
    return {
        "epsilon": spent, "delta": question.delta, "unit": UNITS[question.level], "adjacency": question.adjacency,
        "accountant": question.accountant, "publishable": True, "mechanism": query.mechanism, "scale": query.scale,
        "queries": queries,
    }  # fmt: skip


def compare_all(told: Mapping[str, Any], question: Question) -> list[dict[str, Any]]:
    """Each mechanism with the noise that costs what was found, by `tight`; and every accountant that knows it."""
    rows = []
    count = question.compositions(told["queries"])
    for mechanism in get_args(Mechanism):
        blank = NoisyArgmax(mechanism, 1.0, question.classes, _reach(question))
        query = noise_for(told["epsilon"], blank, question.compositions, told["queries"], question.delta, "tight")
        for accountant in get_args(Accountant):
            if mechanism == "laplace" or accountant in ("tight", "rdp"):
                spent = epsilon(query, count, question.delta, accountant)
                rows.append({"mechanism": mechanism, "scale": query.scale, "accountant": accountant, "epsilon": spent})
    return rows


def curve(question: Question, told: Mapping[str, Any], queries: list[int]) -> list[float]:
    """Epsilon after so many queries with the noise that was found."""
    query = NoisyArgmax(told["mechanism"], told["scale"], question.classes, _reach(question))
    return [epsilon(query, question.compositions(q), question.delta, question.accountant) for q in queries]


def _reach(question: Question) -> int:
    return reach_of(
        question.level, question.adjacency, partitions=question.partitions, stable_ids=question.stable_ids
    )  # fmt: skip


def _query(question: Question) -> NoisyArgmax | None:
    if not question.noise:
        return None
    if len(question.noise) > 1:
        raise ElectionError(f"one noise at a time, not {' and '.join('--' + n for n in question.noise)}")
    ((name, value),) = question.noise.items()
    kind = OWN.get(name)
    if kind is not None and question.mechanism not in (None, kind):
        raise ElectionError(f"--{name} is {kind} noise, and --mechanism says {question.mechanism}; use --scale")
    if not value > 0:
        raise ElectionError(f"--{name} must be above 0, not {value}")
    mechanism: Any = kind or question.mechanism or "gumbel"
    return replace(
        NoisyArgmax(mechanism, 1.0, question.classes, _reach(question)), scale=1 / value if name == "gamma" else value
    )
