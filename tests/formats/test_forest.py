"""Forests as arrays: the predictions of the libraries that trained them, and refusal of everything else."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from threadpoolctl import threadpool_limits

from oneballot.errors import DataError, Spoiled
from oneballot.formats import _forest_layout, forest
from oneballot.formats.forest import ForestFormat, ForestModel, as_forest, predict_many
from oneballot.formats.lightgbm_text import LightGBMModel
from oneballot.formats.safetensors import ConstantModel, read_arrays
from oneballot.formats.skops import SklearnModel
from oneballot.formats.ubjson import XGBoostModel
from oneballot.server.sandbox import Sandbox

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

FEATURES = 5
CASES = [([0, 1], 2), (list(range(6)), 6), ([1, 4, 7], 10), ([3, 8], 10)]


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def rows(count=300, missing=0.0, seed=0):
    """Rows with few distinct values, so that many of them equal a threshold."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(count, FEATURES)), 1).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def labels(X, seen, seed=0):
    signal = np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2]) + np.random.default_rng(seed).normal(size=len(X)) / 3
    codes = np.digitize(signal, np.quantile(signal, np.linspace(0, 1, len(seen) + 1)[1:-1]))
    return np.asarray(seen)[codes]


def train_sklearn(estimator, X, y, classes):
    return SklearnModel(estimator.fit(X, y), classes)


def train_xgboost(settings, X, y, classes):
    seen, codes = np.unique(y, return_inverse=True)
    objective = {"objective": "binary:logistic"}
    if len(seen) > 2:
        objective = {"objective": "multi:softprob", "num_class": len(seen)}
    booster = xgboost.train({"max_depth": 4, "nthread": 1, **objective, **settings}, xgboost.DMatrix(X, codes), 8)
    return XGBoostModel(booster, seen, classes)


