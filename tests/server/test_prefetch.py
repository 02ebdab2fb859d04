"""Ballots that are read ahead: in order, bounded, and with nothing that reading one by one would not do."""

from __future__ import annotations

import io
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import BoxError, NotFound
from oneballot.interfaces import Box, RemoteBox
from oneballot.party.cast import cast_together
from oneballot.server.prefetch import AT_ONCE, ENOUGH, LARGEST, Prefetcher
from oneballot.server.tally import Options, tally_box


@dataclass
class Far:
    """A box whose ballots each take a while to come, and that remembers what was asked of it."""

    ballots: dict[str, bytes]
    journey: float = 0.0
    failures: tuple[BaseException, ...] = ()
    """Of reading ahead, one after the other; then it succeeds."""
    opened: list[str] = field(default_factory=list)
    ahead: list[str] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def names(self):
        yield from ((name, len(data)) for name, data in self.ballots.items())

    def open(self, name: str):
        self.opened.append(name)
        return self._bring(name)

    def open_once(self, name: str):
        with self.lock:
            self.ahead.append(name)
            failure = self.failures[0] if self.failures else None
            self.failures = self.failures[1:]
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if failure is not None:
                raise failure
            return self._bring(name)
        finally:
            with self.lock:
                self.under_way -= 1

    def _bring(self, name: str):
        time.sleep(self.journey)
        if name not in self.ballots:
            raise NotFound(f"there is no {name}")
        return io.BytesIO(self.ballots[name])

    def deliver(self, name: str, sealed: bytes) -> None: ...


class Near:
    """The same box, not read ahead."""

    def __init__(self, far: Box) -> None:
        self.deliver, self.names, self.open = far.deliver, far.names, far.open


def far_of(count: int, **settings) -> Far:
    return Far({f"{i:03d}": b"%d" % i * 100 for i in range(count)}, **settings)


def read_all(source: Prefetcher) -> list[bytes]:
    return [source.read(name) for name in source.in_turn(10**9)]


def test_ballots_come_in_the_order_of_the_box_and_several_at_once() -> None:
    box = far_of(40, journey=0.05)
    began = time.monotonic()
    with Prefetcher(box) as source:
        assert read_all(source) == list(box.ballots.values())
    assert time.monotonic() - began < 40 * 0.05 / 2
    assert box.most_under_way > AT_ONCE / 2
    assert box.opened == []
    assert sorted(box.ahead) == list(box.ballots), "each once"


def test_no_more_is_held_than_the_bound_however_slow_the_count_is() -> None:
    box = far_of(60)
    with Prefetcher(box) as source:
        for counted, name in enumerate(source.in_turn(10**9)):
            time.sleep(0.002)
            assert len(box.ahead) <= counted + AT_ONCE
            source.read(name)
    assert len(box.ahead) == 60


def test_large_ballots_and_those_that_will_not_be_read_are_not_read_ahead() -> None:
    box = far_of(10)
    box.ballots |= {"005": bytes(LARGEST + 1), "007": bytes(5_000)}
    with Prefetcher(box) as source:
        for name in source.in_turn(1_000):
            if name != "007":
                assert source.read(name) == box.ballots[name]
    assert box.opened == ["005"]
    assert sorted(box.ahead) == sorted({*box.ballots} - {"005", "007"})


def test_a_file_that_does_not_end_is_read_no_further_than_its_size_and_one_byte() -> None:
    box = far_of(3)
    with Prefetcher(box) as source:
        box.ballots["001"] += bytes(10**7)
        assert [len(data) for data in read_all(source)] == [100, 101, 100]


@pytest.mark.parametrize("failure", [BoxError("busy"), OSError("cut"), RuntimeError("whatever"), NotFound("403")])
def test_what_reading_ahead_does_not_bring_is_read_as_usual(failure: BaseException) -> None:
    box = far_of(30, failures=(failure,) * 12)
    with Prefetcher(box) as source:
        assert read_all(source) == list(box.ballots.values())
    assert sorted(box.opened) == list(box.ballots)[: len(box.opened)]
    assert len(box.opened) == 12, "each failure costs one more reading"


def test_a_server_that_refuses_several_at_once_spoils_nothing() -> None:
    """In words that mean "not there", as a limit of requests does with 403."""

    class Limited(Far):
        def _bring(self, name: str):
            with self.lock:
                self.under_way += 1
                alone = self.under_way == 1
            try:
                time.sleep(self.journey)
                if not alone:
                    raise NotFound("403 Forbidden")
                return super()._bring(name)
            finally:
                with self.lock:
                    self.under_way -= 1

        def open_once(self, name: str):
            return self._bring(name)

    box = Limited({f"{i:03d}": b"%d" % i * 100 for i in range(40)}, journey=0.002)
    with Prefetcher(box) as source:
        assert read_all(source) == list(box.ballots.values())
    assert box.opened, "some were refused"


