"""Comparing an election with peers: their results, their settings, the saved files, and the command."""

from __future__ import annotations

import csv
import json
import re
import shlex
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot import plugins
from oneballot.cli import app
from oneballot.comparison import PeerResult, RoundResult, check_peer, compare, election_result, read_peer, save
from oneballot.election.election import Election
from oneballot.errors import DataError, ElectionError, OneBallotWarning
from oneballot.interfaces import Model, TallyContext
from oneballot.peers import Peer, Round
from oneballot.report.metrics import accuracy
from oneballot.simulation import simulate_parties
from oneballot.types import Data, PublicNeed
from oneballot_lab.peers.solo import Solo


@dataclass(frozen=True)
class Known(Peer):
    """Predicts a further tenth of the rows correctly in every round, and the next class for the others."""

    name: ClassVar[str] = "known"
    rounds: int = 3
    starts_from_outcome: bool = False

    def run(self, parties: Sequence[Data], ctx: TallyContext) -> Iterator[Round]:
        for turn in range(1, self.rounds + 1):
            yield Round([Tenths(turn), Tenths(turn + 2)], up=100 * turn, down=50 * turn)


@dataclass(frozen=True)
class Tenths(Model):
    right: int

    def predict_proba(self, X: Any) -> Any:
        shown = X[:, 0].astype(int)
        return np.eye(10)[np.where(np.arange(len(X)) % 10 < self.right, shown, (shown + 1) % 10)]

    def scores(self, X: Any) -> Any:
        return self.predict_proba(X)

    def dump(self) -> Any:
        raise NotImplementedError


@pytest.fixture
def test() -> Data:
    return Data(np.arange(20, dtype=np.float32)[:, None] % 10, np.arange(20) % 10)


def test_each_round_is_tested_and_the_models_of_several_parties_are_averaged(
    election: ob.Election, parties: dict[str, Data], test: Data
) -> None:
    result = compare(Known(), election, parties, test)
    assert [s.accuracy for s in result.rounds] == pytest.approx([0.2, 0.3, 0.4])
    assert [(s.up, s.down, s.bytes) for s in result.rounds] == [(100, 50, 150), (200, 100, 300), (300, 150, 450)]
    assert 0 <= result.first.seconds <= result.last.seconds < 60


def test_a_peer_trains_the_roles_that_it_declares_whatever_the_method_needs(
    election: ob.Election, parties: dict[str, Data]
) -> None:
    class Undeclared(Known):
        def run(self, parties: Sequence[Data], ctx: TallyContext) -> Any:
            ctx.provides("teacher")
            return super().run(parties, ctx)

    beside = replace(election, method=ob.Ensemble(weights="open"), learners={})
    assert "final" not in beside.roles
    rows = next(iter(parties.values()))
    assert compare(Solo(), beside, parties, rows).last.accuracy > 0.5
    with pytest.raises(TypeError, match="peer known requests a learner for the role 'teacher'"):
        compare(Undeclared(), beside, parties, rows)


def test_a_peer_result_finds_rounds_by_bytes_and_by_accuracy() -> None:
    rounds = tuple(RoundResult(a, up, up, 0.0) for a, up in ((0.5, 10), (0.9, 20), (0.7, 30)))
    result = PeerResult(Known(), rounds)
    assert (result.first, result.last, result.best) == (rounds[0], rounds[2], rounds[1])
    assert [result.within(b) for b in (19, 20, 59, 1000)] == [None, rounds[0], rounds[1], rounds[2]]
    assert [result.passing(a) for a in (0.5, 0.6, 0.91)] == [1, 2, None]


def test_solo_trains_each_party_alone_and_sends_nothing(
    election: ob.Election, parties: dict[str, Data], digits: Any
) -> None:
    tested = election.data(digits.X_test, digits.y_test)
    empty = Data(tested.X[:0], tested.y[:0])
    result = compare("solo", election, {**parties, "empty": empty}, tested)
    alone = []
    for data in parties.values():
        task = ob.Task(np.arange(len(data)), data.y)
        alone.append(accuracy(election.learner.fit_many(data.X, [task], 10)[0].predict_proba(tested.X), tested.y))
    assert result.last.accuracy == pytest.approx(np.mean(alone), abs=0.05)
    assert result.last.bytes == 0
    assert len(result.rounds) == 1


def test_an_outcome_is_simulated_if_a_peer_starts_from_one_and_none_is_given(
    election: ob.Election, parties: dict[str, Data], test: Data
) -> None:
    run = simulate_parties(election, parties)
    wide = Data(np.repeat(test.X, 64, axis=1), test.y)
    election_round = election_result(run, wide, 0.0)
    assert election_round.up == run.outcome.bytes
    assert election_round.down == 5 * len(run.outcome.model.dump().data)
    for outcome in (None, run.outcome):
        result = compare(Known(starts_from_outcome=True), election, parties, wide, outcome=outcome)
        assert (result.first.up, result.first.down) == (100 + election_round.up, 50 + election_round.down)


