"""The engine: implementations, waves, progress, and modules that vmap cannot take."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from oneballot.errors import DataError, ElectionError, OneBallotWarning  # noqa: E402
from oneballot.fleet.models.network import built_in, custom  # noqa: E402
from oneballot.fleet.train import engine, loop  # noqa: E402
from oneballot.fleet.train.chain import is_chain  # noqa: E402
from oneballot.fleet.train.engine import train  # noqa: E402
from oneballot.fleet.train.job import How, Job  # noqa: E402
from oneballot.fleet.train.probe import why_not_stacked  # noqa: E402
from oneballot.fleet.train.recipe import Recipe  # noqa: E402
from oneballot.fleet.train.schedule import Schedule  # noqa: E402
from oneballot.fleet.train.wave import Wave  # noqa: E402
from oneballot.fleet.train.waves import models_that_fit  # noqa: E402
from oneballot.runtime.progress import report_progress_to  # noqa: E402
from oneballot.types import Array, Task  # noqa: E402

torch.set_num_threads(1)
CLASSES = 3
RECIPE = Recipe(epochs=2, batch=4)


def make_rows(*shape: int, rows: int = 30) -> Array:
    return np.random.default_rng(0).normal(size=(rows, *shape)).astype(np.float32)


def make_tasks(*sizes: int) -> list[Task]:
    rng, tasks = np.random.default_rng(1), []
    for seed, size in enumerate(sizes):
        rows = rng.permutation(30)[:size]
        tasks.append(Task(rows, rng.integers(0, CLASSES, size), seed=seed, ask=np.arange(seed + 1), label=f"m{seed}"))
    return tasks


def same(a: list[dict[str, Array]], b: list[dict[str, Array]]) -> bool:
    return all(np.array_equal(x[key], y[key]) for x, y in zip(a, b, strict=True) for key in x)


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_a_model_is_the_same_bit_by_bit_alone_in_a_fleet_and_with_any_number_of_workers(name: str) -> None:
    X = make_rows(1, 16, 16)
    network, tasks = built_in(name, {}, X.shape[1:], CLASSES), make_tasks(9, 4, 17, 1, 12)
    together = train(network, X, tasks, RECIPE, CLASSES, device="cpu", workers=2)
    assert same(together.values, train(network, X, tasks, RECIPE, CLASSES, device="cpu").values)
    for i, task in enumerate(tasks):
        alone = train(network, X, [task], RECIPE, CLASSES, device="cpu")
        assert same(alone.values, [together.values[i]])
        np.testing.assert_array_equal(alone.logits[0], together.logits[i])
        assert alone.logits[0].shape == (i + 1, CLASSES)


@pytest.mark.parametrize("odd", [np.nan, -np.inf])
@pytest.mark.parametrize(
    ("name", "how", "key"),
    [("mlp", "chain", "bias"), ("mlp", "loop", "bias"), ("resnet8", "stacked", "running_mean")],
    ids=str,
)
def test_models_that_are_not_kept_predict_the_same_and_report_non_finite_parameters(
    name: str, how: How, key: str, odd: float
) -> None:
    X = make_rows(3, 16, 16)
    network, tasks = built_in(name, {}, X.shape[1:], CLASSES), make_tasks(9, 4, 17, 12)
    start = {part: value.copy() for part, value in network.start(1).items()}
    next(value for part, value in start.items() if part.endswith(key)).flat[0] = odd
    tasks[1] = replace(tasks[1], start=start)
    kept, forgotten = (
        train(network, X, tasks, RECIPE, CLASSES, device="cpu", how=how, keep=keep) for keep in (True, False)
    )
    assert not any(forgotten.values)
    assert [all(np.isfinite(value).all() for value in values.values()) for values in kept.values] == kept.finite
    assert kept.finite == forgotten.finite == [True, False, True, True]
    for a, b in zip(kept.logits, forgotten.logits, strict=True):
        np.testing.assert_array_equal(a, b)


def test_tasks_with_several_types_of_targets_are_trained_together() -> None:
    X = make_rows(6)
    soft = Task(np.arange(8), np.random.default_rng(2).dirichlet(np.ones(CLASSES), 8), "soft", seed=9)
    network, tasks = built_in("mlp", {}, (6,), CLASSES), [*make_tasks(9, 4), soft]
    mixed = train(network, X, tasks, RECIPE, CLASSES, device="cpu").values
    assert same(mixed[2:], train(network, X, [soft], RECIPE, CLASSES, device="cpu").values)
    assert same(mixed[:2], train(network, X, tasks[:2], RECIPE, CLASSES, device="cpu").values)


def test_progress_reports_every_epoch_of_every_model() -> None:
    reports: list[tuple[str, int, int]] = []
    X, tasks = make_rows(6), make_tasks(9, 4, 17)
    threads = torch.get_num_threads()
    for how in ("chain", "stacked", "loop"):
        reports.clear()
        with report_progress_to(lambda *what: reports.append(what)):
            train(built_in("mlp", {}, (6,), CLASSES), X, tasks, RECIPE, CLASSES, device="cpu", what="nets", how=how)
        assert reports == [("training 3 nets, epochs", done, 6) for done in range(7)]
    assert torch.get_num_threads() == threads
    with report_progress_to(lambda *what: reports.append(what)):
        train(built_in("mlp", {}, (6,), CLASSES), X, tasks, Recipe(epochs=2, steps=7), CLASSES, device="cpu")
    assert reports[-1] == ("training 3 networks, parts of 7 steps", 6, 6)


def test_waves_have_similar_sizes() -> None:
    network, tasks = built_in("mlp", {}, (6,), CLASSES), make_tasks(3, 9, 1, 7, 5, 8, 2)
    job = Job(network, torch.zeros(30, 6), tasks, RECIPE, CLASSES, "chain", 1)
    waves = job.cut(3)
    assert [[len(tasks[i].rows) for i in wave] for wave in waves] == [[9, 7, 5], [8, 3], [1, 2]]
    assert [[RECIPE.steps_of(len(tasks[i].rows)) for i in wave] for wave in waves] == [[6, 4, 4], [4, 2], [2, 2]]
    assert len(job.cut(100)) == 1
    assert len(job.cut(1)) == 7


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=12), st.integers(1, 9), st.integers(1, 3), st.booleans())
def test_a_schedule_has_each_models_places_however_it_is_split(
    sizes: list[int], length: int, epochs: int, on_gpu: bool
) -> None:
    recipe = Recipe(epochs=epochs, batch=8)
    rng = np.random.default_rng(len(sizes))
    tasks = [Task(rng.permutation(90)[:size], rng.integers(0, CLASSES, size), seed=i) for i, size in enumerate(sizes)]
    tasks.sort(key=lambda task: -recipe.steps_of(len(task.rows)))
    made = Schedule(recipe, tasks, (90, 6), block=1, recorded=on_gpu)
    made.chunk_length = lambda count, step: length  # type: ignore[method-assign]
    step, seen = 0, [list[Array]() for _ in tasks]
    for count, begun, until in made.stages():
        assert begun == step
        assert count == sum(end > begun for end in made.ends)
        for first, last in made.chunks(count, begun, until):
            assert (first, last) == (step, min(step + length, until))
            places, _, _ = made.draw(count, first, last)
            for i in range(count):
                seen[i] += list(places[:, i])
            step = last
    assert step == made.ends[0]
    for task, begin, end, drawn in zip(made.tasks, made.begins[:-1], made.ends, seen, strict=True):
        places = recipe.places(task.seed, len(task.rows), 0, end)
        wanted = np.where(places < 0, made.absent, places + begin)
        np.testing.assert_array_equal(drawn[:end], wanted)
        assert all((rest == made.absent).all() for rest in drawn[end:])


def test_by_steps_neither_waves_nor_schedules_depend_on_the_number_of_rows() -> None:
    """On a GPU rounding may depend on shapes, which therefore must not depend on private data."""
    network, recipe, seen = built_in("mlp", {}, (6,), CLASSES), Recipe(batch=40, steps=3), []
    for sizes in ((3, 9, 1, 7), (30, 1, 2, 29)):
        job = Job(network, torch.zeros(30, 6), make_tasks(*sizes), recipe, CLASSES, "chain", 1)
        wave = Wave(network, job.X, job.tasks, recipe, CLASSES, chain=True)
        seen.append((job.cut(3), wave.order, wave.schedule.ends, wave.schedule.draw(4, 0, 3)[0].shape, wave.block))
    assert seen[0] == seen[1]
    assert seen[0][0] == [[0, 1], [2, 3]]


def test_models_with_few_rows_do_not_depend_on_the_models_beside_them() -> None:
    """Their batches are narrower, and models with batches of different widths are in different waves."""
    X, recipe = make_rows(6, rows=300), Recipe(epochs=2, batch=50_000)
    rng = np.random.default_rng(4)
    tasks = [Task(rng.permutation(300)[:size], rng.integers(0, CLASSES, size), seed=size) for size in (5, 40, 300, 30)]
    network = built_in("mlp", {}, (6,), CLASSES)
    job = Job(network, torch.zeros(300, 6), tasks, recipe, CLASSES, "chain", 1)
    assert sorted(map(sorted, job.cut(9))) == [[0, 3], [1], [2]]
    together = train(network, X, tasks, recipe, CLASSES, device="cpu").values
    for i, task in enumerate(tasks):
        assert same(train(network, X, [task], recipe, CLASSES, device="cpu").values, [together[i]])


def test_a_wave_that_does_not_fit_is_halved_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for two models, whatever was planned; each epoch is still reported once."""
    X, tasks = make_rows(6), make_tasks(9, 4, 17, 3, 5, 8, 2, 11)
    network = built_in("mlp", {}, (6,), CLASSES)
    job = Job(network, torch.from_numpy(X), tasks, RECIPE, CLASSES, "chain", 1)
    sizes = []

    def train_wave(self: Any) -> Any:
        sizes.append(len(self.tasks))
        yield 1
        if len(self.tasks) > 2:
            raise torch.OutOfMemoryError("out of memory")
        yield 2 * len(self.tasks) - 1

    with monkeypatch.context() as patch:
        patch.setattr(Wave, "train", train_wave)
        patch.setattr(job, "models_that_fit", lambda: 8)
        patch.setattr(torch.cuda, "empty_cache", lambda: None)
        assert sum(job.on_gpu()) == 16
    assert sizes == [8, 4, 2, 2, 4, 2, 2]
    assert all(job.values)


