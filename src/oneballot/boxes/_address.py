"""Where a box is, and how that is told to people: without the password."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from ..errors import BoxError


@dataclass(frozen=True)
class Address:
    scheme: str
    host: str
    port: int | None
    path: str  # as in a URL: with %20 for a space
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, text: str) -> Address:
        """What cannot be read is not repeated: a slash in a password is enough to make its rest look like a folder."""
        scheme = text.partition("://")[0]
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise BoxError(
                f"the address {scheme}://… cannot be read: write {scheme}://[USER@]HOST[:PORT]/FOLDER, with %2F and "
                "the like for special signs in names"
            ) from None
        if not host or parts.query or parts.fragment:
            raise BoxError(
                f"the address {scheme}://… must be a host and a folder, {scheme}://[USER@]HOST[:PORT]/FOLDER, without "
                "? and #; write %3F and %23 if they belong to a name"
            )
        user, password = (unquote(part) if part else None for part in (parts.username, parts.password))
        path = quote(parts.path.rstrip("/"), safe="/%~!$&'()*+,;=:@")
        return cls(scheme.lower(), host, port, path, user, password)

    @property
    def place(self) -> str:
        """Host and port, as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def folder(self) -> str:
        """The path with percent signs resolved."""
        return unquote(self.path)

    def __str__(self) -> str:
        user = "" if self.user is None else f"{quote(self.user)}@"
        return f"{self.scheme}://{user}{self.place}{self.path}"

    def hush(self, text: str) -> str:
        """A text without the password, should a library have quoted it."""
        for secret in (self.password, quote(self.password, safe="")) if self.password else ():
            text = text.replace(secret, "…")
        return text
