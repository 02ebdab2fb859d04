"""The footers of Parquet files are read without pyarrow, which ends the process for some damaged ones."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneballot.data._parquet_footer import _Reader, stated_bytes

pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("rows", [0, 1, 5_000])
def test_the_stated_size_is_that_of_pyarrow(rows: int, compression: str, tmp_path: Path) -> None:
    names = [f"column {i}" for i in range(20)]
    columns = {name: np.arange(rows) * 0.5 for name in names} | {"text": ["ä"] * rows, "on": [True] * rows}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", compression=compression, row_group_size=700)
    about = pq.read_metadata(tmp_path / "a.parquet")
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    expected = sum(group.column(i).total_uncompressed_size for group in groups for i in range(group.num_columns))
    assert stated_bytes(tmp_path / "a.parquet") == expected
    assert expected > 8 * rows


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(IndexError, TypeError, RecursionError):
        _Reader(data).struct()


def test_a_footer_that_is_cut_or_too_long_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for damaged in (b"", whole[:-1], whole[:-8] + b"\xff\xff\xff\x7fPAR1", whole[:-8] + b"\0\0\0\0PAR1", whole[:4]):
        (tmp_path / "b.parquet").write_bytes(damaged)
        with pytest.raises(ValueError, match="footer"):
            stated_bytes(tmp_path / "b.parquet")
