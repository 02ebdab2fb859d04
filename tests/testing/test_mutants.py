"""The conformance suites fail, with a readable sentence, on plug-ins that are broken in one way each."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.boxes.folder import SUFFIX
from oneballot.errors import NotFound, OneBallotError
from oneballot.formats.kernel import KernelFormat, KernelModel
from oneballot.interfaces import Box, Format, Learner, Method
from oneballot.runtime.scheduler import steps_of
from oneballot.settings import settings
from oneballot.sparse import is_sparse
from oneballot.testing import ConformanceError, check_box, check_format, check_learner, check_method
from oneballot.testing._data import make_rows
from oneballot.types import Abstain, Blob, Count, Fit, Spending, Task

METHODS: dict[str, tuple[Callable[[], Method], str]] = {}
LEARNERS: dict[str, tuple[Callable[[], Learner], str]] = {}


def sentences(check: Callable[..., None], *arguments: Any, **settings: Any) -> str:
    with pytest.raises(ConformanceError) as caught:
        check(*arguments, **settings)
    for problem in caught.value.problems:
        assert re.fullmatch(r"[A-Z`].*\.", problem, re.DOTALL), problem
        assert problem in str(caught.value)
    return str(caught.value)


def broken(table: dict[str, tuple[Any, str]], sentence: str) -> Callable[[Any], Any]:
    """Register a broken plug-in, by the name of its class, with the sentence that is expected about it."""

    def register(cls: Any) -> Any:
        table[cls.__name__] = (cls, sentence)
        return cls

    return register


@broken(METHODS, r"The array seen holds the exact number of a party's rows, but `counts` does not name it")
class HidesItsCounts(ob.Ensemble):
    counts: ClassVar[tuple[str, ...]] = ()


class SharesSums(ob.Analytic):
    """analytic as it is with two tallies, where influence = "claimed" is chosen."""

    def for_shares(self, level: str) -> Any:
        return replace(self, influence="claimed")


@broken(METHODS, r"an election with two tallies fails at L0: .* this one keeps what each party sends \(ballots, gram")
class KeepsPartiesApart(SharesSums):
    def count(self, ballot: Any, ctx: Any) -> Count:
        counted = super().count(ballot, ctx)
        return Count({}, {ballot.party: counted.sums}) if ctx.shared else counted


@broken(METHODS, r"The total of two tallies differs from the sums of one tally")
class CountsTwiceWhereItIsShared(SharesSums):
    def count(self, ballot: Any, ctx: Any) -> Count:
        counted = super().count(ballot, ctx)
        return Count({name: 2 * value for name, value in counted.sums.items()}) if ctx.shared else counted

    def shared_sums(self, ctx: Any) -> Any:
        return None


@broken(METHODS, r"The outcome of two tallies differs from that of one tally")
class ClosesDifferentlyWhereItIsShared(SharesSums):
    def close(self, count: Count, ctx: Any) -> Any:
        sums = count.sums
        return super().close(Count({**sums, "sums": sums["sums"][:, ::-1]}) if ctx.shared else count, ctx)


@broken(METHODS, r"`why_not_shared` has a reason against two tallies")
class SaysBoth(ob.Analytic):
    why_not_shared: ClassVar[str] = "of no reason"


@broken(METHODS, r'of the kind "no-rows" cannot cast: ValueError was raised \(test_mutants.py, line \d+\): empty')
class FailsWithoutRows(ob.Analytic):
    def cast(self, data: Any, ctx: Any) -> Any:
        if not len(data):
            raise ValueError("empty")
        return super().cast(data, ctx)


@broken(METHODS, r'of the kind "one-class" cannot cast: ZeroDivisionError')
class FailsWithOneClass(ob.Analytic):
    def cast(self, data: Any, ctx: Any) -> Any:
        if len(data) > 1:
            1 // int(np.ptp(data.y))
        return super().cast(data, ctx)


@broken(METHODS, "requests a learner for the role 'finale'.*Add it there")
class RequestsAnUnknownRole(ob.Analytic):
    def close(self, count: Any, ctx: Any) -> Any:
        yield Fit("finale", np.eye(2), [Task(np.arange(2), np.arange(2))], len(ctx.classes))
        return (yield from steps_of(super().close, count, ctx))


@broken(METHODS, r"TypeError was raised .*: `cast` .* returned NoneType")
class ReturnsNothing(ob.Analytic):
    def cast(self, data: Any, ctx: Any) -> Any:
        return None


@broken(METHODS, r"TypeError was raised .*: `close` .* returned ndarray(.|\n)*Also stopped \d+ more checks: TypeError")
class ReturnsNoModel(ob.Analytic):
    def close(self, count: Any, ctx: Any) -> Any:
        return np.zeros(3)


@broken(METHODS, "abstains without a reason")
class AbstainsWithoutAReason(ob.Analytic):
    def cast(self, data: Any, ctx: Any) -> Any:
        if not len(data):
            raise Abstain("")
        return super().cast(data, ctx)


@broken(METHODS, "changes the party's rows or labels in place")
class ChangesRows(ob.Analytic):
    def cast(self, data: Any, ctx: Any) -> Any:
        data.X[:] = data.X / 2
        return super().cast(data, ctx)


@broken(METHODS, "Take random numbers from `ctx.seed` only")
class DrawsUnseededNumbers(ob.Analytic):
    def cast(self, data: Any, ctx: Any) -> Any:
        return super().cast(data.take(np.random.default_rng().permutation(len(data))[: len(data) // 2 + 1]), ctx)


@broken(METHODS, r"`plan` says that party-1 sends 8 bytes, but its ballot carries")
class UnderstatesItsBytes(ob.Analytic):
    def plan(self, data: Any, ctx: Any) -> Any:
        return replace(super().plan(data, ctx), bytes=8)


@broken(METHODS, r"`plan` says that party-1 trains 7 models, but its cast trains 1")
class OverstatesItsModels(ob.Ensemble):
    def plan(self, data: Any, ctx: Any) -> Any:
        return replace(super().plan(data, ctx), models=7)


@broken(METHODS, r"A ballot with 'sums' full of 9223372036854775807 adds more than 2\*\*53 to the sum sums")
class TrustsNumbers(ob.Analytic):
    def count(self, ballot: Any, ctx: Any) -> Any:
        size = self.feature_map(ctx).size
        gram = ballot.array("gram", np.int64, (size * (size + 1) // 2,))
        sums = ballot.array("sums", np.int64, (size, len(ctx.classes)))
        return Count({"gram": gram, "sums": sums, "ballots": np.ones(1, dtype=np.int64)})


@broken(METHODS, r"`count` crashes for a ballot with no contents at all: KeyError")
class TrustsNames(ob.Analytic):
    def count(self, ballot: Any, ctx: Any) -> Any:
        ballot.contents["gram"]
        return super().count(ballot, ctx)


@broken(METHODS, r"A ballot with an unexpected array is counted")
class IgnoresUnexpectedContents(ob.Analytic):
    def count(self, ballot: Any, ctx: Any) -> Any:
        ballot.read_names.update(ballot.contents)
        return super().count(ballot, ctx)


@broken(METHODS, "Ballots in another order give another outcome")
class UsesTheFirstBallot(ob.Ensemble):
    def close(self, count: Any, ctx: Any) -> Any:
        first = next(iter(count.by_party))
        return super().close(Count(by_party={first: count.by_party[first]}), ctx)


@broken(METHODS, "A tally of the same ballot differs after other ballots were tallied. Keep nothing between tallies")
class RemembersParties(ob.Ensemble):
    seen: ClassVar[dict[str, Any]] = {}

    def count(self, ballot: Any, ctx: Any) -> Any:
        self.seen[ballot.party] = ballot.contents
        return super().count(ballot, ctx)

    def close(self, count: Any, ctx: Any) -> Any:
        known = {party: contents for party, contents in self.seen.items() if "hostile" not in party}
        return super().close(Count(by_party={**known, **count.by_party}), ctx)


@broken(METHODS, 'An election without a public set is accepted, and then fails: .*Declare `needs_public = "rows"`')
class HidesItsNeed(ob.FedKD):
    needs_public = "nothing"


@broken(METHODS, "At L2 the ballot of party-1 is sealed without the noise for")
class ForgetsTheNoise(ob.Analytic):
    def cast(self, data: Any, ctx: Any) -> Any:
        return super().cast(data, _Silent(ctx))


class _Silent:
    """A context that releases numbers as they are."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ctx, name)

    def release(self, numbers: Any, *, cell: str) -> Any:
        return numbers


