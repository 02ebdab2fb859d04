"""Boxes: the places where parties deliver ballots and the server reads them.

One module per type of box. `box_at` finds the type by the address. Modules with a leading underscore hold what remote
boxes share. Only the party, the server, the integrations and the command line import this package.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from .. import plugins
from ..errors import BoxError, ElectionError
from ..interfaces import Box
from .folder import Folder

ALIASES = {"file": "folder", "https": "http", "ssh": "sftp", "dav": "webdav"}
"""Address schemes whose box has another name. Of `webdav+https`, only the part before the + counts."""


def box_at(address: str) -> Box:
    """The box at an address: `box/`, `s3://bucket/box`, `sftp://host/box`, `webdav+https://host/box`, …

    Text without `://` is the path of a folder. A plug-in of the group `oneballot.boxes` is found by its name, and its
    class is called with the address. The box connects when it is first used.
    """
    scheme, separator, _ = address.partition("://")
    if not separator:
        _check_folder(address)
        return Folder(address)
    prefix = scheme.lower().partition("+")[0]
    name = ALIASES.get(prefix, prefix)
    if name == "folder":
        from urllib.request import url2pathname

        return Folder(url2pathname(urlsplit(address).path))  # file:///C:/box is C:\box on Windows
    try:
        box_type = plugins.find("boxes", name)
    except ElectionError as error:
        raise BoxError(str(error)) from None
    box: Box = box_type(address)
    return box


def _check_folder(path: str) -> None:
    """Reject `sftp:/host/box` and scp's `host:box`: a ballot in a local folder of that name would be lost."""
    prefix, colon, _ = path.partition("/")[0].partition(":")
    if colon and len(prefix) > 1:  # C:/box is a folder; the path is not quoted, as it may hold a password
        raise BoxError(
            "the box looks like an address but is not a valid one: write TYPE://HOST/FOLDER with two slashes, such as "
            "sftp://HOST/FOLDER instead of HOST:FOLDER. Write ./NAME for a folder with a colon in its name"
        )
