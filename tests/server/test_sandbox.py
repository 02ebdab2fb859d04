"""The sandbox returns what the model returns, enforces its limits and leaves nothing behind."""

import contextlib
import os
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from oneballot.errors import OneBallotError, OneBallotWarning, Spoiled
from oneballot.formats.safetensors import ConstantModel
from oneballot.formats.skops import SklearnModel
from oneballot.server.sandbox import Sandbox, _warn_once
from oneballot.server.sandbox.__main__ import run_in_child
from oneballot.types import Blob

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
Y = np.argmax(X, axis=1)
TREE = SklearnModel(DecisionTreeClassifier(random_state=0).fit(X, Y), 4)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork: models run in the worker")


def test_the_sandbox_returns_the_models_probabilities_and_leaves_no_process_or_folder():
    with Sandbox(seconds=20) as sandbox:
        np.testing.assert_array_equal(sandbox.ask(TREE.dump(), X, classes=4), TREE.predict_proba(X))
        worker, folder = sandbox._worker, Path(sandbox._folder.name)
        other = X[:5].astype(np.float32)
        np.testing.assert_array_equal(sandbox.ask(TREE.dump(), other, classes=4), TREE.predict_proba(other))
        images = X.reshape(-1, 3, 1)[::2]
        np.testing.assert_array_equal(sandbox.ask(TREE.dump(), images, classes=4), TREE.predict_proba(images))
        assert sandbox.ask(TREE.dump(), X[:1], classes=4).shape == (1, 4)
        blob = SklearnModel(GaussianNB().fit(X, Y), 4).dump()
        begin = time.monotonic()
        for _ in range(10):
            sandbox.ask(blob, X, classes=4)
        assert time.monotonic() - begin < 5
        assert sandbox._worker is worker

        os.kill(worker.pid, 9)
        with pytest.raises(Spoiled, match="status -9"):
            sandbox.ask(blob, X, classes=4)
        sandbox.ask(blob, X, classes=4)
        assert sandbox._worker is not worker
        assert not folder.exists()
        worker, folder = sandbox._worker, Path(sandbox._folder.name)
    assert worker.returncode is not None
    assert not folder.exists()


def test_a_folder_that_a_cleaner_removed_spoils_no_ballot(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT["Windows"][0])
    monkeypatch.syspath_prepend(tmp_path)
    with Sandbox(seconds=20) as sandbox, warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)
        sandbox._start()
        shutil.rmtree(sandbox._folder.name)
        np.testing.assert_array_equal(sandbox.ask(TREE.dump(), X, classes=4), TREE.predict_proba(X))


def test_inert_models_start_no_worker():
    with Sandbox() as sandbox:
        answer = sandbox.ask(ConstantModel(np.array([0.25, 0.75])).dump(), X, classes=2)
        np.testing.assert_array_equal(answer, np.tile([0.25, 0.75], (200, 1)))
        assert sandbox._worker is None


def test_a_worker_that_cannot_start_is_a_server_error_and_spoils_no_ballot(monkeypatch, tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho no module named oneballot >&2\nexit 3\n")
    script.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(script))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Sandbox() as sandbox, pytest.raises(OneBallotError, match=r"status 3.*no module named oneballot") as caught:
        sandbox.ask(TREE.dump(), X, classes=4)
    assert not isinstance(caught.value, Spoiled)
    assert not list(tmp_path.glob("oneballot-sandbox-*"))


