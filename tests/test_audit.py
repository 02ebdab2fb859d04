"""The audit: known values of its bound, and attacks with noise, with too little of it, and without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oneballot as ob
from oneballot import audit
from oneballot.errors import ElectionError
from oneballot.party.context import PartyContext
from oneballot.privacy.audit_bound import canaries_needed, epsilon_lower_bound, p_value
from oneballot.privacy.guarantee import VotesGuarantee
from oneballot.privacy.mechanisms import NoisyArgmax
from oneballot.privacy.sampling import SeededEntropy

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


CASES = {
    "L2": (ob.L2(1.0), ob.FedKT(subsets=5)),
    "L2, open, two partitions": (ob.L2(1.0), ob.FedKT(subsets=4, partitions=2, open_vote="hard")),
    "L2, soft": (ob.L2(1.0, mechanism="gaussian"), ob.FedKT(subsets=5, voting="soft")),
    "L2, counts": (ob.L2(1.0), ob.FedKT(subsets=5, weights="class-counts")),
    "L2, confident": (ob.L2(1.0, mechanism="confident", threshold=2, answers=50), ob.FedKT(subsets=5)),
    "L1": (ob.L1(1.0), ob.FedKT()),
    "L1, the paper's": (ob.L1(1.0, mechanism="laplace"), ob.FedKT.paper()),
    "L1, add-remove, counts": (ob.L1(1.0, adjacency="add-remove"), ob.FedKT(weights="class-counts")),
}


@pytest.mark.parametrize("name", CASES)
def test_with_noise_the_claim_holds_and_without_it_is_refuted(name: str) -> None:
    privacy, method = CASES[name]
    found = audit.audit(election_at(privacy, method=method), runs=10)
    assert found.claimed == pytest.approx(1.0, rel=1e-3)
    assert found.holds  # a false alarm has a probability far below 5 %
    assert found.catches
    assert found.without_noise.right == found.without_noise.guesses


def test_far_too_little_noise_is_detected(monkeypatch) -> None:
    """A thirtieth of the ledger's noise scale."""
    honest = NoisyArgmax.draw

    def weak(self, votes, entropy, **given):
        return honest(replace(self, scale=2.0 ** np.floor(np.log2(self.scale / 30))), votes, SeededEntropy(1), **given)

    monkeypatch.setattr(NoisyArgmax, "draw", weak)
    found = audit.audit(election_at(ob.L2(1.0), method=ob.FedKT(subsets=5)), canaries=100, runs=100)
    assert not found.holds


def test_few_canaries_in_many_runs_are_stronger_than_many_in_one() -> None:
    election = election_at(ob.L2(6.0, mechanism="gumbel", stable_ids=True), method=ob.FedKT(subsets=5))
    one, many = (  # noise comes from the operating system: four audits each, so that chance hardly ever decides
        sum(audit.audit(election, canaries=60, runs=runs).with_noise.right for _ in range(4)) for runs in (1, 60)
    )
    assert many > one


def test_an_election_without_epsilon_cannot_be_audited() -> None:
    for privacy in ("L0", ob.L2(1.0, rehearsal=True, noise_seed=1)):
        with pytest.raises(ElectionError, match="nothing to audit"):
            audit.audit(election_at(privacy))


def test_audit_ids_fall_into_the_wanted_subsets() -> None:
    election = election_at(ob.L2(1.0), method=ob.FedKT(subsets=4, partitions=2))
    assert isinstance(election.guarantee, VotesGuarantee)
    attacker = audit._Attacker.of(election, election.guarantee, 10.0, 6)
    (data,) = attacker._one_party(np.zeros(6, dtype=np.int64)).values()
    for j in range(2):
        subsets = PartyContext(attacker.election, "audited").assign_subsets(data, 4, "partition", j)
        assert [len(rows) for rows in subsets] == [6] * 4
