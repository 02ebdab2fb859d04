"""The torch learner: any subset of the classes, the same predictions after loading, and custom modules."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import oneballot as ob  # noqa: E402
from oneballot import plugins  # noqa: E402
from oneballot.election.file import make  # noqa: E402
from oneballot.errors import DataError, ElectionError, OneBallotWarning, Spoiled  # noqa: E402
from oneballot.formats.safetensors import ConstantModel  # noqa: E402
from oneballot.learners._recipes import RECIPES  # noqa: E402
from oneballot.learners.torch import Torch  # noqa: E402
from oneballot.simulation import divide, simulate_parties  # noqa: E402
from oneballot.types import Array, Task  # noqa: E402

torch.set_num_threads(1)
QUICK = Torch("mlp", {"hidden": [16]}, epochs=30, batch=16, learning_rate=0.01, device="cpu")


def rows(seen: list[int], count: int = 120) -> tuple[Array, Array]:
    rng = np.random.default_rng(len(seen))
    y = np.asarray(seen)[rng.integers(0, len(seen), count)]
    centres = np.random.default_rng(9).normal(size=(10, 4)) * 2
    return (rng.normal(size=(count, 4)) + centres[y]).astype(np.float32), y


def small(classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, classes))


@pytest.mark.parametrize(("seen", "classes"), [([0, 1], 2), (list(range(10)), 10), ([3, 7], 10)], ids=str)
def test_a_network_learns_its_classes_and_predicts_the_same_after_loading(seen: list[int], classes: int) -> None:
    X, y = rows(seen)
    everything = np.arange(len(y))
    models = QUICK.fit_many(X, [Task(everything, y, seed=1, ask=everything)], classes)
    (answer,) = models.predictions()
    assert answer.shape == (len(y), classes)
    np.testing.assert_allclose(answer.sum(axis=1), 1, atol=1e-9)
    assert (answer.argmax(axis=1) == y).mean() > 0.8
    blob = models[0].dump()
    form = plugins.find("formats", blob.format)
    form.check(blob.data, classes=classes, features=4)
    loaded = form.load(blob.data, classes=classes)
    np.testing.assert_allclose(loaded.predict_proba(X), answer, atol=1e-6)
    np.testing.assert_array_equal(loaded.scores(X), models[0].scores(X))
    assert loaded.dump() == blob


def test_a_task_can_ask_for_scores_and_models_need_not_be_kept() -> None:
    X, y = rows([0, 1, 2])
    which = np.arange(len(y))
    tasks = [Task(which, y, ask=which, answer="scores"), Task(which, y)]
    models = QUICK.fit_many(X, tasks, 4)
    np.testing.assert_allclose(models.predictions()[0], models[0].scores(X), atol=1e-5)
    assert models.predictions()[1].shape == (0, 4)
    dropped = QUICK.fit_many(X, tasks, 4, keep=False)
    np.testing.assert_array_equal(dropped.predictions()[0], models.predictions()[0])
    with pytest.raises(LookupError, match="keep=False"):
        dropped[0]


def test_tasks_with_few_rows_or_one_class_are_trained() -> None:
    X, y = rows([0, 1, 2])
    asked = np.arange(5)
    two = np.array([np.flatnonzero(y == 0)[0], np.flatnonzero(y == 2)[0]])
    tasks = [Task(which, y[which], ask=asked) for which in (np.flatnonzero(y == 2), two[:1], two[:0], two)]
    models = QUICK.fit_many(X, tasks, 3)
    single, one, none, pair = models.predictions()
    np.testing.assert_array_equal(single, np.tile([0, 0, 1], (5, 1)))
    np.testing.assert_array_equal(one, np.tile([1, 0, 0], (5, 1)))
    np.testing.assert_array_equal(none, np.full((5, 3), 1 / 3))
    assert pair[:, 1].max() < 0.5
    assert [isinstance(models[i], ConstantModel) for i in range(4)] == [True, True, True, False]
    with pytest.raises(DataError, match="the final model has no rows"):
        QUICK.fit_many(X, [Task(two[:0], y[two[:0]], required=True, label="the final model")], 3)


def test_models_depend_on_the_seed_only() -> None:
    X, y = rows([0, 1, 2])
    which = np.arange(len(y))
    models = QUICK.fit_many(X, [Task(which, y, seed=seed, ask=which) for seed in (1, 1, 2)], 3)
    first, same, other = models.predictions()
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
    assert models[0].dump() == models[1].dump()


def test_every_type_of_target_and_weights_can_be_learned() -> None:
    X, y = rows([0, 1, 2])
    which = np.arange(len(y))
    wrong = (y + 1) % 3
    tasks = [
        Task(which, np.eye(3)[y] * 0.9 + 0.1 / 3, "soft", ask=which),
        Task(np.tile(which, 2), np.append(y, wrong), weight=np.repeat([9.0, 1.0], len(y)), ask=which),
        Task(which, np.where(np.eye(3)[y] > 0, 1, -1), "multilabel", ask=which),
        Task(which, np.eye(3)[y] * 5, "scores", ask=which, answer="scores"),
    ]
    for answer in QUICK.fit_many(X, tasks, 3).predictions():
        assert (answer.argmax(axis=1) == y).mean() > 0.8
    labels = QUICK.fit_many(X, tasks, 3).predictions()[2]
    assert abs(labels.sum(axis=1) - 1).max() > 1e-3  # each label has its own probability


def test_a_network_that_diverges_is_reported_and_replaced(recwarn: pytest.WarningsRecorder) -> None:
    X, y = rows([0, 1, 2])
    wild = replace(QUICK, optimizer="sgd", learning_rate=1e9, epochs=3)
    task = Task(np.arange(len(y)), y, ask=np.arange(4), label="Ann's teacher")
    with pytest.warns(OneBallotWarning, match="Ann's teacher could not learn from 120 rows: its weights grew"):
        (answer,) = wild.fit_many(X, [task], 4).predictions()
    np.testing.assert_allclose(answer, np.tile(np.bincount(y, minlength=4) / len(y), (4, 1)))
    with pytest.raises(DataError, match="choose a lower learning_rate"):
        wild.fit_many(X, [replace(task, required=True)], 4)


def test_a_network_with_finite_weights_and_infinite_predictions_has_diverged_too(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Weights of 1e30 are finite; their products are not."""
    X = np.tile(np.float32([1e30, -1e30]), (8, 2))
    task = Task(np.arange(8), np.arange(8) % 2, ask=np.arange(8), label="Ann's teacher")
    (answer,) = replace(QUICK, optimizer="sgd", learning_rate=1e-25, epochs=1).fit_many(X, [task], 2).predictions()
    assert np.isfinite(answer).all()
    assert any("Ann's teacher could not learn" in str(warning.message) for warning in recwarn)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.float64, np.bool_])
