"""Which failures pass, and how long one waits for that."""

from __future__ import annotations

import errno
import http.client
import random
import socket
import ssl
import time
from collections.abc import Iterator, Sequence

from ..runtime.progress import progress_reporter

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between tries; a quarter more or less, so that parties which were cut off together do not come back so."""

ENOUGH = 2**20
"""A try that has moved so many bytes starts the pauses anew: a bad link may be cut any number of times."""

_NO_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"}
_CUT = (ConnectionError, TimeoutError, EOFError, http.client.IncompleteRead)
_OF_THE_NETWORK = {
    errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, socket.EAI_AGAIN,
}  # fmt: skip


class Patience:
    """For one piece of work. Without any pauses a first failure is the last."""

    def __init__(self, pauses: Sequence[float] | None = None) -> None:
        self.tries = 1
        self._all = PAUSES if pauses is None else pauses
        self._pauses = iter(self._all)
        self._moved = 0

    def wait(self, why: str) -> bool:
        """Wait before another try, and tell whoever watches why; False if there have been enough."""
        pause = next(self._pauses, None)
        if pause is None:
            return False
        told = progress_reporter(why, 1)
        told(0)
        time.sleep(pause * random.uniform(0.75, 1.25))
        told(1)
        self.tries += 1
        return True

    def moved(self, count: int) -> None:
        self._moved += count
        if self._moved >= ENOUGH:
            self._pauses, self._moved = iter(self._all), 0


def passes(error: BaseException, kinds: tuple[type[Exception], ...] = ()) -> bool:
    """Whether a failure may be gone in a moment: one of the network, or of these kinds of a library's own.

    A name that nobody knows, a certificate that is not the host's and a port without TLS stay as they are, whatever
    they are wrapped in.
    """
    chain = list(_chain(error))
    if any(_stays(e) for e in chain):
        return False
    return any(isinstance(e, (*_CUT, *kinds)) or getattr(e, "errno", None) in _OF_THE_NETWORK for e in chain)


def _stays(error: BaseException) -> bool:
    return _is_unknown(error) or isinstance(error, ssl.SSLCertVerificationError) or _speaks_no_tls(error)


def _is_unknown(error: BaseException) -> bool:
    return isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN


def _speaks_no_tls(error: BaseException) -> bool:
    return isinstance(error, ssl.SSLError) and getattr(error, "reason", None) in _NO_TLS


def advice(error: BaseException) -> str:
    """What to do about a failure that stays; empty where nothing is known."""
    for one in _chain(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            return "where a server's certificate is of your own authority, name its file in SSL_CERT_FILE"
        if _speaks_no_tls(one):
            return "nobody speaks TLS there: is it another port, or http instead of https?"
        if _is_unknown(one):
            return "is the host spelled rightly?"
    return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