@broken(METHODS, "`levels` has L2, but `spends` declares nothing there")
class DeclaresNoSpending(ob.Analytic):
    def spends(self, *_: Any) -> Spending:
        return Spending()


@broken(METHODS, "At L2 a party without rows abstains .*, which reveals that it has none")
class StandsOut(ob.Analytic):
    def cast(self, data: Any, ctx: Any) -> Any:
        if not len(data):
            raise Abstain("it has no rows")
        return super().cast(data, ctx)


@broken(METHODS, "The setting tags is of type set, which an election file cannot hold")
@settings
class HoldsASet(ob.Analytic):
    tags: Any = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", {1, 2})

    def describe(self) -> dict[str, Any]:
        return {"tags": [1, 2]}


@broken(METHODS, "A cast computes for .* s without reporting progress")
class Silent(ob.Analytic):
    def cast(self, data: Any, ctx: Any) -> Any:
        begin = time.process_time()
        while ctx.party == "party-1" and time.process_time() - begin < 0.2:
            pass
        return super().cast(data, ctx)


@pytest.mark.parametrize("name", METHODS)
def test_a_broken_method_is_reported(name: str) -> None:
    make, sentence = METHODS[name]
    method = make(temperature=0.0) if name == "HidesItsNeed" else make()
    quiet = 0.15 if name == "Silent" else 5.0
    text = sentences(check_method, method, learners=ob.Kernel(ridge=0.01), quiet_seconds=quiet)
    assert re.search(sentence, text), text
    assert text.startswith(f"method {method.name} does not conform")


