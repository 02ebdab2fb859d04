"""The accounts' time on one core: `tight`, and what was seen of votes that repeat and of votes that are all different.

Processor time with one thread, the best of three: what a core that does nothing else would take.

python benchmarks/accounts.py [--quick] [--only tight seen more]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from threadpoolctl import threadpool_limits

from figures import begin, end, show
from oneballot.privacy.accounting import epsilon
from oneballot.privacy.data_dependent.accounting import data_dependent_epsilon, paper_epsilon
from oneballot.privacy.data_dependent.gnmax import gnmax_epsilon, smooth_sensitivity
from oneballot.privacy.releases import Mechanism, NoisyArgmax
from oneballot.types import Array

DELTA = 1e-5
VOTERS, CLASSES = 250, 10
SCALES: dict[Mechanism, float] = {"gumbel": 25.0, "gaussian": 40.0, "laplace": 25.0}
LIMIT = 2.0


def votes_that_repeat(queries: int, classes: int = CLASSES) -> Array:
    """Voters who mostly agree: nine in ten queries are nearly unanimous."""
    random = np.random.default_rng(0)
    sure = random.dirichlet(np.full(classes, 0.02), size=queries)
    return random.multinomial(VOTERS, np.where(random.random((queries, 1)) < 0.9, sure, 1 / classes))


def different_votes(queries: int) -> Array:
    """No two the same, not even with the classes in another order."""
    random = np.random.default_rng(1)
    found: set[tuple[int, ...]] = set()
    while len(found) < queries:
        found |= {tuple(sorted(v)) for v in random.multinomial(VOTERS, random.dirichlet(np.full(CLASSES, 0.7)), size=4)}
    return np.array(sorted(found)[:queries])


def best(repeats: int, work: Callable[..., Any], *given: Any) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work(*given)
        times.append(time.process_time() - start)
    return min(times)


def against_limit(figure: str, taken: float, limit: float | None = LIMIT) -> None:
    show(figure, f"{taken:.2f} s", f"< {limit:g} s" if limit else "", taken < limit if limit else None)


def measure_tight(repeats: int) -> None:
    for mechanism, scale in SCALES.items():
        for classes in (2, CLASSES):
            query = NoisyArgmax(mechanism, scale * 40, classes, 2)
            against_limit(f"tight, 100,000 queries, {mechanism}, {classes} classes",
                          best(repeats, epsilon, query, 100_000, DELTA))  # fmt: skip


def measure_seen(queries: int, repeats: int) -> None:
    for name, votes in (("that repeat", votes_that_repeat(queries)), ("all different", different_votes(queries))):
        kinds = len(np.unique(np.sort(votes, axis=1), axis=0))
        for mechanism in get_args(Mechanism):
            query = NoisyArgmax(mechanism, SCALES[mechanism], CLASSES, 2)
            against_limit(f"seen, {queries:,} queries, votes {name} ({kinds:,} kinds), {mechanism}",
                          best(repeats, data_dependent_epsilon, query, votes, DELTA))  # fmt: skip


def measure_more(queries: int) -> None:
    """What has no target."""
    votes = different_votes(queries)
    against_limit(f"GNMax, {queries:,} queries, all different", best(1, gnmax_epsilon, votes, 40.0, DELTA), None)
    against_limit(f"paper, {queries:,} queries, all different", best(1, paper_epsilon, votes, 0.04, DELTA), None)
    against_limit(
        f"smooth sensitivity, {queries:,} queries", best(1, smooth_sensitivity, votes, 40.0, 20.0, 0.02), None
    )
    few = queries // 20
    for mechanism, scale in SCALES.items():
        two, hundred = NoisyArgmax(mechanism, scale, CLASSES, 4), NoisyArgmax(mechanism, scale, 100, 2)
        against_limit(f"seen, two votes move, {few:,} queries, all different, {mechanism}",
                      best(1, data_dependent_epsilon, two, votes[:: len(votes) // few][:few], DELTA), None)  # fmt: skip
        seconds = best(1, data_dependent_epsilon, hundred, votes_that_repeat(queries, 100), DELTA)
        against_limit(f"seen, 100 classes, {queries:,} queries, votes that repeat, {mechanism}", seconds, None)


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
            measure_seen(queries, repeats)
        if "more" in options.only:
            measure_more(queries)
    return end()


if __name__ == "__main__":
    sys.exit(main())