def test_rows_of_any_number_type_can_be_learned(dtype: Any) -> None:
    X, y = rows([0, 1])
    which = np.arange(len(y))
    models = QUICK.fit_many((X * 9).astype(dtype), [Task(which, y, ask=which)], 2)
    np.testing.assert_allclose(models[0].predict_proba((X * 9).astype(dtype)), models.predictions()[0], atol=1e-6)


def test_an_in_place_module_does_not_change_the_callers_rows() -> None:
    X, y = rows([0, 1])
    factory = lambda classes: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, classes))  # noqa: E731
    model = Torch(factory, epochs=1, device="cpu").fit_many(X, [Task(np.arange(len(y)), y)], 2)[0]
    before = X.copy()
    model.predict_proba(X)
    np.testing.assert_array_equal(X, before)


def test_flat_and_square_images_train_the_same_network() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 40)
    X = rng.integers(0, 60, (40, 16, 16)).astype(np.uint8)
    X[y == 1, 4:12, 4:12] += 120
    cnn = Torch("cnn", {"channels": [2, 3], "hidden": [8]}, epochs=8, batch=8, learning_rate=0.02, device="cpu")
    which = np.arange(40)
    task = Task(which, y, ask=which)
    square = cnn.fit_many(X, [task], 2)
    flat = replace(cnn, settings={**cnn.settings, "shape": [1, 16, 16]}).fit_many(X.reshape(40, -1), [task], 2)
    np.testing.assert_array_equal(square.predictions()[0], flat.predictions()[0])
    assert square[0].dump() == flat[0].dump()
    assert (square.predictions()[0].argmax(axis=1) == y).mean() > 0.9
    np.testing.assert_allclose(flat[0].predict_proba(X), square.predictions()[0], atol=1e-6)
    with pytest.raises(ElectionError, match="say what they are"):
        cnn.fit_many(X.reshape(40, -1), [task], 2)
    moved = replace(cnn, augment=("shift", "flip")).fit_many(X, [task], 2)
    assert not np.array_equal(moved.predictions()[0], square.predictions()[0])


