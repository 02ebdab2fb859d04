"""Runs the commands of docs/flower.md: a SuperLink and SuperNodes as processes on loopback, over TLS, with node
authentication, where one is killed during training; and a simulation with `flwr run`.

Every process has the folder of the test in its environment, so that all leftovers are found, including
grandchildren, and no other process is touched.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

import oneballot as ob
from oneballot.boxes.folder import Folder
from oneballot.cli import app
from oneballot.server.tally import tally_box

pytest.importorskip("flwr", reason="flwr is not installed")

PAGE = (Path(__file__).parents[3] / "docs/flower.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh (\w+)\n(.*?)^```$", PAGE, re.M | re.S)
PARTIES = ("clinic-a", "clinic-b", "clinic-c")
SECONDS = 240
"""Timeout of each step on a busy machine."""


def commands(where: str) -> list[str]:
    """The commands of the page for a place, in order."""
    return [line for place, text in BLOCKS if place == where for line in text.splitlines()]


def only(where: str, begin: str) -> str:
    (found,) = [line for line in commands(where) if line.startswith(begin)]
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, come: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not come():
        assert time.monotonic() < end, f"waited {SECONDS} s for {what}"
        time.sleep(0.2)


class Place:
    """A folder in which commands run, and the processes that they start."""

    def __init__(self, folder: Path, mark: Path) -> None:
        self.folder, self.log = folder, folder / "log.txt"
        exports = dict(re.findall(r"^export (\w+)=(\S+)", "\n".join(commands("everywhere")), re.M))
        bin_folder = Path(sys.executable).parent
        self.env = {**os.environ, **exports, "PATH": f"{bin_folder}:{os.environ['PATH']}", "ONEBALLOT_TEST": str(mark),
                    "FLWR_HOME": str(folder / ".flwr"), "OMP_NUM_THREADS": "1", "ONEBALLOT_WORKERS": "1",
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}  # fmt: skip
        folder.mkdir(exist_ok=True)
        self.started: list[subprocess.Popen[bytes]] = []

    def oneballot(self, line: str) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}\n{result.output}"
        return result.output

    def start(self, line: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(shlex.split(line), cwd=self.folder, env=self.env, stdout=log, stderr=log)
        self.started.append(process)
        return process

    def run(self, line: str) -> None:
        assert self.start(line).wait(SECONDS) == 0, f"{line}\n{self.output()}"

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def marked(mark: Path, folder: Path | None = None) -> list[psutil.Process]:
    """The processes of this test, or of one place in it, with their children."""
    found = []
    for process in psutil.process_iter():
        try:
            env, zombie = process.environ(), process.status() == psutil.STATUS_ZOMBIE
            there = folder is None or env.get("FLWR_HOME") == str(folder / ".flwr")
            if env.get("ONEBALLOT_TEST") == str(mark) and there and not zombie:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[[str], Place]]:
    places: dict[str, Place] = {}

    def get(name: str) -> Place:
        return places.setdefault(name, Place(tmp_path / name, tmp_path))

    try:
        yield get
    finally:
        for process in marked(tmp_path):
            process.kill()
        for child in (child for at in places.values() for child in at.started):
            child.wait(SECONDS)
        wait_for("killed processes to be gone", lambda: not marked(tmp_path))


def end(processes: list[subprocess.Popen[bytes]], mark: Path) -> None:
    """Terminate processes, and check that their children end with them."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(SECONDS)
    wait_for("processes to end with those that started them", lambda: not marked(mark))


def signed_certificates(folder: Path) -> None:
    """A certificate authority and a certificate for 127.0.0.1, like those of the page's openssl commands."""
    day, start = datetime.timedelta(days=1), datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name, name = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)]) for n in ("a CA", "a SuperLink"))

    def begin(subject: x509.Name, public: ec.EllipticCurvePublicKey, ca: bool) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder(ca_name, subject, public, x509.random_serial_number(), start - day, start + day)
        return made.add_extension(x509.BasicConstraints(ca, None), critical=True)

    ours = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    ca = begin(ca_name, ca_key.public_key(), True).sign(ca_key, hashes.SHA256())
    certificate = begin(name, key.public_key(), False).add_extension(ours, False).sign(ca_key, hashes.SHA256())
    for file, made in {"ca.crt": ca, "superlink.crt": certificate}.items():
        (folder / file).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "superlink.key").write_bytes(pem(key, serialization.PrivateFormat.PKCS8))


