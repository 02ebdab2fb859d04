"""The final model is a scikit-learn classifier and passes scikit-learn's own checks."""

from importlib.util import find_spec
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import oneballot as ob
from oneballot import plugins
from oneballot.election.targets import Classes
from oneballot.formats.safetensors import ConstantModel
from oneballot.server.model import FinalModel

EXPECTED_TO_FAIL: dict[str, str] = {}
"""Checks of scikit-learn that FinalModel does not pass, with the reason: none."""

SKIPPED = {
    "check_array_api_input": "scikit-learn skips it unless SCIPY_ARRAY_API is set before SciPy is imported",
    **({} if find_spec("pandas") else {"check_classifier_data_not_an_array": "scikit-learn skips it without pandas"}),
}

LEARNERS = [
    None,
    ob.Sklearn("DecisionTreeClassifier"),
    ob.Sklearn("LogisticRegression"),
    ob.XGBoost(rounds=10),
    ob.LightGBM(rounds=10, params={"min_data_in_leaf": 2}),
]


def checks():
    for learner in LEARNERS:
        for model, check in estimator_checks_generator(FinalModel(learner)):
            name = getattr(check, "func", check).__name__
            marks = [pytest.mark.xfail(reason=EXPECTED_TO_FAIL[name], strict=True)] if name in EXPECTED_TO_FAIL else []
            family = getattr(learner, "estimator", getattr(learner, "name", "default"))
            yield pytest.param(model, check, name, marks=marks, id=f"{family}-{name}")


@pytest.mark.parametrize(("model", "check", "name"), list(checks()))
def test_scikit_learns_own_check_passes(model, check, name):
    try:
        check(model)
    except SkipTest:
        if name not in SKIPPED:
            raise AssertionError(f"{name} was skipped but is not listed in SKIPPED") from None
        pytest.skip(SKIPPED[name])


@pytest.fixture
def outcome(election, parties, digits):
    ballots = [ob.cast(election, data.X, data.y, party=party) for party, data in parties.items()]
    return ob.tally(election, ballots)


def test_an_outcomes_model_is_a_fitted_classifier_with_the_elections_classes(outcome, election, digits):
    model = outcome.model
    assert is_classifier(model)
    assert list(model.classes_) == list(election.classes)
    assert model.n_features_in_ == digits.X.shape[1]
    assert model.predict_proba(digits.X_test).shape == (len(digits.X_test), 10)
    np.testing.assert_array_equal(
        model.predict(digits.X_test), model.classes_[model.predict_proba(digits.X_test).argmax(axis=1)]
    )
    assert model.score(digits.X_test, digits.y_test) > 0.5


def test_a_clone_is_unfitted_and_its_fit_trains_the_final_learner(outcome, election, digits):
    copy = clone(outcome.model)
    assert copy.learner == election.learner_of("final")
    with pytest.raises(NotFittedError):
        copy.predict(digits.X_test)
    with pytest.raises(NotFittedError):
        copy.dump()
    copy.fit(digits.X, digits.y)
    assert type(copy.model_.estimator).__name__ == "DecisionTreeClassifier"
    assert copy.score(digits.X_test, digits.y_test) > 0.6
    np.testing.assert_array_equal(clone(copy).fit(digits.X, digits.y).predict(digits.X), copy.predict(digits.X))


def test_it_works_in_pipelines_and_cross_validation(outcome, digits):
    model = make_pipeline(StandardScaler(), clone(outcome.model))
    assert cross_val_score(model, digits.X[:400], digits.y[:400], cv=2).min() > 0.4


def test_parameters_can_be_read_and_set(outcome):
    model = clone(outcome.model)
    assert model.get_params()["seed"] == outcome.model.seed
    model.set_params(seed=5, learner=ob.Sklearn("GaussianNB"))
    assert (model.seed, model.learner.estimator) == (5, "GaussianNB")


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 7], [False, True]])
def test_predictions_have_the_type_of_the_labels(labels, digits):
    y = np.asarray(labels)[(digits.y > 4).astype(int)]
    model = FinalModel(ob.Sklearn("GaussianNB")).fit(digits.X, y)
    assert model.predict(digits.X).dtype == y.dtype
    assert set(model.predict(digits.X)) == set(labels)


