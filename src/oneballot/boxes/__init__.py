"""Where ballots are put: one file a kind of place, found by the first word of its address."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from .. import plugins
from ..errors import BoxError, ElectionError
from ..interfaces import Box
from .folder import Folder

SPELLINGS = {"file": "folder", "https": "http", "ssh": "sftp", "dav": "webdav"}
"""First words of addresses that lead to a box of another name. Of `webdav+https` the part before the + is looked up."""


def box_at(address: str) -> Box:
    """The box at an address: `box/`, `s3://bucket/box`, `sftp://host/box`, `webdav+https://host/box`, …

    What does not look like an address is a folder. A plug-in of the group `oneballot.boxes` is found by its name, and
    its class is given the address. Nothing is connected to before the box is used.
    """
    scheme, found, _ = address.partition("://")
    if not found:
        _check_folder(address)
        return Folder(address)
    word = scheme.lower().partition("+")[0]
    name = SPELLINGS.get(word, word)
    if name == "folder":
        return Folder(unquote(urlsplit(address).path))
    try:
        kind = plugins.find("boxes", name)
    except ElectionError as error:
        raise BoxError(str(error)) from None
    box: Box = kind(address)
    return box


def _check_folder(name: str) -> None:
    """`sftp:/host/box` and scp's `host:box` would be folders here, and a ballot in them lost. (`C:/box` is one.)"""
    before, colon, _ = name.partition("/")[0].partition(":")
    if colon and len(before) > 1:  # not repeated: there may be a password in it
        raise BoxError(
            "the box looks like an address, and is none: write KIND://HOST/FOLDER, with two slashes, as in "
            "sftp://HOST/FOLDER and not HOST:FOLDER. A folder with a colon in its name is ./NAME"
        )
