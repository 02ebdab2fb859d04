"""A box on a WebDAV server, `webdav+https://HOST/FOLDER`: Nextcloud, ownCloud, Apache, and many institutes' storage.

A ballot is put under another name, then moved to its own with `Overwrite: F` (RFC 4918, 9.9.4): readers see all of it
or nothing, and the server refuses to replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

from ..errors import BoxError
from . import _web
from ._patience import passes
from ._remote import Remote, left_by

MOST_LISTING = 128 * 2**20
ENTRIES = "<propfind xmlns='DAV:'><prop><resourcetype/><getcontentlength/></prop></propfind>"


class WebDav(Remote):
    name: ClassVar[str] = "webdav"
    extra: ClassVar[str] = "webdav"
    looks_back: ClassVar[bool] = True

    def _prepare(self) -> None:
        import httpx
        from fsspec.config import conf
        from webdav4.fsspec import WebdavFileSystem

        if self.address.scheme not in ("webdav+https", "webdav+http"):
            raise BoxError(
                f"write webdav+https:// (or webdav+http://, which hides nothing) instead of {self.address.scheme}://"
            )
        told = conf.get("webdav", {}).get("auth")
        who = _web.name_and_password(self.address) or (tuple(told) if told else None)
        waits = httpx.Timeout(_web.SILENCE, connect=_web.CONNECT)
        try:
            files = WebdavFileSystem(_web.url(self.address), auth=who, timeout=waits, skip_instance_cache=True)
        except OSError as error:  # nothing was connected to yet
            raise BoxError(
                f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read: {error}"
            ) from None
        self._web: Any = files.client.http
        self.failures = (OSError, httpx.HTTPError, httpx.StreamError)
        self._cuts = (httpx.TransportError,)

    def _disconnect(self) -> None:
        """Its pool of connections is left: those that are broken are dropped by themselves."""

    def __del__(self) -> None:
        with suppress(Exception):
            self._web.close()

    def _ask(self, method: str, file: str = "", *, content: Any = None, **headers: str) -> Any:
        """An answer whose body is still to be read."""
        named = {name.replace("_", "-"): value for name, value in headers.items()} | _web.IDENTITY
        request = self._web.build_request(method, _web.url(self.address, file), content=content, headers=named)
        reply = self._web.send(request, stream=True)
        try:
            _web.check(reply.status_code, reply.reason_phrase)
        except OSError:
            reply.close()
            raise
        return reply

    def _do(self, method: str, file: str = "", **more: Any) -> None:
        self._ask(method, file, **more).close()

    def _list(self) -> Iterator[tuple[str, int]]:
        from webdav4.multistatus import MultiStatusResponse

        reply = self._ask("PROPFIND", content=ENTRIES, Depth="1", Content_Type="application/xml")
        listing = bytearray()
        try:
            for chunk in reply.iter_raw():
                listing += chunk
                if len(listing) > MOST_LISTING:
                    raise BoxError(f"{self} lists files without end")
        finally:
            reply.close()
        try:
            entries = MultiStatusResponse(listing.decode()).responses.values()
            for entry in entries:
                file = _web.file_of(_web.url(self.address), entry.href)
                if file is not None and not entry.properties.collection:
                    yield file, entry.properties.content_length or 0
        except (SyntaxError, ValueError, AssertionError, KeyError) as error:  # whatever a stranger's XML brings about
            raise BoxError(f"{self} answers with no listing of WebDAV: {error}") from None

    def _read(self, file: str, start: int) -> _Body:
        return _Body(self._ask("GET", file, **({"Range": f"bytes={start}-"} if start else {})), start)

    def _place(self, file: str, sealed: bytes, part: str, told: Callable[[int], None]) -> None:
        self._check_free(file)
        try:
            self._put(part, sealed, told)
        except (FileNotFoundError, _web.Answered) as error:
            if (
                isinstance(error, _web.Answered) and error.status != 409
            ):  # 409: there is no such folder (RFC 4918, 9.7.1)
                raise
            self._make_folder()
            self._put(part, sealed, told)
        try:
            self._do("MOVE", part, Destination=_web.url(self.address, file), Overwrite="F")
        except FileNotFoundError:
            self._check_free(file)  # who was first has cleared this part away
            raise

    def _check_free(self, file: str) -> None:
        with suppress(FileNotFoundError, PermissionError, _web.Answered):  # nor must one be allowed to look
            self._do("HEAD", file)
            raise FileExistsError

    def _put(self, part: str, sealed: bytes, told: Callable[[int], None]) -> None:
        def body() -> Iterator[bytes]:
            for start in range(0, len(sealed), 2**18):
                told(start)
                yield sealed[start : start + 2**18]

        self._do("PUT", part, content=body(), Content_Length=str(len(sealed)))

    def _make_folder(self) -> None:
        """The box, and the folders above it that are not there."""
        parts = self.address.path.strip("/").split("/")
        above = _web.url(self.address).removesuffix("/".join(["", *parts, ""]))
        missing = []
        for count in range(len(parts), 0, -1):
            where = "/".join([above, *parts[:count], ""])
            try:
                _web.check((reply := self._web.request("MKCOL", where)).status_code, reply.reason_phrase)
                break
            except (FileNotFoundError, _web.Answered) as error:
                if isinstance(error, _web.Answered) and error.status == 405:  # somebody has made it meanwhile
                    break
                if isinstance(error, _web.Answered) and error.status != 409:
                    raise
                missing.append(where)
        for where in reversed(missing):
            _web.check((reply := self._web.request("MKCOL", where)).status_code, reply.reason_phrase)

    def _tidy(self, file: str, part: str) -> None:
        for left in left_by(part, (name for name, _ in self._list())):
            with suppress(OSError):
                self._do("DELETE", left)

    def _passes(self, error: Exception) -> bool:
        return _web.passes(error) or passes(error, self._cuts)


class _Body:
    """A file on its way, read as it comes; never unpacked."""

    def __init__(self, reply: Any, start: int) -> None:
        self._reply, self._chunks, self._held = reply, reply.iter_raw(), b""
        self._skip = 0 if not start or reply.status_code == 206 else start
        self.size, self.version = _web.length(reply.headers), _web.version(reply.headers)

    def read(self, size: int) -> bytes:
        while not self._held:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._held, self._skip = chunk[self._skip :], max(0, self._skip - len(chunk))
        data, self._held = self._held[:size], self._held[size:]
        return bytes(data)

    def close(self) -> None:
        self._reply.close()


plugin = WebDav
