"""A box on a WebDAV server, `webdav+https://HOST/FOLDER`: Nextcloud, ownCloud, Apache and many institutes' storage.

A ballot is stored under a temporary name and then moved with `Overwrite: F` (RFC 4918, 9.9.4), so readers never see
part of it and the server refuses to replace a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import ClassVar
from urllib.parse import urlsplit

from ..errors import BoxError
from ._remote import leftover_parts
from ._web import StatusError, WebBox, check_status

MAX_LISTING_BYTES = 128 * 2**20
PROPERTIES = "<propfind xmlns='DAV:'><prop><resourcetype/><getcontentlength/></prop></propfind>"


class WebDav(WebBox):
    name: ClassVar[str] = "webdav"
    extra: ClassVar[str] = "webdav"

    def _prepare(self) -> None:
        from fsspec.config import conf
        from webdav4.multistatus import MultiStatusResponse

        if self.address.scheme not in ("webdav+https", "webdav+http"):
            raise BoxError(
                f"write webdav+https:// (or webdav+http://, which is not encrypted) instead of {self.address.scheme}://"
            )
        self._parse_listing = MultiStatusResponse
        self._connect(conf.get("webdav", {}))

    def _list(self) -> Iterator[tuple[str, int]]:
        reply = self._request("PROPFIND", content=PROPERTIES, Depth="1", Content_Type="application/xml")
        listing = self._read_listing(reply, MAX_LISTING_BYTES)
        try:
            for entry in self._parse_listing(listing.decode()).responses.values():
                file = self._linked_file(entry.href)
                if file is not None and not entry.properties.collection:
                    yield file, entry.properties.content_length or 0
        except (SyntaxError, ValueError, AssertionError, KeyError) as error:  # what untrusted XML may raise
            raise BoxError(f"{self} does not respond with a WebDAV listing: {error}") from None

    def _upload(self, file: str, sealed: bytes, part: str, report: Callable[[int], None]) -> None:
        self._check_free(file)
        try:
            self._put(part, sealed, report)
        except (FileNotFoundError, StatusError) as error:
            if isinstance(error, StatusError) and error.status != 409:
                raise
            self._make_folder(self._url())
            self._put(part, sealed, report)
        try:
            self._send("MOVE", part, Destination=self._url(file), Overwrite="F")
        except FileNotFoundError:
            self._check_free(file)  # a simultaneous delivery was first, and removed this part
            raise

    def _check_free(self, file: str) -> None:
        with suppress(FileNotFoundError, PermissionError, StatusError):  # reading may be forbidden
            self._send("HEAD", file)
            raise FileExistsError

    def _make_folder(self, url: str) -> None:
        """Create a folder, after its missing parents: then servers respond 409 (RFC 4918, 9.3.1), some 404."""
        reply = self._client.request("MKCOL", url)
        parent = url.rstrip("/").rpartition("/")[0]
        if reply.status_code in (404, 409) and urlsplit(parent).path:
            self._make_folder(f"{parent}/")
            reply = self._client.request("MKCOL", url)
        if reply.status_code != 405:  # 405: it exists
            check_status(reply.status_code, reply.reason_phrase)

    def _clean_up(self, file: str, part: str) -> None:
        for name in leftover_parts(part, (name for name, _ in self._list())):
            with suppress(OSError):
                self._send("DELETE", name)


plugin = WebDav