def test_text_is_learned_with_trained_or_frozen_word_vectors(tmp_path: Path) -> None:
    from oneballot.fleet.models.vectors import read_vectors

    rng = np.random.default_rng(3)
    lines = [f"word{i} {' '.join(f'{v:.3f}' for v in rng.normal(size=6))}" for i in range(20)]
    (tmp_path / "glove.txt").write_text("\n".join([*lines, "good 3 3 3 3 3 3", "bad -3 -3 -3 -3 -3 -3"]) + "\n")
    texts = [f"word{rng.integers(20)} {'good' if i % 2 else 'bad'} word{rng.integers(20)}" for i in range(40)]
    vectors = read_vectors(tmp_path / "glove.txt")
    X, y, which = vectors.encode(texts, 5), np.arange(40) % 2, np.arange(40)
    for embedding in ("trained", "frozen"):
        settings = {"filters": 4, "widths": [1, 2], "embedding": embedding}
        learner = Torch(
            "textcnn",
            settings,
            vectors=str(tmp_path / "glove.txt"),
            epochs=10,
            batch=8,
            learning_rate=0.02,
            device="cpu",
        )
        learner.check()
        models = learner.fit_many(X, [Task(which, y, ask=which)], 2)
        assert (models.predictions()[0].argmax(axis=1) == y).mean() > 0.95
        table = models[0].arrays["embedding.weight"]  # type: ignore[attr-defined]
        assert np.array_equal(table, vectors.table) == (embedding == "frozen")
        blob = models[0].dump()
        form = plugins.find("formats", blob.format)
        form.check(blob.data, classes=2, features=5)
        np.testing.assert_allclose(form.load(blob.data, classes=2).predict_proba(X), models.predictions()[0], atol=1e-6)
        with pytest.raises(DataError, match=r"expected 0 \(padding\) to 23"):
            models[0].predict_proba(X + 23)


def test_a_custom_module_trains_and_predicts_here_and_cannot_be_sent() -> None:
    X, y = rows([0, 1, 2])
    which = np.arange(len(y))
    learner = Torch(small, epochs=30, batch=16, learning_rate=0.01, device="cpu")
    learner.check()
    models = learner.fit_many(X, [Task(which, y, ask=which), Task(which[:9], y[:9])], 3)
    assert (models.predictions()[0].argmax(axis=1) == y).mean() > 0.8
    np.testing.assert_allclose(models[0].predict_proba(X), models.predictions()[0], atol=1e-6)
    with pytest.raises(ElectionError, match=r"the custom module .*small cannot be sent or saved"):
        models[0].dump()
    written = json.loads(json.dumps(asdict(learner)))
    assert written["module"].startswith("own:")
    with pytest.raises(
        ElectionError, match=r"\[learners.all\].*small is a custom module; create this election in Python"
    ):
        make("learners", {"name": "torch", **written}, "election.toml, [learners.all]")


def test_two_lambdas_are_different_modules() -> None:
    one = lambda classes: nn.Linear(4, classes)  # noqa: E731
    other = lambda classes: nn.Sequential(nn.Linear(4, 9), nn.Linear(9, classes))  # noqa: E731
    assert Torch(one) == Torch(one) != Torch(other)


