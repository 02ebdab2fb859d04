"""The examples of the documentation run, its links resolve, and its commands and options exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import click
import numpy as np
import pytest
import typer.main
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
from oneballot.server.sandbox import Sandbox
from oneballot.types import Blob, Data

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for places in ("*.md", "docs/*.md", "docs/results/*.md", "benchmarks/*.md") for p in ROOT.glob(places))
FENCE = re.compile(r"^```[^\n]*\n.*?^```$", re.MULTILINE | re.DOTALL)
EXTENDING = (ROOT / "docs/extending.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"^`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)^```$", EXTENDING, re.M | re.S))

pages = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())


# The examples of docs/extending.md


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
    for kind, name in (
        ("methods", "class-means"),
        ("learners", "centres"),
        ("formats", "linear"),
        ("peers", "largest"),
    ):
        assert name in plugins.names(kind)
        assert plugins.find(kind, name).name == name
    with pytest.raises(ElectionError, match="Did you mean 'class-means'"):
        plugins.find("methods", "class-mean")


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

    backwards = ob.tally(election, ballots[::-1])
    np.testing.assert_array_equal(backwards.model.predict_proba(X), outcome.model.predict_proba(X))
    fewer, later = ob.tally(election, ballots[:2]), ob.tally(election, ballots, without=["clinic-c", "clinic-d"])
    less = ob.tally(election, ballots[:2], previous=outcome)
    for other in (later, less):
        np.testing.assert_array_equal(other.count.sums["sums"], fewer.count.sums["sums"])

    outcome.save(tmp_path)
    np.testing.assert_array_equal(ob.Outcome.load(tmp_path).model.predict(X), outcome.model.predict(X))


def test_the_method_of_the_examples_abstains_and_rejects_invalid_ballots(plugin, digits):
    public, parties, _ = digits
    election = ob.Election(range(10), public, method=plugins.find("methods", "class-means")())
    X, y = parties["clinic-a"]
    few = cast_data(PartyContext(election, "few"), election.data(X[:4], y[:4]))
    none = cast_data(PartyContext(election, "none"), Data(X[:0].astype(np.float32), y[:0]))
    good = ob.cast(election, X, y, party="good").contents
    lowest = np.full_like(good["sums"], np.iinfo(np.int64).min)
    wrong = [
        {},
        {**good, "seen": good["seen"].astype(np.float64)},
        {**good, "seen": good["seen"] - 1000},
        {**good, "seen": good["seen"] * 0, "sums": good["sums"] * 0},
        {**good, "seen": good["seen"] + 2**62},
        {**good, "sums": good["sums"][:, 1:]},
        {**good, "sums": lowest},
        {**good, "sums": Blob("linear", b"")},
    ]
    bad = [seal(contents, election, f"bad-{i}") for i, contents in enumerate(wrong)]
    outcome = ob.tally(election, [few, none, *bad, seal(good, election, "good")])
    assert outcome.summary()["counted"] == ["good"]
    assert outcome.summary()["abstained"] == dict.fromkeys(("few", "none"), "no class has 5 rows")
    assert len(outcome.spoiled) == len(wrong)
    for scale in (1e6, 1e30):
        with pytest.raises(DataError, match="scale the features"):
            ob.cast(election, X * scale, y, party="a")
    with pytest.raises(ElectionError, match="needs a public set"):
        ob.cast(ob.Election(range(10), method=election.method), X, y, party="a")


def test_the_examples_work_by_name_in_an_election_file(plugin, digits, tmp_path):
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
    assert election.method == plugins.find("methods", "class-means")(least=10)
    assert election.learner == plugins.find("learners", "centres")(least_variance=0.01)
    path.write_text(path.read_text().replace("least = 10", "least = 0"))
    with pytest.raises(ElectionError, match=r"\[method\]: ClassMeans: least: .*greater than 0"):
        ob.Election.read(path)
    path.write_text(path.read_text().replace("least = 0", "least = 10"))

    def call(*words):
        result = CliRunner().invoke(app, [str(w) for w in words])
        assert result.exit_code == 0, result.output
        return result.output

    dry = call("cast", path, "--party", "clinic-a", "--data", tmp_path / "clinic-a.csv", "--dry-run")
    assert "row counts and feature sums of each class" in dry
    for party in parties:
        call("cast", path, "--party", party, "--data", tmp_path / f"{party}.csv", "--keep", tmp_path / "own",
             "--to", tmp_path / "box")  # fmt: skip
    call("tally", path, "--from", tmp_path / "box", "--out", tmp_path / "outcome")
    assert ob.Outcome.load(tmp_path / "outcome").model.score(tmp_path / "test.csv", y) > 0.8
    assert "accuracy" in call("evaluate", tmp_path / "outcome", "--data", tmp_path / "test.csv")


def test_models_of_the_examples_are_queried_in_the_sandbox(plugin, digits, monkeypatch, tmp_path):
    public, parties, (X, y) = digits
    learner = plugins.find("learners", "centres")()
    election = ob.Election(range(10), public, method=ob.FedKT(ballot="models"), learner=learner)
    ballots = cast_all(election, parties)
    assert {c.format for b in ballots for c in b.contents.values()} == {"linear"}
    outcome = ob.tally(election, ballots)
    assert not outcome.spoiled
    assert outcome.model.score(X, y) > 0.8
    outcome.save(tmp_path)
    assert list(tmp_path.glob("model-*.linear"))
    np.testing.assert_array_equal(ob.Outcome.load(tmp_path).model.predict_proba(X), outcome.model.predict_proba(X))

    monkeypatch.setattr(plugins.find("formats", "linear"), "inert", True)
    here = ob.tally(election, ballots)
    np.testing.assert_array_equal(here.count.sums["votes"], outcome.count.sums["votes"])


def test_the_peer_of_the_examples_is_compared_with_an_election(plugin, digits):
    public, parties, test = digits
    election = ob.Election(range(10), public, learner=plugins.find("learners", "centres")())
    held = {party: election.data(X, y) for party, (X, y) in parties.items()}
    standings = ob.compare("largest", election, held, election.data(*test))
    assert len(standings.rounds) == 1
    assert standings.last.accuracy > 0.7
    assert standings.last.bytes == 4 * 8 * 10 * 65  # up once, down three times: a table of 10 classes


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


def test_the_format_of_the_examples_rejects_altered_bytes(plugin, digits):
    public, parties, _ = digits
    model = plugins.find("learners", "centres")().fit_many(public, [], 10)
    assert len(model) == 0
    X, y = parties["clinic-a"]
    tasks = [ob.Task(np.arange(len(y)), y), ob.Task(np.arange(3), np.eye(10)[y[:3]], kind="soft", ask=np.arange(5))]
    models = plugins.find("learners", "centres")().fit_many(X, tasks, 10)
    assert [a.shape for a in models[:].predictions()] == [(0, 10), (5, 10)]
    data = models[0].dump().data
    with Sandbox() as sandbox:
        answer = sandbox.ask(Blob("linear", data), public, classes=10)
        np.testing.assert_array_equal(answer, models[0].predict_proba(public))
        for bad in (b"", data[:-1], data + data, data[:-8] + np.float64(np.nan).tobytes(), b"\xff" * len(data)):
            with pytest.raises(Spoiled, match="the linear model is refused"):
                sandbox.ask(Blob("linear", bad), public, classes=10)


def test_the_learner_of_the_examples_fits_constant_and_single_class_tasks(plugin):
    X, rows = np.ones((6, 2, 2), dtype=np.uint8), np.arange(6)
    tasks = [ob.Task(rows, np.full(6, 2), ask=rows), ob.Task(rows[:1], np.array([0]), ask=rows, answer="scores"),
             ob.Task(rows, np.arange(6) % 2, weight=np.array([3.0, 1.0] * 3), ask=rows)]  # fmt: skip
    sure, scores, weighted = plugins.find("learners", "centres")().fit_many(X, tasks, 3).predictions()
    np.testing.assert_allclose(sure, np.tile([0, 0, 1], (6, 1)))
    assert (scores.argmax(axis=1) == 0).all()
    np.testing.assert_allclose(weighted, np.tile([0.75, 0.25, 0], (6, 1)))


SCRIPT = """
import numpy as np, oneballot as ob
from oneballot import plugins
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
find = plugins.find
for method in (find("methods", "class-means")(), ob.FedKT(ballot="models")):
    election = ob.Election([0, 1, 2], X[::3], method=method, learner=find("learners", "centres")())
    assert type(election.learner).__module__ == "oneballot.learners.centres"
    run = ob.simulate(election, X, y, parties=3, split="homogeneous")
    assert not run.outcome.spoiled and len(run.outcome.voted) == 3
    assert run.outcome.model.score(X, y) > 0.8, run.outcome.model.score(X, y)