def train_lightgbm(settings, X, y, classes):
    seen, codes = np.unique(y, return_inverse=True)
    objective = {"objective": "binary"} if len(seen) == 2 else {"objective": "multiclass", "num_class": len(seen)}
    fixed = {"num_leaves": 9, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train({**fixed, **objective, **settings}, lightgbm.Dataset(X, codes), 8)
    return LightGBMModel(booster, seen, classes)


EXACT, CLOSE = 0.0, 1e-6
MODELS = {
    "tree": (train_sklearn, DecisionTreeClassifier(random_state=0), True, EXACT),
    "stump": (train_sklearn, DecisionTreeClassifier(max_depth=1), True, EXACT),
    "tree by leaves": (train_sklearn, DecisionTreeClassifier(max_leaf_nodes=12, random_state=0), True, EXACT),
    "extra tree": (train_sklearn, ExtraTreeClassifier(random_state=0), True, EXACT),
    "forest": (train_sklearn, RandomForestClassifier(15, random_state=0), True, EXACT),
    "weighted forest": (
        train_sklearn,
        RandomForestClassifier(9, class_weight="balanced", min_samples_leaf=4, random_state=0),
        True,
        EXACT,
    ),
    "extra trees": (train_sklearn, ExtraTreesClassifier(15, random_state=0), True, EXACT),
    "boosting": (train_sklearn, GradientBoostingClassifier(n_estimators=8, random_state=0), False, CLOSE),
    "boosting from zero": (train_sklearn, GradientBoostingClassifier(n_estimators=8, init="zero"), False, CLOSE),
    "histograms": (train_sklearn, HistGradientBoostingClassifier(max_iter=8), True, CLOSE),
    "histograms, stumps": (train_sklearn, HistGradientBoostingClassifier(max_iter=3, max_depth=1), True, CLOSE),
    "xgboost": (train_xgboost, {}, True, CLOSE),
    "xgboost, exact": (train_xgboost, {"tree_method": "exact", "gamma": 2.0}, True, CLOSE),
    "xgboost, stumps": (train_xgboost, {"max_depth": 1, "base_score": 0.3}, True, CLOSE),
    "xgboost, by loss": (train_xgboost, {"grow_policy": "lossguide", "max_leaves": 8}, True, CLOSE),
    "xgboost, parallel": (train_xgboost, {"num_parallel_tree": 3, "subsample": 0.5}, True, CLOSE),
    "xgboost, no splits": (train_xgboost, {"gamma": 1e9}, True, CLOSE),
    "lightgbm": (train_lightgbm, {}, True, CLOSE),
    "lightgbm, stumps": (train_lightgbm, {"num_leaves": 2}, True, CLOSE),
    "lightgbm, no splits": (train_lightgbm, {"min_data_in_leaf": 1000}, True, CLOSE),
    "lightgbm, extra": (train_lightgbm, {"extra_trees": True, "use_missing": False}, True, CLOSE),
    "lightgbm, goss": (train_lightgbm, {"data_sample_strategy": "goss"}, True, CLOSE),
}


def converted(model, classes):
    blob = as_forest(model)
    assert blob.format == "forest"
    ForestFormat.check(blob.data, classes=classes, features=FEATURES)
    loaded = ForestFormat.load(blob.data, classes=classes)
    assert loaded.dump() == blob
    assert as_forest(loaded) == blob
    return loaded


@pytest.mark.parametrize(("seen", "classes"), CASES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_forest_predicts_what_its_library_predicts(name, seen, classes):
    train, settings, takes_nan, tolerance = MODELS[name]
    for missing in (0.0, 0.15) if takes_nan else (0.0,):
        X = rows(missing=missing)
        model = train(settings, X, labels(X, seen), classes)
        loaded = converted(model, classes)
        asked = rows(500, missing=0.2 if takes_nan else 0.0, seed=1)
        chances = loaded.predict_proba(asked)
        np.testing.assert_allclose(chances, model.predict_proba(asked), rtol=0, atol=tolerance)
        np.testing.assert_allclose(loaded.scores(asked), model.scores(asked), rtol=0, atol=10 * tolerance)
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        assert not chances[:, np.setdiff1d(np.arange(classes), seen)].any()


def test_the_exponential_loss_gives_the_same_probabilities():
    X = rows()
    model = train_sklearn(GradientBoostingClassifier(loss="exponential", n_estimators=8), X, labels(X, [0, 1]), 2)
    np.testing.assert_allclose(converted(model, 2).predict_proba(X), model.predict_proba(X), atol=CLOSE)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(MODELS)),
    seen=st.lists(st.integers(0, 7), min_size=2, max_size=5, unique=True).map(sorted),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e6, 1e30]),
)
def test_forests_of_random_rows_predict_what_their_libraries_predict(name, seen, seed, scale):
    train, setting, takes_nan, tolerance = MODELS[name]
    X = rows(120, 0.1 if takes_nan else 0.0, seed) * np.float32(scale)
    y = np.random.default_rng(seed).choice(seen, len(X))
    if len(np.unique(y)) < 2:
        return
    model = train(setting, X, y, 8)
    edge = np.nextafter(X, np.float32(np.inf)), np.nextafter(X, np.float32(-np.inf))  # beside thresholds
    for asked in (X, *edge):
        np.testing.assert_allclose(converted(model, 8).predict_proba(asked), model.predict_proba(asked), atol=tolerance)


def test_a_row_equal_to_a_threshold_goes_the_same_way_in_every_library():
    X = np.repeat(np.arange(8, dtype=np.float32), 40)[:, None] * np.ones((1, FEATURES), np.float32) / 3
    y = (X[:, 0] > 1).astype(int)
    for train, setting in (
        (train_sklearn, DecisionTreeClassifier()),
        (train_xgboost, {"tree_method": "exact"}),
        (train_lightgbm, {}),
        (train_sklearn, HistGradientBoostingClassifier()),
    ):
        model = train(setting, X, y, 2)
        trees = converted(model, 2).trees
        asked = np.repeat(trees.threshold[:, None], FEATURES, axis=1)
        for near in (asked, np.nextafter(asked, np.float32(9)), np.nextafter(asked, np.float32(-9))):
            np.testing.assert_allclose(converted(model, 2).predict_proba(near), model.predict_proba(near), atol=CLOSE)


