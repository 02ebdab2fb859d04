"""The room: an expendable process in which a stranger's model is loaded and asked.

    Room.ask ── check, here ──> worker (imports, holds X) ── fork ──> child (limits; load, predict) ── bytes ──> checked

The worker never looks into a model: for each it makes a child, which answers or perishes and takes all its damage with
it, so neither a crash nor corrupted memory reaches the next ballot. The worker is `python -m oneballot.server.sandbox`.
Where there is no fork (Windows) the worker itself answers, and is replaced when it perishes.
"""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ... import plugins
from ...errors import OneBallotError, Spoiled, printable
from ...interfaces import Model, Sandboxed
from ...types import Array, Blob
from ._wire import read_exactly, receive, send

START_SECONDS = 120
GRACE_SECONDS = 5  # the child has its own clock; this one is for a worker that does not answer at all
PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "PATH")
SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Sandbox:
    """Asks models for probabilities. Each model has `memory_mb` beyond what the libraries need, and `seconds`.

    The last X is kept by the worker, so asking thousands of ballots about one public set sends it once; an X must not
    be changed in place between two asks.
    """

    def __init__(self, memory_mb: int = 2048, seconds: float = 60) -> None:
        self.memory_mb, self.seconds = memory_mb, seconds
        self._worker: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._kept: Array | None = None
        self._prepared: set[str] = set()
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def ask(self, blob: Blob, X: Array, *, classes: int) -> Array:
        """Probabilities `(rows, classes)`. Raises Spoiled for a model that is refused, fails, or answers nonsense."""
        if blob.format not in plugins.names("formats"):
            known = ", ".join(plugins.names("formats"))
            raise Spoiled(f"the model is in the unknown format {blob.format[:40]!r}: expected one of {known}")
        try:
            form = plugins.find("formats", blob.format)
            form.check(blob.data, classes=classes, features=math.prod(X.shape[1:]))
            answer = form.load(blob.data, classes=classes).predict_proba(X) if form.inert else None
        except Spoiled as error:
            raise Spoiled(f"the {blob.format} model is refused: {printable(error)}") from None
        except OneBallotError as error:  # a library or plug-in is missing here: the others count all the same
            raise Spoiled(f"this server cannot open {blob.format} models: {error}") from None
        except Exception as error:  # a format that is not ours may raise anything at a stranger's bytes
            raise Spoiled(f"the {blob.format} model cannot be read: {type(error).__name__}") from error
        return _check_answer(self._ask_worker(blob, X, classes) if answer is None else answer, len(X), classes)

    def close(self) -> None:
        """End the worker and remove its folder. The room can be used again: it starts another."""
        worker, self._worker, self._kept, self._prepared = self._worker, None, None, set()
        if worker is not None:
            _kill(worker)
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _ask_worker(self, blob: Blob, X: Array, classes: int) -> Array:
        """Ask without `check`."""
        with self._one_at_a_time:
            worker = self._worker or self._start()
            rows = None if self._kept is X else np.ascontiguousarray(X)
            if rows is not None and rows.dtype.kind not in "fiub":
                raise TypeError(f"X is {rows.dtype}: expected numbers")
            question: dict[str, Any] = {"format": blob.format, "size": len(blob.data), "classes": classes}
            question |= {"memory_mb": self.memory_mb, "seconds": self.seconds}
            question["X"] = None if rows is None else {"dtype": rows.dtype.str, "shape": rows.shape}
            parts = [blob.data] if rows is None else [blob.data, rows.data.cast("B") if rows.size else b""]
            known = rows is None and blob.format in self._prepared
            grace = GRACE_SECONDS if known else START_SECONDS
            reply, answer = self._exchange(worker, question, parts, len(X) * classes * 8, self.seconds + grace)
            if self._worker is not None:
                self._kept = X
                self._prepared.add(blob.format)
        if "broken" in reply:
            raise Spoiled(f"this server cannot open {blob.format} models: {reply['broken']}")
        if "spoiled" in reply:
            raise Spoiled(f"the {blob.format} model {printable(reply['spoiled'])}")
        return np.frombuffer(answer, dtype=np.float64).reshape(len(X), classes)

    def _exchange(
        self, worker: subprocess.Popen[bytes], question: dict[str, Any], parts: list[Any], size: int, limit: float
    ) -> tuple[dict[str, Any], bytes | bytearray]:
        """Send, receive, and end the worker where that takes too long or goes wrong."""
        assert worker.stdin is not None
        assert worker.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(worker)

        clock = threading.Timer(limit, end)
        clock.start()
        try:
            send(worker.stdin, question, *parts)
            reply = receive(worker.stdout)
            answer = read_exactly(worker.stdout, size) if "answer" in reply else b""
        except (OSError, EOFError, ValueError, RecursionError):
            code = _end(worker)
            self.close()
            took = f"took longer than {self.seconds:g} s" if late.is_set() else f"ended the worker with status {code}"
            return {"spoiled": took}, b""
        except BaseException:
            self.close()  # a question without its answer: the next would get this one's
            raise
        finally:
            clock.cancel()
            clock.join()
        if late.is_set():
            self.close()
        return reply, answer

    def _start(self) -> subprocess.Popen[bytes]:
        self._folder = tempfile.TemporaryDirectory(prefix="oneballot-room-", ignore_cleanup_errors=True)
        empty, log = Path(self._folder.name, "empty"), Path(self._folder.name, "stderr")
        empty.mkdir()
        env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        env |= dict.fromkeys(SINGLE_THREADED, "1") | {"PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
        path = [str(Path(__file__).parents[3]), *filter(None, sys.path)]
        env |= {"PYTHONPATH": os.pathsep.join(path), "JOBLIB_MULTIPROCESSING": "0"}
        env |= dict.fromkeys(("HOME", "TMPDIR", "TEMP"), str(empty))
        with log.open("wb") as stderr:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-W", "ignore", "-m", "oneballot.server.sandbox"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                cwd=empty,
                start_new_session=True,
            )
        clock = threading.Timer(START_SECONDS, _kill, [worker])
        clock.start()
        self._worker = worker
        try:
            assert worker.stdout is not None
            if "ready" not in receive(worker.stdout):
                raise EOFError
        except (OSError, EOFError, ValueError):
            code = _end(worker)
            tail = log.read_bytes()[-2000:].decode(errors="replace")
            self.close()
            raise OneBallotError(f"the room's worker did not start (status {code}): {printable(tail)}") from None
        finally:
            clock.cancel()
            clock.join()
        return worker


def seat(model: Model) -> Model:
    """A model that holds strangers' models, with a room of its own that is closed when the model is forgotten."""
    if isinstance(model, Sandboxed):
        room = Sandbox()
        weakref.finalize(model, room.close)
        model.use_sandbox(room.ask)
    return model


def _check_answer(answer: Array, rows: int, classes: int) -> Array:
    if answer.shape != (rows, classes):
        raise Spoiled(f"the model answers with shape {answer.shape}: expected {(rows, classes)}")
    if not np.isfinite(answer).all() or (answer < 0).any() or (abs(answer.sum(axis=1) - 1) > 1e-3).any():
        raise Spoiled("the model's answers are not probabilities: finite, not negative, adding up to 1 in each row")
    return answer


def _kill(worker: subprocess.Popen[bytes]) -> None:
    """End the worker and its children; as long as it was not waited for, the number is its own."""
    if worker.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.pid, 9) if hasattr(os, "killpg") else worker.kill()


def _end(worker: subprocess.Popen[bytes]) -> int:
    """Its status, where it has ended by itself; else it is ended."""
    try:
        return worker.wait(timeout=1)
    except subprocess.TimeoutExpired:
        _kill(worker)
        return worker.wait()
