"""The scheduler: one call for what many generators ask at the same time, errors to the one that caused them."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ElectionError, Spoiled
from oneballot.interfaces import Method, Work
from oneballot.party.cast import cast_together
from oneballot.runtime.groups import GroupKey, group_key
from oneballot.runtime.scheduler import Job, request, run, run_each, steps_of
from oneballot.server.context import TallyContext
from oneballot.simulation import simulate_parties
from oneballot.types import Ask, Blob, Fit, Plan, Stack, Steps, Task, Together

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 2})
RNG = np.random.default_rng(0)
X = RNG.random((40, 3), dtype=np.float32)
Y = (X[:, 0] > 0.5).astype(int)


def fit(rows: Any = X, y: Any = None, classes: int = 2, **settings: Any) -> Fit:
    y = Y if y is None else y
    return Fit("final", rows, [Task(np.arange(len(y)), y, ask=np.arange(5), **settings)], classes, keep=False)


def job(*requests: Any, learner: Any = TREE, name: str = "") -> Job[list[Any]]:
    """Makes the requests one after the other."""

    def steps() -> Steps[list[Any]]:
        answers = []
        for each in requests:
            answers.append((yield each))
        return answers

    return Job(steps(), lambda role: learner, name)


def results(*jobs: Any) -> list[Any]:
    by_position = dict(run_each(jobs))
    return [by_position[i] for i in range(len(jobs))]


@pytest.fixture
def calls(monkeypatch) -> list[tuple[int, int]]:
    """The numbers of tasks and rows of each call of a learner."""
    calls, fit_many = [], ob.Sklearn.fit_many

    def watch(self, X, tasks, classes, *, keep=True):
        calls.append((len(tasks), len(X)))
        return fit_many(self, X, tasks, classes, keep=keep)

    monkeypatch.setattr(ob.Sklearn, "fit_many", watch)
    return calls


@dataclass(frozen=True)
class Square(Work):
    """A number's square. It fails for negative numbers, and if there are more than `most` at once."""

    number: int
    parity: bool = False
    most: int = 100
    calls: ClassVar[list[list[int]]] = []

    @property
    def key(self) -> Any:
        return self.number % 2 if self.parity else None

    @staticmethod
    def together(learner: Any, works: list[Square]) -> list[int]:
        Square.calls.append([work.number for work in works])
        if len(works) > min(work.most for work in works):
            raise MemoryError("too much at once")
        for work in works:
            if work.number < 0:
                raise ValueError(f"{work.number} is negative")
        return [work.number**2 for work in works]


@pytest.fixture(autouse=True)
def no_calls() -> None:
    Square.calls.clear()


