"""Tests that the models of every format must pass, and the data that they share."""

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oneballot import plugins
from oneballot.errors import Spoiled
from oneballot.types import Blob

CLASSES, FEATURES = 3, 4
X = np.random.default_rng(0).normal(size=(120, FEATURES))
Y = np.argmax(X[:, :CLASSES], axis=1)
FAR = 10**9
FLIPS = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=3)
flip_settings = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.differing_executors])


def ask(sandbox, blob):
    return sandbox.ask(blob, X, classes=CLASSES)


def flip(data, flips):
    data = bytearray(data)
    for place, bits in flips:
        data[min(int(place * len(data)), len(data) - 1)] ^= bits
    return bytes(data)


def assert_spoiled_or_probabilities(sandbox, blob):
    try:
        values = ask(sandbox, blob)
    except Spoiled:
        return
    assert values.shape == (len(X), CLASSES)
    assert np.isfinite(values).all()


class HostileModels:
    """A subclass sets GOOD and HOSTILE, blobs by name; conftest.py passes them to the tests."""

    def test_a_hostile_model_is_spoiled_within_the_time_limit(self, sandbox, hostile_model):
        begin = time.monotonic()
        with pytest.raises(Spoiled):
            ask(sandbox, hostile_model)
        assert time.monotonic() - begin < sandbox.seconds + 10

    def test_good_models_are_evaluated_after_the_hostile_ones(self, sandbox, good_model):
        np.testing.assert_allclose(ask(sandbox, good_model).sum(axis=1), 1, atol=1e-6)

    def test_a_truncated_model_is_spoiled(self, good_model):
        form = plugins.find("formats", good_model.format)
        for end in range(0, len(good_model.data), max(1, len(good_model.data) // 200)):
            with pytest.raises(Spoiled):
                form.check(good_model.data[:end], classes=CLASSES, features=FEATURES)

    @pytest.mark.slow
    @flip_settings
    @given(which=st.integers(0, 99), flips=FLIPS)
    def test_a_model_with_flipped_bytes_is_spoiled_or_returns_probabilities(self, sandbox, which, flips):
        blob = sorted(self.GOOD.values(), key=lambda blob: blob.data)[which % len(self.GOOD)]
        assert_spoiled_or_probabilities(sandbox, Blob(blob.format, flip(blob.data, flips)))