def test_models_that_are_not_plain_trees_are_not_converted():
    X = rows()
    y = labels(X, [0, 1])
    others = [
        train_sklearn(make_pipeline(StandardScaler(), DecisionTreeClassifier()), X, y, 2),
        train_sklearn(AdaBoostClassifier(n_estimators=2), X, y, 2),
        train_sklearn(BaggingClassifier(n_estimators=2), X, y, 2),
        train_sklearn(LogisticRegression(), X, y, 2),
        train_sklearn(GradientBoostingClassifier(init=LogisticRegression(), n_estimators=2), X, y, 2),
        train_sklearn(HistGradientBoostingClassifier(categorical_features=[0]), np.abs(np.floor(X)), y, 2),
        train_xgboost({"booster": "dart"}, X, y, 2),
        train_xgboost({"booster": "gblinear"}, X, y, 2),
        train_lightgbm({"linear_tree": True}, X, y, 2),
        train_lightgbm({"zero_as_missing": True}, X, y, 2),
        train_lightgbm({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, X, y, 2),
        train_lightgbm({"categorical_feature": [0], "max_cat_to_onehot": 1}, np.abs(np.floor(X * 3)), y, 2),
        ConstantModel(np.array([0.5, 0.5])),
        SimpleNamespace(),
    ]
    assert [as_forest(model) for model in others] == [None] * len(others)


def test_models_asked_together_give_the_same_bits_as_alone_with_any_number_of_threads(monkeypatch):
    X = rows(400)
    models = [
        converted(train_sklearn(RandomForestClassifier(7, random_state=1), X, labels(X, range(6)), 6), 6),
        converted(train_sklearn(ExtraTreesClassifier(3, random_state=2), X, labels(X, [0, 1]), 2), 2),
        converted(train_xgboost({}, X, labels(X, [1, 3, 4]), 6), 6),
    ]
    asked = rows(1001, seed=3)
    alone = [model.predict_proba(asked) for model in models]
    monkeypatch.setattr(forest, "SMALL", 0)
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("ONEBALLOT_WORKERS", threads)
        for size in (8192, 10):
            monkeypatch.setattr(forest, "ROWS_AT_ONCE", size)
            for one, together in zip(alone, predict_many(models, asked), strict=True):
                np.testing.assert_array_equal(one, together)
    assert predict_many([], asked) == []
    assert [answer.shape for answer in predict_many(models, asked[:0])] == [(0, 6), (0, 2), (0, 6)]


def test_rows_of_any_shape_and_type_are_accepted_and_other_widths_refused():
    X = rows()
    model = converted(train_sklearn(DecisionTreeClassifier(), X, labels(X, [0, 1]), 2), 2)
    wide = np.asfortranarray(X.astype(np.float64)).reshape(-1, FEATURES, 1)
    np.testing.assert_array_equal(model.predict_proba(wide), model.predict_proba(X))
    np.testing.assert_array_equal(model.predict_proba(X[::-2]), model.predict_proba(X)[::-2])
    for width in (FEATURES - 1, FEATURES + 1, 0):
        with pytest.raises(DataError, match="trained on rows of 5 numbers"):
            model.predict_proba(np.zeros((2, width), np.float32))


def test_a_model_is_pickled_without_its_compiled_trees():
    X = rows()
    model = converted(train_sklearn(RandomForestClassifier(20), X, labels(X, [0, 1]), 2), 2)
    expected = model.predict_proba(X)
    data = pickle.dumps(model)
    assert len(data) < 2 * len(model.dump().data)
    np.testing.assert_array_equal(pickle.loads(data).predict_proba(X), expected)  # noqa: S301


@pytest.mark.slow
def test_the_file_is_much_smaller_than_skops():
    X = rows(500)
    model = train_sklearn(RandomForestClassifier(10), X, labels(X, range(4)), 4)
    assert len(as_forest(model).data) < len(model.dump().data) / 4


def test_checking_two_thousand_trees_takes_less_than_a_second():
    X = rows(2000)
    model = train_sklearn(ExtraTreesClassifier(40, random_state=0), X, labels(X, [0, 1]), 2)
    trees = converted(model, 2).trees
    many = {
        name: np.tile(getattr(trees, name), 50)
        for name in ("nodes", "splits", "feature", "threshold", "missing_left", "value_of_leaf", "target")
    }
    data = _forest_layout.Trees(
        trees.output, trees.features, trees.seen, values=trees.values, base=trees.base, **many
    ).save()
    begin = time.perf_counter()
    ForestFormat.check(data, classes=2, features=FEATURES)
    assert len(many["nodes"]) == 2000
    assert time.perf_counter() - begin < 3  # 0.5 s on an idle machine


# Two classes, five columns. Tree 0: a split, whose left child is a split; tree 1: a leaf.
GOOD = {
    "columns": np.array([5], np.int32),
    "classes": np.array([0, 1], np.int32),
    "nodes": np.array([5, 1], np.int32),
    "splits": np.packbits([1, 1, 0, 0, 0, 0]),
    "feature": np.array([4, 0], np.uint8),
    "threshold": np.array([0.5, -np.inf], np.float32),
    "missing_left": np.packbits([1, 0]),
    "values": np.array([[0, 1], [0.25, 0.75]]),
    "value_of_leaf": np.array([0, 1, 1, 0], np.uint8),
}
SCORES = {
    **{name: value for name, value in GOOD.items() if name != "value_of_leaf"},
    "values": np.array([[1.0], [-2.0], [3.0], [0.5]], np.float32),
    "base": np.array([0.1]),
    "target": np.array([0, 0], np.int32),
}
WRONG = {
    "an extra array": {"more": np.ones(1)},
    "other columns": {"columns": np.array([6], np.int32)},
    "columns of another type": {"columns": np.array([5.0])},
    "no classes": {"classes": np.zeros(0, np.int32)},
    "classes that do not exist": {"classes": np.array([0, 2], np.int32)},
    "classes out of order": {"classes": np.array([1, 0], np.int32)},
    "no trees": {"nodes": np.zeros(0, np.int32)},
    "a tree without nodes": {"nodes": np.array([5, 0, 1], np.int32)},
    "a negative number of nodes": {"nodes": np.array([7, -1], np.int32)},
    "a huge number of nodes": {"nodes": np.full(2, 2**31 - 1, np.int32)},
    "nodes of another type": {"nodes": np.array([5, 1])},
    "more nodes than bits": {"nodes": np.array([9, 1], np.int32)},
    "fewer nodes than bits": {"nodes": np.array([3, 1], np.int32)},
    "a tree that ends early": {"nodes": np.array([4, 2], np.int32)},
    "a tree that does not end": {"splits": np.packbits([1, 0, 0, 0, 1, 0])},
    "a first node that is a leaf": {"splits": np.packbits([0, 1, 1, 0, 0, 0])},
    "a last node that splits": {"splits": np.packbits([1, 0, 0, 0, 0, 1])},
    "more splits than columns of splits": {"splits": np.packbits([1, 1, 1, 0, 0, 0])},
    "bits beyond the nodes": {"splits": np.packbits([1, 1, 0, 0, 0, 0, 1])},
    "packed bits of another type": {"splits": np.packbits([1, 1, 0, 0, 0, 0]).astype(np.int8)},
    "missing bits": {"missing_left": np.zeros(0, np.uint8)},
    "a column that does not exist": {"feature": np.array([5, 0], np.uint8)},
    "a huge column": {"feature": np.array([2**32 - 1, 0], np.uint32)},
    "a signed column": {"feature": np.array([-1, 0], np.int32)},
    "a threshold that is NaN": {"threshold": np.array([np.nan, 0], np.float32)},
    "thresholds of another type": {"threshold": np.zeros(2)},
    "too few thresholds": {"threshold": np.zeros(1, np.float32)},
    "too many thresholds": {"threshold": np.zeros((2, 1), np.float32)},
    "a leaf that is NaN": {"values": np.array([[0, 1], [0.25, np.nan]])},
    "a leaf that is infinite": {"values": np.array([[0, 1], [0.25, np.inf]])},
    "leaves of other classes": {"values": np.full((2, 3), 1 / 3)},
    "leaves without shape": {"values": np.array(1.0)},
    "leaves of another type": {"values": np.array([[0, 1], [1, 0]])},
    "a leaf without a value": {"value_of_leaf": np.array([0, 1, 1, 2], np.uint8)},
    "a leaf too few": {"value_of_leaf": np.array([0, 1, 1], np.uint8)},
    "signed values of leaves": {"value_of_leaf": np.array([0, 1, 1, -1], np.int8)},
}
WRONG_MEAN = {
    "a negative probability": {"values": np.array([[-0.1, 1.1], [0.25, 0.75]])},
    "probabilities that do not sum to 1": {"values": np.array([[0.5, 0.6], [0.25, 0.75]])},
    "a base": {"base": np.zeros(1), "target": np.zeros(2, np.int32)},
}
WRONG_SCORES = {
    "a base that is NaN": {"base": np.array([np.nan])},
    "a huge base": {"base": np.array([1e30])},
    "a base of other classes": {"base": np.zeros(2)},
    "a target that does not exist": {"target": np.array([0, 1], np.int32)},
    "a negative target": {"target": np.array([0, -1], np.int32)},
    "a target too few": {"target": np.zeros(1, np.int32)},
    "a single class": {"classes": np.array([1], np.int32)},
    "values for fewer leaves": {"values": np.zeros((3, 1), np.float32)},
    "huge values": {"values": np.full((4, 1), 1e30, np.float32)},
}
FILES = {"mean": GOOD, "sigmoid": SCORES}


def refuse(output, arrays, **metadata):
    data = save(arrays, metadata={"output": output, **metadata})
    with pytest.raises(Spoiled):
        ForestFormat.check(data, classes=2, features=5)
    with pytest.raises(Spoiled):
        ForestFormat.load(data, classes=2).predict_proba(np.zeros((1, 5), np.float32))


@pytest.mark.parametrize("output", FILES)
def test_a_file_written_by_hand_is_read_as_described(output):
    data = save(FILES[output], metadata={"output": output})
    ForestFormat.check(data, classes=2, features=5)
    model = ForestFormat.load(data, classes=2)
    X = np.zeros((4, 5), np.float32)
    X[1, 4] = 0.5
    X[2, 4] = 0.6
    X[3] = np.nan  # left, then right
    # Rows 0, 1 and 3 reach the second leaf of tree 0, and row 2 the third.
    if output == "mean":
        expected = np.array([0.75, 0.75, 0.75, 0.75]) / 2 + 0.5
        np.testing.assert_array_equal(model.predict_proba(X)[:, 1], expected)
    else:
        margin = np.array([-2.0, -2.0, 3.0, -2.0]) + 0.5 + 0.1
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-margin)))


