"""What a tally warns of is in its outcome, its log and its report, and in nothing that is published."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import oneballot as ob
from oneballot.boxes.folder import Folder
from oneballot.election.outcome_files import INDEX
from oneballot.errors import OneBallotWarning
from oneballot.party.cast import cast_together
from oneballot.server import log
from oneballot.server.files import tally_files
from oneballot.types import Data

SENTENCE = "cannot readmit clinic-x: it has not withdrawn from the earlier outcome"


@pytest.fixture
def box(election: ob.Election, parties: dict[str, Data], tmp_path: Path) -> Folder:
    box = Folder(tmp_path / "box")
    for ballot in cast_together(election, parties):
        box.deliver(ballot.party, ballot.sealed)
    return box


def test_an_outcome_keeps_each_warning_once_and_another_tally_forgets_them(
    election: ob.Election, box: Folder, tmp_path: Path
) -> None:
    out = tmp_path / "outcome"
    with pytest.warns(OneBallotWarning, match=f"the tally: {SENTENCE}"):
        outcome = tally_files(election, box, out, beside=tmp_path, readmit=["clinic-x", "clinic-x"])
    first, *others = outcome.warnings
    assert first == SENTENCE
    assert [each for each in others if "depend on one party" in each] == others != []
    assert outcome.summary()["warnings"] == [SENTENCE, *others]
    assert ob.Outcome.load(out).warnings == outcome.warnings
    with pytest.warns(OneBallotWarning, match="depend on one party"):
        again = tally_files(election, box, out, beside=tmp_path)
    assert again.warnings == tuple(others)
    assert again.model.dump() == outcome.model.dump()
    facts = [entry.facts for entry in log.read_entries(out).entries]
    assert [each.get("warnings") for each in facts] == [[SENTENCE, *others], others]


@pytest.mark.parametrize("privacy", [None, ob.L1(20.0), ob.L2(50.0)], ids=["L0", "L1", "L2"])
def test_no_warning_is_published(
    privacy: ob.Privacy | None, make_election: Callable[..., ob.Election], parties: dict[str, Data], tmp_path: Path
) -> None:
    election = make_election(method=ob.FedKT(), **({} if privacy is None else {"privacy": privacy}))
    ballots = cast_together(election, parties)
    with pytest.warns(OneBallotWarning, match="cannot readmit"):
        outcome = ob.tally(election, ballots, readmit=["clinic-x"])
    own, shared = tmp_path / "own", tmp_path / "shared"
    log.save(outcome, own, "tally")
    log.publish(outcome, own, shared)
    assert SENTENCE in (own / INDEX).read_text()
    for path in shared.iterdir():
        assert b"clinic-x" not in path.read_bytes(), path.name
    assert ob.Outcome.load(shared).warnings == ()


def test_an_outcome_of_an_older_version_has_none(election: ob.Election, box: Folder, tmp_path: Path) -> None:
    out = tmp_path / "outcome"
    with pytest.warns(OneBallotWarning, match="cannot readmit"):
        tally_files(election, box, out, beside=tmp_path, readmit=["clinic-x"])
    index = json.loads((out / INDEX).read_text())
    del index["warnings"]
    (out / INDEX).write_text(json.dumps(index))
    assert ob.Outcome.load(out).warnings == ()
