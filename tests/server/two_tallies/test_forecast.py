"""What `check` expects of two tallies, and settings of one tally's noise that two tallies refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy.sparse import csr_array

import oneballot as ob
from oneballot.ballot.keys import public_text
from oneballot.errors import ElectionError, WillNotWork
from oneballot.party.shared_count import advise_parties
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Data

PARTIES, SUBSETS = 6, 25


@pytest.fixture
def blobs() -> tuple[Data, Data, np.ndarray]:
    """Rows of two classes that overlap, of which every party has 200; test rows; and 600 public rows."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(4000, 5)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=len(X)) > 0).astype(int)
    return Data(X[:1200], y[:1200], np.arange(1200).astype(str)), Data(X[1800:], y[1800:]), X[1200:1800]


def agree(public: Any, privacy: ob.PrivacySettings, **settings: Any) -> ob.Election:
    servers = {side: public_text(X25519PrivateKey.generate()) for side in "ab"}
    method = settings.pop("method", None) or ob.FedKT(subsets=SUBSETS, **settings)
    learner = ob.Sklearn("LogisticRegression")
    return ob.Election(classes=(0, 1), public=public, method=method, learner=learner, privacy=privacy, tallies=servers)


def test_an_estimate_over_all_rows_is_not_judged_by_the_winner_of_one(blobs) -> None:
    """At ε = 1 the winner of a single row is often wrong, and the model is good all the same."""
    train, test, public = blobs
    rehearsal = ob.L2(1.0, stable_ids=True, rehearsal=True, noise_seed=7)
    joint, single = (agree(public, rehearsal, estimate=how).guarantee for how in ("regression", "none"))
    assert single.is_hopeless(PARTIES)
    assert "their label wins 70% of the time (chance: 50%). This will not work" in single.forecast(PARTIES)[0]
    assert not joint.is_hopeless(PARTIES)
    assert joint.label_accuracy(PARTIES) is None
    (text,) = joint.forecast(PARTIES)
    assert "will not work" not in text
    assert "an estimate from the votes on all 600 public rows together" in text
    assert "their lead is 0.53 times the noise on it at a single row, and 13 times over all rows" in text
    made = simulate_parties(agree(public, rehearsal), divide(train, PARTIES, "homogeneous"))
    assert made.accuracy(test) > 0.75


def test_leads_are_those_of_votes_with_the_noise_of_both_servers(blobs) -> None:
    guarantee = agree(blobs[2], ob.L2(1.0, stable_ids=True)).guarantee
    one, together = guarantee.leads(PARTIES)
    rng, sigma = np.random.default_rng(0), guarantee.numbers.sigma
    noise = sum(rng.normal(0, sigma, size=(1000, 600, 2)) for _ in "ab")
    lead = guarantee.lift * PARTIES * SUBSETS + noise[:, :, 0] - noise[:, :, 1]
    assert math.isclose(one, lead.mean() / lead.std(), rel_tol=0.02)
    assert math.isclose(together, lead.sum(axis=1).mean() / lead.sum(axis=1).std(), rel_tol=0.1)


def test_an_estimate_is_hopeless_if_all_rows_together_say_less_than_the_noise(blobs) -> None:
    with pytest.warns(WillNotWork, match=r"0\.\d+ times over all rows.*will not work: use more parties or subsets, or"):
        agree(blobs[2], ob.L2(0.02, stable_ids=True)).warn_if_hopeless(PARTIES)
    fewer = agree(blobs[2], ob.L2(1.0, stable_ids=True), queries=150).guarantee.leads(PARTIES)[1]
    assert math.isclose(fewer, agree(blobs[2], ob.L2(1.0, stable_ids=True)).guarantee.leads(PARTIES)[1], rel_tol=0.02)


def test_sparse_public_rows_are_judged_one_by_one(blobs) -> None:
    """Nothing is estimated over them (docs/two-tallies.md)."""
    guarantee = agree(csr_array(blobs[2]), ob.L2(1.0, stable_ids=True)).guarantee
    assert "their label wins 70% of the time" in guarantee.forecast(PARTIES)[0]


@pytest.mark.parametrize("method", [None, ob.Analytic(), ob.Neighbours(neighbours=5)])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"counts_sigma": 50.0}, "counts_sigma is noise on class counts .* leave it out"),
        ({"mechanism": "laplace"}, 'with Gaussian noise: .*leave out mechanism = "laplace"'),
        ({"mechanism": "gumbel"}, 'with Gaussian noise: .*leave out mechanism = "gumbel"'),
        ({"mechanism": "confident", "threshold": 5, "answers": 9}, 'leave out mechanism = "confident"'),
    ],
)
def test_noise_that_two_servers_do_not_add_is_refused(method, settings, reason, blobs) -> None:
    with pytest.raises(ElectionError, match=reason):
        agree(blobs[2], ob.L2(1.0, stable_ids=True, **settings), method=method)


@pytest.mark.parametrize("noise", [{"gamma": 0.04}, {"scale": 3.0}])
def test_noise_scales_of_other_mechanisms_are_refused(noise, blobs) -> None:
    with pytest.raises(ElectionError, match="with Gaussian noise: give only epsilon or sigma"):
        agree(blobs[2], ob.L2(stable_ids=True, **noise))


def test_gaussian_noise_may_be_named(blobs) -> None:
    named, usual = (agree(blobs[2], ob.L2(1.0, **given)).guarantee for given in ({"mechanism": "gaussian"}, {}))
    assert named.numbers == usual.numbers


def test_sums_planned_for_far_more_parties_than_the_roster_are_noticed_where_they_cost_bytes(federation) -> None:
    soft = {"method": ob.FedKT(voting="soft", influence="claimed"), "learner": ob.Sklearn("GaussianNB")}
    own, fewer = federation(**soft), federation({"parties": 14}, **soft)
    assert advise_parties(own.election).startswith(
        "a number takes 4 bytes, because sums are planned for 1,000 parties; with parties = 14 under [tallies], twice "
        "the roster, it would take 2."
    )
    sizes = [len(each.make("clinic-1").sealed) for each in (own, fewer)]
    assert sizes[0] - sizes[1] == 2 * 60 * 10
    assert not advise_parties(fewer.election)
    assert not advise_parties(federation().election)  # analytic: 8 bytes with any number of parties
