"""Prefetching from real servers: the same outcome, also with lost connections and vanishing files."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.boxes import box_at
from oneballot.errors import BoxError, OneBallotWarning
from oneballot.runtime.progress import report_progress_to
from oneballot.server import prefetch
from oneballot.server.prefetch import Prefetcher
from oneballot.server.tally import tally_box

COUNT = 40


@pytest.fixture(scope="module")
def sealed() -> tuple[ob.Election, dict[str, bytes]]:
    """Forty ballots with the same votes under different names."""
    public = np.random.default_rng(0).normal(size=(400, 4))
    tree = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 2})
    election = ob.Election(classes=range(10), public=public, learner=tree, method=ob.FedKT(open_vote="hard"))
    cast = ob.cast(election, np.random.default_rng(1).normal(size=(60, 4)), np.arange(60) % 10, party="one")
    return election, {f"p{i:02d}": seal(cast.contents, election, f"p{i:02d}").sealed for i in range(COUNT)}


class Unprefetched:
    concurrent = False

    def __init__(self, far) -> None:
        self.deliver, self.names, self.open = far.deliver, far.names, far.open


def fill(place, box: str, ballots: dict[str, bytes]) -> None:
    for name, data in ballots.items():
        place.put(box, f"{name}.ballot", data)


def contents(outcome: ob.Outcome) -> tuple[object, ...]:
    return outcome.summary(), outcome.model.dump(), outcome.count.sums["votes"].tobytes()


def test_prefetching_gives_the_same_outcome_as_reading_one_by_one(place, sealed) -> None:
    election, ballots = sealed
    bad = {"p07": ballots["p07"][:-9], "p20": b"", "p31": ballots["p31"][:99] + b"!" + ballots["p31"][100:]}
    fill(place, "ahead", ballots | bad)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*trying again", OneBallotWarning)
        outcome = tally_box(election, box_at(place.address("ahead")))
    assert contents(outcome) == contents(tally_box(election, Unprefetched(box_at(place.address("ahead")))))
    assert set(outcome.spoiled) == set(bad)
    assert len(outcome.voted) == COUNT - 3


def test_only_a_ballot_that_vanishes_during_the_count_is_spoiled(place, sealed) -> None:
    election, ballots = sealed
    fill(place, "vanishing", ballots)

    def vanish(what: str, done: int, total: int) -> None:
        if done == 0:
            if place.kind == "s3":
                from .conftest import client

                client(place.port).delete_object(Bucket="bucket", Key="vanishing/p30.ballot")
            else:
                (place.inside("vanishing") / "p30.ballot").unlink(missing_ok=True)

    with report_progress_to(vanish):
        outcome = tally_box(election, box_at(place.address("vanishing")))
    assert list(outcome.spoiled) == ["p30"]
    assert "it cannot be read: cannot read p30.ballot in" in outcome.spoiled["p30"]
    assert len(outcome.voted) == COUNT - 1


def test_lost_connections_during_prefetching_spoil_no_ballot(place, wire: Callable, sealed) -> None:
    election, ballots = sealed
    fill(place, "cut ahead", ballots)
    total = sum(map(len, ballots.values()))
    line, address = wire(place, "cut ahead", cut_down=total / 3, cuts=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)  # the counting thread meets one only by chance
        outcome = tally_box(election, box_at(address))
    assert line.done == 2
    assert not outcome.spoiled
    assert len(outcome.voted) == COUNT
    assert contents(outcome) == contents(tally_box(election, Unprefetched(box_at(place.address("cut ahead")))))


def test_a_large_ballot_reports_progress_and_resumes_after_a_lost_connection(place, wire, monkeypatch) -> None:
    monkeypatch.setattr(prefetch, "MAX_BYTES", 2**20)
    large = np.random.default_rng(0).bytes(9 * 2**20)
    fill(place, "large ahead", {"a": b"1", "b": large, "c": b"3"})
    line, address = wire(place, "large ahead", cut_down=4 * 2**20, cuts=1)
    steps = []
    with (
        pytest.warns(OneBallotWarning, match=r"cannot read b\.ballot .* trying again"),
        report_progress_to(lambda *step: steps.append(step)),
        Prefetcher(box_at(address)) as source,
    ):
        assert [source.read(name) for name in source.names_in_order(10**9)] == [b"1", large, b"3"]
    assert len({done for what, done, _ in steps if what == "receiving b.ballot (MiB)"}) > 1
    most = 3.5 if place.kind == "sftp" else 1.5  # a piece of 8 MiB is sent again, and paramiko may request it twice
    assert line.down < most * len(large), "the download resumed"


def test_an_sftp_channel_that_timed_out_is_not_used_again(place_of, wire) -> None:
    """The rest of a reply that timed out would be taken for the next reply."""
    place, data = place_of("sftp"), np.random.default_rng(0).bytes(2**20)
    fill(place, "late", {"a": data, "b": b"ballot"})
    line, address = wire(place, "late")
    box = box_at(address)
    with box.open_once("a") as file:
        file.read(2**16)
        channel = box._thread.sftp.get_channel()
        channel.settimeout(0.2)
        line.flows.clear()
        with pytest.raises(BoxError, match="Tried 1 times"):
            file.read()
        assert channel.closed
    line.flows.set()
    with box.open_once("b") as file:
        assert file.read() == b"ballot"


def test_concurrent_sftp_downloads_use_separate_channels(place_of, sealed) -> None:
    place = place_of("sftp")
    fill(place, "channels", sealed[1])
    box = box_at(place.address("channels"))
    with Prefetcher(box) as source:
        for name in source.names_in_order(10**9):
            assert source.read(name) == sealed[1][name]
        channels = box._client.get_transport()._channels.values()
        assert 2 <= len(channels) <= 1 + prefetch.AT_ONCE
