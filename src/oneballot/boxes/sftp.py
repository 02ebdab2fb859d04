"""A box on a machine with SSH, `sftp://[USER@]HOST[:PORT]/FOLDER`, or `/~/FOLDER` below the user's home.

A ballot is written under another name, then renamed. SSH_FXP_RENAME must not replace a file (the draft of version 3,
6.5; OpenSSH makes a link and removes the old name), unlike its extension posix-rename, which fsspec uses. fsspec also
takes any host for the one that was meant; here a host must be in known_hosts. So only its configuration is used.
"""

from __future__ import annotations

import logging
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from ..errors import BoxError
from ._patience import passes
from ._remote import Remote, left_by
from ._transfer import PIECE

WAIT = 30.0
"""Seconds for a connection to come about; twice that without a byte and it is given up."""

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # else it prints what we tell, or need not tell

SETTINGS = ("port", "username", "password", "key_filename", "passphrase", "allow_agent", "look_for_keys")
"""What fsspec's configuration may say of `sftp`."""


class Sftp(Remote):
    name: ClassVar[str] = "sftp"
    extra: ClassVar[str] = "sftp"

    def _prepare(self) -> None:
        import paramiko

        self._known: Any = paramiko
        self.failures = (OSError, EOFError, paramiko.SSHException, paramiko.SFTPError)
        folder = self.address.folder
        self._folder = folder.removeprefix("/~/") if folder.startswith("/~/") else folder or "/"
        self._client: Any = None
        self._connecting = threading.Lock()
        self._own = threading.local()

    def _ftp(self) -> Any:
        """A channel of this thread's own, on the one connection: a reply that another thread reads is lost to it."""
        with self._connecting:
            if self._client is None:
                self._client = self._connect()
            client = self._client
        if getattr(self._own, "client", None) is not client or self._own.files.get_channel().closed:
            files = client.open_sftp()
            files.get_channel().settimeout(2 * WAIT)
            self._own.client, self._own.files = client, files
        return self._own.files

    def _connect(self) -> Any:
        client = self._known.SSHClient()
        try:
            client.load_system_host_keys()  # and whoever is not among them is refused
            client.connect(**self._settings())
            client.get_transport().set_keepalive(int(WAIT))
        except BaseException:
            client.close()
            raise
        return client

    def _settings(self) -> dict[str, Any]:
        """The address first, then fsspec's configuration, then ~/.ssh/config."""
        from fsspec.config import conf

        written = _ssh_config(self._known, self.address.host)
        told = {key: value for key, value in conf.get("sftp", {}).items() if key in SETTINGS}
        said = {"port": self.address.port, "username": self.address.user, "password": self.address.password}
        waits = dict.fromkeys(("timeout", "banner_timeout", "auth_timeout", "channel_timeout"), WAIT)
        return {**waits, **written, **told, **{key: value for key, value in said.items() if value is not None}}

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _at(self, file: str) -> str:
        return f"{self._folder.rstrip('/')}/{file}"

    def _list(self) -> Iterator[tuple[str, int]]:
        for entry in self._ftp().listdir_iter(self._folder):
            if stat.S_ISREG(entry.st_mode or 0):
                yield entry.filename, entry.st_size or 0

    def _read(self, file: str, start: int) -> _File:
        ftp = self._ftp()
        with _in_step(ftp):
            return _File(ftp, ftp.open(self._at(file), "rb"), start)

    def _place(self, file: str, sealed: bytes, part: str, told: Callable[[int], None]) -> None:
        ftp = self._ftp()
        if self._size(file) is not None:
            raise FileExistsError
        self._send(sealed, part, told)
        if self._size(part) != len(sealed):
            if self._size(file) is not None:  # who was first has cleared this part away
                raise FileExistsError
            with suppress(OSError):
                ftp.remove(self._at(part))  # on a full disk it would stand in its own way
            raise BoxError(f"{self} has not kept what was sent; is its disk full?")
        try:
            ftp.rename(self._at(part), self._at(file))
        except OSError:  # version 3 of the protocol has no word for "it exists"
            if self._size(file) is not None:
                raise FileExistsError from None
            raise

    def _send(self, sealed: bytes, part: str, told: Callable[[int], None]) -> None:
        """Go on after the bytes that are there: a server writes in the order in which it is asked to."""
        start = self._size(part)
        if start is None:
            self._make_folder()
        with self._ftp().open(self._at(part), "wx" if start is None else "r+") as out:
            out.set_pipelined(True)
            out.seek(start or 0)
            for at in range(start or 0, len(sealed), 2**18):
                out.write(sealed[at : at + 2**18])
                told(at)

    def _make_folder(self) -> None:
        parts = self._folder.strip("/").split("/")
        root = "/" if self._folder.startswith("/") else ""
        for path in (root + "/".join(parts[: i + 1]) for i in range(len(parts))):
            if self._stat(path) is None:
                try:
                    self._ftp().mkdir(path)
                except OSError:
                    if self._stat(path) is None:  # nor has anybody else made it meanwhile
                        raise

    def _size(self, file: str) -> int | None:
        found = self._stat(self._at(file))
        return None if found is None else int(found.st_size or 0)

    def _stat(self, path: str) -> Any:
        try:
            return self._ftp().stat(path)
        except FileNotFoundError:
            return None

    def _tidy(self, file: str, part: str) -> None:
        for left in left_by(part, (entry.filename for entry in self._ftp().listdir_iter(self._folder))):
            with suppress(OSError):
                self._ftp().remove(self._at(left))

    def _passes(self, error: Exception) -> bool:
        if self._advice(error):
            return False
        known = self._known
        closed = isinstance(error, OSError) and "closed" in str(error)  # paramiko's "Socket is closed" has no number
        return closed or passes(error, (known.SSHException, known.ssh_exception.NoValidConnectionsError))

    def _advice(self, error: Exception) -> str:
        """paramiko has one class for most of what goes wrong, so that its words have to do."""
        known, words = self._known.ssh_exception, str(error)
        if isinstance(error, known.BadHostKeyException):
            return "this is not the host that known_hosts knows: ask its operator, and do not go on before"
        if "known_hosts" in words:
            return "connect once with ssh, and compare its fingerprint"
        if isinstance(error, known.PasswordRequiredException):
            return "load it into the SSH agent with ssh-add"
        if isinstance(error, known.AuthenticationException) or "authentication methods" in words:
            return "it takes a key of ~/.ssh or the SSH agent, or a password (docs/boxes.md)"
        if isinstance(error, self._known.SFTPError):
            return "what answers there speaks no SFTP; does a shell greet whoever comes in?"
        if "private key file" in words:
            return "look at the keys in ~/.ssh"
        if isinstance(error, PermissionError) and self._folder.startswith("/"):
            return "the folder is one from the root of the server; /~/FOLDER is below your home"
        return super()._advice(error)