print(ob.__file__)
"""


def test_the_examples_work_as_files_of_oneballot_with_no_other_edit(tmp_path):
    ours = tmp_path / "oneballot"
    shutil.copytree(ROOT / "src/oneballot", ours, ignore=shutil.ignore_patterns("__pycache__"))
    for kind, name in (("methods", "class_means"), ("learners", "centres"), ("formats", "linear")):
        text = EXAMPLES[f"plain_ballots/{name}.py"].replace("from plain_ballots.", "from oneballot.formats.")
        (ours / kind / f"{name}.py").write_text(text, "utf-8")
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


# README, links, commands


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    """Its blocks form one program."""
    if page == "docs/python.md":
        pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    program = "\n".join(re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.M | re.S))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ob.OneBallotWarning)  # a hint to users, not a failure
        exec(compile(program, page, "exec"), {"__name__": "__page__"})


@pages
def test_relative_links_resolve(page):
    text = FENCE.sub("", page.read_text("utf-8"))
    links = re.findall(r"\]\(<?([^)\s>]+)>?[^)]*\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    links += re.findall(r"^\[[^\]]+\]:\s*(\S+)", text, re.M)
    inside = [link.partition("#") for link in links if not re.match(r"[a-z][a-z0-9+.-]*:", link)]
    missing = [path for path, _, _ in inside if path and not (page.parent / path).exists()]
    assert not missing, f"{page.name} links to {missing}"
    for path, mark, heading in inside:
        target = page.parent / path if path else page
        if mark and target.suffix == ".md":
            assert heading in _headings(target), f"{page.name} links to {path}#{heading}"


def _headings(page):
    """The anchors that GitHub gives to headings."""
    titles = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", page.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(command, path=("oneballot",)):
    """Every command by its words, subcommands included."""
    found = {path: command}
    for name, part in getattr(command, "commands", {}).items():
        found |= commands(part, (*path, name))
    return found


COMMANDS = commands(typer.main.get_command(app))
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


def options_of(path):
    """The options that `--help` of a command lists."""
    command = COMMANDS[path]
    context = click.Context(command, info_name=path[-1])
    return {o for p in command.get_params(context) if isinstance(p, click.Option) for o in p.opts + p.secondary_opts}


def wrong_with(text):
    """What is wrong with a command line in a page; empty if it is valid."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    path = tuple(words[:1])
    while path in COMMANDS and path not in LEAVES and len(words) > len(path) and not words[len(path)].startswith("-"):
        path = (*path, words[len(path)])
    if path not in COMMANDS:
        return f"there is no command {' '.join(path)}"
    known = options_of(path) | {"-h", "--help"}
    given = [m[0] for w in words for m in [re.match(r"\[?(--?[a-z][\w-]*)", w)] if m]
    return ", ".join(f"{' '.join(path)} has no option {o}" for o in (o.lstrip("[") for o in given) if o not in known)


