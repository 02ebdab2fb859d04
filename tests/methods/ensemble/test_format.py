"""Ensembles as files: hostile files are refused, and untrusted members are evaluated only in the sandbox."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save
from sklearn.naive_bayes import GaussianNB

from oneballot.errors import DataError, OneBallotError, OneBallotWarning, Spoiled
from oneballot.formats.safetensors import ConstantModel
from oneballot.formats.skops import SklearnModel
from oneballot.methods.ensemble.average import EnsembleModel
from oneballot.methods.ensemble.format import EnsembleFormat
from oneballot.types import Blob

X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
UNTRUSTED = SklearnModel(GaussianNB().fit(X, X.argmax(axis=1)), 3)


def constant(*values: float) -> Blob:
    return ConstantModel(np.array(values)).dump()


def test_each_class_is_averaged_over_the_members_with_a_weight() -> None:
    """By hand: class 0 is (0.5 + 0.2)/2 = 0.35, class 1 only the second's 0.8, class 2 only the first's 0."""
    members = [constant(0.5, 0.5, 0.0), constant(0.2, 0.8, 0.0)]
    weights = np.array([[[1, 0, 1], [1, 1, 0]]])
    answer = EnsembleModel(members, weights).predict_proba(X)
    np.testing.assert_allclose(answer, np.tile(np.array([0.35, 0.8, 0]) / 1.15, (50, 1)))
    assert EnsembleModel(members, weights).predict_proba(X[:0]).shape == (0, 3)
    np.testing.assert_allclose(EnsembleModel(members, weights).scores(X[:1])[0, 0], np.log(0.35 / 1.15))


def test_classes_share_the_probability_if_no_weighted_member_supports_any() -> None:
    answer = EnsembleModel([constant(0, 0, 1)], np.array([[[1, 1, 0]]])).predict_proba(X[:1])
    np.testing.assert_allclose(answer, [[0.5, 0.5, 0]])


def test_each_cohort_has_its_own_ensemble_and_new_parties_can_find_theirs() -> None:
    members = [constant(1, 0, 0), constant(0, 1, 0), constant(0, 0.5, 0.5)]
    weights = np.zeros((2, 3, 3))
    weights[0, 0] = weights[1, 1] = weights[1, 2] = 1
    centres = np.array([[[1.0, 0, 0]] * 4, [[0, 0.75, 0.25]] * 4])
    model = EnsembleModel(members, weights, cohort={"00" * 8: 1}, centres=centres)
    np.testing.assert_allclose(model.of(0).predict_proba(X[:1]), [[1, 0, 0]])
    np.testing.assert_allclose(model.of(1).predict_proba(X[:1]), [[0, 0.75, 0.25]])
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[1 / 3, 0.5, 1 / 6]])
    assert model.closest(np.tile([0.1, 0.5, 0.4], (4, 1))) == 1
    assert (model.best(X[:3], np.zeros(3, int)), model.best(X[:3], np.array([1, 2, 1]))) == (0, 1)
    with pytest.raises(DataError, match="no ballot of 'a' was counted"):
        model.cohort_of("a")
    with pytest.raises(DataError, match="numbered 0 to 1"):
        model.of(2)
    with pytest.raises(DataError, match="expected"):
        model.closest(np.zeros((3, 3)))


def test_an_untrusted_member_is_loaded_only_in_the_sandbox_and_left_out_if_it_fails() -> None:
    model = EnsembleModel([UNTRUSTED.dump(), constant(1, 0, 0)], np.ones((1, 2, 3)))
    with pytest.raises(OneBallotError, match="only runs in the sandbox"):
        model.predict_proba(X)

    def refuse(blob: Blob, X: np.ndarray, *, classes: int, abstain: bool = False) -> np.ndarray:
        raise Spoiled("it crashed")

    model.use_sandbox(refuse)
    with pytest.warns(OneBallotWarning, match="member 0 is left out: it crashed"):
        np.testing.assert_allclose(model.predict_proba(X[:1]), [[1, 0, 0]])
    alone = EnsembleModel([UNTRUSTED.dump()], np.ones((1, 1, 3)), ask=refuse)
    with pytest.warns(OneBallotWarning), pytest.raises(OneBallotError, match="no member"):
        alone.predict_proba(X)


def good_arrays() -> dict[str, np.ndarray]:
    weights = np.zeros((2, 2, 3))
    weights[0, 0] = weights[1, 1] = 1
    model = EnsembleModel([constant(1, 0, 0), UNTRUSTED.dump()], weights, cohort={"00" * 8: 1, "ab" * 8: 0})
    return load(model.dump().data)


def write(arrays: dict[str, np.ndarray], formats: object = ("safetensors", "skops")) -> bytes:
    return save(arrays, metadata={"formats": json.dumps(formats)})


def test_an_ensemble_is_read_as_it_was_written() -> None:
    data = write(good_arrays())
    EnsembleFormat.check(data, classes=3, features=3)
    model = EnsembleFormat.load(data, classes=3)
    assert [blob.format for blob in model.members] == ["safetensors", "skops"]
    assert model.cohort == {"00" * 8: 1, "ab" * 8: 0}
    assert EnsembleFormat.load(model.dump().data, classes=3).dump() == model.dump()


WRONG = {
    "bytes cut off": lambda a: {"bytes": a["bytes"][:-1]},
    "bytes of another type": lambda a: {"bytes": a["bytes"].astype(np.int64)},
    "ends that go back": lambda a: {"ends": a["ends"][::-1].copy()},
    "ends below 0": lambda a: {"ends": a["ends"] - 10**9},
    "ends of another type": lambda a: {"ends": a["ends"].astype(np.float64)},
    "no members": lambda a: {"ends": a["ends"][:0], "formats": a["formats"][:0]},
    "a format that is not named": lambda a: {"formats": a["formats"] + 1},
    "formats below 0": lambda a: {"formats": a["formats"] - 1},
    "a member in a format that is not its own": lambda a: {"formats": 1 - a["formats"]},
    "weights of other members": lambda a: {"weights": a["weights"][:, :1]},
    "weights of other classes": lambda a: {"weights": a["weights"][:, :, :2]},
    "weights below 0": lambda a: {"weights": -a["weights"]},
    "weights that are NaN": lambda a: {"weights": a["weights"] * np.nan},
    "a cohort without members": lambda a: {"weights": a["weights"] * [[[1]], [[0]]]},
    "centres of other classes": lambda a: {"centres": np.zeros((2, 5, 2))},
    "centres of other cohorts": lambda a: {"centres": np.zeros((3, 5, 3))},
    "centres that are not finite": lambda a: {"centres": np.full((2, 5, 3), np.inf)},
    "parties of a cohort that is not there": lambda a: {"cohort": a["cohort"] + 1},
    "a party without a cohort": lambda a: {"cohort": a["cohort"][:1]},
    "parties that are not hashes": lambda a: {"parties": a["parties"][:, :7]},
    "an extra array": lambda a: {"more": np.zeros(1)},
}


@pytest.mark.parametrize("name", WRONG)
def test_hostile_files_are_spoiled(name: str) -> None:
    arrays = good_arrays()
    changed = {k: np.ascontiguousarray(v) for k, v in (arrays | WRONG[name](arrays)).items()}
    with pytest.raises(Spoiled):
        EnsembleFormat.check(write(changed), classes=3, features=3)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_altered_bytes_are_spoiled_or_give_probabilities(changes) -> None:
    raw = bytearray(EnsembleModel([constant(1, 0, 0), constant(0, 1, 0)], np.ones((1, 2, 3))).dump().data)
    for at, value in changes:
        raw[at % len(raw)] = value
    try:
        EnsembleFormat.check(bytes(raw), classes=3, features=3)
    except Spoiled:
        return
    values = EnsembleFormat.load(bytes(raw), classes=3).predict_proba(X[:2])
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values.sum(axis=1), 1)


@pytest.mark.parametrize("formats", [["safetensors", "ensemble"], ["safetensors", "pickle"], [1, 2], {}, None, "x"])
def test_members_must_have_known_formats_and_not_be_ensembles(formats: object) -> None:
    with pytest.raises(Spoiled, match="must be of the formats"):
        EnsembleFormat.check(write(good_arrays(), formats), classes=3, features=3)


def test_an_invalid_member_is_named() -> None:
    with pytest.raises(Spoiled, match="member 0: probabilities are"):
        EnsembleFormat.check(EnsembleModel([constant(1, 0)], np.ones((1, 1, 3))).dump().data, classes=3, features=3)
