"""The kernel learner: its closed forms against hand calculation, brute force and other solvers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

import oneballot as ob
from oneballot.errors import DataError, ElectionError, OneBallotWarning
from oneballot.formats.kernel import KernelFormat
from oneballot.learners._ridge import RIDGES, solve, solve_with_landmarks
from oneballot.types import Task


def rows(n: int = 40, features: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, features)).astype(np.float32)


def fit(learner: ob.Kernel, X: np.ndarray, targets: np.ndarray, classes: int, **task):
    return learner.fit_many(X, [Task(np.arange(len(X)), targets, **task)], classes)[0]


def test_equation_3_by_hand() -> None:
    """Two rows at distance 1 and gamma = ln 2: K = [[1, ½], [½, 1]], so F = (1, 0) has α = (4/3, -2/3)."""
    X, F = np.array([[0.0], [1.0]], np.float32), np.array([[1.0, 0.0], [0.0, 1.0]])
    model = fit(ob.Kernel(gamma=math.log(2), ridge=0, intercept=False), X, F, 2, kind="scores")
    np.testing.assert_allclose(model.coefficients[:, 0], [4 / 3, -2 / 3], rtol=1e-6)
    np.testing.assert_allclose(model.scores(X), F, atol=1e-6)
    # Halfway between the rows both kernels are 2^(-1/4), so the score is (4/3 - 2/3)·2^(-1/4).
    assert model.scores(np.array([[0.5]]))[0, 0] == pytest.approx(2 / 3 * 2**-0.25, rel=1e-5)


def test_equation_3_against_a_brute_force_minimizer() -> None:
    X, F = rows(12, 2), np.random.default_rng(1).random(12)
    K = rbf_kernel(X, gamma=2.0)

    def loss(alpha):
        rest = F - K @ alpha
        return rest @ rest / len(F), -2 * K @ rest / len(F)

    result = minimize(loss, np.zeros(12), jac=True, method="BFGS", options={"gtol": 1e-12, "maxiter": 5000})
    model = fit(ob.Kernel(gamma=2.0, ridge=0, intercept=False), X, np.c_[F, 1 - F], 2, kind="soft")
    ours = model.coefficients[:, 0].astype(float)
    assert loss(ours)[0] <= loss(result.x)[0] + 1e-10
    asked = rows(30, 2, seed=3)
    np.testing.assert_allclose(model.scores(asked)[:, 0], rbf_kernel(asked, X, gamma=2.0) @ result.x, atol=2e-3)


def test_with_repeated_rows_equation_3_has_the_minimum_norm_solution() -> None:
    X = np.repeat(rows(5), 2, axis=0)
    F = np.random.default_rng(1).random((10, 2))
    model = fit(ob.Kernel(gamma=1.0, ridge=0, intercept=False), X, F, 2, kind="scores")
    expected = np.linalg.lstsq(rbf_kernel(X, gamma=1.0), F, rcond=1e-12)[0]
    np.testing.assert_allclose(model.coefficients, expected, atol=1e-4)


def test_without_an_intercept_it_is_kernel_ridge_regression() -> None:
    X, y = rows(), np.arange(40) % 3
    weight = np.random.default_rng(2).uniform(0.5, 2, 40)
    for w in (None, weight):
        scale = 1.0 if w is None else w.mean()
        theirs = KernelRidge(alpha=0.01 * 40 * scale, kernel="rbf", gamma=0.3).fit(X, np.eye(3)[y], w)
        model = fit(ob.Kernel(gamma=0.3, ridge=0.01, intercept=False), X, y, 3, weight=w)
        np.testing.assert_allclose(model.scores(X), theirs.predict(X), atol=1e-5)


def test_with_an_intercept_it_is_the_least_squares_support_vector_machine() -> None:
    """Suykens' linear system: [[0, 1ᵀ], [1, K + nλI]]·[b, α] = [0, y]."""
    X, y = rows(), np.arange(40) % 3
    K = rbf_kernel(X, gamma=0.3) + 40 * 0.01 * np.eye(40)
    system = np.block([[np.zeros((1, 1)), np.ones((1, 40))], [np.ones((40, 1)), K]])
    solution = np.linalg.solve(system, np.r_[np.zeros((1, 3)), np.eye(3)[y]])
    model = fit(ob.Kernel(gamma=0.3, ridge=0.01), X, y, 3)
    np.testing.assert_allclose(model.intercept, solution[0], atol=1e-9)
    np.testing.assert_allclose(model.coefficients, solution[1:], atol=1e-5)
    np.testing.assert_allclose(model.scores(X).sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("landmarks", [True, False])
def test_leave_one_out_errors_match_explicit_refits(intercept: bool, weighted: bool, landmarks: bool) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(25, 2))
    Y = np.eye(2)[(np.sin(2.5 * X[:, 0]) + 0.2 * rng.normal(size=25) > 0).astype(int)]
    K = rbf_kernel(X, gamma=0.5)
    w = rng.uniform(0.3, 2, 25) if weighted else np.ones(25)
    w /= w.mean()
    centres = np.arange(0, 25, 3) if landmarks else np.arange(25)

    def error(ridge: float) -> float:
        total = 0.0
        for i in range(25):
            rest = np.delete(np.arange(25), i)
            use = centres if landmarks else rest
            penalty = 25 * ridge * K[np.ix_(use, use)]  # the penalty of the full problem, without one row
            design = np.c_[K[np.ix_(rest, use)], np.ones(24)] if intercept else K[np.ix_(rest, use)]
            inner = design.T * w[rest] @ design
            inner[: len(use), : len(use)] += penalty
            theta = np.linalg.lstsq(inner, design.T * w[rest] @ Y[rest], rcond=1e-15)[0]
            asked = np.r_[K[i, use], 1] if intercept else K[i, use]
            total += w[i] * ((Y[i] - asked @ theta) ** 2).sum()
        return total

    some = tuple(r for r in RIDGES if r >= 1e-5)
    best = min(some, key=error)
    if landmarks:
        solution = solve_with_landmarks(K[:, centres], K[np.ix_(centres, centres)], Y, w, some, intercept)
    else:
        solution = solve(K, Y, w, some, intercept)
    assert solution.ridge == best
    assert best not in (some[0], some[-1])