def named_commands(text):
    """The `oneballot …` lines of code blocks, joined at a backslash, and of inline code."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```$", text, re.M | re.S)
    blocks += re.findall(r"(?:^(?: {4}|\t)[^\n]*\n)+", FENCE.sub("", text), re.M)
    lines = [line for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    found = [m[1] for line in lines for m in [re.match(r"\s*(?:\$ )?(oneballot [^|;&]+)", line)] if m]
    inline = re.findall(r"(?<!`)`([^`]+)`(?!`)", FENCE.sub("", text))
    return found + [" ".join(code.split()) for code in inline if re.match(r"oneballot\s+[-a-z]", code)]


@pages
def test_commands_in_pages_exist_with_their_options(page):
    wrong = [f"{c!r}: {w}" for c in named_commands(page.read_text("utf-8")) if (w := wrong_with(c))]
    assert not wrong, f"{page.name}: {'; '.join(wrong)}"


def test_a_command_that_does_not_exist_is_noticed():
    text = "`oneballot count`\n\n```sh\n$ oneballot cast \\\n  --dry  # it's not\noneballot keys old\n```\n"
    found = named_commands(text)
    assert len(found) == 3
    assert all(wrong_with(command) for command in found)
    assert not wrong_with("oneballot cast election.toml --party a --data a.csv [--dry-run]  # don't send")


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_help_has_a_valid_example(path):
    result = CliRunner().invoke(app, [*path[1:], "--help"], terminal_width=400)
    assert result.exit_code == 0
    example = re.search(r"Example: (oneballot [^\n]*)", result.output)
    assert example, f"{' '.join(path)} --help has no example"
    assert example[1].startswith(" ".join(path))
    assert not wrong_with(example[1])
    assert all(option in result.output for option in options_of(path))


# Reliability


def test_every_fault_of_the_table_names_a_test_that_exists():
    table = (ROOT / "docs/reliability.md").read_text("utf-8").partition("| fault |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \|.*\| `([^`]+)` \|$", table, re.M)
    assert len(rows) > 15
    assert len(rows) == len(re.findall(r"^\| ", table, re.M)), "every row ends with a test"
    for fault, test in rows:
        file, *inside, name = test.split("::")
        text = (ROOT / "tests" / file).read_text("utf-8")
        for pattern in (*(rf"^class {part}\b" for part in inside), rf"^ *def {name}\("):
            assert re.search(pattern, text, re.M), f"{fault}: there is no {test}"


# Versions


def test_changelog_and_citation_are_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert latest
    assert latest[1] == project["version"]
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(rf"^version: {re.escape(project['version'])}$", citation, re.M)
    assert re.search(rf"^license: {re.escape(project['license'])}$", citation, re.M)
