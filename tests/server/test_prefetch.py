"""Prefetching: ballots come in order, within bounds, and with the same results as reading them one by one."""

from __future__ import annotations

import io
import threading
import time
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import BoxError, NotFound
from oneballot.interfaces import Box
from oneballot.party.cast import cast_together
from oneballot.server.prefetch import AT_ONCE, MAX_BYTES, MAX_FAILURES, Prefetcher
from oneballot.server.tally import Options, tally_box


@dataclass
class SlowBox(Box):
    """A remote box that delays every read and records the requests."""

    concurrent: ClassVar[bool] = True

    ballots: dict[str, bytes]
    delay: float = 0.0
    failures: tuple[BaseException, ...] = ()
    """Errors of the first prefetches; later ones succeed."""
    opened: list[str] = field(default_factory=list)
    prefetched: list[str] = field(default_factory=list)
    active: int = 0
    most_active: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def names(self):
        yield from ((name, len(data)) for name, data in self.ballots.items())

    def open(self, name: str):
        self.opened.append(name)
        return self._fetch(name)

    def open_once(self, name: str):
        with self.lock:
            self.prefetched.append(name)
            failure = self.failures[0] if self.failures else None
            self.failures = self.failures[1:]
            self.active += 1
            self.most_active = max(self.most_active, self.active)
        try:
            if failure is not None:
                raise failure
            return self._fetch(name)
        finally:
            with self.lock:
                self.active -= 1

    def _fetch(self, name: str):
        time.sleep(self.delay)
        if name not in self.ballots:
            raise NotFound(f"there is no {name}")
        return io.BytesIO(self.ballots[name])

    def deliver(self, name: str, sealed: bytes) -> None: ...


@dataclass
class WithoutPrefetch(SlowBox):
    """The same box without prefetching."""

    concurrent: ClassVar[bool] = False


def slow_box(count: int, **settings) -> SlowBox:
    return SlowBox({f"{i:03d}": b"%d" % i * 100 for i in range(count)}, **settings)


def read_all(source: Prefetcher) -> list[bytes]:
    return [source.read(name) for name in source.names_in_order(10**9)]


def test_ballots_are_prefetched_in_parallel_and_returned_in_order() -> None:
    box = slow_box(40, delay=0.05)
    started = time.monotonic()
    with Prefetcher(box) as source:
        assert read_all(source) == list(box.ballots.values())
    assert time.monotonic() - started < 40 * 0.05 / 2
    assert box.most_active > AT_ONCE / 2
    assert box.opened == []
    assert sorted(box.prefetched) == list(box.ballots), "each is prefetched once"


def test_prefetching_stays_within_its_bound_if_counting_is_slow() -> None:
    box = slow_box(60)
    with Prefetcher(box) as source:
        for counted, name in enumerate(source.names_in_order(10**9)):
            time.sleep(0.002)
            assert len(box.prefetched) <= counted + AT_ONCE
            source.read(name)
    assert len(box.prefetched) == 60


def test_large_and_oversized_ballots_are_not_prefetched() -> None:
    box = slow_box(10)
    box.ballots |= {"005": bytes(MAX_BYTES + 1), "007": bytes(5_000)}
    with Prefetcher(box) as source:
        for name in source.names_in_order(1_000):
            if name != "007":
                assert source.read(name) == box.ballots[name]
    assert box.opened == ["005"]
    assert sorted(box.prefetched) == sorted({*box.ballots} - {"005", "007"})


def test_a_growing_file_is_read_to_one_byte_beyond_its_listed_size() -> None:
    box = slow_box(3)
    with Prefetcher(box) as source:
        box.ballots["001"] += bytes(10**7)
        assert [len(data) for data in read_all(source)] == [100, 101, 100]


@pytest.mark.parametrize("failure", [BoxError("busy"), OSError("cut"), RuntimeError("other"), NotFound("403")])
def test_a_ballot_that_could_not_be_prefetched_is_read_directly(failure: BaseException) -> None:
    box = slow_box(30, failures=(failure,) * 12)
    with Prefetcher(box) as source:
        assert read_all(source) == list(box.ballots.values())
    assert sorted(box.opened) == list(box.ballots)[: len(box.opened)]
    assert len(box.opened) == 12, "each failure causes one more read"


def test_a_server_that_rejects_parallel_requests_spoils_no_ballot() -> None:
    """Even if it answers like a missing file, as some servers do with 403 when requests are limited."""

    class Limited(SlowBox):
        def _fetch(self, name: str):
            with self.lock:
                self.active += 1
                alone = self.active == 1
            try:
                time.sleep(self.delay)
                if not alone:
                    raise NotFound("403 Forbidden")
                return super()._fetch(name)
            finally:
                with self.lock:
                    self.active -= 1

        def open_once(self, name: str):
            return self._fetch(name)

    box = Limited({f"{i:03d}": b"%d" % i * 100 for i in range(40)}, delay=0.002)
    with Prefetcher(box) as source:
        assert read_all(source) == list(box.ballots.values())
    assert box.opened, "some requests were rejected"


