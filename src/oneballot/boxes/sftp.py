"""A box on a machine with SSH, `sftp://[USER@]HOST[:PORT]/FOLDER`, or `/~/FOLDER` below the user's home.

A ballot is written under a temporary name and then renamed. SSH_FXP_RENAME must not replace a file (draft of version 3,
6.5), unlike the extension posix-rename, which fsspec uses. fsspec also accepts unknown hosts, whereas here a host must
be in known_hosts. So only fsspec's configuration is used.
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
from ._remote import Remote, leftover_parts
from ._retry import is_transient
from ._transfer import CHUNK, PIECE

CONNECT_TIMEOUT, READ_TIMEOUT = 30.0, 60.0

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # otherwise it prints errors that are handled here

SETTINGS = ("port", "username", "password", "key_filename", "passphrase", "allow_agent", "look_for_keys")
"""The settings that are read from fsspec's configuration of `sftp`."""


class Sftp(Remote):
    name: ClassVar[str] = "sftp"
    extra: ClassVar[str] = "sftp"

    def _prepare(self) -> None:
        import paramiko

        self._paramiko: Any = paramiko
        self.failures = (OSError, EOFError, paramiko.SSHException, paramiko.SFTPError)
        folder = self.address.folder
        self._folder = folder.removeprefix("/~/") if folder.startswith("/~/") else folder or "/"
        self._client: Any = None
        self._connecting = threading.Lock()
        self._thread = threading.local()

    def _sftp(self) -> Any:
        """This thread's channel on the shared connection. Threads on one channel would lose each other's replies."""
        with self._connecting:
            if self._client is None:
                self._client = self._connect()
            client = self._client
        if getattr(self._thread, "client", None) is not client or self._thread.sftp.get_channel().closed:
            sftp = client.open_sftp()
            sftp.get_channel().settimeout(READ_TIMEOUT)
            self._thread.client, self._thread.sftp = client, sftp
        return self._thread.sftp

    def _connect(self) -> Any:
        client = self._paramiko.SSHClient()
        try:
            client.load_system_host_keys()  # paramiko refuses all other hosts
            client.connect(**self._settings())
            client.get_transport().set_keepalive(int(CONNECT_TIMEOUT))
        except BaseException:
            client.close()
            raise
        return client

    def _settings(self) -> dict[str, Any]:
        """The address overrides fsspec's configuration, which overrides ~/.ssh/config."""
        from fsspec.config import conf

        timeouts = dict.fromkeys(("timeout", "banner_timeout", "auth_timeout", "channel_timeout"), CONNECT_TIMEOUT)
        ssh_config = _ssh_config(self._paramiko, self.address.host)
        configured = {key: value for key, value in conf.get("sftp", {}).items() if key in SETTINGS}
        address = {"port": self.address.port, "username": self.address.user, "password": self.address.password}
        return timeouts | ssh_config | configured | {key: value for key, value in address.items() if value is not None}

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _path(self, file: str) -> str:
        return f"{self._folder.rstrip('/')}/{file}"

    def _list(self) -> Iterator[tuple[str, int]]:
        for entry in self._sftp().listdir_iter(self._folder):
            if stat.S_ISREG(entry.st_mode or 0):
                yield entry.filename, entry.st_size or 0

    def _read(self, file: str, start: int) -> _File:
        sftp = self._sftp()
        with _closing_on_error(sftp):
            return _File(sftp, sftp.open(self._path(file), "rb"), start)

    def _upload(self, file: str, sealed: bytes, part: str, report: Callable[[int], None]) -> None:
        sftp = self._sftp()
        if self._size(file) is not None:
            raise FileExistsError
        self._write(sealed, part, report)
        if self._size(part) != len(sealed):
            if self._size(file) is not None:  # a simultaneous delivery was first, and removed this part
                raise FileExistsError
            with suppress(OSError):
                sftp.remove(self._path(part))  # make room on a full disk for the next attempt
            raise BoxError(f"{self} did not store the whole ballot; check whether its disk is full")
        try:
            sftp.rename(self._path(part), self._path(file))
        except OSError:  # version 3 of the protocol has no error code for an existing file
            if self._size(file) is not None:
                raise FileExistsError from None
            raise

    def _write(self, sealed: bytes, part: str, report: Callable[[int], None]) -> None:
        """Resume after the bytes that the server already has: it writes in the order of the requests."""
        start = self._size(part)
        if start is None:
            self._make_folder()
        with self._sftp().open(self._path(part), "wx" if start is None else "r+") as out:
            out.set_pipelined(True)
            out.seek(start or 0)
            for position in range(start or 0, len(sealed), CHUNK):
                out.write(sealed[position : position + CHUNK])
                report(position)

    def _make_folder(self) -> None:
        parts = self._folder.strip("/").split("/")
        root = "/" if self._folder.startswith("/") else ""
        for path in (root + "/".join(parts[: i + 1]) for i in range(len(parts))):
            if self._stat(path) is None:
                try:
                    self._sftp().mkdir(path)
                except OSError:
                    if self._stat(path) is None:  # not created by another party meanwhile
                        raise

    def _size(self, file: str) -> int | None:
        found = self._stat(self._path(file))
        return None if found is None else int(found.st_size or 0)

    def _stat(self, path: str) -> Any:
        try:
            return self._sftp().stat(path)
        except FileNotFoundError:
            return None

    def _clean_up(self, file: str, part: str) -> None:
        for name in leftover_parts(part, (entry.filename for entry in self._sftp().listdir_iter(self._folder))):
            with suppress(OSError):
                self._sftp().remove(self._path(name))

    def _is_transient(self, error: Exception) -> bool:
        if self._advice(error):
            return False
        closed = isinstance(error, OSError) and "closed" in str(error)  # paramiko's "Socket is closed" has no errno
        types = (self._paramiko.SSHException, self._paramiko.ssh_exception.NoValidConnectionsError)
        return closed or is_transient(error, types)

    def _advice(self, error: Exception) -> str:
        """Advice for permanent errors. paramiko uses one class for most of them, so the text decides."""
        errors, text = self._paramiko.ssh_exception, str(error)
        if isinstance(error, errors.BadHostKeyException):
            return "the host's key is not the one in known_hosts: ask the operator before you connect"
        if "known_hosts" in text:
            return "connect once with ssh, and compare its fingerprint"
        if isinstance(error, errors.PasswordRequiredException):
            return "load the key into the SSH agent with ssh-add"
        if isinstance(error, errors.AuthenticationException) or "authentication methods" in text:
            return "it requires a key in ~/.ssh or the SSH agent, or a password (docs/boxes.md)"
        if isinstance(error, self._paramiko.SFTPError):
            return "the host does not respond with SFTP; check that its shell prints nothing at login"
        if "private key file" in text:
            return "check the keys in ~/.ssh"
        if isinstance(error, PermissionError) and self._folder.startswith("/"):
            return "the folder starts at the root of the server; write /~/FOLDER for one below your home"
        return super()._advice(error)


