"""Elections, ballots and outcomes that version 0.1.0 wrote are read, and give the same results, bit for bit.

`fixtures/v1` was written by the 0.1.0 command line: `new`, `cast`, `tally` and `predict` for each method. Results are
compared bit for bit where the libraries that train are those in `versions.json`; other versions may train other models.
The analytic method's matrix solution alone is compared to nine digits, because it depends on the processor.
"""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oneballot.ballot.archive import unzip
from oneballot.ballot.keys import read_server_key
from oneballot.ballot.manifest import open_ballot
from oneballot.ballot.seal import unseal
from oneballot.cli import app
from oneballot.data.read import read
from oneballot.election.election import Election
from oneballot.methods.analytic.format import AnalyticFormat
from oneballot.server.outcome import Outcome

V1 = Path(__file__).parent / "fixtures" / "v1"
DIGESTS = json.loads((V1 / "digests.json").read_text())
SAME_LIBRARIES = all(
    version(name).split("+")[0] == known
    for name, known in json.loads((V1 / "versions.json").read_text()).items()
    if name != "python"
)
same_libraries = pytest.mark.skipif(not SAME_LIBRARIES, reason="other libraries than those that wrote the fixtures")
SANDBOXED = ("ensemble", "ensemble-members", "fedkt-models")
"""Elections whose ballots are models: the sandbox imports scikit-learn for each tally."""
each_election = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SANDBOXED else ()) for n in sorted(DIGESTS)]
)


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """A copy that commands can write to."""
    copy = Path(shutil.copytree(V1, tmp_path / "v1"))
    for key in copy.rglob("*.key"):
        key.chmod(0o600)  # git does not keep this mode
    return copy


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_an_election_has_the_digest_that_it_had(name: str) -> None:
    assert Election.read(V1 / name / "election.toml").digest == DIGESTS[name]


@each_election
def test_an_outcome_is_loaded_and_predicts_the_same(name: str, tmp_path: Path) -> None:
    run("predict", V1 / name / "outcome", "--data", V1 / "test.csv", "--out", tmp_path / "again.csv")
    before = (V1 / name / "predictions.csv").read_text("utf-8").splitlines()
    assert read(tmp_path / "again.csv")["prediction"].tolist() == before[1:]


def assert_equal_sums(one: Path, other: Path) -> None:
    sums, others = (Outcome.load(folder).count.sums for folder in (one, other))
    assert sums.keys() == others.keys()
    assert all(np.array_equal(sums[key], others[key]) for key in sums)


def assert_close_models(one: Path, other: Path) -> None:
    weights, others = (AnalyticFormat.load(path.read_bytes(), classes=3).weights for path in (one, other))
    np.testing.assert_allclose(weights, others, rtol=1e-9, atol=1e-12)


@same_libraries
@each_election
def test_a_tally_of_the_same_ballots_gives_the_same_model_and_count(name: str, v1: Path) -> None:
    key = ["--key", v1 / name / "server.key"] if name == "signed" else []
    run("tally", v1 / name / "election.toml", "--from", v1 / name / "box", "--out", v1 / "again", *key)
    files = {path.name for path in (V1 / name / "outcome").iterdir()}
    documents = {"README.md", "tripod-ai.md", "log.jsonl"}  # new in 0.5 and 0.6
    again = json.loads((v1 / "again" / "outcome.json").read_bytes())
    if again["roll"] and "fedkt" in again["about"]["method"]["name"]:  # since 0.6 votes are kept for each party too
        assert_equal_sums(v1 / "again", V1 / name / "outcome")
        old = json.loads((V1 / name / "outcome" / "outcome.json").read_bytes())
        files, again["count"], again["roll"] = (files - {old["count"]}) | {again["count"]}, old["count"], old["roll"]
    now = {path.name for path in (v1 / "again").iterdir()}
    if name == "analytic" and now != files | documents:  # LAPACK rounds differently on another type of processor
        (old_file,), (new_file,) = files - now, now - files - documents
        assert_close_models(v1 / "again" / new_file, V1 / name / "outcome" / old_file)
        again = json.loads(json.dumps(again).replace(new_file, old_file))
        now = (now - {new_file}) | {old_file}
    assert now == files | documents, "files are named by their content"
    assert again.pop("verdict")["rows"] >= 0  # new in 0.3
    assert again.pop("about")["method"]["name"]  # new in 0.5
    assert again.pop("influence")["rows"] >= 0  # new in 0.6
    assert all(isinstance(each, str) for each in again.pop("warnings", []))  # new in 0.7
    before = json.loads((V1 / name / "outcome" / "outcome.json").read_bytes())
    if name == "fedkt-l2":  # since 0.3 an ID may have several rows, so the unit that it protects has another name
        assert (before["privacy"].pop("unit"), again["privacy"].pop("unit")) == ("row", "patient")
    assert again == before


@same_libraries
@pytest.mark.parametrize("name", sorted(set(DIGESTS) - {"fedkt-l2", "signed"}))
def test_a_cast_of_the_same_rows_carries_the_same_contents(name: str, v1: Path) -> None:
    """All but the manifest, which names the version that wrote the ballot. At L2 noise differs in every cast."""
    run("cast", v1 / name / "election.toml", "--party", "a", "--data", v1 / "a.csv", "--keep", v1 / "kept")
    again, before = (unzip(path.read_bytes()) for path in (v1 / "kept/a.ballot", V1 / name / "box/a.ballot"))
    assert {k: bytes(v) for k, v in again.items() if k != "manifest.json"} == {
        k: bytes(v) for k, v in before.items() if k != "manifest.json"
    }


def test_a_signed_and_encrypted_ballot_is_opened_and_delivered_again(v1: Path) -> None:
    folder = v1 / "signed"
    ballots = sorted((folder / "box").glob("*.ballot"))
    election, key = Election.read(folder / "election.toml"), read_server_key(folder / "server.key")
    assert [unseal(path.read_bytes(), election, key).party for path in ballots]
    kept = (folder / "kept" / "a.ballot").read_bytes()
    where = ("--keep", folder / "kept", "--key", folder / "a.key", "--to", v1 / "other-box")
    run("cast", folder / "election.toml", "--party", "a", "--data", v1 / "a.csv", *where)
    assert [path.read_bytes() for path in (v1 / "other-box").glob("*.ballot")] == [kept]


def test_an_earlier_outcome_is_resumed_and_a_late_ballot_added(v1: Path) -> None:
    folder = v1 / "fedkt"
    late = folder / "box" / "c.ballot"
    sealed = late.read_bytes()
    late.unlink()
    run("tally", folder / "election.toml", "--from", folder / "box", "--out", folder / "outcome")
    assert set(Outcome.load(folder / "outcome").voted) == {"a", "b"}
    late.write_bytes(sealed)
    run("tally", folder / "election.toml", "--from", folder / "box", "--out", folder / "outcome")
    before = json.loads((V1 / "fedkt/outcome/outcome.json").read_text())
    assert_equal_sums(v1 / "fedkt/outcome", V1 / "fedkt/outcome")
    assert open_ballot(sealed).digest == before["voted"]["c"]["digest"]