class TestGroups:
    def test_fits_of_equal_learners_are_one_call_and_shared_rows_are_stored_once(self, calls) -> None:
        equal = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 2})
        own = X[:10] + 1
        together = results(job(fit()), job(fit(), learner=equal), job(fit(Stack((own, X)), np.append(Y[:10], Y))))
        assert calls == [(3, 50)]
        alone = [results(job(fit()))[0], results(job(fit(Stack((own, X)), np.append(Y[:10], Y))))[0]]
        for a, b in zip([together[0], together[2]], alone, strict=True):
            np.testing.assert_array_equal(a[0].predictions()[0], b[0].predictions()[0])

    def test_other_learners_shapes_types_and_classes_are_other_calls(self, calls) -> None:
        other = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 1})
        requests = [fit(), fit(X[:, :2]), fit((255 * X).astype(np.uint8)), fit(classes=3)]
        results(*map(job, requests), job(fit(), learner=other), job(fit()))
        assert [tasks for tasks, _ in calls] == [2, 1, 1, 1, 1]

    def test_works_are_grouped_by_class_and_key_in_the_order_of_the_jobs(self) -> None:
        jobs = [job(Square(n, parity=n < 5)) for n in (1, 2, 3, 6, 4)]
        assert results(*jobs) == [[1], [4], [9], [36], [16]]
        assert Square.calls == [[1, 3], [2, 4], [6]]

    def test_each_job_goes_on_only_when_all_are_answered(self) -> None:
        results(job(Square(1), Square(2)), job(Square(3)), job(Square(4), Square(5), Square(6)))
        assert Square.calls == [[1, 3, 4], [2, 5], [6]]

    def test_results_come_as_jobs_end(self) -> None:
        running = run_each([job(Square(1), Square(2)), job(Square(3))])
        assert next(running) == (1, [9])
        assert Square.calls == [[1, 3]]
        assert next(running) == (0, [1, 4])

    def test_jobs_start_others_and_receive_their_results_in_order(self) -> None:
        def outer(numbers: list[int]) -> Steps[int]:
            squares = yield Together([inner(n) for n in numbers])
            none = yield Together([])
            return sum(squares) + len(none)

        def inner(number: int) -> Steps[int]:
            (answer, again) = yield Together([Square(number), steps_of(int)])
            for _ in range(number):  # some take longer
                again = yield Square(number)
            return answer + 0 * again

        assert run(Job(request(Together([outer([3, 1]), outer([2])])), lambda _: None)) == [10, 4]
        assert Square.calls == [[3, 1, 2], [3, 1, 2], [3, 2], [3]]

    def test_thousands_of_nested_jobs_need_no_recursion(self) -> None:
        def nested(depth: int) -> Steps[int]:
            if depth == 0:
                return (yield Square(1))
            return 1 + (yield Together([nested(depth - 1)]))[0]

        assert run(Job(nested(1200), lambda _: None)) == 1201

    def test_a_job_that_requests_nothing_may_return_at_once(self) -> None:
        assert run(steps_of(dict, [("a", 1)])) == {"a": 1}

    def test_a_tally_asks_a_partys_model_in_the_sandbox(self, make_election) -> None:
        (model,) = TREE.fit_many(X, fit().tasks, 2)
        asked = Ask(model.dump(), X[:4], 2)

        def ask(bad: Blob) -> Steps[Any]:
            answers = yield Together([asked, asked])
            with pytest.raises(Spoiled):
                yield Ask(bad, X, 2)
            return answers

        with TallyContext(make_election()) as ctx:
            for answer in run(ctx.job(ask, Blob("skops", b"nothing"))):
                np.testing.assert_array_equal(answer, model.predict_proba(X[:4]))


