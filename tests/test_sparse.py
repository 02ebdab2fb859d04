"""Sparse rows from cast to prediction: methods, learners, the sandbox, simulations and files."""

from __future__ import annotations

import numpy as np
import pytest

import oneballot as ob
from oneballot.election import schema as schema_module
from oneballot.election.columns import Number, Text
from oneballot.election.schema import Schema
from oneballot.errors import Spoiled
from oneballot.formats.forest import as_forest
from oneballot.formats.skops import SPARSE
from oneballot.formats.ubjson import UBJSON
from oneballot.learners.lightgbm import LightGBM
from oneballot.learners.sklearn import Sklearn
from oneballot.learners.xgboost import XGBoost
from oneballot.methods.ensemble.method import Ensemble
from oneballot.methods.fedkt.method import FedKT
from oneballot.server.sandbox import Sandbox
from oneballot.simulation import baselines
from oneballot.sparse import as_sparse, is_sparse
from oneballot.types import Task

CLASSES = ("no", "yes")
SCHEMA = Schema(label="y", columns=(Text(name="note", features=1100), Number(name="age", range=(0, 100))))
WORDS = [f"word{i}" for i in range(60)]


def notes(rows: int, seed: int) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 2
    texts = [" ".join([*rng.choice(WORDS, 6), f"{CLASSES[c]}{rng.integers(2)}"]) for c in y]
    texts[2] = ""
    return {"note": texts, "age": rng.integers(0, 100, rows).tolist(), "y": [CLASSES[c] for c in y]}


PUBLIC, DATA, TEST = notes(40, 0), notes(120, 1), notes(30, 2)
XGB = XGBoost(rounds=3, params={"min_child_weight": 0.1})
LGB = LightGBM(rounds=3, params={"min_data_in_leaf": 2})
METHODS = {
    "fedkt": FedKT(final_weights="uniform"),
    "fedkt models": FedKT(final_weights="uniform", ballot="models", students=False, open_vote="off"),
    "ensemble": Ensemble(weights="seen"),
}


def make(method, learner) -> ob.Election:
    roles = {"final": learner} if "final" in method.needs else {}
    return ob.Election(CLASSES, PUBLIC, method, learner, roles, schema=SCHEMA)


def run(method, learner):
    agreed = make(method, learner)
    return agreed, ob.simulate(agreed, DATA, parties=2)


@pytest.mark.filterwarnings("error:.*could not learn")
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
@pytest.mark.parametrize(
    ("learner", "tolerance"),
    [(Sklearn("LogisticRegression"), 1e-5), (Sklearn("LinearSVC"), 1e-9), (LGB, 0)],
    ids=["logistic", "svc", "lightgbm"],
)
def test_an_outcome_of_sparse_rows_is_that_of_dense_rows(monkeypatch, tmp_path, method, learner, tolerance):
    agreed, simulation = run(method, learner)
    assert is_sparse(agreed.public)
    assert all(is_sparse(data.X) for data in simulation.parties.values())
    assert not simulation.outcome.spoiled
    predicted = simulation.outcome.model.predict_proba(TEST)
    simulation.outcome.save(tmp_path)
    np.testing.assert_array_equal(ob.Outcome.load(tmp_path).model.predict_proba(TEST), predicted)
    monkeypatch.setattr(schema_module, "WIDE", 10**9)
    agreed, simulation = run(method, learner)
    assert not is_sparse(agreed.public)
    np.testing.assert_allclose(simulation.outcome.model.predict_proba(TEST), predicted, atol=tolerance)


@pytest.mark.filterwarnings("error:.*could not learn")
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
@pytest.mark.parametrize("learner", [XGB, Sklearn("SGDClassifier", {"loss": "log_loss"})], ids=["xgboost", "sgd"])
def test_learners_that_treat_sparse_rows_differently_run_from_cast_to_prediction(method, learner):
    _, simulation = run(method, learner)
    assert not simulation.outcome.spoiled
    table = simulation.outcome.model.predict(TEST)
    encoded = simulation.outcome.model.predict_encoded(make(method, learner).data(TEST).X)
    assert table.tolist() == encoded.tolist()


