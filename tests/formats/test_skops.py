"""scikit-learn classifiers predict the same bits after loading from skops files."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from threadpoolctl import threadpool_limits

from oneballot.errors import Spoiled
from oneballot.formats.skops import SklearnModel, Skops

FEATURES = 6
CLASSIFIERS = [
    DecisionTreeClassifier(random_state=0),
    ExtraTreeClassifier(random_state=0),
    RandomForestClassifier(5, random_state=0, n_jobs=2),
    ExtraTreesClassifier(5, random_state=np.random.RandomState(0)),
    GradientBoostingClassifier(n_estimators=3, random_state=0),
    HistGradientBoostingClassifier(max_iter=3),
    HistGradientBoostingClassifier(max_iter=3, early_stopping=True, random_state=0),
    AdaBoostClassifier(n_estimators=3, random_state=0),
    BaggingClassifier(n_estimators=3, max_features=0.5, random_state=0),
    BaggingClassifier(KNeighborsClassifier(3), n_estimators=2, random_state=0),
    BaggingClassifier(SVC(), n_estimators=2, random_state=0),
    AdaBoostClassifier(RandomForestClassifier(2), n_estimators=2, random_state=0),
    LogisticRegression(),
    RidgeClassifier(),
    Perceptron(),
    SGDClassifier(random_state=0),
    SGDClassifier(loss="log_loss", random_state=0),
    SVC(),
    SVC(decision_function_shape="ovo"),
    NuSVC(nu=0.1),
    LinearSVC(),
    GaussianNB(),
    MultinomialNB(),
    BernoulliNB(binarize=0.5),
    KNeighborsClassifier(),
    KNeighborsClassifier(3, algorithm="brute"),
    KNeighborsClassifier(algorithm="ball_tree", weights="distance", metric="manhattan"),
    MLPClassifier((5,), max_iter=5, random_state=0),
    MLPClassifier((5,), max_iter=5, solver="sgd", early_stopping=True, random_state=0),
    LinearDiscriminantAnalysis(),
    make_pipeline(SimpleImputer(), StandardScaler(), PCA(3), LogisticRegression()),
    make_pipeline(MinMaxScaler(), SVC()),
    make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)),
]


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


def rows(seen, count=200):
    rng = np.random.default_rng(len(seen))
    y = np.asarray(seen)[rng.integers(0, len(seen), count)]
    return np.abs(rng.normal(size=(count, FEATURES)) + y[:, None] / 3), y


def fitted(estimator, seen):
    X, y = rows(seen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


@pytest.mark.parametrize(("seen", "classes"), [([0, 1], 2), (range(10), 10), ([1, 4, 7], 10), ([3, 8], 10)], ids=str)
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)
def test_every_allowed_classifier_predicts_the_same_after_loading(estimator, seen, classes):
    model = SklearnModel(fitted(estimator, seen), classes)
    blob = model.dump()
    Skops.check(blob.data, classes=classes, features=FEATURES)
    loaded = Skops.load(blob.data, classes=classes)
    X, _ = rows(seen, 300)
    before, after = model.predict_proba(X), loaded.predict_proba(X)
    assert blob.format == "skops"
    assert before.shape == (300, classes)
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(model.scores(X), loaded.scores(X))
    np.testing.assert_allclose(after.sum(axis=1), 1)
    unseen = np.setdiff1d(np.arange(classes), seen)
    assert not after[:, unseen].any()
    assert np.isfinite(loaded.scores(X)).all()
    if len(unseen):
        assert (loaded.scores(X)[:, unseen].max() < loaded.scores(X)[:, list(seen)]).all()


def test_a_classifier_without_probabilities_gives_its_predicted_class_the_largest():
    for estimator in (RidgeClassifier(), Perceptron(), LinearSVC(), SVC(decision_function_shape="ovo")):
        for seen in ([2, 5], [0, 3, 4]):
            model = SklearnModel(fitted(estimator, seen), 6)
            X, _ = rows(seen)
            np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), estimator.predict(X))


def test_images_are_flattened():
    X, y = rows([0, 1, 2])
    model = SklearnModel(GaussianNB().fit(X, y), 3)
    np.testing.assert_array_equal(model.predict_proba(X.reshape(-1, 2, 3)), model.predict_proba(X))


def test_dump_does_not_change_the_model():
    model = fitted(KNeighborsClassifier(), [0, 1])
    SklearnModel(model, 2).dump()
    assert model._tree is not None


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(FunctionTransformer(np.exp), GaussianNB()),
        make_pipeline(FunctionTransformer(rows), GaussianNB()),
        KNeighborsClassifier(metric=np.hypot),
        SVC(kernel=np.dot),
        HistGradientBoostingClassifier(categorical_features=[0], max_iter=2),
        StandardScaler(),
    ],
    ids=lambda e: type(e).__name__,
)
def test_models_with_functions_or_of_other_types_are_refused(estimator):
    import skops.io

    X, y = rows([0, 1])
    if not isinstance(estimator, KNeighborsClassifier | SVC) and not hasattr(estimator, "steps"):
        estimator.fit(np.floor(X), y)
    with pytest.raises(Spoiled, match=r"not a part of an ordinary|expected a classifier"):
        Skops.check(skops.io.dumps(estimator), classes=2, features=FEATURES)


def test_wrong_numbers_of_columns_or_classes_are_refused():
    blob = SklearnModel(fitted(GaussianNB(), [0, 5]), 6).dump()
    with pytest.raises(Spoiled, match="6 columns; expected 7"):
        Skops.check(blob.data, classes=6, features=7)
    with pytest.raises(Spoiled, match="from 0 to 4"):
        Skops.load(blob.data, classes=5)


def test_equal_models_give_equal_bytes():
    X, y = np.random.default_rng(0).normal(size=(80, 4)), np.arange(80) % 3
    dumps = []
    for _ in range(2):
        ballast = [object() for _ in range(1000)]
        model = SklearnModel(RandomForestClassifier(5, random_state=0).fit(X, y), 3)
        dumps.append(model.dump())
        del ballast
    assert dumps[0] == dumps[1]


def test_densities_too_small_for_float32_sum_to_one_and_rows_are_independent() -> None:
    digits, y = load_digits(return_X_y=True)
    X, rows = digits[:120].astype(np.float32), digits[900:].astype(np.float32)
    estimator = GaussianNB().fit(X, y[:120])
    assert (np.abs(estimator.predict_proba(rows).sum(axis=1) - 1) > 1e-3).any()
    values = SklearnModel(estimator, 10).predict_proba(rows)
    np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-5)
    one_by_one = np.concatenate([SklearnModel(estimator, 10).predict_proba(row[None]) for row in rows])
    np.testing.assert_allclose(values, one_by_one, atol=1e-4)
