"""Additive shares: integers split into two, each of which alone is uniformly random modulo 2^bits.

One share is expanded from a seed of 32 bytes with ChaCha20, so that only the other is as long as the numbers: it is the
numbers minus the first share. Arithmetic modulo 2^bits wraps, so sums of shares are shares of the sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from ..errors import ElectionError
from ..types import Array, SumRange

Width = Literal[16, 32, 64]
WIDTHS: tuple[Width, ...] = (16, 32, 64)
"""The numbers of bits that a share of a number may take."""
SEED_BYTES = 32
NOISE_SIGMAS = 40
"""So many standard deviations of the total's noise fit, too; more have a probability below 2^−1000."""
MOST_NUMBERS = 2**27


@dataclass(frozen=True)
class Layout:
    """The names and shapes of the sums, in alphabetical order, and the bits of a number."""

    sums: tuple[tuple[str, tuple[int, ...]], ...]
    bits: Width

    @classmethod
    def of(cls, sums: Mapping[str, Array], bits: Width) -> Layout:
        return cls(tuple((name, tuple(sums[name].shape)) for name in sorted(sums)), bits)

    @property
    def numbers(self) -> int:
        """How many numbers all sums have."""
        return sum(_size(shape) for _, shape in self.sums)

    @property
    def bytes(self) -> int:
        """The size of a share that is not expanded from a seed."""
        return self.numbers * self.bits // 8

    def join(self, sums: Mapping[str, Array]) -> Array:
        """All numbers in one array, int64."""
        parts = [np.asarray(sums[name], dtype=np.int64).ravel() for name, _ in self.sums]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def split(self, numbers: Array) -> dict[str, Array]:
        """The inverse of `join`."""
        ends = np.cumsum([_size(shape) for _, shape in self.sums])[:-1]
        parts = np.split(numbers, ends) if self.sums else []
        return {name: part.reshape(shape) for (name, shape), part in zip(self.sums, parts, strict=True)}


def bits_for(ranges: Mapping[str, SumRange] | None, parties: int, sigma: float = 0.0) -> Width:
    """The fewest bits in which the sums of so many parties cannot overflow. sigma: of the noise in the total.

    Raises ElectionError if 64 bits are not enough.
    """
    if ranges is None:
        return WIDTHS[-1]
    largest = max((max(abs(each.low), abs(each.high)) for each in ranges.values()), default=1)
    needed = parties * largest + int(NOISE_SIGMAS * sigma) + 1
    for bits in WIDTHS:
        if needed < 2 ** (bits - 1):
            return bits
    raise ElectionError(
        f"the sums of {parties:,} parties may reach {needed:.3g}, more than fits into 64 bits: lower parties under "
        "[tallies], or what one ballot may add"
    )


def expand(seed: bytes, count: int, bits: int) -> Array:
    """The share that a seed stands for: `count` uniform numbers, unsigned."""
    stream = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(count * bits // 8)), dtype=_unsigned(bits))


def subtract_share(numbers: Array, seed: bytes, bits: int) -> Array:
    """The other share of numbers, int64, one share of which is expanded from the seed."""
    return as_residues(numbers, bits) - expand(seed, numbers.size, bits)


def as_residues(numbers: Array, bits: int) -> Array:
    """Integers modulo 2^bits, unsigned."""
    return np.ascontiguousarray(numbers, dtype=np.int64).view(np.uint64).astype(_unsigned(bits))


def as_signed(residues: Array, bits: int) -> Array:
    """The integers from −2^(bits−1) to 2^(bits−1) − 1 with these residues, int64."""
    return residues.astype(_unsigned(bits)).view(f"<i{bits // 8}").astype(np.int64)


def _unsigned(bits: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f"<u{bits // 8}")


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
