"""One row never stops a cast at L2: what is not finite becomes 0, whatever the method, the features and the learner."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from tests.test_patients import released

import oneballot as ob
from oneballot import plugins
from oneballot.errors import DataError, OneBallotWarning
from oneballot.methods._encoder import encode
from oneballot.methods.analytic.format import Encoder, FeatureMap
from oneballot.party.cast import _filled as filled_rows
from oneballot.party.cast import cast_together
from oneballot.party.context import PartyContext
from oneballot.types import Array, Data

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(40, 3)).astype(np.float32)
X, Y = RNG.normal(size=(30, 3)).astype(np.float32), np.arange(30) % 2
POISONS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e300": 1e300, "3e38": 3e38}
L2: dict[str, Any] = {"stable_ids": False}


def encoder() -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4), torch.nn.Linear(4, 2))


METHODS: dict[str, Any] = {
    "analytic": lambda: ob.Analytic(),
    "analytic, ridge": lambda: ob.Analytic(solver="ridge"),
    "analytic, fourier": lambda: ob.Analytic(features="fourier", number=20),
    "analytic, encoder": lambda: ob.Analytic(features="encoder", encoder=encoder()),
    "fedkt": lambda: ob.FedKT(subsets=3),
    "fedkt, soft": lambda: ob.FedKT(subsets=3, voting="soft"),
    "fedkt, open": lambda: ob.FedKT(subsets=3, open_vote="hard", partitions=2),
    "fedkt, counts": lambda: ob.FedKT(subsets=3, weights="class-counts"),
    "fedkt, students": lambda: ob.FedKT(subsets=3, students=True),
    "fedkd": lambda: ob.FedKD(subsets=3, temperature=1.0),
    "neighbours": lambda: ob.Neighbours(),
    "neighbours, encoder": lambda: ob.Neighbours(features="encoder", encoder=encoder()),
}
for _name in plugins.names("methods"):  # those that are not named above are tried as they come
    if "L2" in plugins.find("methods", _name).levels and _name not in {key.partition(",")[0] for key in METHODS}:
        METHODS[_name] = plugins.find("methods", _name)
LEARNERS = {
    "kernel": ob.Kernel(),
    "naive Bayes": ob.Sklearn("GaussianNB"),
    "logistic": ob.Sklearn("LogisticRegression"),
    "nearest": ob.Sklearn("KNeighborsClassifier", {"n_neighbors": 1}),
    "trees": ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 3}),
}


def election(method: Any, learner: Any = LEARNERS["kernel"], **settings: Any) -> ob.Election:
    given = {"public": PUBLIC, "privacy": ob.L2(8.0, **L2), "learner": learner}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)
        return ob.Election([0, 1], method=method, **{**given, **settings})


def poisoned(value: float, dtype: Any = np.float64) -> Array:
    rows = X.astype(dtype)
    with np.errstate(over="ignore"):
        rows[3], rows[7, 1] = value, value
    return rows


@pytest.mark.parametrize("name", METHODS)
def test_a_row_of_anything_is_cast(name: str) -> None:
    """As a user's array, and as data that were checked elsewhere; the numbers are those of a row with 0 there."""
    agreed = election(METHODS[name]())
    for what, value in POISONS.items():
        rows = poisoned(value)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ballot = ob.cast(agreed, rows, Y, party="a")
        assert ballot.abstained is None, what
        assert any("taken as 0: at L2 no row may stop a cast" in str(w.message) for w in caught) == (what != "3e38")
        (other,) = cast_together(agreed, {"a": Data(rows, Y)})
        assert other.abstained is None


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("method", ["fedkt", "fedkd"])
def test_a_row_of_anything_is_cast_with_every_learner(method: str, learner: str) -> None:
    if method == "fedkd" and learner not in ("kernel", "naive Bayes", "logistic"):
        pytest.skip("FedKD needs scores")
    agreed = election(METHODS[method](), LEARNERS[learner])
    for value in POISONS.values():
        assert ob.cast(agreed, poisoned(value), Y, party="a").abstained is None


def test_a_row_of_anything_is_cast_with_networks() -> None:
    pytest.importorskip("torch")
    agreed = election(ob.FedKT(subsets=3), ob.Torch("mlp", {"hidden": [4]}, steps=3))
    for value in POISONS.values():
        assert ob.cast(agreed, poisoned(value), Y, party="a").abstained is None