def test_it_is_dumped_and_loaded_with_the_same_predictions(digits):
    model = FinalModel(ob.Sklearn("GaussianNB")).fit(digits.X, digits.y)
    blob = model.dump()
    loaded = plugins.find("formats", blob.format).load(blob.data, classes=10)
    again = FinalModel().trained(loaded, Classes(range(10)), (64,))
    np.testing.assert_array_equal(again.predict_proba(digits.X), model.predict_proba(digits.X))


def test_images_keep_their_shape_and_another_shape_is_rejected():
    X = np.random.default_rng(0).integers(0, 255, (30, 1, 4, 4)).astype(np.uint8)
    y = np.arange(30) % 2
    model = FinalModel(ob.Sklearn("DecisionTreeClassifier")).fit(X, y)
    assert model.features_ == (1, 4, 4)
    assert model.predict(X).shape == (30,)
    np.testing.assert_array_equal(model.predict(X), model.predict(X.astype(float)))
    with pytest.raises(ValueError, match=r"rows of shape \(1, 4, 5\), but FinalModel is expecting \(1, 4, 4\)"):
        model.predict(np.zeros((2, 1, 4, 5)))


@pytest.mark.parametrize(
    ("dtype", "given", "error"),
    [
        ("uint8", "float32", None),
        ("uint8", "int64", None),
        ("int32", "int64", None),
        ("float32", "int32", None),
        ("float32", "uint8", 'rows are bytes .* pass X.astype\\("float32"\\), or X / 255'),
    ],
)
def test_rows_of_another_type_are_converted_or_rejected(dtype, given, error):
    """A network divides bytes by 255, so an unnoticed change of type would give another image."""
    X, y = np.random.default_rng(0).integers(0, 256, (40, 6)), np.arange(40) % 2
    model = FinalModel(ob.Sklearn("DecisionTreeClassifier")).fit(X.astype(dtype), y)
    assert model.row_dtype_ == dtype
    if error is None:
        np.testing.assert_array_equal(model.predict(X.astype(given)), y)
    else:
        with pytest.raises(ValueError, match=error):
            model.predict(X.astype(given))


@pytest.mark.parametrize("bad", [0.5, -1.0, 256.0])
def test_a_model_of_bytes_rejects_other_numbers(bad):
    model = FinalModel(ob.Sklearn("GaussianNB")).fit(np.arange(40, dtype=np.uint8).reshape(20, 2), np.arange(20) % 2)
    with pytest.raises(ValueError, match="must be bytes, whole numbers from 0 to 255"):
        model.predict(np.array([[1, bad]]))


def test_a_model_trained_elsewhere_can_be_wrapped():
    model = FinalModel().trained(ConstantModel(np.array([0.25, 0.75])), Classes(["no", "yes"]), (3,))
    assert model.predict(np.zeros((2, 3))).tolist() == ["yes", "yes"]
    with pytest.raises(ValueError, match="X has 4 features, but FinalModel is expecting 3"):
        model.predict(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((2, 3), np.nan))


def test_what_is_printed_names_the_learner_that_was_trained_and_no_rows() -> None:
    X = np.random.default_rng(0).random((90, 3)).astype(np.float32)
    simulation = ob.simulate(ob.Election([0, 1], X[:30]), X[30:], (X[30:, 0] > 0.5).astype(int), parties=2)
    printed = repr(simulation.outcome.model)
    assert "ExtraTreesClassifier" in printed
    assert "RandomForestClassifier" not in printed
    assert "party-1" in simulation.parties
    assert "Data(" not in repr(simulation)