class TestErrors:
    def test_an_error_goes_to_the_job_that_caused_it(self) -> None:
        def careful(number: int) -> Steps[int]:
            try:
                return (yield Square(number))
            except ValueError:
                return (yield Square(-number))

        assert results(*[Job(careful(n), lambda _: None) for n in (2, -3, 4)]) == [4, 9, 16]
        assert Square.calls == [[2, -3, 4], [2], [-3], [4], [3]]

    def test_a_job_may_end_with_the_error_of_its_last_request(self) -> None:
        def careful() -> Steps[str]:
            try:
                return (yield Square(-1))  # type: ignore[no-any-return]
            except ValueError as error:
                return str(error)

        assert run(Job(careful(), lambda _: None)) == "-1 is negative"

    def test_a_failing_job_ends_those_beside_it_and_its_error_reaches_the_job_that_started_it(self) -> None:
        closed = []

        def child(number: int) -> Steps[int]:
            try:
                return (yield Square(number))
            finally:
                closed.append(number)

        def parent() -> Steps[str]:
            try:
                yield Together([child(-1), child(2), child(3)])
            except ValueError as error:
                return str(error)
            return ""

        assert run(Job(parent(), lambda _: None)) == "-1 is negative"
        assert closed == [-1, 2, 3]
        assert Square.calls == [[-1, 2, 3], [-1]]  # the others are not answered in vain

    def test_requests_that_fail_only_together_are_answered_alone_with_a_warning(self) -> None:
        jobs = [job(Square(n, most=1), learner=None) for n in (2, 3)]
        with pytest.warns(RuntimeWarning, match=r"2 Square requests for the final learner \(NoneType\) .*too much"):
            assert results(*jobs) == [[4], [9]]

    def test_a_wrong_number_of_answers_reaches_every_job_of_the_group_and_no_other(self) -> None:
        class Short(Square):
            @staticmethod
            def together(learner: Any, works: Any) -> Any:
                return works[1:] if len(works) > 1 else None

        class Loses(type(TREE)):  # type: ignore[misc]
            def fit_many(self, X, tasks, classes, *, keep=True):
                return super().fit_many(X, tasks, classes, keep=keep)[1:]

        def answer_or_error(asked: Any) -> Steps[str]:
            try:
                return str((yield asked))
            except TypeError as error:
                return str(error)

        short = "Short.together returned 1 answers for 2 requests"
        jobs = [Job(answer_or_error(each), lambda _: None) for each in (Short(1), Square(2), Short(3))]
        assert results(*jobs) == [short, "4", short]
        none = "Short.together returned NoneType; expected 1 answers"
        assert results(Job(answer_or_error(Short(1)), lambda _: None)) == [none]
        (lost,) = results(Job(answer_or_error(fit()), lambda _: Loses("DecisionTreeClassifier", {"max_depth": 2})))
        assert lost == "fit_many of the learner sklearn returned 0 models for 1 tasks"

    def test_a_task_is_named_by_its_party_and_role_unless_it_has_a_name(self) -> None:
        unknown = np.full(len(Y), 7)
        with pytest.raises(Exception, match="clinic-a, final 1"):
            run(job(fit(y=unknown), name="clinic-a", learner=ob.Torch("mlp", device="cpu", steps=1)))
        with pytest.raises(Exception, match=r"^the last"):
            run(job(fit(y=unknown, label="the last"), learner=ob.Torch("mlp", device="cpu", steps=1)))

    def test_what_is_no_request_is_refused(self) -> None:
        with pytest.raises(TypeError, match="str is not a request; yield one of Fit, Work, Together"):
            run(job("something"))
        with pytest.raises(TypeError, match="Ask is a request at the tally only"):
            run(job(Ask(Blob("skops", b""), X, 2)))
        with pytest.raises(TypeError, match="by a job without learners"):
            run(request(fit()))

    def test_an_interruption_closes_all_generators_the_inner_ones_first(self) -> None:
        closed = []

        def steps(name: str, asked: Any) -> Steps[None]:
            try:
                yield asked
            finally:
                closed.append(name)

        class Interrupted(Square):
            @staticmethod
            def together(learner: Any, works: Any) -> Any:
                raise KeyboardInterrupt

        inner = Together([steps("a", Square(1)), steps("b", Interrupted(2))])
        with pytest.raises(KeyboardInterrupt):
            run(Job(steps("outer", inner), lambda _: None))
        assert closed == ["a", "b", "outer"]


