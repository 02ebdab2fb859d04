"""What boxes behind HTTP share: an httpx client, status codes, credentials, and links to ballots."""

from __future__ import annotations

import netrc
import weakref
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import quote, unquote, urljoin, urlsplit

from ..errors import BoxError
from ._address import Address
from ._remote import Remote
from ._retry import is_transient
from ._transfer import CHUNK

CONNECT_TIMEOUT, READ_TIMEOUT = 30.0, 60.0

_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_ADVICE = {
    401: "it requires another user name and password, from the address or from ~/.netrc",
    405: "it does not accept files this way",
    409: "the folder does not exist; have it created (webdav+https:// creates it)",
    413: "the file is too large for it; ask the operator (nginx: client_max_body_size)",
    501: "it does not accept files this way",
    507: "its disk is full",
}


class StatusError(OSError):
    """The server's response is an error status that no other OSError describes."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def check_status(status: int, reason: str | None) -> None:
    """Raise the OSError that fits a status other than success."""
    if 200 <= status < 300:
        return
    text = f"the server responds {status} {reason or ''}".rstrip()
    if status == 412:
        raise FileExistsError(text)
    if status in (404, 410):
        raise FileNotFoundError(text)
    if status == 403:
        raise PermissionError(text)
    advice = _ADVICE.get(status, "")
    if 300 <= status < 400:
        advice = "use the address that it redirects to"
    raise StatusError(status, f"{text}: {advice}" if advice else text)


class WebBox(Remote):
    """A box behind HTTP. Redirects are not followed: their target is not trusted."""

    refusals = (PermissionError, StatusError)
    verifies: ClassVar[bool] = True

    def _connect(self, settings: Mapping[str, Any]) -> None:
        """Create the client, with settings of fsspec's configuration."""
        import httpx

        self.failures = (OSError, httpx.HTTPError, httpx.StreamError)
        self._transient = (httpx.TransportError,)
        allowed = {key: value for key, value in settings.items() if key in ("cookies", "verify", "cert", "proxy")}
        pair = _credentials(self.address) or settings.get("auth")
        headers = {} if pair is None else {"Authorization": "Basic " + b64encode(":".join(pair).encode()).decode()}
        headers |= settings.get("headers", {})
        headers["Accept-Encoding"] = "identity"  # ballots do not compress, and untrusted data must not expand
        timeout = httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT)
        try:
            self._client: Any = httpx.Client(headers=headers, timeout=timeout, **allowed)
        except OSError as error:
            raise BoxError(f"the certificates in SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {error}") from None
        # Not __del__: in a reference cycle with an exception, the sockets could be finalized before the box.
        weakref.finalize(self, self._client.close)

    def _url(self, file: str = "") -> str:
        """The URL of a file in the box, or of the box itself with a slash at the end."""
        scheme = self.address.scheme.rpartition("+")[2]
        return f"{scheme}://{self.address.netloc}{self.address.path}/{quote(file)}"

    def _request(self, method: str, file: str = "", *, content: Any = None, **headers: str) -> Any:
        """A successful response with its body unread."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        request = self._client.build_request(method, self._url(file), content=content, headers=fields)
        reply = self._client.send(request, stream=True)
        try:
            check_status(reply.status_code, reply.reason_phrase)
        except OSError:
            reply.close()
            raise
        return reply

    def _send(self, method: str, file: str = "", **more: Any) -> None:
        self._request(method, file, **more).close()

    def _put(self, file: str, sealed: bytes, report: Callable[[int], None], **headers: str) -> None:
        def body() -> Iterator[bytes]:
            for start in range(0, len(sealed), CHUNK):
                report(start)
                yield sealed[start : start + CHUNK]

        self._send("PUT", file, content=body(), Content_Length=str(len(sealed)), **headers)

    def _read(self, file: str, start: int) -> _Body:
        return _Body(self._request("GET", file, **({"Range": f"bytes={start}-"} if start else {})), start)

    def _is_transient(self, error: Exception) -> bool:
        status = isinstance(error, StatusError) and error.status in _TRANSIENT
        return status or is_transient(error, self._transient)

    def _read_listing(self, reply: Any, limit: int) -> bytes:
        listing = bytearray()
        try:
            for chunk in reply.iter_raw():
                listing += chunk
                if len(listing) > limit:
                    raise BoxError(f"{self}: its listing exceeds the limit of {limit:,} bytes")
        finally:
            reply.close()
        return bytes(listing)

    def _linked_file(self, link: str) -> str | None:
        """The name of the file in the box that a link leads to, if any."""
        try:
            box, target = urlsplit(self._url()), urlsplit(urljoin(self._url(), link))
        except ValueError:
            return None
        folder, path = unquote(box.path), unquote(target.path)  # servers encode different characters
        if (target.scheme, target.netloc) != (box.scheme, box.netloc) or target.query or not path.startswith(folder):
            return None
        name = path.removeprefix(folder)
        return name if name and "/" not in name else None


class _Body:
    """The body of a response, read in pieces and never decompressed."""

    def __init__(self, reply: Any, start: int) -> None:
        self._reply, self._chunks, self._buffer = reply, reply.iter_raw(), b""
        self._skip = 0 if not start or reply.status_code == 206 else start
        self.size = content_length(reply.headers)
        self.version = reply.headers.get("ETag") or reply.headers.get("Last-Modified") or ""

    def read(self, size: int) -> bytes:
        while not self._buffer:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._buffer, self._skip = chunk[self._skip :], max(0, self._skip - len(chunk))
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return bytes(data)

    def close(self) -> None:
        self._reply.close()


def _credentials(address: Address) -> tuple[str, str] | None:
    """User name and password, from the address or from ~/.netrc."""
    if address.user is not None and address.password is not None:
        return address.user, address.password
    try:
        entry = netrc.netrc().authenticators(address.host)
    except FileNotFoundError:
        return None
    except netrc.NetrcParseError as error:
        raise BoxError(f"~/.netrc, line {error.lineno}: {error.msg}; correct the file") from None
    if entry is None or (address.user is not None and entry[0] != address.user):
        return None
    return entry[0] or entry[1] or "", entry[2] or ""


def content_length(headers: Mapping[str, str]) -> int:
    """The Content-Length; 0 if it is missing or invalid."""
    text = headers.get("Content-Length", "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0