def test_settings_survive_a_json_round_trip() -> None:
    learner = Torch("resnet8", {"width": 4}, augment=("flip", "crop"), optimizer="sgd", steps=7, precision="tf32")
    learner.check()
    written = json.loads(json.dumps(asdict(learner)))
    assert make("learners", {"name": "torch", **written}, "x") == learner


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"module": "mpl"}, "there is no architecture 'mpl'"),
        ({"module": "cnn", "settings": {"depth": 3}}, "cnn has no setting depth"),
        ({"module": "mlp", "augment": ("flip",)}, "augment is for images, but mlp takes numbers"),
        ({"module": "mlp", "vectors": "glove.txt"}, "vectors are for text, but mlp takes numbers"),
        ({"module": small, "settings": {"width": 3}}, "a custom module has no setting width, only shape"),
        ({"module": small, "settings": {"shape": 784}}, "shape must be a list of 1 to 8 whole numbers .*, not 784"),
        (
            {"module": nn.Linear(2, 2)},
            "a function that takes the number of classes and returns a new nn.Module, not Linear",
        ),
        ({"module": 3}, "not int"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_settings_are_refused_before_training(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ElectionError, match=message):
        Torch(**settings).check()


OUT_OF_BOUNDS = [{"epochs": 0}, {"optimizer": "lion"}, {"learning_rate": -1}, {"epoch": 3}, {"augment": ("turn",)}]


@pytest.mark.parametrize("settings", OUT_OF_BOUNDS, ids=str)
def test_settings_out_of_bounds_are_refused_with_our_own_message(settings: dict[str, Any]) -> None:
    with pytest.raises(ElectionError, match=f"Torch: (unknown setting )?{next(iter(settings))}") as caught:
        Torch(**settings)
    assert "http" not in str(caught.value)


def test_a_single_augmentation_can_be_a_string() -> None:
    made = make("learners", {"name": "torch", "module": "cnn", "augment": "flip"}, "x")
    assert made == Torch("cnn", augment=("flip",))


@pytest.mark.parametrize(
    ("learner", "shape", "dtype", "message"),
    [
        (Torch("cnn"), (64,), np.uint8, "say what they are, as in settings"),
        (Torch("cnn"), (1, 8, 8), np.uint8, "images of at least 16 pixels a side"),
        (Torch("mlp", {"shape": [1, 8, 9]}), (64,), np.float32, r"shape = \[1, 8, 9\] does not fit"),
        (Torch("mlp", {"shape": [1, 8, 8]}, augment="shift"), (64,), np.float32, "too small for shift"),
        (Torch("textcnn"), (64,), np.float32, "textcnn: text must be token numbers"),
        (
            Torch("textcnn", {"vocabulary": 2}),
            (64,),
            np.uint8,
            "textcnn: tokens from 0 to .: expected 0 .padding. to 1",
        ),
        (Torch(small, {"shape": [5]}), (4,), np.float32, r"shape = \[5\] does not fit rows of shape \(4,\)"),
        (Torch("textcnn"), (4,), np.uint8, "takes rows of 5 or more token numbers"),
    ],
    ids=range(8),
)
def test_an_election_refuses_rows_that_do_not_fit_its_network(
    learner: Torch, shape: Any, dtype: Any, message: str
) -> None:
    public = (np.random.default_rng(0).random((20, *shape)) * 5).astype(dtype)
    with pytest.raises(ElectionError, match=message):
        ob.Election(classes=[0, 1], public=public, learner=learner)


def test_at_l2_teachers_train_by_steps_and_the_final_model_may_train_by_epochs() -> None:
    X = rows([0, 1])[0]
    private = ob.L2(epsilon=8.0, delta=1e-5)
    with pytest.raises(
        ElectionError, match=r"learner torch: at L2 a teacher trains for a fixed number of steps.* steps = 150"
    ):
        ob.Election(classes=[0, 1], public=X, learner=QUICK, privacy=private)
    by_steps = replace(QUICK, steps=150)
    election = ob.Election(classes=[0, 1], public=X, learner=by_steps, learners={"final": QUICK}, privacy=private)
    with pytest.raises(ElectionError, match="at L2 a teacher trains for a fixed number of steps"):
        election.choose_learners({"teacher": QUICK})


def test_with_steps_a_single_class_is_trained_like_any_other() -> None:
    X, y = rows([0, 1])
    tasks = [
        Task(np.arange(40), y[:40], ask=np.arange(9)),
        Task(np.arange(40), np.zeros(40, dtype=int), ask=np.arange(9)),
    ]
    models = replace(QUICK, steps=150).fit_many(X, tasks, 2)
    assert not isinstance(models[1], ConstantModel)
    assert models.predictions()[1].argmax(axis=1).tolist() == [0] * 9
    assert isinstance(QUICK.fit_many(X, tasks, 2)[1], ConstantModel)


def write_vectors(path: Path, factor: float = 1.0) -> None:
    path.write_text("".join(f"w{i} {i * factor} 1\n" for i in range(8)))


def test_word_vectors_are_found_beside_the_election_and_their_content_is_in_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("ann", "bob", "eve")]
    for folder, factor in zip(folders, (1, 1, 2), strict=True):
        folder.mkdir()
        write_vectors(folder / "glove.txt", factor)
        write_vectors(folder / "words.vec", factor)
    monkeypatch.chdir(tmp_path)
    settings = {"name": "torch", "module": "textcnn", "vectors": "glove.txt"}
    learners = [make("learners", settings, "e.toml", folder) for folder in folders]
    public = np.zeros((4, 9), dtype=np.int32)
    ann, bob, eve = (ob.Election(classes=[0, 1], public=public, learner=learner).digest for learner in learners)
    assert ann == bob != eve
    renamed = replace(learners[0], vectors=str(folders[0] / "words.vec"))
    assert ob.Election(classes=[0, 1], public=public, learner=renamed).digest == ann
    with pytest.raises(ElectionError, match=r"e.toml: none.txt: No such file.*give a file of word vectors"):
        make("learners", {**settings, "vectors": "none.txt"}, "e.toml")
    with pytest.raises(ElectionError, match="a vocabulary of 2 has no words"):
        make("learners", {**settings, "settings": {"vocabulary": 2}}, "e.toml", folders[0])