def test_a_server_that_does_not_manage_so_many_is_asked_for_fewer() -> None:
    box = far_of(60, failures=(BoxError("busy"),) * (ENOUGH - 1))
    with Prefetcher(box) as source:
        widths = [(source.read(name), source._at_once)[1] for name in source.in_turn(10**9)]
    assert widths[0] == AT_ONCE // 2
    assert set(widths[3 : ENOUGH - 1]) == {1}, "then one by one"
    assert widths[-1] == AT_ONCE, "and more again, once it works"


def test_a_server_that_does_not_allow_it_at_all_is_not_asked_for_ever() -> None:
    box = far_of(60, failures=(BoxError("no more sessions"),) * 60)
    with Prefetcher(box) as source:
        assert read_all(source) == list(box.ballots.values())
    assert len(box.ahead) == ENOUGH
    assert box.opened == list(box.ballots)


def test_a_ballot_that_has_gone_is_told_as_usual_and_a_box_that_has_gone_ends_it() -> None:
    box = far_of(10)
    with Prefetcher(box) as source:
        del box.ballots["004"]
        gone = []
        for name in source.in_turn(10**9):
            try:
                source.read(name)
            except NotFound as error:
                gone.append(str(error))
        assert gone == ["there is no 004"]
        assert box.opened == ["004"], "it is the thread that counts to whom it is not there"
        assert source._at_once == AT_ONCE, "nor is the server taken for a slow one"

    class Gone(Far):
        def names(self):
            if self.ahead:
                raise NotFound("no such folder")
            return super().names()

    with Prefetcher(Gone(dict.fromkeys("ab", b"?"))) as source:
        source.box.ballots.clear()
        with pytest.raises(BoxError, match="the box disappeared while ballots were counted: no such folder"):
            read_all(source)


def test_threads_end_with_the_reading_also_when_it_was_stopped() -> None:
    box = far_of(30, journey=0.01)
    with Prefetcher(box) as source:
        for i, name in enumerate(source.in_turn(10**9)):
            source.read(name)
            if i == 5:
                break
    assert len(source._threads) == AT_ONCE
    for thread in source._threads:
        thread.join(5)
        assert not thread.is_alive()
    assert len(box.ahead) <= 6 + AT_ONCE, "nor is the rest fetched"


def test_boxes_elsewhere_are_read_ahead_and_a_folder_is_not(tmp_path) -> None:
    assert isinstance(ob.box_at("memory://reading/ahead"), RemoteBox)
    assert not isinstance(ob.Folder(tmp_path), RemoteBox)


def same(ours: ob.Outcome, theirs: ob.Outcome) -> None:
    assert ours.summary() == theirs.summary()
    assert list(ours.spoiled.items()) == list(theirs.spoiled.items())
    assert ours.model.dump() == theirs.model.dump()
    for name, sums in theirs.count.sums.items():
        np.testing.assert_array_equal(ours.count.sums[name], sums)


def test_a_tally_is_the_same_with_any_mixture_of_ballots(election, parties) -> None:
    ballots = cast_together(election, parties)
    good = {f"{i:02d} {b.party}": b.sealed for i, b in enumerate(ballots)}
    other = seal(ballots[0].contents, election, ballots[0].party, reason="changed my mind").sealed
    box = Far(dict(sorted({
        **good, "00 empty": b"", "01 cut": ballots[1].sealed[:-1], "02 again": ballots[2].sealed,
        "03 altered": ballots[3].sealed.replace(b"votes", b"votez"), "04 twice": other,
    }.items())), journey=0.005, failures=(BoxError("busy"), OSError("cut")))  # fmt: skip
    outcome, alone = tally_box(election, box), tally_box(election, Near(box))
    same(outcome, alone)
    assert len(outcome.voted) == 4
    assert set(outcome.spoiled) == {"00 empty", "01 cut", "03 altered", "04 twice", f"00 {ballots[0].party}"}
    assert box.ahead
    late = Far({**box.ballots, "99 late": seal(ballots[1].contents, election, "late").sealed})
    del late.ballots["04 twice"]
    same(tally_box(election, late, Options(previous=outcome)), tally_box(election, Near(late), Options(previous=alone)))
    same(tally_box(election, late, Options(previous=outcome)), tally_box(election, Near(late)))


def test_a_count_that_begins_anew_is_the_same(election, parties) -> None:
    """Somebody takes a counted ballot away while the box is counted, and leaves another: counting starts again."""
    first, *others = cast_together(election, parties)
    second = seal(first.contents, election, first.party, reason="changed my mind").sealed

    class Moving(Far):
        def open(self, name: str):
            if name == "00" and len(self.opened) == 0:
                self.opened.append(name)
                raise NotFound("moved away")
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
    assert box.opened == ["00"], "everything else was read ahead, the second time as well"
    assert len(box.ahead) >= 2 * len(box.ballots) - AT_ONCE
