"""Fixtures of most tests: a small election on scikit-learn's digits with five parties and fast learners."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import oneballot as ob
from oneballot import plugins
from oneballot.simulation import divide
from oneballot.types import Array, Data

settings.register_profile("local", deadline=None)  # a slow machine is no failure
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6})


SLOW = (
    "boxes/test_elections.py", "boxes/test_hosts.py", "boxes/test_installed.py", "boxes/test_prefetch.py",
    "boxes/test_remote.py", "cli/test_advice.py", "cli/test_keys.py", "docs/test_deploy.py", "docs/test_readme.py",
    "fleet/train/test_agreement.py", "fleet/train/test_engine.py", "hostile/test_boosters.py", "hostile/test_skops.py",
    "integrations/flower/test_collect.py", "lab/peers/", "lab/reproduce/", "learners/test_training.py",
    "methods/dosfl/test_distil.py", "methods/dosfl/test_killed.py", "methods/ensemble/test_open.py",
    "party/test_outbox.py", "privacy/test_exact_audit.py", "privacy/test_mutants.py", "runtime/test_executor.py",
    "server/test_influence.py", "server/test_sandbox.py", "server/test_verdict.py", "test_audit.py", "test_benefit.py",
    "test_kills.py", "test_kills_of_shares.py", "test_platforms.py", "test_private.py", "test_sparse.py",
)  # fmt: skip
"""Files and folders whose tests are all slow: they start servers or processes, train networks, or run mutants."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def log_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key that signs logs, so that no test writes to the user's configuration."""
    path = tmp_path_factory.mktemp("config") / "log.key"
    os.environ["ONEBALLOT_LOG_KEY"] = str(path)
    return path


@dataclass(frozen=True)
class Digits:
    X: Array
    y: Array
    public: Array
    X_test: Array
    y_test: Array


@pytest.fixture(scope="session")
def digits() -> Digits:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    test, public, private = np.split(order, [300, 600])
    return Digits(X[private], y[private], X[public], X[test], y[test])


@pytest.fixture
def make_election(digits: Digits) -> Callable[..., ob.Election]:
    def make(**settings: Any) -> ob.Election:
        defaults = {
            "classes": range(10),
            "public": digits.public,
            "learner": TREE,
            "method": ob.FedKT(open_vote="hard"),
        }
        return ob.Election(**{**defaults, **settings})

    return make


@pytest.fixture
def election(make_election: Callable[..., ob.Election]) -> ob.Election:
    return make_election()


@pytest.fixture
def parties(digits: Digits, election: ob.Election) -> dict[str, Data]:
    return divide(election.data(digits.X, digits.y), 5, "homogeneous", seed=1)


def write_csv(path: Path, header: list[str], rows: list[list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """A folder with public.csv, test.csv and three parties' files: two numbers and a category predict an illness."""
    rng = np.random.default_rng(5)

    def rows(count: int, low: float) -> list[list[Any]]:
        out = []
        for _ in range(count):
            age, dose, ward = rng.uniform(low, 90), rng.uniform(0, 1), str(rng.choice(["north", "south"]))
            ill = "yes" if age / 90 + dose + 0.3 * (ward == "north") + rng.normal(0, 0.1) > 1.2 else "no"
            out.append([f"{age:.1f}", f"{dose:.3f}", ward, ill])
        return out

    header = ["age", "dose", "ward", "ill"]
    public = [*rows(200, 20), ["20", "0", "north", "no"], ["90", "1", "south", "yes"]]
    write_csv(tmp_path / "public.csv", header, public)
    for name in "abc":
        write_csv(tmp_path / f"{name}.csv", header, rows(150, 20))
    write_csv(tmp_path / "test.csv", header, rows(200, 20))
    return tmp_path


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def make_frame(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    """A function that makes a DataFrame of each library from a dict of columns. Skips a library that is missing."""
    library = pytest.importorskip(request.param)
    if request.param == "polars":
        return lambda columns: library.DataFrame(columns, strict=False)
    return library.DataFrame if request.param == "pandas" else library.table


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a package with these entry points for one test."""

    def forget() -> None:
        plugins.names.cache_clear()
        plugins.find.cache_clear()

    def install(entry_points: str, code: str = "") -> None:
        info = tmp_path / "acme_ballots-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-ballots\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        (tmp_path / "acme_ballots.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "acme_ballots", raising=False)
        forget()

    yield install
    sys.modules.pop("acme_ballots", None)
    forget()