def test_all_rows_as_landmarks_give_the_full_solution() -> None:
    X, w = rows(30), np.random.default_rng(0).uniform(0.5, 1.5, 30)
    K, Y = rbf_kernel(X, gamma=1.0), np.eye(3)[np.arange(30) % 3]
    for intercept in (True, False):
        whole = solve(K, Y, w / w.mean(), (1e-2,), intercept)
        parts = solve_with_landmarks(K, K, Y, w / w.mean(), (1e-2,), intercept)
        np.testing.assert_allclose(
            K @ parts.coefficients + parts.intercept, K @ whole.coefficients + whole.intercept, atol=1e-6
        )


def test_landmarks_bound_the_models_size_and_all_rows_are_fitted() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2)).astype(np.float32)
    y = (np.hypot(X[:, 0], X[:, 1]) > 1.2).astype(int)
    small = fit(ob.Kernel(landmarks=25), X, y, 2)
    assert len(small.rows) == 25
    few = ob.Kernel().fit_many(X, [Task(np.arange(25), y[:25])], 2)[0]
    right = [(m.predict_proba(X).argmax(1) == y).mean() for m in (small, few)]
    assert right[0] > max(0.95, right[1])


def test_a_weight_of_two_repeats_a_row_and_a_weight_of_zero_removes_it() -> None:
    X, y = rows(20), np.arange(20) % 2
    twice = np.r_[np.arange(20), np.arange(5)]
    weight = np.r_[np.full(5, 2.0), np.ones(15)]
    learner = ob.Kernel(gamma=0.5, ridge=0.01)
    (a,) = learner.fit_many(X, [Task(twice, y[twice], ask=np.arange(20))], 2).predictions()
    (b,) = learner.fit_many(X, [Task(np.arange(20), y, weight=weight, ask=np.arange(20))], 2).predictions()
    np.testing.assert_allclose(a, b, atol=1e-5)
    none = np.r_[np.ones(15), np.zeros(5)]
    (c,) = learner.fit_many(X, [Task(np.arange(20), y, weight=none, ask=np.arange(20))], 2).predictions()
    (d,) = learner.fit_many(X, [Task(np.arange(15), y[:15], ask=np.arange(20))], 2).predictions()
    np.testing.assert_allclose(c, d, atol=1e-6)


def test_a_soft_label_counts_as_one_weighted_row_per_class() -> None:
    X, soft = rows(15), np.random.default_rng(0).dirichlet(np.ones(3), 15)
    learner = ob.Kernel(gamma=0.5, ridge=0.01)
    at, label = np.divmod(np.arange(45), 3)
    (a,) = learner.fit_many(X, [Task(np.arange(15), soft, "soft", ask=np.arange(15))], 3).predictions()
    (b,) = learner.fit_many(X, [Task(at, label, weight=soft.ravel(), ask=np.arange(15))], 3).predictions()
    np.testing.assert_allclose(a, b, atol=1e-5)


