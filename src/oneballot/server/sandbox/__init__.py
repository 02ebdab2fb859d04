"""The sandbox: a separate process in which a model from an untrusted ballot is loaded and evaluated.

    Sandbox.ask: check the file -> worker (imports libraries, holds X) -> fork -> child (limits, load, predict)

The worker, `python -m oneballot.server.sandbox`, forks a child for each model and loads none itself, so a crash or
corrupted memory cannot reach the next ballot. Without fork (Windows) the worker loads the models and is replaced when
it dies; the sandbox warns once about the protection that is missing. Only `oneballot.server` imports this package.
"""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ... import plugins
from ...errors import OneBallotError, OneBallotWarning, Spoiled, printable
from ...interfaces import Format, Model
from ...models import MOST_IN_PROCESS, SECONDS_IN_PROCESS, or_abstain
from ...runtime.leftovers import SANDBOX, clear_sandboxes, hold_folder
from ...sparse import predict_in_blocks
from ...types import Array, Blob
from ._wire import describe_rows, read_exactly, receive, send

START_SECONDS = 120
MOST_BYTES = 1 << 28
"""The longest answer to `Sandbox.run`."""
GRACE_SECONDS = 5  # a child has its own timer; this is for a worker that hangs
INHERITED = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "PATH")
SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
EMPTY = "empty"
"""The folder for the worker's own files, in that of the sandbox. It works in the root folder, which nothing removes:
libraries end a process whose working folder is gone."""
STDERR = "stderr"
FOLDERS = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP")


class Sandbox:
    """Computes the probabilities of untrusted models. Each may use `memory_mb` in addition to the libraries' memory,
    and `seconds`.

    The worker keeps the last X, so a public set is sent only once for thousands of ballots. The caller must not change
    X in place between two calls.
    """

    def __init__(self, memory_mb: int = 2048, seconds: float = 60) -> None:
        self.memory_mb, self.seconds = memory_mb, seconds
        self._worker: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._held = -1  # marks the folder as in use
        self._sent_X: Array | None = None
        self._prepared: set[str] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, blob: Blob, X: Array, *, classes: int, abstain: bool = False) -> Array:
        """Probabilities `(rows, classes)`. Raises Spoiled if the model is refused, fails or returns anything else.

        With `abstain`, a row for which it fails or returns anything else is 0 in all classes, and the others count.
        """
        blob = blob.loaded()
        with checked_format(blob, classes, math.prod(X.shape[1:])) as form:
            model = form.load(blob.data, classes=classes) if form.inert and len(blob.data) <= MOST_IN_PROCESS else None
            quick = model is not None and model.seconds(len(X)) <= SECONDS_IN_PROCESS
            values = predict_in_blocks(model, X, sparse=form.sparse) if model is not None and quick else None
        if values is None:
            values = self._ask_worker(blob, X, classes, abstain)
        if values.shape != (len(X), classes):
            raise Spoiled(f"the model returns an array of shape {values.shape}; expected {(len(X), classes)}")
        return or_abstain(values) if abstain else _check_probabilities(values)

    def run(self, function: str, blob: Blob, *, classes: int) -> bytes:
        """Load an untrusted model in the sandbox and call our own function, such as "package.module:name", with it.

        Returns its bytes, which are as untrusted as the model. Raises Spoiled if the model or the call fails.
        """
        with self._lock:
            about = {"call": function, "X": None}
            return bytes(self._request(blob, classes, about, [], MOST_BYTES, self.seconds + START_SECONDS))

    def close(self) -> None:
        """Stop the worker and remove its folder. A later `ask` starts a new worker."""
        worker, self._worker, self._sent_X, self._prepared = self._worker, None, None, set()
        if worker is not None:
            _kill(worker)
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
        if self._folder is not None:
            os.close(self._held)
            self._folder.cleanup()
            self._folder = None

    def _ask_worker(self, blob: Blob, X: Array, classes: int, abstain: bool = False) -> Array:
        """Evaluate the model without calling `check` first."""
        with self._lock:
            fresh = self._worker is None or self._sent_X is not X
            described, arrays = describe_rows(X) if fresh else (None, [])
            parts = [array.data.cast("B") for array in arrays if array.size]
            ready = not fresh and blob.format in self._prepared
            timeout = self.seconds + (GRACE_SECONDS if ready else START_SECONDS)
            try:
                about = {"X": described, "abstain": abstain}
                values = self._request(blob, classes, about, parts, len(X) * classes * 8, timeout)
            finally:
                if self._worker is not None:
                    self._sent_X = X
                    self._prepared.add(blob.format)
        if len(values) != len(X) * classes * 8:
            raise Spoiled(f"the {blob.format} model returns {len(values)} bytes; expected {len(X) * classes * 8}")
        return np.frombuffer(values, dtype=np.float64).reshape(len(X), classes)

    def _request(
        self, blob: Blob, classes: int, about: dict[str, Any], parts: list[Any], most: int, timeout: float
    ) -> bytes | bytearray:
        """The bytes that the worker answers, `most` at most. Raises Spoiled if the model is refused or fails."""
        worker = self._worker or self._start()
        request = {"format": blob.format, "size": len(blob.data), "classes": classes, "most": most, **about}
        request |= {"memory_mb": self.memory_mb, "seconds": self.seconds}
        reply, values = self._exchange(worker, request, [blob.data, *parts], most, timeout)
        if "broken" in reply:
            raise Spoiled(f"this server cannot open {blob.format} models: {reply['broken']}")
        if "spoiled" in reply:
            raise Spoiled(f"the {blob.format} model {printable(reply['spoiled'])}")
        return values

    def _exchange(
        self, worker: subprocess.Popen[bytes], request: dict[str, Any], parts: list[Any], most: int, timeout: float
    ) -> tuple[dict[str, Any], bytes | bytearray]:
        """Send a request and receive its reply; stop the worker on a timeout or an error."""
        assert worker.stdin is not None
        assert worker.stdout is not None
        with _deadline(worker, timeout) as late:
            try:
                send(worker.stdin, request, *parts)
                reply = receive(worker.stdout)
                if not 0 <= (size := int(reply.get("answer", 0))) <= most:
                    raise ValueError(f"the answer has {size} bytes; expected at most {most}")
                values = read_exactly(worker.stdout, size) if size else b""
            except (OSError, EOFError, TypeError, ValueError, RecursionError):
                status, last = _stop(worker), self._last_words()
                self.close()
                if late.is_set():
                    return {"spoiled": f"took longer than {self.seconds:g} s"}, b""
                return {"spoiled": f"ended the worker with status {status}" + (last and f": {last}")}, b""
            except BaseException:
                self.close()  # otherwise the next request would receive this reply
                raise
        if late.is_set():
            self.close()
        return reply, values

    def _start(self) -> subprocess.Popen[bytes]:
        clear_sandboxes()
        self._folder = tempfile.TemporaryDirectory(prefix=SANDBOX, ignore_cleanup_errors=True)
        self._held = hold_folder(Path(self._folder.name))
        empty, log = Path(self._folder.name, EMPTY), Path(self._folder.name, STDERR)
        empty.mkdir()
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        env |= dict.fromkeys(SINGLE_THREADED, "1") | dict.fromkeys(FOLDERS, str(empty))
        env |= {"PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8", "JOBLIB_MULTIPROCESSING": "0"}
        env["ONEBALLOT_WORKERS"] = "1"  # a model may not start threads
        env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, sys.path)])
        command, pipe = [sys.executable, "-P", "-W", "ignore", "-m", "oneballot.server.sandbox"], subprocess.PIPE
        with log.open("wb") as stderr:
            worker = self._worker = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=stderr, env=env, cwd=empty.anchor, start_new_session=True
            )
        with _deadline(worker, START_SECONDS):
            try:
                assert worker.stdout is not None
                _warn_once("; ".join(receive(worker.stdout)["missing"]))
            except (OSError, EOFError, ValueError, KeyError):
                status, last = _stop(worker), self._last_words()
                self.close()
                raise OneBallotError(f"the sandbox did not start (status {status}): {printable(last)}") from None
        return worker

    def _last_words(self) -> str:
        """The end of what the worker printed as errors, if its folder is still there."""
        assert self._folder is not None
        try:
            return Path(self._folder.name, STDERR).read_bytes()[-2000:].decode(errors="replace").strip()
        except OSError:
            return ""


