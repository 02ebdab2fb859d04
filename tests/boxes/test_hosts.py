"""Hosts of boxes that misbehave or are malicious, and credentials for them."""

from __future__ import annotations

import time

import pytest

import oneballot as ob
from oneballot.boxes import _remote, _retry, _transfer, box_at, http
from oneballot.boxes._remote import PROBE
from oneballot.errors import AlreadyCast, BoxError, NotFound, OneBallotWarning
from oneballot.party.cast import cast_together
from oneballot.runtime.files import PART
from oneballot.runtime.progress import report_progress_to
from oneballot.server import prefetch
from oneballot.server.tally import tally_box

from .conftest import PASSWORD, USER
from .servers import GREETED, basic


def test_malicious_file_names_of_a_host_are_ignored(place_of) -> None:
    sftp, s3, web = place_of("sftp"), place_of("s3"), place_of("http")
    for place in (sftp, s3, web):
        place.put("hostile", "good.ballot", b"12345")
    s3.put("hostile/..", "evil.ballot", b"?")
    s3.put("hostile", "..\\evil.ballot", b"?")
    links = (
        "../evil.ballot",
        "http://127.0.0.1:1/evil.ballot",
        "//evil/evil.ballot",
        "%2e%2e%2fevil.ballot",
        "x/y.ballot",
    )
    web.put("hostile", "index.html", "".join(f'<a href="{link}">.</a>' for link in (*links, "good.ballot")).encode())
    for place in (sftp, s3, web):
        box = box_at(place.address("hostile"))
        assert list(box.names()) == [("good", 5)]
        for name in ("../evil", "..\\evil", "a\nb", ".hidden", "x" * 300):
            with pytest.raises(NotFound, match="not the name of a ballot"):
                box.open(name)


def test_a_ballot_of_absurd_size_is_spoiled_before_it_is_read(place_of, election, parties) -> None:
    place, ballots = place_of("http"), cast_together(election, parties)
    for ballot in ballots:
        place.put("hostile/sizes", f"{ballot.party}.ballot", ballot.sealed)
    place.put("hostile/sizes", "absurd.ballot", b"?")
    outcome = tally_box(election, box_at(place.address("hostile/sizes")))
    assert set(outcome.voted) == set(parties)
    assert outcome.spoiled["absurd"].startswith("it has 1,000,000,000,000,000 bytes, but the election allows")


def test_an_unreachable_box_ends_the_tally_and_spoils_no_ballot(place_of, wire, election, parties, monkeypatch) -> None:
    monkeypatch.setattr(prefetch, "AT_ONCE", 1)  # otherwise all ballots are read before the box is lost
    place, ballots = place_of("http"), cast_together(election, parties)
    for ballot in ballots:
        place.put("going", f"{ballot.party}.ballot", ballot.sealed)
    line, address = wire(place, "going")
    box = box_at(address)
    counted = 0

    def lose_connection(what: str, done: int, total: int) -> None:
        nonlocal counted
        if "trying again" in what:
            return
        counted = done
        if done == 2:
            line.cut_down, line.cuts = 0, 10**9

    with (
        report_progress_to(lose_connection),
        pytest.warns(OneBallotWarning, match="trying again"),
        pytest.raises(BoxError, match="Tried 6 times"),
    ):
        tally_box(election, box)
    assert counted == 2
    line.cuts = 0
    assert set(tally_box(election, box).voted) == set(parties)


@pytest.mark.parametrize("page", ["no-token", "no-number"])
def test_an_unparsable_index_page_is_refused(page: str, place_of) -> None:
    with pytest.raises(BoxError, match=f"hostile/{page}: its index page cannot be parsed: [eE]x"):
        list(box_at(place_of("http").address(f"hostile/{page}")).names())


def test_endless_listings_are_refused(place_of, monkeypatch) -> None:
    monkeypatch.setattr(http, "MAX_INDEX_BYTES", 2**20)
    with pytest.raises(BoxError, match="exceeds the limit"):
        list(box_at(place_of("http").address("hostile/endless-index")).names())
    monkeypatch.setattr(_remote, "MAX_FILES", 5)
    for kind in ("s3", "sftp", "webdav"):
        place = place_of(kind)
        for i in range(7):
            place.put("crowd", f"{i}.ballot", b"?")
        with pytest.raises(BoxError, match="more than 5 files"):
            list(box_at(place.address("crowd")).names())


def test_a_download_that_is_too_slow_is_abandoned(place_of, monkeypatch) -> None:
    monkeypatch.setattr(_transfer, "GRACE", 0.5)
    began = time.monotonic()
    with (
        box_at(place_of("http").address("hostile")).open("dripping") as file,
        pytest.raises(BoxError, match="too slow"),
    ):
        file.read()
    assert time.monotonic() - began < 5


def test_a_server_that_overwrites_files_causes_a_warning(place_of) -> None:
    place = place_of("http")
    with pytest.warns(OneBallotWarning, match="ignores If-None-Match"):
        box_at(place.address("forgetful")).deliver("a", b"first")
    with pytest.raises(AlreadyCast):  # existing ballots are found before sending, so only a race can replace one
        box_at(place.address("forgetful")).deliver("a", b"second")
    assert place.files("forgetful") == {"a.ballot": b"first"}


