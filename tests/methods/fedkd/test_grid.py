"""Quantized logits against a plain implementation of FedKD's equations 1 to 4."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneballot.errors import Spoiled
from oneballot.methods.fedkd.grid import LARGEST, UNIT, Grid, ensemble, largest_logit, lower_unknown_classes
from oneballot.types import Count

roundings = pytest.mark.parametrize("rounding", ["ends", "zero"])
scales = st.integers(2, 300)


def equation_3(z: float, z_max: float, S: int) -> float:
    """q_s for z in (q_{s−1}, q_s], with q_s = 2(s−1)z_max/(S−1) − z_max for s = 1, …, S."""
    for s in range(1, S + 1):
        q = 2 * (s - 1) * z_max / (S - 1) - z_max
        if z <= q + 1e-9 * z_max:
            return q
    raise AssertionError("z is beyond z_max")


def equation_4(z: float, z_max: float, S: int) -> float:
    return math.ceil(S * z / (2 * z_max) - 1e-9) * 2 * z_max / S


def quantized(grid: Grid, z: np.ndarray, half_step: int) -> np.ndarray:
    return grid.half_steps(grid.quantize(z, half_step)) * half_step * UNIT


@given(scales, st.integers(1, 10_000), st.integers(0, 2**32))
def test_rounding_ends_is_equation_3_and_zero_is_equation_4(scale: int, half_step: int, seed: int) -> None:
    for rounding, equation in (("ends", equation_3), ("zero", equation_4)):
        grid = Grid(scale, rounding)
        z_max = half_step * grid.top * UNIT
        z = np.random.default_rng(seed).uniform(-z_max, z_max, 30)
        near = z_max * 1e-6  # at a boundary either level is right
        z = np.array([v for v in z if equation(v - near, z_max, scale) == equation(v + near, z_max, scale)])
        expected = [equation(float(v), z_max, scale) for v in z]
        np.testing.assert_allclose(quantized(grid, z, half_step), expected, atol=z_max * 1e-6)


def values_of(grid: Grid) -> np.ndarray:
    """All that logits from −z_max to z_max become, in units of z_max."""
    z_max = 1000 * grid.top * UNIT
    return np.unique(quantized(grid, np.linspace(-z_max, z_max, 20_001), 1000)) / z_max


def test_the_two_equations_are_not_the_same() -> None:
    """In units of z_max: equation 3 has S values that end at ±1, equation 4 S+1 values around 0."""
    np.testing.assert_allclose(values_of(Grid(4, "ends")), [-1, -1 / 3, 1 / 3, 1])
    np.testing.assert_allclose(values_of(Grid(4, "zero")), [-1, -0.5, 0, 0.5, 1])
    np.testing.assert_allclose(values_of(Grid(5, "ends")), [-1, -0.5, 0, 0.5, 1])
    np.testing.assert_allclose(values_of(Grid(5, "zero")), [-0.8, -0.4, 0, 0.4, 0.8, 1.2])
    assert len(values_of(Grid(200, "ends"))) == 200
    assert len(values_of(Grid(200, "zero"))) == 201


def test_a_level_takes_log2_of_the_number_of_levels_in_bits() -> None:
    for scale in range(2, 1030):
        assert Grid(scale, "ends").bits == math.ceil(math.log2(scale))
        assert Grid(scale, "zero").bits == math.ceil(math.log2(scale + 1))
    assert Grid(200, "ends").size(5000 * 10) == 50_000


@roundings
@given(scale=scales, z_max=st.floats(0, 5000), seed=st.integers(0, 2**32))
def test_a_logit_is_rounded_up_by_less_than_a_step_and_the_grid_reaches_z_max(rounding, scale, z_max, seed) -> None:
    grid = Grid(scale, rounding)
    half_step, span = grid.half_step(z_max), min(z_max, LARGEST)
    assert 1 <= half_step <= grid.half_step(LARGEST)
    assert half_step * grid.top * UNIT >= span
    z = np.random.default_rng(seed).uniform(-span, span, 50)
    rounded = quantized(grid, z, half_step) - z
    assert rounded.min() > -1e-9
    assert rounded.max() < 2 * half_step * UNIT + 1e-9


@roundings
@given(scale=scales, seed=st.integers(0, 2**32))
def test_levels_are_decoded_unchanged_and_others_are_spoiled(rounding, scale: int, seed: int) -> None:
    grid = Grid(scale, rounding)
    levels = np.random.default_rng(seed).integers(grid.top + 1, size=(7, 3))
    encoded = grid.encode(levels)
    assert len(encoded) == grid.size(21)
    assert np.array_equal(grid.decode(encoded, (7, 3)), levels)
    if grid.top + 1 < 2**grid.bits:
        levels[3, 1] = grid.top + 1
        with pytest.raises(Spoiled, match=f"level {grid.top + 1}: the highest level of the grid is {grid.top}"):
            grid.decode(grid.encode(levels), (7, 3))


def test_z_max_is_over_the_classes_that_a_party_has() -> None:
    logits = np.array([[1.0, -3.0, -1e9], [2.0, 0.5, -1e9]])
    assert largest_logit(logits, np.array([4, 1, 0])) == 3.0
    assert largest_logit(logits, np.array([4, 0, 0])) == 2.0
    assert largest_logit(logits, np.zeros(3)) == 0.0


@roundings
@given(parties=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_counts_on_different_grids_add_up_to_equations_1_and_2(rounding, parties: int, seed: int) -> None:
    """Σ_k N_k^c/ΣN^c · Q(z_k; S) in floating point, whatever z_max each party has."""
    rng, grid = np.random.default_rng(seed), Grid(200, rounding)
    seen = rng.integers(0, 50, size=(parties, 3)) * np.array([1, 1, parties > 2])
    seen[0, :2] += 1
    total, expected = Count(), np.zeros((20, 3))
    one = []
    for k in range(parties):
        logits = rng.normal(0, 10.0 ** rng.uniform(-2, 2), size=(20, 3))
        half_step = grid.half_step(largest_logit(logits, seen[k]))
        clipped = np.clip(logits, -half_step * grid.top * UNIT, half_step * grid.top * UNIT)
        expected += seen[k] / np.maximum(seen.sum(axis=0), 1) * quantized(grid, clipped, half_step)
        one.append(
            {"logits": grid.half_steps(grid.quantize(logits, half_step)) * (seen[k] * half_step), "weight": seen[k]}
        )
        total += Count(dict(one[-1]))
    logits_of_all = ensemble(total.sums["logits"], total.sums["weight"], UNIT)
    known = seen.sum(axis=0) > 0
    np.testing.assert_allclose(logits_of_all[:, known], expected[:, known], rtol=1e-9, atol=1e-9)
    lowest = logits_of_all[:, known].min()
    lower_unknown_classes(logits_of_all, total.sums["weight"])
    assert (logits_of_all[:, ~known] == lowest - 1).all()
    assert np.array_equal(logits_of_all[:, known].min(), lowest)
    total += Count(dict(one[0]))
    total -= Count(dict(one[0]))
    assert np.array_equal(ensemble(total.sums["logits"], total.sums["weight"], UNIT)[:, known], logits_of_all[:, known])


def test_a_thousand_hostile_ballots_at_every_limit_do_not_overflow() -> None:
    for scale in (2, 200, 4096):
        for rounding in ("ends", "zero"):
            grid = Grid(scale, rounding)
            furthest = max(abs(2 * grid.top - grid.origin), grid.origin)
            assert furthest * grid.half_step(LARGEST) * 1_000_000 * 2**14 < 2**63
