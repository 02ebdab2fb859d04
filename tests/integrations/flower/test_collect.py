"""A server and its nodes: the real ServerApp and ClientApps, on a grid that passes messages within this process.

The grid implements Flower's interface without the network; `test_processes.py` covers the network.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr", reason="flwr is not installed")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import UnexpectedObjectContentError, add_header_to_object_body
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

import oneballot as ob
from oneballot.ballot.encryption import is_encrypted
from oneballot.ballot.keys import new_key, new_server_key
from oneballot.boxes.folder import Folder
from oneballot.election.edit import set_values
from oneballot.errors import ElectionError, KeyFileError, QuorumError
from oneballot.integrations.flower import party, server, wire
from oneballot.integrations.flower.collect import Intervals
from oneballot.party.submit import cast_file
from oneballot.server.tally import tally_box
from oneballot.sparse import is_sparse

PARTIES = ("clinic-a", "clinic-b", "clinic-c")
NODE_UNAVAILABLE = 5
QUICK = Intervals(poll=0.01, ask_again=0.05, settle=0.1)


@dataclass
class Node:
    config: dict[str, Any]
    session: str = "first"
    online: bool = True
    busy: bool = False  # never finishes training
    reply: Callable[[Message], Message] | None = None  # replaces the reply of the ClientApp
    asked: list[Message] = field(default_factory=list)


class Loop(Grid):
    """A node that is offline when its reply is fetched gives Flower's error 5."""

    def __init__(self, *configs: dict[str, Any], run_config: dict[str, Any] | None = None) -> None:
        self.nodes = [Node(config) for config in configs]
        self.sent: dict[str, Message] = {}
        self.run_config = run_config or {}
        self.polls = 0
        self.then: dict[int, Callable[[], object]] = {}

    def get_nodes(self) -> Iterable[Any]:
        self.polls += 1
        self.then.pop(self.polls, lambda: None)()
        found = enumerate(self.nodes)
        return [SimpleNamespace(node_id=i, last_activated_at=n.session) for i, n in found if n.online]

    def get_node_ids(self) -> Iterable[int]:
        return [node.node_id for node in self.get_nodes()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message {len(self.sent)}"
            self.sent[message.metadata.message_id] = message
            self.nodes[message.metadata.dst_node_id].asked.append(message)
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = []
        for message in (self.sent[i] for i in message_ids):
            number = message.metadata.dst_node_id
            node = self.nodes[number]
            if not node.online:
                found.append(Message(Error(NODE_UNAVAILABLE, "Node Unavailable"), reply_to=message))
            elif node.reply:
                found.append(node.reply(message))
            elif not node.busy:
                context = Context(1, number, node.config, RecordDict(), self.run_config)
                found.append(party.app(message, context))
        return found

    def set_run(self, run: Any) -> None: ...

    run = property(lambda self: None)  # type: ignore[assignment]
    create_message = send_and_receive = None  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Set the identity of Flower's task, and let its logger propagate."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    caplog.set_level(logging.INFO, "flwr.oneballot")


def config(clinics: Path, name: str, **more: Any) -> dict[str, Any]:
    home = clinics / name
    return {"party": name, "election": str(home / "election.toml"), "data": str(home / "rows.csv"),
            "key": str(home / f"{name}.key"), "keep": str(home / "ballots"), **more}  # fmt: skip


def loop(clinics: Path) -> Loop:
    return Loop(*(config(clinics, name) for name in PARTIES))


def settings(clinics: Path, **more: Any) -> server.RunConfig:
    home = clinics / "server"
    result = server.RunConfig.read(
        {"election": str(home / "election.toml"), "box": str(home / "box"), "outcome": str(home / "outcome")}
    )
    return replace(result, intervals=QUICK, **more)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def put_deadline(clinics: Path, when: datetime, place: str = "server") -> None:
    edit(clinics / place / "election.toml", "quorum =", f"deadline = {when:%Y-%m-%dT%H:%M:%S.%f}Z\nquorum =")


def box(clinics: Path) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in (clinics / "server" / "box").iterdir()}


