"""XGBoost and LightGBM learners: any subset of the classes, and the same predictions after loading."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from oneballot import plugins
from oneballot.errors import ElectionError
from oneballot.formats.safetensors import ConstantModel
from oneballot.learners.lightgbm import LightGBM
from oneballot.learners.xgboost import XGBoost
from oneballot.types import Task

pytest.importorskip("xgboost")
pytest.importorskip("lightgbm")

FEATURES = 4
LEARNERS = [
    XGBoost(rounds=5, max_depth=3),
    LightGBM(rounds=5, leaves=7, params={"min_data_in_leaf": 3}),
]
every_booster = pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.name)


def rows(seen, count=120):
    rng = np.random.default_rng(len(seen))
    y = np.asarray(seen)[rng.integers(0, len(seen), count)]
    return (rng.normal(size=(count, FEATURES)) + y[:, None]).astype(np.float32), y


@every_booster
@pytest.mark.parametrize(("seen", "classes"), [([0, 1], 2), (range(10), 10), ([3, 7], 10), ([1, 4, 9], 10)], ids=str)
def test_a_booster_learns_its_classes_and_predicts_the_same_after_loading(learner, seen, classes):
    X, y = rows(list(seen))
    everything = np.arange(len(y))
    models = learner.fit_many(X, [Task(everything, y, seed=1, ask=everything)], classes)
    (answer,) = models.predictions()
    assert answer.shape == (len(y), classes)
    np.testing.assert_allclose(answer.sum(axis=1), 1, atol=1e-6)
    assert not answer[:, np.setdiff1d(np.arange(classes), list(seen))].any()
    assert (answer.argmax(axis=1) == y).mean() > 0.6
    blob = models[0].dump()
    form = plugins.find("formats", blob.format)
    form.check(blob.data, classes=classes, features=FEATURES)
    loaded = form.load(blob.data, classes=classes)
    np.testing.assert_array_equal(loaded.predict_proba(X), answer)
    np.testing.assert_array_equal(loaded.scores(X), models[0].scores(X))
    assert loaded.dump() == blob


@every_booster
def test_a_task_can_ask_for_scores(learner):
    X, y = rows([0, 1, 2])
    which = np.arange(len(y))
    models = learner.fit_many(X, [Task(which, y, ask=which, answer="scores")], 4)
    np.testing.assert_array_equal(models.predictions()[0], models[0].scores(X))
    assert (models.predictions()[0][:, 3] < -1e8).all()


@every_booster
def test_tasks_with_few_rows_or_one_class_are_trained(learner):
    X, y = rows([0, 1, 2])
    asked = np.arange(5)
    two = np.array([np.flatnonzero(y == 0)[0], np.flatnonzero(y == 2)[0]])
    tasks = [Task(which, y[which], ask=asked) for which in (np.flatnonzero(y == 2), two[:1], two[:0], two)]
    single, one, none, pair = learner.fit_many(X, tasks, 3).predictions()
    np.testing.assert_array_equal(single, np.tile([0, 0, 1], (5, 1)))
    np.testing.assert_array_equal(one, np.tile([1, 0, 0], (5, 1)))
    np.testing.assert_array_equal(none, np.full((5, 3), 1 / 3))
    assert not pair[:, 1].any()


@every_booster
def test_models_depend_on_the_seed_only(learner):
    X, y = rows([0, 1, 2])
    drawn = {"subsample": 0.5} if learner.name == "xgboost" else {"bagging_fraction": 0.5, "bagging_freq": 1}
    which = np.arange(len(y))
    tasks = [Task(which, y, seed=seed, ask=which) for seed in (1, 1, 2)]
    models = type(learner)(rounds=5, params=drawn).fit_many(X, tasks, 3)
    first, same, other = models.predictions()
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
    assert models[0].dump() == models[1].dump()


@every_booster
def test_a_soft_label_counts_as_one_weighted_row_per_class(learner):
    X, y = rows([0, 1, 2])
    targets = np.random.default_rng(3).dirichlet(np.ones(3), len(y))
    where, label = np.nonzero(targets)
    asked = np.arange(len(y))
    tasks = [
        Task(asked, targets, "soft", seed=3, ask=asked),
        Task(where, label, weight=targets[where, label], seed=3, ask=asked),
    ]
    soft, hard = learner.fit_many(X, tasks, 3).predictions()
    np.testing.assert_array_equal(soft, hard)


@every_booster
def test_images_and_bytes_give_the_same_predictions_as_flat_floats(learner):
    X, y = rows([0, 1, 2])
    X = np.clip(X * 20, 0, 255).astype(np.uint8)
    which = np.arange(len(y))
    flat, image = (
        learner.fit_many(x, [Task(which, y, ask=which)], 3).predictions()[0]
        for x in (X.astype(np.float32), X.reshape(-1, 1, 2, 2))
    )
    np.testing.assert_array_equal(flat, image)


@every_booster
def test_settings_survive_a_json_round_trip(learner):
    learner.check()
    assert type(learner)(**json.loads(json.dumps(asdict(learner)))) == learner
    assert "soft" in learner.provides


@pytest.mark.parametrize("learner", [XGBoost, LightGBM])
def test_an_unknown_setting_is_refused(learner):
    with pytest.raises(ElectionError, match="unknown setting round; available: rounds"):
        learner(round=5)
    with pytest.raises(ElectionError, match=r"rounds: .* greater than 0 \(got 0\)"):
        learner(rounds=0)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (XGBoost(params={"objective": "reg:squarederror"}), "xgboost: OneBallot sets objective; remove it from params"),
        (XGBoost(params={"seed": 3, "nthread": 4}), "OneBallot sets nthread, seed"),
        (XGBoost(params={"booster": "dart"}), "xgboost: with these params models cannot be sent: booster is 'dart'"),
        (XGBoost(params={"multi_strategy": "multi_output_tree"}), "cannot be sent"),
        (XGBoost(params={"max_depth": "deep"}), "invalid params {'max_depth': 'deep'}: .*expect int"),
        (XGBoost(learning_rate=-1), "learning_rate should be greater"),
        (LightGBM(params={"objective": "binary"}), "lightgbm: OneBallot sets objective"),
        (LightGBM(params={"linear_tree": True}), "lightgbm: with these params models cannot be sent"),
        (LightGBM(params={"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}), "cannot be sent"),
        (LightGBM(params={"sigmoid": 2.0}), "cannot be sent"),
        (LightGBM(params={"max_bin": -4}), "invalid params .*max_bin"),
        (LightGBM(params={"early_stopping_round": 2}), "invalid params .*early stopping"),
    ],
    ids=str,
)
def test_params_that_are_invalid_or_give_unsafe_models_are_refused_before_training(learner, message):
    with pytest.raises(ElectionError, match=message):
        learner.check()


def test_constraints_on_columns_are_accepted():
    learner = XGBoost(rounds=2, params={"monotone_constraints": "(1,0,0,1)"})
    learner.check()
    X, y = rows([0, 1])
    assert not isinstance(learner.fit_many(X, [Task(np.arange(len(y)), y)], 2)[0], ConstantModel)