@pytest.mark.parametrize("module", ["mlp", small])
def test_an_election_with_votes_or_models_in_the_ballots(module: Any) -> None:
    X, y = rows([0, 1, 2], 240)
    learner = replace(QUICK, module=module, settings={} if module is small else QUICK.settings, epochs=15)
    election = ob.Election(
        classes=range(3), public=X[:60], learner=learner, method=ob.FedKT.paper(subsets=2, ballot="votes")
    )
    parties = divide(election.data(X[60:180], y[60:180]), 3, "homogeneous", seed=1)
    simulation = simulate_parties(election, parties)
    assert simulation.accuracy(election.data(X[180:], y[180:])) > 0.8
    alone = ob.cast(election, parties["party-1"].X, parties["party-1"].y, party="party-1")
    assert alone.contents["votes"].tolist() == simulation.ballots[0].contents["votes"].tolist()  # type: ignore[union-attr]
    models = replace(election, method=replace(election.method, ballot="models"))  # type: ignore[type-var]
    if module is small:
        with pytest.raises(ElectionError, match="cannot be sent"):
            simulate_parties(models, parties)
    else:
        sent = simulate_parties(models, parties)
        assert set(sent.ballots[0].contents) == {"model.0", "model.1"}
        assert sent.accuracy(election.data(X[180:], y[180:])) > 0.8


