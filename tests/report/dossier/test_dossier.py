"""The release dossier: a page for a board and its JSON twin, written before anything is sent."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

from oneballot.ballot.keys import new_server_key
from oneballot.ballot.seal import seal
from oneballot.cli import app
from oneballot.election.election import Election
from oneballot.party.cast import cast_data
from oneballot.party.context import PartyContext
from oneballot.party.release import Release, sealed_release
from oneballot.party.rows import read_rows
from oneballot.party.small_counts import CountRule
from oneballot.report.dossier.facts import of_release
from oneballot.report.dossier.record import Dossier, json_schema

HOSTILE = "<script>alert(1)</script>"
SCHEMA = Path(__file__).parents[3] / "docs" / "dossier.schema.json"


def run(*words: object, status: int = 0):
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def read(page: Path) -> tuple[str, dict]:
    """The page's text without tags, and its JSON twin, which follows the published schema."""
    record = json.loads(page.with_suffix(".json").read_bytes())
    jsonschema.validate(record, json.loads(SCHEMA.read_text()))
    assert Dossier.model_validate(record).model_dump(mode="json") == record
    parser = Text()
    parser.feed(page.read_text("utf-8"))
    return " ".join(" ".join(parser.parts).split()), record


class Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts, self.quiet = [], 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.quiet += tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self.quiet -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self.quiet:
            self.parts.append(data)


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An election of the classes no, rare and yes, and a party with 4 rows of "rare", one row without a label, and a
    column that is not used."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)

    def rows(count: int, rare: int) -> list[list[str]]:
        out = []
        for i in range(count):
            age, dose = rng.uniform(20, 90), rng.uniform(0, 1)
            ill = "rare" if i < rare else "yes" if age / 90 + dose > 1.2 else "no"
            out.append([f"{age:.1f}", f"{dose:.3f}", "north" if i % 2 else "south", f"note {i}", ill])
        return out

    header = ["age", "dose", "ward", "comment", "ill"]
    ends = [["20", "0", "north", "", "no"], ["90", "1", "south", "", "yes"]]
    for name, table in {
        "public.csv": rows(100, 20) + ends,
        "a.csv": [*rows(120, 4), ["30", "0.5", "north", "", ""]],
    }.items():
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([header, *table])
    return tmp_path


def agree(method: str = "ensemble", *more: object) -> None:
    run("new", "election.toml", "--public", "public.csv", "--label", "ill", "--method", method, *more)
    text = Path("election.toml").read_text().replace("n_estimators = 100", "n_estimators = 5")
    Path("election.toml").write_text(text)


def cast(*more: object, status: int = 0):
    return run("cast", "election.toml", "--party", "clinic-a", "--data", "a.csv", *more, status=status)