@broken(LEARNERS, "The learner ignores weights")
class IgnoresWeights(ob.Kernel):
    def fit_many(self, X: Any, tasks: Any, classes: int, *, keep: bool = True) -> Any:
        return super().fit_many(X, [replace(task, weight=None) for task in tasks], classes, keep=keep)


@broken(LEARNERS, "A task with one class only fails: ValueError.*Predict the frequencies of its classes")
class NeedsTwoClasses(ob.Kernel):
    def fit_many(self, X: Any, tasks: Any, classes: int, *, keep: bool = True) -> Any:
        for task in tasks:
            if task.kind == "labels" and len(np.unique(task.targets)) == 1 and len(task.rows) > 1:
                raise ValueError("one class")
        return super().fit_many(X, tasks, classes, keep=keep)


@broken(LEARNERS, "gives other predictions the second time. Take randomness from `task.seed` only")
class DrawsItsOwnNumbers(ob.Kernel):
    def fit_many(self, X: Any, tasks: Any, classes: int, *, keep: bool = True) -> Any:
        gamma = 1 + np.random.default_rng().random()
        return replace(ob.Kernel(), gamma=gamma).fit_many(X, tasks, classes, keep=keep)


@broken(LEARNERS, "gives other predictions if X has more rows. Train on X.task.rows. alone")
class LooksAtOtherRows(ob.Kernel):
    def fit_many(self, X: Any, tasks: Any, classes: int, *, keep: bool = True) -> Any:
        return replace(ob.Kernel(), gamma=float(X.std())).fit_many(X, tasks, classes, keep=keep)


@broken(LEARNERS, "changes X in place")
class ChangesX(ob.Kernel):
    def fit_many(self, X: Any, tasks: Any, classes: int, *, keep: bool = True) -> Any:
        X += 1
        return super().fit_many(X, tasks, classes, keep=keep)


@broken(LEARNERS, r"they have the shape \(40, 2\), not \(40, 3\): one column for each class")
class DropsColumns(ob.Kernel):
    def fit_many(self, X: Any, tasks: Any, classes: int, *, keep: bool = True) -> Any:
        models = super().fit_many(X, tasks, classes, keep=keep)
        cut = [a[:, :2] if 1 not in t.targets[:5] else a for a, t in zip(models.outputs, tasks, strict=True)]
        return replace(models, outputs=cut)


@broken(LEARNERS, "`provides` has weight; expected some of")
class MisspellsWhatItProvides(ob.Kernel):
    provides: ClassVar[frozenset[str]] = frozenset({"probabilities", "scores", "weight"})


