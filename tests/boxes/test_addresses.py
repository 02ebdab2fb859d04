"""Addresses of boxes, and passwords that never appear in messages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import oneballot as ob
from oneballot import plugins
from oneballot.boxes import box_at
from oneballot.boxes._address import Address
from oneballot.errors import BoxError, MissingExtra


@pytest.mark.parametrize(
    ("address", "path"),
    [("box", "box"), ("./a b/c", "a b/c"), ("C:/box", "C:/box"), ("file:///srv/a%20box", "/srv/a box")],
)
def test_text_without_a_scheme_is_a_folder(address: str, path: str) -> None:
    box = box_at(address)
    assert isinstance(box, ob.Folder)
    assert box.path == Path(path)
    assert str(box) == path


@pytest.mark.parametrize("address", ["sftp:/host/box", "webdav+https:host", "ann@host:box", "ann:s3cret@host/box"])
def test_a_misspelt_address_is_refused_and_does_not_become_a_folder(address: str) -> None:
    with pytest.raises(BoxError, match="TYPE://HOST/FOLDER") as caught:
        box_at(address)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "name", "shown"),
    [
        ("s3://bucket/a/b/", "s3", "s3://bucket/a/b"),
        ("sftp://ann:pa%2Fss@host:2222/srv/box", "sftp", "sftp://ann@host:2222/srv/box"),
        ("ssh://host/~/box", "sftp", "ssh://host/~/box"),
        ("webdav+https://ann:pass@[::1]:8443/dav", "webdav", "webdav+https://ann@[::1]:8443/dav"),
        ("https://ann:pass@host/box", "http", "https://ann@host/box"),
        ("http://host/a box", "http", "http://host/a%20box"),
        ("memory://m/box", "memory", "memory://m/box"),
    ],
)
def test_the_scheme_selects_the_box_and_the_password_is_not_shown(address: str, name: str, shown: str) -> None:
    box = box_at(address)
    assert type(box).name == name
    assert type(box).name in plugins.names("boxes")
    assert str(box) == shown
    assert "pass" not in repr(box.address)


def test_an_unknown_type_of_box_is_refused_with_the_available_ones() -> None:
    with pytest.raises(BoxError, match=r"unknown box 'gopher'; available: folder, http, memory, s3, sftp, webdav"):
        box_at("gopher://host/box")


@pytest.mark.parametrize(
    ("address", "library", "extra"),
    [
        ("s3://b/x", "s3fs", "s3"),
        ("sftp://h/x", "paramiko", "sftp"),
        ("https://h/x", "httpx", "http"),
        ("webdav+https://h/x", "webdav4.multistatus", "webdav"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, address: str, library: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'oneballot\[{extra}\]'"):
        box_at(address)


@pytest.mark.parametrize(
    "address",
    [
        "sftp://ann:secret/x@host/box",
        "sftp://ann:secret#x@host/box",
        "https://ann:secret?x@host/box",
        "sftp:///secretx",
        "https://host:secretx/box",
        "https://[secretx/box",
        "s3://key:secretx@bucket/box",
        "webdav://ann:secretx@host/",
    ],
)
def test_an_invalid_address_is_not_quoted_in_the_error(address: str) -> None:
    with pytest.raises(BoxError) as caught:
        box_at(address)
    assert "secret" not in str(caught.value)


def test_the_password_is_redacted_from_library_errors() -> None:
    address = Address.parse("https://ann:a%2Fb%20c@host/box")
    assert address.password == "a/b c"
    assert address.redact("login 'a/b c' (a%2Fb%20c) failed") == "login '…' (…) failed"


def test_a_plug_in_can_provide_a_box(tmp_path: Path, monkeypatch) -> None:
    info = tmp_path / "acme_box-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-box\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[oneballot.boxes]\nacme = acme_box:Box\n")
    (tmp_path / "acme_box.py").write_text(
        "from oneballot.boxes.folder import Folder\n\n"
        "class Box(Folder):\n    name = 'acme'\n    def __init__(self, address):\n        self.address = address\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugins.names.cache_clear()
    try:
        assert box_at("acme+tls://anywhere").address == "acme+tls://anywhere"
    finally:
        plugins.names.cache_clear()
        plugins.find.cache_clear()