def test_an_overloaded_server_gets_fewer_requests_at_once() -> None:
    box = slow_box(60, failures=(BoxError("busy"),) * (MAX_FAILURES - 1))
    with Prefetcher(box) as source:
        widths = [(source.read(name), source._at_once)[1] for name in source.names_in_order(10**9)]
    assert widths[0] == AT_ONCE // 2
    assert set(widths[3 : MAX_FAILURES - 1]) == {1}, "reduced to one at a time"
    assert widths[-1] == AT_ONCE, "increased again once requests succeed"


def test_prefetching_stops_after_too_many_failures() -> None:
    box = slow_box(60, failures=(BoxError("no more sessions"),) * 60)
    with Prefetcher(box) as source:
        assert read_all(source) == list(box.ballots.values())
    assert len(box.prefetched) == MAX_FAILURES
    assert box.opened == list(box.ballots)


def test_a_removed_ballot_is_reported_and_a_removed_box_stops_the_tally() -> None:
    box = slow_box(10)
    with Prefetcher(box) as source:
        del box.ballots["004"]
        missing = []
        for name in source.names_in_order(10**9):
            try:
                source.read(name)
            except NotFound as error:
                missing.append(str(error))
        assert missing == ["there is no 004"]
        assert box.opened == ["004"], "the counting thread confirms that it is missing"
        assert source._at_once == AT_ONCE, "the server is not considered overloaded"

    class Gone(SlowBox):
        def names(self):
            if self.prefetched:
                raise NotFound("no such folder")
            return super().names()

    with Prefetcher(Gone(dict.fromkeys("ab", b"?"))) as source:
        source.box.ballots.clear()
        with pytest.raises(BoxError, match="the box disappeared while ballots were counted: no such folder"):
            read_all(source)


def test_threads_end_if_reading_stops_early() -> None:
    box = slow_box(30, delay=0.01)
    with Prefetcher(box) as source:
        for i, name in enumerate(source.names_in_order(10**9)):
            source.read(name)
            if i == 5:
                break
    assert len(source._threads) == AT_ONCE
    for thread in source._threads:
        thread.join(5)
        assert not thread.is_alive()
    assert len(box.prefetched) <= 6 + AT_ONCE, "the rest is not fetched"


def test_remote_boxes_are_prefetched_and_folders_are_not(tmp_path) -> None:
    assert ob.box_at("memory://prefetch/test").concurrent
    assert not ob.Folder(tmp_path).concurrent


def assert_same(ours: ob.Outcome, theirs: ob.Outcome) -> None:
    assert ours.summary() == theirs.summary()
    assert list(ours.spoiled.items()) == list(theirs.spoiled.items())
    assert ours.model.dump() == theirs.model.dump()
    for name, sums in theirs.count.sums.items():
        np.testing.assert_array_equal(ours.count.sums[name], sums)


def test_prefetching_does_not_change_the_tally_of_a_mixed_box(election, parties) -> None:
    ballots = cast_together(election, parties)
    good = {f"{i:02d} {b.party}": b.sealed for i, b in enumerate(ballots)}
    other = seal(ballots[0].contents, election, ballots[0].party, reason="changed my mind").sealed
    mixed = {
        **good,
        "00 empty": b"",
        "01 cut": ballots[1].sealed[:-1],
        "02 again": ballots[2].sealed,
        "03 altered": ballots[3].sealed.replace(b"votes", b"votez"),
        "04 twice": other,
    }
    box = SlowBox(dict(sorted(mixed.items())), delay=0.005, failures=(BoxError("busy"), OSError("cut")))
    outcome, alone = tally_box(election, box), tally_box(election, WithoutPrefetch(box.ballots))
    assert_same(outcome, alone)
    assert len(outcome.voted) == 4
    assert set(outcome.spoiled) == {"00 empty", "01 cut", "03 altered", "04 twice", f"00 {ballots[0].party}"}
    assert box.prefetched
    late = SlowBox({**box.ballots, "99 late": seal(ballots[1].contents, election, "late").sealed})
    del late.ballots["04 twice"]
    assert_same(
        tally_box(election, late, Options(previous=outcome)),
        tally_box(election, WithoutPrefetch(late.ballots), Options(previous=alone)),
    )
    assert_same(
        tally_box(election, late, Options(previous=outcome)), tally_box(election, WithoutPrefetch(late.ballots))
    )


def test_a_restarted_count_prefetches_again(election, parties) -> None:
    """A counted ballot is replaced by another while the box is counted, so counting starts again."""
    first, *others = cast_together(election, parties)
    second = seal(first.contents, election, first.party, reason="changed my mind").sealed

    class Moving(SlowBox):
        def open(self, name: str):
            if name == "00" and len(self.opened) == 0:
                self.opened.append(name)
                raise NotFound("moved")
            return super().open(name)

    def moving() -> Moving:
        rest = {f"{i:02d}": b.sealed for i, b in enumerate(others, start=1)}
        return Moving(
            {"00": first.sealed, **rest, "77": second, **{f"{i}": b.sealed for i, b in enumerate(others, 80)}}
        )

    box = moving()
    outcome = tally_box(election, box)
    assert set(outcome.voted) == {b.party for b in others}
    assert set(outcome.spoiled) == {"00", "77"}
    assert box.opened == ["00"], "all others were prefetched, also at the second count"
    assert len(box.prefetched) >= 2 * len(box.ballots) - AT_ONCE
