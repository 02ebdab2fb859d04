"""A box behind a web server that takes PUT, `https://HOST/FOLDER`.

HTTP has no renaming: a ballot is put in its place in one request, with `If-None-Match: *`, and that readers see all of
it or nothing is up to the server. Nor has it folders to list: a tally needs the index page that web servers make.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, ClassVar

from ..errors import BoxError, printable
from . import _web
from ._patience import passes
from ._remote import MOST_FILES, Remote

MOST_INDEX = 64 * 2**20
AT_ONCE = 16
"""Questions for sizes that are under way at a time."""


class Http(Remote):
    name: ClassVar[str] = "http"
    extra: ClassVar[str] = "http"
    looks_back: ClassVar[bool] = True

    def _prepare(self) -> None:
        import aiohttp
        from fsspec.config import conf
        from fsspec.implementations.http import HTTPFileSystem

        told = conf.get("http", {}).get("client_kwargs", {})
        settings = {
            "auto_decompress": False,  # what a stranger packed is not unpacked
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_web.CONNECT, sock_read=_web.SILENCE),
            **told,
            "headers": _web.authorization(self.address) | told.get("headers", {}),
        }
        self._web: Any = HTTPFileSystem(client_kwargs=settings, skip_instance_cache=True)
        self.failures = (OSError, aiohttp.ClientError, asyncio.TimeoutError)
        self._cuts = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, aiohttp.ServerTimeoutError)

    def _wait_for(self, work: Callable[..., Any], *args: Any) -> Any:
        from fsspec.asyn import sync

        return sync(self._web.loop, work, *args)

    async def _ask(self, method: str, file: str = "", data: Any = None, **headers: str) -> Any:
        """An answer whose body is still to be read. Redirections are not followed: who knows where to."""
        from yarl import URL

        session = await self._web.set_session()
        where = URL(_web.url(self.address, file), encoded=True)
        named = {name.replace("_", "-"): value for name, value in headers.items()} | _web.IDENTITY
        proxy = _web.proxy(self.address)
        reply = await session.request(method, where, data=data, headers=named, proxy=proxy, allow_redirects=False)
        try:
            _web.check(reply.status, reply.reason)
        except OSError:
            reply.close()
            raise
        return reply

    def _list(self) -> Iterator[tuple[str, int]]:
        return iter(self._wait_for(self._list_now))

    async def _list_now(self) -> list[tuple[str, int]]:
        box, links = _web.url(self.address), _web.Links()
        reply = await self._ask("GET")
        page = b""
        async with reply:
            if reply.content_type != "text/html":
                raise BoxError(f"{self} shows no index page of its files, so that nobody can tell what is in it")
            while chunk := await reply.content.read(2**18):
                page += chunk
                if len(page) > MOST_INDEX:
                    raise BoxError(f"{self} shows an index page without end")
        try:
            links.feed(page.decode("utf-8", "replace"))
        except (AssertionError, ValueError) as error:  # Python's parser forgives most of a stranger's page, not all
            raise BoxError(f"{self} shows an index page that cannot be read: {printable(error, 200)}") from None
        files = dict.fromkeys(name for link in links.found if (name := _web.file_of(box, link)))
        if len(files) > MOST_FILES:
            return [(file, 0) for file in files]  # refused for its length, by whoever asked
        few = asyncio.Semaphore(AT_ONCE)
        return [(file, size) for file, size in await asyncio.gather(*(self._size(f, few) for f in files)) if size >= 0]

    async def _size(self, file: str, few: asyncio.Semaphore) -> tuple[str, int]:
        """-1 if it has gone since. A size that the server does not tell is 0, and what comes is then too long."""
        async with few:
            try:
                async with await self._ask("HEAD", file) as reply:
                    return file, _web.length(reply.headers)
            except FileNotFoundError:
                return file, -1

    def _read(self, file: str, start: int) -> _Body:
        return self._wait_for(self._read_now, file, start)  # type: ignore[no-any-return]

    async def _read_now(self, file: str, start: int) -> _Body:
        reply = await self._ask("GET", file, **({"Range": f"bytes={start}-"} if start else {}))
        try:
            if start and reply.status != 206:  # this server does not know of ranges: pass over what we have
                await reply.content.readexactly(start)
        except BaseException as error:
            reply.close()
            raise (ConnectionResetError("cut") if isinstance(error, asyncio.IncompleteReadError) else error) from None
        return _Body(self, reply)

    def _place(self, file: str, sealed: bytes, part: str, told: Callable[[int], None]) -> None:
        looked = self._wait_for(self._look, file)
        self.check_heeds(looked, lambda name: self._wait_for(self._put, name, b"oneballot\n", lambda done: None))
        self._wait_for(self._put, file, sealed, told)

    async def _look(self, file: str) -> bool:
        """Raise FileExistsError if it is there; False if one may not look."""
        try:
            (await self._ask("HEAD", file)).close()
        except FileNotFoundError:
            return True
        except (PermissionError, _web.Answered) as error:
            if _web.passes(error):
                raise
            return False
        raise FileExistsError

    async def _put(self, file: str, sealed: bytes, told: Callable[[int], None]) -> None:
        async def body() -> AsyncIterator[bytes]:
            for start in range(0, len(sealed), 2**18):
                told(start)
                yield sealed[start : start + 2**18]

        reply = await self._ask("PUT", file, data=body(), If_None_Match="*", Content_Length=str(len(sealed)))
        reply.close()

    def _passes(self, error: Exception) -> bool:
        return _web.passes(error) or passes(error, self._cuts)


class _Body:
    """A file on its way, read as it comes."""

    def __init__(self, box: Http, reply: Any) -> None:
        self._box, self._reply = box, reply
        self.size, self.version = _web.length(reply.headers), _web.version(reply.headers)

    def read(self, size: int) -> bytes:
        data: bytes = self._box._wait_for(self._reply.content.read, size)
        return data

    def close(self) -> None:
        self._box._web.loop.call_soon_threadsafe(self._reply.close)  # connections belong to the loop's own thread


plugin = Http