def test_predictions_are_those_of_the_models_and_do_not_depend_on_workers(digits, monkeypatch) -> None:
    tasks = [Task(np.arange(i, i + 20), digits.y[i : i + 20], ask=np.arange(7)) for i in range(200)]
    monkeypatch.setenv("ONEBALLOT_WORKERS", "1")
    alone = ob.Kernel().fit_many(digits.X, tasks, 10)
    monkeypatch.setenv("ONEBALLOT_WORKERS", "2")
    together = ob.Kernel().fit_many(digits.X, tasks, 10)
    for i in range(0, 200, 37):
        assert alone[i].dump() == together[i].dump()
        np.testing.assert_allclose(alone[i].predict_proba(digits.X[:7]), together.predictions()[i])
    with pytest.raises(LookupError):
        ob.Kernel().fit_many(digits.X, tasks[:1], 10, keep=False)[0]


def test_a_single_class_gives_a_constant_and_an_unseen_class_almost_no_probability(digits) -> None:
    zeros = np.flatnonzero(digits.y == 0)
    constant = ob.Kernel().fit_many(digits.X, [Task(zeros, digits.y[zeros])], 10)[0]
    assert len(constant.rows) == 0
    np.testing.assert_allclose(constant.predict_proba(digits.X[:3])[:, 0], 1, atol=0.005)
    few = np.flatnonzero(digits.y < 2)
    two = ob.Kernel().fit_many(digits.X, [Task(few, digits.y[few])], 10)[0]
    assert (two.scores(digits.X)[:, 2:] == 0).all()
    assert (two.predict_proba(digits.X[few]).argmax(1) == digits.y[few]).all()


def test_no_rows_or_huge_values_give_class_frequencies_or_an_error() -> None:
    X, y = rows(6), np.arange(6) % 2
    nothing = Task(np.arange(0), y[:0])
    np.testing.assert_allclose(ob.Kernel().fit_many(X, [nothing], 2)[0].predict_proba(X), 0.5)
    with pytest.raises(DataError, match="the final model has no rows"):
        fit(ob.Kernel(), X[:0], y[:0], 2, required=True, label="the final model")
    with pytest.warns(OneBallotWarning, match="scale its features"):
        model = fit(ob.Kernel(), X * np.float32(1e20), y, 2)
    np.testing.assert_allclose(model.predict_proba(X), 0.5)
    KernelFormat.check(model.dump().data, classes=2, features=3)
    with pytest.raises(DataError, match="scale its features"):
        fit(ob.Kernel(), X * np.float32(1e20), y, 2, required=True)
    with pytest.raises(DataError, match="not on multilabel"):
        fit(ob.Kernel(), X, np.eye(2)[y], 2, kind="multilabel")


def test_features_far_from_zero_lose_no_precision() -> None:
    X, y = rows(30), np.arange(30) % 2
    near = fit(ob.Kernel(ridge=0.01), X, y, 2).scores(X)
    far = fit(ob.Kernel(ridge=0.01), X + np.float32(4096), y, 2).scores(X + np.float32(4096))
    np.testing.assert_allclose(near, far, atol=5e-3)  # 4096 leaves 11 bits after the binary point


@pytest.mark.parametrize("settings", [{"gamma": 0}, {"gamma": "auto"}, {"ridge": -1}, {"landmarks": 0}, {"C": 1}])
def test_settings_out_of_range_are_refused(settings) -> None:
    with pytest.raises(ElectionError, match=f"Kernel: .*{next(iter(settings))}"):
        ob.Kernel(**settings)


def test_an_election_with_kernel_models_is_accurate(make_election, digits, parties) -> None:
    from oneballot.simulation import simulate_parties

    election = make_election(method=ob.FedKT(final_weights="lead"), learner=ob.Kernel())
    assert simulate_parties(election, parties).accuracy(election.data(digits.X_test, digits.y_test)) > 0.9


def test_a_prediction_does_not_depend_on_the_other_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)).astype(np.float32)
    model = fit(ob.Kernel(), X, (X[:, 0] > 0).astype(int), 2)
    odd = np.vstack([X, np.full((1, 5), 1e9, np.float32)])
    np.testing.assert_allclose(model.scores(odd)[:-1], model.scores(X), rtol=1e-9, atol=1e-9)


def test_the_stored_model_keeps_the_precision_of_the_solution() -> None:
    X = np.linspace(0, 1, 400, dtype=np.float32)[:, None]
    model = fit(ob.Kernel(), X, (np.sin(12 * X[:, 0]) > 0).astype(int), 2)
    assert np.abs(model.scores(X)).max() < 3
    assert (model.scores(X).argmax(axis=1) == (np.sin(12 * X[:, 0]) > 0)).mean() > 0.9
