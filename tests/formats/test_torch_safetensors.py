"""Networks as safetensors: named architectures with checked settings, and arrays that fit them, or nothing."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

torch = pytest.importorskip("torch")

from oneballot.errors import DataError, Spoiled  # noqa: E402
from oneballot.fleet.models.architectures import ARCHITECTURES, check_settings  # noqa: E402
from oneballot.fleet.models.network import built_in  # noqa: E402
from oneballot.formats.torch_safetensors import Description, TorchModel, TorchSafetensors, probabilities  # noqa: E402
from oneballot.learners.torch import Torch  # noqa: E402
from oneballot.server.sandbox import Sandbox  # noqa: E402
from oneballot.types import Array, Blob, Task  # noqa: E402

torch.set_num_threads(1)
ABOUT: dict[str, Any] = {
    "architecture": "resnet8",
    "settings": {"width": 2},
    "shape": [1, 8, 8],
    "classes": 3,
    "output": "softmax",
}


@cache
def arrays(name: str = "resnet8") -> dict[str, Array]:
    network = built_in(name, ABOUT["settings"], (1, 8, 8), 3)
    return {key: np.asarray(value) for key, value in network.start(5).items()}


def write(about: Any = None, **changed: Any) -> bytes:
    return save({**arrays(), **changed}, metadata={"network": json.dumps(ABOUT if about is None else about)})


def assert_refused(data: bytes, message: str) -> None:
    with pytest.raises(Spoiled, match=message):
        TorchSafetensors.check(data, classes=3, features=64)


def test_a_network_predicts_the_same_after_loading() -> None:
    model = TorchModel(Description("resnet8", check_settings("resnet8", {"width": 2}), (1, 8, 8), 3), arrays())
    blob = model.dump()
    assert blob == model.dump()
    TorchSafetensors.check(blob.data, classes=3, features=64)
    loaded = TorchSafetensors.load(blob.data, classes=3)
    X = np.random.default_rng(0).integers(0, 256, (600, 8, 8)).astype(np.uint8)
    np.testing.assert_array_equal(loaded.scores(X), model.scores(X))
    np.testing.assert_allclose(loaded.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_allclose(loaded.predict_proba(X.reshape(600, -1)), loaded.predict_proba(X))
    assert loaded.predict_proba(X[:0]).shape == (0, 3)
    assert loaded.dump() == blob
    with pytest.raises(DataError, match=r"trained on rows of shape \(1, 8, 8\)"):
        loaded.scores(X[:, :7])


SHAPES: dict[str, list[Any]] = {
    "numbers": [None, [256], [16, 16], [1, 16, 16]],
    "images": [None, [16, 16], [1, 16, 16]],
    "tokens": [None, [256]],
}
CASES = [(name, shape) for name, a in ARCHITECTURES.items() for shape in SHAPES[a.takes]]


@pytest.mark.parametrize(("name", "shape"), CASES, ids=str)
def test_every_trained_architecture_can_be_loaded(name: str, shape: Any) -> None:
    """With rows as they are, or reshaped by `shape`."""
    takes = ARCHITECTURES[name].takes
    settings: dict[str, Any] = {} if shape is None else {"shape": shape}
    settings |= {"vocabulary": 9, "dimension": 4} if takes == "tokens" else {}
    X = np.random.default_rng(0).integers(0, 9, (4, 256)).astype(np.uint8)
    X = X if shape or takes != "images" else X.reshape(4, 1, 16, 16)
    learner = Torch(name, settings, epochs=1, device="cpu")
    models = learner.fit_many(X, [Task(np.arange(4), np.arange(4) % 2, ask=np.arange(4))], 2)
    blob = models[0].dump()
    TorchSafetensors.check(blob.data, classes=2, features=256)
    loaded = TorchSafetensors.load(blob.data, classes=2)
    np.testing.assert_allclose(loaded.predict_proba(X), models.predictions()[0], atol=1e-5)


def write_transformer(**settings: Any) -> tuple[Blob, Array]:
    """Write a small file whose evaluation is expensive."""
    settings = {"vocabulary": 9, "dimension": 64, "heads": 64, "layers": 1, "width": 1, **settings}
    values = {key: np.asarray(v) for key, v in built_in("transformer", settings, (200,), 2).start(0).items()}
    about = {"architecture": "transformer", "settings": settings, "shape": [200], "classes": 2, "output": "softmax"}
    X = np.ones((64, 200), dtype=np.int32)
    return Blob("torch-safetensors", save(values, metadata={"network": json.dumps(about)})), X


@pytest.mark.slow
def test_a_small_file_that_is_expensive_is_stopped_by_the_sandbox() -> None:
    blob, X = write_transformer()
    with (
        Sandbox(seconds=0.2) as sandbox,
        pytest.raises(Spoiled, match=r"torch-safetensors model took longer than 0.2 s"),
    ):
        sandbox.ask(blob, np.tile(X, (50, 1)), classes=2)
    blob, X = write_transformer(dimension=4, heads=1)
    with Sandbox() as sandbox:
        here = TorchSafetensors.load(blob.data, classes=2).predict_proba(X)
        np.testing.assert_allclose(sandbox.ask(blob, X, classes=2), here, atol=1e-6)
        with pytest.raises(Spoiled, match="evaluated: DataError: text must be token numbers, whole ones"):
            sandbox.ask(blob, X + 0.5, classes=2)


def test_the_batch_size_depends_on_the_widest_layer() -> None:
    blob, _ = write_transformer()
    wide = TorchSafetensors.load(blob.data, classes=2)
    assert wide.at_once() == (1 << 24) // (64 * 200 * 200)
    assert TorchModel(Description("mlp", {"hidden": [100]}, (784,), 2), {}).at_once() == 512


def test_a_network_for_other_classes_or_rows_is_refused() -> None:
    TorchSafetensors.check(write(), classes=3, features=64)
    with pytest.raises(Spoiled, match="for 3 classes; expected 4"):
        TorchSafetensors.check(write(), classes=4, features=64)
    with pytest.raises(Spoiled, match="expected 65 numbers"):
        TorchSafetensors.check(write(), classes=3, features=65)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ([], "does not describe a network"),
        ({}, "does not describe a network"),
        (ABOUT | {"more": 1}, "does not describe a network"),
        (ABOUT | {"shape": [1, 8.0, 8]}, "a shape of integers"),
        (ABOUT | {"shape": [1, -8, -8]}, "a shape of integers"),
        (ABOUT | {"shape": 64}, "a shape of integers"),
        (ABOUT | {"classes": "3"}, "the number of classes"),
        (ABOUT | {"classes": True}, "the number of classes"),
        (ABOUT | {"architecture": ["resnet8"]}, "a name"),
        (ABOUT | {"architecture": "os.system"}, "there is no architecture"),
        (ABOUT | {"output": "argmax"}, "neither softmax nor sigmoid"),
        (ABOUT | {"settings": None}, "settings must be a table of names"),
        (ABOUT | {"settings": {"width": 10**6}}, "width must be a whole number from 1 to 256"),
        (ABOUT | {"settings": {"width": 3}}, "expected float32"),
        (ABOUT | {"shape": [64]}, "say what they are"),
        (ABOUT | {"shape": [8, 8]}, "no such network"),
        (ABOUT | {"shape": [1, 4, 16], "settings": {"width": 2, "shape": [1, 8, 8]}}, "no such network"),
        (ABOUT | {"shape": [4, 4, 4]}, "expected float32"),
        (ABOUT | {"architecture": "mlp", "settings": {}, "shape": [64]}, "missing or unexpected arrays in a mlp"),
    ],
    ids=range(19),
)
def test_an_invalid_header_is_refused(about: Any, message: str) -> None:
    assert_refused(write(about), message)


def test_arrays_that_do_not_fit_are_refused() -> None:
    weight = arrays()["conv.weight"]
    bad = np.array(weight)
    for number in (np.nan, np.inf, 1e30):
        bad[0, 0, 0, 0] = number
        assert_refused(write(**{"conv.weight": bad}), "NaN or beyond 1e")
    assert_refused(write(**{"conv.weight": weight.astype(np.float64)}), "conv.weight is float64")
    assert_refused(write(**{"conv.weight": weight[:1]}), "conv.weight is float32")
    assert_refused(write(extra=weight), "unexpected arrays in a resnet8: extra")
    assert_refused(write(**{"norm.running_var": -arrays()["norm.running_var"]}), "negative variance")
    assert_refused(
        save({k: v for k, v in arrays().items() if k != "out.bias"}, {"network": json.dumps(ABOUT)}), "out.bias"
    )


def test_files_that_are_not_networks_are_refused() -> None:
    for data in (b"", b"\xff" * 100, b"\x02" + b"\0" * 7 + b"[]", save(arrays()), write()[:-1], write() + b"\0"):
        assert_refused(data, "not a")
    assert_refused(save(arrays(), metadata={"network": "[" * 100_000}), "not a network")


@given(st.integers(0), st.integers(1, 255))
def test_an_altered_byte_is_refused_or_only_changes_weights(place: int, change: int) -> None:
    data = bytearray(write())
    data[place % len(data)] ^= change
    try:
        TorchSafetensors.check(bytes(data), classes=3, features=64)
    except Spoiled:
        return
    answer = TorchSafetensors.load(bytes(data), classes=3).predict_proba(np.zeros((2, 64), dtype=np.uint8))
    assert answer.shape == (2, 3)
    assert load(bytes(data)).keys() == arrays().keys()


@given(st.integers(0, 40), st.integers(1, 30), st.sampled_from([np.float32, np.float64]), st.integers(0, 99))
def test_probabilities_are_exactly_the_softmax(rows: int, classes: int, dtype: type, seed: int) -> None:
    """Votes depend on them, and a ballot must have the same bytes wherever it is cast."""
    logits = (np.random.default_rng(seed).normal(size=(rows, classes)) * 20).astype(dtype)
    before = logits.copy()
    wide = logits.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(probabilities(logits, "softmax"), powers / powers.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(logits, before)


def test_a_copy_of_a_trained_network_predicts_on_any_machine() -> None:
    rows = np.random.default_rng(0).random((30, 4), dtype=np.float32)
    task = Task(np.arange(30), np.arange(30) % 2)
    (model,) = Torch("mlp", settings={"hidden": [3]}, epochs=1).fit_many(rows, [task], 2)
    assert model.device == "auto"  # it predicts where it was trained
    expected = model.predict_proba(rows)
    copied = copy.deepcopy(model)
    assert copied.device == "cpu"
    np.testing.assert_allclose(copied.predict_proba(rows), expected, atol=1e-6)