@pytest.mark.parametrize("name", [name for name in METHODS if name.startswith("analytic")])
@pytest.mark.parametrize("what", ["nan", "inf", "-inf", "1e300"])
def test_sums_are_those_of_rows_with_0(name: str, what: str) -> None:
    agreed = election(METHODS[name]())
    zero = X.copy()
    zero[3], zero[7, 1] = 0, 0
    sums = [
        released(agreed, agreed.data(rows, Y)).raw["statistics"] for rows in (poisoned(POISONS[what]), zero)
    ]  # fmt: skip
    assert np.array_equal(*sums)
    assert np.abs(sums[0]).max() < 2**62


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_of_an_encoder_that_are_not_finite_become_0_before_they_are_clipped(value: float) -> None:
    """Rows may be finite and their features not. Every row has length 1 at most, and others do not change."""
    torch = pytest.importorskip("torch")

    class Breaks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = torch.nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            wild = torch.where(x[:, :1] > 1e6, torch.full_like(x, value), x)
            return self.last(wild)

    made = FeatureMap(np.zeros(3), 1.0, 0.3, encoder=Encoder(Breaks()))
    rows = X.copy()
    rows[5] = 1e7
    z, plain = made.of_private(rows), made.of_private(X)
    assert np.isfinite(z).all()
    assert np.linalg.norm(z, axis=1).max() <= 1 + 1e-12
    assert np.array_equal(z[5, :-1], np.zeros(3))
    assert np.array_equal(np.delete(z, 5, axis=0), np.delete(plain, 5, axis=0))


TOKENS = RNG.integers(10, size=(12, 4)).astype(np.int32)
WIDE = ob.L2(50.0, **L2)
WILD = {"beyond": 10**6, "negative": -5, "the next": 10, "beyond int32": 10**12}


def wild(value: int) -> Array:
    rows = TOKENS.astype(np.int64)
    rows[4], rows[7, 1] = value, value
    return rows


def zero() -> Array:
    rows = TOKENS.copy()
    rows[4], rows[7, 1] = 0, 0
    return rows


def token_encoder() -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(10, 3), torch.nn.Flatten(), torch.nn.Linear(12, 2))


def of_tokens(method: Any, privacy: Any = WIDE, learner: Any = LEARNERS["kernel"]) -> ob.Election:
    return election(method, learner, public=TOKENS, privacy=privacy)


def text_network() -> ob.Torch:
    pytest.importorskip("torch")
    settings = {"vocabulary": 10, "dimension": 4, "filters": 4, "widths": [1, 2]}
    return ob.Torch("textcnn", settings, steps=3, batch=4, device="cpu")


@pytest.mark.parametrize("method", [ob.Analytic, ob.Neighbours])
@pytest.mark.parametrize("what", WILD)
def test_a_row_that_the_encoder_cannot_take_becomes_0(method: Any, what: str) -> None:
    """A token that is not in the vocabulary: at L0 it is refused, at L2 it must not show."""
    coded, labels = method(features="encoder", encoder=token_encoder()), np.arange(12) % 2
    with pytest.raises(DataError):
        ob.cast(of_tokens(coded, "L0"), wild(WILD[what]), labels, party="a")
    assert ob.cast(of_tokens(coded), wild(WILD[what]), labels, party="a").abstained is None


def test_other_rows_do_not_change_if_the_encoder_cannot_take_one() -> None:
    features = FeatureMap(np.zeros(12), 1.0, 0.3, encoder=Encoder(token_encoder()))
    rows = wild(10_000).astype(np.int32)
    z, plain = features.of_private(rows), features.of_private(TOKENS)
    assert np.array_equal(np.delete(z, [4, 7], axis=0), np.delete(plain, [4, 7], axis=0))
    coded = encode(rows, features.encoder, private=True)
    assert np.array_equal(np.delete(coded, [4, 7], axis=0), np.delete(encode(TOKENS, features.encoder), [4, 7], axis=0))
    assert not coded[[4, 7]].any()