@pytest.mark.parametrize("output", FILES)
@pytest.mark.parametrize("name", WRONG)
def test_hostile_files_are_spoiled(output, name):
    wrong = WRONG[name]
    if output == "sigmoid" and "value_of_leaf" in wrong:
        wrong = {"values": SCORES["values"][:2], **wrong}
    if name == "columns of another type" or name == "other columns":
        data = save({**FILES[output], **wrong}, metadata={"output": output})
        with pytest.raises(Spoiled):
            ForestFormat.check(data, classes=2, features=5)
        return
    refuse(output, {**FILES[output], **wrong})


@pytest.mark.parametrize("name", WRONG_MEAN)
def test_hostile_means_are_spoiled(name):
    refuse("mean", {**GOOD, **WRONG_MEAN[name]})


@pytest.mark.parametrize("name", WRONG_SCORES)
def test_hostile_scores_are_spoiled(name):
    refuse("sigmoid", {**SCORES, **WRONG_SCORES[name]})


@pytest.mark.parametrize("output", FILES)
def test_a_missing_array_or_another_output_is_spoiled(output):
    for name in FILES[output]:
        refuse(output, {key: value for key, value in FILES[output].items() if key != name})
    refuse("other", FILES[output])
    refuse({"mean": "sigmoid", "sigmoid": "mean"}[output], FILES[output])
    refuse(output, FILES[output], more="text")


