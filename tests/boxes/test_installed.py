"""Boxes on real-world servers: OpenSSH, Apache, nginx and lighttpd, if they are installed.

Each is started on its own port with only the configuration below, as in docs/boxes.md.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from oneballot.boxes import _retry, box_at
from oneballot.errors import AlreadyCast, BoxError, NotFound, OneBallotWarning

from .conftest import PASSWORD, USER, Place

PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
MODULES = Path("/usr/lib/apache2/modules")
BIG = 3 * 2**20
APACHES = ("apache", "httpd")
"""With TLS and without."""

SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {home}/host-key
AuthorizedKeysFile {home}/key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
ForceCommand internal-sftp
"""
APACHE = """
ServerRoot {home}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {home}/pid
ErrorLog {home}/log
User nobody
Group nogroup
DavLockDB {home}/locks/db
DocumentRoot {files}
SSLEngine on
SSLCertificateFile {home}/box.crt
SSLCertificateKeyFile {home}/box.key
<Directory {files}>
  Dav On
  Options Indexes
  AuthType Basic
  AuthName box
  AuthUserFile {home}/users
  Require valid-user
</Directory>
"""
PLAIN = "\n".join(line for line in APACHE.splitlines() if not line.startswith("SSL"))
NGINX = """
daemon off;
pid {home}/pid;
error_log {home}/log;
{user}
events {{}}
http {{
  access_log off;
  client_max_body_size 100m;
  client_body_temp_path {home}/body;
  server {{
    listen 127.0.0.1:{port};
    root {files};
    autoindex on;
    dav_methods PUT DELETE MKCOL MOVE;
    create_full_put_path on;
    location /dropbox/ {{ limit_except PUT {{ deny all; }} dav_methods PUT; create_full_put_path on; }}
    location ~ ^/dropbox/\\. {{ deny all; }}
  }}
}}
"""
LIGHTTPD = """
server.modules = ("mod_webdav", "mod_dirlisting")
server.document-root = "{files}"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{home}/log"
webdav.activate = "enable"
dir-listing.activate = "enable"
"""


@dataclass
class Installed(Place):
    """An installed server, and addresses on it as parties would type them."""

    scheme: str = ""
    key: str = ""

    def address(self, box: str, port: int | None = None, password: str = PASSWORD) -> str:
        port = port or self.port
        if self.kind == "openssh":
            (self.home / ".ssh").mkdir(exist_ok=True)
            shutil.copy(self.folder.parent / "key", self.home / ".ssh/id_ed25519")
            with (self.home / ".ssh/known_hosts").open("a") as hosts:
                hosts.write(f"[127.0.0.1]:{port} {self.key}\n")
            return f"sftp://{getpass.getuser()}@127.0.0.1:{port}{self.folder}/{box}"
        who = f"{USER}:{quote(password, safe='')}@" if self.kind in APACHES else ""
        return f"{self.scheme}://{who}localhost:{port}/{box}"

    def inside(self, box: str) -> Path:
        return self.folder / box


def needs(*programs: str) -> list[str]:
    found = [shutil.which(program, path=PATH) for program in programs]
    for program, path in zip(programs, found, strict=True):
        if path is None:
            pytest.skip(f"{program} is not installed")
    return [str(path) for path in found]


def run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


def openssh(home: Path) -> list[str]:
    sshd, keygen = needs("sshd", "ssh-keygen")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd does not start without it
    for name in ("host-key", "key"):
        run(keygen, "-q", "-t", "ed25519", "-N", "", "-f", home / name)
    return [sshd, "-D", "-e", "-f", str(home / "conf")]


