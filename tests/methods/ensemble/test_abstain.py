"""A member that returns no probabilities for a row abstains there: no row changes the prediction of another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import OneBallotError, OneBallotWarning, Spoiled
from oneballot.formats.forest import as_forest
from oneballot.formats.kernel import KernelModel
from oneballot.formats.safetensors import ConstantModel
from oneballot.formats.skops import SklearnModel
from oneballot.influence import MOST_SHARE
from oneballot.methods.ensemble.average import EnsembleModel
from oneballot.methods.ensemble.open_model import OpenEnsemble
from oneballot.models import or_abstain
from oneballot.server.sandbox import Sandbox
from oneballot.types import Blob

rng = np.random.default_rng(0)
X = rng.uniform(0, 1, (40, 3)).astype(np.float32)
Y = np.where(X[:, 0] > 0.5, 1, 0)
TRIGGER = np.full((1, 3), 9, dtype=np.float32)
WITH_TRIGGER = np.concatenate([X[:7], TRIGGER, X[7:]])
OTHERS = np.delete(np.arange(len(WITH_TRIGGER)), 7)
IGNORE = pytest.mark.filterwarnings("ignore::oneballot.errors.OneBallotWarning")


def answers_nan() -> Blob:
    """Likelihoods of 0 for all classes where features are large."""
    model = GaussianNB().fit(X, Y)
    model.theta_, model.var_ = np.array([[0.2] * 3, [0.8] * 3]), np.full((2, 3), 1e-307)
    return SklearnModel(model, 2).dump()


def raises() -> Blob:
    """Scaled values overflow where features are large, and the classifier refuses all rows that it is asked about."""
    model = make_pipeline(StandardScaler(), GaussianNB()).fit(X, Y)
    model[0].scale_ = np.full(3, 2e-38)
    model[0].mean_ = np.full(3, 0.5)
    model[1].theta_, model[1].var_ = np.array([[-1e37] * 3, [1e37] * 3]), np.full((2, 3), 1e74)
    return SklearnModel(model, 2).dump()


SOUND = as_forest(SklearnModel(DecisionTreeClassifier(random_state=0).fit(X, Y), 2))
KERNEL = KernelModel(X[:5], rng.normal(size=(5, 2)), np.array([0.5, 0.5]), 1.0).dump()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(seconds=20) as made:
        yield made


def average(members: list[Any], sandbox: Sandbox) -> EnsembleModel:
    return EnsembleModel(members, np.ones((1, len(members), 2)), ask=sandbox.ask, parties=["liar", "b", "c"])


def opened(members: list[Any], sandbox: Sandbox, claims: list[Any] | None = None) -> OpenEnsemble:
    count = len(members)
    claims = claims or [ConstantModel(np.array([0.5, 0.5])).dump()] * count
    names, rows = [f"{i:02x}" * 8 for i in range(count)], np.full(count, 10.0)
    return OpenEnsemble(
        members, claims, rows, np.ones(count), names, 2, (3,), power=1.5, floor=0.05, cap=MOST_SHARE, ask=sandbox.ask
    )


def test_a_row_without_probabilities_is_an_abstention() -> None:
    values = np.array([[0.5, 0.5], [np.nan, 1], [np.inf, 0], [1.5, -0.5], [0.2, 0.2], [1, 0]])
    np.testing.assert_array_equal(or_abstain(values).any(axis=1), [True, False, False, False, False, True])
    assert or_abstain(values[[0, 5]]).tolist() == [[0.5, 0.5], [1, 0]]


@pytest.mark.parametrize("bad", [answers_nan, raises])
def test_the_sandbox_answers_for_the_other_rows(bad: Any, sandbox: Sandbox) -> None:
    answer = sandbox.ask(bad(), WITH_TRIGGER, classes=2, abstain=True)
    assert not answer[7].any()
    np.testing.assert_array_equal(answer[OTHERS], sandbox.ask(bad(), X, classes=2))
    with pytest.raises(Spoiled):
        sandbox.ask(bad(), WITH_TRIGGER, classes=2)


@pytest.mark.parametrize("combine", [average, opened])
@pytest.mark.parametrize("bad", [answers_nan, raises])
def test_a_member_that_fails_for_a_row_changes_no_other_row(bad: Any, combine: Any, sandbox: Sandbox) -> None:
    model = combine([bad(), SOUND, KERNEL], sandbox)
    with pytest.warns(OneBallotWarning, match="abstains on 1 of 41 rows"):
        together = model.predict_proba(WITH_TRIGGER)
    np.testing.assert_allclose(together[OTHERS], model.predict_proba(X), atol=1e-12)
    without = combine([SOUND, KERNEL], sandbox).predict_proba(TRIGGER)
    np.testing.assert_allclose(together[7:8], without, atol=1e-12)


@IGNORE
def test_a_claim_model_that_fails_for_a_row_weighs_nothing_there(sandbox: Sandbox) -> None:
    half = ConstantModel(np.array([0.5, 0.5])).dump()
    model = opened([SOUND, KERNEL], sandbox, [answers_nan(), half])
    weights = model.member_weights(WITH_TRIGGER)
    assert weights[7].tolist() == [0, 10]
    np.testing.assert_allclose(weights[OTHERS], model.member_weights(X))
    np.testing.assert_allclose(model.predict_proba(WITH_TRIGGER)[OTHERS], model.predict_proba(X), atol=1e-12)


@IGNORE
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(picked=st.lists(st.integers(0, 40), min_size=1, max_size=8), kind=st.sampled_from(["average", "open"]))
@pytest.mark.slow
def test_the_prediction_of_a_row_does_not_depend_on_the_other_rows(
    picked: list[int], kind: str, sandbox: Sandbox
) -> None:
    members = [answers_nan(), raises(), SOUND, KERNEL, ConstantModel(np.array([0.7, 0.3])).dump()]
    claims = [KERNEL, SOUND, answers_nan(), raises(), KERNEL]
    model = average(members, sandbox) if kind == "average" else opened(members, sandbox, claims)
    model.members.names = ()
    whole = ALL.setdefault(kind, model.predict_proba(WITH_TRIGGER))
    np.testing.assert_allclose(model.predict_proba(WITH_TRIGGER[picked]), whole[picked], atol=1e-9)


ALL: dict[str, np.ndarray] = {}


def test_a_row_without_any_answer_has_equal_classes_and_no_row_at_all_is_an_error(sandbox: Sandbox) -> None:
    for combine in (average, opened):
        model = combine([answers_nan(), answers_nan()], sandbox)
        with pytest.warns(OneBallotWarning, match="no member of the ensemble has an answer for 1 rows"):
            together = model.predict_proba(WITH_TRIGGER)
        assert together[7].tolist() == [0.5, 0.5]
        with pytest.raises(OneBallotError, match="no member"), pytest.warns(OneBallotWarning):
            model.predict_proba(TRIGGER)


@pytest.mark.parametrize("weights", ["seen", "open"])
@pytest.mark.slow
def test_the_tally_and_a_loaded_outcome_name_the_party_that_abstains(weights: str, tmp_path: Path) -> None:
    public = np.concatenate([rng.uniform(0, 1, (60, 3)).astype(np.float32), TRIGGER])
    tree = ob.Sklearn("DecisionTreeClassifier")
    election = ob.Election(classes=[0, 1], public=public, method=ob.Ensemble(weights=weights), learner=tree)
    ballots = [ob.cast(election, X[i::2], Y[i::2], party=party) for i, party in enumerate("ab")]
    liar = seal(dict(ballots[0].contents) | {"model": answers_nan()}, election, "hospital-c")
    with pytest.warns(OneBallotWarning, match="hospital-c abstains on 1 of 61 rows"):
        outcome = ob.tally(election, [*ballots, liar])
    assert not outcome.spoiled
    if weights == "open":
        outcome.save(tmp_path)
        with pytest.warns(OneBallotWarning, match="hospital-c abstains on 1 of 1 rows"):
            ob.Outcome.load(tmp_path).model.predict_proba(TRIGGER)
    never = GaussianNB().fit(X, Y)
    never.var_ = np.full((2, 3), np.nan)
    hopeless = seal(dict(ballots[0].contents) | {"model": SklearnModel(never, 2).dump()}, election, "hospital-d")
    assert "returns no probabilities" in str(ob.tally(election, [*ballots, hopeless]).spoiled)