def test_an_overwriting_server_is_refused_if_it_is_write_only(place_of) -> None:
    """A second ballot could replace the first unnoticed, so not even the first is sent."""
    place = place_of("http")
    with pytest.raises(BoxError, match="none was sent"):
        box_at(place.address("forgetful/dropbox")).deliver("a", b"ballot")
    assert place.files("forgetful/dropbox") == {}


def test_a_server_that_denies_dot_files_is_probed_all_the_same(place_of) -> None:
    place = place_of("http")
    with pytest.raises(BoxError, match=r"ignores If-None-Match.*none was sent"):
        box_at(place.address("forgetful/dropbox/dotless")).deliver("a", b"ballot")
    assert place.files("forgetful/dropbox/dotless") == {}


@pytest.mark.parametrize("kind", ["s3", "http"])
def test_the_probe_file_is_not_listed_as_a_ballot(place_of, kind: str) -> None:
    place = place_of(kind)
    box_at(place.address("probed")).deliver("a", b"ballot")
    assert set(place.all_files("probed")) == {"a.ballot", PROBE}
    assert list(box_at(place.address("probed")).names()) == [("a", 6)]
    assert _remote.leftover_parts(f"{PART}probe.0123456789abcdef", [PROBE]) == []
    if kind == "http":
        assert list(ob.Folder(place.inside("probed")).names()) == [("a", 6)], "a tally on the server itself"


@pytest.mark.parametrize("status", [403, 404, 405])
def test_a_server_that_refuses_the_probe_is_used_only_if_it_is_readable(place_of, status: int) -> None:
    place, box = place_of("http"), f"ballots only {status}"
    box_at(place.address(box)).deliver("a", b"ballot")
    assert place.all_files(box) == {"a.ballot": b"ballot"}
    with pytest.raises(AlreadyCast):
        box_at(place.address(box)).deliver("a", b"other")
    words = f"refuses {PROBE} .*responds {status} .*Ask the operator to let you write that file or read"
    with pytest.raises(BoxError, match=words):
        box_at(place.address(f"dropbox/{box}")).deliver("a", b"ballot")
    assert place.all_files(f"dropbox/{box}") == {}


def test_s3_works_with_the_least_permissions(place_of) -> None:
    """With only s3:PutObject on ballots and the probe, a ballot is delivered; on ballots only, it is refused."""
    place = place_of("s3")
    denied = {"head_object", "list_multipart_uploads"}

    def delivering(box) -> None:
        call = box._call

        def with_few_rights(method: str, file: str | None = None, **words):
            if method in denied or file in denied:
                raise PermissionError("Access Denied")
            return call(method, file, **words)

        box._call = with_few_rights
        box.deliver("a", b"ballot")

    delivering(box_at(place.address("few rights")))
    assert place.all_files("few rights") == {"a.ballot": b"ballot", PROBE: b"oneballot\n"}
    denied.add(PROBE)
    with pytest.raises(BoxError, match=rf"refuses {PROBE} \(Access Denied\).*none was sent"):
        delivering(box_at(place.address("fewer rights")))
    assert place.all_files("fewer rights") == {}


def test_a_busy_server_is_not_mistaken_for_a_write_only_one(place_of, monkeypatch) -> None:
    place = place_of("http")
    calm = place.folder / "calm"
    calm.unlink(missing_ok=True)
    monkeypatch.setattr(_retry.time, "sleep", lambda seconds: calm.touch())
    with pytest.warns(OneBallotWarning) as caught:
        box_at(place.address("busy/forgetful")).deliver("a", b"ballot")
    assert [text in str(one.message) for one, text in zip(caught, ("503", "If-None-Match"), strict=True)] == [
        True,
        True,
    ]
    assert place.files("busy/forgetful") == {"a.ballot": b"ballot"}


def test_the_server_is_also_probed_for_large_ballots(place_of) -> None:
    with pytest.warns(OneBallotWarning, match="ignores If-None-Match"):
        box_at(place_of("http").address("forgetful/large")).deliver("a", bytes(2**21))


def test_a_party_whose_ballot_was_overwritten_by_a_simultaneous_one_gets_an_error(place_of) -> None:
    place = place_of("webdav")
    box = box_at(place.address("both"))
    clean_up = box._clean_up
    box._clean_up = lambda *args: (place.put("both", "a.ballot", b"theirs"), clean_up(*args))
    with pytest.raises(AlreadyCast, match="at the same moment"):
        box.deliver("a", b"mine")


def test_a_partial_ballot_that_a_server_kept_is_recognised(place_of) -> None:
    place = place_of("http")
    place.put("careless", "a.ballot", b"half of")
    with pytest.raises(BoxError, match="only the first 7 of 15 bytes"):
        box_at(place.address("careless")).deliver("a", b"half of a whole")