def apache(home: Path) -> list[str]:
    server, openssl, htpasswd = needs("apache2", "openssl", "htpasswd")
    new = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    run(*new, "-subj", "/CN=Our own authority", "-keyout", home / "ca.key", "-out", home / "ca.crt")
    run(*new, "-subj", "/CN=localhost", "-CA", home / "ca.crt", "-CAkey", home / "ca.key",
        "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=DNS:localhost",
        "-keyout", home / "box.key", "-out", home / "box.crt")  # fmt: skip
    run(htpasswd, "-bc", home / "users", USER, PASSWORD)
    names = ["mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "autoindex"]
    names += ["dav", "dav_fs", "ssl", "mime"]
    load = [word for name in names for word in ("-C", f"LoadModule {name}_module {MODULES}/mod_{name}.so")]
    return [server, "-D", "FOREGROUND", *load, "-C", "TypesConfig /dev/null", "-f", str(home / "conf")]


def nginx(home: Path) -> list[str]:
    return [*needs("nginx"), "-c", str(home / "conf")]


def lighttpd(home: Path) -> list[str]:
    (server,) = needs("lighttpd")
    if not Path("/usr/lib/lighttpd/mod_webdav.so").exists():
        pytest.skip("lighttpd's mod_webdav is not installed")
    return [server, "-D", "-f", str(home / "conf")]


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[[str], tuple[int, Path]]]:
    """Starts each server once, in a folder that its account can read, unlike pytest's own."""
    running: dict[str, tuple[int, Path]] = {}
    ends: list[Callable[[], object]] = []
    known = {"openssh": (openssh, SSHD), "apache": (apache, APACHE), "httpd": (apache, PLAIN), "nginx": (nginx, NGINX),
             "lighttpd": (lighttpd, LIGHTTPD)}  # fmt: skip

    def start(kind: str) -> tuple[int, Path]:
        if kind not in running:
            prepare, text = known[kind]
            home = Path(tempfile.mkdtemp(prefix=f"oneballot-{kind}-"))
            ends.append(lambda: shutil.rmtree(home, ignore_errors=True))
            home.chmod(0o755)
            command = prepare(home)
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            for name in ("files", "locks"):
                (home / name).mkdir()
                if kind in APACHES and os.getuid() == 0:
                    shutil.chown(home / name, "nobody", "nogroup")
            user = "user root;" if os.getuid() == 0 else ""
            (home / "conf").write_text(text.format(port=port, home=home, files=home / "files", user=user))
            with (home / "out").open("w") as out:
                server = subprocess.Popen(command, stdout=out, stderr=out)
            ends.append(lambda: (server.terminate(), server.wait()))
            until = time.monotonic() + 10
            while time.monotonic() < until and not _answers(port):
                assert server.poll() is None, (home / "out").read_text()
                time.sleep(0.05)
            running[kind] = port, home
        return running[kind]

    yield start
    for end in reversed(ends):
        end()


