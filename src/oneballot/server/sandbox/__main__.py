"""The room's worker: holds the libraries and X, makes a child for each model, and looks into none itself."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from ... import plugins
from ...errors import Spoiled
from ...types import Array
from ._wire import HEADER, read_exactly, receive, send

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

WORDS = 2000
OPEN_FILES = 64


def main() -> None:
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not come between the answers
    send(answers, {"ready": True})
    X = np.zeros((0, 0))
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            question = receive(questions)
            data = bytes(read_exactly(questions, question["size"]))
            if question["X"]:
                X = _read_array(questions, **question["X"])
            send(answers, *_answer(question, data, X))


def _read_array(pipe: IO[bytes], dtype: str, shape: list[int]) -> Array:
    size = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    return np.frombuffer(read_exactly(pipe, size), dtype=dtype).reshape(shape)


def _answer(question: dict[str, Any], data: bytes, X: Array) -> tuple[dict[str, Any], bytes]:
    try:
        form = plugins.find("formats", question["format"])
        getattr(form, "prepare", lambda: None)()
        gc.collect()
        gc.freeze()
    except Exception as error:
        traceback.print_exc()
        return {"broken": str(error)[:WORDS]}, b""

    def ask() -> bytes:
        model = form.load(data, classes=question["classes"])
        return np.ascontiguousarray(model.predict_proba(X), dtype=np.float64).tobytes()

    run = contain if hasattr(os, "fork") else _attempt
    size = len(X) * question["classes"] * 8
    good, payload = run(ask, memory_mb=question["memory_mb"], seconds=question["seconds"], size=size)
    if good and len(payload) == size:
        return {"answer": True}, payload
    reason = f"answers with {len(payload)} bytes: expected {size}" if good else payload.decode(errors="replace")
    return {"spoiled": reason[:WORDS]}, b""


def contain(work: Callable[[], bytes], *, memory_mb: int, seconds: float, size: int) -> tuple[bool, bytes]:
    """Do the work in a child that may crash, hang or eat memory: (True, its bytes), or (False, the reason)."""
    inward, outward = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(inward)
            outward = _confine(outward, memory_mb, seconds)
            good, payload = _attempt(work)
            with os.fdopen(outward, "wb") as pipe:
                pipe.write((b"+" if good else b"-") + payload)
        finally:
            os._exit(0)
    os.close(outward)
    try:
        with os.fdopen(inward, "rb") as pipe:
            message = pipe.read(size + HEADER)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if message:
        return message[:1] == b"+", message[1:]
    return False, _tell(status, seconds).encode()


def _attempt(work: Callable[[], bytes], **_: Any) -> tuple[bool, bytes]:
    try:
        return True, work()
    except MemoryError:
        reason = "needs more memory than it is given"
    except Spoiled as error:
        reason = f"is refused: {error}"
    except BaseException as error:
        reason = f"cannot be loaded or asked: {type(error).__name__}: {error}"
    return False, reason.encode(errors="replace")[:WORDS]


def _confine(outward: int, memory_mb: int, seconds: float) -> int:
    """Leave the child one open pipe, no files to write, no processes to start, and its share of memory and time."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.dup2(outward, 3)
    os.closerange(4, 4096)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    limits = {"CORE": 0, "FSIZE": 0, "NPROC": 0, "NOFILE": OPEN_FILES}
    with contextlib.suppress(OSError), open("/proc/self/statm") as pages:
        limits["AS"] = int(pages.read().split()[0]) * resource.getpagesize() + memory_mb * 2**20
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    return 3


def _tell(status: int, seconds: float) -> str:
    if not os.WIFSIGNALED(status):
        return f"ended its process with status {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGALRM:
        return f"took longer than {seconds:g} s"
    return f"crashed with signal {number} ({signal.Signals(number).name})"


if __name__ == "__main__":
    main()
