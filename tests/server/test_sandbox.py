"""The room answers, keeps its limits, and leaves nothing behind."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from oneballot.errors import OneBallotError, Spoiled
from oneballot.formats.safetensors import ConstantModel
from oneballot.formats.skops import SklearnModel
from oneballot.server.sandbox import Sandbox
from oneballot.server.sandbox.__main__ import contain
from oneballot.types import Blob

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
Y = np.argmax(X, axis=1)
TREE = SklearnModel(DecisionTreeClassifier(random_state=0).fit(X, Y), 4)


def test_it_answers_as_the_model_does_and_leaves_nothing_behind():
    with Sandbox(seconds=20) as room:
        np.testing.assert_array_equal(room.ask(TREE.dump(), X, classes=4), TREE.predict_proba(X))
        worker, folder = room._worker, Path(room._folder.name)
        other = X[:5].astype(np.float32)
        np.testing.assert_array_equal(room.ask(TREE.dump(), other, classes=4), TREE.predict_proba(other))
        images = X.reshape(-1, 3, 1)[::2]
        np.testing.assert_array_equal(room.ask(TREE.dump(), images, classes=4), TREE.predict_proba(images))
        assert room.ask(TREE.dump(), X[:1], classes=4).shape == (1, 4)
        blob = SklearnModel(GaussianNB().fit(X, Y), 4).dump()
        begin = time.monotonic()
        for _ in range(10):
            room.ask(blob, X, classes=4)
        assert time.monotonic() - begin < 5
        assert room._worker is worker

        os.kill(worker.pid, 9)
        with pytest.raises(Spoiled, match="status -9"):
            room.ask(blob, X, classes=4)
        room.ask(blob, X, classes=4)
        assert room._worker is not worker
        assert not folder.exists()
        worker, folder = room._worker, Path(room._folder.name)
    assert worker.returncode is not None
    assert not folder.exists()


def test_array_models_need_no_worker():
    with Sandbox() as room:
        answer = room.ask(ConstantModel(np.array([0.25, 0.75])).dump(), X, classes=2)
        np.testing.assert_array_equal(answer, np.tile([0.25, 0.75], (200, 1)))
        assert room._worker is None


def test_a_worker_that_cannot_start_is_our_fault_and_not_the_ballots(monkeypatch, tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho no module named oneballot >&2\nexit 3\n")
    script.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(script))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Sandbox() as room, pytest.raises(OneBallotError, match=r"status 3.*no module named oneballot") as caught:
        room.ask(TREE.dump(), X, classes=4)
    assert not isinstance(caught.value, Spoiled)
    assert not list(tmp_path.glob("oneballot-room-*"))


def test_an_interrupted_question_does_not_leave_its_answer_to_the_next(monkeypatch):
    first, second = (SklearnModel(GaussianNB().fit(X[order], Y), 4) for order in (slice(None), slice(None, None, -1)))

    def interrupt(pipe):
        raise KeyboardInterrupt

    with Sandbox(seconds=20) as room:
        room.ask(first.dump(), X, classes=4)
        with monkeypatch.context() as patch:
            patch.setattr("oneballot.server.sandbox.receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                room.ask(first.dump(), X, classes=4)
        np.testing.assert_array_equal(room.ask(second.dump(), X, classes=4), second.predict_proba(X))


def test_answers_that_are_no_probabilities_are_spoiled():
    from oneballot.server.sandbox import _check_answer

    good = np.full((2, 2), 0.5)
    assert _check_answer(good, 2, 2) is good
    for bad in (good[:1], good * 2, good * np.nan, np.array([[1.5, -0.5]] * 2)):
        with pytest.raises(Spoiled):
            _check_answer(bad, 2, 2)


def run(work, seconds=1.0, memory_mb=256, size=100):
    begin = time.monotonic()
    good, message = contain(work, memory_mb=memory_mb, seconds=seconds, size=size)
    assert time.monotonic() - begin < seconds + 3
    return good, message.decode(errors="replace")


def loop():
    while True:
        pass


def eat():
    return bytes(1 << 30)


def write():
    with open("stolen", "wb") as file:
        file.write(b"x" * 100)
    return b""


def fork():
    return b"made a process" if os.fork() else os._exit(0)


def crash():
    import ctypes

    ctypes.string_at(1)


def close():
    os.closerange(0, 100)
    time.sleep(100)


def test_a_child_answers():
    assert run(lambda: b"abc") == (True, "abc")


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (loop, "took longer than 1 s"),
        (eat, "needs more memory"),
        (write, "File too large"),
        (crash, "signal 11 (SIGSEGV)"),
        (close, "signal"),
        (lambda: os._exit(4), "status 4"),
        (lambda: os.abort(), "signal 6"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: os.write(3, b"+forged") and os._exit(0), "+forged"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_a_child_does_stays_with_the_child(work, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, message = run(work)
    assert reason in message or (reason == "+forged" and message == "forged")


@pytest.mark.skipif(os.getuid() == 0, reason="root has no limit of processes")
def test_a_child_makes_no_processes():
    good, message = run(fork)
    assert not good
    assert "BlockingIOError" in message


def test_more_bytes_than_expected_are_not_read():
    _, message = run(lambda: b"x" * 10_000_000, seconds=3)
    assert len(message) < 100_000


def test_a_format_that_is_not_there_is_spoiled():
    with Sandbox() as room, pytest.raises(Spoiled, match="unknown format"):
        room.ask(Blob("pickle", b""), X, classes=4)


def test_a_format_whose_plug_in_is_broken_spoils_its_ballots_and_no_others(tmp_path, monkeypatch):
    from oneballot import plugins

    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[oneballot.formats]\nbroken = broken_module:Format\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.names.cache_clear()
    try:
        with Sandbox() as room, pytest.raises(Spoiled, match="this server cannot open broken models"):
            room.ask(Blob("broken", b""), np.zeros((2, 2)), classes=2)
    finally:
        plugins.names.cache_clear()
        plugins.find.cache_clear()
