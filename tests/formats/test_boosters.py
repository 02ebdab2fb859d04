"""XGBoost and LightGBM models predict the same bits after loading, and are checked without their libraries."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from oneballot.errors import Spoiled
from oneballot.formats.lightgbm_text import LightGBMModel, LightGBMText
from oneballot.formats.ubjson import UBJSON, XGBoostModel

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

FEATURES = 5
CASES = [([0, 1], 2), (range(10), 10), ([1, 4, 7], 10), ([3, 8], 10)]


def rows(seen, count=300):
    rng = np.random.default_rng(len(seen))
    index = rng.integers(0, len(seen), count)
    X = rng.normal(size=(count, FEATURES)) + index[:, None] / 2
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, index


def train_xgboost(seen, classes, **settings):
    X, index = rows(seen)
    objective = {"objective": "binary:logistic"}
    if len(seen) > 2:
        objective = {"objective": "multi:softprob", "num_class": len(seen)}
    booster = xgboost.train({"max_depth": 3, "nthread": 1, **objective, **settings}, xgboost.DMatrix(X, index), 5)
    return XGBoostModel(booster, np.array(list(seen)), classes)


def train_lightgbm(seen, classes, **settings):
    X, index = rows(seen)
    objective = {"objective": "binary"} if len(seen) == 2 else {"objective": "multiclass", "num_class": len(seen)}
    fixed = {"num_leaves": 7, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train({**fixed, **objective, **settings}, lightgbm.Dataset(X, index), 5)
    return LightGBMModel(booster, np.array(list(seen)), classes)


SETTINGS = [
    (train_xgboost, UBJSON, {}),
    (train_xgboost, UBJSON, {"tree_method": "exact", "gamma": 3.0}),
    (train_xgboost, UBJSON, {"grow_policy": "lossguide", "max_leaves": 8, "subsample": 0.5}),
    (train_xgboost, UBJSON, {"num_parallel_tree": 3, "base_score": 0.5}),
    (train_lightgbm, LightGBMText, {}),
    (train_lightgbm, LightGBMText, {"min_data_in_leaf": 200}),
    (train_lightgbm, LightGBMText, {"extra_trees": True, "zero_as_missing": True}),
]


@pytest.mark.parametrize(("seen", "classes"), CASES, ids=str)
@pytest.mark.parametrize(("train", "form", "settings"), SETTINGS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_booster_predicts_the_same_after_loading(train, form, settings, seen, classes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = train(seen, classes, **settings)
    blob = model.dump()
    form.check(blob.data, classes=classes, features=FEATURES)
    loaded = form.load(blob.data, classes=classes)
    X, _ = rows(seen)
    np.testing.assert_array_equal(model.predict_proba(X), loaded.predict_proba(X))
    np.testing.assert_array_equal(model.scores(X), loaded.scores(X))
    np.testing.assert_allclose(loaded.predict_proba(X).sum(axis=1), 1, atol=1e-6)
    assert loaded.predict_proba(X).shape == (len(X), classes)
    unseen = np.setdiff1d(np.arange(classes), list(seen))
    assert not loaded.predict_proba(X)[:, unseen].any()
    assert (loaded.predict_proba(X).argmax(axis=1) == loaded.scores(X).argmax(axis=1)).all()
    assert blob == loaded.dump()


def test_a_split_that_separates_missing_values_is_accepted():
    X = np.round(rows(range(3))[0], 1).astype(np.float32)
    settings = {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
    index = np.where(np.isnan(X[:, 0]), 2, X[:, 1] > 0).astype(int)
    model = LightGBMModel(lightgbm.train(settings, lightgbm.Dataset(X, index), 5), np.arange(3), 3)
    blob = model.dump()
    assert b"threshold=inf" in blob.data
    LightGBMText.check(blob.data, classes=3, features=FEATURES)
    loaded = LightGBMText.load(blob.data, classes=3)
    np.testing.assert_array_equal(model.predict_proba(X), loaded.predict_proba(X))


def test_predictions_are_those_of_the_library():
    X, _ = rows(range(3))
    booster = train_xgboost(range(3), 3)
    np.testing.assert_array_equal(booster.predict_proba(X), booster.booster.predict(xgboost.DMatrix(X)))
    np.testing.assert_array_equal(
        train_lightgbm([0, 1], 2).predict_proba(X)[:, 1], train_lightgbm([0, 1], 2).booster.predict(X)
    )


def test_a_lightgbm_file_does_not_contain_the_partys_parameters():
    text = train_lightgbm([0, 1], 2).dump().data
    assert text.startswith(b"oneballot classes=0,1\ntree\n")
    assert text.endswith(b"end of trees\n")
    assert b"parameters" not in text


@pytest.mark.parametrize(("train", "form"), [(train_xgboost, UBJSON), (train_lightgbm, LightGBMText)])
def test_wrong_numbers_of_columns_or_classes_are_refused(train, form):
    data = train([0, 3, 5], 6).dump().data
    with pytest.raises(Spoiled, match="expected"):
        form.check(data, classes=6, features=FEATURES + 1)
    with pytest.raises(Spoiled, match="expected numbers from 0 to 4"):
        form.check(data, classes=5, features=FEATURES)
    for other in (b"0,3", b"0,3,3", b"5,3,0", b"0,x,5", b"0,-,5", b"0,3,5,6"):
        altered = data.replace(b"0,3,5", other, 1)
        with pytest.raises(Spoiled):
            form.check(altered, classes=6, features=FEATURES)


def test_other_types_of_boosters_are_refused():
    for settings in ({"booster": "dart"}, {"objective": "reg:squarederror"}):
        with pytest.raises(Spoiled, match="expected"):
            UBJSON.check(train_xgboost([0, 1], 2, **settings).dump().data, classes=2, features=FEATURES)
    for settings in ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, {"linear_tree": True}):
        with pytest.raises(Spoiled, match=r"expected|header|linear"):
            LightGBMText.check(train_lightgbm([0, 1], 2, **settings).dump().data, classes=2, features=FEATURES)


def test_formats_are_imported_without_their_libraries():
    code = """
import sys
for name in ("xgboost", "lightgbm", "skops", "sklearn"):
    sys.modules[name] = None
import oneballot.formats.ubjson, oneballot.formats.lightgbm_text, oneballot.formats.skops, oneballot.formats.safetensors
from oneballot.errors import MissingExtra
for load in (oneballot.formats.ubjson.UBJSON.load, oneballot.formats.lightgbm_text.LightGBMText.load):
    try:
        load(b"", classes=2)
    except MissingExtra as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "oneballot[xgboost]" in done.stdout
    assert "oneballot[lightgbm]" in done.stdout