def test_models_are_trained_one_by_one_if_not_even_two_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def trial() -> None:
        raise torch.OutOfMemoryError("out of memory")

    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)
    assert models_that_fit(torch.device("cuda"), 2, trial) == 1


class Recurrent(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, classes)

    def forward(self, x: Tensor) -> Any:
        return self.out(self.lstm(x.unflatten(1, (-1, 6)))[0][:, -1])


class Attentive(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.out = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Any:
        x = x.unflatten(1, (-1, 6))
        return self.out(self.attention(x, x, x, need_weights=False)[0].mean(1))


class Centred(nn.Module):
    """Looks at other rows of its batch without batch normalisation."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.out = nn.Linear(12, classes)

    def forward(self, x: Tensor) -> Any:
        return self.out(x - x.mean(0))


class Noisy(Centred):
    def forward(self, x: Tensor) -> Any:
        return self.out(x + torch.randn_like(x))


class Branching(Centred):
    def forward(self, x: Tensor) -> Any:
        return self.out(x) if x.sum() > 0 else self.out(-x)


class Wide(Centred):
    def forward(self, x: Tensor) -> Any:
        return self.out(x).unsqueeze(1)


def normalised(classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Dropout(0.4), nn.ReLU(), nn.Linear(8, 7), nn.LayerNorm(7),
        nn.Linear(7, classes),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (normalised, ""),
        (Recurrent, "vmap cannot take this module"),
        (Attentive, "vmap cannot take this module|batching rule"),
        (Centred, "would differ from one alone"),
        (Noisy, "vmap cannot take this module"),
        (Branching, "vmap cannot take this module"),
        (Wide, r"it returns the shape \(5, 1, 3\): expected \(5, 3\)"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_modules_that_vmap_would_get_wrong_or_slow_are_detected(factory: Any, reason: str) -> None:
    import re

    X = torch.from_numpy(make_rows(12))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = why_not_stacked(custom(factory, (12,), CLASSES), X, make_tasks(4)[0], CLASSES)
    assert re.search(reason, result) if reason else not result


@pytest.mark.parametrize("how", ["stacked", "loop"])
def test_a_stacked_custom_module_agrees_with_a_loop(how: Any) -> None:
    X, tasks, network = make_rows(12), make_tasks(9, 4, 1), custom(normalised, (12,), CLASSES)
    assert not is_chain(network.bare)
    sgd = Recipe(epochs=2, batch=4, optimizer="sgd", learning_rate=0.01)
    ours = train(network, X, tasks, sgd, CLASSES, device="cpu", how=how)
    loop = train(network, X, tasks, sgd, CLASSES, device="cpu")
    for a, b in zip(ours.values, loop.values, strict=True):
        for key in a:
            np.testing.assert_allclose(a[key], b[key], atol=1e-5, err_msg=key)
    for a, b in zip(ours.logits, loop.logits, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    assert not np.array_equal(loop.values[0]["0.weight"], loop.values[1]["0.weight"])


def test_on_a_gpu_modules_that_cannot_be_stacked_are_trained_one_by_one_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Elsewhere:
        device = torch.device("cuda")

    monkeypatch.setattr(engine, "why_not_stacked", lambda *_: "it is odd")
    with pytest.warns(OneBallotWarning, match="the 3 models are trained one after the other, which is slow: it is odd"):
        assert engine._choose(custom(Recurrent, (12,), CLASSES), Elsewhere(), make_tasks(1, 1, 1), CLASSES) == "loop"  # type: ignore[arg-type]
    small, large = (built_in("vgg9", {"width": width}, (3, 8, 8), CLASSES) for width in (2, 32))
    assert engine._choose(small, Elsewhere(), [], CLASSES) == "chain"  # type: ignore[arg-type]
    assert engine._choose(large, Elsewhere(), [], CLASSES) == "stacked"  # type: ignore[arg-type]


def sequential(classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, classes))


@pytest.mark.parametrize(
    ("change", "chain"),
    [
        (lambda m: None, True),
        (lambda m: m[1].register_forward_hook(lambda *_: None), False),
        (lambda m: m[1].weight.requires_grad_(False), False),
        (lambda m: m.append(nn.Softmax(1)), False),
        (lambda m: m.append(nn.Linear(3, 3, bias=False)), False),
        (lambda m: m.append(m[2]), False),
        (lambda m: m.insert(1, nn.Conv2d(3, 3, 2, stride=2)), False),
        (lambda m: m.insert(1, nn.MaxPool2d(3)), False),
        (lambda m: m.pop(0), False),
    ],
    ids=["plain", "hook", "frozen", "softmax", "bias", "twice", "stride", "pool", "flat"],
)
def test_only_plain_sequences_of_layers_are_chains(change: Any, chain: bool) -> None:
    module = sequential(CLASSES)
    change(module)
    assert is_chain(module) is chain


def test_processes_train_the_same_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PROCESSES_PAY_OFF", -1.0)
    X, tasks = np.random.default_rng(0).integers(0, 9, (30, 4)).astype(np.int32), make_tasks(9, 4, 6)
    network = built_in("bilstm", {"vocabulary": 9, "hidden": 3}, (4,), CLASSES)
    in_processes = train(network, X, tasks, RECIPE, CLASSES, device="cpu", workers=2)
    here = train(network, X, tasks, RECIPE, CLASSES, device="cpu")
    assert same(in_processes.values, here.values)


def test_other_processes_read_shared_rows_without_a_warning(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rows so large that processes share them as a file, of which torch would warn if it were read-only."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown()  # those that there are print elsewhere
    monkeypatch.setattr(loop, "PROCESSES_PAY_OFF", -1.0)
    monkeypatch.setenv("PYTHONWARNINGS", "always")
    X = np.random.default_rng(0).integers(0, 9, (30, 1000)).astype(np.int32)
    network = built_in("textcnn", {"vocabulary": 9, "dimension": 2, "filters": 1}, (1000,), CLASSES)
    train(network, X, make_tasks(4, 4, 4), RECIPE, CLASSES, device="cpu", workers=2)
    get_reusable_executor().shutdown()
    assert "not writable" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (Task(np.arange(0), np.arange(0), label="Ann"), "Ann has no rows"),
        (Task(np.arange(2), np.array([0, 3]), label="Ann"), "Ann: labels must be class numbers from 0 to 2"),
        (Task(np.arange(2), np.array([0, -1]), label="Ann"), "class numbers"),
        (Task(np.arange(2), np.array([0])), "2 rows have 1 targets"),
        (Task(np.arange(2), np.zeros((2, 2)), "soft", label="Ann"), r"Ann: soft of shape \(2, 2\): expected 3"),
        (Task(np.arange(2), np.full((2, 3), np.nan), "scores"), "finite"),
        (Task(np.arange(2), np.arange(2), weight=np.array([0.0, 0.0])), "not all 0"),
        (Task(np.arange(2), np.arange(2), weight=np.array([1.0, -1.0])), "not negative"),
    ],
    ids=range(8),
)
def test_invalid_tasks_are_refused(task: Task, says: str) -> None:
    with pytest.raises(DataError, match=says):
        train(built_in("mlp", {}, (6,), CLASSES), make_rows(6), [task], RECIPE, CLASSES, device="cpu")


def test_invalid_rows_augmentations_and_devices_are_refused() -> None:
    X, tasks = make_rows(6), make_tasks(4)
    with pytest.raises(ElectionError, match="augmentation is for images"):
        train(built_in("mlp", {}, (6,), 3), X, tasks, Recipe(augment=("flip",)), CLASSES, device="cpu")
    small = built_in("mlp", {"shape": [1, 8, 8]}, (64,), 3)
    with pytest.raises(ElectionError, match="images of 8 by 8 pixels are too small for shift: shift needs 14"):
        train(small, make_rows(64), tasks, Recipe(augment=("shift",)), CLASSES, device="cpu")
    for bad in (np.nan, 1e300):
        rows = np.where(np.arange(6) < 3, X.astype(float), bad)
        with pytest.raises(DataError, match="rows hold NaN, infinity, or numbers beyond float32"):
            train(built_in("mlp", {}, (6,), 3), rows, tasks, RECIPE, CLASSES, device="cpu")
    with pytest.raises(DataError, match="token numbers"):
        train(built_in("textcnn", {"vocabulary": 9}, (6,), 3), X, tasks, RECIPE, CLASSES, device="cpu")
    if not torch.cuda.is_available():
        with pytest.raises(ElectionError, match="torch finds no GPU here"):
            train(built_in("mlp", {}, (6,), 3), X, tasks, RECIPE, CLASSES, device="cuda")


def test_an_error_in_a_wave_is_raised_by_train(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> Any:
        yield 0
        raise RuntimeError("broken")

    monkeypatch.setattr(Wave, "train", fail)
    with pytest.raises(RuntimeError, match="broken"):
        train(built_in("mlp", {}, (6,), 3), make_rows(6), make_tasks(4, 5), RECIPE, CLASSES, device="cpu", workers=2)


def test_the_fleet_needs_only_torch_and_numpy() -> None:
    """A GPU machine may have nothing else, and benchmarks run there."""
    program = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"sklearn", "scipy", "pydantic", "joblib", "safetensors", "rich", "skops"}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import oneballot.fleet.train.engine, oneballot.fleet.models.vectors
print(sorted(m for m in sys.modules if m.startswith("oneballot.") and m.count(".") == 1))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours = [f"oneballot.{name}" for name in ("errors", "fleet", "notebook", "runtime", "types")]
    assert done.stdout.strip() == str(ours)


def test_a_start_of_another_network_is_refused() -> None:
    network, other = (built_in("mlp", {"hidden": [size]}, (6,), CLASSES) for size in (5, 4))
    (task,) = make_tasks(9)
    with pytest.raises(DataError, match=r"m0: its start does not fit this network: .*weight"):
        train(network, make_rows(6), [replace(task, start=other.start(0))], RECIPE, CLASSES, device="cpu")
    with pytest.raises(DataError, match="its start does not fit"):
        train(network, make_rows(6), [replace(task, start={})], RECIPE, CLASSES, device="cpu")