@pytest.mark.parametrize("method", [ob.FedKT(subsets=2), ob.FedKD(subsets=2, temperature=0)])
@pytest.mark.parametrize("what", WILD)
def test_tokens_outside_the_vocabulary_become_padding(method: Any, what: str) -> None:
    agreed, labels = of_tokens(method, learner=text_network()), np.arange(12) % 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert ob.cast(agreed, wild(WILD[what]), labels, party="a").abstained is None
    assert any("at L2 no row may stop a cast" in str(w.message) for w in caught)
    (other,) = cast_together(agreed, {"a": Data(wild(WILD[what]), labels)})
    assert other.abstained is None
    filled = filled_rows(
        PartyContext(agreed, "a"), agreed.rows(wild(WILD[what]), private=True), agreed.choose_learners({})
    )
    assert np.array_equal(filled, zero())


@pytest.mark.parametrize("what", WILD)
def test_at_l0_tokens_outside_the_vocabulary_are_refused(what: str) -> None:
    agreed = of_tokens(ob.FedKT(), "L0", text_network())
    with pytest.raises(DataError, match=r"expected 0 \(padding\) to 9|must be whole numbers"):
        ob.cast(agreed, wild(WILD[what]), np.arange(12) % 2, party="a")


def test_pixels_that_are_no_bytes_become_0() -> None:
    images = RNG.integers(256, size=(12, 4)).astype(np.uint8)
    rows = images.astype(np.int64)
    rows[3], rows[5, 1] = 300, -1
    trusted, private = (election(ob.FedKT(), public=images, privacy=p) for p in ("L0", WIDE))
    taken = private.rows(rows, private=True)
    assert not taken[3].any()
    assert taken[5, 1] == 0
    assert np.array_equal(np.delete(taken, [3, 5], axis=0), np.delete(images, [3, 5], axis=0))
    assert ob.cast(private, rows, np.arange(12) % 2, party="a").abstained is None
    with pytest.raises(DataError, match="must be bytes"):
        trusted.rows(rows, private=True)


def test_the_rounding_of_a_row_does_not_depend_on_how_many_others_there_are() -> None:
    """One row alone would be multiplied by another routine, and rounded differently."""
    agreed = election(ob.Analytic(features="fourier", number=64))
    features = agreed.method.feature_map(PartyContext(agreed, "a"))
    rows = RNG.normal(size=(1100, 3)).astype(np.float32)
    whole = features.of_private(rows)
    for count in (1, 2, 511, 512, 513, 1025):
        assert np.array_equal(features.of_private(rows[:count]), whole[:count])


def test_sparse_rows_that_are_not_finite_are_cast() -> None:
    wide = scipy.sparse.random(30, 300, 0.1, "csr", dtype=np.float64, random_state=0)
    public = scipy.sparse.random(40, 300, 0.1, "csr", dtype=np.float32, random_state=1)
    learner = ob.Sklearn("LogisticRegression")
    agreed = election(ob.FedKT(subsets=3), learner, public=public)
    for value in POISONS.values():
        bad = wide.copy()
        bad.data[:5] = value
        assert ob.cast(agreed, bad, Y, party="a").abstained is None


@pytest.mark.parametrize("outside", ["clip", "error"])
def test_a_file_with_infinite_or_missing_numbers_is_cast(outside: str, tmp_path: Path) -> None:
    """Also where the schema permits no missing values: at L0 such a file is refused."""
    columns = [{"kind": "number", "name": name, "range": [-3, 3], "outside": outside} for name in "ab"]
    schema = ob.Schema.model_validate({"label": "ill", "columns": columns})
    file = tmp_path / "a.csv"
    file.write_text("a,b,ill\n" + "".join(f"{i % 3},{-(i % 2)},{i % 2}\n" for i in range(20)) + "inf,,1\n1e999,nan,0\n")
    made = {p.level: ob.Election([0, 1], method=ob.Analytic(), schema=schema, privacy=p) for p in (ob.L2(50.0),)}
    with pytest.raises(DataError, match=r"(?s)infinite.*missing"):
        ob.Election([0, 1], method=ob.Analytic(), schema=schema).read_data(file)
    data = made["L2"].read_data(file)
    assert np.array_equal(data.X[-2:], np.zeros((2, 2)))
    assert len(data) == 22
    assert ob.cast(made["L2"], data, party="a").abstained is None


def test_at_l0_rows_that_are_not_finite_are_still_refused() -> None:
    agreed = ob.Election([0, 1], public=PUBLIC, method=ob.Analytic())
    with pytest.raises(DataError, match="NaN or infinite"):
        ob.cast(agreed, poisoned(np.nan), Y, party="a")
