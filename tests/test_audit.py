"""The audit as a whole: known values of its bound, attacks on every type of election, and what it says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot import audit
from oneballot.audit.scenes import left_out
from oneballot.errors import ElectionError
from oneballot.privacy.audit_bound import canaries_needed, epsilon_lower_bound, p_value

PUBLIC = np.random.default_rng(0).normal(size=(60, 3))


def election_at(privacy: object, **settings: object) -> ob.Election:
    return ob.Election(**{"classes": ["a", "b", "c"], "public": PUBLIC, "privacy": privacy, **settings})


def test_the_lower_bound_has_its_known_value() -> None:
    assert round(epsilon_lower_bound(1000, 100, 95, 1e-5), 3) == 2.165


def test_without_delta_the_bound_is_the_binomial_one() -> None:
    """With every guess right, p^r = 5 % at the bound."""
    p = 0.05 ** (1 / 50)
    assert epsilon_lower_bound(100, 50, 50, 0.0) == pytest.approx(np.log(p / (1 - p)), abs=1e-6)
    assert epsilon_lower_bound(100, 50, 25, 0.0) == 0.0


def test_the_bound_grows_with_right_guesses_and_falls_with_confidence() -> None:
    found = [epsilon_lower_bound(200, 100, right, 1e-5) for right in range(50, 101, 10)]
    assert found == sorted(found)
    assert epsilon_lower_bound(200, 100, 90, 1e-5, 0.99) < epsilon_lower_bound(200, 100, 90, 1e-5, 0.95)
    assert p_value(200, 100, 90, 0.0, 1e-5) < p_value(200, 100, 90, 2.0, 1e-5) <= 1


def test_enough_canaries_refute_a_claim() -> None:
    for claimed in (0.5, 2.0, 4.0):
        count = canaries_needed(claimed, 1e-5)
        assert epsilon_lower_bound(2 * count, count, count, 1e-5) > claimed


@pytest.mark.parametrize(("given", "words"), [((10, 20, 5), "is impossible"), ((10, 5, 6), "is impossible")])
def test_impossible_counts_are_refused(given, words: str) -> None:
    with pytest.raises(ElectionError, match=words):
        epsilon_lower_bound(*given, 1e-5)


CASES: dict[str, tuple[Any, Any]] = {
    "L2": (ob.L2(1.0), ob.FedKT(subsets=5)),
    "L2, open, two partitions": (ob.L2(1.0), ob.FedKT(subsets=4, partitions=2, open_vote="hard")),
    "L2, soft": (ob.L2(1.0, mechanism="gaussian"), ob.FedKT(subsets=5, voting="soft")),
    "L2, counts": (ob.L2(1.0), ob.FedKT(subsets=5, weights="class-counts")),
    "L2, students": (ob.L2(1.0, stable_ids=True), ob.FedKT(students=True, queries=30)),
    "L2, swap": (ob.L2(1.0, adjacency="swap", stable_ids=True), ob.FedKT()),
    "L2, confident": (ob.L2(1.0, mechanism="confident", threshold=2, answers=50), ob.FedKT(subsets=5)),
    "L1": (ob.L1(1.0), ob.FedKT()),
    "L1, the paper's": (ob.L1(1.0, mechanism="laplace"), ob.FedKT.paper()),
    "L1, add-remove, counts": (ob.L1(1.0, adjacency="add-remove"), ob.FedKT(weights="class-counts")),
    "L1, opinions": (ob.L1(1.0), ob.FedKD(temperature=0)),
    "L2, opinions": (ob.L2(1.0), ob.FedKD(temperature=0, subsets=6)),
    "L2, statistics": (ob.L2(1.0), ob.Analytic()),
    "L2, statistics, add-remove": (ob.L2(1.0, adjacency="add-remove", stable_ids=True, rows_per_id=2), ob.Analytic()),
}


@pytest.mark.parametrize("name", CASES)
def test_the_noise_of_every_election_passes_and_missing_noise_does_not(name: str) -> None:
    privacy, method = CASES[name]
    found = audit.audit(election_at(privacy, method=method), runs=40, confidence=0.999999)
    assert found.claimed == pytest.approx(1.0, rel=1e-3)
    assert found.holds, "a false alarm has a probability of one in a million"
    assert found.without_noise.right == found.without_noise.guesses
    assert not found.findings
    assert [level.epsilon for level in found.levels] == sorted(level.epsilon for level in found.levels)
    assert found.levels[0].allowed > 0
    assert any("side channels" in part for part in found.not_attacked)


def test_by_default_it_notices_half_of_the_noise() -> None:
    found = audit.audit(election_at(ob.L2(2.0, stable_ids=True), method=ob.FedKT()), confidence=0.999)
    assert found.noticed is not None
    assert 0.5 <= found.noticed < 1
    assert found.catches
    words = " ".join(audit.describe_result(found))
    assert "does not refute the claim" in words
    assert f"noise of more than {found.noticed:.0%} of the stated scale would have passed" in words


def test_few_runs_notice_less_and_say_so() -> None:
    election = election_at(ob.L2(2.0, stable_ids=True), method=ob.FedKT())
    few, many = (audit.audit(election, runs=runs) for runs in (2, 400))
    assert few.noticed is None
    assert "not even noise far below the stated scale" in " ".join(audit.describe_result(few))
    assert many.noticed is not None
    assert many.noticed > 0.55


def test_canaries_may_be_fewer_than_fit() -> None:
    election = election_at(ob.L2(1.0, stable_ids=True), method=ob.FedKT())
    assert audit.audit(election, canaries=20, runs=10).with_noise.canaries == 20


def test_what_is_left_out_is_listed() -> None:
    confident = ob.L2(1.0, mechanism="confident", threshold=2, answers=50, max_silos_per_person=2)
    left = left_out(election_at(confident, method=ob.FedKT(subsets=5, weights="class-counts")))
    for part in ("class counts", "which queries are answered", "own learners", "several parties"):
        assert any(part in each for each in left)
    assert not any("own learners" in each for each in left_out(election_at(ob.L2(1.0), method=ob.Analytic())))


def test_an_election_without_epsilon_cannot_be_audited() -> None:
    for privacy in ("L0", ob.L2(1.0, rehearsal=True, noise_seed=1)):
        with pytest.raises(ElectionError, match="nothing to audit"):
            audit.audit(election_at(privacy))