def training_rows():
    rng = np.random.default_rng(0)
    X = as_sparse(rng.random((60, 1200)) * (rng.random((60, 1200)) < 0.05))
    return X, np.arange(60) % 3


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as started:
        yield started


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*converge")
@pytest.mark.parametrize("name", SPARSE.split()[:-2])
def test_every_sparse_estimator_travels_and_predicts_in_the_sandbox(sandbox, name):
    X, y = training_rows()
    settings = {"max_iter": 5} if name == "MLPClassifier" else {}
    learner = Sklearn(name, settings)
    assert learner.sparse
    (model,) = learner.fit_many(X, [Task(np.arange(60), y, required=True)], 3)
    answer = sandbox.ask(model.dump(), X, classes=3)
    np.testing.assert_allclose(answer, model.predict_proba(X), rtol=1e-5)  # of float32 networks
    np.testing.assert_allclose(answer, model.predict_proba(X.toarray()), atol=1e-5)


def test_pipelines_are_sparse_if_every_step_is():
    steps = [{"estimator": "MaxAbsScaler"}, {"estimator": "LinearSVC"}]
    assert Sklearn("Pipeline", {"steps": steps}).sparse
    assert not Sklearn("Pipeline", {"steps": [{"estimator": "StandardScaler"}, steps[1]]}).sparse


def test_xgboost_treats_the_zeros_of_sparse_rows_as_missing_wherever_the_model_is_used(sandbox):
    X, y = training_rows()
    model = XGB.fit_one(X, y, None, 0, 3)
    with_gaps = X.toarray()
    with_gaps[with_gaps == 0] = np.nan
    same = XGB.fit_one(with_gaps, y, None, 0, 3)
    expected = same.predict_proba(with_gaps)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict_proba(X.toarray()), expected)
    loaded = UBJSON.load(model.dump().data, classes=3)
    np.testing.assert_array_equal(loaded.predict_proba(X.toarray()), expected)
    np.testing.assert_array_equal(sandbox.ask(model.dump(), X, classes=3), expected)
    assert as_forest(model) is None


def test_an_xgboost_model_of_dense_rows_predicts_the_same_for_sparse_rows():
    X, y = training_rows()
    model = XGB.fit_one(X.toarray(), y, None, 0, 3)
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X.toarray()))


def test_an_xgboost_model_with_another_mark_is_refused():
    X, y = training_rows()
    model = XGB.fit_one(X, y, None, 0, 3)
    model.booster.set_attr(oneballot_sparse="2")
    with pytest.raises(Spoiled, match="the attribute oneballot_sparse is not 1"):
        UBJSON.check(model.dump().data, classes=3, features=1200)


def test_a_party_may_choose_a_learner_of_dense_rows():
    agreed = make(METHODS["ensemble"], Sklearn("LogisticRegression"))
    learners = {"local": Sklearn("RandomForestClassifier", {"n_estimators": 5})}
    ballots = [ob.cast(agreed, DATA, party="a", learners=learners), ob.cast(agreed, PUBLIC, party="b")]
    outcome = ob.tally(agreed, ballots)
    assert not outcome.spoiled
    assert outcome.model.predict(TEST).shape == (30,)


def test_an_open_ensemble_of_trees_takes_a_wide_table_densely():
    agreed = ob.Election(CLASSES, PUBLIC, Ensemble(weights="open"), schema=SCHEMA)
    outcome = ob.simulate(agreed, DATA, parties=2).outcome
    assert not outcome.spoiled
    assert outcome.model.predict(TEST).shape == (30,)


def test_baselines_are_trained_on_sparse_rows():
    agreed, simulation = run(METHODS["ensemble"], Sklearn("LogisticRegression"))
    assert 0 <= baselines(agreed, simulation.parties, agreed.data(TEST)).pooled <= 1


def test_a_final_learner_is_trained_again_on_sparse_rows():
    from sklearn.base import clone

    _, simulation = run(METHODS["fedkt"], Sklearn("LogisticRegression"))
    again = clone(simulation.outcome.model).fit({k: DATA[k] for k in ("note", "age")}, DATA["y"])
    assert again.predict(TEST).shape == (30,)
