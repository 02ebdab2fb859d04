"""At L2 the shapes that learners work with come from the election alone, and with them the rounding on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.fleet.train.wave import Wave
from oneballot.interfaces import Learner
from oneballot.learners._training import TrainedModels
from oneballot.methods.fedkt.teachers import stand_in
from oneballot.party.cast import cast_together
from oneballot.party.context import PartyContext
from oneballot.types import Array, Data

SUBSETS, CLASSES = 4, 3
RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(30, 5)).astype(np.float32)
X, Y = RNG.normal(size=(60, 5)).astype(np.float32), RNG.integers(CLASSES, size=60)
IDS = np.arange(60).astype(str)
METHODS: dict[str, Any] = {
    "votes": ob.FedKT(subsets=SUBSETS, partitions=2, open_vote="off"),
    "soft votes": ob.FedKT(subsets=SUBSETS, open_vote="off", voting="soft"),
    "open vote": ob.FedKT(subsets=SUBSETS, open_vote="hard"),
    "numbers": ob.FedKD(subsets=SUBSETS, temperature=1.0),
}


@dataclass(frozen=True)
class Recorder(Learner):
    """A learner that notes the shapes of what it is asked to do, and answers every row alike."""

    name: ClassVar[str] = "recorder"
    provides: ClassVar[frozenset[str]] = frozenset({"probabilities", "scores", "soft"})
    seen: list[Any] = field(default_factory=list, compare=False, repr=False)

    def fit_many(self, X: Array, tasks: Any, classes: int, *, keep: bool = True) -> TrainedModels:
        self.seen.append((X.shape[1:], classes, [(len(task.rows) > 0, len(task.ask), task.answer) for task in tasks]))
        return TrainedModels([None] * len(tasks), [np.full((len(task.ask), classes), 1 / classes) for task in tasks])


def election(method: Any, learner: Any) -> ob.Election:
    return ob.Election(
        range(CLASSES), PUBLIC, method, learner, privacy=ob.L2(50.0, stable_ids=True, adjacency="add-remove")
    )


def neighbours(agreed: ob.Election) -> dict[str, Data]:
    """All rows; one subset without rows; one with a single row; rows of one class; one row; none."""
    cell = "subset" if agreed.method.name == "fedkd" else "partition"
    ctx, whole = PartyContext(agreed, "a"), Data(X, Y, IDS)
    path = (cell,) if cell == "subset" else (cell, 0)
    first = ctx.assign_subsets(whole, SUBSETS, *path)[0]
    assert len(first) > 1
    kept = np.setdiff1d(np.arange(60), first)
    rows = {"all": np.arange(60), "empty subset": kept, "one in a subset": np.append(kept, first[0])}
    rows |= {"one class": np.flatnonzero(Y == 0), "one row": first[:1], "none": first[:0]}
    return {name: Data(X[some], Y[some], IDS[some]) for name, some in rows.items()}


@pytest.mark.parametrize("name", METHODS)
def test_a_learner_is_asked_for_the_same_shapes_whatever_rows_there_are(name: str) -> None:
    shapes = {}
    for what, data in neighbours(election(METHODS[name], Recorder())).items():
        learner = Recorder()
        cast_together(election(METHODS[name], learner), {"a": data})
        shapes[what] = learner.seen
        assert all(trains for _, _, tasks in learner.seen for trains, _, _ in tasks), "a teacher without rows"
    assert len(shapes["all"]) == 1
    per_teacher = 2 if name == "open vote" else 1
    partitions = 2 if name == "votes" else 1
    assert len(shapes["all"][0][2]) == SUBSETS * per_teacher * partitions
    assert all(seen == shapes["all"] for seen in shapes.values())


@pytest.mark.parametrize("name", METHODS)
def test_a_fleet_computes_with_the_same_shapes_whatever_rows_there_are(name: str, monkeypatch) -> None:
    """Steps, batches, padding and the number of models of every step of a real training."""
    pytest.importorskip("torch")
    batch, predict, seen = Wave.batch, Wave.predict, []

    def noting_batch(self: Wave, places: Any, moves: Any) -> Any:
        made = batch(self, places, moves)
        seen.append(("step", *[tuple(part.shape) for part in made]))
        return made

    def noting_predict(self: Wave) -> Any:
        made = predict(self)
        seen.append(("predict", len(self.tasks), [each.shape for each in made]))
        return made

    monkeypatch.setattr(Wave, "batch", noting_batch)
    monkeypatch.setattr(Wave, "predict", noting_predict)
    agreed = election(METHODS[name], ob.Torch("mlp", {"hidden": [4]}, steps=3, batch=8, device="cpu"))
    shapes = {}
    for what, data in neighbours(agreed).items():
        seen.clear()
        cast_together(agreed, {"a": data})
        shapes[what] = sorted(map(str, seen))
    assert shapes["all"]
    assert all(each == shapes["all"] for each in shapes.values())


def test_the_vote_of_an_empty_subset_stays_the_public_one() -> None:
    """All teachers of a party without rows vote alike, by a shared seed, and not for what they have trained on."""
    agreed = election(METHODS["votes"], ob.Kernel())
    (ballot,) = cast_together(agreed, {"a": neighbours(agreed)["none"]})
    labels = [kept.argmax(axis=1) for kept, _ in ballot.noised]
    assert all((kept.max(axis=1) == SUBSETS).all() for kept, _ in ballot.noised)
    assert len(labels) == 2
    assert np.array_equal(*labels)
    rows, y = stand_in(7)
    assert (rows.tolist(), y.tolist()) == ([7], [0])
    assert set(labels[0]) == set(range(CLASSES)), "a model of the stand-in would say 0 everywhere"


def test_the_size_of_a_wave_on_a_gpu_does_not_depend_on_a_few_rows() -> None:
    """Memory for one row more, in the rows of the trial, does not change how many models train together."""
    pytest.importorskip("torch")
    from oneballot.fleet.train.waves import steady_size

    gpu = 80e9
    sizes = {steady_size(30e6 + 8 * rows, gpu) for rows in range(0, 200_000, 999)}
    assert sizes == {1024}
    assert steady_size(1e12, gpu) == 1
    assert all(steady_size(each, gpu) * each <= 0.7 * gpu for each in np.geomspace(1e5, 5e10, 50))


def test_at_l0_an_empty_subset_trains_nothing() -> None:
    learner = Recorder()
    agreed = ob.Election(range(CLASSES), PUBLIC, ob.FedKT(subsets=SUBSETS, open_vote="off", students=False), learner)
    cast_together(agreed, {"a": Data(X[:2], Y[:2], IDS[:2])})
    assert len(learner.seen[0][2]) == 2


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("architecture", ["mlp", "cnn"])
def test_on_a_gpu_other_teachers_are_the_same_bit_for_bit(name: str, architecture: str) -> None:
    """One subset loses all its rows but one, or all: the teachers of the others predict the same bits."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA GPU here: the shapes are tested without one above")
    settings = {"hidden": [16]} if architecture == "mlp" else {"shape": [1, 28, 28]}
    width = 5 if architecture == "mlp" else 784
    rng = np.random.default_rng(1)
    public = rng.random((40, width)).astype(np.float32)
    rows, y = rng.random((300, width)).astype(np.float32), rng.integers(CLASSES, size=300)
    ids = np.arange(300).astype(str)
    learner = ob.Torch(architecture, settings, steps=30, batch=16, device="cuda")
    privacy = ob.L2(50.0, stable_ids=True, adjacency="add-remove")
    agreed = ob.Election(range(CLASSES), public, METHODS[name], learner, privacy=privacy)
    path = ("subset",) if name == "numbers" else ("partition", 0)
    first = PartyContext(agreed, "a").assign_subsets(Data(rows, y, ids), SUBSETS, *path)[0]
    some = np.setdiff1d(np.arange(300), first[1:])
    answers = [
        _replies(agreed, Data(rows[kept], y[kept], ids[kept]), path)
        for kept in (np.arange(300), some, np.setdiff1d(np.arange(300), first))
    ]
    assert all(np.array_equal(answers[0][k], other[k]) for other in answers[1:] for k in answers[0])


def _replies(agreed: ob.Election, data: Data, path: tuple[Any, ...]) -> dict[int, Array]:
    """What the teachers of all subsets but the first predict, as whole bits, by position; of the first partition."""
    steps = agreed.method.cast(data, PartyContext(agreed, "a"))
    fit = next(steps)
    stacked = np.concatenate(fit.X.parts)
    models = agreed.learner_of(fit.role).fit_many(stacked, fit.tasks, fit.classes, keep=fit.keep)
    each = 2 if len(fit.tasks) == 2 * SUBSETS and agreed.method.name == "fedkt" and fit.classes > CLASSES else 1
    replies = models.predictions()[: SUBSETS * each]
    return {k: np.ascontiguousarray(reply).view(np.uint64) for k, reply in enumerate(replies) if k >= each}
