"""The sweep over budgets counts as the parties do, and draws each budget's own noise."""

from __future__ import annotations

import pytest

import oneballot as ob
from oneballot.runtime.scheduler import run
from oneballot_lab.reproduce.experiments import ElectionRun
from oneballot_lab.reproduce.federations import Federation
from oneballot_lab.reproduce.privacy_sweep import Budget
from oneballot_lab.reproduce.votes_sweep import VotesSweep

TREES = {"final": ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 10})}
DIGITS = Federation("digits", 3, rows=600, public_rows=200, test_rows=200)


def test_a_budget_without_noise_to_speak_of_gives_the_result_of_an_election() -> None:
    """With this much epsilon the noise on the integers is about 1, the least that is drawn."""
    budgets = tuple(
        Budget(f"ε = {epsilon:g}", ob.L2(epsilon, delta=1e-5, stable_ids=True)) for epsilon in (10.0, 200.0)
    )
    sweep = run(VotesSweep(DIGITS, ob.Neighbours(), budgets, learners=TREES).run(0, "cpu")).values
    alone = run(ElectionRun(DIGITS, ob.Neighbours(), None, TREES, budgets[1].privacy).run(0, "cpu")).values
    assert sweep["ε = 200 accuracy"] == pytest.approx(alone["accuracy"], abs=0.07)
    assert sweep["ε = 10 accuracy"] < alone["accuracy"] + 0.07
    assert sweep["ε = 10 epsilon"] == pytest.approx(10, rel=1e-3)
    assert sweep["ε = 200 epsilon"] <= 200