def chain(depth, trees=1):
    """Trees that are chains: every left child splits again."""
    splits = np.tile(np.r_[np.ones(depth, bool), np.zeros(depth + 1, bool)], trees)
    return save(
        {
            **GOOD,
            "nodes": np.full(trees, 2 * depth + 1, np.int32),
            "splits": np.packbits(splits),
            "feature": np.zeros(depth * trees, np.uint8),
            "threshold": np.zeros(depth * trees, np.float32),
            "missing_left": np.packbits(np.zeros(depth * trees, bool)),
            "value_of_leaf": np.zeros((depth + 1) * trees, np.uint8),
        },
        metadata={"output": "mean"},
    )


def test_trees_whose_evaluation_takes_too_long_are_spoiled():
    ForestFormat.check(chain(1000), classes=2, features=5)
    ForestFormat.load(chain(1000), classes=2).predict_proba(np.zeros((3, 5), np.float32))
    for data, reason in (
        (chain(0, 50_001), "50,001 trees"),
        (chain(1001), "deeper than 1000"),
        (chain(100_000), "deeper than 1000"),
        (chain(1000, 251), "add up to more than 250,000"),
    ):
        begin = time.perf_counter()
        with pytest.raises(Spoiled, match=reason):
            ForestFormat.check(data, classes=2, features=5)
        assert time.perf_counter() - begin < 3