def in_seconds(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_ballots_and_outcome_equal_those_of_the_command_line(clinics: Path) -> None:
    outcome = server.run_election(loop(clinics), settings(clinics))
    filed = Folder(clinics / "filed")
    for name in PARTIES:
        home = clinics / name
        agreed = ob.Election.read(home / "election.toml")
        cast_file(agreed, name, home / "rows.csv", keep=clinics / "again" / name, beside=home, box=filed)
    assert box(clinics) == {path.stem: path.read_bytes() for path in (clinics / "filed").iterdir()}
    by_files = tally_box(agreed, filed)
    by_files.save(clinics / "by files")
    for name in ("outcome.json", *(p.name for p in (clinics / "by files").glob("model-*"))):
        assert (clinics / "server/outcome" / name).read_bytes() == (clinics / "by files" / name).read_bytes()
    assert sorted(outcome.voted) == list(PARTIES)


def test_a_ballot_is_kept_on_the_nodes_disk_and_never_cast_twice(clinics: Path, monkeypatch) -> None:
    grid = loop(clinics)
    server.run_election(grid, settings(clinics))
    first = box(clinics)
    for name in PARTIES:
        assert (clinics / name / "ballots" / f"{name}.ballot").read_bytes() == first[name]
        (clinics / name / "rows.csv").unlink()  # training again would fail
    again = replace(settings(clinics), box=clinics / "server" / "box 2", outcome=clinics / "server" / "outcome 2")
    server.run_election(grid, again)
    assert {p.stem: p.read_bytes() for p in again.box.iterdir()} == first


def test_simultaneous_queries_cause_one_cast(clinics: Path) -> None:
    node_config = party.NodeConfig.read(config(clinics, "clinic-a"), {})
    digest = ob.Election.read(node_config.election).digest
    replies: list[wire.Reply] = []
    threads = [
        threading.Thread(target=lambda: replies.append(party.cast_for_server(node_config, digest))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 3
    assert len(set(replies)) == 1
    assert [p.name for p in node_config.keep.glob("*.ballot*")] == ["clinic-a.ballot"]


def test_at_l2_the_ballot_and_the_record_of_casts_may_share_a_folder(clinics: Path) -> None:
    """Both folders are locked during a cast, without a deadlock."""
    home = clinics / "clinic-a"
    edit(home / "election.toml", 'level = "L0"', 'level = "L2"\nepsilon = 50.0\ndelta = 1e-5')
    text = (home / "election.toml").read_text("utf-8")
    (home / "election.toml").write_text(re.sub(r"(?m)^(influence|second_choice) = .*\n", "", text), "utf-8")
    node_config = party.NodeConfig.read(config(clinics, "clinic-a", keep=str(home)), {})
    digest = ob.Election.read(node_config.election).digest
    assert party.cast_for_server(node_config, digest) == party.cast_for_server(node_config, digest)
    assert json.loads((home / "clinic-a.casts.json").read_text())


def test_a_node_with_another_election_refuses_and_names_both_digests(clinics: Path, caplog) -> None:
    edit(clinics / "clinic-c" / "election.toml", "seed = 0", "seed = 1")
    put_deadline(clinics, in_seconds(1.5))
    outcome = server.run_election(loop(clinics), settings(clinics))
    ours, theirs = (ob.Election.read(clinics / at / "election.toml").digest for at in ("server", "clinic-c"))
    assert f"clinic-c has agreed to the election {theirs}, but the server asks about {ours}" in caplog.text
    assert sorted(outcome.voted) == ["clinic-a", "clinic-b"]
    assert not (clinics / "clinic-c" / "ballots").exists()


def test_errors_that_may_quote_rows_do_not_leave_the_node(clinics: Path) -> None:
    edit(clinics / "clinic-a" / "rows.csv", ",yes", ",the-name-of-a-patient")
    digest = ob.Election.read(clinics / "server" / "election.toml").digest
    query = wire.make_query(digest, 10)
    query.metadata.__dict__["_message_id"] = "one"
    reply = party.app(query, Context(1, 10, config(clinics, "clinic-a"), RecordDict(), {}))
    result = wire.read_reply(reply)
    assert "DataError" in result.reason
    assert "patient" not in repr(reply.content)
    assert not result.sealed


def test_a_node_that_refused_is_asked_again(clinics: Path, caplog) -> None:
    rows = clinics / "clinic-b" / "rows.csv"
    rows.rename(rows.with_suffix(".away"))
    put_deadline(clinics, in_seconds(3600))
    grid = loop(clinics)
    grid.then[20] = lambda: rows.with_suffix(".away").rename(rows)
    assert sorted(server.run_election(grid, settings(clinics)).voted) == list(PARTIES)
    assert len(grid.nodes[1].asked) > 1
    assert len(grid.nodes[0].asked) == 1
    assert "It is asked again in" in caplog.text


def test_a_node_that_is_late_or_returns_is_asked(clinics: Path, caplog) -> None:
    grid = loop(clinics)
    away, killed = grid.nodes[1], grid.nodes[2]
    away.online, killed.busy = False, True

    def kill() -> None:
        killed.online = False

    def back() -> None:
        killed.online, killed.busy, killed.session = True, False, "second"

    grid.then |= {5: kill, 10: lambda: setattr(away, "online", True), 15: back}
    assert sorted(server.run_election(grid, settings(clinics)).voted) == list(PARTIES)
    assert [len(node.asked) for node in grid.nodes] == [1, 1, 2]
    assert "Node Unavailable. It is asked again when it returns" in caplog.text


def test_a_node_that_restarted_between_two_polls_is_asked_again(clinics: Path) -> None:
    grid = loop(clinics)
    grid.nodes[0].busy = True

    def restarted() -> None:
        grid.nodes[0].busy, grid.nodes[0].session = False, "second"

    grid.then[5] = restarted
    server.run_election(grid, settings(clinics))
    assert len(grid.nodes[0].asked) == 2


def test_a_quorum_is_tallied_at_the_deadline_and_late_ballots_by_the_next_run(clinics: Path, caplog) -> None:
    put_deadline(clinics, in_seconds(1.5))
    grid = loop(clinics)
    grid.nodes[2].busy = True
    first = server.run_election(grid, settings(clinics))
    assert sorted(first.voted) == ["clinic-a", "clinic-b"]
    assert "2 of 3 have voted: clinic-a, clinic-b. Awaited until" in caplog.text
    assert ": clinic-c. Nodes at work: 1." in caplog.text
    grid.nodes[2].busy = False
    second = server.run_election(grid, settings(clinics))
    assert sorted(second.voted) == list(PARTIES)
    loaded = ob.Outcome.load(clinics / "server" / "outcome")
    assert loaded.summary() == second.summary()


def test_two_tallies_are_refused_before_any_party_is_asked(two_tallies: Path) -> None:
    grid = loop(two_tallies)
    with pytest.raises(ElectionError, match="an election with two tallies cannot run over Flower"):
        server.run_election(grid, settings(two_tallies))
    assert not grid.polls


def test_without_a_quorum_the_deadline_is_an_error_and_ballots_stay_in_the_box(clinics: Path) -> None:
    put_deadline(clinics, in_seconds(1))
    grid = loop(clinics)
    for node in grid.nodes[1:]:
        node.busy = True
    with pytest.raises(QuorumError, match="1 ballot counts, but the quorum is 2"):
        server.run_election(grid, settings(clinics))
    assert list(box(clinics)) == ["clinic-a"]


def test_the_deadline_can_be_changed_during_a_run(clinics: Path, caplog) -> None:
    put_deadline(clinics, in_seconds(3600))
    path = clinics / "server" / "election.toml"
    later = path.read_text()
    grid = loop(clinics)
    grid.nodes[2].busy = True
    stamp = "deadline = "
    grid.then |= {
        5: lambda: path.write_text("half of it"),
        6: lambda: path.write_text(later.replace("seed = 0", "seed = 1")),
        7: lambda: path.write_text(later.replace(stamp, f"{stamp}{in_seconds(0.2):%Y-%m-%dT%H:%M:%S.%f}Z  # ")),
    }
    assert sorted(server.run_election(grid, settings(clinics)).voted) == ["clinic-a", "clinic-b"]
    assert caplog.text.count("the change is ignored") == 2
    assert "has changed: quorum 2, deadline" in caplog.text


def test_without_a_deadline_a_quorum_is_tallied_when_no_node_is_training(clinics: Path) -> None:
    grid = loop(clinics)
    grid.nodes[2].busy = True
    grid.then[10] = lambda: setattr(grid.nodes[2], "online", False)
    assert sorted(server.run_election(grid, settings(clinics)).voted) == ["clinic-a", "clinic-b"]


def test_ballots_delivered_as_files_count_too(clinics: Path) -> None:
    home = clinics / "clinic-c"
    agreed = ob.Election.read(home / "election.toml")
    filed = Folder(clinics / "server" / "box")
    cast_file(agreed, "clinic-c", home / "rows.csv", keep=home / "ballots", beside=home, box=filed)
    (clinics / "server" / "box" / "junk.ballot").write_bytes(b"junk")
    outcome = server.run_election(Loop(*(config(clinics, name) for name in PARTIES[:2])), settings(clinics))
    assert sorted(outcome.voted) == list(PARTIES)
    assert list(outcome.spoiled) == ["junk"]


def test_a_ballot_can_be_delivered_as_a_file_during_a_run(clinics: Path) -> None:
    put_deadline(clinics, in_seconds(3600))
    grid, home = Loop(*(config(clinics, name) for name in PARTIES[:2])), clinics / "clinic-c"
    agreed, filed = ob.Election.read(home / "election.toml"), Folder(clinics / "server" / "box")
    grid.then[10] = lambda: cast_file(
        agreed, "clinic-c", home / "rows.csv", keep=home / "ballots", beside=home, box=filed
    )
    assert sorted(server.run_election(grid, settings(clinics)).voted) == list(PARTIES)


def test_a_ballot_counts_once_its_party_is_added_to_the_roster(clinics: Path, caplog) -> None:
    put_deadline(clinics, in_seconds(3600))
    path, home = clinics / "server" / "election.toml", clinics / "clinic-c"
    whole = path.read_text()
    (line,) = [line for line in whole.splitlines() if line.startswith("clinic-c = ")]
    path.write_text(whole.replace(line, ""))
    agreed, filed = ob.Election.read(home / "election.toml"), Folder(clinics / "server" / "box")
    cast_file(agreed, "clinic-c", home / "rows.csv", keep=home / "ballots", beside=home, box=filed)
    grid = Loop(*(config(clinics, name) for name in PARTIES[:2]))
    grid.nodes[1].busy = True
    grid.then |= {5: lambda: path.write_text(whole), 10: lambda: setattr(grid.nodes[1], "busy", False)}
    grid.then[200] = lambda: edit(path, "deadline = ", f"deadline = {in_seconds(0.1):%Y-%m-%dT%H:%M:%S.%f}Z  # ")
    assert sorted(server.run_election(grid, settings(clinics)).voted) == list(PARTIES)
    assert grid.polls < 200
    assert "clinic-c in the box is spoiled" in caplog.text


@pytest.mark.parametrize("by", ["node", "file"])
def test_a_ballot_whose_key_is_revoked_during_a_run_is_awaited_again(by: str, clinics: Path, caplog) -> None:
    put_deadline(clinics, in_seconds(3600))
    path, home = clinics / "server" / "election.toml", clinics / "clinic-c"
    grid = loop(clinics)
    grid.nodes[1].busy = True

    def revoke() -> None:
        """Revoke the key and give the party a new one, which it has not used yet."""
        (home / "clinic-c.key").rename(home / "stolen.key")
        new = new_key(home / "clinic-c.key")
        (old,) = ob.Election.read(path).roster["clinic-c"]
        for place in (path, home / "election.toml"):
            edit(place, f'clinic-c = "{old}"', f'clinic-c = "{new}"\n\n[revoked]\n"{old}" = "laptop stolen"\n')

    def resign() -> None:
        assert grid.nodes[1].asked
        assert not (clinics / "server" / "outcome").exists()
        agreed, filed = ob.Election.read(home / "election.toml"), Folder(clinics / "server" / "box")
        box = filed if by == "file" else None
        cast_file(agreed, "clinic-c", home / "rows.csv", keep=home / "ballots", beside=home, box=box, resign=True)

    grid.then |= {5: revoke, 10: lambda: setattr(grid.nodes[1], "busy", False), 20: resign}
    outcome = server.run_election(grid, settings(clinics))
    assert sorted(outcome.voted) == list(PARTIES)
    assert grid.polls >= 20
    assert "the ballot of clinic-c no longer counts. It is asked again" in caplog.text


def test_encrypted_ballots_have_the_same_names_as_delivered_files_and_count(clinics: Path) -> None:
    public = new_server_key(clinics / "server" / "server.key")
    for place in ("server", *PARTIES):
        edit(clinics / place / "election.toml", "quorum =", f'server_key = "{public}"\nquorum =')
    grid = loop(clinics)
    outcome = server.run_election(grid, settings(clinics))
    assert sorted(outcome.voted) == list(PARTIES)
    found = box(clinics)
    assert not found.keys() & set(PARTIES)
    for name in PARTIES:
        kept = clinics / name / "ballots" / f"{name}.ballot"
        agreed = ob.Election.read(clinics / name / "election.toml")
        result = cast_file(agreed, name, clinics / name / "rows.csv", keep=kept.parent, beside=clinics / name)
        assert found[result["name"]] == kept.read_bytes()
        assert is_encrypted(kept.read_bytes())
    grid.nodes[2].reply = reply_with(ballot=raw(kept.read_bytes()), name=ConfigRecord({"name": "../outside"}))
    again = replace(settings(clinics), box=clinics / "server" / "box 2", outcome=clinics / "server" / "outcome 2")
    assert sorted(server.run_election(grid, again).voted) == ["clinic-a", "clinic-b"]
    (clinics / "server" / "server.key").unlink()
    with pytest.raises(KeyFileError, match="give the server's secret key"):
        server.run_election(grid, again)


def reply_with(**records: Any) -> Callable[[Message], Message]:
    return lambda query: Message(RecordDict(records), reply_to=query)


def raw(data: bytes, stype: str = wire.STYPE) -> ArrayRecord:
    return ArrayRecord({wire.BALLOT: Array(dtype="uint8", shape=(len(data),), stype=stype, data=data)})


NAMED = ConfigRecord({"name": "x"})


def raises(error: Exception) -> Callable[[Message], Message]:
    def say(query: Message) -> Message:
        raise error

    return say


def cut(query: Message) -> Message:
    """A record that Flower cannot decode."""
    inflated: Any = inflate_object_from_contents("0", {"0": add_header_to_object_body(b"\xff\xff", NAMED)})
    return Message(RecordDict({wire.NAME: inflated}), reply_to=query)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (reply_with(), "neither a ballot nor a refusal"),
        (reply_with(ballot=ConfigRecord({"ballot": "x"})), "neither a ballot nor a refusal"),
        (reply_with(ballot=raw(b"x", "numpy.ndarray")), "neither a ballot nor a refusal"),
        (reply_with(ballot=raw(b"PK")), "neither a ballot nor a refusal"),
        (reply_with(ballot=raw(b"PK"), name=NAMED), "its ballot was refused: it is not a whole ballot"),
        (reply_with(ballot=raw(bytes(3 << 20)), name=NAMED), "3,145,728 bytes, but the election allows 1,048,576"),
        (reply_with(refused=ConfigRecord({})), "it gives no reason"),
        (reply_with(refused=ConfigRecord({"reason": "\x1b[2Jcleared"})), "sends no ballot:  [2Jcleared"),
        (raises(ValueError("no such object")), "its reply cannot be read: ValueError"),
        (
            raises(UnexpectedObjectContentError("0", "no head")),
            "its reply cannot be read: UnexpectedObjectContentError",
        ),
        (cut, "its reply cannot be read: DecodeError"),
    ],
    ids=["nothing", "no array", "numpy", "no name", "no zip", "large", "mute", "escape", "malformed", "no head", "cut"],
)
def test_an_invalid_reply_is_refused_and_the_other_ballots_count(reply, words, clinics: Path, caplog) -> None:
    edit(clinics / "server" / "election.toml", "# max_ballot_mb = 64", "max_ballot_mb = 1")
    put_deadline(clinics, in_seconds(1))
    grid = loop(clinics)
    grid.nodes[2].reply = reply
    outcome = server.run_election(grid, settings(clinics))
    assert sorted(outcome.voted) == ["clinic-a", "clinic-b"]
    assert words in caplog.text
    assert sorted(box(clinics)) == ["clinic-a", "clinic-b"]


def test_an_invalid_message_does_not_affect_a_reply_of_the_same_call(clinics: Path, caplog) -> None:
    class Crowded(Loop):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
            return [ConfigRecord(), *super().pull_messages(message_ids)]

    put_deadline(clinics, in_seconds(5))
    outcome = server.run_election(Crowded(*(config(clinics, name) for name in PARTIES)), settings(clinics))
    assert sorted(outcome.voted) == list(PARTIES)
    assert caplog.text.count("its reply cannot be read: AttributeError") == 3


def test_a_node_cannot_vote_for_another_party(clinics: Path, caplog) -> None:
    """It cannot alter a ballot, and a copy of a ballot counts once."""
    put_deadline(clinics, in_seconds(1))
    grid = loop(clinics)
    grid.nodes[2].config = config(clinics, "clinic-a", party="clinic-b", keep=str(clinics / "forged"))
    outcome = server.run_election(grid, settings(clinics))
    assert sorted(outcome.voted) == ["clinic-a", "clinic-b"]
    assert "KeyFileError" in caplog.text
    stolen = box(clinics)["clinic-a"]
    grid.nodes[2].reply = reply_with(ballot=raw(stolen), name=NAMED)
    assert sorted(server.run_election(grid, settings(clinics)).voted) == ["clinic-a", "clinic-b"]
    assert sorted(box(clinics)) == ["clinic-a", "clinic-b"]


def test_in_a_simulation_the_files_name_the_parties_of_numbered_nodes(clinics: Path, caplog) -> None:
    folder = clinics / "parties"
    folder.mkdir()
    for name in PARTIES:
        (folder / f"{name}.csv").write_bytes((clinics / name / "rows.csv").read_bytes())
        shutil.copy(clinics / name / f"{name}.key", folder)
    run = {"simulated": str(folder), "election": str(clinics / "server" / "election.toml")}
    numbered = [{"partition-id": i, "num-partitions": 3} for i in range(3)]
    slow = replace(settings(clinics, simulated=folder), intervals=replace(QUICK, ask_again=60))
    with pytest.raises(QuorumError, match="0 ballots count"):  # no further node will appear
        server.run_election(Loop({"num-partitions": 2, "partition-id": 0}, run_config=run), slow)
    outcome = server.run_election(Loop(*numbered, run_config=run), slow)
    assert sorted(outcome.voted) == list(PARTIES)
    node_config = party.NodeConfig.read({"partition-id": 1, "num-partitions": 3}, run)
    assert (node_config.party, node_config.data, node_config.key) == (
        "clinic-b",
        folder / "clinic-b.csv",
        folder / "clinic-b.key",
    )
    with pytest.raises(wire.Refused, match="files of 3 parties, but Flower simulates 2 nodes"):
        party.NodeConfig.read({"partition-id": 1, "num-partitions": 2}, run)


def test_a_node_ignores_file_names_in_the_settings_of_the_run(clinics: Path) -> None:
    theirs = {"election": "/theirs", "data": "/etc/passwd", "simulated": "/theirs", "keep": "/theirs"}
    node_config = party.NodeConfig.read(config(clinics, "clinic-a", learner="teacher=xgboost student=xgboost"), theirs)
    assert "theirs" not in repr(node_config)
    assert node_config.learners == ("teacher=xgboost", "student=xgboost")
    with pytest.raises(wire.Refused, match="started without party, election, data"):
        party.NodeConfig.read({}, {})


def test_missing_settings_of_a_run_are_named() -> None:
    with pytest.raises(ElectionError, match="lacks box, outcome"):
        server.RunConfig.read({"election": "election.toml"})


def test_nodes_cast_wide_rows_sparsely(clinics: Path) -> None:
    text = (clinics / "server/election.toml").read_text()
    ward = next(line for line in text.splitlines() if 'name = "ward"' in line)
    text = text.replace(ward, '  { name = "ward", kind = "text", features = 1200 },')
    text = re.sub(r'estimator = "\w+"\nparams = .*', 'estimator = "LogisticRegression"', text)
    for place in (*PARTIES, "server"):
        (clinics / place / "election.toml").write_text(text)
        set_values(clinics / place / "election.toml", [], refresh=True)
    assert is_sparse(ob.Election.read(clinics / "server/election.toml").public)
    outcome = server.run_election(loop(clinics), settings(clinics))
    assert sorted(outcome.voted) == list(PARTIES)
    assert outcome.model.sparse_
    assert not outcome.spoiled
