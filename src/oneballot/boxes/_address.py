"""Addresses of remote boxes, shown without their passwords."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from ..errors import BoxError


@dataclass(frozen=True)
class Address:
    scheme: str
    host: str
    port: int | None
    path: str  # URL-encoded
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse an address. Errors don't quote it: a slash in a password makes its end look like a folder."""
        scheme = text.partition("://")[0]
        form = f"{scheme}://[USER@]HOST[:PORT]/FOLDER"
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise BoxError(
                f"the address {scheme}://… is invalid: write {form}, with special characters encoded (%2F for /)"
            ) from None
        if not host or parts.query or parts.fragment:
            raise BoxError(
                f"the address {scheme}://… must have a host and a folder, {form}, without ? and #; "
                "write %3F and %23 where they are part of a name"
            )
        user, password = (unquote(part) if part else None for part in (parts.username, parts.password))
        path = quote(parts.path.rstrip("/"), safe="/%~!$&'()*+,;=:@")
        return cls(scheme.lower(), host, port, path, user, password)

    @property
    def netloc(self) -> str:
        """Host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def folder(self) -> str:
        """The decoded path."""
        return unquote(self.path)

    def __str__(self) -> str:
        user = "" if self.user is None else f"{quote(self.user)}@"
        return f"{self.scheme}://{user}{self.netloc}{self.path}"

    def redact(self, text: str) -> str:
        """Remove the password from a text, such as a library's error message."""
        for secret in (self.password, quote(self.password, safe="")) if self.password else ():
            text = text.replace(secret, "…")
        return text