def _answers(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


SERVERS = ("openssh sftp", "apache webdav+https", "httpd http", "nginx webdav+http", "nginx http",
           "lighttpd webdav+http", "lighttpd http")  # fmt: skip


@pytest.fixture(params=SERVERS)
def installed(request, start, tmp_path: Path, monkeypatch) -> Installed:
    kind, scheme = request.param.split()
    port, home = start(kind)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(_retry, "DELAYS", (0.05,) * 5)
    key = (home / "host-key.pub").read_text().rpartition(" ")[0] if kind == "openssh" else ""
    if kind == "apache":
        monkeypatch.setenv("SSL_CERT_FILE", str(home / "ca.crt"))
    return Installed(kind, port, home / "files", tmp_path, scheme, key)


def made(installed: Installed, box: str) -> str:
    """The address of a box; its folder is created first for plain HTTP, which cannot create it."""
    box += f" {installed.scheme}"
    if installed.scheme.startswith("http"):
        installed.inside(box).mkdir(parents=True)
        if installed.kind in APACHES and os.getuid() == 0:
            shutil.chown(installed.inside(box), "nobody", "nogroup")
    return installed.address(box)


def expected_warning(installed: Installed) -> AbstractContextManager[object]:
    """nginx ignores If-None-Match, which a delivery by plain HTTP warns of."""
    if (installed.kind, installed.scheme) == ("nginx", "http"):
        return pytest.warns(OneBallotWarning, match="ignores If-None-Match")
    return nullcontext()


def test_a_ballot_arrives_complete_and_is_never_replaced(installed: Installed) -> None:
    address = made(installed, "a box")
    for name, data in {"a": b"first", "clinic ä (1)": os.urandom(BIG)}.items():
        with expected_warning(installed):
            box_at(address).deliver(name, data)
        box_at(address).deliver(name, data)
        with pytest.raises(AlreadyCast, match="never replaced"):
            box_at(address).deliver(name, data[:-1] + bytes([data[-1] ^ 1]))
        with box_at(address).open(name) as file:
            assert file.read() == data
    if (installed.kind, installed.scheme) == ("nginx", "webdav+http"):
        return  # without its module dav_ext it accepts files but cannot be listed
    assert list(box_at(address).names()) == [("a", 5), ("clinic ä (1)", BIG)]


DELIVER = "import sys; from oneballot.boxes import box_at; box_at(sys.argv[1]).deliver('a', sys.stdin.buffer.read())"


def test_a_killed_delivery_is_never_visible(installed: Installed, wire) -> None:
    made(installed, "killed")
    box, data = f"killed {installed.scheme}", os.urandom(BIG)
    line, slow = wire(installed, box, rate=BIG)
    command = [sys.executable, "-W", "ignore", "-c", DELIVER, slow]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    threading.Thread(target=lambda: (writer.stdin.write(data), writer.stdin.close()), daemon=True).start()
    while line.up < BIG / 2:
        assert writer.poll() is None
        assert "a.ballot" not in installed.files(box)
        time.sleep(0.02)
    os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    time.sleep(0.3)
    assert "a.ballot" not in installed.files(box)
    with expected_warning(installed):
        box_at(installed.address(box)).deliver("a", data)
    left = {name: found for name, found in installed.files(box).items() if not name.startswith(".davfs.")}
    assert left == {"a.ballot": data}, "leftovers are removed; Apache removes its own after a timeout"


@pytest.mark.parametrize("installed", ["openssh sftp"], indirect=True)
def test_exactly_one_of_several_simultaneous_deliveries_succeeds(installed: Installed) -> None:
    """Web servers check first and store later, so the result would be random: docs/boxes.md."""
    address, refused = made(installed, "many"), []

    def deliver(i: int) -> None:
        try:
            box_at(address).deliver("a", b"%d" % i * 100_000)
        except AlreadyCast:
            refused.append(i)

    threads = [threading.Thread(target=deliver, args=(i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (survivor,) = {*range(5)} - {*refused}
    with box_at(address).open("a") as file:
        assert file.read() == b"%d" % survivor * 100_000


def test_permanent_errors_are_reported_at_once(installed: Installed, monkeypatch, capfd) -> None:
    monkeypatch.setattr(_retry, "DELAYS", (600.0,))
    address, wrong = made(installed, "wrong"), []
    if installed.kind == "openssh":
        (installed.home / ".ssh/id_ed25519").unlink()
        wrong = [
            (address, "requires a key in ~/.ssh"),
            (address.replace("@127.0.0.1", "@localhost"), "connect once with"),
        ]
    elif installed.kind in APACHES:
        wrong = [(installed.address("wrong", password="wr0ng"), "another user name and password")]
        wrong += [(address.replace("https://", "http://"), "400")] if installed.kind == "apache" else []
    else:
        wrong = [(address.replace("http://", "https://"), "does not use TLS on this port")]
    wrong.append((f"{installed.scheme}://nobody.invalid/box", "check the spelling"))
    for place, words in wrong:
        with pytest.raises(BoxError, match=words):
            box_at(place).deliver("a", b"ballot")
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("installed", ["apache webdav+https"], indirect=True)
def test_the_certificate_of_a_private_authority_must_be_configured(installed: Installed, monkeypatch) -> None:
    address, authority = made(installed, "unknown"), os.environ["SSL_CERT_FILE"]
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(BoxError, match="set SSL_CERT_FILE"):
        box_at(address).deliver("a", b"ballot")
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    with pytest.raises(BoxError, match="SSL_CERT_FILE"):
        box_at(address).deliver("a", b"ballot")
    monkeypatch.setenv("SSL_CERT_FILE", authority)
    box_at(address).deliver("a", b"ballot")


@pytest.mark.parametrize("installed", ["nginx http"], indirect=True)
def test_an_overwriting_write_only_server_gets_no_ballot(installed: Installed) -> None:
    with pytest.raises(BoxError, match=r"ignores If-None-Match.*none was sent"):
        box_at(installed.address("dropbox")).deliver("a", b"ballot")
    assert "a.ballot" not in installed.files("dropbox")
    with pytest.raises(NotFound):
        box_at(installed.address("dropbox")).open("a")
