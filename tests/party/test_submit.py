"""A party's files: a ballot is kept before it is delivered, and every retry delivers the same bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import oneballot as ob
from oneballot.ballot.inspect import describe_ballot
from oneballot.ballot.keys import new_key
from oneballot.ballot.signatures import check_signer
from oneballot.election import template
from oneballot.election.infer import Choices
from oneballot.errors import AlreadyCast, BallotError, DataError, ElectionError, KeyFileError, Spoiled
from oneballot.party.preview import preview
from oneballot.party.submit import cast_file, choose_learner, find_key


@pytest.fixture
def election(clinic: Path) -> ob.Election:
    text = template.draft(
        clinic / "public.csv", "ill", beside=clinic / "election.toml", choices=Choices(strict=True)
    ).text
    (clinic / "election.toml").write_text(text.replace("n_estimators = 100", "n_estimators = 5"))
    return ob.Election.read(clinic / "election.toml")


def cast(election: ob.Election, clinic: Path, **more):
    return cast_file(election, "a", clinic / "a.csv", keep=clinic / "kept", **more)


def test_the_ballot_is_kept_and_delivered(election, clinic: Path) -> None:
    done = cast(election, clinic, box=ob.Folder(clinic / "box"))
    assert done["trained"]
    assert (clinic / "kept" / "a.ballot").read_bytes() == (clinic / "box" / "a.ballot").read_bytes()


def test_casting_again_delivers_the_same_bytes_without_training(election, clinic: Path) -> None:
    cast(election, clinic)
    (clinic / "a.csv").unlink()
    done = cast(election, clinic, box=ob.Folder(clinic / "box"))
    assert not done["trained"]
    assert (clinic / "kept" / "a.ballot").read_bytes() == (clinic / "box" / "a.ballot").read_bytes()


def test_a_recast_keeps_the_old_ballot_and_never_replaces_one_in_the_box(election, clinic: Path) -> None:
    box = ob.Folder(clinic / "box")
    first = cast(election, clinic, box=box)
    (clinic / "a.csv").write_bytes((clinic / "b.csv").read_bytes())
    with pytest.raises(AlreadyCast, match="never replaced"):
        cast(election, clinic, box=box, recast=True)
    second = cast(election, clinic, recast=True)
    assert second["digest"] != first["digest"]
    assert (clinic / "kept" / "a.1.ballot").read_bytes() == (clinic / "box" / "a.ballot").read_bytes()
    with pytest.raises(AlreadyCast, match="another ballot of a"):
        cast(election, clinic, box=box)


def test_a_kept_ballot_of_another_election_is_not_sent(election, clinic: Path) -> None:
    from dataclasses import replace

    cast(election, clinic)
    with pytest.raises(AlreadyCast, match="another election"):
        cast(replace(election, seed=5), clinic)


def test_a_damaged_kept_ballot_is_reported(election, clinic: Path) -> None:
    cast(election, clinic)
    (clinic / "kept" / "a.ballot").write_bytes(b"half")
    with pytest.raises(AlreadyCast, match="is damaged"):
        cast(election, clinic)


def test_a_preview_trains_and_writes_nothing(election, clinic: Path) -> None:
    before = sorted(clinic.rglob("*"))
    shown = preview(election, "a", clinic / "a.csv", keep=clinic / "kept", key=None, beside=clinic)
    assert sorted(clinic.rglob("*")) == before
    assert shown["rows"] == 150
    assert shown["models_to_train"] == 3  # two for the open vote, one for second choices
    assert "no guarantee" in shown["privacy_spent"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda t: t.replace("age,", "years,"), "missing column 'age'"),
        (lambda t: t.replace("north", "nroth"), "'nroth'.* are none of the 2 categories"),
        (lambda t: t + "200,0.5,north,no\n", r"row 151 \('200'\) is outside the range"),
        (lambda t: t + ",0.5,north,no\n", "is missing"),
        (lambda t: t + "50,0.5,north,maybe\n", "'maybe'.* is not a class of the election"),
        (lambda t: t + "50,half,north,no\n", "'half'.* is not a number"),
        (lambda t: "", "empty"),
        (lambda t: t.splitlines()[0] + "\n", "no rows|header"),
        (lambda t: t + "50,0.5\n", "cells"),
    ],
    ids=["column", "category", "range", "missing", "label", "number", "empty", "only header", "ragged"],
)
def test_an_invalid_file_is_reported_with_the_location_and_nothing_is_written(
    change, error, election, clinic: Path
) -> None:
    path = clinic / "a.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match=error) as raised:
        cast(election, clinic, box=ob.Folder(clinic / "box"))
    assert "a.csv" in str(raised.value)
    assert not (clinic / "box").exists()
    assert not (clinic / "kept").exists()


class TestKeys:
    def with_roster(self, clinic: Path) -> ob.Election:
        text = (clinic / "election.toml").read_text()
        key = new_key(clinic / "a.key")
        (clinic / "election.toml").write_text(text.replace("[roster]", f'[roster]\na = "{key}"\n#', 1))
        return ob.Election.read(clinic / "election.toml")

    def test_the_key_beside_the_election_is_found(self, election, clinic: Path) -> None:
        agreed = self.with_roster(clinic)
        cast_file(agreed, "a", clinic / "a.csv", keep=clinic / "kept", beside=clinic)
        seen = describe_ballot(clinic / "kept" / "a.ballot", agreed)
        assert seen["signature"] == "valid, of a"
        assert seen["verdict"] == "it is a ballot of this election; the tally checks its contents"

    def test_a_missing_key_is_an_error_before_training(self, election, clinic: Path) -> None:
        agreed = self.with_roster(clinic)
        (clinic / "a.key").unlink()
        with pytest.raises(KeyFileError, match="requires a to sign its ballot"):
            cast_file(agreed, "a", clinic / "a.csv", keep=clinic / "kept", beside=clinic)

    def test_an_unlisted_party_is_rejected_before_training(self, election, clinic: Path) -> None:
        with pytest.raises(ElectionError, match="b is not on the roster"):
            check_signer(self.with_roster(clinic), "b", find_key("b", None, clinic))


class TestInspect:
    def test_the_contents_of_a_ballot_are_listed(self, election, clinic: Path) -> None:
        cast(election, clinic)
        seen = describe_ballot(clinic / "kept" / "a.ballot", None)
        assert seen["party"] == "a"
        assert [name for name, *_ in seen["contents"]] == ["votes"]

    def test_a_damaged_ballot_is_rejected_with_the_reason(self, clinic: Path) -> None:
        (clinic / "x.ballot").write_bytes(b"PK")
        with pytest.raises(Spoiled, match=r"x\.ballot would be spoiled"):
            describe_ballot(clinic / "x.ballot", None)
        with pytest.raises(BallotError, match="cannot read"):
            describe_ballot(clinic / "y.ballot", None)


@pytest.mark.parametrize(
    ("text", "role", "learner"),
    [
        ("xgboost", "all", ob.XGBoost()),
        ("teacher=xgboost:rounds=7,learning_rate=0.5", "teacher", ob.XGBoost(rounds=7, learning_rate=0.5)),
        ("teacher=sklearn:estimator=GaussianNB", "teacher", ob.Sklearn("GaussianNB")),
        (
            "sklearn:estimator=RandomForestClassifier,params.n_estimators=500,params.max_features=None",
            "all",
            ob.Sklearn("RandomForestClassifier", {"n_estimators": 500, "max_features": None}),
        ),
        (
            "sklearn:estimator=MLPClassifier,params.hidden_layer_sizes=[20, 10],params.early_stopping=True",
            "all",
            ob.Sklearn("MLPClassifier", {"hidden_layer_sizes": [20, 10], "early_stopping": True}),
        ),
    ],
)
def test_a_partys_own_learner_is_parsed_from_an_option(text, role, learner, election) -> None:
    assert choose_learner(election, text) == (role, learner)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "teacher=xgboost:rounds=-1",
        "chef=xgboost",
        "final=xgboost",
        "xgboost:colour=red",
        "sklearn:estimator=RandomForestClassifier,params.trees=5",
        "sklearn:estimator=RandomForestClassifier,estimator.n_estimators=5",
        "xgboost:rounds",
        "xgboost:rounds=5,rounds=6",
        "",
    ],
)
def test_an_invalid_learner_is_rejected(text: str, election) -> None:
    with pytest.raises(ElectionError):
        choose_learner(election, text)


def test_libsvm_files_may_lack_the_last_features(tmp_path: Path) -> None:
    lines = [f"{1 if i % 3 else -1} 1:{i % 7} 2:{i % 3} 5:1\n" for i in range(60)]
    (tmp_path / "public.libsvm").write_text("".join(lines))
    (tmp_path / "a.libsvm").write_text("".join(line.replace(" 5:1", "") for line in lines))
    text = template.draft(tmp_path / "public.libsvm", "y", beside=tmp_path / "election.toml").text
    (tmp_path / "election.toml").write_text(text.replace("n_estimators = 100", "n_estimators = 5"))
    agreed = ob.Election.read(tmp_path / "election.toml")
    assert agreed.classes == (-1, 1)
    assert cast_file(agreed, "a", tmp_path / "a.libsvm", keep=tmp_path / "kept")["trained"]


def test_a_foreign_file_under_a_partys_name_does_not_block_its_delivery(election, clinic: Path) -> None:
    (clinic / "box").mkdir()
    (clinic / "box" / "a.ballot").write_bytes(b"garbage")
    done = cast(election, clinic, box=ob.Folder(clinic / "box"))
    cast(election, clinic, box=ob.Folder(clinic / "box"))
    names = sorted(p.name for p in (clinic / "box").iterdir())
    mark = hashlib.sha256(Path(done["ballot"]).read_bytes()).hexdigest()[:8]
    assert names == sorted([f"a.{mark}.ballot", "a.ballot"])
    from oneballot.server.tally import tally_box

    outcome = tally_box(election, ob.Folder(clinic / "box"))
    assert list(outcome.voted) == ["a"]
    assert list(outcome.spoiled) == ["a"]


def test_an_unsigned_ballot_is_not_sent_after_a_roster_was_added(election, clinic: Path) -> None:
    cast(election, clinic)
    text = (clinic / "election.toml").read_text()
    key = new_key(clinic / "a.key")
    (clinic / "election.toml").write_text(text.replace("[roster]", f'[roster]\na = "{key}"\n#', 1))
    agreed = ob.Election.read(clinic / "election.toml")
    with pytest.raises(AlreadyCast, match=r"not signed.*--recast"):
        cast(agreed, clinic, box=ob.Folder(clinic / "box"), beside=clinic)
    assert cast(agreed, clinic, box=ob.Folder(clinic / "box"), beside=clinic, recast=True)["trained"]


def test_a_kept_ballot_of_another_party_is_not_delivered(election, clinic: Path) -> None:
    done = cast(election, clinic)
    kept = Path(done["ballot"])
    kept.with_name("a.1.ballot").write_bytes(kept.read_bytes())  # the name of an earlier copy
    with pytest.raises(AlreadyCast, match=r"is a ballot of a, not of a\.1"):
        cast_file(election, "a.1", clinic / "a.csv", keep=clinic / "kept")
