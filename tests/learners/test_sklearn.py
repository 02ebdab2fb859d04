"""Every family of scikit-learn classifiers as a learner: described, trained, dumped and loaded."""

import json
import warnings
from dataclasses import asdict

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from oneballot import plugins
from oneballot.errors import DataError, ElectionError, OneBallotWarning
from oneballot.formats.safetensors import ConstantModel
from oneballot.learners.sklearn import Sklearn
from oneballot.types import Task

CLASSES, FEATURES = 4, 5
FAMILIES = [
    (DecisionTreeClassifier(max_depth=4), "DecisionTreeClassifier", {"max_depth": 4}),
    (ExtraTreeClassifier(), "ExtraTreeClassifier", {}),
    (RandomForestClassifier(5, max_features=None), "RandomForestClassifier", {"n_estimators": 5, "max_features": None}),
    (ExtraTreesClassifier(n_estimators=np.int64(5)), "ExtraTreesClassifier", {"n_estimators": 5}),
    (HistGradientBoostingClassifier(max_iter=3), "HistGradientBoostingClassifier", {"max_iter": 3}),
    (
        GradientBoostingClassifier(n_estimators=3, subsample=0.5),
        "GradientBoostingClassifier",
        {"n_estimators": 3, "subsample": 0.5},
    ),
    (LogisticRegression(C=0.5, max_iter=500), "LogisticRegression", {"C": 0.5, "max_iter": 500}),
    (SVC(C=2), "SVC", {"C": 2}),
    (LinearSVC(C=0.1), "LinearSVC", {"C": 0.1}),
    (GaussianNB(), "GaussianNB", {}),
    (MultinomialNB(alpha=0.5), "MultinomialNB", {"alpha": 0.5}),
    (BernoulliNB(binarize=1.5), "BernoulliNB", {"binarize": 1.5}),
    (KNeighborsClassifier(3), "KNeighborsClassifier", {"n_neighbors": 3}),
    (
        MLPClassifier((8, 4), max_iter=50, learning_rate_init=0.05),
        "MLPClassifier",
        {"hidden_layer_sizes": [8, 4], "max_iter": 50, "learning_rate_init": 0.05},
    ),
    (
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3),
        "AdaBoostClassifier",
        {"estimator": {"estimator": "DecisionTreeClassifier", "params": {"max_depth": 2}}, "n_estimators": 3},
    ),
    (RidgeClassifier(alpha=2.0), "RidgeClassifier", {"alpha": 2.0}),
    (
        make_pipeline(StandardScaler(), LogisticRegression()),
        "Pipeline",
        {"steps": [{"estimator": "StandardScaler", "params": {}}, {"estimator": "LogisticRegression", "params": {}}]},
    ),
    (
        make_pipeline(PCA(3), "passthrough", SVC()),
        "Pipeline",
        {"steps": [{"estimator": "PCA", "params": {"n_components": 3}}, {"estimator": "SVC", "params": {}}]},
    ),
    (
        make_pipeline(MinMaxScaler(feature_range=(0, 2)), MultinomialNB()),
        "Pipeline",
        {
            "steps": [
                {"estimator": "MinMaxScaler", "params": {"feature_range": [0, 2]}},
                {"estimator": "MultinomialNB", "params": {}},
            ]
        },
    ),
]
UNWEIGHTED = ("KNeighborsClassifier",)
every_family = pytest.mark.parametrize(("instance", "name", "params"), FAMILIES, ids=lambda v: str(v)[:40])


@pytest.fixture(autouse=True)
def ignore_unconverged():
    """Tiny trainings stop early, and scikit-learn warns about it."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def rows(seen=range(CLASSES), count=80, seed=0):
    rng = np.random.default_rng(seed)
    y = np.asarray(seen)[rng.integers(0, len(seen), count)]
    y[: len(seen)] = seen
    return np.abs(rng.normal(size=(count, FEATURES)) + 3 * np.eye(FEATURES)[y]).astype(np.float32), y


def task(which, y, **settings):
    which = np.asarray(which, dtype=np.int64)
    return Task(which, y[which], **{"ask": np.arange(len(y)), **settings})


def loaded(model, classes=CLASSES):
    blob = model.dump()
    form = plugins.find("formats", blob.format)
    form.check(blob.data, classes=classes, features=FEATURES)
    return form.load(blob.data, classes=classes)


@every_family
def test_an_instance_and_its_name_with_parameters_describe_the_same_learner(instance, name, params):
    described = Sklearn(instance)
    assert described.estimator == name
    assert described.params == params
    assert described == Sklearn(name, params)
    described.check()


@every_family
def test_settings_survive_a_json_round_trip(instance, name, params):
    learner = Sklearn(instance)
    assert Sklearn(**asdict(learner)) == learner
    assert Sklearn(**json.loads(json.dumps(asdict(learner)))) == learner


@every_family
def test_a_family_trains_without_some_classes_and_predicts_the_same_after_loading(instance, name, params):
    X, y = rows()
    some = np.flatnonzero((y == 1) | (y == 3))
    tasks = [task(range(len(y)), y, seed=7), task(some, y, seed=7), task(range(len(y)), y, seed=7)]
    models = Sklearn(name, params).fit_many(X, tasks, CLASSES)
    everything, two, again = models.predictions()
    assert everything.shape == (len(y), CLASSES)
    np.testing.assert_allclose(everything.sum(axis=1), 1, atol=1e-6)
    assert (everything.argmax(axis=1) == y).mean() > 0.6
    assert not two[:, [0, 2]].any()
    np.testing.assert_array_equal(everything, again)
    for i, answer in enumerate((everything, two)):
        assert not isinstance(models[i], ConstantModel)
        np.testing.assert_array_equal(loaded(models[i]).predict_proba(X), answer)
        np.testing.assert_array_equal(loaded(models[i]).scores(X), models[i].scores(X))


@every_family
def test_images_give_the_same_predictions_as_flat_rows(instance, name, params):
    X, y = rows()
    X = np.concatenate([X, X[:, :1]], axis=1)
    flat = Sklearn(name, params).fit_many(X, [task(range(60), y)], CLASSES).predictions()[0]
    image = Sklearn(name, params).fit_many(X.reshape(-1, 1, 2, 3), [task(range(60), y)], CLASSES).predictions()[0]
    np.testing.assert_array_equal(flat, image)


@every_family
def test_a_learner_provides_soft_labels_only_if_its_estimator_takes_weights(instance, name, params):
    X, y = rows()
    learner = Sklearn(instance)
    soft = Task(np.arange(len(y)), np.eye(CLASSES)[y] * 0.7 + 0.3 / CLASSES, "soft", ask=np.arange(9))
    assert ("soft" in learner.provides) == (name not in UNWEIGHTED)
    if "soft" in learner.provides:
        assert learner.fit_many(X, [soft], CLASSES).predictions()[0].shape == (9, CLASSES)
    else:
        with pytest.raises(ElectionError, match="cannot weight its rows"):
            learner.fit_many(X, [soft], CLASSES)


@pytest.mark.parametrize(
    "learner",
    [
        Sklearn("DecisionTreeClassifier", {"max_depth": 3}),
        Sklearn("GaussianNB"),
        Sklearn(make_pipeline(StandardScaler(), LogisticRegression())),
    ],
    ids=str,
)
def test_a_soft_label_counts_as_one_weighted_row_per_class(learner):
    X, y = rows()
    rng = np.random.default_rng(1)
    targets = rng.dirichlet(np.ones(CLASSES), len(y)) * (rng.random((len(y), CLASSES)) < 0.7)
    weight = rng.random(len(y))
    where, label = np.nonzero(targets)
    tasks = [
        Task(np.arange(len(y)), targets, "soft", weight=weight, seed=3, ask=np.arange(len(y))),
        Task(where, label, weight=targets[where, label] * weight[where], seed=3, ask=np.arange(len(y))),
    ]
    soft, hard = learner.fit_many(X, tasks, CLASSES).predictions()
    np.testing.assert_array_equal(soft, hard)


def test_histogram_boosting_takes_missing_values_and_travels_as_a_forest():
    X, y = rows()
    X = X.astype(np.float32)
    X[::3, 0] = np.nan
    learner = Sklearn("HistGradientBoostingClassifier", {"max_iter": 5})
    assert learner.provides == {"probabilities", "scores", "soft"}
    model = learner.fit_many(X, [Task(np.arange(len(y)), y, seed=4)], CLASSES)[0]
    assert model.dump().format == "forest"
    own = HistGradientBoostingClassifier(max_iter=5, random_state=4).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), own.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(model.scores(X), own.decision_function(X), atol=1e-5)


def test_weights_count_as_repeated_rows():
    X, y = rows()
    weight = np.random.default_rng(2).integers(1, 4, len(y))
    asked = np.arange(len(y))
    weighted = Task(asked, y, weight=weight.astype(float), ask=asked)
    repeated = Task(np.repeat(asked, weight), np.repeat(y, weight), ask=asked)
    predictions = Sklearn("GaussianNB").fit_many(X, [weighted, repeated], CLASSES).predictions()
    np.testing.assert_allclose(predictions[0], predictions[1], atol=1e-5)


def test_the_tasks_seed_replaces_a_seed_in_the_parameters():
    X, y = rows()
    tasks = [task(range(60), y, seed=seed) for seed in (1, 1, 2)]
    for learner in (
        Sklearn("RandomForestClassifier", {"n_estimators": 3, "random_state": 9}),
        Sklearn(BaggingClassifier(DecisionTreeClassifier(splitter="random"), n_estimators=2)),
        Sklearn(make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=3))),
    ):
        first, same, other = learner.fit_many(X, tasks, CLASSES).predictions()
        np.testing.assert_array_equal(first, same)
        assert not np.array_equal(first, other)


def test_an_array_parameter_is_written_as_a_list():
    learner = Sklearn(GaussianNB(priors=np.full(4, 0.25)))
    assert learner.params == {"priors": [0.25] * 4}
    X, y = rows()
    assert learner.fit_many(X, [task(range(60), y)], CLASSES).predictions()[0].shape == (80, 4)


def test_given_parameters_replace_those_of_an_instance():
    assert Sklearn(RandomForestClassifier(5), {"n_estimators": 7}).params == {"n_estimators": 7}


@pytest.mark.parametrize(
    ("estimator", "params", "message"),
    [
        ("RandomForrest", {}, r"'RandomForrest' is not supported; .*RandomForestClassifier"),
        ("_BinMapper", {}, "is not supported"),
        ("StandardScaler", {}, "StandardScaler is not a classifier"),
        ("RandomForestClassifier", {"trees": 3}, r"no parameter trees; it has n_estimators, criterion"),
        ("RandomForestClassifier", {"n_estimators": -3}, "'n_estimators' parameter .* Got -3"),
        ("RandomForestClassifier", {"criterion": "jini"}, "'criterion' parameter .* Got 'jini'"),
        ("RandomForestClassifier", 3, r"params: .*dictionary \(got 3\)"),
        (
            "AdaBoostClassifier",
            {"estimator": {"estimator": "SVC", "params": 3}},
            "params of SVC must be names and values",
        ),
        ("AdaBoostClassifier", {"estimator": {"estimator": "Foo"}}, "'Foo' is not supported"),
        ("Pipeline", {}, "params of a Pipeline are steps"),
        ("Pipeline", {"steps": []}, "params of a Pipeline are steps"),
        ("Pipeline", {"steps": ["StandardScaler"]}, "params of a Pipeline are steps"),
        ("Pipeline", {"steps": [{"estimator": "SVC"}], "memory": "x"}, "params of a Pipeline are steps"),
        ("Pipeline", {"steps": [{"estimator": "StandardScaler"}]}, "StandardScaler is not a classifier"),
        ("Pipeline", {"steps": [{"estimator": "SVC", "params": {"c": 1}}]}, r"SVC has no parameter c;"),
    ],
)
def test_an_unknown_name_or_parameter_is_refused_before_training(estimator, params, message):
    with pytest.raises(ElectionError, match=message):
        Sklearn(estimator, params).check()


class Homemade(GaussianNB):
    pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Homemade(), "is not part of scikit-learn.*docs/extending"),
        (
            lambda: VotingClassifier([("a", GaussianNB())]),
            "'VotingClassifier' is not supported; choose one of",
        ),
        (lambda: make_pipeline(ColumnTransformer([]), GaussianNB()), "'ColumnTransformer' is not supported"),
        (lambda: Ridge(), "'Ridge' is not supported"),
        (lambda: SVC(kernel=np.dot), r"SVC\(kernel=.*cannot be written into an election"),
        (lambda: LogisticRegression(class_weight={0: 2.0}), "cannot be written into an election"),
        (lambda: SGDClassifier(loss="huber"), r"SGDClassifier\(loss='huber'\) gives models that cannot be sent"),
        (lambda: make_pipeline(SimpleImputer(add_indicator=True), GaussianNB()), "cannot be sent"),
        (lambda: HistGradientBoostingClassifier(categorical_features=[0]), "cannot be sent"),
    ],
)
def test_an_estimator_without_a_safe_format_is_refused_before_training(make, message):
    with pytest.raises(ElectionError, match=message):
        Sklearn(make()).check()


def test_too_few_rows_for_k_neighbours_give_class_frequencies_and_a_warning_that_names_the_task():
    X, y = rows([0, 1])
    thin = task([0, 1], y, label="clinic-a, teacher 3")
    with pytest.warns(
        OneBallotWarning, match=r"clinic-a, teacher 3 could not learn from 2 rows: .*n_neighbors"
    ) as caught:
        models = Sklearn("KNeighborsClassifier").fit_many(X, [task(range(60), y), thin], CLASSES)
    assert len(caught) == 1
    assert ".." not in str(caught[0].message)
    assert isinstance(models[1], ConstantModel)
    np.testing.assert_array_equal(models.predictions()[1], np.tile([0.5, 0.5, 0, 0], (80, 1)))
    np.testing.assert_array_equal(loaded(models[1]).predict_proba(X), models.predictions()[1])


def test_a_model_that_cannot_predict_is_replaced_even_if_the_task_asks_for_nothing():
    X, y = rows([0, 1])
    with pytest.warns(OneBallotWarning, match="could not learn from 2 rows"):
        models = Sklearn("KNeighborsClassifier").fit_many(X, [task([0, 1], y, ask=None), task(range(60), y)], CLASSES)
    assert models[0].predict_proba(X).shape == (80, CLASSES)


def test_a_required_model_raises_an_error_instead_of_falling_back():
    X, y = rows([0, 1])
    with pytest.raises(DataError, match="b could not learn from 2 rows"):
        Sklearn("KNeighborsClassifier").fit_many(X, [task([0, 1], y, label="b", required=True)], CLASSES)