@contextlib.contextmanager
def checked_format(blob: Blob, classes: int, features: int) -> Iterator[type[Format]]:
    """The format of a valid model. Raises Spoiled if it is unknown or invalid, and for any error while it is used."""
    if blob.format not in plugins.names("formats"):
        known = ", ".join(plugins.names("formats"))
        raise Spoiled(f"the model has the unknown format {blob.format[:40]!r}; expected one of {known}")
    try:
        form = plugins.find("formats", blob.format)
        form.check(blob.data, classes=classes, features=features)
        yield form
    except Spoiled as error:
        raise Spoiled(f"the {blob.format} model is refused: {printable(error)}") from None
    except OneBallotError as error:  # a missing library or plug-in must not stop the count of other ballots
        raise Spoiled(f"this server cannot open {blob.format} models: {error}") from None
    except Exception as error:  # a third-party format may raise anything on untrusted bytes
        raise Spoiled(f"the {blob.format} model cannot be read: {type(error).__name__}") from error


def attach_sandbox(model: Model) -> Model:
    """Give a model that holds untrusted members a sandbox, which is closed when the model is deleted."""
    if model.sandboxed:
        sandbox = Sandbox()
        weakref.finalize(model, sandbox.close)
        model.use_sandbox(sandbox.ask)
    return model


@cache
def _warn_once(missing: str) -> None:
    if missing:
        warnings.warn(
            f"The sandbox for untrusted models has less protection on this platform: {missing}. The time limit still "
            "applies. Tally on Linux if you do not trust every party.",
            OneBallotWarning,
            stacklevel=2,
        )


def _check_probabilities(values: Array) -> Array:
    if or_abstain(values) is not values:
        raise Spoiled("the model does not return probabilities: finite, not negative and summing to 1 in each row")
    return values


@contextlib.contextmanager
def _deadline(worker: subprocess.Popen[bytes], seconds: float) -> Iterator[threading.Event]:
    """Kill the worker after this many seconds. The event is set if that happened."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        _kill(worker)

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
        timer.join()


def _kill(worker: subprocess.Popen[bytes]) -> None:
    """Kill the worker and its children. Until `wait` returns, no other process can have the worker's ID."""
    if worker.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.pid, 9) if hasattr(os, "killpg") else worker.kill()


def _stop(worker: subprocess.Popen[bytes]) -> int:
    """Return the worker's exit status; kill it if it does not exit by itself."""
    try:
        return worker.wait(timeout=1)
    except subprocess.TimeoutExpired:
        _kill(worker)
        return worker.wait()
