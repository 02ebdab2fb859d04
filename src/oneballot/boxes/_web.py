"""What boxes behind HTTP share: what a status means, who one is, which links of a page are ballots."""

from __future__ import annotations

import netrc
from base64 import b64encode
from collections.abc import Mapping
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..errors import BoxError
from ._address import Address

IDENTITY = {"Accept-Encoding": "identity"}
"""Ballots do not shrink, and what is not packed cannot unpack to something larger."""

CONNECT, SILENCE = 30.0, 60.0
"""Seconds for a connection to come about, and without a byte after which it is given up."""

_MORE = {408, 425, 429, 500, 502, 503, 504}


class Answered(OSError):
    """The server has answered with a status that is no success."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def check(status: int, reason: str | None) -> None:
    if 200 <= status < 300:
        return
    words = f"the server answers {status} {reason or ''}".rstrip()
    if status == 412:
        raise FileExistsError(words)
    if status in (404, 410):
        raise FileNotFoundError(words)
    if status == 403:
        raise PermissionError(words)
    if 300 <= status < 400:
        words += ": it is elsewhere; give the address that it leads to"
    if status == 401:
        words += ": it wants another name and password, from the address or from ~/.netrc"
    if status in (405, 501):
        words += ": it does not take files in this way"
    if status == 409:
        words += ": its folder is not there; have it made (webdav+https:// makes it by itself)"
    if status == 413:
        words += ": it takes no file of this size; ask its operator (nginx: client_max_body_size)"
    if status == 507:
        words += ": its disk is full"
    raise Answered(status, words)


def passes(error: BaseException) -> bool:
    return isinstance(error, Answered) and error.status in _MORE


def name_and_password(address: Address) -> tuple[str, str] | None:
    """From the address, or from the file that curl and others read."""
    if address.user is not None and address.password is not None:
        return address.user, address.password
    try:
        found = netrc.netrc().authenticators(address.host)
    except FileNotFoundError:
        return None
    except netrc.NetrcParseError as error:
        raise BoxError(f"~/.netrc cannot be read: {error.msg}, line {error.lineno}") from None
    if found is None or (address.user is not None and found[0] != address.user):
        return None
    return found[0] or found[1] or "", found[2] or ""


def authorization(address: Address) -> dict[str, str]:
    who = name_and_password(address)
    return {} if who is None else {"Authorization": "Basic " + b64encode(":".join(who).encode()).decode()}


def proxy(address: Address) -> str | None:
    """From https_proxy and no_proxy in the environment."""
    return None if proxy_bypass(address.host) else getproxies().get(address.scheme.rpartition("+")[2])


def length(headers: Mapping[str, str]) -> int:
    """As the server says; 0 if it does not."""
    told = headers.get("Content-Length", "")
    return int(told) if told.isdecimal() and len(told) < 20 else 0


def version(headers: Mapping[str, str]) -> str:
    return headers.get("ETag") or headers.get("Last-Modified") or ""


def url(address: Address, file: str = "") -> str:
    """Of a file in the box; of the box itself, with a slash at its end."""
    scheme = address.scheme.rpartition("+")[2]
    return f"{scheme}://{address.place}{address.path}/{quote(file)}"


def file_of(box: str, link: str) -> str | None:
    """The name of a file in the box, if the link leads to one. Servers differ in which signs they write as %2B."""
    try:
        base, parts = urlsplit(box), urlsplit(urljoin(box, link))
    except ValueError:
        return None
    folder, path = unquote(base.path), unquote(parts.path)
    if (parts.scheme, parts.netloc) != (base.scheme, base.netloc) or parts.query or not path.startswith(folder):
        return None
    name = path.removeprefix(folder)
    return name if name and "/" not in name else None


class Links(HTMLParser):
    """The links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if tag == "a" and name == "href" and value:
                self.found[value] = None