class _File:
    """An open file. Its size and PIECE limit each request."""

    def __init__(self, sftp: Any, file: Any, start: int) -> None:
        status = file.stat()
        self._sftp, self._file, self._position = sftp, file, start
        file._prefetch_thread = _silenced(file._prefetch_thread)
        self.size, self.version = int(status.st_size or 0), f"{status.st_size} {status.st_mtime}"

    def read(self, size: int) -> bytes:
        count = min(size, PIECE, self.size - self._position)
        if count <= 0:
            return b""
        with _closing_on_error(self._sftp):
            (data,) = self._file.readv([(self._position, count)])
        self._position += len(data)
        return bytes(data)

    def close(self) -> None:
        self._file.close()


@contextmanager
def _closing_on_error(sftp: Any) -> Iterator[None]:
    """Close a channel after an incomplete reply: its remainder would be read as the next reply."""
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except BaseException:
        sftp.close()
        raise


def _silenced(function: Callable[..., None]) -> Callable[..., None]:
    """For paramiko's prefetch thread, which would print a traceback of errors that the reader reports anyway."""

    def run(*args: Any) -> None:
        with suppress(Exception):
            function(*args)

    return run


def _ssh_config(paramiko: Any, host: str) -> dict[str, Any]:
    """The host name, user, port and key of a host in ~/.ssh/config."""
    file = Path("~/.ssh/config").expanduser()
    entry = paramiko.SSHConfig.from_path(str(file)).lookup(host) if file.is_file() else {}
    names = {"user": "username", "identityfile": "key_filename", "port": "port"}
    settings = {ours: entry[theirs] for theirs, ours in names.items() if theirs in entry}
    if "port" in settings:
        settings["port"] = int(settings["port"])
    return {"hostname": entry.get("hostname", host), **settings}


plugin = Sftp
