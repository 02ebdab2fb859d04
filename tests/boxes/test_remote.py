"""Boxes on real servers: ballots are complete or absent and never replaced, despite lost connections and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress

import pytest

from oneballot.boxes import _retry, box_at
from oneballot.boxes._remote import PROBE
from oneballot.errors import AlreadyCast, BoxError, NotFound, OneBallotWarning
from oneballot.runtime.files import PART
from oneballot.runtime.progress import report_progress_to

BIG = 3 * 2**20
HUGE = 20 * 2**20
"""Sent in several parts by S3."""


def random_bytes(size: int) -> bytes:
    return os.urandom(size)


def read(box, name: str) -> bytes:
    with box.open(name) as file:
        return file.read()


def test_a_delivered_ballot_is_listed_with_its_size(place) -> None:
    box = box_at(place.address("a box/deep"))
    box.deliver("a", b"ballot")
    assert list(box.names()) == [("a", 6)]
    assert read(box, "a") == b"ballot"
    assert place.files("a box/deep") == {"a.ballot": b"ballot"}


def test_delivering_the_same_bytes_again_succeeds_and_other_bytes_are_refused(place) -> None:
    for _ in range(2):
        box_at(place.address("twice")).deliver("a", b"first")
    with pytest.raises(AlreadyCast, match="never replaced"):
        box_at(place.address("twice")).deliver("a", b"second")
    assert place.files("twice") == {"a.ballot": b"first"}, "and no leftovers"


def disable_check(box) -> None:
    """Make the check for an existing ballot find nothing, as if a rival delivered between check and delivery."""
    if type(box).name == "s3":
        call = box._call

        def no_head(method: str, *args, **words):
            if method == "head_object":
                raise FileNotFoundError
            return call(method, *args, **words)

        box._call = no_head
    elif type(box).name == "sftp":
        size, looks = box._size, iter([None])
        box._size = lambda file: next(looks, size(file)) if file == "a.ballot" else size(file)
    elif type(box).name == "webdav":
        send = box._send
        box._send = lambda method, *args, **more: (
            (_ for _ in ()).throw(FileNotFoundError) if method == "HEAD" else send(method, *args, **more)
        )
    else:
        box._check_free = lambda file: True


@pytest.mark.parametrize("size", [1_000, 9 * 2**20])
def test_the_server_itself_refuses_to_replace_a_ballot(place, size: int) -> None:
    """The ballot must be safe without the check before the delivery."""
    if size > 1_000 and place.kind != "s3":
        pytest.skip("sends no parts")
    first = random_bytes(size)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OneBallotWarning)  # the server does not overwrite
        box_at(place.address(f"rivals {size}")).deliver("a", first)
    rival = box_at(place.address(f"rivals {size}"))
    disable_check(rival)
    with pytest.raises(AlreadyCast, match="never replaced"):
        rival.deliver("a", random_bytes(size))
    assert place.files(f"rivals {size}") == {"a.ballot": first}


def test_large_ballots_arrive_complete_and_report_progress(place) -> None:
    data, reported = random_bytes(9 * 2**20), []
    box = box_at(place.address("large"))
    with report_progress_to(lambda *step: reported.append(step)):
        box.deliver("a", data)
        with pytest.raises(AlreadyCast):
            box.deliver("a", data[:-1] + bytes([data[-1] ^ 1]))
        assert read(box, "a") == data
    for what in ("sending a.ballot (MiB)", "receiving a.ballot (MiB)"):
        steps = [done for text, done, total in reported if text == what and total == 9]
        assert len(set(steps)) > 1
        assert steps[-1] == 9
    assert set(place.files("large")) == {"a.ballot"}


@pytest.mark.parametrize("kind", ["sftp", "http", "memory"])
def test_exactly_one_of_several_simultaneous_deliveries_succeeds(place_of, kind: str) -> None:
    """For servers that create files atomically; moto and WsgiDAV check first, then write."""
    address = "memory://many/box" if kind == "memory" else place_of(kind).address("many")
    refused = []

    def deliver(i: int) -> None:
        try:
            box_at(address).deliver("a", b"%d" % i * 100_000)
        except AlreadyCast:
            refused.append(i)

    threads = [threading.Thread(target=deliver, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (survivor,) = {*range(6)} - {*refused}
    assert read(box_at(address), "a") == b"%d" % survivor * 100_000


def test_a_missing_box_and_a_missing_ballot_are_reported(place) -> None:
    box = box_at(place.address("nowhere"))
    if place.kind == "s3":  # folders of a bucket always exist
        assert list(box.names()) == []
    else:
        with pytest.raises(NotFound, match="cannot list"):
            list(box.names())
    with pytest.raises(NotFound, match=r"cannot read a\.ballot"):
        box.open("a")


def test_files_that_are_not_ballots_are_ignored(place) -> None:
    for name in (f"{PART}a.0123456789abcdef", PROBE, "notes.txt", "a.ballot.part", ".a.ballot", "ok (1).ballot"):
        place.put("mixed", name, b"?")
    place.put("mixed/below", "b.ballot", b"?")
    assert list(box_at(place.address("mixed")).names()) == [("ok (1)", 1)]
    assert read(box_at(place.address("mixed")), "ok (1)") == b"?"
    with pytest.raises(NotFound, match="not the name of a ballot"):
        box_at(place.address("mixed")).open("../mixed/ok (1)")


DELIVER = "import sys; from oneballot.boxes import box_at; box_at(sys.argv[1]).deliver('a', sys.stdin.buffer.read())"


def test_a_killed_delivery_is_never_visible_and_does_not_block_the_next(place, wire) -> None:
    size = HUGE if place.kind == "s3" else BIG
    box, data = box_at(place.address("killed")), random_bytes(size)
    line, slow = wire(place, "killed", rate=size / 4)
    writer = subprocess.Popen([sys.executable, "-c", DELIVER, slow], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    threading.Thread(target=lambda: (writer.stdin.write(data), writer.stdin.close()), daemon=True).start()
    looks = 0
    try:
        while line.up < size / 2:
            assert writer.poll() is None
            with suppress(NotFound):
                assert list(box.names()) == []
            looks += line.up > 2**16
            time.sleep(0.02)
    finally:
        os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    assert looks, "the box was listed during the delivery"
    time.sleep(0.3)
    assert "a.ballot" not in place.files("killed")
    box_at(place.address("killed")).deliver("a", data)
    left = {name: found for name, found in place.files("killed").items() if not name.startswith(".put-")}
    assert left == {"a.ballot": data}, "leftovers are removed"


def test_parts_of_a_killed_s3_upload_are_removed(place_of) -> None:
    from .conftest import client

    place = place_of("s3")
    s3 = client(place.port)
    s3.create_multipart_upload(Bucket="bucket", Key="pieces/a.ballot")
    s3.create_multipart_upload(Bucket="bucket", Key="pieces/a.ballot.b.ballot")
    box_at(place.address("pieces")).deliver("a", b"ballot")
    left = s3.list_multipart_uploads(Bucket="bucket", Prefix="pieces/")["Uploads"]
    assert [upload["Key"] for upload in left] == ["pieces/a.ballot.b.ballot"]


def test_an_upload_is_retried_after_a_lost_connection(place, wire) -> None:
    data = random_bytes(BIG)
    line, address = wire(place, "cut up", cut_up=BIG / 2, cuts=2, rate=BIG)
    with pytest.warns(OneBallotWarning, match="trying again"):
        box_at(address).deliver("a", data)
    assert line.done == 2
    assert place.files("cut up") == {"a.ballot": data}
    if place.kind == "sftp":
        assert line.up < 1.5 * BIG, "it went on where it was cut"


def test_only_the_current_part_of_an_s3_upload_is_sent_again(place_of, wire) -> None:
    place, data = place_of("s3"), random_bytes(HUGE)
    line, address = wire(place, "cut pieces", cut_up=HUGE * 0.7, cuts=1)
    box_at(address).deliver("a", data)
    assert line.done == 1
    assert place.files("cut pieces") == {"a.ballot": data}
    assert line.up < 1.5 * HUGE


def test_a_lost_reply_does_not_make_a_ballot_conflict_with_itself(place_of, wire) -> None:
    """The server has the ballot, and the line is cut before it says so."""
    place = place_of("http")
    line, address = wire(place, "lost", cut_down=-1, cuts=3)
    with pytest.warns(OneBallotWarning, match="trying again"):
        box_at(address).deliver("a", b"ballot")
    assert line.done == 3
    assert place.files("lost") == {"a.ballot": b"ballot"}


def test_a_download_resumes_after_a_lost_connection(place, wire) -> None:
    data = random_bytes(BIG)
    place.put("cut down", "a.ballot", data)
    line, address = wire(place, "cut down", cut_down=BIG / 2, cuts=2)
    with pytest.warns(OneBallotWarning, match="trying again"):
        assert read(box_at(address), "a") == data
    assert line.done == 2
    assert line.down < 1.5 * BIG


def test_a_download_restarts_if_the_server_does_not_support_ranges(place_of, wire) -> None:
    place, data = place_of("http"), random_bytes(BIG)
    place.put("rangeless", "a.ballot", data)
    line, address = wire(place, "rangeless", cut_down=BIG / 2, cuts=1)
    with pytest.warns(OneBallotWarning, match="trying again"):
        assert read(box_at(address), "a") == data
    assert line.down > 1.4 * BIG


def test_a_file_that_changes_during_the_download_is_refused(place, wire) -> None:
    place.put("changed", "a.ballot", random_bytes(BIG))
    _, address = wire(place, "changed", cut_down=BIG / 2, cuts=1)
    with box_at(address).open("a") as file:
        file.read(2**16)
        time.sleep(1.1 if place.kind != "s3" else 0)  # their clocks have seconds
        place.put("changed", "a.ballot", random_bytes(BIG))
        with (
            pytest.raises(BoxError, match="changed during the download"),
            pytest.warns(OneBallotWarning, match="trying again"),
        ):
            file.read()


def test_an_unreachable_server_is_tried_a_few_times(place, monkeypatch) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")
    monkeypatch.setattr(_retry, "DELAYS", (0.01, 0.02))
    box = box_at(place.address("away", port))
    with (
        pytest.warns(OneBallotWarning),
        pytest.raises(BoxError, match=r"Tried 3 times; check the connection") as caught,
    ):
        box.deliver("a", b"ballot")
    assert "s3cret" not in str(caught.value)


def test_a_temporary_failure_of_name_resolution_is_retried(place_of, monkeypatch) -> None:
    import socket

    box, look_up = box_at(place_of("sftp").address("looked up")), socket.getaddrinfo
    answers = iter([socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")])

    def failing_once(*args, **words):
        for failure in answers:
            raise failure
        return look_up(*args, **words)

    monkeypatch.setattr(socket, "getaddrinfo", failing_once)
    with pytest.warns(OneBallotWarning, match="Temporary failure in name resolution; trying again"):
        box.deliver("a", b"ballot")
    assert read(box, "a") == b"ballot"


def test_a_wrong_password_is_reported_at_once_and_not_quoted(place_of, monkeypatch) -> None:
    monkeypatch.setattr(_retry, "DELAYS", (600.0,))
    for kind in ("sftp", "webdav"):
        box = box_at(place_of(kind).address("denied", password="wr0ng"))
        for work in (
            lambda box=box: box.deliver("a", b"?"),
            lambda box=box: list(box.names()),
            lambda box=box: box.open("a"),
        ):
            with pytest.raises(BoxError) as caught:
                work()
            assert not isinstance(caught.value, NotFound)
            assert "wr0ng" not in str(caught.value)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(BoxError, match="credentials"):
        box_at(place_of("s3").address("denied")).deliver("a", b"?")


def test_a_missing_bucket_is_reported_at_once(place_of, monkeypatch) -> None:
    monkeypatch.setattr(_retry, "DELAYS", (600.0,))
    place_of("s3")
    with pytest.raises(BoxError, match="bucket does not exist") as caught:
        list(box_at("s3://nobucket/box").names())
    assert not isinstance(caught.value, NotFound)
