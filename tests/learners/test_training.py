"""Training tasks one by one or in workers gives the same models, also from few rows or one class."""

import itertools
import multiprocessing
from types import SimpleNamespace

import numpy as np
import pytest

from oneballot import plugins
from oneballot.errors import DataError, ElectionError, OneBallotWarning
from oneballot.formats.safetensors import ConstantModel
from oneballot.learners import _training
from oneballot.learners.lightgbm import LightGBM
from oneballot.learners.sklearn import Sklearn
from oneballot.learners.xgboost import XGBoost
from oneballot.runtime.executor import workers
from oneballot.runtime.progress import report_progress_to
from oneballot.types import Task

TREE = Sklearn("DecisionTreeClassifier")


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    return (rng.normal(size=(90, 4)) + y[:, None]).astype(np.float32), y


def test_a_single_class_gives_a_constant_model(data):
    X, y = data
    ones = np.flatnonzero(y == 1)
    models = TREE.fit_many(X, [Task(ones, y[ones], ask=np.arange(7))], 3)
    assert isinstance(models[0], ConstantModel)
    np.testing.assert_array_equal(models.predictions()[0], np.tile([0, 1, 0], (7, 1)))


def test_one_row_gives_its_class_and_no_row_gives_equal_probabilities(data):
    X, y = data
    tasks = [Task(np.arange(count), y[:count], ask=np.arange(7)) for count in (1, 0)]
    one, none = TREE.fit_many(X, tasks, 3).predictions()
    np.testing.assert_array_equal(one, np.tile(np.eye(3)[y[0]], (7, 1)))
    np.testing.assert_array_equal(none, np.full((7, 3), 1 / 3))


def test_soft_labels_of_a_single_class_give_a_constant_model(data):
    X, _ = data
    models = TREE.fit_many(X, [Task(np.arange(5), np.eye(3)[[2] * 5], "soft")], 3)
    assert isinstance(models[0], ConstantModel)


def test_a_task_that_asks_for_nothing_has_no_predictions_and_no_tasks_give_no_models(data):
    X, y = data
    models = TREE.fit_many(X, [Task(np.arange(90), y)], 3)
    assert models.predictions()[0].shape == (0, 3)
    assert models[0].predict_proba(X).shape == (90, 3)
    assert len(TREE.fit_many(X, [], 3)) == 0


@pytest.mark.parametrize("kind", ["scores", "multilabel"])
def test_other_targets_are_refused_with_the_tasks_name(data, kind):
    X, _ = data
    with pytest.raises(DataError, match=f"clinic-b: this learner trains on labels or soft labels, not on {kind}"):
        TREE.fit_many(X, [Task(np.arange(90), np.zeros((90, 3)), kind, label="clinic-b")], 3)


def test_without_keep_only_the_predictions_are_kept(data):
    X, y = data
    kept, dropped = (
        TREE.fit_many(X, [Task(np.arange(60), y[:60], ask=np.arange(90))], 3, keep=keep) for keep in (True, False)
    )
    np.testing.assert_array_equal(kept.predictions()[0], dropped.predictions()[0])
    with pytest.raises(LookupError, match="only its predictions were kept"):
        dropped[0]


def test_a_slice_of_models_has_their_predictions(data):
    X, y = data
    tasks = [Task(np.arange(count), y[:count], ask=np.arange(9)) for count in (20, 40, 60)]
    models = TREE.fit_many(X, tasks, 3)
    assert len(models[1:]) == 2
    np.testing.assert_array_equal(models[1:].predictions()[0], models.predictions()[1])
    np.testing.assert_array_equal(models[1:][1].predict_proba(X[:9]), models.predictions()[2])


@pytest.fixture
def slow_clock(monkeypatch):
    """A clock that runs fast, so that workers are used after the first task."""
    ticks = itertools.count(step=100)
    monkeypatch.setattr(_training, "time", SimpleNamespace(monotonic=lambda: next(ticks)))


@pytest.mark.usefixtures("slow_clock")
@pytest.mark.parametrize(
    ("learner", "count"),
    [
        (Sklearn("DecisionTreeClassifier", {"criterion": "entropy"}), 70),
        (Sklearn("GradientBoostingClassifier", {"n_estimators": 3, "subsample": 0.5}), 5),
        (Sklearn("HistGradientBoostingClassifier", {"max_iter": 3}), 5),
        (Sklearn("LogisticRegression"), 5),
        (Sklearn("SVC"), 5),
        (XGBoost(rounds=3, params={"subsample": 0.5}), 5),
        (LightGBM(rounds=3, params={"bagging_fraction": 0.5, "bagging_freq": 1}), 5),
    ],
    ids=str,
)
def test_the_result_does_not_depend_on_the_number_of_processes(monkeypatch, learner, count):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 200)
    X = (rng.normal(size=(200, 5)) + y[:, None]).astype(np.float32)
    subsets = [rng.permutation(200)[:150] for _ in range(count)]
    tasks = [Task(rows, y[rows], seed=i, ask=np.arange(200)) for i, rows in enumerate(subsets)]
    results = []
    for processes in ("1", "2"):
        monkeypatch.setenv("ONEBALLOT_WORKERS", processes)
        results.append(learner.fit_many(X, tasks, 4))
    assert any("Loky" in type(process).__name__ for process in multiprocessing.active_children())
    for alone, together in zip(results[0].predictions(), results[1].predictions(), strict=True):
        np.testing.assert_array_equal(alone, together)
    for which in (0, count - 1):
        for models in results:
            blob = models[which].dump()
            loaded = plugins.find("formats", blob.format).load(blob.data, classes=4)
            np.testing.assert_array_equal(loaded.predict_proba(X), results[0].predictions()[which])


