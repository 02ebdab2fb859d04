"""Bit packing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oneballot.methods._packing import pack, packed_size, unpack


@given(st.integers(1, 17), st.data())
def test_packed_integers_are_unpacked_unchanged(bits: int, data) -> None:
    values = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=40)), dtype=np.int64)
    packed = pack(values, bits)
    assert len(packed) == packed_size(len(values), bits)
    assert np.array_equal(unpack(packed, bits, len(values)), values)
