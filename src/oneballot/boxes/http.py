"""A box behind a web server that accepts PUT, `https://HOST/FOLDER`.

HTTP cannot rename, so a ballot is stored in one request with `If-None-Match: *`; the server decides whether readers see
a partial file. HTTP cannot list folders either, so a tally needs the index page that web servers generate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html.parser import HTMLParser
from typing import ClassVar

from ..errors import BoxError, printable
from ._remote import MAX_FILES
from ._web import WebBox, content_length

MAX_INDEX_BYTES = 64 * 2**20
CONCURRENT_SIZE_REQUESTS = 16


class Http(WebBox):
    name: ClassVar[str] = "http"
    extra: ClassVar[str] = "http"

    def _prepare(self) -> None:
        from fsspec.config import conf

        self._connect(conf.get("http", {}).get("client_kwargs", {}))

    def _list(self) -> Iterator[tuple[str, int]]:
        reply = self._request("GET")
        if not reply.headers.get("Content-Type", "").startswith("text/html"):
            reply.close()
            raise BoxError(f"{self} has no index page, so its files cannot be listed; enable one on the server")
        page, parser = self._read_listing(reply, MAX_INDEX_BYTES), _LinkParser()
        try:
            parser.feed(page.decode("utf-8", "replace"))
        except (AssertionError, ValueError) as error:  # Python's parser tolerates most invalid pages, but not all
            raise BoxError(f"{self}: its index page cannot be parsed: {printable(error, 200)}") from None
        files = dict.fromkeys(file for link in parser.links if (file := self._linked_file(link)))
        if len(files) > MAX_FILES:
            yield from ((file, 0) for file in files)  # the caller refuses the listing
            return
        with ThreadPoolExecutor(CONCURRENT_SIZE_REQUESTS) as threads:
            for file, size in zip(files, threads.map(self._size, files), strict=True):
                if size is not None:
                    yield file, size

    def _size(self, file: str) -> int | None:
        """None if the file no longer exists; 0 if the server does not report its size."""
        try:
            reply = self._request("HEAD", file)
        except FileNotFoundError:
            return None
        reply.close()
        return content_length(reply.headers)

    def _upload(self, file: str, sealed: bytes, part: str, report: Callable[[int], None]) -> None:
        readable = self.check_free(lambda: self._send("HEAD", file))
        put = partial(self._put, If_None_Match="*")
        self.check_overwrite(readable, lambda name: put(name, b"oneballot\n", lambda done: None))
        put(file, sealed, report)


class _LinkParser(HTMLParser):
    """Collects the links of a page, without duplicates."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[str, None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if tag == "a" and name == "href" and value:
                self.links[value] = None


plugin = Http
