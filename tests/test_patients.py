"""Repeated IDs: at L2 the unit is the patient, that is, all rows with the same ID."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import unseal
from oneballot.errors import DataError, ElectionError
from oneballot.methods.analytic.method import Analytic
from oneballot.methods.analytic.statistics import GRID
from oneballot.party.context import PartyContext
from oneballot.privacy.ledger import Ledger
from oneballot.simulation import divide, read_parties
from oneballot.types import Data, Numbers, Spending

RNG = np.random.default_rng(0)
NEAREST = ob.Sklearn("KNeighborsClassifier", {"n_neighbors": 1})
PUBLIC = RNG.normal(size=(30, 2)).astype(np.float32)
ROWS = Data(
    RNG.normal(size=(60, 2)).astype(np.float32),
    RNG.integers(2, size=60),
    np.array([f"patient {i}" for i in RNG.integers(12, size=60)]),
)


def election_at(privacy: object, method: Any = None, **settings: Any) -> ob.Election:
    learner = settings.pop("learner", NEAREST)
    return ob.Election([0, 1], PUBLIC, method or ob.FedKT(), learner=learner, privacy=privacy, **settings)


def neighbours(data: Data) -> Iterator[Data]:
    """Data sets that differ in one patient: other rows, one more row, many more rows, none at all."""
    for name, extra in product(np.unique(data.ids)[:4], (0, 1, 25)):
        rows = np.flatnonzero(data.ids == name)
        X, y = data.X.copy(), data.y.copy()
        X[rows], y[rows] = RNG.normal(3, 9, size=(len(rows), 2)), 1 - y[rows]
        more = RNG.normal(-5, 9, size=(extra, 2)).astype(np.float32)
        ids = np.append(data.ids, [name] * extra)
        yield Data(np.vstack([X, more]), np.append(y, np.ones(extra, dtype=np.int64)), ids)
        kept = data.ids != name
        yield Data(data.X[kept], data.y[kept], data.ids[kept])


class Noiseless(PartyContext):
    """A party that keeps what it would release before noise is added."""

    def __init__(self, election: ob.Election) -> None:
        super().__init__(election, "a")
        self.raw: dict[str, np.ndarray] = {}

    def release(self, numbers: np.ndarray, *, cell: str) -> np.ndarray:
        self.raw[cell] = numbers
        return super().release(numbers, cell=cell)


def released(election: ob.Election, data: Data) -> Noiseless:
    ctx = Noiseless(election)
    steps = election.method.cast(data, ctx)
    if isinstance(steps, dict):
        return ctx
    try:
        fit = next(steps)
        while True:
            rows = np.concatenate(fit.X.parts) if hasattr(fit.X, "parts") else fit.X
            fit = steps.send(election.learner_of(fit.role).fit_many(rows, fit.tasks, fit.classes, keep=fit.keep))
    except StopIteration:
        return ctx


@pytest.mark.parametrize(
    "method",
    [ob.FedKT(subsets=5), ob.FedKT(open_vote="off", partitions=3, subsets=4), ob.FedKT(voting="soft", subsets=5)],
    ids=["as it comes", "partitions", "soft"],
)
def test_a_patient_with_any_number_of_rows_moves_one_vote_per_partition(method) -> None:
    election = election_at(ob.L2(scale=3.0, stable_ids=True), method)
    before = released(election, ROWS).noised
    moved = 0
    for other in neighbours(ROWS):
        after = released(election, other).noised
        for (one, unit), (two, _) in zip(before, after, strict=True):
            distance = np.abs(one - two).sum(axis=1).max()
            assert distance <= 2 * unit
            moved = max(moved, distance / unit)
    assert moved > 1, "no neighbour changed a vote, so nothing was tested"
    assert election.guarantee.query.reach == 2


def test_without_ids_the_rows_of_a_patient_are_spread_over_the_teachers() -> None:
    """The test above would notice rows that are assigned by content."""
    election = election_at(ob.L2(scale=3.0, stable_ids=False), ob.FedKT(subsets=5))
    before = released(election, ROWS).noised[0][0]
    distances = [np.abs(before - released(election, other).noised[0][0]).sum(axis=1) for other in neighbours(ROWS)]
    assert max(map(np.max, distances)) > 2


def test_a_patient_moves_the_opinions_of_one_teacher() -> None:
    election = election_at(ob.L2(2.0, stable_ids=True), ob.FedKD(subsets=5, temperature=1.0), learner=ob.Kernel())
    before = released(election, ROWS).raw["opinions"]
    for other in neighbours(ROWS):
        distance = ((before - released(election, other).raw["opinions"]).astype(float) ** 2).sum()
        assert distance <= election.guarantee.numbers.squared_shift


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("most", [None, 1, 3])
@pytest.mark.parametrize("method", [Analytic(), ob.FedKT(weights="class-counts", subsets=3)], ids=lambda m: m.name)
def test_sums_move_at_most_as_far_as_the_ledger_states(method, most: int | None, adjacency: str) -> None:
    privacy = ob.L2(2.0, stable_ids=True, rows_per_id=most, adjacency=adjacency)
    election = election_at(privacy, method)
    cell = "statistics" if method.name == "analytic" else "class counts"
    before = released(election, ROWS).raw[cell].astype(float)
    shift = election.guarantee.numbers.squared_shift
    for other in neighbours(ROWS):
        came_or_went = set(other.ids) != set(ROWS.ids)
        if came_or_went == (adjacency == "add-remove"):
            assert ((before - released(election, other).raw[cell]) ** 2).sum() <= shift * (1 + 1e-12)


@pytest.mark.parametrize(("adjacency", "one"), [("add-remove", 2.0), ("replace", 4.5)])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_sensitivity_of_m_rows_is_reached_and_not_exceeded(adjacency: str, one: float, most: int) -> None:
    """m equal rows of length 1; replaced by m equal rows of the same class at 120°, the worst case."""
    privacy = ob.L2(2.0, stable_ids=True, rows_per_id=most, adjacency=adjacency)
    election = election_at(privacy, Analytic(bound=1.0, intercept=0.01))
    assert election.guarantee.numbers.squared_shift == pytest.approx(one * most**2 * GRID**4)
    size, ids = most + 4, np.array(["p"] * (most + 4))
    centre = PUBLIC.mean(axis=0)
    first, second = (
        Data(np.tile(centre + np.array(row), (size, 1)).astype(np.float32), np.zeros(size, dtype=np.int64), ids)
        for row in ([1, 0], [-0.5, 3**0.5 / 2])
    )
    none = Data(first.X[:0], first.y[:0], ids[:0])
    raws = [
        released(election, data).raw["statistics"].astype(float)
        for data in (first, second if adjacency == "replace" else none)
    ]
    distance = ((raws[0] - raws[1]) ** 2).sum()
    assert 0.98 < distance / election.guarantee.numbers.squared_shift <= 1


def test_the_rows_of_a_patient_are_chosen_alike_whatever_the_order_and_the_others() -> None:
    election = election_at(ob.L2(2.0, stable_ids=True, rows_per_id=2), Analytic())
    kept = PartyContext(election, "a").limit_rows(ROWS)
    assert max(np.unique(kept.ids, return_counts=True)[1]) == 2
    assert set(kept.ids) == set(ROWS.ids)

    def of(data: Data, name: str) -> set[tuple[float, ...]]:
        return {tuple(row) for row in data.X[data.ids == name]}

    order = RNG.permutation(len(ROWS))
    shuffled = Data(ROWS.X[order], ROWS.y[order], ROWS.ids[order])
    fewer = Data(*(part[ROWS.ids != ROWS.ids[0]] for part in (ROWS.X, ROWS.y, ROWS.ids)))
    for other in (shuffled, fewer):
        again = PartyContext(election, "a").limit_rows(other)
        assert all(of(again, name) == of(kept, name) for name in set(other.ids))


def test_all_rows_are_summed_where_rows_are_not_the_unit() -> None:
    for privacy in ("L0", ob.L2(2.0, stable_ids=False)):
        election = election_at(privacy, Analytic())
        assert PartyContext(election, "a").limit_rows(ROWS) is ROWS


def test_the_ledger_and_the_ballot_name_the_unit() -> None:
    election = election_at(ob.L2(2.0, stable_ids=True))
    ballot = ob.cast(election, ROWS.X, ROWS.y, ids=ROWS.ids, party="a")
    ledger = unseal(ballot.sealed, election).ledger
    assert ledger.unit == "patient"
    assert "for each patient (all rows with the same ID), adjacency replace" in ledger.describe()[0]
    assert "the rows of an ID, and their number, may all differ" in ledger.describe()
    assert not any("several rows of one person" in line for line in ledger.describe())
    assert election_at(ob.L2(2.0)).ballot_ledger.unit == "row"


def test_ballots_of_version_0_1_which_name_the_row_still_count() -> None:
    expected = election_at(ob.L2(2.0, stable_ids=True)).ballot_ledger
    assert expected.model_copy(update={"unit": "row"}).agrees_with(expected)
    assert not expected.model_copy(update={"unit": "party"}).agrees_with(expected)
    by_row: Ledger = election_at(ob.L2(2.0)).ballot_ledger
    assert not by_row.model_copy(update={"unit": "patient"}).agrees_with(by_row)


def test_the_default_leaves_noise_and_digest_as_they_were() -> None:
    without, one = (ob.L2(2.0, stable_ids=True, rows_per_id=most) for most in (None, 1))
    by_row = election_at(ob.L2(2.0, stable_ids=False), Analytic()).guarantee.numbers
    assert election_at(without, Analytic()).guarantee.numbers == by_row
    assert election_at(one, Analytic()).guarantee.numbers == by_row
    assert "rows_per_id" not in election_at(without).describe()["privacy"]
    assert election_at(without).digest != election_at(one).digest


class Careless(Analytic):
    """A plug-in that sums all rows and declares no limit."""

    name: ClassVar[str] = "careless"

    def spends(self, level: str, classes: int, public: int) -> Spending:
        return Spending(numbers=Numbers("statistics", 2.0, 4.5))


def test_a_method_that_does_not_limit_rows_refuses_repeated_ids() -> None:
    election = election_at(ob.L2(2.0, stable_ids=True), Careless())
    unique = replace(ROWS, ids=np.arange(len(ROWS)).astype(str))
    PartyContext(election, "a").check(unique)
    with pytest.raises(DataError, match="an ID is repeated, but the method careless does not limit"):
        PartyContext(election, "a").check(ROWS)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ob.L1(2.0, rows_per_id=2), "rows_per_id cannot be given at level L1"),
        (lambda: ob.L2(2.0, rows_per_id=2, stable_ids=False), "rows_per_id limits the rows of one ID, but stable_ids"),
        (lambda: election_at(ob.L2(2.0, rows_per_id=2)), "rows_per_id limits the rows of one ID: name the ID column"),
        (lambda: ob.L2(2.0, rows_per_id=0), "rows_per_id"),
    ],
)
def test_a_limit_that_cannot_apply_is_refused(make, words: str) -> None:
    with pytest.raises(ElectionError, match=words):
        make()


def test_a_simulation_keeps_the_rows_of_a_patient_together(tmp_path) -> None:
    for split in ("homogeneous", "dirichlet:0.5", "shards:2"):
        parties = divide(ROWS, 3, split).values()
        assert sum(map(len, parties)) == len(ROWS)
        assert sum(len(set(party.ids)) for party in parties) == len(set(ROWS.ids))
    file = tmp_path / "all.csv"
    lines = [f"{i},{a},{b},{label}" for (a, b), label, i in zip(ROWS.X, ROWS.y, ROWS.ids, strict=True)]
    file.write_text("\n".join(["patient,a,b,ill", *lines]))
    columns = [{"kind": "number", "name": name, "range": [-9, 9], "outside": "clip"} for name in "ab"]
    schema = ob.Schema.model_validate({"label": "ill", "id": "patient", "columns": columns})
    election = ob.Election([0, 1], method=Analytic(), schema=schema)
    trained, tested = read_parties(election, file, 2, "homogeneous", 0, None, 0.3)
    assert len(tested)
    assert not set(tested.ids) & {name for party in trained.values() for name in party.ids}
