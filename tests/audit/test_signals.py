"""What coins move, and the exact law of a canary's score: against enumeration, simulation and the declared distance."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.audit.argmax import Argmax, ArgmaxTrial
from oneballot.audit.power import Simulation
from oneballot.audit.run import PLANNED, _Attacker
from oneballot.audit.scenes import RowScene
from oneballot.audit.sums import Sums
from oneballot.privacy.accounting import gaussian_delta

PUBLIC = np.random.default_rng(0).normal(size=(60, 3))
IDS: dict[str, Any] = {"stable_ids": True}


def attacker(privacy: Any, method: Any, rows: int = 60, scale: float | None = None) -> _Attacker:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        election = ob.Election(["a", "b", "c"], PUBLIC[:rows], method, privacy=privacy)
        return _Attacker(election, scale, None, None)


def enumerated(trial: ArgmaxTrial, canary: int) -> tuple[dict[int, float], dict[int, float]]:
    """The law of a canary's score in both states, from all possible answers to all queries."""
    argmax, laws = trial.argmax, []
    gained, lost = (each[canary] for each in (argmax.gained, argmax.lost))
    for coin in (0, 1):
        coins = trial.coins.copy()
        coins[canary] = coin
        wins = argmax.law(argmax.at(coins))
        law: dict[int, float] = {}
        for labels in itertools.product(range(wins.shape[1]), repeat=len(wins)):
            score = int((gained == labels).sum() - (lost == labels).sum())
            law[score] = law.get(score, 0.0) + float(np.prod(wins[np.arange(len(wins)), labels]))
        laws.append(law)
    return laws[0], laws[1]


VOTES = {
    "a row says something else": (ob.L2(None, scale=3.0, **IDS), ob.FedKT(subsets=4)),
    "a row by its content": (ob.L2(None, scale=3.0), ob.FedKT(subsets=4)),
    "another person": (ob.L2(None, scale=3.0, adjacency="swap", **IDS), ob.FedKT(subsets=4)),
    "a row comes or goes": (ob.L2(None, sigma=3.0, adjacency="add-remove"), ob.FedKT(subsets=3)),
    "a party": (ob.L1(None, gamma=0.3), ob.FedKT()),
    "a party comes or goes": (ob.L1(None, scale=3.0, adjacency="add-remove"), ob.FedKT()),
}


@pytest.mark.parametrize("what", VOTES)
def test_the_law_of_a_score_is_that_of_all_answers(what: str) -> None:
    argmax = attacker(*VOTES[what], rows=4).signals
    assert isinstance(argmax, Argmax)
    assert argmax.measured == argmax.query.reach, "the canaries use the whole reach"
    assert argmax.excess() is None
    trial = argmax.trial(np.random.default_rng(1).integers(2, size=argmax.canaries))
    start, *laws = trial._law
    for canary in range(min(2, argmax.canaries)):
        exact = enumerated(trial, canary)
        for law, expected in zip(laws, exact, strict=True):
            found = {int(start[canary]) + int(i): float(law[canary, i]) for i in np.flatnonzero(law[canary] > 1e-12)}
            assert found == pytest.approx(expected, abs=1e-9)
        for epsilon in (0.0, 0.3):
            sides = [(exact[0].get(s, 0.0), exact[1].get(s, 0.0)) for s in exact[0]]
            best = [max(a - math.exp(epsilon) * b, 0) + max(b - math.exp(epsilon) * a, 0) for a, b in sides]
            assert trial.allowed(epsilon)[canary] == pytest.approx(sum(best) / 2, abs=1e-9)


NUMBERS = {
    "FedKD at L2": (ob.L2(1.0, **IDS), ob.FedKD(temperature=0), 1.0),
    "FedKD at L2 by content": (ob.L2(1.0), ob.FedKD(temperature=0, subsets=6), 1.0),
    "FedKD at L1": (ob.L1(1.0), ob.FedKD(temperature=0), 1.0),
    "FedKD at L1, parties come or go": (ob.L1(1.0, adjacency="add-remove"), ob.FedKD(temperature=0), 1.0),
    "analytic": (ob.L2(1.0), ob.Analytic(), 0.99),
    "analytic, several rows of an ID": (ob.L2(1.0, rows_per_id=3, **IDS), ob.Analytic(), 0.99),
    "analytic, swap": (ob.L2(1.0, adjacency="swap", **IDS), ob.Analytic(), 0.99),
    "analytic, rows come or go": (ob.L2(1.0, adjacency="add-remove"), ob.Analytic(features="fourier", number=20), 0.99),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_canaries_move_sums_as_far_as_the_ledger_declares(what: str) -> None:
    privacy, method, share = NUMBERS[what]
    sums = attacker(privacy, method).signals
    assert isinstance(sums, Sums)
    assert sums.excess() is None
    assert sums.lengths.min() >= share * sums.distance
    assert sums.mu == pytest.approx(sums.distance / sums.release.sigma, rel=1e-3)
    trial = sums.trial(np.zeros(sums.canaries, dtype=np.int64))
    assert trial.allowed(0.2) == pytest.approx([gaussian_delta(mu, 0.2) for mu in sums.mus])


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_rows_of_a_scene_decide_their_own_subsets(partitions: int) -> None:
    scene = attacker(ob.L2(1.0, **IDS), ob.FedKT(subsets=5, partitions=partitions)).signals.scene
    assert isinstance(scene, RowScene)
    for j in range(partitions):
        own = [canary.one[-1].cells[j] for canary in scene.placed]
        assert len(set(own)) == len(own)
        assert set(own) | {filler.cells[j] for filler in scene.fillers} == set(range(5))
    assert not scene.misplaced()


def test_without_noise_every_canary_is_recognised() -> None:
    for privacy, method in (VOTES["a row says something else"], NUMBERS["FedKD at L2"][:2], NUMBERS["analytic"][:2]):
        bare = attacker(privacy, method, scale=2.0**-6)
        trial = bare.flip()
        losses = bare.signals.trial(trial.coins).losses(bare.run(trial))
        sure = np.abs(losses) > 10
        assert sure.any()
        assert ((losses > 0) == (trial.coins == 1))[sure].all()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["a row says something else", "a party comes or goes", "FedKD at L2", "analytic"])
def test_simulated_audits_refute_the_stated_noise_rarely_and_half_of_it_nearly_always(what: str) -> None:
    attacking = attacker(*(VOTES[what] if what in VOTES else NUMBERS[what][:2]))
    plan = Simulation([attacking.flip() for _ in range(PLANNED)], attacking.levels)
    assert np.abs(plan.bias).max() < 0.02, "the claim is the mean of the stated noise"
    most = -math.log(0.05)
    assert plan.power(1.0, 200, most) <= 0.08  # 5 %, and three standard errors of 400 audits
    assert plan.power(0.5, plan.runs_needed(most), most) >= 0.99
    noticed = plan.noticed(200, most)
    assert noticed is None or plan.power(noticed, 200, most) >= 0.95
