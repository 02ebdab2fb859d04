"""Progress is reported to the watcher of the context."""

import contextvars
import threading

import pytest

from oneballot.runtime.progress import progress_reporter, report_progress_to, track


def test_without_a_watcher_items_are_passed_through():
    assert list(track("counting", iter("abc"), 3)) == ["a", "b", "c"]


def test_a_watcher_gets_the_start_and_every_finished_item():
    reported = []
    with report_progress_to(lambda *step: reported.append(step)):
        for item in track("counting", "ab", 2):
            reported.append(item)
    assert reported == [("counting", 0, 2), "a", ("counting", 1, 2), "b", ("counting", 2, 2)]


def test_a_watcher_is_removed_after_its_block_even_after_an_error():
    reported = []
    with pytest.raises(ZeroDivisionError), report_progress_to(lambda *step: reported.append(step)):
        raise ZeroDivisionError
    list(track("counting", "ab", 2))
    assert reported == []


def test_the_inner_of_two_watchers_gets_the_progress_of_its_block():
    outer, inner = [], []
    with report_progress_to(lambda *step: outer.append(step[1])):
        with report_progress_to(lambda *step: inner.append(step[1])):
            list(track("counting", "a", 1))
        list(track("counting", "ab", 2))
    assert (outer, inner) == ([0, 1, 2], [0, 1])


def test_another_context_has_no_watcher():
    reported = []
    with report_progress_to(lambda *step: reported.append(step)):
        contextvars.Context().run(lambda: list(track("counting", "ab", 2)))
    assert reported == []


def test_progress_can_be_reported_from_another_thread():
    reported = []
    with report_progress_to(lambda *step: reported.append(step)):
        report = progress_reporter("sending", 2)
        thread = threading.Thread(target=report, args=(1,))
        thread.start()
        thread.join()
    report(2)
    progress_reporter("sending", 2)(1)
    assert reported == [("sending", 1, 2), ("sending", 2, 2)]


def test_an_error_of_the_items_is_raised():
    def items():
        yield 1
        raise LookupError("lost")

    with report_progress_to(lambda *step: None), pytest.raises(LookupError, match="lost"):
        list(track("counting", items(), 2))