@dataclass(frozen=True)
class Careless(Method):
    """A method that uses global random generators, in two steps."""

    name: ClassVar[str] = "careless"
    needs: ClassVar[dict[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    def plan(self, data: Any, ctx: Any) -> Plan:
        return Plan(1, "draws", None)

    def cast(self, data: Any, ctx: Any) -> Any:
        draws = [random.random(), np.random.random()]
        yield Fit("final", data.X, [Task(np.arange(len(data)), data.y)], 10, keep=False)
        if torch := sys.modules.get("torch"):
            draws += [float(torch.rand(1)), torch.get_num_threads()]
        return {"draws": np.array([*draws, np.random.random()])}

    def count(self, ballot: Any, ctx: Any) -> Any:
        raise NotImplementedError

    def close(self, count: Any, ctx: Any) -> Any:
        raise NotImplementedError


class TestEnvironment:
    def test_global_random_generators_are_seeded_by_election_party_and_step(self, make_election, parties) -> None:
        torch = pytest.importorskip("torch")
        election = make_election(method=Careless())
        before, threads = (random.getstate(), torch.get_rng_state()), torch.get_num_threads()
        together = {ballot.party: ballot.contents["draws"] for ballot in cast_together(election, parties)}
        data = parties["party-2"]
        alone = ob.cast(election, data.X, data.y, party="party-2").contents["draws"]
        np.testing.assert_array_equal(together["party-2"], alone)
        assert len({tuple(draws) for draws in together.values()}) == len(parties)
        assert alone[3] == 1
        other = ob.cast(make_election(method=Careless(), seed=9), data.X, data.y, party="party-2").contents["draws"]
        assert set(alone[:3]).isdisjoint(other[:3])
        assert random.getstate() == before[0]
        assert torch.equal(torch.get_rng_state(), before[1])
        assert torch.get_num_threads() == threads

    def test_torch_is_not_loaded_for_a_simulation_without_it(self) -> None:
        code = (
            "import sys, numpy as np, oneballot as ob; from sklearn.datasets import load_iris; "
            "X, y = load_iris(return_X_y=True); election = ob.Election(range(3), X[::5], learner=ob.Sklearn()); "
            "ob.simulate(election, X, y, parties=3); assert 'torch' not in sys.modules"
        )
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)

    def test_blas_uses_no_more_threads_than_there_are_workers(self, monkeypatch) -> None:
        from threadpoolctl import threadpool_info

        def threads() -> Steps[set[int]]:
            yield Square(1)
            return {library["num_threads"] for library in threadpool_info()}

        before = threadpool_info()
        monkeypatch.setenv("ONEBALLOT_WORKERS", "1")
        assert run(Job(threads(), lambda _: None)) == {1}
        assert threadpool_info() == before


def test_a_simulation_names_the_party_whose_training_fails(make_election, parties, monkeypatch) -> None:
    """All parties' teachers are one call; after an error each party's are trained alone."""
    fit_many = ob.Sklearn.fit_many

    def refuse(self, X, tasks, classes, *, keep=True):
        if bad := [task.label for task in tasks if task.label.startswith("party-3")]:
            raise ElectionError(f"{bad[0]} cannot be trained")
        return fit_many(self, X, tasks, classes, keep=keep)

    monkeypatch.setattr(ob.Sklearn, "fit_many", refuse)
    with pytest.raises(ElectionError, match=r"^party-3, teacher 1 cannot be trained"):
        simulate_parties(make_election(), parties)


def test_learners_whose_settings_are_equal_numbers_of_other_types_are_not_trained_together(calls) -> None:
    forests = [ob.Sklearn("RandomForestClassifier", {"n_estimators": 2, "max_features": n}) for n in (1, 1.0)]
    assert forests[0] == forests[1]
    results(*(job(fit(seed=1), learner=forest) for forest in forests))
    assert [tasks for tasks, _ in calls] == [1, 1]


def test_learners_that_cannot_be_compared_are_answered_apart() -> None:
    class Odd:
        def __bool__(self) -> bool:
            raise RuntimeError("ambiguous, as that of a tensor")

        def __eq__(self, other: object) -> Any:
            return Odd()

        __hash__ = None  # type: ignore[assignment]

    first = ob.Sklearn("DecisionTreeClassifier", {"max_depth": Odd()})
    second = ob.Sklearn("DecisionTreeClassifier", {"max_depth": Odd()})
    assert GroupKey(Fit, first, ()) != GroupKey(Fit, second, ())
    assert GroupKey(Fit, TREE, Odd()) != GroupKey(Fit, TREE, Odd())


def test_bytes_above_floats_do_not_change_the_type_of_other_rows() -> None:
    images = np.zeros((4, 3), dtype=np.uint8)
    mixed = Fit("final", Stack((images, X)), [], 2)
    assert group_key(mixed, TREE) != group_key(Fit("final", images, [], 2), TREE)
    assert group_key(mixed, TREE) == group_key(Fit("final", X, [], 2), TREE)


def test_all_generators_are_closed_even_if_one_fails_to_close() -> None:
    closed = []

    def steps(name: str) -> Steps[None]:
        try:
            yield fit()
        finally:
            closed.append(name)
            raise OSError(f"{name} cannot be closed")

    def failing() -> Steps[None]:
        raise KeyError("x")
        yield

    with pytest.raises(OSError, match="cannot be closed"):
        results(steps("a"), steps("b"), Job(failing()))
    assert sorted(closed) == ["a", "b"]
