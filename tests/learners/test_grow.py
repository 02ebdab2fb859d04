"""Trees grown without scikit-learn's checks equal scikit-learn's trees, node by node."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import __version__
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from oneballot.formats.skops import SklearnModel, Skops
from oneballot.learners._grow import TESTED, can_grow, grow

MODELS = [
    DecisionTreeClassifier(random_state=3),
    DecisionTreeClassifier(max_depth=4, max_features=0.5, random_state=3),
    DecisionTreeClassifier(max_features="log2", random_state=5),
    RandomForestClassifier(12, random_state=0),
    RandomForestClassifier(7, max_depth=3, max_features=None, random_state=1),
    RandomForestClassifier(7, max_depth=5, max_features=3, random_state=2**31 - 1),
]


def rows(classes: list[int], count: int = 120):
    rng = np.random.default_rng(len(classes))
    y = rng.choice(classes, count)
    X = rng.normal(size=(count, 6)) + y[:, None] * rng.normal(size=6)
    X[:, 0] = np.rint(X[:, 0])
    return X.astype(np.float32), y


def test_the_installed_version_of_scikit_learn_is_supported() -> None:
    assert __version__.rpartition(".")[0] in TESTED


@pytest.mark.parametrize("classes", [[0, 1], [2, 5, 9]], ids=str)
@pytest.mark.parametrize("number", range(len(MODELS)))
def test_a_grown_model_equals_the_fitted_one(number: int, classes: list[int]) -> None:
    from sklearn.base import clone

    X, y = rows(classes)
    fitted, grown = clone(MODELS[number]).fit(X, y), clone(MODELS[number])
    assert can_grow(grown)
    grow(grown, X, y, threads=1 + number % 3)
    for one, other in zip(trees(fitted), trees(grown), strict=True):
        assert one.tree_.node_count == other.tree_.node_count
        for name in ("children_left", "children_right", "feature", "threshold", "n_node_samples", "value"):
            assert np.array_equal(getattr(one.tree_, name), getattr(other.tree_, name)), name
    fresh, _ = rows(classes, 77)
    assert np.array_equal(fitted.predict_proba(fresh), grown.predict_proba(fresh))
    assert np.array_equal(fitted.classes_, grown.classes_)
    loaded = Skops.load(SklearnModel(grown, 10).dump().data, classes=10)
    assert np.array_equal(loaded.predict_proba(fresh), SklearnModel(fitted, 10).predict_proba(fresh))


def trees(model):
    return getattr(model, "estimators_", [model])


@pytest.mark.parametrize(
    "model",
    [
        ExtraTreesClassifier(),
        RandomForestClassifier(class_weight="balanced"),
        RandomForestClassifier(bootstrap=False),
        DecisionTreeClassifier(ccp_alpha=0.1),
        DecisionTreeClassifier(criterion="entropy"),
        DecisionTreeClassifier(max_leaf_nodes=5),
    ],
)
def test_unusual_settings_use_scikit_learns_own_fit(model) -> None:
    assert not can_grow(model)
