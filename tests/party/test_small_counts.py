"""Exact numbers of few rows: refused before any training, suppressed by withholding rows, or allowed."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import DataError, SmallCount
from oneballot.interfaces import Context
from oneballot.party.cast import cast_data
from oneballot.party.context import PartyContext
from oneballot.party.outbox import Outbox
from oneballot.party.preview import preview
from oneballot.party.small_counts import CountRule, ReleasedCount, released_counts, suppress_small
from oneballot.party.submit import cast_file
from oneballot.server.tally import tally
from oneballot.types import Data, Plan

REFUSE, SUPPRESS, ALLOW = CountRule(), CountRule(small="suppress"), CountRule(small="allow")


@pytest.fixture
def clinics(tmp_path: Path) -> Path:
    """An election of three classes; the party has 4 rows of "rare" and 9 patients with 18 rows of "few"."""
    rng = np.random.default_rng(3)
    header = ["patient", "age", "dose", "ill"]

    def row(patient: int, ill: str) -> list[object]:
        return [f"p{patient}", f"{rng.uniform(20, 90):.1f}", f"{rng.uniform():.3f}", ill]

    public = [row(i, ("rare", "few", "no")[i % 3]) for i in range(90)] + [["x", 20, 0, "no"], ["y", 90, 1, "no"]]
    write_csv(tmp_path / "public.csv", header, public)
    rows = [row(i, "rare") for i in range(4)] + [row(100 + i // 2, "few") for i in range(18)]
    write_csv(tmp_path / "a.csv", header, rows + [row(200 + i, "no") for i in range(60)])
    return tmp_path


def write_csv(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def agree(folder: Path, method: ob.interfaces.Method | None = None, **more: object) -> ob.Election:
    schema = ob.Schema(
        label="ill",
        id="patient",
        columns=[
            {"name": "age", "kind": "number", "range": [20, 90]},
            {"name": "dose", "kind": "number", "range": [0, 1]},
        ],
    )
    public = schema.encode(schema.read(folder / "public.csv").columns, "public.csv")
    learner = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 3})
    given = {"classes": ["few", "no", "rare"], "learner": learner, **more}
    return ob.Election(public=public, schema=schema, method=method or ob.Ensemble(), **given)


def cast(election: ob.Election, folder: Path, rule: CountRule | None, **more: object) -> dict:
    return cast_file(election, "a", folder / "a.csv", keep=folder / "kept", beside=folder, rule=rule, **more)


def test_a_small_count_is_refused_before_anything_is_trained_or_kept(clinics: Path) -> None:
    reviewed = []
    with pytest.raises(SmallCount, match=r"4 rows of class rare of a: below --min-count 10.*--small-counts suppress"):
        cast(agree(clinics), clinics, REFUSE, review=reviewed.append, box=ob.Folder(clinics / "box"))
    assert [release.stage for release in reviewed] == ["refused"]
    assert "4 rows of class rare" in reviewed[0].refusal
    assert not (clinics / "kept").exists()
    assert not (clinics / "box").exists()


def test_rows_of_too_few_patients_are_a_small_count(clinics: Path) -> None:
    with pytest.raises(SmallCount, match="18 rows of class few with 9 different IDs"):
        cast(agree(clinics), clinics, REFUSE)
    assert ReleasedCount("seen", "few", 18).is_small(REFUSE) is False
    assert ReleasedCount("seen", "few", 18, ids=9).is_small(REFUSE)


def test_no_rows_and_ten_rows_are_not_small() -> None:
    assert not ReleasedCount("seen", "c", 0).is_small(REFUSE)
    assert ReleasedCount("seen", "c", 9).is_small(REFUSE)
    assert not ReleasedCount("seen", "c", 10).is_small(REFUSE)
    assert ReleasedCount("seen", "c", 10).is_small(CountRule(11))


@pytest.mark.parametrize(
    "method", [ob.Ensemble(), ob.Analytic(), ob.FedKT(weights="class-counts", open_vote="off")], ids=lambda m: m.name
)
def test_suppression_withholds_the_rows_and_the_tally_counts_the_ballot(clinics: Path, method) -> None:
    election = agree(clinics, method)
    releases = []
    cast(election, clinics, SUPPRESS, review=releases.append)
    (release,) = releases
    assert {count.group: count.rows for count in release.counts} == {"few": 0, "no": 60, "rare": 0}
    assert release.rows.withheld == {"few": 18, "rare": 4}
    assert release.rows.used == 60
    outcome = tally(election, [Outbox(election, "a", clinics / "kept").read()])
    assert not outcome.spoiled
    assert outcome.voted["a"].abstained is None


def test_a_party_without_a_class_that_is_large_enough_abstains(clinics: Path) -> None:
    done = cast(agree(clinics), clinics, CountRule(100, "suppress"))
    assert done["abstained"] == "it has fewer than min_rows = 1 rows"


def test_small_counts_may_be_allowed_and_a_plain_cast_does_not_ask(clinics: Path) -> None:
    first = cast(agree(clinics), clinics, ALLOW)
    plain = cast(agree(clinics), clinics, None, recast=True)
    assert first["digest"] == plain["digest"]


def test_a_ballot_that_was_cast_earlier_is_not_sent_if_it_states_a_small_count(clinics: Path) -> None:
    election = agree(clinics)
    cast(election, clinics, None)
    for rule in (REFUSE, SUPPRESS):
        with pytest.raises(SmallCount, match=r"cast earlier, states 4 rows|18 rows.*--recast"):
            cast(election, clinics, rule, box=ob.Folder(clinics / "box"))
    assert not (clinics / "box").exists()
    assert cast(election, clinics, ALLOW, box=ob.Folder(clinics / "box"))["delivered"]


def test_a_preview_applies_the_same_test_to_the_planned_counts(clinics: Path) -> None:
    given = {"keep": clinics / "kept", "key": None, "beside": clinics}
    with pytest.raises(SmallCount, match="rare"):
        preview(agree(clinics), "a", clinics / "a.csv", rule=REFUSE, **given)
    assert preview(agree(clinics), "a", clinics / "a.csv", rule=SUPPRESS, **given)["rows"] == 60


def test_at_l2_counts_have_noise_and_are_exempt(clinics: Path) -> None:
    releases = []
    method = ob.FedKT(weights="class-counts", open_vote="off", subsets=3)
    election = agree(clinics, method, privacy=ob.L2(epsilon=20, rows_per_id=2))
    cast(election, clinics, REFUSE, review=releases.append)
    assert releases[0].counts == ()


class Unplanned(ob.Ensemble):
    """Its plan states no counts; its ballot does."""

    def plan(self, data: Data, ctx: Context) -> Plan:
        return replace(super().plan(data, ctx), counts={})


class Chained(ob.Ensemble):
    """Its count of the class "no" is small unless there are rows of "rare"."""

    def plan(self, data: Data, ctx: Context) -> Plan:
        few, no, rare = ctx.target.class_counts(data.y)
        return replace(super().plan(data, ctx), counts={"seen": np.array([few, no if rare else no and 3, rare])})


class Stubborn(ob.Ensemble):
    """It states 3 rows of the class "few" whatever the rows are."""

    def plan(self, data: Data, ctx: Context) -> Plan:
        counts = ctx.target.class_counts(data.y)
        return replace(super().plan(data, ctx), counts={"seen": np.array([3, *counts[1:]])})


def test_suppression_is_repeated_until_no_count_is_small(clinics: Path) -> None:
    releases = []
    cast(agree(clinics, Chained()), clinics, CountRule(5, "suppress"), review=releases.append)
    assert releases[-1].rows.withheld == {"rare": 4, "no": 3}
    assert releases[-1].rows.by_class == {"few": 18, "no": 0, "rare": 0}


def test_a_small_count_that_suppression_does_not_remove_is_refused(clinics: Path) -> None:
    with pytest.raises(SmallCount, match=r"3 rows of class few .*of a even without the rows of that class"):
        cast(agree(clinics, Stubborn()), clinics, SUPPRESS)
    assert not (clinics / "kept").exists()


@pytest.mark.parametrize("rule", [REFUSE, SUPPRESS])
def test_a_small_count_that_only_the_trained_ballot_states_is_refused(clinics: Path, rule: CountRule) -> None:
    reviewed, election = [], agree(clinics, Unplanned())
    with pytest.raises(
        SmallCount, match=r"the trained ballot states .*4 rows of class rare.*not kept or sent"
    ) as error:
        cast(election, clinics, rule, review=reviewed.append, box=ob.Folder(clinics / "box"))
    assert "nothing was trained" not in str(error.value)
    assert [release.stage for release in reviewed] == ["refused"]
    assert Outbox(election, "a", clinics / "kept").read() is None
    assert not (clinics / "box").exists()
    assert cast(election, clinics, ALLOW)["trained"]


def test_a_file_that_changes_while_it_is_read_is_not_cast(clinics: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = ob.Election.read_whole

    def read_and_change(self: ob.Election, path: Path) -> object:
        table = read(self, path)
        with path.open("a") as file:
            file.write("p1,30,0.5,no\n")
        return table

    monkeypatch.setattr(ob.Election, "read_whole", read_and_change)
    with pytest.raises(DataError, match="was changed while it was read"):
        cast(agree(clinics), clinics, None)


def test_labels_of_a_small_class_become_unknown_where_rows_have_several_labels() -> None:
    X = np.random.default_rng(0).random((40, 3), dtype=np.float32)
    y = np.full((40, 2), -1)
    y[:20, 0], y[:3, 1] = 1, 1
    pytest.importorskip("torch")
    method, learner = ob.FedKD(temperature=0.0), ob.Torch("mlp", {"hidden": [4]}, epochs=1)
    election = ob.Election(classes=["a", "b"], public=X, method=method, learner=learner, multilabel=True)
    ctx, data = PartyContext(election, "p"), Data(X, y)
    counts = released_counts(election.method.plan(data, ctx).counts, ctx)
    kept, small = suppress_small(data, counts, REFUSE, ctx)
    assert small.tolist() == [1]
    assert len(kept) == 40
    assert not kept.y[:, 1].any()
    assert cast_data(ctx, kept).contents["seen"].tolist() == [20, 0]


def test_labelled_public_rows_are_not_counted_as_the_partys_own() -> None:
    X = np.random.default_rng(0).random((60, 3), dtype=np.float32)
    y = np.arange(60) % 2
    method = ob.FedKD(temperature=0.0, join_public=True)
    learner = ob.Sklearn("LogisticRegression")
    election = ob.Election(classes=[0, 1], public=X, public_labels=y, method=method, learner=learner)
    ctx, data = PartyContext(election, "p"), Data(X[:7], y[:7])
    ballot = cast_data(ctx, data)
    assert ballot.contents["seen"].tolist() == [34, 33]
    assert method.read_counts(ballot.contents, ctx)["seen"].tolist() == [4, 3]
    assert election.method.plan(data, ctx).counts["seen"].tolist() == [4, 3]
