"""Time of the accountants on one core: `tight`, and data-dependent epsilons of repeated and of distinct votes.

CPU time with one thread, the best of three.

python benchmarks/accounts.py [--quick] [--only tight seen more]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from figures import begin, end, show
from oneballot.privacy.accounting import epsilon
from oneballot.privacy.data_dependent.accounting import data_dependent_epsilon
from oneballot.privacy.mechanisms import find
from oneballot.types import Array
from oneballot_lab.privacy.gnmax import gnmax_epsilon, smooth_sensitivity
from oneballot_lab.privacy.paper import paper_epsilon

DELTA = 1e-5
VOTERS, CLASSES = 250, 10
SCALES: dict[str, float] = {"gumbel": 25.0, "gaussian": 40.0, "laplace": 25.0}
LIMIT = 2.0


def repeated_votes(queries: int, classes: int = CLASSES) -> Array:
    """Voters who mostly agree: nine in ten queries are nearly unanimous."""
    random = np.random.default_rng(0)
    sure = random.dirichlet(np.full(classes, 0.02), size=queries)
    return random.multinomial(VOTERS, np.where(random.random((queries, 1)) < 0.9, sure, 1 / classes))


def distinct_votes(queries: int) -> Array:
    """No two vote vectors are equal up to the order of the classes."""
    random = np.random.default_rng(1)
    vectors: set[tuple[int, ...]] = set()
    while len(vectors) < queries:
        vectors |= {
            tuple(sorted(v)) for v in random.multinomial(VOTERS, random.dirichlet(np.full(CLASSES, 0.7)), size=4)
        }
    return np.array(sorted(vectors)[:queries])


def best(repeats: int, work: Callable[..., Any], *given: Any) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work(*given)
        times.append(time.process_time() - start)
    return min(times)


def compare_with_limit(figure: str, taken: float, limit: float | None = LIMIT) -> None:
    show(figure, f"{taken:.2f} s", f"< {limit:g} s" if limit else "", taken < limit if limit else None)


def measure_tight(repeats: int) -> None:
    for mechanism, scale in SCALES.items():
        for classes in (2, CLASSES):
            query = find(mechanism)(scale * 40, classes, 2)
            seconds = best(repeats, epsilon, query, 100_000, DELTA)
            compare_with_limit(f"tight, 100,000 queries, {mechanism}, {classes} classes", seconds)


def measure_data_dependent(queries: int, repeats: int) -> None:
    for name, votes in (("repeated", repeated_votes(queries)), ("distinct", distinct_votes(queries))):
        distinct = len(np.unique(np.sort(votes, axis=1), axis=0))
        for mechanism in SCALES:
            query = find(mechanism)(SCALES[mechanism], CLASSES, 2)
            seconds = best(repeats, data_dependent_epsilon, query, votes, DELTA)
            figure = f"data-dependent, {queries:,} queries, {name} votes ({distinct:,} distinct), {mechanism}"
            compare_with_limit(figure, seconds)


def measure_more(queries: int) -> None:
    """Measurements without a limit."""
    votes, few = distinct_votes(queries), queries // 20
    compare_with_limit(f"GNMax, {queries:,} distinct queries", best(1, gnmax_epsilon, votes, 40.0, DELTA), None)
    compare_with_limit(f"paper, {queries:,} distinct queries", best(1, paper_epsilon, votes, 0.04, DELTA), None)
    seconds = best(1, smooth_sensitivity, votes, 40.0, 20.0, 0.02)
    compare_with_limit(f"smooth sensitivity, {queries:,} queries", seconds, None)
    for mechanism, scale in SCALES.items():
        two, hundred = find(mechanism)(scale, CLASSES, 4), find(mechanism)(scale, 100, 2)
        seconds = best(1, data_dependent_epsilon, two, votes[:: len(votes) // few][:few], DELTA)
        compare_with_limit(f"data-dependent, two moved votes, {few:,} distinct queries, {mechanism}", seconds, None)
        seconds = best(1, data_dependent_epsilon, hundred, repeated_votes(queries, 100), DELTA)
        compare_with_limit(f"data-dependent, 100 classes, {queries:,} repeated queries, {mechanism}", seconds, None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the queries, each time once")
    parser.add_argument("--only", nargs="+", choices=["tight", "seen", "more"], default=["tight", "seen", "more"])
    options = parser.parse_args()
    queries, repeats = (1_000, 1) if options.quick else (10_000, 3)
    begin()
    with threadpool_limits(1):
        if "tight" in options.only:
            measure_tight(repeats)
        if "seen" in options.only:
            measure_data_dependent(queries, repeats)
        if "more" in options.only:
            measure_more(queries)
    return end()


if __name__ == "__main__":
    sys.exit(main())
