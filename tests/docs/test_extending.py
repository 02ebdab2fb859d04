"""The examples of docs/extending.md: they form one package, pass the conformance suites, and run elections."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import oneballot as ob
from oneballot import plugins
from oneballot.ballot.seal import seal
from oneballot.cli import app
from oneballot.election import template
from oneballot.election.columns import Number
from oneballot.election.schema import Schema
from oneballot.errors import DataError, ElectionError, Spoiled
from oneballot.party.cast import cast_data
from oneballot.party.context import PartyContext
from oneballot.server.tally import tally_box
from oneballot.testing import ConformanceError, check_method
from oneballot.types import Blob, Data

ROOT = Path(__file__).parents[2]
EXTENDING = (ROOT / "docs/extending.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"^`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)^```$", EXTENDING, re.M | re.S))
FOUND = {
    "methods": "class-means",
    "learners": "catboost",
    "formats": "catboost-json",
    "boxes": "sqlite",
    "peers": "largest",
    "mechanisms": "permute-and-flip",
    "targets": "grades",
}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The examples as an installed package: a folder on sys.path with its metadata."""
    site = tmp_path_factory.mktemp("site")
    project = _write_examples(site)
    info = site / "plain_ballots-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plain-ballots\nVersion: 1.0\n")
    groups = project["entry-points"].items()
    lines = [line for group, names in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in names.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        _clear_caches()
        yield site
    for name in [name for name in sys.modules if name.partition(".")[0] == "plain_ballots"]:
        del sys.modules[name]
    _clear_caches()


def _write_examples(site):
    for file, text in EXAMPLES.items():
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tomllib.loads(EXAMPLES["pyproject.toml"])["project"]


def _clear_caches():
    plugins.names.cache_clear()
    plugins.find.cache_clear()


@pytest.fixture(scope="module")
def digits():
    """Public rows, four parties' rows with labels, and rows to test."""
    X, y = load_digits(return_X_y=True)
    X, order = X / 16, np.random.default_rng(0).permutation(len(y))
    public, tested, private = np.split(order, [300, 700])
    shares = zip("abcd", np.array_split(private, 4), strict=True)
    parties = {f"clinic-{name}": (X[rows], y[rows]) for name, rows in shares}
    return X[public], parties, (X[tested], y[tested])


def cast_all(election, parties):
    return [ob.cast(election, X, y, party=party) for party, (X, y) in parties.items()]


def test_the_examples_are_found_under_their_own_names(plugin):
    for kind, name in FOUND.items():
        assert name in plugins.names(kind)
        assert plugins.find(kind, name).name == name
    with pytest.raises(ElectionError, match="Did you mean 'class-means'"):
        plugins.find("methods", "class-mean")


def test_the_example_of_a_method_has_40_lines():
    assert sum(bool(line.strip()) for line in EXAMPLES["plain_ballots/class_means.py"].splitlines()) <= 40


@pytest.mark.parametrize(
    "suite",
    [
        "test_method",
        "test_network_method",
        "test_learner",
        pytest.param("test_format", marks=pytest.mark.slow),
        "test_box",
        "test_peer",
    ],
)
def test_an_example_passes_its_conformance_suite(plugin, suite, tmp_path):
    if suite in ("test_learner", "test_format"):
        pytest.importorskip("catboost")
    if suite == "test_network_method":
        pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(plugin / "tests")
        check = getattr(importlib.import_module("test_conformance"), suite)
    check(tmp_path) if suite == "test_box" else check()


def test_the_sentences_of_the_page_are_those_of_the_suite(plugin):
    """The method without its check of empty parties and of sums."""
    text = EXAMPLES["plain_ballots/class_means.py"]
    text = text.replace('        if not len(data):\n            raise Abstain("it has no rows")\n', "")
    text = text.replace(" or not (abs(sums / MOST) <= seen[:, None]).all()", "")
    (plugin / "plain_ballots" / "broken").mkdir()
    file = plugin / "plain_ballots" / "broken" / "class_means.py"
    file.write_text(text, "utf-8")
    broken = importlib.import_module("plain_ballots.broken.class_means")
    with pytest.raises(ConformanceError) as caught:
        check_method(broken.ClassMeans())
    shown = re.search(r"```text\n(method class-means does not.*?)```", EXTENDING, re.S)[1]
    missing = re.sub(r"line \d+", "", " ".join(str(caught.value).split()))
    for sentence in shown.split("\n  - ")[1:]:
        assert re.sub(r"line \d+", "", " ".join(sentence.split())) in missing


def test_the_method_of_the_examples_runs_an_election(plugin, digits, tmp_path):
    public, parties, (X, y) = digits
    election = ob.Election(range(10), public, method=plugins.find("methods", "class-means")())
    ballots = cast_all(election, parties)
    outcome = ob.tally(election, ballots)
    assert outcome.model.score(X, y) > 0.8
    everything = [np.concatenate(part) for part in zip(*parties.values(), strict=True)]
    np.testing.assert_array_equal(outcome.count.sums["seen"], np.bincount(everything[1]))
    (together,) = cast_all(election, {"all": everything})
    np.testing.assert_array_equal(outcome.count.sums["sums"], together.contents["sums"])
    outcome.save(tmp_path)
    np.testing.assert_array_equal(ob.Outcome.load(tmp_path).model.predict(X), outcome.model.predict(X))


def test_the_method_of_the_examples_abstains_and_rejects_invalid_ballots(plugin, digits):
    public, parties, _ = digits
    election = ob.Election(range(10), public, method=plugins.find("methods", "class-means")())
    X, y = parties["clinic-a"]
    none = cast_data(PartyContext(election, "none"), Data(X[:0].astype(np.float32), y[:0]))
    good = ob.cast(election, X, y, party="good").contents
    wrong = [
        {**good, "seen": good["seen"] - 1000},
        {**good, "seen": good["seen"] * 0, "sums": good["sums"] * 0},
        {**good, "sums": np.full_like(good["sums"], np.iinfo(np.int64).min)},
        {**good, "sums": Blob("catboost-json", b"")},
    ]
    bad = [seal(contents, election, f"bad-{i}") for i, contents in enumerate(wrong)]
    outcome = ob.tally(election, [none, *bad, seal(good, election, "good")])
    assert outcome.summary()["counted"] == ["good"]
    assert outcome.summary()["abstained"] == {"none": "it has no rows"}
    assert len(outcome.spoiled) == len(wrong)
    with pytest.raises(DataError, match="scale the features"):
        ob.cast(election, X * 1e30, y, party="a")
    with pytest.raises(ElectionError, match="needs a public set"):
        ob.Election(range(10), method=election.method)


def test_the_examples_work_by_name_in_an_election_file(plugin, digits, tmp_path):
    pytest.importorskip("catboost")
    public, parties, (X, y) = digits
    names = [f"pixel{i}" for i in range(64)]

    def write(file, X, y=None):
        rows = [",".join([*(f"{v:g}" for v in row), *([] if y is None else [str(y[i])])]) for i, row in enumerate(X)]
        (tmp_path / file).write_text("\n".join([",".join([*names, *([] if y is None else ["digit"])]), *rows]))

    write("public.csv", public)
    write("test.csv", X, y)
    for party, held in parties.items():
        write(f"{party}.csv", *held)
    method, learner = (re.search(rf"```toml\n(\[{part}.*?)```", EXTENDING, re.S)[1] for part in ("method", "learners"))
    schema = Schema(label="digit", columns=tuple(Number(name=n, range=(0, 1)) for n in names))
    path = tmp_path / "election.toml"
    path.write_text(
        template.write(path, tmp_path / "public.csv", range(10), schema, name="digits", method=f"{method}\n{learner}")
    )
    election = ob.Election.read(path)
    assert election.method == plugins.find("methods", "class-means")(steps=100)
    assert election.learner == plugins.find("learners", "catboost")(rounds=50)
    path.write_text(path.read_text().replace("steps = 100", 'steps = "many"'))
    with pytest.raises(ElectionError, match=r"\[method\]: ClassMeans: steps: .*valid integer"):
        ob.Election.read(path)
    path.write_text(path.read_text().replace('steps = "many"', "steps = 100").replace("rounds = 50", "rounds = 10"))

    def call(*words):
        result = CliRunner().invoke(app, [str(w) for w in words])
        assert result.exit_code == 0, result.output
        return result.output

    dry = call("cast", path, "--party", "clinic-a", "--data", tmp_path / "clinic-a.csv", "--dry-run")
    assert "rows and feature sums of each class" in dry
    for party in parties:
        call("cast", path, "--party", party, "--data", tmp_path / f"{party}.csv", "--keep", tmp_path / "own",
             "--to", tmp_path / "box")  # fmt: skip
    call("tally", path, "--from", tmp_path / "box", "--out", tmp_path / "outcome")
    assert ob.Outcome.load(tmp_path / "outcome").model.score(tmp_path / "test.csv", y) > 0.8
    assert "accuracy" in call("evaluate", tmp_path / "outcome", "--data", tmp_path / "test.csv")


def test_models_of_the_examples_are_queried_in_the_sandbox(plugin, digits, tmp_path):
    pytest.importorskip("catboost")
    public, parties, (X, y) = digits
    learner = plugins.find("learners", "catboost")(rounds=10)
    election = ob.Election(range(10), public, method=ob.Ensemble(), learner=learner)
    ballots = cast_all(election, dict(list(parties.items())[:2]))
    assert {c.format for b in ballots for c in b.contents.values() if isinstance(c, Blob)} == {"catboost-json"}
    outcome = ob.tally(election, ballots)
    assert not outcome.spoiled
    assert outcome.model.score(X, y) > 0.8


def test_catboost_predicts_what_the_library_does(plugin):
    catboost = pytest.importorskip("catboost")
    X = np.random.default_rng(0).random((80, 5)).astype(np.float32)
    y = (X[:, 0] * 3).astype(int)
    model = plugins.find("learners", "catboost")(rounds=8, depth=3).fit_one(X, y, None, 1, 3)
    settings = {"iterations": 8, "depth": 3, "learning_rate": 0.1, "loss_function": "MultiClass", "random_seed": 1}
    booster = catboost.CatBoostClassifier(**settings, thread_count=1, allow_writing_files=False, verbose=False)
    np.testing.assert_allclose(model.predict_proba(X), booster.fit(X, y).predict_proba(X), atol=1e-6)
    for bad in (b"", b"[" * 100_000, model.dump().data[:-1], b'{"seen": [0, 9], "trees": []}'):
        with pytest.raises(Spoiled):
            plugins.find("formats", "catboost-json").check(bad, classes=3, features=5)


def test_the_box_of_the_examples_takes_the_ballots_of_an_election(plugin, digits, tmp_path):
    public, parties, (X, y) = digits
    election = ob.Election(range(10), public, method=plugins.find("methods", "class-means")())
    for ballot in cast_all(election, parties):
        ob.box_at(f"sqlite://{tmp_path}/box.db").deliver(ballot.party, ballot.sealed)
    outcome = tally_box(election, ob.box_at(f"sqlite://{tmp_path}/box.db"))
    assert set(outcome.voted) == set(parties)
    assert outcome.model.score(X, y) > 0.8


def test_the_peer_of_the_examples_is_compared_with_an_election(plugin, digits):
    public, parties, test = digits
    election = ob.Election(range(10), public, learner=ob.Kernel())
    held = {party: election.data(X, y) for party, (X, y) in parties.items()}
    result = ob.compare("largest", election, held, election.data(*test))
    assert len(result.rounds) == 1
    assert result.last.accuracy > 0.7
    assert result.last.down == 3 * result.last.up > 0


def test_the_mechanism_and_the_target_of_the_examples_run_an_election(plugin, digits):
    public, parties, (X, y) = digits
    privacy = ob.L1(epsilon=400, mechanism="permute-and-flip")
    target = plugins.find("targets", "grades")()
    learners = {"teacher": ob.Kernel(), "final": ob.Kernel()}
    agreed = {"learners": learners, "privacy": privacy, "target": target, "server_key": "none"}
    election = ob.Election(range(10), public, method=ob.FedKT(), **agreed)
    outcome = ob.tally(election, cast_all(election, parties))
    assert any("permute-and-flip" in line for line in outcome.ledger.describe())
    assert "mean grades off" in target.metrics.values()
    assert outcome.model.predict(X).shape == y.shape


def test_the_command_of_the_examples_is_listed_and_runs(plugin, digits, tmp_path):
    public, parties, _ = digits
    election = ob.Election(range(10), public, method=plugins.find("methods", "class-means")())
    for ballot in cast_all(election, parties):
        ob.Folder(tmp_path).deliver(f"{ballot.party}.ballot", ballot.sealed)

    def call(*words):
        paths = os.pathsep.join([str(plugin), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "oneballot", *words]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    assert re.search(r"^Boxes:\n  sizes +List the ballots in a box", call("--help")[1], re.M)
    assert "Example: oneballot sizes box/" in call("sizes", "--help")[1]
    status, text = call("sizes", str(tmp_path))
    assert (status, len(text.splitlines())) == (0, 4)
    assert set(json.loads(call("sizes", str(tmp_path), "--json")[1])) == {f"{party}.ballot" for party in parties}
    status, text = call("sizes", "nowhere://at/all")
    assert (status, text.count("\n")) == (1, 1)
    assert text.startswith("error: ")


SCRIPT = """
import numpy as np, oneballot as ob
from oneballot import plugins
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
election = ob.Election([0, 1, 2], X[::3], method=plugins.find("methods", "class-means")(), learner=ob.Kernel())
assert type(election.method).__module__ == "oneballot.methods.class_means"
run = ob.simulate(election, X, y, parties=3, split="homogeneous")
assert not run.outcome.spoiled and len(run.outcome.voted) == 3
assert run.outcome.model.score(X, y) > 0.8, run.outcome.model.score(X, y)
print(ob.__file__)
"""


def test_the_method_works_as_a_file_of_oneballot_with_no_other_edit(tmp_path):
    ours = tmp_path / "oneballot"
    shutil.copytree(ROOT / "src/oneballot", ours, ignore=shutil.ignore_patterns("__pycache__"))
    (ours / "methods" / "class_means.py").write_text(EXAMPLES["plain_ballots/class_means.py"], "utf-8")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(ours) in done.stdout


def test_the_examples_pass_the_linter_and_formatter(tmp_path):
    _write_examples(tmp_path)
    ours = "lint.isort.known-first-party = ['oneballot', 'plain_ballots']"
    config = ["--config", str(ROOT / "pyproject.toml"), "--config", ours, "--no-cache"]
    for check in (["check", *config], ["format", "--check", *config]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *check, str(tmp_path / "plain_ballots")], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