def test_the_reply_to_an_interrupted_request_is_not_returned_by_the_next_one(monkeypatch):
    first, second = (SklearnModel(GaussianNB().fit(X[order], Y), 4) for order in (slice(None), slice(None, None, -1)))

    def interrupt(pipe):
        raise KeyboardInterrupt

    with Sandbox(seconds=20) as sandbox:
        sandbox.ask(first.dump(), X, classes=4)
        with monkeypatch.context() as patch:
            patch.setattr("oneballot.server.sandbox.receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                sandbox.ask(first.dump(), X, classes=4)
        np.testing.assert_array_equal(sandbox.ask(second.dump(), X, classes=4), second.predict_proba(X))


def test_a_result_that_is_not_probabilities_is_spoiled():
    from oneballot.server.sandbox import _check_probabilities

    good = np.full((2, 2), 0.5)
    assert _check_probabilities(good) is good
    for bad in (good * 2, good * np.nan, np.array([[1.5, -0.5]] * 2)):
        with pytest.raises(Spoiled):
            _check_probabilities(bad)


def run(work, seconds=1.0, memory_mb=256, size=100):
    begin = time.monotonic()
    good, message = run_in_child(work, memory_mb=memory_mb, seconds=seconds, size=size)
    assert time.monotonic() - begin < seconds + 3
    return good, message.decode(errors="replace")


def loop():
    while True:
        pass


def allocate():
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


@needs_fork
def test_a_child_returns_its_result():
    assert run(lambda: b"abc") == (True, "abc")


@needs_fork
@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (loop, "took longer than 1 s"),
        (allocate, "needs more memory"),
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
def test_a_child_that_misbehaves_is_reported_and_contained(work, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, message = run(work)
    assert reason in message or (reason == "+forged" and message == "forged")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root has no process limit")
def test_a_child_cannot_start_processes():
    good, message = run(fork)
    assert not good
    assert "BlockingIOError" in message


WITHOUT = {
    "Windows": (
        "import os, signal, sys; sys.modules['resource'] = None; del os.fork, os.killpg, signal.SIGALRM",
        r"models are not isolated from each other \(no fork\); files and processes .* memory is not limited",
    ),
    "no resource module": ("import sys; sys.modules['resource'] = None", "platform: files and processes are not"),
}


@pytest.mark.parametrize("platform", WITHOUT)
def test_without_fork_or_limits_the_sandbox_still_works_and_warns_once(platform, monkeypatch, tmp_path):
    """The worker imports sitecustomize first, which removes what the platform lacks."""
    code, warning = WITHOUT[platform]
    (tmp_path / "sitecustomize.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    if "killpg" in code:
        monkeypatch.delattr(os, "killpg")
    _warn_once.cache_clear()
    for expectation in (pytest.warns(OneBallotWarning, match=warning), contextlib.nullcontext()):
        with warnings.catch_warnings(), Sandbox(seconds=20) as sandbox:
            warnings.simplefilter("error")
            with expectation:
                np.testing.assert_array_equal(sandbox.ask(TREE.dump(), X, classes=4), TREE.predict_proba(X))
            with pytest.raises(Spoiled, match="cannot be loaded or evaluated: BadZipFile"):
                sandbox._ask_worker(Blob("skops", b""), X, 4)
    _warn_once.cache_clear()


def test_a_model_that_hangs_without_fork_is_stopped(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT["Windows"][0])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("oneballot.server.sandbox.GRACE_SECONDS", 0)
    with Sandbox(seconds=20) as sandbox:
        sandbox.ask(TREE.dump(), X, classes=4)
        sandbox.seconds = 0.0
        with pytest.raises(Spoiled, match="took longer than 0 s"):
            sandbox.ask(TREE.dump(), X, classes=4)
        sandbox.seconds = 20
        np.testing.assert_array_equal(sandbox.ask(TREE.dump(), X, classes=4), TREE.predict_proba(X))


@needs_fork
def test_lower_limits_of_the_server_are_kept():
    """A server may run under `ulimit -v`; a child must not fail because it cannot raise that limit."""
    import resource

    def work():
        return str(resource.getrlimit(resource.RLIMIT_AS)[0]).encode()

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (2**36, 2**36))
        return run_in_child(work, memory_mb=2**20, seconds=5, size=100)[1]

    pid = os.fork()
    if pid == 0:
        os._exit(0 if limited() == str(2**36).encode() else 1)
    assert os.waitpid(pid, 0)[1] == 0


@needs_fork
def test_no_more_bytes_are_read_than_expected():
    _, message = run(lambda: b"x" * 10_000_000, seconds=3)
    assert len(message) < 100_000


def test_a_model_in_an_unknown_format_is_spoiled():
    with Sandbox() as sandbox, pytest.raises(Spoiled, match="unknown format"):
        sandbox.ask(Blob("pickle", b""), X, classes=4)


def test_a_broken_format_plugin_spoils_only_its_own_models(tmp_path, monkeypatch):
    from oneballot import plugins

    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[oneballot.formats]\nbroken = broken_module:Format\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.names.cache_clear()
    try:
        with Sandbox() as sandbox, pytest.raises(Spoiled, match="this server cannot open broken models"):
            sandbox.ask(Blob("broken", b""), np.zeros((2, 2)), classes=2)
    finally:
        plugins.names.cache_clear()
        plugins.find.cache_clear()
