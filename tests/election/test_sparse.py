"""Wide rows of a schema: when they are sparse, that their values and digests do not change, and the dense limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

import oneballot as ob
from oneballot import sparse
from oneballot.election import schema as schema_module
from oneballot.election.columns import Category, Number, Tensor, Text
from oneballot.election.file import digest_of
from oneballot.election.schema import Schema
from oneballot.errors import DataError
from oneballot.learners.sklearn import Sklearn
from oneballot.methods.analytic.method import Analytic
from oneballot.methods.ensemble.method import Ensemble
from oneballot.methods.fedkt.method import FedKT
from oneballot.party.context import PartyContext, _contents
from oneballot.party.holdout import _digest
from oneballot.sparse import as_sparse, is_sparse
from oneballot.types import Data

CLASSES = ("no", "yes")
LINEAR = Sklearn("LogisticRegression")
TABLE = {
    "note": ["fever and cough", "no fever", "", "cough Cough FEVER", "well well", "fine"],
    "ward": ["a", "b", "a", "", "b", "z"],
    "age": [10, 20, 30, 40, 50, 60],
    "y": ["yes", "no", "no", "yes", "no", "no"],
}
COLUMNS = (
    Text(name="note", features=1200),
    Category(name="ward", categories=("a", "b"), outside="blank", missing="feature"),
    Number(name="age", range=(0, 100)),
)
SCHEMA = Schema(label="y", columns=COLUMNS)


def election(method=None, learner=LINEAR, schema=SCHEMA, public=TABLE, **settings):
    method = method or FedKT(final_weights="uniform")
    final = {"final": learner} if "final" in method.needs else {}
    return ob.Election(CLASSES, public, method, learner, final, schema=schema, **settings)


@pytest.fixture
def dense(monkeypatch):
    """Make the encoding dense again, however wide it is."""
    return lambda: monkeypatch.setattr(schema_module, "WIDE", 10**9)


def test_wide_text_and_categories_are_encoded_as_sparse_rows_with_the_same_values(dense):
    columns = {name: np.array(values, dtype=object) for name, values in TABLE.items()}
    rows = SCHEMA.encode(columns, "a.csv", report=False)
    assert is_sparse(rows)
    assert rows.shape == (6, 1204)
    dense()
    expected = SCHEMA.encode(columns, "a.csv", report=False)
    assert expected.dtype == rows.dtype == np.float32
    np.testing.assert_array_equal(rows.toarray(), expected)
    assert digest_of(rows) == digest_of(expected)


@pytest.mark.parametrize(
    "columns",
    [
        (Text(name="note", features=1000),),
        (Text(name="note", features=300), Tensor(name="x", kind="features", shape=(900,))),
    ],
)
def test_narrow_rows_and_rows_of_mostly_other_features_are_dense(columns):
    values = {"note": np.array(["a b", "c"], dtype=object), "x": np.ones((2, 900))}
    assert not is_sparse(Schema(label="y", columns=columns).encode(values, "a.csv"))


def test_an_election_keeps_sparse_rows_if_its_method_and_all_learners_take_them():
    agreed = election()
    assert agreed.sparse
    assert is_sparse(agreed.public)
    assert is_sparse(agreed.data(TABLE).X)


@pytest.mark.parametrize(
    "agreed",
    [
        lambda: election(learner=Sklearn("RandomForestClassifier")),
        lambda: election(Ensemble(weights="open")),
        lambda: election(Analytic()),
    ],
)
def test_other_methods_and_learners_get_dense_rows(agreed):
    made = agreed()
    assert not made.sparse
    assert not is_sparse(made.public)
    assert not is_sparse(made.data(TABLE).X)


def test_the_digest_does_not_depend_on_whether_rows_are_sparse(dense):
    before = election().digest
    dense()
    assert election().digest == before


def test_rows_that_do_not_fit_densely_are_refused_before_anyone_trains(monkeypatch):
    forest = Sklearn("RandomForestClassifier")
    agreed = election(Ensemble(weights="seen"), learner=forest, public=None)
    monkeypatch.setattr(sparse, "DENSE_LIMIT", 6 * 1204 * 4 - 1)
    with pytest.raises(DataError, match=r"clinic: 6 rows of 1,204 features need .* more than the limit of"):
        ob.cast(agreed, TABLE, party="clinic")
    with pytest.raises(DataError, match=r"the public set: 6 rows of 1,204 features"):
        election(learner=forest)


def test_rows_are_identified_alike_whether_they_are_sparse_or_not(dense):
    agreed = election()
    data = agreed.data(TABLE)
    same = replace(data, X=data.X.toarray())
    assert _contents(data) == _contents(same)
    assert _digest(data) == _digest(same)
    context = PartyContext(agreed, "clinic")
    for ours, theirs in zip(*(context.assign_subsets(each, 2, "x") for each in (data, same)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_encoded_rows_may_be_given_as_any_sparse_matrix_or_array():
    agreed = election()
    X = agreed.data(TABLE).X
    for given in (X, csr_matrix(X), X.tocoo(), X.toarray()):
        np.testing.assert_array_equal(agreed.encoded(given, TABLE["y"]).X.toarray(), X.toarray())
    outside = X.toarray()
    outside[0, -1] = 7
    with pytest.raises(DataError, match="the values of 'age' are not encoded"):
        agreed.rows(as_sparse(outside))


def test_without_a_schema_a_sparse_public_set_makes_the_rows_sparse():
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 30)) * (rng.random((40, 30)) < 0.1), np.arange(40) % 2
    settings = {"method": FedKT(final_weights="uniform"), "learner": LINEAR, "learners": {"final": LINEAR}}
    sparse_one, dense_one = (ob.Election((0, 1), public, **settings) for public in (csr_array(X), X))
    assert sparse_one.digest == dense_one.digest
    assert is_sparse(sparse_one.data(X, y).X)
    assert ob.cast(sparse_one, csr_array(X), y, party="a").contents["votes"].tolist() == (
        ob.cast(dense_one, X, y, party="a").contents["votes"].tolist()
    )


def libsvm_election(folder: Path, public: str) -> ob.Election:
    (folder / "public.svm").write_text(public)
    schema = Schema(label="y", columns=(Tensor(name="X", kind="features", shape=(1500,)),))
    agreed = ob.Election((-1, 1), schema.read(folder / "public.svm"), FedKT(final_weights="uniform"), LINEAR,
                         {"final": LINEAR}, schema=schema)  # fmt: skip
    assert is_sparse(agreed.public)
    return agreed


def test_a_libsvm_file_stays_sparse_and_an_empty_row_counts(tmp_path):
    agreed = libsvm_election(tmp_path, "1 1:1 1500:1\n-1\n")
    (tmp_path / "mine.svm").write_text("1 3:2\n-1\n1 7:1\n")
    data = agreed.read_data(tmp_path / "mine.svm")
    assert is_sparse(data.X)
    assert data.y.tolist() == [1, 0, 1]
    assert data.X.shape == (3, 1500)


def test_a_missing_value_in_a_libsvm_file_is_refused_with_file_and_row(tmp_path):
    agreed = libsvm_election(tmp_path, "1 1:1\n-1 2:1\n")
    (tmp_path / "mine.svm").write_text("1 3:2\n-1 4:nan\n")
    with pytest.raises(DataError, match=r"mine\.svm, column 'X': 1 values are NaN or infinite, the first in row 2"):
        agreed.read_data(tmp_path / "mine.svm")


def test_a_party_without_rows_may_be_sparse():
    data = election().data(TABLE)
    assert isinstance(data.take(np.array([], dtype=int)), Data)
    assert len(data.take(np.array([], dtype=int)).X) == 0