@broken(LEARNERS, "Sparse rows give other predictions than the same rows in an array")
class ForgetsZeros(ob.XGBoost):
    def fit_many(self, X: Any, tasks: Any, classes: int, *, keep: bool = True) -> Any:
        return super().fit_many(X * -1 if is_sparse(X) else X, tasks, classes, keep=keep)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_broken_learner_is_reported(name: str) -> None:
    make, sentence = LEARNERS[name]
    if name == "ForgetsZeros":
        pytest.importorskip("xgboost")
    text = sentences(check_learner, make())
    assert re.search(sentence, text), text


class Pickled(KernelFormat):
    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None: ...
    @staticmethod
    def load(data: bytes, *, classes: int) -> Any:
        return pickle.loads(data)  # noqa: S301 - the mistake under test


class Crashes(KernelFormat):
    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        assert data[0] == data[1], "not a model"
        KernelFormat.check(data, classes=classes, features=features)


class Greedy(KernelFormat):
    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        bytearray(2**26)
        KernelFormat.check(data, classes=classes, features=features)


class Loads(KernelFormat):
    predicts = False


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Loads, ["declares `predicts = False`, and `load` returns a model"]),
        (Pickled, ["Loading a model unpickles .*KernelModel", "`check` accepts a pickle"]),
        (Crashes, ["`check` crashes for no bytes: IndexError", "Raise Spoiled with a reason"]),
        (Greedy, [r"`check` allocates 64 MiB for"]),
    ],
)
def test_a_broken_format_is_reported(form: type[Format], expected: list[str]) -> None:
    X, y = make_rows(30)
    model: Any = ob.Kernel().fit_many(X, [Task(np.arange(30), y)], 3)[0]
    if form is Pickled:
        model = Blob("kernel", pickle.dumps(model))
    text = sentences(check_format, form, [model], X, classes=3, mutations=4)
    for sentence in expected:
        assert re.search(sentence, text), text


def test_kernel_models_can_be_pickled_for_the_test_above() -> None:
    assert isinstance(pickle.loads(pickle.dumps(KernelModel)), type)  # noqa: S301


@dataclass
class Files(Box):
    """A folder, written without care."""

    name: ClassVar[str] = "files"
    path: Path

    def __init__(self, path: Any) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def deliver(self, name: str, sealed: bytes) -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / f"{name}{SUFFIX}").write_bytes(sealed)

    def names(self) -> Any:
        if not self.path.is_dir():
            raise NotFound("there is no such box")
        return [(p.name.removesuffix(SUFFIX), p.stat().st_size) for p in self.path.glob(f"*{SUFFIX}")]

    def open(self, name: str) -> Any:
        return (self.path / f"{name}{SUFFIX}").open("rb")


def test_a_careless_box_is_reported(tmp_path: Path) -> None:
    text = sentences(check_box, lambda: Files(tmp_path / "box"))
    for sentence in (
        "The box files is not installed",
        "shows the password",
        "For a ballot that does not exist FileNotFoundError was raised",
        "Another ballot of the same name is accepted. Raise `oneballot.errors.AlreadyCast`",
        "Another ballot of the same name has replaced the first one",
        "Of 6 simultaneous deliveries of one name, 6 succeed; expected exactly one",
    ):
        assert sentence in text, text


class Torn(ob.Folder):
    """Writes a ballot under its final name, in parts."""

    def deliver(self, name: str, sealed: bytes) -> None:
        if name != "slow":
            super().deliver(name, sealed)
            return
        with (self.path / f"{name}{SUFFIX}").open("wb") as file:
            for start in range(0, len(sealed), 2**20):
                file.write(sealed[start : start + 2**20])
                file.flush()
                time.sleep(0.05)


def test_a_box_that_shows_parts_of_ballots_is_reported(tmp_path: Path) -> None:
    assert "A reader sees" in sentences(check_box, lambda: Torn(tmp_path))


def test_what_is_not_a_plug_in_is_refused() -> None:
    for check in (check_method, check_learner, check_box):
        with pytest.raises((TypeError, OneBallotError)):
            check(lambda: 3)
    with pytest.raises(TypeError, match="not an instance"):
        check_format(KernelFormat(), [], np.zeros((1, 2)), classes=2)


def test_the_suites_need_no_test_framework_and_the_product_does_not_import_them() -> None:
    code = (
        "import sys, oneballot.cli, oneballot.simulation; assert 'oneballot.testing' not in sys.modules; "
        "import oneballot.testing, oneballot_lab.testing; assert 'pytest' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
