"""Only one cast of a party runs at a time: tests with real processes, some of which are killed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.keys import new_key, new_server_key
from oneballot.boxes.folder import Folder
from oneballot.election import template
from oneballot.errors import AlreadyCast, PrivacyError
from oneballot.party.cast import cast_together
from oneballot.party.delivery import deliver
from oneballot.party.outbox import Outbox
from oneballot.party.submit import cast_file
from oneballot.privacy.charges import Charges
from oneballot.runtime.files import lock_file
from oneballot.runtime.progress import report_progress_to
from oneballot.simulation import divide

fcntl = pytest.importorskip("fcntl", reason="this system has no file locks")

TREE = 'name = "sklearn"\nestimator = "DecisionTreeClassifier"\n'
L2 = '[privacy]\nlevel = "L2"\nepsilon = 8.0\n'


@pytest.fixture(params=[template.L0, L2], ids=["L0", "L2"])
def agreed(request, clinic: Path) -> Path:
    """A folder with an election whose ballots are encrypted and, at L2, noisy: no two casts give the same bytes."""
    new_key(clinic / "a.key")
    text = template.draft(
        clinic / "public.csv",
        "ill",
        beside=clinic / "election.toml",
        privacy=request.param,
        server_key=new_server_key(clinic / "server.key"),
    ).text
    i, j = text.index('name = "sklearn"'), text.index("[privacy]")
    (clinic / "election.toml").write_text(text[:i] + TREE + "\n" + text[j:])
    return clinic


class CastProcess:
    """A process that runs `oneballot cast`."""

    def __init__(self, folder: Path, *more: str) -> None:
        words = ["cast", "election.toml", "--party", "a", "--data", "a.csv", "--to", "box", "--json", *more]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "oneballot", *words],
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def suspend_at(self, lock: Path) -> None:
        """Wait until the process holds its lock, and suspend it."""
        for _ in range(6_000):
            if lock.exists() and str(self.process.pid) in lock.read_text():
                os.kill(self.process.pid, signal.SIGSTOP)
                assert lock.exists(), "it has already ended"
                return
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)
        raise AssertionError("it did not start")

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> tuple[int, dict]:
        out, err = self.process.communicate(timeout=120)
        assert out, err
        return self.process.returncode, json.loads(out)


def delivered(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.glob("box/*.ballot")]


def draws(folder: Path) -> int:
    charges = folder / "a.casts.json"
    return sum(json.loads(charges.read_text())["draws"].values()) if charges.exists() else 0


@pytest.mark.slow
def test_the_second_of_two_simultaneous_casts_is_rejected_with_the_lock_holder(agreed: Path) -> None:
    first = CastProcess(agreed)
    first.suspend_at(agreed / "ballots" / ".a.casting")
    code, result = CastProcess(agreed).end()
    assert (code, result["kind"]) == (1, "AlreadyCast")
    assert f"process {first.process.pid} on {os.uname().nodename} is casting the ballot of a" in result["error"]
    assert "it delivers the same ballot" in result["error"]
    assert delivered(agreed) == []
    assert draws(agreed) <= 1
    first.resume()
    assert first.end()[0] == 0
    code, result = CastProcess(agreed).end()
    assert (code, result["trained"]) == (0, False)
    assert delivered(agreed) == [(agreed / "ballots" / "a.ballot").read_bytes()]
    files = ["a.ballot", "a.ballot.open", "a.receipt.json", "a.rows.json"]
    assert sorted(os.listdir(agreed / "ballots")) == files, "no lock and no other ballot is left"
    assert draws(agreed) == ('level = "L2"' in (agreed / "election.toml").read_text())


@pytest.mark.parametrize("agreed", [template.L0], indirect=True)
def test_a_lock_ends_with_its_process(agreed: Path) -> None:
    first, lock = CastProcess(agreed), agreed / "ballots" / ".a.casting"
    first.suspend_at(lock)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.communicate()
    assert lock.exists(), "the file of the killed process remains, but is not locked"
    code, result = CastProcess(agreed).end()
    assert code == 0, result
    assert len(delivered(agreed)) == 1
    assert not lock.exists()


@pytest.mark.parametrize("agreed", [L2], indirect=True)
def test_noise_is_drawn_once_even_if_two_casts_use_different_folders(agreed: Path) -> None:
    election = ob.Election.read(agreed / "election.toml")

    def draw_in_another_cast() -> Iterator[str]:
        """Runs when this cast chooses its learners: after it has read the charges and before it trains."""
        Charges(election.digest, agreed / "a.casts.json", what="cast").charge(None)
        yield from ()

    with pytest.raises(PrivacyError, match="another cast of this election has drawn noise since this one began"):
        cast_file(
            election,
            "a",
            agreed / "a.csv",
            keep=agreed / "here",
            box=Folder(agreed / "box"),
            key=agreed / "a.key",
            beside=agreed,
            choices=draw_in_another_cast(),
        )
    assert draws(agreed) == 1
    assert delivered(agreed) == []
    assert not (agreed / "here").exists()


def test_charges_that_changed_since_they_were_read_are_not_charged(tmp_path: Path) -> None:
    charges = Charges("a" * 64, tmp_path / "a.casts.json", what="cast")
    assert charges.charge(None, after=0) == 1
    with pytest.raises(PrivacyError, match="another cast of this election has drawn noise since this one began"):
        Charges("a" * 64, tmp_path / "a.casts.json", what="cast").charge(None, after=0)
    assert charges.draws == 1
    assert Charges("b" * 64, tmp_path / "a.casts.json").charge(None, after=0) == 1, (
        "another election is charged separately"
    )


def test_an_l1_tally_draws_no_noise_if_another_did_while_it_counted(make_election, digits, tmp_path: Path) -> None:
    election = make_election(privacy=ob.L1(epsilon=50.0, tallies=5), server_key="none")
    parties = divide(election.data(digits.X, digits.y), 5, "homogeneous", seed=1)
    ballots, charges = cast_together(election, parties), Charges(election.digest, tmp_path / "tallies.json")

    def another(what: str, done: int, total: int) -> None:
        if what == "counting ballots" and done == 3:
            charges.charge(None)

    with (
        report_progress_to(another),
        pytest.raises(PrivacyError, match="another tally of this election has drawn noise"),
    ):
        ob.tally(election, ballots, book=charges.path)
    assert charges.draws == 1
    assert ob.tally(election, ballots, book=charges.path).ledger.drawn == 2


def test_a_lock_excludes_threads_of_its_party_but_no_other_party(tmp_path: Path) -> None:
    rejected = []

    def second() -> None:
        with pytest.raises(AlreadyCast, match=f"process {os.getpid()} on"), lock(tmp_path, "a"):
            pass
        rejected.append(True)

    with lock(tmp_path, "a"), lock(tmp_path, "b"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert rejected
    assert os.listdir(tmp_path) == []
    with lock(tmp_path, "a"):
        pass


def lock(folder: Path, party: str) -> AbstractContextManager[None]:
    return Outbox(ob.Election(["no", "yes"], np.zeros((2, 1))), party, folder).lock()


LOCK_REPEATEDLY = """
import os, sys, time
from pathlib import Path
from oneballot.runtime.files import lock_file
held, end = 0, time.monotonic() + 2
while time.monotonic() < end:
    try:
        with lock_file(Path(sys.argv[1], "lock")):
            os.close(os.open(Path(sys.argv[1], "inside"), os.O_CREAT | os.O_EXCL))
            os.unlink(Path(sys.argv[1], "inside"))
            held += 1
    except BlockingIOError:
        pass