class _File:
    """A file on its way. Its size bounds what is asked for at once, and a piece bounds that."""

    def __init__(self, ftp: Any, file: Any, start: int) -> None:
        found = file.stat()
        self._ftp, self._file, self._at = ftp, file, start
        file._prefetch_thread = _hushed(file._prefetch_thread)
        self.size, self.version = int(found.st_size or 0), f"{found.st_size} {found.st_mtime}"

    def read(self, size: int) -> bytes:
        want = min(size, PIECE, self.size - self._at)
        if want <= 0:
            return b""
        with _in_step(self._ftp):
            (data,) = self._file.readv([(self._at, want)])
        self._at += len(data)
        return bytes(data)

    def close(self) -> None:
        self._file.close()


@contextmanager
def _in_step(ftp: Any) -> Iterator[None]:
    """Where no whole answer has come the channel is closed: the rest of it would be taken for the next answer."""
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except BaseException:
        ftp.close()
        raise


def _hushed(work: Callable[..., None]) -> Callable[..., None]:
    """For paramiko's thread that asks ahead: it would print a traceback of a cut, which whoever reads is told of."""

    def run(*given: Any) -> None:
        with suppress(Exception):
            work(*given)

    return run


def _ssh_config(known: Any, host: str) -> dict[str, Any]:
    """What the user's ~/.ssh/config says of a host: its real name, user, port and key."""
    file = Path("~/.ssh/config").expanduser()
    said = known.SSHConfig.from_path(str(file)).lookup(host) if file.is_file() else {}
    settings = {
        "hostname": said.get("hostname", host),
        "username": said.get("user"),
        "key_filename": said.get("identityfile"),
    }
    settings["port"] = int(said["port"]) if "port" in said else None
    return {key: value for key, value in settings.items() if value is not None}


plugin = Sftp