def test_an_mlp_with_an_image_shape_augments_its_images() -> None:
    X = np.random.default_rng(0).integers(0, 255, size=(60, 64), dtype=np.uint8)
    y = np.arange(60) % 2
    asked = np.arange(60)
    learner = Torch("mlp", settings={"shape": [1, 8, 8]}, epochs=2, augment=("flip",), device="cpu")
    learner.check()
    moved, still = (
        replace(learner, augment=a).fit_many(X, [Task(asked, y, ask=asked)], 2).predictions()[0]
        for a in (("flip",), ())
    )
    assert moved.shape == (60, 2)
    assert not np.allclose(moved, still)


def test_a_module_that_workers_cannot_import_is_trained_in_this_process(monkeypatch) -> None:
    """Its module exists in this process alone, as can be true of a user's script.

    This file itself will not do: `python -m pytest` adds the current folder to the path, also in the workers.
    """
    from oneballot.fleet.train import loop

    unknown = ModuleType("known_to_this_process_alone")
    monkeypatch.setitem(sys.modules, unknown.__name__, unknown)
    unknown.small = FunctionType(small.__code__, globals(), "small")
    unknown.small.__module__ = unknown.__name__
    monkeypatch.setattr(loop, "PROCESSES_PAY_OFF", 0.0)
    X, y = rows([0, 1], 60)
    tasks = [Task(np.arange(60), y, seed=i, ask=np.arange(60)) for i in range(3)]
    monkeypatch.setenv("ONEBALLOT_WORKERS", "2")
    with pytest.warns(OneBallotWarning, match="trained in this process only"):
        predictions = replace(QUICK, module=unknown.small, settings={}).fit_many(X, tasks, 2).predictions()
    assert len(predictions) == 3


def test_convnet_chooses_what_is_left_out() -> None:
    chosen = Torch("convnet")
    assert {name: getattr(chosen, name) for name in RECIPES["convnet"]} == dict(RECIPES["convnet"])
    given = Torch("convnet", {"channels": [8, 8, 8]}, None, 3, optimizer="adam", augment=())
    assert (given.epochs, given.optimizer, given.augment) == (3, "adam", ())
    assert given.batch == RECIPES["convnet"]["batch"]
    assert make("learners", {"name": "torch", "module": "convnet", "batch": 16}, "f") == Torch("convnet", batch=16)
    assert replace(chosen, module="cnn").optimizer == "adamw"
    assert Torch("cnn") == Torch("cnn", {}, None, 20, 32, "adam", 1e-3, 0.0, 0.0, ())
    with pytest.raises(ElectionError, match="unknown setting epoch"):
        Torch("convnet", epoch=3)  # type: ignore[call-arg]
    with pytest.raises(ElectionError, match="module: Got multiple values"):
        Torch("convnet", module="cnn")  # type: ignore[misc]


def test_convnet_learns_wherever_a_pattern_is_and_is_checked_as_a_strangers() -> None:
    rng = np.random.default_rng(0)
    y, images = rng.integers(2, size=400), np.zeros((400, 3, 16, 16), dtype=np.uint8)
    for image, upright in zip(images, y, strict=True):
        for down, right in rng.integers(0, 16, (8, 2)):
            along = np.arange(5)
            image[:, (down + along * upright) % 16, (right + along * (1 - upright)) % 16] = 255
    learner = Torch("convnet", {"channels": [8, 8, 16]}, epochs=10, device="cpu")
    learner.check_rows(images)
    models = learner.fit_many(images, [Task(np.arange(300), y[:300], seed=1, ask=np.arange(300, 400))], 2)
    assert (models.predictions()[0].argmax(axis=1) == y[300:]).mean() > 0.9
    blob = models[0].dump()
    form = plugins.find("formats", blob.format)
    form.check(blob.data, classes=2, features=3 * 16 * 16)
    loaded = form.load(blob.data, classes=2).predict_proba(images[300:])
    np.testing.assert_allclose(loaded, models.predictions()[0], atol=1e-5)
    with pytest.raises(Spoiled, match=r"conv2.weight is float32 \(8, 8, 3, 3\); expected float32 \(4, 8, 3, 3\)"):
        form.check(blob.data.replace(b"[8,8,16]", b"[8,4,16]"), classes=2, features=3 * 16 * 16)
