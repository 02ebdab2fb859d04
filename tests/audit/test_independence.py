"""Tests of independence: no false alarm for honest noise, and dependence of each type is found, whatever the scale."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.audit.test_two_tallies import METHODS, election

import oneballot as ob
from oneballot import audit
from oneballot.audit.independence import OfAnswers, OfNumbers, _swapped
from oneballot.privacy.sampling import SeededEntropy, discrete_gaussian
from oneballot.server.two_tallies import share
from oneballot.server.two_tallies.noise import draw_noise

SIZE, RUNS = 90, 12


def noise(sigma: float, count: int, seed: int) -> Any:
    return discrete_gaussian(count, Fraction(sigma), SeededEntropy(seed))


def check(drawn: Any, sigma: float) -> OfNumbers:
    test = OfNumbers("sums", drawn.shape[1], sigma)
    for each in drawn:
        test.add(each)
    return test


@pytest.mark.parametrize("sigma", [1.0, 12.0, 1e6])
def test_honest_noise_raises_no_alarm_in_200_simulations(sigma: float) -> None:
    for seed in range(200):
        assert not check(noise(sigma, SIZE * RUNS, seed).reshape(RUNS, SIZE), sigma).findings()


def test_the_bound_on_z_holds_with_room_for_honest_noise() -> None:
    """Each z exceeds t less often than Hoeffding allows, and none comes near the bound."""
    z = []
    for seed in range(200):
        test = check(noise(3, SIZE * RUNS, seed).reshape(RUNS, SIZE), 3.0)
        z.append(test.products / np.sqrt(test.squares))
    for t in (1.0, 2.0, 3.0):
        assert (np.abs(z) > t).mean() <= 2 * np.exp(-(t**2) / 2)
    assert np.abs(z).max() < 6.5


@pytest.mark.parametrize("stated", [0.5, 1.0, 2.0])
def test_noise_of_another_scale_is_no_dependence(stated: float) -> None:
    """That is for the test of the curve to say."""
    assert not check(noise(12.0, SIZE * RUNS, 1).reshape(RUNS, SIZE), 12.0 / stated).findings()


def test_noise_that_repeats_or_is_its_opposite_is_found_at_any_positions() -> None:
    rng = np.random.default_rng(0)
    place, sign = rng.permutation(SIZE), rng.choice([-1, 1], SIZE // 2)
    drawn = noise(12.0, SIZE // 2 * RUNS, 0).reshape(RUNS, -1)
    both = np.hstack([drawn, sign * drawn])[:, place]
    found = check(both, 12.0).findings()
    assert any("90 of 90 numbers (sums) have the same noise as another one in every run" in text for text in found)


def test_a_number_without_noise_is_found() -> None:
    drawn = noise(12.0, SIZE * RUNS, 0).reshape(RUNS, SIZE)
    drawn[:, 7] = 0
    assert check(drawn, 12.0).findings() == ["1 of 90 numbers (sums) have no noise in any run"]
    drawn[:, 50] = 0
    assert check(drawn, 12.0).findings() == ["2 of 90 numbers (sums) have no noise in any run"]


def test_noise_that_repeats_at_new_positions_in_every_run_is_found() -> None:
    rng = np.random.default_rng(0)
    drawn = noise(1e6, SIZE // 2 * RUNS, 0).reshape(RUNS, -1)
    both = np.array([rng.permutation(np.tile(each, 2)) for each in drawn])
    assert any("repeats 540 values within a run" in text for text in check(both, 1e6).findings())


def test_a_correlation_at_one_distance_is_found() -> None:
    drawn = noise(100.0, SIZE * 50, 0).reshape(50, SIZE).astype(float)
    drawn[:, 30:] = np.rint(0.6 * drawn[:, :-30] + 0.8 * drawn[:, 30:])
    assert any("numbers 30 apart are correlated" in text for text in check(drawn, 100.0).findings())


def test_noise_made_of_a_few_draws_is_found() -> None:
    mix = np.random.default_rng(0).normal(size=(3, SIZE)) / np.sqrt(3)
    drawn = np.rint(noise(1e4, 3 * 600, 0).reshape(600, 3) @ mix)
    assert any("is not independent noise" in text for text in check(drawn, 1e4).findings())


def test_noise_that_part_of_the_next_run_repeats_is_found() -> None:
    drawn = noise(12.0, SIZE * 40, 0).reshape(40, SIZE)
    drawn[1::2, :45] = drawn[::2, :45]
    assert any("the same number in consecutive runs" in text for text in check(drawn, 12.0).findings())


def test_it_says_which_correlation_it_could_have_noticed() -> None:
    drawn = noise(100.0, SIZE * 400, 0).reshape(400, SIZE)
    few, many = check(drawn[:2], 100.0).left_out(), check(drawn, 100.0).left_out()
    assert few == "dependence between the noise on different sums"
    least = float(many.split("a correlation above ")[1].split()[0])
    assert 0.05 < least < 0.1
    weak, strong = drawn.astype(float), drawn.astype(float)
    for part, correlation in ((weak, least / 4), (strong, least)):
        part[:, 45:] = np.rint(correlation * drawn[:, :45] + np.sqrt(1 - correlation**2) * drawn[:, 45:])
    assert not check(weak, 100.0).findings()
    assert any("numbers 45 apart are correlated" in text for text in check(strong, 100.0).findings())


def answers(seed: int, runs: int = 40, *, share: bool = False, bias: float = 0.0) -> OfAnswers:
    rng, test = np.random.default_rng(seed), OfAnswers([60, 60])
    for _ in range(runs):
        votes = rng.integers(4, size=(2, 60))
        votes[1, :40] = votes[0, :40]
        drawn = rng.random((2, 60))
        if share:
            drawn[1] = drawn[0]
        test.add(votes.ravel().astype(np.uint64), (drawn < (votes + 1) / 5 + bias).ravel().astype(np.int64))
    return test


def test_independent_answers_raise_no_alarm_in_200_simulations() -> None:
    assert not any(answers(seed, bias=bias).findings() for seed in range(100) for bias in (0.0, 0.15))


def test_partitions_that_share_noise_are_found() -> None:
    assert any("partitions 1 and 2" in text for text in answers(0, share=True).findings())
    assert "except strong dependence between partitions 1 and 2" in answers(0).left_out()
    assert answers(0, runs=1).left_out() == "dependence between the noise on different queries or partitions"


def test_swaps_pair_queries_with_the_same_votes() -> None:
    one, other = np.array([0, 1, 0, 1, 1]), np.array([0, 1, 0, 0, 1])
    keys = np.array([7, 7, 8, 8, 9])
    assert _swapped(one, keys, other).tolist() == [2, 0]
    assert not len(_swapped(one, np.arange(5), other))


def repeat_half(patch: pytest.MonkeyPatch) -> None:
    def draw(ctx: Any, layout: Any, side: str, opening: int) -> Any:
        drawn = draw_noise(ctx, layout, side, opening)
        half = len(drawn) // 2
        return np.concatenate([drawn[:half], drawn[: len(drawn) - half]])

    patch.setattr(share, "draw_noise", draw)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedkt", "neighbours"])
def test_a_server_whose_noise_repeats_is_found(name: str, monkeypatch) -> None:
    repeat_half(monkeypatch)
    found = audit.audit(election(*METHODS[name]), runs=8)
    assert any("is not independent noise" in sentence or "the same noise" in sentence for sentence in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_honest_servers_raise_no_alarm(name: str) -> None:
    assert not audit.audit(election(*METHODS[name]), runs=30).findings


@pytest.mark.slow
def test_an_audit_says_what_dependence_it_left_out() -> None:
    public = np.random.default_rng(0).normal(size=(60, 3))
    agreed = ob.Election(["a", "b"], public, ob.Neighbours(), privacy=ob.L2(4.0))
    left = audit.audit(agreed, runs=60).not_attacked[0]
    assert any("they reach" in part for part in audit.audit(agreed, runs=2).not_attacked)
    assert left.startswith("dependence between the noise on different votes, except noise that two numbers share")
