"""Scales, votes and numbers on a lattice, so that noise is drawn exactly with integer arithmetic.

The samplers never compare a draw with a floating-point number: the low bits of floating-point noise reveal what it was
added to. Scales have at most 24 significant bits (`round_up`), so each is a ratio of integers; account for the scale
that is drawn. Votes and scale are put on a lattice of about 2⁻⁴⁰ of a vote.
"""

from __future__ import annotations

import math

import numpy as np

from ...errors import ElectionError
from ...types import Array

SIGNIFICANT_BITS = 24
LATTICE_BITS = 40
MAX_VOTES = 2**22  # for a class
MAX_UNIT = 2**16
MAX_SCALE = 2**14  # in votes
MAX_INTEGER_SCALE = 2**54  # in steps of the lattice: MAX_SCALE on the finest
MAX_NUMBER = 2**62  # MAX_VOTES on the finest lattice; with 140 scales of noise it still fits into 63 bits


def round_up(scale: float) -> float:
    """The smallest number with at most 24 significant bits that is not below the scale; at most 2⁻²³ of it larger."""
    if not 0 < scale < 2.0**64:
        raise ElectionError(f"the noise scale must be above 0 and below 2^64, not {scale}")
    fraction, exponent = math.frexp(scale)
    return math.ldexp(math.ceil(math.ldexp(fraction, SIGNIFICANT_BITS)), exponent - SIGNIFICANT_BITS)


def check_scale(scale: float, unit: int) -> None:
    """Raise ElectionError for a noise scale that cannot be drawn."""
    lattice(round_up(scale), unit)


def lattice(scale: float, unit: int) -> tuple[int, int]:
    """The number of lattice steps in 1/unit of a vote, and in the scale; both are exact."""
    if not 1 <= unit <= MAX_UNIT:
        raise ElectionError(f"unit, the parts of a vote, must lie between 1 and {MAX_UNIT:,}, not {unit}")
    bits = (unit - 1).bit_length()
    smallest = 2.0 ** (bits + SIGNIFICANT_BITS - 1 - LATTICE_BITS)  # below it, the scale's last bit is off the lattice
    if not smallest <= scale <= MAX_SCALE:
        parts = f" with votes in parts of 1/{unit}" if unit > 1 else ""
        raise ElectionError(
            f"the noise scale must lie between {smallest:g} and {MAX_SCALE:,} votes{parts}, not {scale:g}: change "
            "epsilon or the noise, or use fewer queries, partitions or tallies"
        )
    check_bits(scale)
    fine = 2 ** (LATTICE_BITS - bits)
    return fine, int(scale * fine) * unit


def check_bits(scale: float) -> None:
    if round_up(scale) != scale:
        raise ElectionError(
            f"noise scale {scale!r} cannot be drawn exactly; draw and account for {round_up(scale)!r} (`round_up`)"
        )


def check_votes(votes: Array, unit: int) -> Array:
    if votes.ndim != 2 or votes.shape[1] < 2:
        raise ElectionError(f"expected votes as (queries, classes) with at least 2 classes, not {votes.shape}")
    return check_integers(votes, 0, MAX_VOTES * unit, "votes")


def check_integers(numbers: Array, low: int, high: int, name: str) -> Array:
    if numbers.dtype.kind not in "iu":
        raise ElectionError(f"{name} must be integers to add noise to, not {numbers.dtype}: round them first")
    if numbers.size and not low <= int(numbers.min()) <= int(numbers.max()) <= high:
        # The message omits the values, because the noise is there to hide them.
        raise ElectionError(f"{name} must lie between {low:,} and {high:,} to add noise exactly; some do not")
    return numbers.astype(np.int64)
