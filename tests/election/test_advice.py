"""Advice on public rows and budgets, computed from the election."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import oneballot as ob
from oneballot.ballot.keys import public_text
from oneballot.election.advice import MEASURED, MEASURED_SHARED, advise, analytic_instead, learns_from_public_rows
from oneballot.errors import ElectionError, WillNotWork

X = np.random.default_rng(0).random((400, 6)).astype(np.float32)


def election(rows: int = 400, **settings) -> ob.Election:
    return ob.Election(classes=["no", "yes"], public=X[:rows], **{"method": ob.FedKT(), **settings})


def test_only_methods_whose_final_model_learns_from_public_rows_need_many() -> None:
    assert learns_from_public_rows(election())
    assert learns_from_public_rows(election(method=ob.Ensemble(distil=True)))
    assert not learns_from_public_rows(election(method=ob.Ensemble(weights="open")))
    assert not learns_from_public_rows(election(method=ob.Analytic()))


def test_an_open_ensemble_and_analytic_are_not_warned_about_12_public_rows() -> None:
    for method in (ob.Ensemble(weights="open"), ob.Analytic()):
        assert not any("will not work" in line for line in advise(election(12, method=method), None))


@pytest.mark.filterwarnings("ignore::oneballot.errors.OneBallotWarning")
def test_fewer_queries_are_proposed_where_they_make_the_labels_right() -> None:
    few = election(privacy=ob.L2(8.0, adjacency="add-remove"), method=ob.FedKT(subsets=25))
    (line,) = [line for line in advise(few, 1) if line.startswith("The budget pays")]
    assert "With queries = " in line
    queries = int(line.split("queries = ")[1].split()[0])
    narrowed = election(privacy=ob.L2(8.0, adjacency="add-remove"), method=ob.FedKT(subsets=25, queries=queries))
    assert narrowed.guarantee.label_accuracy(1) >= 0.9
    assert few.guarantee.label_accuracy(1) < 0.9


@pytest.mark.filterwarnings("ignore::oneballot.errors.OneBallotWarning")
def test_analytic_needs_the_rows_at_which_its_own_tally_stops_warning() -> None:
    text = analytic_instead(election(privacy=ob.L2(1.0)), 4)
    rows = int(text.split("about ")[1].split(" rows")[0].replace(",", ""))
    rng = np.random.default_rng(1)
    data = rng.random((2 * rows, 6)).astype(np.float32)
    labels = np.where(data[:, 0] > 0.5, "yes", "no")
    run = election(privacy=ob.L2(1.0), method=ob.Analytic())
    with warnings.catch_warnings(record=True) as caught:
        ob.simulate(run, data, labels, parties=4, split="homogeneous")
    assert not any("is large compared with" in str(w.message) for w in caught)
    with pytest.raises(ElectionError, match="no class has more rows than the noise"):
        ob.simulate(run, data[: rows // 8], labels[: rows // 8], parties=4, split="homogeneous")


@pytest.mark.filterwarnings("ignore::oneballot.errors.OneBallotWarning")
def test_at_l2_every_method_for_tables_is_compared_with_the_best_for_its_budget() -> None:
    """Also where the labels would be right: at ε = 8 with 30 parties, votes work."""
    for epsilon in (1.0, 8.0):
        (line,) = [line for line in advise(election(privacy=ob.L2(epsilon)), 30) if "more accurate one" in line]
        assert line.startswith("The method analytic adds noise once")
        assert MEASURED in line
    for method in (ob.Analytic(), ob.Neighbours()):
        (own,) = [line for line in advise(election(privacy=ob.L2(1.0), method=method), 30) if MEASURED in line]
        assert own.startswith("For a budget at L2, analytic is among the most accurate methods on a table")
        assert own.endswith("neighbours is as accurate (docs/results/privacy.md).")
    images = ob.Election([0, 1], public=np.zeros((50, 1, 4, 4), np.uint8), method=ob.FedKT(), privacy=ob.L2(8.0))
    at_l1 = election(privacy=ob.L1(8.0), server_key="none")
    for other in (images, at_l1, election()):
        assert not any(MEASURED in line for line in advise(other, 30))


def test_with_two_tallies_the_advice_is_about_noise_that_is_drawn_once() -> None:
    keys = {side: public_text(X25519PrivateKey.generate()) for side in "ab"}
    budget = ob.L2(1.0, stable_ids=True)
    votes, sums = (election(privacy=budget, method=m, tallies=keys) for m in (ob.FedKT(subsets=25), ob.Analytic()))
    (own,) = [line for line in advise(sums, 30) if MEASURED_SHARED in line]
    (line,) = [line for line in advise(votes, 30) if MEASURED_SHARED in line]
    assert line.startswith("Two servers can also add up the sums over rows of the method analytic")
    for text in (own, line):
        assert MEASURED not in text
    several = analytic_instead(election(privacy=budget), 30)
    rows, more = (int(text.split("about ")[1].split(" rows")[0].replace(",", "")) for text in (line, several))
    assert rows < more / 3  # one noise, of twice the variance, instead of 30
    assert "each party" not in line


def test_the_figures_of_the_advice_are_those_of_the_table() -> None:
    docs = Path(__file__).parents[2] / "docs"
    table, page = ((docs / name).read_text("utf-8") for name in ("results/privacy.md", "privacy.md"))
    (row,) = [line for line in table.splitlines() if line.startswith("| ε = 1 | ")]
    found = re.findall(r"(\d\d\.\d) ±", row)
    assert re.findall(r"(\d\d\.\d) %", MEASURED) == found
    assert f"| ε = 1 | {found[0]} % | {found[1]} % |" in page
    shared = [re.findall(rf"\| {name} \| β = 0.5 \| {epsilon} \|.*\*\*(\d\d\.\d) ±", table)
              for name, epsilon in (("analytic", "0.4"), ("FedKT", "0.5"))]  # fmt: skip
    assert re.findall(r"(\d\d\.\d) %", MEASURED_SHARED) == [*shared[0], *shared[1]]


def test_the_warning_at_l2_names_analytic_on_tables_and_not_on_images() -> None:
    with pytest.warns(WillNotWork, match="The method analytic adds noise once"):
        election(privacy=ob.L2(0.1), quorum=2)
    images = np.zeros((50, 1, 4, 4), dtype=np.uint8)
    with pytest.warns(WillNotWork) as caught:
        ob.Election(classes=[0, 1], public=images, method=ob.FedKT(), privacy=ob.L2(0.1), quorum=2)
    assert "analytic" not in str(caught[0].message)


def test_an_open_ensemble_says_what_few_public_rows_or_none_mean() -> None:
    (none,) = advise(ob.Election(classes=[0, 1]), 4)
    assert "one that lies can decide" in none
    assert "too few" not in none
    (few,) = advise(ob.Election(classes=[0, 1], public=np.zeros((12, 3))), 4)
    assert few.startswith("12 public rows are too few to compare parties with")
    (enough,) = advise(ob.Election(classes=[0, 1], public=np.zeros((100, 3))), 4)
    assert "only a background" in enough
