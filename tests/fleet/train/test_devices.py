"""Where networks are trained: the device and the precision of a learner, chosen in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import oneballot as ob  # noqa: E402
from oneballot import methods  # noqa: E402
from oneballot.errors import ElectionError  # noqa: E402
from oneballot.fleet.train.devices import place, set_precision  # noqa: E402


def settings() -> tuple[bool, ...]:
    product, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
    return product.allow_tf32, convolution.allow_tf32, convolution.deterministic


def test_a_precision_holds_within_its_block_and_another_one_may_be_inside() -> None:
    before, gpu = settings(), torch.device("cuda")
    with set_precision("tf32", gpu):
        assert settings() == (True, True, True)
        with set_precision("float32", gpu):
            assert settings() == (False, False, True)
        assert settings() == (True, True, True)
    assert settings() == before
    with set_precision("tf32", torch.device("cpu")):
        assert settings() == before


def test_a_work_computes_on_the_device_of_its_learner() -> None:
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    for learner, expected in ((ob.Torch("mlp", device="cpu"), "cpu"), (ob.Torch("mlp"), usual)):
        with learner.place() as device:
            assert device.type == expected
    with place("auto", "float32") as device:  # as for learners without networks
        assert device.type == usual


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_missing_is_an_error() -> None:
    with pytest.raises(ElectionError, match="torch finds no GPU here"), ob.Torch("mlp", device="cuda").place():
        pass


def test_methods_choose_neither_device_nor_precision() -> None:
    """They use `place`; and the scheduler sets the number of threads, but in processes that methods start."""
    choice = re.compile(
        r"is_available|find_device|allow_tf32|set_precision|one_thread|\.device [!=]=|learner\.(device|prec)"
    )
    (root,) = map(Path, methods.__path__)
    texts = {path: path.read_text("utf-8") for path in root.rglob("*.py")}
    assert any("learner.place(" in text for text in texts.values())
    assert not {path.name: found for path, text in texts.items() if (found := choice.search(text))}
