"""Real servers for the tests of boxes: `python servers.py TYPE FOLDER` prints its port and serves."""

from __future__ import annotations

import http.server
import os
import re
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

USER, PASSWORD = "clinic", "s3cret/word"
GREETED = "greeted"

BROKEN = {"no-token": b"<![<![", "no-number": b'<a href="&#' + b"9" * 5_000 + b';">x</a>'}
"""Index pages that Python's HTML parser cannot parse."""


def s3(folder: Path) -> int:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    keys = {"aws_access_key_id": USER, "aws_secret_access_key": PASSWORD, "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", **keys).create_bucket(Bucket="bucket")
    return port


def webdav(folder: Path) -> int:
    from cheroot import wsgi
    from wsgidav.wsgidav_app import WsgiDAVApp

    users = {"*": {USER: {"password": PASSWORD}}}
    app = WsgiDAVApp(
        {"provider_mapping": {"/": str(folder)}, "simple_dc": {"user_mapping": users}, "logging": {"enable": False}}
        | {"http_authenticator": {"accept_basic": True, "accept_digest": False, "default_to_digest": False}}
    )
    server = wsgi.Server(("127.0.0.1", 0), app, numthreads=12)
    server.prepare()
    threading.Thread(target=server.serve, daemon=True).start()
    return server.bind_addr[1]