def pem(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def node_key(path: Path) -> None:
    """A key like that of the page's ssh-keygen command."""
    key = ec.generate_private_key(ec.SECP384R1())
    path.write_bytes(pem(key, serialization.PrivateFormat.OpenSSH))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_suffix(".pub").write_bytes(public)


def edit(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert old in text, f"{path} has no {old!r}"
        text = text.replace(old, new, 1)
    path.write_text(text)


@pytest.mark.slow
def test_the_guide_works_with_a_node_killed_during_training(clinic: Path, place: Callable[[str], Place]) -> None:
    server, clinics = place("server"), {name: place(name) for name in PARTIES}
    shutil.copy(clinic / "public.csv", server.folder)
    shutil.copy(clinic / "test.csv", server.folder)
    port = free_port()

    def here(line: str, party: str = "clinic-a") -> str:
        line = line.replace("superlink.example.org:8000", f"127.0.0.1:{port}").replace("clinic-a", party)
        return line.replace("--host 0.0.0.0 --port 8000", f"--host 127.0.0.1 --port {port}")

    # 2 and 3: the SuperLink
    signed_certificates(server.folder)
    superlink = server.start(here(only("server", "flower-superlink")))
    config = re.search(r"^```toml\n(\[superlink\].*?)^```$", PAGE, re.M | re.S)
    assert config
    (server.folder / ".flwr").mkdir()
    (server.folder / ".flwr" / "config.toml").write_text(here(config[1]).replace("/srv/clinics", str(server.folder)))

    # 1: the election
    server.oneballot(only("server", "oneballot new"))
    outputs = [at.oneballot(here(only("clinic", "oneballot keys"), name)) for name, at in clinics.items()]
    keys = [line for text in outputs for line in text.splitlines() if re.match(r"\S+ = .ed25519:", line)]
    election = server.folder / "election.toml"
    edit(election, ('# clinic-a = "ed25519:…"', "\n".join(keys)), ("quorum = 1 ", "quorum = 2 "),
         ("n_estimators = 100", "n_estimators = 5"))  # fmt: skip
    for name, at in clinics.items():
        for file in ("election.toml", "public.csv", "ca.crt"):
            shutil.copy(server.folder / file, at.folder)
        shutil.copy(clinic / f"{name[-1]}.csv", at.folder / "rows.csv")
        node_key(at.folder / f"{name}-node")
        shutil.copy(at.folder / f"{name}-node.pub", server.folder)
    digests = {
        re.search(r"digest (\w{64})", at.oneballot(only("clinic", "oneballot check")))[1] for at in clinics.values()
    }
    assert digests == {ob.Election.read(election).digest}

    # 3 and 4: the nodes; clinic-c uses a learner that never finishes
    again = clinics["clinic-c"].folder / "clinic-c-again-node"
    node_key(again)
    shutil.copy(again.with_suffix(".pub"), server.folder)
    wait_for("the SuperLink", lambda: "Uvicorn running" in server.output() or superlink.poll() is not None)
    register = only("server", "flwr supernode register")
    known = [server.start(here(register, name)) for name in (*PARTIES, "clinic-c-again")]
    for process in known:
        assert process.wait(SECONDS) == 0, server.output()
    written = only("clinic", "oneballot flower node")
    clinics["clinic-a"].oneballot(here(written, "clinic-a"))
    clinics["clinic-b"].oneballot(here(written, "clinic-b"))
    clinics["clinic-c"].oneballot(here(written, "clinic-c") + " --learner xgboost:rounds=100000")
    begin = only("clinic", "flower-supernode")
    nodes = {name: at.start(f"{here(begin, name)} --port {free_port()}") for name, at in clinics.items()}
    unregistered = place("unregistered")
    for file in ("ca.crt", "node.toml"):
        shutil.copy(clinics["clinic-a"].folder / file, unregistered.folder)
    node_key(unregistered.folder / "unregistered-node")
    refused = unregistered.start(f"{here(begin, 'unregistered')} --port {free_port()}")

    # 5: the run
    server.oneballot(only("server", "oneballot flower new"))
    edit(election, ("quorum =", "deadline = 9999-01-01T00:00:00Z\nquorum ="))
    edit(server.folder / "app" / "pyproject.toml", ("poll-seconds = 2.0", "poll-seconds = 0.5"))
    run = server.start(only("server", "flwr run"))
    wait_for("clinic-c to train", lambda: "clinic-c: asked to vote" in clinics["clinic-c"].output())
    nodes["clinic-c"].kill()
    nodes["clinic-c"].wait()  # its children check whether it exists, and a zombie does
    wait_for("its children to end", lambda: not marked(clinic, clinics["clinic-c"].folder))
    box = server.folder / "box"
    wait_for("the others' ballots", lambda: len(list(box.glob("*.ballot"))) == 2 or run.poll() is not None)
    assert run.poll() is None, server.output()
    edit(election, ("9999-01-01T00:00:00Z", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"))
    assert run.wait(SECONDS) == 0, server.output()
    assert (
        "2 of 3 have voted: clinic-a, clinic-b. Awaited until 9999-01-01 00:00:00+00:00: clinic-c." in server.output()
    )
    assert not (clinics["clinic-c"].folder / "ballots" / "clinic-c.ballot").exists()
    assert refused.wait(SECONDS) != 0, "a node without a registered key is refused"
    assert same_as_by_files(election, box, server.folder / "outcome") == ["clinic-a", "clinic-b"]
    assert "accuracy" in server.oneballot(only("server", "oneballot evaluate"))

    # 6: clinic-c returns for the next outcome, with another box, so that all are asked again
    (clinics["clinic-c"].folder / "node.toml").unlink()
    clinics["clinic-c"].oneballot(here(written, "clinic-c"))
    key, fresh = "--auth-supernode-private-key clinic-c-node", "--auth-supernode-private-key clinic-c-again-node"
    nodes["clinic-c"] = clinics["clinic-c"].start(f"{here(begin, 'clinic-c')} --port {free_port()}".replace(key, fresh))
    later, outcome = server.folder / "box 2", server.folder / "outcome 2"
    (server.folder / "later.toml").write_text(f"box = {json.dumps(str(later))}\noutcome = {json.dumps(str(outcome))}\n")
    wait_for(
        "clinic-c's new node", lambda: "SuperNode ID" in clinics["clinic-c"].output().rpartition("asked to vote")[2]
    )
    server.run(only("server", "flwr run") + " --run-config later.toml")
    assert same_as_by_files(election, later, outcome) == list(PARTIES)
    for name in PARTIES[:2]:
        assert (later / f"{name}.ballot").read_bytes() == (box / f"{name}.ballot").read_bytes()
        assert clinics[name].output().count(f"{name}: cast, kept") == 1
        assert f"{name}: already cast, kept" in clinics[name].output()
    shutil.copy(later / "clinic-c.ballot", box)
    assert "3 ballots" in server.oneballot(only("server", "oneballot tally"))
    assert model(server.folder / "outcome") == model(outcome)
    end([*nodes.values(), superlink], clinic)


def same_as_by_files(election: Path, box: Path, outcome: Path) -> list[str]:
    """Tally the same ballots as files, compare bit by bit, and return the parties that have voted."""
    files = outcome.with_name(f"{outcome.name} by files")
    tally_box(ob.Election.read(election), Folder(box)).save(files)
    assert sorted([*(p.name for p in files.iterdir()), "log.jsonl"]) == sorted(p.name for p in outcome.iterdir())
    for path in files.iterdir():
        assert path.read_bytes() == (outcome / path.name).read_bytes(), path.name
    return list(json.loads((outcome / "outcome.json").read_text())["voted"])


def model(outcome: Path) -> bytes:
    (path,) = outcome.glob("model-*")
    return path.read_bytes()


@pytest.mark.slow
def test_flwr_run_simulates_an_election(clinic: Path, place: Callable[[str], Place]) -> None:
    here = place("one-machine")
    (here.folder / "parties").mkdir()
    for name in PARTIES:
        shutil.copy(clinic / f"{name[-1]}.csv", here.folder / "parties" / f"{name}.csv")
    shutil.copy(clinic / "public.csv", here.folder)
    here.oneballot(only("server", "oneballot new"))
    edit(here.folder / "election.toml", ("n_estimators = 100", "n_estimators = 5"))
    here.env["FLWR_LOCAL_SUPERLINK_HTTP_API_PORT"] = str(free_port())
    here.oneballot(only("simulation", "oneballot flower new"))
    before = (here.folder / "app" / "pyproject.toml").read_bytes()
    here.run(only("simulation", "flwr run"))
    assert (here.folder / "app" / "pyproject.toml").read_bytes() == before
    assert same_as_by_files(here.folder / "election.toml", here.folder / "box", here.folder / "outcome") == list(
        PARTIES
    )
    for process in marked(clinic):  # the SuperLink that `flwr run` leaves behind
        if "flower-superlink" in " ".join(process.cmdline()):
            process.terminate()
    wait_for("the simulation's processes to end", lambda: not marked(clinic))


@pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="needs openssl, ssh-keygen")
def test_flower_accepts_the_certificates_and_keys_of_the_guide(tmp_path: Path) -> None:
    made = [line for line in commands("server") if line.startswith("openssl")]
    for line in (*made, only("clinic", "ssh-keygen")):
        subprocess.run(shlex.split(line), cwd=tmp_path, check=True, capture_output=True)
    ca, certificate = (x509.load_pem_x509_certificate((tmp_path / f).read_bytes()) for f in ("ca.crt", "superlink.crt"))
    certificate.verify_directly_issued_by(ca)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["superlink.example.org", "localhost"]
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    node = serialization.load_ssh_private_key((tmp_path / "clinic-a-node").read_bytes(), None)
    assert isinstance(node.curve, ec.SECP384R1)
    assert (tmp_path / "clinic-a-node.pub").is_file()


def test_every_command_of_the_guide_is_run_here() -> None:
    typed = {"openssl", "ssh-keygen", "oneballot", "flower-superlink", "flower-supernode", "flwr", "export"}
    run = [
        "oneballot new", "oneballot keys", "oneballot check", "openssl", "ssh-keygen", "flower-superlink",
        "flwr supernode register", "oneballot flower node", "flower-supernode", "oneballot flower new", "flwr run",
        "oneballot evaluate", "oneballot tally", "export",
    ]  # fmt: skip
    lines = [line for place, _ in BLOCKS for line in commands(place)]
    assert {line.split()[0] for line in lines} == typed
    assert not [line for line in lines if not line.startswith(tuple(run))]