@pytest.mark.usefixtures("slow_clock")
def test_errors_and_failures_in_workers_are_reported_here(monkeypatch, data):
    X, y = data
    monkeypatch.setenv("ONEBALLOT_WORKERS", "2")
    tasks = [Task(np.arange(60), y[:60], weight=weight) for weight in (None, np.ones(60))]
    with pytest.raises(ElectionError, match="KNeighborsClassifier cannot weight its rows"):
        Sklearn("KNeighborsClassifier").fit_many(X, tasks, 3)
    thin = np.array([np.flatnonzero(y == label)[0] for label in (0, 1)])
    tasks = [tasks[0], Task(thin, y[thin], label="clinic-c, teacher 1")]
    with pytest.warns(OneBallotWarning, match="clinic-c, teacher 1 could not learn from 2 rows"):
        Sklearn("KNeighborsClassifier").fit_many(X, tasks, 3)


def test_training_reports_its_progress(data):
    X, y = data
    seen = []
    with report_progress_to(lambda *step: seen.append(step)):
        TREE.fit_many(X, [Task(np.arange(90), y)] * 2, 3)
    assert seen == [("training DecisionTreeClassifier", done, 2) for done in (0, 1, 2)]


def test_the_number_of_workers_comes_from_joblib_then_the_environment_then_the_machine(monkeypatch):
    import joblib

    monkeypatch.setenv("ONEBALLOT_WORKERS", "3")
    assert workers() == 3
    with joblib.parallel_config(n_jobs=2):
        assert workers() == 2
    monkeypatch.setenv("ONEBALLOT_WORKERS", "")
    assert workers() == joblib.cpu_count()


@pytest.mark.parametrize("wrong", ["many", "0", "-1", "1.5"])
def test_an_invalid_number_of_workers_is_refused(monkeypatch, wrong):
    monkeypatch.setenv("ONEBALLOT_WORKERS", wrong)
    with pytest.raises(
        ElectionError, match=f"ONEBALLOT_WORKERS must be a number of processes, such as 4, not '{wrong}'"
    ):
        workers()


class Recorder:
    """A learner that notes how many threads each of its models may use."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def fit_one(self, X, y, weight, seed, classes):
        self.threads.append(_training.threads_of_a_model())
        return Sklearn("GaussianNB").fit_one(X, y, weight, seed, classes)


@pytest.mark.parametrize(
    ("rows", "count", "expected"), [(1000, 1, 4), (1000, 2, 4), (999, 2, 1), (1000, 8, 1)], ids=str
)
def test_a_few_large_models_are_each_trained_on_all_cores(monkeypatch, rows, count, expected):
    monkeypatch.setenv("ONEBALLOT_WORKERS", "4")
    X, y = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32), np.arange(rows) % 2
    learner = Recorder()
    _training.fit_each(learner, X, [Task(np.arange(rows), y)] * count, 2, True, "models", inside=True)
    assert learner.threads == [expected] * count
    assert _training.threads_of_a_model() == 1, "and not beyond this call"


@pytest.mark.parametrize("weight", [None, np.linspace(0.1, 1, 1200)], ids=["equal", "weighted"])
@pytest.mark.parametrize("estimator", ["RandomForestClassifier", "ExtraTreesClassifier"])
def test_a_forest_is_the_same_on_one_core_and_on_several(monkeypatch, estimator, weight):
    X, y = np.random.default_rng(0).normal(size=(1200, 4)).astype(np.float32), np.arange(1200) % 3
    tasks = [Task(np.arange(1200), y, weight=weight, seed=seed, ask=np.arange(50)) for seed in (0, 1)]
    blobs = []
    for cores in ("1", "4"):
        monkeypatch.setenv("ONEBALLOT_WORKERS", cores)
        models = Sklearn(estimator, {"n_estimators": 10}).fit_many(X, tasks, 3)
        blobs.append([models[i].dump() for i in (0, 1)])
    assert blobs[0] == blobs[1]


def test_workers_start_with_the_first_task_where_rows_are_many(monkeypatch, data):
    X, y = data
    monkeypatch.setenv("ONEBALLOT_WORKERS", "2")
    monkeypatch.setattr(_training, "MANY_ROWS", 100)
    started = []
    monkeypatch.setattr(_training, "run", lambda *arguments, **settings: started.append(arguments[1]) or [])
    list(_training._train_all(Sklearn("GaussianNB"), X, [Task(np.arange(90), y)] * 2, 3, True, False))
    assert len(started[0]) == 2