class Web(http.server.SimpleHTTPRequestHandler):
    """PUT, GET with ranges, HEAD, an index page. Some folders misbehave, as their names say."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        path = Path(self.translate_path(self.path))
        if "redirected" in path.parts:
            return self.answer(307, Location="http://127.0.0.1:1/elsewhere")
        if self.refused() or "readonly" in path.parts or ("dotless" in path.parts and path.name.startswith(".")):
            return self.answer(401 if "locked" in path.parts else 403)
        if (only := re.search("/ballots only ([0-9]+)/", str(path))) and path.suffix != ".ballot":
            return self.answer(int(only[1]))
        length = int(self.headers["Content-Length"])
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".put-") as part:
            while length and (chunk := self.rfile.read1(min(length, 2**16))):
                part.write(chunk)
                length -= len(chunk)
            part.flush()
            if length and "torn" not in path.parts:
                self.close_connection = True
                return None
            if self.headers.get("If-None-Match") == "*" and "forgetful" not in path.parts:
                try:
                    os.link(part.name, path)
                except FileExistsError:
                    return self.answer(412)
            else:
                path.write_bytes(Path(part.name).read_bytes())
        return self.answer(201)

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if self.refused() or ("dropbox" in path.parts):
            return self.answer(401 if "locked" in path.parts else 403)
        if "busy" in path.parts and not (Path(self.directory) / "calm").exists():
            return self.answer(503)
        if "hostile" in path.parts and self.hostile(path):
            return None
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not path.is_file() or not wanted or "rangeless" in path.parts:
            return super().do_GET() if self.command == "GET" else super().do_HEAD()
        data = path.read_bytes()[int(wanted[1]) :]
        self.send_response(206)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)
        return None

    do_HEAD = do_GET

    def hostile(self, path: Path) -> bool:
        """Malicious responses."""
        if path.name == "endless-index":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            link = b"".join(b'<a href="%d.ballot">x</a>' % i for i in range(3_000))
            try:
                while True:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(link), link))
            except OSError:
                self.close_connection = True
        elif path.name in BROKEN:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(BROKEN[path.name])))
            self.end_headers()
            self.wfile.write(BROKEN[path.name])
        elif path.name == "dripping.ballot":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            try:
                while self.command == "GET":
                    self.wfile.write(b"x")
                    time.sleep(0.05)
            except OSError:
                self.close_connection = True
        elif path.name == "absurd.ballot":
            self.send_response(200)
            self.send_header("Content-Length", str(10**15))
            self.end_headers()
            self.close_connection = True
        else:
            return False
        return True

    def refused(self) -> bool:
        return "locked" in self.path and self.headers.get("Authorization") != basic()

    def answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def log_message(self, *args: object) -> None: ...


def basic() -> str:
    import base64

    return "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def web(folder: Path) -> int:
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0),
        lambda *args: Web(*args, directory=str(folder)),  # type: ignore[arg-type]
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def sftp(folder: Path) -> int:
    """Renames like OpenSSH's sftp-server, by a link and a removal. Writes reach the disk as they arrive."""
    import paramiko
    from paramiko import SFTPAttributes, SFTPServer

    key = paramiko.ECDSAKey.generate()
    (folder / "host-key").write_text(f"{key.get_name()} {key.get_base64()}\n")
    root = folder / "files"
    root.mkdir()

    def guarded(function):
        def call(*args):
            try:
                return function(*args)
            except OSError as error:
                return SFTPServer.convert_errno(error.errno) if error.errno else paramiko.SFTP_FAILURE

        return call

    class Files(paramiko.SFTPServerInterface):
        def _at(self, path: str) -> str:
            return str(root) + self.canonicalize(path)

        @guarded
        def list_folder(self, path):
            entries = [SFTPAttributes.from_stat(e.stat(), e.name) for e in os.scandir(self._at(path))]
            if path.endswith("hostile"):
                for name in (
                    "../../evil.ballot",
                    "..\\evil.ballot",
                    "a\nb.ballot",
                    ".hidden.ballot",
                    "x" * 300 + ".ballot",
                ):
                    entry = SFTPAttributes()
                    entry.filename, entry.st_mode, entry.st_size = name, 0o100644, 5
                    entries.append(entry)
            return entries

        @guarded
        def stat(self, path):
            return SFTPAttributes.from_stat(os.stat(self._at(path)))

        lstat = stat

        @guarded
        def open(self, path, flags, attr):
            handle = os.open(self._at(path), flags, 0o644)
            file = os.fdopen(handle, "rb" if flags & 3 == os.O_RDONLY else "r+b" if flags & os.O_RDWR else "wb", 0)
            opened = paramiko.SFTPHandle(flags)
            opened.readfile = opened.writefile = file
            opened.stat = lambda: SFTPAttributes.from_stat(os.fstat(file.fileno()))
            return opened

        @guarded
        def remove(self, path):
            os.remove(self._at(path))
            return paramiko.SFTP_OK

        @guarded
        def rename(self, old, new):
            os.link(self._at(old), self._at(new))
            os.remove(self._at(old))
            return paramiko.SFTP_OK

        @guarded
        def mkdir(self, path, attr):
            os.mkdir(self._at(path))
            return paramiko.SFTP_OK

    class Greeting(SFTPServer):
        """For one user, the shell prints a greeting first, as with an `echo` in .bashrc."""

        def start_subsystem(self, name, transport, channel):
            if transport.get_username() == GREETED:
                channel.sendall(b"Welcome to this machine!\n")
            super().start_subsystem(name, transport, channel)

    class Door(paramiko.ServerInterface):
        def check_auth_password(self, user, password):
            known = user in (USER, GREETED) and password == PASSWORD
            return paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED

        def check_channel_request(self, name, number):
            return paramiko.OPEN_SUCCEEDED

    def serve(connection: socket.socket) -> None:
        transport = paramiko.Transport(connection)
        transport.add_server_key(key)
        transport.set_subsystem_handler("sftp", Greeting, Files)
        try:
            transport.start_server(server=Door())
        except (EOFError, paramiko.SSHException):
            return
        transport.join()

    def accept(listener: socket.socket) -> None:
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    return listener.getsockname()[1]


if __name__ == "__main__":
    kind, folder = sys.argv[1:]
    sys.stdout.write(f"{ {'s3': s3, 'sftp': sftp, 'webdav': webdav, 'http': web}[kind](Path(folder)) }\n")
    sys.stdout.flush()
    sys.stdin.read()  # until the parent process closes it or dies
