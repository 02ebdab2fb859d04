"""The largest values of settings: a number beyond them is a mistake, or an election made to exhaust its parties.

The limits are generous. They are checked when an election is read and when a method, learner or peer is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .errors import ElectionError

ANY = 10**9
"""Of whole numbers in settings of methods and learners that are not listed."""
DEEPEST = 50
"""Of tables and lists inside each other."""
SEED = 2**64
MOST_KEY_PARTS = 100
"""Of a dotted key in a TOML file. `tomllib` needs time that grows with the square of their number."""
MOST_DIGITS = 500_000
"""Of a number in a TOML file. `tomllib` needs a hundred times the memory of a longer one."""
LARGEST_IN_FILE = 2**63 - 1
"""Of any whole number in an election file, as in TOML's specification."""
MOST: Mapping[str, int] = {
    "max_ballot_mb": 65_536, "max_model_seconds": 86_400, "quorum": 1_000_000, "tallies": 1_000_000,
    # trees and boosting
    "rounds": 100_000, "n_estimators": 100_000, "max_iter": 100_000_000, "max_depth": 10_000, "leaves": 131_072,
    "num_leaves": 131_072, "max_leaf_nodes": 10_000_000, "max_bin": 65_535, "max_bins": 65_535, "nthread": 4_096,
    "num_threads": 4_096, "n_jobs": 4_096, "num_parallel_tree": 10_000, "local_rounds": 10_000,
    # other scikit-learn estimators
    "n_neighbors": 10_000_000, "hidden_layer_sizes": 100_000, "n_components": 1_000_000, "cv": 1_000, "Cs": 10_000,
    "leaf_size": 10_000_000, "cache_size": 1_000_000, "batch_size": 10_000_000, "n_iter_no_change": 100_000_000,
    # networks, generators, distillation
    "epochs": 100_000, "local_epochs": 100_000, "digest_epochs": 100_000, "distillation_epochs": 100_000,
    "steps": 100_000_000, "generator_steps": 1_000_000, "batch": 10_000_000, "local_batch": 10_000_000,
    "noise": 100_000, "hidden": 100_000, "decay_period": 100_000_000, "passes": 10_000, "alignment": 100_000_000,
    "sweeps": 1_000_000,
    # voters, members and rows
    "landmarks": 100_000, "folds": 1_000, "teachers": 1_000_000,
    "k": 1_000_000, "cohorts": 10_000, "most_members": 100_000, "queries": 1_000_000_000, "number": 1_000_000,
    # seeds are not sizes
    "seed": SEED, "noise_seed": SEED, "random_state": SEED,
}  # fmt: skip
_PART = r"""(?:(?<![\w-])[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_KEY_PARTS}}}")
_LONG_NUMBER = re.compile(rf"(?<![0-9a-fA-F_])[0-9a-fA-F_]{{{MOST_DIGITS}}}")


def check_limits(settings: Any, name: str = "", *, most: int = ANY, path: str = "") -> None:
    """Raise ElectionError for a number beyond its limit, in tables and lists at any depth.

    name: of the setting that the value belongs to. most: the limit of whole numbers of other names.
    """
    queue = [(settings, name, path or name, 0)]
    while queue:
        value, name, path, depth = queue.pop()
        if depth > DEEPEST:
            raise ElectionError(f"{path[:100]}: nested deeper than {DEEPEST} levels")
        if isinstance(value, Mapping):
            queue += [(each, str(key), f"{path}.{key}" if path else str(key), depth + 1) for key, each in value.items()]
        elif isinstance(value, list | tuple):
            queue += [(each, name, path, depth + 1) for each in value]
        elif isinstance(value, int | float):
            limit = MOST.get(name, most if isinstance(value, int) else None)
            if limit is not None and (value > limit or (isinstance(value, int) and value < -limit)):
                raise ElectionError(f"{path[:100]}: at most {limit:,} (got {_shown(value)})")


def _shown(value: float) -> str:
    if isinstance(value, float) or abs(value) < 10**24:
        return str(value)
    return f"a whole number of about {int(value.bit_length() * 0.30103):,} digits"


def check_toml(text: str) -> None:
    """Raise ValueError for TOML with a dotted key or a number that is too long to be read with reasonable effort."""
    for pattern, what in (
        (_LONG_KEY, f"the key in line {{}} has more than {MOST_KEY_PARTS} parts"),
        (_LONG_NUMBER, f"the number in line {{}} has more than {MOST_DIGITS:,} digits"),
    ):
        if found := pattern.search(text):
            raise ValueError(what.format(text.count("\n", 0, found.start()) + 1))
