"""A withdrawn party leaves no trace in the outcome, and later tallies do not count it again unnoticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.boxes.folder import Folder
from oneballot.cli import app
from oneballot.cli.withdraw import what_stays
from oneballot.election import template
from oneballot.errors import BallotError, ElectionError, QuorumError
from oneballot.party.cast import cast_together
from oneballot.party.submit import cast_file
from oneballot.server.files import tally_files
from oneballot.server.log_check import check_log
from oneballot.server.withdraw import withdraw_files

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6})
MLP = ob.Torch("mlp", settings={"hidden": [8], "shape": [64]}, epochs=2, device="cpu")
REHEARSAL: Any = {"noise_seed": 1, "rehearsal": True}
METHODS: dict[str, dict[str, Any]] = {
    "fedkt": {"method": ob.FedKT()},
    "fedkt, paper": {"method": ob.FedKT.paper(subsets=2)},
    "fedkt, L2": {"method": ob.FedKT.paper(subsets=2, partitions=1), "privacy": ob.L2(gamma=0.5, **REHEARSAL)},
    "fedkt, models": {"method": ob.FedKT.paper(subsets=2, ballot="models")},
    "fedkd": {"method": ob.FedKD(temperature=0.0)},
    "ensemble": {"method": ob.Ensemble()},
    "ensemble, cv": {"method": ob.Ensemble(select="cv", k=2)},
    "ensemble, open": {"method": ob.Ensemble(weights="open")},
    "ensemble, distilled": {"method": ob.Ensemble(cohorts=2, distil=True)},
    "analytic": {"method": ob.Analytic()},
    "analytic, L2": {"method": ob.Analytic(), "privacy": ob.L2(sigma=0.02, **REHEARSAL)},
    "neighbours": {"method": ob.Neighbours()},
    "neighbours, L2": {"method": ob.Neighbours(), "privacy": ob.L2(sigma=0.02, **REHEARSAL)},
    "dosfl": {
        "method": ob.DOSFL(steps=2, epochs=2, first_rate=0.1, local_epochs=1, local_batch=64),
        "learner": MLP,
    },
    "decoder": {"method": ob.Decoder(steps=5, hidden=8, latent=2)},
    "dense": {"method": ob.Dense(epochs=1), "learner": MLP},
}  # fmt: skip


def files(folder: Path) -> dict[str, Any]:
    """The files of an outcome, without its log and the names of parties that were left out."""
    found: dict[str, Any] = {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith(("model-", "count-"))
    }
    index = json.loads((folder / "outcome.json").read_bytes())
    return found | {key: value for key, value in index.items() if key not in ("without", "withdrawn")}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_files_are_those_of_an_election_that_never_had_the_party(name, make_election, parties, tmp_path) -> None:
    election = make_election(**METHODS[name])
    ballots = {ballot.party: ballot for ballot in cast_together(election, parties)}
    gone = sorted(ballots)[1]
    for party, ballot in ballots.items():
        for box in ("never", "all", "late")[party == gone :]:
            if box != "late" or party != min(ballots):
                Folder(tmp_path / f"{box} box").deliver(party, ballot.sealed)
    for box, out in {"never": "never", "late": "whole", "all": "whole"}.items():  # one ballot is late: another order
        tally_files(election, Folder(tmp_path / f"{box} box"), tmp_path / out, beside=tmp_path)
    (tmp_path / "ballot").write_bytes(ballots[gone].sealed)
    left = withdraw_files(election, tmp_path / "whole", gone, beside=tmp_path, ballot=tmp_path / "ballot")
    assert left.withdrawn == (gone,)
    assert files(tmp_path / "whole") == files(tmp_path / "never")
    assert len(list((tmp_path / "whole").glob("count-*"))) == 1, "the old count is gone"


@pytest.fixture
def voted(clinic: Path) -> ob.Election:
    """An election in files, in which three parties have voted: an ensemble."""
    return start(clinic)


def start(clinic: Path) -> ob.Election:
    method = f'[method]\nname = "ensemble"\n{ob.Ensemble.draft}'
    text = template.draft(clinic / "public.csv", "ill", beside=clinic / "election.toml", method=method).text
    text = text.replace("n_estimators = 100", "n_estimators = 5").replace("n_estimators = 50", "n_estimators = 5")
    text = text.replace("quorum = 1 ", "quorum = 2 ")
    (clinic / "election.toml").write_text(text)
    election = ob.Election.read(clinic / "election.toml")
    for name in "abc":
        cast_file(election, name, clinic / f"{name}.csv", keep=clinic / "kept", box=Folder(clinic / "box"))
    tally(election, clinic)
    return election


def tally(election: ob.Election, clinic: Path, **more: Any) -> ob.Outcome:
    return tally_files(election, Folder(clinic / "box"), clinic / "outcome", beside=clinic, **more)


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def test_an_ensemble_needs_neither_the_box_nor_the_ballot(voted, clinic: Path) -> None:
    text = run("withdraw", clinic / "outcome", "b")
    assert "b has withdrawn: the model in" in text
    assert "made from 2 ballots without it" in text
    assert "stays in the box until you delete it" in text
    assert "Copies of the outcome that were published, exported or kept in backups do not change" in text
    outcome = ob.Outcome.load(clinic / "outcome")
    assert list(outcome.voted) == ["a", "c"]
    assert list(outcome.count.by_party) == ["a", "c"]
    logged = check_log(clinic / "outcome")
    assert [entry.kind for entry in logged.entries] == ["tally", "withdrawal"]
    assert logged.entries[1].facts["party"] == "b"
    assert not logged.problems


def test_a_later_tally_leaves_a_withdrawn_party_out_and_says_so(voted, clinic: Path) -> None:
    withdraw_files(voted, clinic / "outcome", "b", beside=clinic)
    with pytest.warns(ob.OneBallotWarning, match="b has withdrawn, so its ballot is left out; --readmit b counts"):
        outcome = tally(voted, clinic)
    assert list(outcome.voted) == ["a", "c"]
    assert outcome.withdrawn == ("b",)
    assert "withdrawn" in run("tally", clinic / "election.toml", "--from", clinic / "box", "--out", clinic / "outcome")


def test_a_withdrawal_is_remembered_if_the_outcome_is_damaged(voted, clinic: Path) -> None:
    withdraw_files(voted, clinic / "outcome", "b", beside=clinic)
    next((clinic / "outcome").glob("count-*")).write_bytes(b"damaged")
    outcome = tally(voted, clinic)
    assert (list(outcome.voted), outcome.withdrawn) == (["a", "c"], ("b",))


def test_a_withdrawn_party_can_be_readmitted(voted, clinic: Path) -> None:
    before = files(clinic / "outcome")
    withdraw_files(voted, clinic / "outcome", "b", beside=clinic)
    assert files(clinic / "outcome") != before
    run("tally", clinic / "election.toml", "--from", clinic / "box", "--out", clinic / "outcome", "--readmit", "b")
    assert files(clinic / "outcome") == before
    assert not ob.Outcome.load(clinic / "outcome").withdrawn
    with pytest.warns(ob.OneBallotWarning, match="cannot readmit c: it has not withdrawn"):
        tally(voted, clinic, readmit=["c"])


def test_several_parties_can_withdraw_one_after_the_other_until_the_quorum_is_missed(voted, clinic: Path) -> None:
    withdraw_files(voted, clinic / "outcome", "b", beside=clinic)
    before = files(clinic / "outcome")
    with pytest.raises(QuorumError, match=r"1 ballot counts, but the quorum is 2[\s\S]*b has withdrawn"):
        withdraw_files(voted, clinic / "outcome", "a", beside=clinic)
    assert files(clinic / "outcome") == before


def test_the_new_outcome_can_be_written_to_another_folder(voted, clinic: Path) -> None:
    before = files(clinic / "outcome")
    run("withdraw", clinic / "outcome", "b", "--out", clinic / "new", "--election", clinic / "election.toml", "--json")
    assert files(clinic / "outcome") == before
    assert list(ob.Outcome.load(clinic / "new").voted) == ["a", "c"]


def test_a_party_without_a_counted_ballot_cannot_withdraw(voted, clinic: Path) -> None:
    with pytest.raises(ElectionError, match="counts no ballot of d; it counts a, b, c"):
        withdraw_files(voted, clinic / "outcome", "d", beside=clinic)
    withdraw_files(voted, clinic / "outcome", "b", beside=clinic)
    with pytest.raises(ElectionError, match="b has already withdrawn"):
        withdraw_files(voted, clinic / "outcome", "b", beside=clinic)
    ob.Outcome.load(clinic / "outcome").published().save(clinic / "shared")
    with pytest.raises(ElectionError, match="published without votes and names, so no party can be withdrawn"):
        withdraw_files(voted, clinic / "shared", "b", beside=clinic)


def test_the_election_is_found_beside_the_outcome_or_named(voted, clinic: Path) -> None:
    (clinic / "elsewhere").mkdir()
    (clinic / "outcome").rename(clinic / "elsewhere" / "outcome")
    result = CliRunner().invoke(app, ["withdraw", str(clinic / "elsewhere" / "outcome"), "b"])
    assert result.exit_code == 1
    assert "give its file with --election election.toml" in result.output
    (clinic / "other.toml").write_text((clinic / "election.toml").read_text().replace("seed = 0", "seed = 7", 1))
    words = ["withdraw", str(clinic / "elsewhere" / "outcome"), "b", "--election", str(clinic / "other.toml")]
    assert "is not the outcome of" in CliRunner().invoke(app, words).output
    run("withdraw", clinic / "elsewhere" / "outcome", "b", "--election", clinic / "election.toml")


def test_where_the_count_holds_sums_the_ballot_is_needed(make_election, parties, tmp_path: Path) -> None:
    election = make_election(**METHODS["analytic, L2"])
    ballots = cast_together(election, parties)
    first, second = ballots[0], ballots[1]
    outcome = ob.tally(election, ballots)
    with pytest.raises(BallotError, match=r"keeps only sums .*\(--from BOX\), or its file \(--ballot FILE"):
        ob.withdraw(election, outcome, first.party)
    with pytest.raises(BallotError, match="is not the ballot that was counted"):
        ob.withdraw(election, outcome, first.party, ballot=second)
    box = Folder(tmp_path / "box")
    for ballot in ballots:
        box.deliver(ballot.party, ballot.sealed)
    tally_files(election, box, tmp_path / "outcome", beside=tmp_path)
    left = withdraw_files(election, tmp_path / "outcome", first.party, beside=tmp_path, box=box)
    assert first.party not in left.voted
    next((tmp_path / "box").rglob(f"{second.party}*")).unlink()
    with pytest.raises(BallotError, match="give a box that holds it"):
        withdraw_files(election, tmp_path / "outcome", second.party, beside=tmp_path, box=box)
    (tmp_path / "kept.ballot").write_bytes(second.sealed)
    left = withdraw_files(
        election, tmp_path / "outcome", second.party, beside=tmp_path, ballot=tmp_path / "kept.ballot"
    )
    assert second.party not in left.voted


def test_a_party_that_abstained_needs_no_ballot_to_withdraw(make_election, parties) -> None:
    election = make_election(method=ob.Analytic(), quorum=1)
    nothing = next(iter(parties.values())).take([])
    ballots = cast_together(election, {**parties, "empty": nothing})
    outcome = ob.tally(election, ballots)
    assert outcome.voted["empty"].abstained
    assert "empty" not in ob.withdraw(election, outcome, "empty").voted


def test_at_l1_a_withdrawal_is_another_tally_which_must_be_confirmed_and_is_charged(
    make_election, parties, tmp_path: Path
) -> None:
    election = make_election(method=ob.FedKT(), privacy=ob.L1(epsilon=50.0, tallies=2))
    box = Folder(tmp_path / "box")
    for ballot in cast_together(election, parties):
        box.deliver(ballot.party, ballot.sealed)
    first = tally_files(election, box, tmp_path / "outcome", beside=tmp_path)
    gone = next(iter(parties))
    with pytest.raises(ElectionError, match=r"another tally: it draws new noise .* Confirm with --again\."):
        withdraw_files(election, tmp_path / "outcome", gone, beside=tmp_path, box=box)
    left = withdraw_files(election, tmp_path / "outcome", gone, beside=tmp_path, box=box, again=True)
    assert (first.ledger.drawn, left.ledger.drawn) == (1, 2)
    assert left.ledger.epsilon > first.ledger.epsilon
    assert json.loads((tmp_path / "tallies.json").read_bytes())["draws"] == {election.digest: 2}
    other = sorted(parties)[1]
    with pytest.raises(ElectionError, match="Confirm with --again and --over-budget"):
        withdraw_files(election, tmp_path / "outcome", other, beside=tmp_path, box=box, again=True)
    assert not left.published().withdrawn


def test_what_stays_is_said_for_each_level() -> None:
    assert "tallies.json" in what_stays("L1")
    assert "own ledger" in what_stays("L2")
    assert all("Copies of the outcome" in what_stays(level) for level in ("L0", "L1", "L2"))


def test_votes_that_the_count_keeps_need_no_ballot(make_election, parties) -> None:
    election = make_election(method=ob.FedKT())
    ballots = cast_together(election, parties)
    gone = ballots[0].party
    left = ob.withdraw(election, ob.tally(election, ballots), gone)
    never = ob.tally(election, ballots[1:])
    assert left.model.dump() == never.model.dump()
    assert all((left.count.sums[name] == never.count.sums[name]).all() for name in never.count.sums)
