"""Retry policy: transient errors and back-off."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_chain, wait_random

from ..runtime.progress import progress_reporter

T = TypeVar("T")

DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between attempts. Each varies by 25 %, so that parties that lost a connection together don't return
together."""

PROGRESS = 2**20
"""Bytes of progress that restore the budget: an unreliable link may be cut any number of times."""

_NO_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"}
_DISCONNECTED = (ConnectionError, TimeoutError, EOFError, http.client.IncompleteRead)
_NETWORK_ERRNOS = {
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENETRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    socket.EAI_AGAIN,
}


class RetryBudget:
    """The retries left for one delivery or download. With no delays, the first error is final."""

    def __init__(self, delays: Sequence[float] | None = None) -> None:
        delays = DELAYS if delays is None else delays
        self.attempts = 1
        self._failures = 0  # since the last progress
        self._bytes = 0
        self._stop = stop_after_attempt(len(delays) + 1)
        self._wait = wait_chain(*(wait_random(0.75 * delay, 1.25 * delay) for delay in delays or (0.0,)))

    def run(
        self, work: Callable[[], T], transient: Callable[[BaseException], bool], prepare: Callable[[BaseException], str]
    ) -> T:
        """Call `work` again after each transient error while the budget lasts; the last error is raised.

        `prepare` runs before each retry and returns the text that the progress display shows during the delay.
        """
        text = ""

        def resume_count(state: RetryCallState) -> None:
            state.attempt_number = self._failures + 1  # the budget outlives one call

        def count_failure(state: RetryCallState) -> None:
            nonlocal text
            assert state.outcome is not None
            text = prepare(state.outcome.exception())  # type: ignore[arg-type]
            self._failures += 1
            self.attempts += 1

        def sleep(seconds: float) -> None:
            report = progress_reporter(text, 1)
            report(0)
            time.sleep(seconds)
            report(1)

        retry = Retrying(
            retry=retry_if_exception(transient), stop=self._stop, wait=self._wait, sleep=sleep,
            before=resume_count, before_sleep=count_failure, reraise=True,
        )  # fmt: skip
        return retry(work)

    def add_progress(self, count: int) -> None:
        self._bytes += count
        if self._bytes >= PROGRESS:
            self._failures = self._bytes = 0


def is_transient(error: BaseException, types: tuple[type[Exception], ...] = ()) -> bool:
    """Whether an error may disappear by itself: a network error, or one of these types of a library.

    Unknown hosts, invalid certificates and ports without TLS are permanent, even as the cause of another error.
    """
    if connection_advice(error):
        return False
    return any(
        isinstance(cause, (*_DISCONNECTED, *types)) or getattr(cause, "errno", None) in _NETWORK_ERRNOS
        for cause in _causes(error)
    )


def connection_advice(error: BaseException) -> str:
    """What to do about a permanent connection error, looking at its causes too; empty for all other errors."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "if your own authority signed the server's certificate, set SSL_CERT_FILE to the authority's file"
        if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
            return "the server does not use TLS on this port; check the port, or use http instead of https"
        if isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN:
            return "check the spelling of the host"
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and the errors that caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
