"""Array models are inert and strictly checked."""

import numpy as np
import pytest
from safetensors.numpy import save

from oneballot.errors import Spoiled
from oneballot.formats.safetensors import ConstantModel, Safetensors


def test_a_constant_model_survives_the_journey():
    model = ConstantModel(np.eye(4)[2])
    blob = model.dump()
    Safetensors.check(blob.data, classes=4, features=9)
    loaded = Safetensors.load(blob.data, classes=4)
    X = np.zeros((3, 9))
    np.testing.assert_array_equal(loaded.predict_proba(X), np.tile([0, 0, 1, 0], (3, 1)))
    np.testing.assert_array_equal(loaded.scores(X), model.scores(X))


@pytest.mark.parametrize(
    "values",
    [[0.5, 0.6], [1.5, -0.5], [np.nan, 1], [1.0], [[0.5, 0.5]], np.array([0, 1]), np.array([0, 1], dtype=np.float32)],
    ids=str,
)
def test_what_is_no_distribution_is_refused(values):
    data = save({"probabilities": np.asarray(values)}, metadata={"kind": "constant"})
    with pytest.raises(Spoiled, match="probabilities"):
        Safetensors.check(data, classes=2, features=1)


def test_unknown_kinds_and_arrays_are_refused():
    good = np.array([0.5, 0.5])
    for data in (
        save({"probabilities": good}),
        save({"probabilities": good}, metadata={"kind": "other"}),
        save({"probabilities": good, "more": good}, metadata={"kind": "constant"}),
        b"",
        b"\xff" * 100,
        b"\x02" + b"\0" * 7 + b"[]",
        ConstantModel(good).dump().data[:-1],
    ):
        with pytest.raises(Spoiled):
            Safetensors.check(data, classes=2, features=1)
