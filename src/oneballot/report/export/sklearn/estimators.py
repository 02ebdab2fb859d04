"""Trained models as estimators of scikit-learn, XGBoost or LightGBM that return the names of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from ....formats.forest import ForestModel
from ....formats.lightgbm_text import LightGBMModel
from ....formats.safetensors import ConstantModel
from ....formats.skops import SklearnModel
from ....formats.ubjson import XGBoostModel
from ....models import Model
from ....types import Array, Class
from .trees import forest_estimator

RENAMED = (
    "DecisionTreeClassifier ExtraTreeClassifier RandomForestClassifier ExtraTreesClassifier LogisticRegression "
    "LogisticRegressionCV GaussianNB MultinomialNB BernoulliNB ComplementNB KNeighborsClassifier "
    "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis GradientBoostingClassifier HistGradientBoostingClassifier"
)
"""Estimators that take `classes_` from the outside; others are wrapped in a VotingClassifier of one."""


def native(model: Model, classes: Sequence[Class], features: int) -> Any:
    """The model as an estimator whose `classes_` are the names of the classes it has seen; None if there is none."""
    if isinstance(model, SklearnModel):
        estimator, seen = deepcopy(model.estimator), model.seen
    elif isinstance(model, XGBoostModel) and not model.sparse:
        estimator, seen = _xgboost(model), model.seen
    elif isinstance(model, LightGBMModel):
        estimator, seen = _lightgbm(model, features), model.seen
    elif isinstance(model, ForestModel):
        estimator, seen = forest_estimator(model.trees), model.trees.seen
    elif isinstance(model, ConstantModel):
        estimator, seen = _constant(model, features), np.arange(len(classes))
    else:
        return None
    return _named(estimator, seen, as_names(classes))


def as_names(classes: Sequence[Class]) -> Array:
    """The classes as an array: of text, of integers, or of both."""
    alike = len({type(name) for name in classes}) == 1
    return np.array(list(classes), dtype=None if alike else object)


def _named(estimator: Any, seen: Array, names: Array) -> Any:
    """An estimator of class numbers as one of names."""
    if type(estimator).__name__ in RENAMED.split():
        estimator.classes_ = names[seen]
        return estimator
    from sklearn.ensemble import VotingClassifier
    from sklearn.preprocessing import LabelEncoder
    from sklearn.utils import Bunch

    soft = hasattr(estimator, "predict_proba")
    named = VotingClassifier([("model", estimator)], voting="soft" if soft else "hard")
    named.le_, named.estimators_ = LabelEncoder(), [estimator]
    named.named_estimators_ = Bunch(model=estimator)
    named.le_.classes_ = names[seen] if soft else names  # of votes, the class numbers are positions
    named.classes_ = named.le_.classes_
    return named


def _xgboost(model: XGBoostModel) -> Any:
    import xgboost

    estimator = xgboost.XGBClassifier()
    estimator.load_model(bytearray(model.booster.save_raw("ubj")))
    estimator.n_classes_ = len(model.seen)
    return estimator


def _lightgbm(model: LightGBMModel, features: int) -> Any:
    """LightGBM has no way to make an LGBMClassifier of a Booster; these are the attributes that its `fit` sets."""
    import lightgbm
    from sklearn.preprocessing import LabelEncoder

    estimator = lightgbm.LGBMClassifier()
    estimator._Booster, estimator.fitted_ = model.booster, True
    estimator._n_features = estimator._n_features_in = features
    estimator._n_classes, estimator._classes = len(model.seen), np.arange(len(model.seen))
    estimator._le = LabelEncoder().fit(estimator._classes)
    estimator._objective = "binary" if len(model.seen) == 2 else "multiclass"
    return estimator


def _constant(model: ConstantModel, features: int) -> Any:
    from sklearn.dummy import DummyClassifier

    classes = np.arange(len(model.probabilities))
    rows = np.zeros((len(classes), features))
    return DummyClassifier(strategy="prior").fit(rows, classes, sample_weight=model.probabilities)
