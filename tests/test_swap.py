"""Adjacency at L2: the same ID with other content, and a person swapped for another one, with another ID."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.test_patients import ROWS, election_at, released
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.errors import ElectionError
from oneballot.methods.analytic.method import Analytic
from oneballot.privacy.accounting import total_epsilon
from oneballot.privacy.calibration import calibrate
from oneballot.privacy.ledger import Ledger
from oneballot.privacy.mechanisms import find
from oneballot.types import Data, Numbers, Spending, Votes

RNG = np.random.default_rng(3)
SAME_ID = 'the same ID with other content; a person swapped for another moves two votes (adjacency = "swap")'
ANOTHER = "a person swapped for another, whose rows have another ID"
FORTY = Spending(votes=Votes(40, 2, 1, 25))


@pytest.mark.parametrize("noise", [{"gamma": 0.04}, {"mechanism": "gumbel", "scale": 25.0}], ids=["laplace", "gumbel"])
def test_a_swap_costs_2_008_where_replace_with_ids_costs_0_935(noise: dict[str, Any]) -> None:
    def cost(adjacency: Any, stable_ids: bool) -> float:
        guarantee = calibrate(ob.L2(None, 1e-5, adjacency=adjacency, **noise), FORTY, stable_ids)
        assert guarantee.privacy.accountant == "tight"
        return guarantee.epsilon()

    assert round(cost("replace", True), 4) == round(cost("add-remove", True), 4) == 0.9349
    assert round(cost("swap", True), 3) == round(cost("swap", False), 3) == round(cost("replace", False), 3) == 2.008


def test_a_budget_buys_the_noise_of_the_adjacency() -> None:
    noise = {
        adjacency: calibrate(ob.L2(2.0, mechanism="gumbel", adjacency=adjacency), FORTY, True)
        for adjacency in ("replace", "swap")
    }
    assert noise["swap"].epsilon() <= 2
    assert noise["swap"].query.scale == pytest.approx(2 * noise["replace"].query.scale, rel=1e-6)


def swapped(data: Data) -> Iterator[Data]:
    """Data sets in which all rows of one ID gave way to rows of an ID that was not there: fewer, as many, or more."""
    rng = np.random.default_rng(5)
    for name, (rows, new) in product(np.unique(data.ids), ((1, "x"), (3, "y"), (30, "z"))):
        kept = data.ids != name
        X = rng.normal(rng.choice([-4, 4]), 3, size=(rows, 2)).astype(np.float32)
        ids = np.append(data.ids[kept], [f"{new} instead of {name}"] * rows)
        yield Data(np.vstack([data.X[kept], X]), np.append(data.y[kept], np.full(rows, rng.integers(2))), ids)


@pytest.mark.parametrize(
    "method",
    [ob.FedKT(subsets=5), ob.FedKT(open_vote="off", partitions=3, subsets=4), ob.FedKT(voting="soft", subsets=5)],
    ids=["as it comes", "partitions", "soft"],
)
def test_a_swapped_patient_moves_two_votes_and_never_more(method) -> None:
    """Also with more rows than before: all rows of an ID are in one subset of each partition."""
    election = election_at(ob.L2(scale=3.0, stable_ids=True, adjacency="swap"), method)
    assert election.guarantee.query.reach == 4
    before, most = released(election, ROWS).noised, 0.0
    for other in swapped(ROWS):
        for (one, unit), (two, _) in zip(before, released(election, other).noised, strict=True):
            came = np.maximum(two - one, 0).sum(axis=1).max() / unit
            assert came <= 2, "more than two votes moved"
            most = max(most, came)
    assert most > 1.2, "no swap moved more than the one vote of replace, so nothing was tested"


def test_a_real_cast_of_swapped_rows_moves_two_votes() -> None:
    """Whole ballots, cast as a party casts them: the votes before noise, and the ledger that travels."""
    election = election_at(ob.L2(scale=3.0, stable_ids=True, adjacency="swap"), ob.FedKT(subsets=5, open_vote="off"))
    moved = set()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y, ids = rng.normal(size=(8, 2)).astype(np.float32), np.arange(8) % 2, np.arange(8).astype(str)
        other, there, names = X.copy(), y.copy(), ids.copy()
        other[0], there[0], names[0] = rng.normal(size=2), 1 - y[0], "another person"
        one = ob.cast(election, X, y, ids=ids, party="a")
        two = ob.cast(election, other, there, ids=names, party="a")
        assert one.ledger == two.ledger
        moved.add(float(np.abs(one.noised[0][0] - two.noised[0][0]).sum(axis=1).max() / 2))
    assert max(moved) == 2


def test_the_numbers_of_teachers_cost_four_times_as_much_as_with_the_same_id() -> None:
    def shift(adjacency: str, stable_ids: bool) -> float:
        election = election_at(
            ob.L2(2.0, stable_ids=stable_ids, adjacency=adjacency), ob.FedKD(subsets=5, temperature=1.0),
            learner=ob.Kernel(),
        )  # fmt: skip
        return float(election.guarantee.numbers.squared_shift)

    assert shift("swap", True) == shift("swap", False) == shift("replace", False) == 4 * shift("replace", True)


def test_a_swapped_patient_moves_the_opinions_of_two_teachers() -> None:
    """Two teachers that know one class each, and a patient whose swap turns both: both reach what they may change."""
    privacy = ob.L2(2.0, stable_ids=True, adjacency="swap")
    election = election_at(privacy, ob.FedKD(subsets=5, temperature=1.0), learner=ob.Kernel())
    before, most = released(election, ROWS).raw["opinions"], 0.0
    for other in swapped(ROWS):
        most = max(most, ((before - released(election, other).raw["opinions"]).astype(float) ** 2).sum())
    assert 0 < most <= election.guarantee.numbers.squared_shift


@pytest.mark.parametrize("most", [None, 1, 3])
@pytest.mark.parametrize("method", [Analytic(), ob.FedKT(weights="class-counts", subsets=3)], ids=lambda m: m.name)
def test_a_swapped_patient_moves_sums_no_further_than_a_replaced_one(method, most: int | None) -> None:
    shifts = {
        adjacency: election_at(ob.L2(2.0, stable_ids=True, rows_per_id=most, adjacency=adjacency), method)
        for adjacency in ("replace", "swap")
    }
    election = shifts["swap"]
    shift = election.guarantee.numbers.squared_shift
    assert shift == shifts["replace"].guarantee.numbers.squared_shift
    cell = "statistics" if method.name == "analytic" else "class counts"
    before, moved = released(election, ROWS).raw[cell].astype(float), 0.0
    for other in swapped(ROWS):
        moved = max(moved, ((before - released(election, other).raw[cell]) ** 2).sum())
    assert 0.05 * shift < moved <= shift * (1 + 1e-12)


@pytest.mark.parametrize("name", ["gumbel", "laplace", "gaussian"])
@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("scale", [2.0, 8.0, 25.0, 90.0])
def test_a_swap_across_two_parties_costs_no_more_than_within_one(name: str, classes: int, scale: float) -> None:
    """One vote moves at each of two parties, or two votes at one."""
    one, two = (find(name)(scale, classes, reach) for reach in (2, 4))
    for order in (1.1, 1.5, 2, 4, 8, 32, 128):
        assert 2 * one.renyi(order) <= two.renyi(order) * (1 + 1e-9)
    assert total_epsilon([(one, 80)], 1e-5) <= total_epsilon([(two, 40)], 1e-5) * (1 + 1e-9)


def test_a_plug_in_whose_replaced_rows_overlap_pays_for_two_parties() -> None:
    spends = Spending(numbers=Numbers("sums", add_remove=2.0, replaced=2.5, limited=True))
    same, other = (calibrate(ob.L2(2.0, adjacency=a), spends, True).numbers for a in ("replace", "swap"))
    assert (same.squared_shift, other.squared_shift) == (2.5, 4.0)


def test_a_swapped_party_is_replace() -> None:
    with pytest.raises(ElectionError, match='At L1 a party swapped for another moves one vote: use adjacency = "repl'):
        ob.L1(2.0, adjacency="swap")


# What is printed


def ledger(adjacency: str, stable_ids: bool = True, spends: Spending = FORTY) -> Ledger:
    return calibrate(ob.L2(sigma=40.0, adjacency=adjacency), spends, stable_ids).ledger()


def test_every_ledger_says_what_its_adjacency_means() -> None:
    sums = Spending(numbers=Numbers("sums", 2.0, 4.5, limited=True))
    said = {
        (adjacency, stable_ids, spends is sums): ledger(adjacency, stable_ids, spends).neighbours
        for adjacency, stable_ids, spends in product(("replace", "swap", "add-remove"), (True, False), (FORTY, sums))
    }
    other = "a row replaced by any other row"
    same = 'the same ID with other content; a person swapped for another is another change (adjacency = "swap")'
    assert said == {
        ("replace", True, False): SAME_ID, ("replace", True, True): same,
        ("replace", False, False): other, ("replace", False, True): other,
        ("swap", True, False): ANOTHER, ("swap", True, True): ANOTHER,
        ("swap", False, False): other, ("swap", False, True): other,
        ("add-remove", True, False): "all rows of an ID are there or not",
        ("add-remove", True, True): "all rows of an ID are there or not",
        ("add-remove", False, False): "a row is there or not", ("add-remove", False, True): "a row is there or not",
    }  # fmt: skip
    for adjacency in ("replace", "swap", "add-remove"):
        made = ledger(adjacency)
        assert f"adjacency {adjacency} means: {made.neighbours}" in made.describe()
    at_l1 = [
        calibrate(ob.L1(sigma=40.0, adjacency=a), FORTY, False).ledger().neighbours for a in ("replace", "add-remove")
    ]
    assert at_l1 == ["a party casts another ballot, or none", "a party takes part or not"]


def test_a_ledger_of_version_0_1_with_ids_is_not_described_as_if_rows_had_none() -> None:
    old = ledger("replace").model_copy(update={"unit": "row"})
    assert old.neighbours == SAME_ID
    assert "a row replaced" not in "\n".join(old.describe())


def oneballot(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output + repr(result.exception)
    return " ".join(result.output.split())


def read_page(name: str) -> str:
    return " ".join(unescape(Path(name).read_text()).replace("\\", "").split())


def test_the_calculator_says_what_its_adjacency_means() -> None:
    noise = ("epsilon", "--gamma", 0.04, "--queries", 40, "--level", "L2")
    assert SAME_ID in oneballot(*noise)
    swap = oneballot(*noise, "--adjacency", "swap")
    assert ANOTHER in swap
    assert "epsilon 2.0081" in swap
    found = json.loads(oneballot(*noise, "--adjacency", "swap", "--json"))
    assert (found["adjacency"], found["adjacency_means"], round(found["epsilon"], 3)) == ("swap", ANOTHER, 2.008)
    assert "a row replaced by any other row" in oneballot(*noise, "--no-ids")
    assert "all rows of a party may differ" in oneballot(*noise, "--unit", "party", "--subsets", 25)
    assert "a party casts another ballot, or none" in oneballot("epsilon", "--gamma", 0.04, "--queries", 40)


@pytest.mark.parametrize(("adjacency", "words"), [("replace", SAME_ID), ("swap", ANOTHER)])
@pytest.mark.slow
def test_a_new_user_reads_the_same_words_from_check_to_report(
    adjacency: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},{a:.3f},{b:.3f},{int(a > b)}" for i, (a, b) in enumerate(RNG.random((120, 2)))]
    Path("a.csv").write_text("\n".join(["patient,a,b,ill", *rows[:60]]))
    Path("public.csv").write_text("\n".join(["patient,a,b,ill", *rows[60:]]))
    made = ("--public", "public.csv", "--label", "ill", "--id", "patient", "--level", "L2", "--epsilon", 8)
    oneballot("new", "e.toml", *made)
    text = Path("e.toml").read_text()
    assert '# or "swap", "add-remove"' in text
    text = text.replace('adjacency = "replace"', f'adjacency = "{adjacency}"').replace(
        "n_estimators = 100", "n_estimators = 3"
    )
    Path("e.toml").write_text(text)
    assert words in oneballot("check", "e.toml")
    dry = oneballot("cast", "e.toml", "--party", "a", "--data", "a.csv", "--dry-run", "--dossier", "page.html")
    assert words in dry
    assert words in read_page("page.html")
    assert words in oneballot("cast", "e.toml", "--party", "a", "--data", "a.csv", "--to", "box")
    assert words in oneballot("inspect", "box/a.ballot", "--election", "e.toml")
    assert words in oneballot("tally", "e.toml", "--from", "box", "--out", "outcome", "--publish", "open")
    assert words in oneballot("audit", "e.toml", "--canaries", 4, "--runs", 2)
    oneballot("report", "outcome", "--out", "report.html")
    assert words in read_page("report.html")
    assert words in read_page("outcome/README.md")
