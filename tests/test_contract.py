"""Methods and learners that break the contract are refused with a sentence that says what was expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ElectionError
from oneballot.interfaces import Method
from oneballot.learners.kernel import Kernel
from oneballot.settings import settings
from oneballot.testing import ConformanceError, check_learner, check_method
from oneballot.types import Count, Fit, Plan, Task

RNG = np.random.default_rng(0)
X = RNG.random((90, 4), dtype=np.float32)
Y = (3 * X[:, 0]).astype(int)


@settings
class Constant(Method):
    """Parties send their number of rows; the final model learns the first class everywhere."""

    name: ClassVar[str] = "constant"
    needs: ClassVar[dict[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}
    needs_public: ClassVar[Any] = "rows"
    at_cast: str = ""
    at_tally: str = "final"

    def plan(self, data: Any, ctx: Any) -> Plan:
        return Plan(0, "a number", bytes=8)

    def cast(self, data: Any, ctx: Any) -> Any:
        if self.at_cast:
            yield Fit(self.at_cast, data.X, [Task(np.arange(len(data)), data.y)], len(ctx.classes))
        return {"rows": np.array([len(data)])}

    def count(self, ballot: Any, ctx: Any) -> Count:
        return Count({"rows": ballot.array("rows", np.int64, (1,))})

    def close(self, count: Any, ctx: Any) -> Any:
        task = Task(np.arange(len(ctx.public)), np.zeros(len(ctx.public), dtype=int))
        return (yield Fit(self.at_tally, ctx.public, [task], len(ctx.classes)))[0]


class Scikit(Constant):
    def close(self, count: Any, ctx: Any) -> Any:
        from sklearn.dummy import DummyClassifier

        return DummyClassifier().fit(ctx.public, np.zeros(len(ctx.public)))


class SaysGradients(Kernel):
    provides: ClassVar[frozenset[str]] = Kernel.provides | {"weights", "gradients"}


def simulate(method: Method, learner: Any = None) -> Any:
    election = ob.Election(range(3), X[:30], method=method, learner=learner or ob.Kernel())
    return ob.simulate(election, X[30:], Y[30:], parties=2, split="homogeneous")


def test_a_close_that_returns_no_model_is_refused() -> None:
    assert simulate(Constant()).outcome.model.predict(X[:1]) == [0]
    with pytest.raises(
        TypeError, match=r"`close` of the method constant returned DummyClassifier; return an interfaces"
    ):
        simulate(Scikit())


@pytest.mark.parametrize("method", [Constant(at_cast="teacher"), Constant(at_tally="teacher")])
def test_a_learner_of_an_undeclared_role_is_refused_at_cast_and_at_tally(method: Method) -> None:
    expected = r"method constant requests a learner for the role 'teacher'; the roles in its `needs` are: final"
    with pytest.raises(TypeError, match=expected):
        simulate(method)


@pytest.mark.parametrize("method", [ob.Dense(), ob.DOSFL()])
def test_a_learner_that_only_says_gradients_is_refused_before_training(method: Method) -> None:
    with pytest.raises(ElectionError, match=r"kernel declares them, but is no subclass of .*NetworkLearner.*Use torch"):
        ob.Election(range(3), X[:30], method=method, learner=SaysGradients())


def test_the_suite_reports_a_learner_that_only_says_gradients() -> None:
    with pytest.raises(ConformanceError, match=r"\"gradients\", but the class is no subclass of .*NetworkLearner"):
        check_learner(SaysGradients())


class Scales(Constant):
    def cast(self, data: Any, ctx: Any) -> Any:
        ctx.public[:] *= 0.9
        return (yield from super().cast(data, ctx))


def test_the_suite_reports_a_cast_that_changes_the_public_rows() -> None:
    with pytest.raises(ConformanceError, match="`cast` changes the public rows in place"):
        check_method(Scales())


@dataclass(frozen=True)
class Neither:
    """No outcome, although it has what one has."""

    model: str = "model"

    def dump(self) -> bytes:
        return b""


def test_a_start_is_an_outcome_and_not_what_looks_like_one() -> None:
    network = ob.Torch("mlp", device="cpu")
    with pytest.raises(ElectionError, match="start must be an outcome, or the folder of one, not Neither"):
        ob.Election(range(3), X[:30], method=ob.DOSFL(), learner=network, start=Neither())
