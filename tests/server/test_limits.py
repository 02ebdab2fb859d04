"""Everything from outside runs under limits of time and memory, also models in inert formats."""

from __future__ import annotations

import time

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import Spoiled
from oneballot.formats.kernel import KernelFormat, KernelModel
from oneballot.server.sandbox import Sandbox
from oneballot.types import Blob

pytestmark = pytest.mark.slow
MEGABYTE = 2**20


def large_kernel(megabytes: int = 63, features: int = 784) -> Blob:
    """A kernel model of the largest size that a ballot may have, in bytes as pixels."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (megabytes * MEGABYTE // (features + 16), features), dtype=np.uint8)
    return KernelModel(rows, rng.normal(size=(len(rows), 2)), np.array([0.5, 0.5]), 1e-6).dump()


def test_a_large_kernel_model_is_stopped_after_its_time() -> None:
    blob, X = large_kernel(), np.zeros((4096, 784), dtype=np.uint8)
    assert 60 * MEGABYTE < len(blob.data) < 64 * MEGABYTE
    with Sandbox(seconds=1) as sandbox:
        sandbox.ask(large_kernel(1), X[:1], classes=2)
        begin = time.monotonic()
        with pytest.raises(Spoiled, match="took longer than 1 s"):
            sandbox.ask(blob, X, classes=2)
        assert time.monotonic() - begin < 10  # most of it starts the worker


def test_a_tally_leaves_it_out_and_names_its_party(recwarn: pytest.WarningsRecorder) -> None:
    """It is spoiled if it takes too long for the few rows it is tried on, and else left out of the ensemble."""
    public = np.zeros((4096, 784), dtype=np.uint8)
    method, learner = ob.Ensemble(weights="seen"), ob.Kernel(landmarks=50)
    election = ob.Election(classes=[0, 1], public=public, method=method, learner=learner, max_model_seconds=1, quorum=1)
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 256, (40, 784), dtype=np.uint8), np.arange(40) % 2
    honest = ob.cast(election, X, y, party="honest")
    slow = seal({"seen": np.array([20, 20]), "model": large_kernel()}, election, "slow")
    begin = time.monotonic()
    outcome = ob.tally(election, [honest, slow])
    assert time.monotonic() - begin < 40
    warned = [str(each.message) for each in recwarn if "slow is left out" in str(each.message)]
    assert "the kernel model took longer than 1 s" in "; ".join([*warned, *outcome.spoiled.values()])
    assert "honest" in outcome.voted


def test_parts_of_a_large_kernel_model_add_up_to_it() -> None:
    rng = np.random.default_rng(2)
    rows, coefficients = rng.normal(size=(20_000, 3)).astype(np.float32), rng.normal(size=(20_000, 2)) / 1000
    whole = KernelModel(rows, coefficients, np.array([0.5, 0.5]), 0.7)
    X = rng.normal(size=(10, 3)).astype(np.float32)
    near = np.exp(-0.7 * ((X[:, None].astype(np.float64) - rows[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(whole.scores(X), 0.5 + near @ coefficients, atol=1e-9)
    data = whole.dump().data
    with Sandbox(seconds=20) as sandbox:
        answer = sandbox.ask(Blob(KernelFormat.name, data), X, classes=2)
    np.testing.assert_allclose(answer, whole.predict_proba(X))