def test_private_elections_are_compared_without_their_noise(digits: Any, parties: dict[str, Data]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)
        private = ob.Election(range(10), digits.public, privacy=ob.L1(epsilon=5.0, delta=1e-3))
        result = compare("solo", private, parties, private.data(digits.X_test, digits.y_test))
    assert result.last.accuracy > 0.5


def test_a_comparison_without_rows_or_models_is_an_error(
    election: ob.Election, test: Data, parties: dict[str, Data]
) -> None:
    none = Data(test.X[:0], test.y[:0])
    with pytest.raises(DataError, match="no party has any rows"):
        compare(Known(), election, {"a": none}, test)
    with pytest.raises(DataError, match="known produced no model"):
        compare(Known(rounds=0), election, parties, test)


def test_a_peer_is_given_by_name_and_settings() -> None:
    torch = pytest.importorskip("torch")
    assert torch
    assert read_peer("solo") == Solo()
    peer: Any = read_peer("fedprox: rounds=7, mu=1e-2, init=outcome, optimizer=sgd")
    assert (peer.name, peer.rounds, peer.mu, peer.init, peer.optimizer) == ("fedprox", 7, 0.01, "outcome", "sgd")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("fedavgg", "unknown peer 'fedavgg'.*Did you mean 'fedavg'"),
        ("fedavg:round=3", "'fedavg:round=3': fedavg: unknown setting round; available: rounds"),
        ("fedavg:rounds", "'rounds' is not setting=value"),
        ("fedavg:rounds=", "'rounds=' is not setting=value"),
        ("fedavg:rounds=many", "rounds: .*integer"),
        ("fedavg:participation=2", "participation: .*less than or equal to 1"),
        ("", "unknown peer ''"),
    ],
)
def test_an_invalid_peer_is_rejected_with_the_reason(text: str, error: str) -> None:
    with pytest.raises(ElectionError, match=error):
        read_peer(text)


def test_a_peer_that_needs_a_public_set_is_rejected_without_one(digits: Any) -> None:
    class NeedsPublic(Known):
        needs_public: ClassVar[PublicNeed] = "rows"

    learner = ob.Torch("mlp", settings={"shape": [64]})
    with pytest.raises(ElectionError, match="known needs a public set"):
        check_peer(NeedsPublic(), ob.Election(range(10), method=ob.Ensemble(), learner=learner))


def test_every_peer_and_its_settings_are_documented() -> None:
    page = (Path(__file__).parents[1] / "docs/peers.md").read_text("utf-8")
    for name in plugins.names("peers"):
        assert f"| `{name}` |" in page
        for setting in fields(plugins.find("peers", name)):
            assert f"`{setting.name}`" in page, f"{name}: {setting.name}"


def test_results_are_saved_as_json_csv_and_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    election_round = RoundResult(0.9, 1000, 500, 2.0)
    result = {
        "known:rounds=2": PeerResult(Known(), (RoundResult(0.5, 10, 10, 1.0), RoundResult(0.6, 20, 20, 2.0))),
        "solo": PeerResult(Solo(), (RoundResult(0.3, 0, 0, 1.0),)),
    }
    for _ in range(2):  # the second time it overwrites the first
        save(tmp_path / "out", "fedkt", election_round, result, {"parties": 3})
    saved = json.loads((tmp_path / "out/comparison.json").read_text())
    assert saved["parties"] == 3
    assert saved["outcome"] == {"name": "fedkt", "accuracy": 0.9, "up": 1000, "down": 500, "seconds": 2.0}
    assert [peer["peer"] for peer in saved["peers"]] == ["known:rounds=2", "solo"]
    assert saved["peers"][0]["settings"] == {"name": "known", "rounds": 3, "starts_from_outcome": False}
    assert saved["peers"][0]["rounds"][1] == {"round": 2, "accuracy": 0.6, "up": 20, "down": 20, "seconds": 2.0}
    with (tmp_path / "out/comparison.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["peer"], r["round"], float(r["accuracy"])) for r in rows] == [
        ("fedkt", "1", 0.9),
        ("known:rounds=2", "1", 0.5),
        ("known:rounds=2", "2", 0.6),
        ("solo", "1", 0.3),
    ]
    assert (tmp_path / "out/comparison.png").read_bytes().startswith(b"\x89PNG")


