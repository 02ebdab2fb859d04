"""Sparse rows: canonical form, the dense limit, stacking and blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csr_array

from oneballot import sparse
from oneballot.data.read import read
from oneballot.data.rows import as_rows
from oneballot.errors import DataError
from oneballot.runtime.join import join_rows
from oneballot.sparse import SparseRows, as_dense, as_sparse, blocks, concatenate, dense_blocks, is_sparse
from oneballot.types import Stack


def test_sparse_rows_have_a_length_and_row_numbers_like_an_array():
    rows = as_sparse(csr_array(np.eye(4)))
    assert (len(rows), rows.dtype, rows.indices.dtype) == (4, np.float32, np.int32)
    for some in (np.array([2, 0]), slice(1, 3), np.array([True, False, False, True]), np.array([], dtype=int)):
        assert isinstance(rows[some], SparseRows)
        np.testing.assert_array_equal(rows[some].toarray(), np.eye(4)[some])
    np.testing.assert_array_equal(np.asarray(rows), np.eye(4))


def test_stored_zeros_and_duplicates_are_cleaned_in_a_copy():
    given = csr_array((np.array([0.0, 2.0, 3.0]), np.array([0, 1, 1]), np.array([0, 1, 3])), shape=(2, 3))
    rows = as_rows(given, "a")
    assert (rows.nnz, given.nnz) == (1, 3)
    np.testing.assert_array_equal(rows.toarray(), [[0, 0, 0], [0, 5, 0]])


def test_indices_of_64_bits_become_32_bits_which_libraries_expect():
    given = csr_array((np.ones(1), np.array([1], dtype=np.int64), np.array([0, 1], dtype=np.int64)), shape=(1, 3))
    given.indices, given.indptr = given.indices.astype(np.int64), given.indptr.astype(np.int64)
    assert as_sparse(given).indices.dtype == as_sparse(given).indptr.dtype == np.int32


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_a_value_that_is_not_finite_is_refused_with_its_row(value):
    with pytest.raises(DataError, match=r"a\.svm: 1 values are NaN or infinite, the first in row 3, feature 2;"):
        as_sparse(coo_array(([value], ([2], [1])), shape=(5, 4)), "a.svm")


def test_text_in_a_sparse_matrix_is_refused():
    with pytest.raises(DataError, match="a: sparse rows must be numbers in two dimensions"):
        as_sparse(csr_array(np.eye(2)).astype(complex), "a")


def test_rows_that_would_exceed_the_dense_limit_are_refused_before_memory_is_used():
    rows = SparseRows((10**6, 10**6), dtype=np.float32)
    with pytest.raises(DataError, match=r"p: 1,000,000 rows of 1,000,000 features need 3725.3 GiB as dense .* 4 GiB"):
        as_dense(rows, "p")


def test_rows_up_to_the_limit_become_dense(monkeypatch):
    monkeypatch.setattr(sparse, "DENSE_LIMIT", 3 * 3 * 4)
    np.testing.assert_array_equal(as_dense(as_sparse(np.eye(3))), np.eye(3))
    monkeypatch.setattr(sparse, "DENSE_LIMIT", 35)
    with pytest.raises(DataError, match="Keep fewer features or rows"):
        as_dense(as_sparse(np.eye(3)))


def test_dense_rows_below_sparse_rows_become_sparse():
    parts = [as_sparse(np.eye(3)), np.ones((2, 3), dtype=np.float32), as_sparse(np.zeros((1, 3)))]
    whole = concatenate(parts)
    assert is_sparse(whole)
    np.testing.assert_array_equal(whole.toarray(), np.vstack([np.eye(3), np.ones((2, 3)), np.zeros((1, 3))]))
    assert not is_sparse(concatenate([np.eye(3), np.eye(3)]))


def test_parties_that_train_together_share_the_sparse_public_set():
    own, public = as_sparse(np.eye(3)), as_sparse(2 * np.eye(3))
    X, where = join_rows([Stack((own, public)), Stack((3 * own, public))])
    assert len(X) == 9
    np.testing.assert_array_equal(X[where[1]].toarray(), np.vstack([3 * np.eye(3), 2 * np.eye(3)]))


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_blocks_hold_all_rows_once(monkeypatch, rows):
    monkeypatch.setattr(sparse, "BLOCK", 2 * 4 * 5)
    dense = np.arange(rows * 5, dtype=np.float32).reshape(rows, 5)
    for X in (dense, as_sparse(dense)):
        np.testing.assert_array_equal(np.concatenate(list(dense_blocks(X))), dense)
    assert max(len(block) for block in blocks(as_sparse(dense))) <= 2


WIDE_FILE = "1 1:0.5 1500:2\n-1\n1 3:0\n# comment\n\n-1 2:1e0 # note\n"


def test_a_wide_libsvm_file_is_sparse_with_its_empty_rows(tmp_path):
    (tmp_path / "a.svm").write_text(WIDE_FILE)
    table = read(tmp_path / "a.svm")
    assert is_sparse(table["X"])
    assert table["X"].shape == (4, 1500)
    expected = np.zeros((4, 1500))
    expected[0, 0], expected[0, 1499], expected[3, 1] = 0.5, 2, 1
    np.testing.assert_array_equal(table["X"].toarray(), expected)
    np.testing.assert_array_equal(table["y"], [1, -1, 1, -1])


def test_the_schema_makes_a_libsvm_file_wide(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1\n")
    assert not is_sparse(read(tmp_path / "a.svm")["X"])
    assert read(tmp_path / "a.svm", features=2000)["X"].shape == (1, 2000)
    assert is_sparse(read(tmp_path / "a.svm", features=2000)["X"])


@pytest.mark.parametrize("line", ["1 1500:x", "1 7:1 5:1", "yes 1:1", "1 0:1"])
def test_a_malformed_line_of_a_wide_file_is_refused_with_file_and_line(tmp_path, line):
    (tmp_path / "a.svm").write_text(f"1 1400:1\n-1 2:1\n{line}\n")
    with pytest.raises(DataError, match=r"a\.svm, line 3: "):
        read(tmp_path / "a.svm")


@pytest.mark.parametrize("index", [-1, 2, 900_000_000])
@pytest.mark.parametrize("kind", [csr_array, csc_array])
def test_an_index_outside_the_matrix_is_refused_before_anything_is_read_there(kind, index):
    given = kind((np.ones(2), np.array([0, index]), np.array([0, 1, 2])), shape=(2, 2))
    with pytest.raises(DataError, match="party-1: the sparse rows are invalid"):
        as_rows(given, "party-1")


def test_columns_beyond_32_bits_keep_their_numbers():
    given = csr_array((np.ones(1), np.array([2**31 + 5]), np.array([0, 1])), shape=(1, 2**31 + 6))
    assert as_sparse(given).indices.tolist() == [2**31 + 5]
