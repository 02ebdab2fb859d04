"""Every built-in passes its conformance suite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot import plugins
from oneballot.ballot.seal import unseal
from oneballot.interfaces import Learner, Method
from oneballot.party.cast import cast_data
from oneballot.party.context import PartyContext
from oneballot.testing import check_box, check_format, check_learner, check_method
from oneballot.testing._data import make_rows
from oneballot.types import Data, Task

from ..boxes.conftest import KINDS

slow = pytest.mark.slow
METHODS = {
    "analytic": ob.Analytic(),
    "analytic, ridge": ob.Analytic(solver="ridge", features="fourier", number=20),
    "decoder": ob.Decoder(steps=20, hidden=8, latent=2),
    "decoder, floats": ob.Decoder(steps=20, hidden=8, latent=2, weights="float16", influence="claimed", rows=300),
    "dense": ob.Dense(epochs=2, batch=16, noise=8, generator_steps=2),
    "dense, logits": ob.Dense(epochs=2, batch=16, noise=8, generator_steps=2, average="logits"),
    "dosfl": ob.DOSFL(steps=2, epochs=1, batch=2, local_epochs=2),
    "dosfl, uint8": ob.DOSFL(steps=2, epochs=1, batch=2, local_epochs=2, numbers="uint8", merging="weights"),
    "ensemble": ob.Ensemble(),
    "ensemble, open": ob.Ensemble(weights="open"),
    "ensemble, cv": ob.Ensemble(select="cv", k=2, folds=3),
    "ensemble, cohorts": ob.Ensemble(distil=True, cohorts=2, weights="class-counts"),
    "fedkd": ob.FedKD(temperature=0.0),
    "fedkd, logits": ob.FedKD(),
    "fedkd, softened": ob.FedKD(temperature=2.0, weights="uniform", bound=8.0, rounding="zero"),
    "fedkt": ob.FedKT(subsets=3),
    "fedkt, paper": ob.FedKT.paper(partitions=2, subsets=3),
    "fedkt, models": ob.FedKT(ballot="models"),
    "fedkt, class counts": ob.FedKT(weights="class-counts", open_vote="off", subsets=2),
    "fedkt, soft": ob.FedKT(voting="soft", subsets=2),
    "neighbours": ob.Neighbours(),
    "neighbours, claimed": ob.Neighbours(influence="claimed", estimate="none", labels="lead", neighbours=3),
}
"""Settings that cover every branch of a ballot's contents."""
LEARNERS: dict[str, Learner] = {
    "kernel": ob.Kernel(),
    "lightgbm": ob.LightGBM(rounds=5),
    "sklearn": ob.Sklearn("DecisionTreeClassifier", {"max_depth": 4}),
    "sklearn, linear": ob.Sklearn("LogisticRegression"),
    "sklearn, forest": ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 8}),
    "sklearn, neighbours": ob.Sklearn("KNeighborsClassifier"),
    "sklearn, histogram": ob.Sklearn("HistGradientBoostingClassifier", {"max_iter": 5}),
    "torch": ob.Torch("mlp", {"hidden": [16]}, epochs=10, learning_rate=0.02),
    "torch, lenet": ob.Torch("lenet", {"shape": [1, 16, 16], "channels": [2, 2], "hidden": [8]}, epochs=20),
    "xgboost": ob.XGBoost(rounds=5),
}
SLOW = (
    "dense",
    "dosfl",
    "fedkd, logits",
    "fedkd, softened",
    "ensemble, cohorts",
    "torch",
    "fedkt, class counts",
    "fedkt, soft",
)
LEARNER_FORMATS = {
    "kernel": "kernel",
    "lightgbm": "lightgbm-text",
    "sklearn": "skops",
    "sklearn, linear": "skops",
    "sklearn, forest": "skops",
    "sklearn, neighbours": "skops",
    "sklearn, histogram": "forest",
    "torch": "torch-safetensors",
    "torch, lenet": "torch-safetensors",
    "xgboost": "ubjson",
}
"""The format of each learner's models."""
QUICK_FORMATS = ("kernel", "sklearn, histogram")
"""Learners whose models are inert: no sandbox has to start."""
METHOD_FORMATS = {
    "analytic": ob.Analytic(),
    "ensemble": ob.Ensemble(),
    "ensemble, open": ob.Ensemble(weights="open"),
}
"""Formats of methods' final models."""
OTHER_FORMATS = ("decoder", "safetensors")
"""Formats with a test of their own."""
BOXES = ("folder", "memory")
"""Boxes without a server. tests/boxes/test_conformance.py runs the suite on the others."""