class TestCommand:
    @pytest.fixture
    def networks(self, clinic: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        pytest.importorskip("torch")
        monkeypatch.chdir(clinic)
        self.run("new", "election.toml", "--public", "public.csv", "--label", "ill")
        text = (clinic / "election.toml").read_text()
        method = '[method]\nname = "fedkt"\n\n'
        learner = '[learners.all]\nname = "torch"\nepochs = 10\ndevice = "cpu"\nsettings = {hidden = [8]}\n\n'
        start, end = text.index("[method]"), text.index("[privacy]")
        (clinic / "election.toml").write_text(text[:start] + method + learner + text[end:])
        return clinic

    def run(self, *words: object, status: int = 0) -> Any:
        result = CliRunner().invoke(app, [str(w) for w in words])
        assert result.exit_code == status, result.output + repr(result.exception)
        return result

    def test_it_prints_and_saves_the_results(self, networks: Path) -> None:
        pytest.importorskip("matplotlib")
        words = (
            *("compare", "election.toml", "--data", "a.csv", "--parties", 3, "--split", "homogeneous"),
            *("--test", "test.csv", "--peer", "solo", "--peer", "fedavg:rounds=4,epochs=3"),
            *("--peer", "fedprox:rounds=2,init=outcome", "--out", "results", "--method", "fedkt"),
        )
        output = self.run(*words).output
        for part in ("fedkt, one", "solo", "1 round", "rounds=4", "passes at", "comparison.json"):
            assert part in output
        saved = json.loads((networks / "results/comparison.json").read_text())
        again = json.loads(self.run(*words, "--json").stdout)
        assert [len(p["rounds"]) for p in saved["peers"]] == [1, 4, 2]
        assert (saved["parties"], saved["rows"], saved["test_rows"]) == (3, 150, 200)
        for one, other in zip(saved["peers"], again["peers"], strict=True):
            assert [r["accuracy"] for r in one["rounds"]] == [r["accuracy"] for r in other["rounds"]]
        start = saved["outcome"]
        prox = saved["peers"][2]["rounds"][0]
        assert prox["up"] > start["up"]
        assert (networks / "results/comparison.png").exists()

    def test_an_unknown_peer_or_method_is_rejected_before_training(self, clinic: Path, monkeypatch: Any) -> None:
        monkeypatch.chdir(clinic)
        self.run("new", "election.toml", "--public", "public.csv", "--label", "ill")
        monkeypatch.setattr("oneballot.contest.simulate_parties", lambda *_: pytest.fail("something was trained"))
        output = self.run("compare", "election.toml", "--data", "a.csv", "--peer", "unknown", status=1).output
        assert "unknown peer 'unknown'" in output
        output = self.run("compare", "election.toml", "--data", "a.csv", "--method", "fedkd:scales=3", status=1).output
        assert "unknown setting scales" in output

    @pytest.mark.slow
    def test_the_example_of_the_documentation_runs_and_skips_what_cannot(self, clinic: Path, monkeypatch: Any) -> None:
        """Peers that average weights cannot run with the forest that `oneballot new` writes."""
        monkeypatch.chdir(clinic)
        self.run("new", "election.toml", "--public", "public.csv", "--label", "ill")
        text = Path("election.toml").read_text().replace("n_estimators = 100", "n_estimators = 5")
        Path("election.toml").write_text(text)
        parts = [Path(f"{name}.csv").read_text().splitlines() for name in "abc"]
        Path("all.csv").write_text("\n".join([*parts[0], *parts[1][1:], *parts[2][1:]]) + "\n")
        page = (Path(__file__).parents[1] / "docs/peers.md").read_text("utf-8")
        example = re.search(r"^    oneballot (compare(?:.*\\\n)*.*)$", page, re.M)
        assert example is not None
        words = shlex.split(example[1].replace("\\\n", " "))
        assert "fedavg:rounds=50,epochs=5" in words
        output = self.run(*words).output
        line = "Skipped fedavg:rounds=50,epochs=5: fedavg: the final learner must provide gradients; sklearn doesn't"
        assert line in output
        assert "Recommended: " in output
        saved = json.loads(Path("comparison/comparison.json").read_text())
        assert {e["name"] for e in saved["skipped"]} >= {"fedavg:rounds=50,epochs=5", "dosfl"}
        labels = [entry["name"] for entry in saved["methods"]]
        assert labels[0] == Election.read("election.toml").method.name
        assert set(labels) >= {"analytic:features=fourier", "ensemble:weights=seen", "fedkd"}
        assert saved["recommended"]["name"] in labels
        for entry in saved["methods"]:
            assert 0.5 < entry["metrics"]["auc"] <= 1
            assert entry["bytes_per_party"] > 0
        assert saved["baselines"]["best_party"]["accuracy"] >= saved["baselines"]["mean_party"]["accuracy"]
        assert [peer["peer"] for peer in saved["peers"]] == ["solo"]
