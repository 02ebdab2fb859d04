"""The retry policy: which errors are transient, and how long a budget lasts."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable

import pytest

from oneballot.boxes import _retry
from oneballot.boxes._retry import PROGRESS, RetryBudget, connection_advice, is_transient
from oneballot.runtime.progress import report_progress_to


def failing(times: int) -> Callable[[], str]:
    errors = iter([ConnectionResetError("cut")] * times)

    def work() -> str:
        for error in errors:
            raise error
        return "done"

    return work


def run(budget: RetryBudget, work: Callable[[], str]) -> str:
    return budget.run(work, is_transient, lambda error: f"{error}; trying again")


@pytest.fixture
def sleeps(monkeypatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(_retry.time, "sleep", slept.append)
    return slept


def test_delays_double_and_vary_by_a_quarter(sleeps) -> None:
    budget = RetryBudget()
    assert run(budget, failing(5)) == "done"
    assert budget.attempts == 6
    for delay, slept in zip((0.5, 1, 2, 4, 8), sleeps, strict=True):
        assert 0.75 * delay <= slept <= 1.25 * delay


def test_the_last_error_is_raised_when_the_budget_is_used_up(sleeps) -> None:
    budget = RetryBudget()
    with pytest.raises(ConnectionResetError, match="cut"):
        run(budget, failing(6))
    assert budget.attempts == 6
    assert len(sleeps) == 5


def test_calls_share_a_budget_until_a_mebibyte_of_progress(sleeps) -> None:
    budget = RetryBudget((1.0, 2.0, 3.0))
    run(budget, failing(2))
    budget.add_progress(PROGRESS - 1)
    with pytest.raises(ConnectionResetError):
        run(budget, failing(2))
    assert [round(slept) for slept in sleeps][-1] in (2, 3, 4), "the third delay"
    budget.add_progress(1)
    assert run(budget, failing(3)) == "done"
    assert 0.75 <= sleeps[3] <= 1.25, "the delays start again"


def test_without_delays_the_first_error_is_final(sleeps) -> None:
    with pytest.raises(ConnectionResetError):
        run(RetryBudget(()), failing(1))
    assert not sleeps


def test_permanent_errors_and_interrupts_are_raised_at_once(sleeps) -> None:
    for error in (PermissionError("denied"), KeyboardInterrupt()):

        def work(error: BaseException = error) -> str:
            raise error

        with pytest.raises(type(error)):
            run(RetryBudget(), work)
    assert not sleeps


def test_each_delay_is_reported_as_progress(sleeps) -> None:
    steps: list[tuple[str, int, int]] = []
    with report_progress_to(lambda *step: steps.append(step)):
        run(RetryBudget(), failing(1))
    assert steps == [("cut; trying again", 0, 1), ("cut; trying again", 1, 1)]


def test_network_errors_are_transient_and_wrong_addresses_are_not() -> None:
    wrapped = OSError("library")
    wrapped.__cause__ = ssl.SSLCertVerificationError("wrong certificate")
    assert is_transient(ConnectionResetError())
    assert is_transient(OSError(errno.ENETUNREACH, "unreachable"))
    assert is_transient(socket.gaierror(socket.EAI_AGAIN, "later"))
    assert not connection_advice(socket.gaierror(socket.EAI_AGAIN, "later")), "transient errors need no advice"
    assert not is_transient(socket.gaierror(socket.EAI_NONAME, "unknown"))
    assert connection_advice(socket.gaierror(socket.EAI_NONAME, "unknown"))
    assert not is_transient(wrapped, (OSError,))
    assert not is_transient(PermissionError())
    assert not is_transient(FileNotFoundError())