print(held)
"""


def test_only_one_of_several_processes_holds_a_lock(tmp_path: Path) -> None:
    """Even though its file is removed while other processes have it open."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", LOCK_REPEATEDLY, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for process in processes:
        held, error = process.communicate()
        assert process.returncode == 0, error.decode()
        assert int(held) > 0
    with lock_file(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == f"process {os.getpid()} on {os.uname().nodename}"
    assert os.listdir(tmp_path) == []


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users can write to, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def as_another_user(work: Callable[[], None]) -> None:
    """Run the work in a child process as another user."""
    if os.geteuid():
        pytest.skip("switching to another user requires root")
    if not (child := os.fork()):
        try:
            os.setuid(65534)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_lock_of_another_user_is_respected(shared_folder: Path) -> None:
    def cast() -> None:
        with pytest.raises(AlreadyCast, match="another user is casting the ballot of a"):
            lock(shared_folder, "a").__enter__()

    with lock(shared_folder, "a"):
        as_another_user(cast)


def test_an_unreadable_file_in_a_folder_does_not_block_a_delivery(clinic: Path, shared_folder: Path) -> None:
    (clinic / "election.toml").write_text(
        template.draft(clinic / "public.csv", "ill", beside=clinic / "election.toml").text
    )
    election, box = ob.Election.read(clinic / "election.toml"), Folder(shared_folder)
    (shared_folder / "a.ballot").write_bytes(b"a foreign file")
    (shared_folder / "a.ballot").chmod(0)
    ballot = ob.cast(election, clinic / "a.csv", party="a")

    def put() -> None:
        assert deliver(election, box, "a", "a", ballot.sealed).startswith("a.")
        with pytest.raises(AlreadyCast, match="another ballot of a"):
            box.deliver("a", b"of twelve by")

    as_another_user(put)
    assert len(list(box.names())) == 2


def test_a_file_system_without_locks_does_not_block_a_cast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with lock_file(tmp_path / "lock"), lock_file(tmp_path / "lock"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_lock_follows_no_link_and_removes_no_other_lock(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"), lock_file(tmp_path / "link"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"
    first, second = lock_file(tmp_path / "lock"), lock_file(tmp_path / "lock")
    with first:
        (tmp_path / "lock").unlink()
        second.__enter__()
    assert (tmp_path / "lock").exists(), "the second lock remains"
    second.__exit__(None, None, None)
    assert not (tmp_path / "lock").exists()


def test_a_failed_cast_leaves_no_folder_behind(tmp_path: Path) -> None:
    with suppress(ZeroDivisionError), lock(tmp_path / "x" / "y", "a"):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []
