"""Progress is told to whoever asked, and to nobody else."""

import contextvars
import threading

import pytest

from oneballot.runtime.progress import progress_reporter, report_progress_to, track


def test_without_a_watcher_the_items_pass_through():
    assert list(track("counting", iter("abc"), 3)) == ["a", "b", "c"]


def test_a_watcher_hears_the_beginning_and_every_item_when_it_is_done():
    told = []
    with report_progress_to(lambda *news: told.append(news)):
        for item in track("counting", "ab", 2):
            told.append(item)
    assert told == [("counting", 0, 2), "a", ("counting", 1, 2), "b", ("counting", 2, 2)]


def test_a_watcher_is_gone_after_its_block_even_after_an_error():
    told = []
    with pytest.raises(ZeroDivisionError), report_progress_to(lambda *news: told.append(news)):
        raise ZeroDivisionError
    list(track("counting", "ab", 2))
    assert told == []


def test_the_inner_of_two_watchers_is_told_and_then_the_outer_again():
    outer, inner = [], []
    with report_progress_to(lambda *news: outer.append(news[1])):
        with report_progress_to(lambda *news: inner.append(news[1])):
            list(track("counting", "a", 1))
        list(track("counting", "ab", 2))
    assert (outer, inner) == ([0, 1, 2], [0, 1])


def test_another_context_is_not_watched():
    told = []
    with report_progress_to(lambda *news: told.append(news)):
        contextvars.Context().run(lambda: list(track("counting", "ab", 2)))
    assert told == []


def test_work_that_is_no_loop_is_told_from_another_thread():
    told = []
    with report_progress_to(lambda *news: told.append(news)):
        tell = progress_reporter("sending", 2)
        thread = threading.Thread(target=tell, args=(1,))
        thread.start()
        thread.join()
    tell(2)
    progress_reporter("sending", 2)(1)
    assert told == [("sending", 1, 2), ("sending", 2, 2)]


def test_an_error_among_the_items_is_passed_on():
    def items():
        yield 1
        raise LookupError("lost")

    with report_progress_to(lambda *news: None), pytest.raises(LookupError, match="lost"):
        list(track("counting", items(), 2))