def test_more_nodes_than_fit_into_memory_are_spoiled(monkeypatch):
    monkeypatch.setattr(_forest_layout, "MOST_NODES", 20)
    ForestFormat.check(chain(4, 2), classes=2, features=5)
    with pytest.raises(Spoiled, match="expected at most 20"):
        ForestFormat.check(chain(5, 2), classes=2, features=5)
    X = rows()
    assert as_forest(train_sklearn(DecisionTreeClassifier(), X, labels(X, [0, 1]), 2)) is None


def test_a_chain_of_right_children_has_the_same_limit():
    arrays = dict(read_arrays(chain(1001))[1])
    arrays["splits"] = np.packbits(np.r_[np.tile([True, False], 1001), False])
    with pytest.raises(Spoiled, match="deeper than 1000"):
        ForestFormat.check(save(arrays, metadata={"output": "mean"}), classes=2, features=5)


@pytest.mark.slow
def test_many_classes_with_shared_leaves_need_little_memory():
    arrays = dict(read_arrays(chain(900))[1])
    classes = 20_000
    arrays["classes"] = np.arange(classes, dtype=np.int32)
    arrays["values"] = np.full((1, classes), 1 / classes)
    data = save(arrays, metadata={"output": "mean"})
    code = """
import resource, sys
from oneballot.formats.forest import ForestFormat
import numpy as np, sklearn.tree
data = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ForestFormat.check(data, classes=20000, features=5)
ForestFormat.load(data, classes=20000).predict_proba(np.zeros((1, 5), np.float32))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True, env=os.environ)
    assert int(done.stdout) < 40_000  # kB; one row of values for each leaf would take 144 MB


def test_a_partys_forest_is_asked_without_starting_the_sandbox():
    X = rows()
    model = train_sklearn(RandomForestClassifier(5), X, labels(X, range(3)), 3)
    with Sandbox() as sandbox:
        answer = sandbox.ask(as_forest(model), X, classes=3)
        np.testing.assert_array_equal(answer, model.predict_proba(X))
        with pytest.raises(Spoiled, match="the forest model is refused"):
            sandbox.ask(as_forest(model), X[:, 1:], classes=3)
        assert sandbox._worker is None


@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_altered_bytes_are_spoiled_or_give_probabilities(output, changes):
    raw = bytearray(save(FILES[output], metadata={"output": output}))
    for at, value in changes:
        raw[at % len(raw)] = value
    assert_harmless(bytes(raw))


@given(st.data())
def test_altered_arrays_are_spoiled_or_give_probabilities(data):
    """Arrays of the right types with any numbers."""
    output = data.draw(st.sampled_from(sorted(FILES)))
    arrays = {}
    for name, value in FILES[output].items():
        raw = bytearray(value.tobytes())
        for at in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=2)):
            raw[at] = data.draw(st.integers(0, 255))
        arrays[name] = np.frombuffer(bytes(raw), value.dtype).reshape(value.shape)
    assert_harmless(save(arrays, metadata={"output": output}))


def assert_harmless(data: bytes) -> None:
    try:
        ForestFormat.check(data, classes=2, features=5)
    except Spoiled:
        return
    model: ForestModel = ForestFormat.load(data, classes=2)
    for X in (np.ones((3, 5), np.float32), np.full((1, 5), np.nan), np.full((1, 5), 1e300)):
        chances = model.predict_proba(X)
        assert np.isfinite(chances).all()
        assert np.isfinite(model.scores(X)).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-6)