def marked(cases: dict) -> list:
    return [pytest.param(x, id=name, marks=slow if name.startswith(SLOW) else ()) for name, x in cases.items()]


def test_every_built_in_is_listed_here() -> None:
    assert {method.name for method in METHODS.values()} == set(plugins.names("methods"))
    assert {learner.name for learner in LEARNERS.values()} == set(plugins.names("learners"))
    assert LEARNER_FORMATS.keys() == LEARNERS.keys()
    of_methods = {name.partition(",")[0] for name in METHOD_FORMATS}
    assert {*LEARNER_FORMATS.values(), *of_methods, *OTHER_FORMATS} == set(plugins.names("formats"))
    assert {*BOXES, *KINDS} == set(plugins.names("boxes"))


@pytest.mark.parametrize("method", marked(METHODS))
def test_a_built_in_method_conforms(method: Method) -> None:
    if "gradients" in str(method.needs) or "score targets" in str(method.needs):
        pytest.importorskip("torch")
    check_method(method)


@pytest.mark.parametrize("learner", marked(LEARNERS))
def test_a_built_in_learner_conforms(learner: Learner) -> None:
    skip_without_library(learner)
    check_learner(learner)


@pytest.mark.parametrize(
    ("name", "learner"),
    [pytest.param(n, x, id=n, marks=() if n in QUICK_FORMATS else slow) for n, x in LEARNERS.items()],
)
def test_the_format_of_a_built_in_learner_conforms(name: str, learner: Learner) -> None:
    skip_without_library(learner)
    X, y = make_rows(60, learner.row or (6,))
    few = np.flatnonzero(y != 2)
    models = learner.fit_many(X, [Task(np.arange(len(y)), y), Task(few, y[few], seed=3)], 3)
    check_format(plugins.find("formats", LEARNER_FORMATS[name]), [models[0], models[1]], X, classes=3)


def test_the_format_of_constant_models_conforms() -> None:
    X, _ = make_rows(60)
    constant = ob.Sklearn().fit_many(X, [Task(np.arange(3), np.zeros(3, dtype=int))], 3)[0]
    check_format(plugins.find("formats", "safetensors"), [constant], X, classes=3)


def test_the_format_of_decoders_conforms_without_predicting() -> None:
    pytest.importorskip("torch")
    X, y = make_rows(60)
    election = ob.Election(range(3), X, method=METHODS["decoder"])
    ballot = unseal(cast_data(PartyContext(election, "party"), Data(X, y)).sealed, election)
    check_format(plugins.find("formats", "decoder"), [ballot.blob("model")], X, classes=3)


@slow
@pytest.mark.parametrize(("name", "method"), METHOD_FORMATS.items(), ids=METHOD_FORMATS)
def test_the_formats_of_methods_conform(name: str, method: Method) -> None:
    X, y = make_rows(60)
    run = ob.simulate(ob.Election(range(3), X, method=method, learner=ob.Kernel()), X, y, parties=2)
    model = run.outcome.model.model_
    check_format(plugins.find("formats", name.partition(",")[0]), [model], X, classes=3, mutations=40)


def test_a_folder_and_a_box_in_memory_conform(tmp_path: Path) -> None:
    check_box(lambda: ob.Folder(tmp_path / "box"))
    check_box(ob.Folder(tmp_path / "other"))
    check_box(lambda: ob.box_at("memory://conformance"))


def skip_without_library(learner: Learner) -> None:
    if learner.name in ("torch", "xgboost", "lightgbm"):
        pytest.importorskip(learner.name)