def test_a_write_only_box_accepts_a_ballot_once(place_of) -> None:
    box = box_at(place_of("http").address("dropbox"))
    box.deliver("a", b"ballot")
    assert place_of("http").files("dropbox") == {"a.ballot": b"ballot"}
    for look in (lambda: list(box.names()), lambda: box.open("a")):
        with pytest.raises(NotFound, match="403"):
            look()
    with pytest.raises(AlreadyCast, match="may not be read from here"):
        box.deliver("a", b"ballot")


def test_permanent_status_codes_are_reported_and_transient_ones_retried(place_of, monkeypatch) -> None:
    place = place_of("http")
    with pytest.raises(BoxError, match=r"307 .*use the address that it redirects to"):
        box_at(place.address("redirected")).deliver("a", b"?")
    with pytest.raises(BoxError, match="403"):
        box_at(place.address("readonly")).deliver("a", b"?")
    place.put("busy", "a.ballot", b"ballot")
    (place.folder / "calm").unlink(missing_ok=True)
    monkeypatch.setattr(_retry.time, "sleep", lambda seconds: (place.folder / "calm").touch())
    with pytest.warns(OneBallotWarning, match="503"), box_at(place.address("busy")).open("a") as file:
        assert file.read() == b"ballot"


def test_credentials_come_from_the_address_or_from_netrc(place_of) -> None:
    place = place_of("http")
    with pytest.raises(BoxError, match=r"401 .*netrc"):
        box_at(place.address("locked")).deliver("a", b"?")
    with_password = place.address("locked").replace("://", f"://{USER}:{PASSWORD.replace('/', '%2F')}@")
    box_at(with_password).deliver("a", b"ballot")
    netrc = place.home / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
    netrc.chmod(0o600)
    assert list(box_at(place.address("locked")).names()) == [("a", 6)]
    dav = place_of("webdav")
    address = dav.address("netrc").replace(dav.address("").partition("127.")[0], f"webdav+http://{USER}@")
    box_at(address).deliver("a", b"ballot")
    assert dav.files("netrc") == {"a.ballot": b"ballot"}


def test_credentials_come_from_the_configuration_of_fsspec(place_of, monkeypatch) -> None:
    import fsspec.config

    for kind, configured in {"sftp": {"password": PASSWORD}, "webdav": {"auth": [USER, PASSWORD]}}.items():
        place = place_of(kind)
        address = place.address("configured").replace(f":{PASSWORD.replace('/', '%2F')}@", "@")
        assert PASSWORD[:6] not in address
        with pytest.raises(BoxError):
            box_at(address).deliver("a", b"?")
        monkeypatch.setitem(fsspec.config.conf, kind, configured)
        box_at(address).deliver("a", b"ballot")
        assert place.files("configured") == {"a.ballot": b"ballot"}


def test_http_headers_come_from_the_configuration_of_fsspec(place_of, monkeypatch) -> None:
    import fsspec.config

    place = place_of("http")
    address = place.address("locked/by header")
    with pytest.raises(BoxError, match="401"):
        box_at(address).deliver("a", b"?")
    monkeypatch.setitem(fsspec.config.conf, "http", {"client_kwargs": {"headers": {"Authorization": basic()}}})
    box_at(address).deliver("a", b"ballot")
    assert place.files("locked/by header") == {"a.ballot": b"ballot"}


def test_unknown_hosts_and_wrong_host_keys_are_refused(place_of, monkeypatch) -> None:
    monkeypatch.setattr(_retry, "DELAYS", (600.0,))
    place = place_of("sftp")
    address = place.address("known")
    known = place.home / ".ssh" / "known_hosts"
    theirs = known.read_text()
    known.write_text("")
    with pytest.raises(BoxError, match="not found in known_hosts"):
        box_at(address).deliver("a", b"?")
    import paramiko

    other = paramiko.ECDSAKey.generate()
    known.write_text(f"{theirs.split()[0]} {other.get_name()} {other.get_base64()}\n")
    with pytest.raises(BoxError, match="does not match"):
        box_at(address).deliver("a", b"?")
    assert place.files("known") == {}


def test_a_shell_greeting_instead_of_sftp_is_reported(place_of) -> None:
    address = place_of("sftp").address("greeted").replace(f"{USER}:", f"{GREETED}:")
    with pytest.raises(BoxError, match="does not respond with SFTP; check that its shell"):
        box_at(address).deliver("a", b"?")


def test_sftp_uses_ssh_config_and_folders_below_home(place_of) -> None:
    place = place_of("sftp")
    place.address("home")
    (place.home / ".ssh" / "config").write_text(f"Host box\n  HostName 127.0.0.1\n  Port {place.port}\n  User {USER}\n")
    box_at(f"sftp://:{PASSWORD.replace('/', '%2F')}@box/~/home").deliver("a", b"ballot")
    assert place.files("home") == {"a.ballot": b"ballot"}


def test_the_memory_box_is_shared_within_the_process() -> None:
    box_at("memory://notebook/box").deliver("a", b"ballot")
    with pytest.raises(AlreadyCast):
        box_at("memory://notebook/box").deliver("a", b"other")
    box = ob.box_at("memory://notebook/box")
    assert list(box.names()) == [("a", 6)]
    with box.open("a") as file:
        assert file.read() == b"ballot"
    with pytest.raises(NotFound):
        list(box_at("memory://elsewhere").names())
