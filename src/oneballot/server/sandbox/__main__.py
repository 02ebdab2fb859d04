"""The sandbox's worker: imports the libraries, holds X, and evaluates each model in a forked child with limits."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import plugins
from ...errors import Spoiled
from ...interfaces import Model
from ...sparse import predict_in_blocks
from ...types import Array
from ._wire import HEADER_BYTES, read_exactly, read_rows, receive, send

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

REASON_LENGTH = 2000
OPEN_FILES = 64
MEMORY_IN_USE = "/proc/self/statm"  # Linux only


def main() -> None:
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print; stdout carries the replies
    send(replies, {"missing": missing_protection()})
    X = np.zeros((0, 0))
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            request = receive(requests)
            data = bytes(read_exactly(requests, request["size"]))
            if request["X"]:
                X = read_rows(requests, **request["X"])
            send(replies, *_reply(request, data, X))


def missing_protection() -> list[str]:
    """List what this platform cannot enforce: nothing on Linux."""
    limits = resource is not None and hasattr(os, "fork")
    protection = {
        "models are not isolated from each other (no fork)": hasattr(os, "fork"),
        "files and processes are not limited": limits,
        "memory is not limited": limits and os.path.exists(MEMORY_IN_USE),
    }
    return [missing for missing, present in protection.items() if not present]


def _reply(request: dict[str, Any], data: bytes, X: Array) -> tuple[dict[str, Any], bytes]:
    try:
        form = plugins.find("formats", request["format"])
        form.prepare()
        call = _imported(request["call"]) if "call" in request else None
        gc.collect()
        gc.freeze()
    except Exception as error:
        traceback.print_exc()
        return {"broken": str(error)[:REASON_LENGTH]}, b""

    def evaluate() -> bytes:
        model = form.load(data, classes=request["classes"])
        if call is not None:
            return bytes(call(model))
        values = predict_or_abstain(model, X, form.sparse) if request["abstain"] else _predict(model, X, form.sparse)
        return np.ascontiguousarray(values, dtype=np.float64).tobytes()

    most = request["most"]
    if hasattr(os, "fork"):
        limits = {"memory_mb": request["memory_mb"], "seconds": request["seconds"]}
        good, payload = run_in_child(evaluate, size=most, **limits)
    else:
        good, payload = _attempt(evaluate)
    if good and len(payload) <= most:
        return {"answer": len(payload)}, payload
    reason = f"returns more than {most} bytes" if good else payload.decode(errors="replace")
    return {"spoiled": reason[:REASON_LENGTH]}, b""


def _predict(model: Model, X: Array, sparse: bool) -> Array:
    return np.asarray(predict_in_blocks(model, X, sparse=sparse))


def predict_or_abstain(model: Model, X: Array, sparse: bool) -> Array:
    """Predictions of which rows that the model fails for are NaN, so that no row decides about another.

    Halves of the rows are tried on until the failing rows are found. Raises the model's error if it fails for all.
    """
    try:
        return _predict(model, X, sparse)
    except (MemoryError, Spoiled):
        raise
    except Exception:
        if len(X) < 2:
            raise
        halves, failure = [X[: len(X) // 2], X[len(X) // 2 :]], None
        parts: list[Array | None] = []
        for half in halves:
            try:
                parts.append(predict_or_abstain(model, half, sparse))
            except Exception as error:
                parts.append(None)
                failure = error
        if not (known := [part for part in parts if part is not None]) and failure is not None:
            raise failure from None
        width = known[0].shape[1]
        filled = zip(parts, halves, strict=True)
        return np.concatenate([np.full((len(half), width), np.nan) if part is None else part for part, half in filled])


def _imported(name: str) -> Callable[[Any], bytes]:
    """A function of ours by its name, such as "package.module:name". Its module may have a function `prepare`, which
    imports libraries before memory and time are limited."""
    module, _, function = name.partition(":")
    found = importlib.import_module(module)
    getattr(found, "prepare", lambda: None)()
    return getattr(found, function)  # type: ignore[no-any-return]


def run_in_child(work: Callable[[], bytes], *, memory_mb: int, seconds: float, size: int) -> tuple[bool, bytes]:
    """Run `work` in a child that may crash, hang or exhaust its memory.

    Returns (True, its bytes, of which at most about `size` are read) or (False, the reason).
    """
    inward, outward = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(inward)
            outward = _restrict(outward, memory_mb, seconds)
            good, payload = _attempt(work)
            with os.fdopen(outward, "wb") as pipe:
                pipe.write((b"+" if good else b"-") + payload)
        finally:
            os._exit(0)
    os.close(outward)
    try:
        with os.fdopen(inward, "rb") as pipe:
            message = pipe.read(size + HEADER_BYTES)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if message:
        return message[:1] == b"+", message[1:]
    return False, _describe_exit(status, seconds).encode()


def _attempt(work: Callable[[], bytes]) -> tuple[bool, bytes]:
    try:
        return True, work()
    except MemoryError:
        reason = "needs more memory than the limit"
    except Spoiled as error:
        reason = f"is refused: {error}"
    except BaseException as error:
        reason = f"cannot be loaded or evaluated: {type(error).__name__}: {error}"
    return False, reason.encode(errors="replace")[:REASON_LENGTH]


def _restrict(outward: int, memory_mb: int, seconds: float) -> int:
    """Leave the child one open pipe, and limit its time, memory, files and processes. Returns the pipe."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.dup2(outward, 3)
    os.closerange(4, 4096)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    if resource is None:
        return 3
    limits = {"CORE": 0, "FSIZE": 0, "NPROC": 0, "NOFILE": OPEN_FILES}
    with contextlib.suppress(OSError), open(MEMORY_IN_USE, encoding="ascii") as pages:
        limits["AS"] = int(pages.read().split()[0]) * resource.getpagesize() + memory_mb * 2**20
    for name, value in limits.items():
        limit = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
    return 3


def _describe_exit(status: int, seconds: float) -> str:
    if not os.WIFSIGNALED(status):
        return f"ended its process with status {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGALRM:
        return f"took longer than {seconds:g} s"
    return f"crashed with signal {number} ({signal.Signals(number).name})"


if __name__ == "__main__":
    main()