def test_the_published_schema_is_what_the_code_writes() -> None:
    assert SCHEMA.read_text("utf-8") == json_schema(), (
        "run: python -c \"from oneballot.report.dossier.record import json_schema; print(json_schema(), end='')\" "
        "> docs/dossier.schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema()))


def test_a_dry_run_writes_planned_arrays_without_samples_or_hashes(clinic: Path) -> None:
    agree()
    done = json.loads(cast("--dry-run", "--dossier", "d.html", "--small-counts", "allow", "--json").stdout)
    text, record = read(clinic / "d.html")
    assert done["dossier"]["page"] == "d.html"
    assert done["dossier"]["json"] == "d.json"
    assert record["stage"] == "planned"
    assert record["seals"] is None
    assert [each["name"] for each in record["contents"]] == ["seen", "model", "claim.0", "claim.1"]
    assert all(each["sha256"] is None and each["sample"] is None for each in record["contents"])
    assert record["contents"][0] | {"type": "int64", "shape": [3], "bytes": 24} == record["contents"][0]
    assert "This is a plan" in text
    assert "What leaves 1 array and 3 models, size known after training" in text
    assert "Nothing has been trained or sent" in text
    assert re.search(r"seen int64 3 24 B [^.]* after training model a model", text)
    assert "Hashes Sign-off In short" in text, "the sign-off is in the list of contents"
    assert not (clinic / "ballots").exists()


def test_the_page_says_which_rows_and_columns_were_used(clinic: Path) -> None:
    agree()
    cast("--dossier", "d.html", "--small-counts", "suppress", "--holdout", "0.1")
    text, record = read(clinic / "d.html")
    rows = record["rows"]
    assert rows["in_file"] == 121
    assert rows["dropped"] == {"no label": 1}
    assert rows["held_back"] == 12
    assert list(rows["withheld"]) == ["rare"]
    assert rows["used"] == 121 - 1 - 12 - rows["withheld"]["rare"] == sum(rows["by_class"].values())
    assert rows["sha256"] == hashlib.sha256((clinic / "a.csv").read_bytes()).hexdigest()
    used = {column["name"]: column["use"] for column in rows["columns"]}
    assert used == {"age": "feature", "dose": "feature", "ward": "feature", "ill": "label", "comment": "ignored"}
    assert "age feature number, 20 to 90 scaled to 0 to 1" in text
    assert "Columns of the file that were ignored: comment" in text


def test_the_page_says_how_long_the_party_trained_and_the_ballot_does_not(clinic: Path) -> None:
    agree()
    cast("--dry-run", "--dossier", "d.html", "--small-counts", "allow")
    assert read(clinic / "d.html")[1]["seconds"] is None
    done = json.loads(cast("--dossier", "d.html", "--small-counts", "allow", "--json").stdout)
    text, record = read(clinic / "d.html")
    assert 0 < record["seconds"] == done["seconds"] < 600
    assert f"{record['seconds']:,.1f} s, which the ballot does not state" in text
    first = (clinic / "ballots" / "clinic-a.ballot").read_bytes()
    assert b"seconds" not in first
    again = json.loads(cast("--dossier", "d.html", "--small-counts", "allow", "--json").stdout)
    assert again["seconds"] is None  # nothing was trained, and the page is unchanged
    assert read(clinic / "d.html")[1]["seconds"] == record["seconds"]
    assert (clinic / "ballots" / "clinic-a.ballot").read_bytes() == first


def test_a_page_of_a_ballot_that_was_cast_earlier_shows_its_rows_columns_and_learners(clinic: Path) -> None:
    agree()
    chosen = ("--learner", "local=sklearn:estimator=RandomForestClassifier,params.n_estimators=3")
    cast(*chosen, "--small-counts", "suppress")  # no page was asked for
    kept = clinic / "ballots" / "clinic-a.rows.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    digest = hashlib.sha256((clinic / "a.csv").read_bytes()).hexdigest()
    Path("a.csv").write_text("another file\n")
    cast("--dossier", "d.html", "--small-counts", "suppress")
    text, record = read(clinic / "d.html")
    assert record["rows"]["sha256"] == digest
    assert record["rows"]["withheld"] == {"rare": 4}
    assert record["rows"]["dropped"] == {"no label": 1}
    assert sum(record["rows"]["by_class"].values()) == record["rows"]["used"] == 116
    assert record["seconds"] > 0
    assert record["election"]["learners"]["local"]["params"]["n_estimators"] == 3
    assert "Columns of the file that were ignored: comment" in text
    kept.unlink()  # as in the outbox of an older version
    cast("--dossier", "old.html", "--small-counts", "suppress")
    text, record = read(clinic / "old.html")
    assert record["rows"] is None
    assert "was not read for this page" in text


def test_the_record_of_rows_belongs_to_one_ballot(clinic: Path) -> None:
    agree()
    cast("--small-counts", "allow")
    first = (clinic / "ballots" / "clinic-a.rows.json").read_bytes()
    Path("a.csv").write_text("\n".join(Path("a.csv").read_text().splitlines()[:100]) + "\n")
    cast("--small-counts", "allow", "--recast")
    assert (clinic / "ballots" / "clinic-a.1.rows.json").read_bytes() == first
    second = json.loads((clinic / "ballots" / "clinic-a.rows.json").read_bytes())
    assert second["in_file"] == 99
    (clinic / "ballots" / "clinic-a.rows.json").write_bytes(first)
    cast("--dossier", "d.html", "--small-counts", "allow")
    assert read(clinic / "d.html")[1]["rows"] is None, "a record of another ballot is not shown"


def test_a_small_number_of_people_is_refused_also_after_the_cast(clinic: Path) -> None:
    lines = [line.split(",") for line in Path("a.csv").read_text().splitlines()]
    seen = [f"p{i % 3 if row[-1] == 'rare' else i}" for i, row in enumerate(lines[1:])]
    rows = [",".join([*row, name]) for row, name in zip(lines[1:], seen, strict=True)]
    Path("a.csv").write_text("\n".join([",".join([*lines[0], "patient"]), *rows, *rows[:4] * 3]) + "\n")
    public = Path("public.csv").read_text().splitlines()
    ids = [f"{line},{'patient' if i == 0 else f'q{i}'}" for i, line in enumerate(public)]
    Path("public.csv").write_text("\n".join(ids) + "\n")
    agree("ensemble", "--id", "patient")
    cast()  # 16 rows of class "rare", of 3 patients; without a page nothing is held against a limit
    failed = cast("--dossier", "d.html", status=1)
    assert "16 rows of class rare with 3 different IDs" in failed.output


def test_hashes_tie_page_json_and_ballot_together(clinic: Path) -> None:
    agree()
    done = json.loads(cast("--dossier", "d.html", "--small-counts", "suppress", "--json").stdout)
    text, record = read(clinic / "d.html")
    ballot = (clinic / "ballots" / "clinic-a.ballot").read_bytes()
    twin = hashlib.sha256((clinic / "d.json").read_bytes()).hexdigest()
    assert record["page"] == "d.html"
    assert record["seals"]["file_sha256"] == hashlib.sha256(ballot).hexdigest()
    assert record["seals"]["ballot_digest"] == done["digest"]
    assert {twin, done["digest"], record["seals"]["file_sha256"]} <= set(text.split())
    assert done["dossier"]["json_sha256"] == twin
    assert done["dossier"]["page_sha256"] == hashlib.sha256((clinic / "d.html").read_bytes()).hexdigest()


def test_a_refused_release_leaves_a_page_and_nothing_else(clinic: Path) -> None:
    agree()
    before = {path.name for path in clinic.iterdir()}
    for more in ([], ["--dry-run"]):
        failed = cast("--dossier", "d.html", "--to", "box", "--json", *more, status=1)
        assert json.loads(failed.stdout)["kind"] == "SmallCount"
        assert "4 rows of class rare of clinic-a: below --min-count 10" in json.loads(failed.stdout)["error"]
        assert "d.html" in json.loads(failed.stdout)["error"]
        assert {path.name for path in clinic.iterdir()} == before | {"d.html", "d.json"}
        text, record = read(clinic / "d.html")
        assert record["stage"] == "refused"
        assert "Refused: nothing may be sent" in text
        assert "may be sent The ballot would state 4 rows of class rare" in text
        assert "there is nothing to approve" in text
        assert [c["group"] for c in record["counts"]["stated"] if c["small"]] == ["rare"]
    cast("--dossier", "d.html", "--min-count", "4")
    assert read(clinic / "d.html")[1]["stage"] == "sealed"


def test_the_options_for_small_counts_work_without_a_page(clinic: Path) -> None:
    agree()
    assert "4 rows of class rare" in cast("--min-count", "5", status=1).output
    cast("--small-counts", "suppress")


def test_a_cast_without_a_limit_names_the_smallest_number_that_it_states(clinic: Path) -> None:
    agree()
    note = "The ballot states exactly 4 rows of class rare, which could single people out. --min-count 10 refuses"
    for more in (["--dry-run"], []):
        assert note in " ".join(cast(*more).output.split())
    assert "single people out" not in cast("--small-counts", "allow").output
    agree_again = ("--method", "analytic", "--level", "L2", "--epsilon", "4", "--server-key", "none")
    run("new", "private.toml", "--public", "public.csv", "--label", "ill", *agree_again)
    private = ("cast", "private.toml", "--party", "clinic-a", "--data", "a.csv", "--keep", "private")
    assert "single people out" not in run(*private, "--dry-run").output


def test_a_model_cannot_be_checked_by_a_person_and_membership_figures_are_given(clinic: Path) -> None:
    agree()
    cast("--dossier", "d.html", "--small-counts", "suppress")
    text, record = read(clinic / "d.html")
    assert "A person cannot check a model by reading it" in text
    assert "the format does not hold it" in text
    assert "AUC of .83 to .98 on a forest" in text
    assert record["attacks"]["measured"] == "membership"
    assert "anyone who has the file" in text.lower()
    assert "nothing is protected" in text
    assert "do not publish" in text.lower()
    for field in ("Decision", "Name", "Role", "Date", "Signature"):
        assert field in text


def test_votes_can_be_checked_against_public_rows(clinic: Path) -> None:
    agree("fedkt")
    cast("--dossier", "d.html")
    text, record = read(clinic / "d.html")
    (votes,) = record["contents"]
    with (clinic / "public.csv").open() as file:
        first = next(csv.DictReader(file))
    assert votes["checkable"]
    assert votes["sample"]["header"] == ["public row", "age", "dose", "ward", "votes"]
    number, age, dose, ward, vote = votes["sample"]["rows"][0]
    assert (number, float(age), float(dose), ward) == ("1", float(first["age"]), float(first["dose"]), first["ward"])
    assert re.match(r"(no|rare|yes): \d+", vote)
    assert "The ballot states no exact number of rows" in text
    assert record["attacks"]["measured"] == "nothing"


@pytest.mark.parametrize("method", ["fedkd", "analytic"])
def test_every_content_has_a_meaning_and_a_sample(clinic: Path, method: str) -> None:
    agree(method)
    cast("--dossier", "d.html", "--small-counts", "suppress")
    _, record = read(clinic / "d.html")
    assert all(each["sample"]["rows"] for each in record["contents"])
    assert not any("not described" in each["meaning"] for each in record["contents"])


def test_the_page_has_the_settings_of_method_and_learners(clinic: Path) -> None:
    agree()
    learner = ("--learner", "local=sklearn:estimator=DecisionTreeClassifier")
    cast("--dossier", "d.html", "--small-counts", "allow", *learner)
    text, record = read(clinic / "d.html")
    agreed = record["election"]
    for name, value in agreed["settings"].items():
        assert f"{name} {value if isinstance(value, str) else json.dumps(value)}" in text
    assert "learner of the local model estimator DecisionTreeClassifier" in text
    assert "A party may choose others" not in text
    inspect = ("inspect", "ballots/clinic-a.ballot", "--election", "election.toml", "--small-counts", "allow")
    run(*inspect, "--dossier", "i.html")
    assert read(clinic / "i.html")[1]["election"] == agreed, "the party's record names its learner"
    Path("ballots/clinic-a.rows.json").unlink()
    run(*inspect, "--dossier", "alone.html")
    assert "A party may choose others" in read(clinic / "alone.html")[0]


@pytest.mark.parametrize("features", ["none", "fourier"])
def test_sums_are_shown_by_feature_in_units_of_rows(clinic: Path, features: str) -> None:
    agree("analytic")
    text = Path("election.toml").read_text().replace('features = "fourier"', f'features = "{features}"')
    Path("election.toml").write_text(text)
    cast("--dossier", "d.html", "--small-counts", "allow")
    contents = {each["name"]: each for each in read(clinic / "d.html")[1]["contents"]}
    sample = contents["sums"]["sample"]
    assert sample["header"] == ["feature", "no", "rare", "yes"]
    names = [row[0] for row in sample["rows"]]
    constant = float(re.search(r"divided by ([\d.]+), is the number of rows", contents["sums"]["note"])[1])
    rows = [round(float(value) / constant) for value in sample["rows"][-1][1:]]
    stated = {each["group"]: each["rows"] for each in read(clinic / "d.html")[1]["counts"]["stated"]}
    assert rows == [stated["no"], stated["rare"], stated["yes"]]
    products = contents["gram"]["sample"]
    assert products["header"][1:] == [row[0] for row in products["rows"]][:7]
    assert contents["sums"]["checkable"] == (features == "none")
    if features == "none":
        numbers, wards = ["age", "age is missing", "dose", "dose is missing"], ["north", "south", "missing"]
        assert names == [*numbers, *(f"ward is {each}" for each in wards), "constant"]
        election = Election.read("election.toml")
        data, _ = read_rows(election, Path("a.csv"))
        z = election.method.feature_map(PartyContext(election, "clinic-a"))(data.X)
        shown = np.array([[float(value) for value in row[1:]] for row in products["rows"]])
        assert shown == pytest.approx((z.T @ z)[:, :7], abs=0.02)  # each row is rounded to the grid
    else:
        assert names[0] == "Fourier feature 1"
        assert "a person cannot judge" in contents["sums"]["note"]


def test_at_l2_the_page_says_why_counts_are_exempt_and_what_the_audit_found(clinic: Path) -> None:
    agree("fedkt", "--level", "L2", "--epsilon", "4")
    text, record = read_after(cast("--dossier", "plain.html"), clinic / "plain.html")
    assert "Not audited" in text
    assert "add --audit run to the command" in text
    assert "The audit was not run" in text
    assert record["attacks"]["command"] == "oneballot audit election.toml --json > audit.json"
    assert "none of them is an exact count" in text
    assert record["guarantee"]["ledger"]["epsilon"] <= 4
    assert "epsilon" in text
    assert "guesses right at most 98.3 % of the time" in text  # 1 / (1 + exp(-4)) = 0.98201…
    audit = json.loads(run("audit", "election.toml", "--canaries", "20", "--runs", "10", "--json").stdout)
    Path("audit.json").write_text(json.dumps(audit))
    text, record = read_after(cast("--dossier", "d.html", "--audit", "audit.json"), clinic / "d.html")
    assert record["attacks"]["measured"] == "audit"
    assert f"{audit['with_noise']['epsilon']:.3f}" in text
    assert "Not audited" not in text
    Path("audit.json").write_text(json.dumps(audit | {"election": "0" * 64}))
    assert "another election" in cast("--dossier", "e.html", "--audit", "audit.json", status=1).output
    assert "give --dossier" in cast("--audit", "run", status=1).output


def read_after(_: object, page: Path) -> tuple[str, dict]:
    return read(page)


def test_an_encrypted_ballot_is_readable_by_the_server_alone(clinic: Path) -> None:
    agree("fedkt", "--level", "L1", "--epsilon", "5")
    public = new_server_key(clinic / "server.key")
    text = Path("election.toml").read_text()
    text = re.sub(r"^#? ?server_key = .*$", "", text, flags=re.MULTILINE)
    Path("election.toml").write_text(f'server_key = "{public}"\n{text}')
    cast("--dossier", "d.html")
    text, record = read(clinic / "d.html")
    assert record["readable_by"]["encrypted"]
    assert record["readable_by"]["key"] == public
    assert record["readable_by"]["fingerprint"] in text
    assert "They are protected by encryption and by trust in the server" in text
    assert "not encrypted" not in text
    sealed = "ballots/clinic-a.ballot"
    failed = run("inspect", sealed, "--election", "election.toml", "--dossier", "i.html", status=1)
    assert "is encrypted" in failed.output
    run("inspect", sealed, "--election", "election.toml", "--key", "server.key", "--dossier", "i.html")
    run("inspect", f"{sealed}.open", "--election", "election.toml", "--dossier", "o.html")
    records = [read(clinic / name)[1] for name in ("d.html", "i.html", "o.html")]
    assert records[0]["rows"] == records[1]["rows"] == records[2]["rows"] is not None
    assert len({record["seals"]["ballot_digest"] for record in records}) == 1
    assert [record["stage"] for record in records] == ["sealed"] * 3


def test_without_a_server_key_no_page_says_that_encryption_protects_the_votes(clinic: Path) -> None:
    agree("fedkt", "--level", "L1", "--epsilon", "5", "--server-key", "none")
    cast("--dossier", "d.html")
    run("inspect", "ballots/clinic-a.ballot", "--dossier", "alone.html")
    text = read(clinic / "d.html")[0]
    assert "exact votes and is not encrypted: anyone who can read the box or has the file reads them" in text
    for page in (text, read(clinic / "alone.html")[0]):
        assert "protected by encryption" not in page


def test_inspect_makes_the_same_page_from_a_ballot(clinic: Path) -> None:
    agree()
    cast("--dossier", "d.html", "--small-counts", "allow")
    done = json.loads(
        run("inspect", "ballots/clinic-a.ballot", "--election", "election.toml", "--dossier", "i.html",
            "--small-counts", "allow", "--json").stdout
    )  # fmt: skip
    assert done["dossier"]["page"] == "i.html"
    (_, cast_one), (text, seen) = read(clinic / "d.html"), read(clinic / "i.html")
    same = ("party", "method", "contents", "readable_by", "guarantee", "attacks", "bytes", "seals", "election")
    same += ("rows", "seconds", "counts")
    assert {name: seen[name] for name in same} == {name: cast_one[name] for name in same}
    assert seen["rows"]["used"] == 120
    (clinic / "received").mkdir()
    shutil.copy("ballots/clinic-a.ballot", "received")  # without the party's record
    received = ("inspect", "received/clinic-a.ballot", "--election", "election.toml", "--small-counts", "allow")
    run(*received, "--dossier", "r.html")
    text, seen = read(clinic / "r.html")
    assert seen["rows"] is None
    assert "was not read for this page" in text
    record = json.loads(Path("ballots/clinic-a.rows.json").read_text())
    Path("received/clinic-a.rows.json").write_text(json.dumps({**record, "ballot": "0" * 64}))
    run(*received, "--dossier", "other.html")
    assert read(clinic / "other.html")[1]["rows"] is None, "a record of another ballot is not shown"
    run("inspect", "ballots/clinic-a.ballot", "--dossier", "alone.html")
    text, alone = read(clinic / "alone.html")
    assert alone["election"] is None
    assert "Small numbers unknown without --election" in text
    assert "none stated" not in text
    given = ("inspect", "ballots/clinic-a.ballot", "--election", "election.toml", "--dossier", "small.html")
    failed = run(*given, status=1)
    assert "clinic-a.ballot states 4 rows of class rare: below --min-count 10" in failed.output
    assert "small.html shows it" in failed.output
    assert json.loads(run(*given, "--json", status=1).stdout)["kind"] == "SmallCount"
    assert read(clinic / "small.html")[1]["stage"] == "refused"


def test_inspect_says_that_counts_could_not_be_read(clinic: Path) -> None:
    agree("analytic")
    election = Election.read("election.toml")
    odd = seal({"sums": np.full((1, 3), np.nan)}, election, "clinic-a")
    Path("odd.ballot").write_bytes(odd.sealed)
    given = ("inspect", "odd.ballot", "--election", "election.toml", "--dossier", "odd.html")
    assert "could not be read" in run(*given, status=1).output
    run(*given, "--small-counts", "allow")
    text, record = read(clinic / "odd.html")
    assert "could not be read" in record["counts"]["unknown"]
    assert "none stated" not in text


def test_the_page_of_an_earlier_signature_or_rule_is_not_taken_for_the_new_one(clinic: Path) -> None:
    agree()
    for name in ("old", "new"):
        run("keys", "new", name)
    given = ("--dossier", "d.html", "--small-counts", "allow")
    cast(*given, "--key", "old.key")
    signed = (clinic / "d.html").read_bytes(), (clinic / "d.json").read_bytes()
    kept = (clinic / "ballots" / "clinic-a.ballot").read_bytes()
    failed = cast(*given, "--key", "new.key", "--resign", "--to", "box", status=1)
    assert (clinic / "ballots" / "clinic-a.ballot").read_bytes() == kept, "refused before it is signed again"
    assert "another hash of the ballot file and another signature" in failed.output
    assert "Move it away" in failed.output
    failed = cast(*given, "--key", "old.key", "--min-count", "20", status=1)
    assert "--min-count 10 --small-counts allow" in failed.output
    assert ((clinic / "d.html").read_bytes(), (clinic / "d.json").read_bytes()) == signed
    assert not (clinic / "box").exists()
    again = ("--dossier", "e.html", "--small-counts", "allow", "--key", "new.key", "--resign")
    cast(*again)
    assert "describes this ballot already" in cast(*again, "--to", "box").output
    sealed = hashlib.sha256((clinic / "ballots" / "clinic-a.ballot").read_bytes()).hexdigest()
    assert read(clinic / "e.html")[1]["seals"]["file_sha256"] == sealed


def test_a_refusal_is_written_beside_the_page_of_the_sealed_ballot(clinic: Path) -> None:
    agree()
    cast("--dossier", "d.html", "--small-counts", "allow")
    signed = (clinic / "d.html").read_bytes()
    for _ in range(2):
        failed = cast("--dossier", "d.html", "--to", "box", status=1)
        assert "d.refused.html shows what would leave. d.html, written with other options, is unchanged" in (
            failed.output
        )
        assert (clinic / "d.html").read_bytes() == signed
        text, record = read(clinic / "d.refused.html")
        assert (record["stage"], record["page"]) == ("refused", "d.refused.html")
        assert "Refused: nothing may be sent" in text
        assert not (clinic / "box").exists()


@pytest.mark.skipif(os.name == "nt", reason="the command is for a POSIX shell")
def test_the_command_that_checks_hashes_runs_no_code_and_names_the_real_files(clinic: Path) -> None:
    agree("fedkt")
    run("cast", "election.toml", "--party", "Sankt Jürgen", "--data", "a.csv", "--dossier", "d.html", "--keep", ".")
    _, record = read(clinic / "d.html")
    assert (clinic / record["seals"]["file"]).is_file()
    hostile = "-$(touch pwned)'.ballot"
    Path(record["seals"]["file"]).rename(hostile)
    run("inspect", "--dossier", "i.html", "--", hostile)
    record = read(clinic / "i.html")[1]
    command = re.findall(r"sha256sum [^<]*", (clinic / "i.html").read_text("utf-8"))[-1]
    done = subprocess.run(["/bin/sh", "-c", unescape(command)], cwd=clinic, check=True, capture_output=True, text=True)
    assert record["seals"]["file_sha256"] in done.stdout
    assert not (clinic / "pwned").exists()


def test_the_hash_of_the_file_is_that_of_the_rows_that_were_read(clinic: Path) -> None:
    agree()
    election, path = Election.read("election.toml"), clinic / "a.csv"
    data, about = read_rows(election, path)
    read_file = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_text("something else")
    ctx, rule = PartyContext(election, "clinic-a"), CountRule(small="allow")
    release = sealed_release(Release(ctx, "planned", rule, rows=about), cast_data(ctx, data))
    assert of_release(release, "d.html").rows.sha256 == read_file


def test_an_audit_is_not_run_again_for_a_page_that_has_one(clinic: Path) -> None:
    agree("fedkt", "--level", "L2", "--epsilon", "4")
    audit = json.loads(run("audit", "election.toml", "--canaries", "20", "--runs", "10", "--json").stdout)
    Path("audit.json").write_text(json.dumps(audit))
    cast("--dossier", "d.html", "--audit", "audit.json")
    assert "describes this ballot already" in cast("--dossier", "d.html", "--audit", "run", "--to", "box").output
    assert "another --audit" in cast("--dossier", "d.html", status=1).output


def test_a_page_of_a_sealed_ballot_is_never_replaced(clinic: Path) -> None:
    agree()
    Path("notes.html").write_text("mine")
    assert "not a dossier" in cast("--dossier", "notes.html", status=1).output
    assert "ends in .html" in cast("--dossier", "d.pdf", status=1).output
    given = ("--dossier", "d.html", "--small-counts", "suppress")
    cast(*given, "--dry-run")
    cast(*given)
    signed = (clinic / "d.html").read_bytes()
    assert "describes this ballot already" in cast(*given, "--to", "box").output
    assert (clinic / "d.html").read_bytes() == signed
    for more in (["--recast"], ["--dry-run"]):
        assert "may be signed, so it is not replaced" in cast(*given, *more, status=1).output
    assert (clinic / "d.html").read_bytes() == signed


def test_the_page_is_written_before_the_ballot_is_delivered(clinic: Path) -> None:
    agree()
    Path("file").write_text("in the way")
    failed = cast("--dossier", "file/d.html", "--small-counts", "allow", "--to", "box", status=1)
    assert "error" in failed.output
    assert not (clinic / "box").exists()


def test_html_in_names_of_parties_columns_classes_and_files_is_escaped(clinic: Path) -> None:
    for name in ("public.csv", "a.csv"):
        text = Path(name).read_text().replace("dose", HOSTILE).replace("rare", "<b>rare").replace("south", "<i>south")
        Path(name).write_text(text.replace("comment", "<img src=x onerror=alert(2)>"))
    for method in ("ensemble", "fedkt"):
        Path("election.toml").unlink(missing_ok=True)
        agree(method)
        page = f"{method}.html"
        run("cast", "election.toml", "--party", "<u>clinic", "--data", "a.csv", "--dossier", page, "--keep", method,
            "--small-counts", "suppress")  # fmt: skip
        html, (text, _) = Path(page).read_text("utf-8"), read(clinic / page)
        for raw in (HOSTILE, "<b>rare", "<u>clinic", "<img", "<i>south"):
            assert raw not in html
        assert HOSTILE in text
        assert "<u>clinic" in text
        assert html.count("<script>") == 1
