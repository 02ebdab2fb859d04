"""The examples of the documentation run, its links resolve, and its commands and options exist."""

from __future__ import annotations

import re
import shlex
import tomllib
import warnings
from pathlib import Path

import click
import pytest
import typer.main
from typer.testing import CliRunner

import oneballot as ob
from oneballot import plugins
from oneballot.cli import app
from oneballot.interfaces import Method

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for places in ("*.md", "docs/*.md", "docs/[rt]*/*.md", "benchmarks/*.md") for p in ROOT.glob(places))
FENCE = re.compile(r"^```[^\n]*\n.*?^```$", re.MULTILINE | re.DOTALL)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())


# README, links, commands


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/python.md"])
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


def test_every_promise_of_security_names_tests_that_exist():
    """`::name` without a file is in the file of the test before it, and a file alone must exist."""
    rows = re.findall(r"^\| (.+?) \| (`[^|]*(?:::|\.py)[^|]*`) \|$", (ROOT / "SECURITY.md").read_text("utf-8"), re.M)
    assert len(rows) > 35
    for promise, tests in rows:
        file = ""
        for test in re.findall(r"`([^`]+)`", tests):
            path, _, name = test.partition("::")
            file = path if path.endswith(".py") else file
            text = (ROOT / "tests" / file).read_text("utf-8")
            assert not name or re.search(rf"^ *def {name.rpartition('::')[2]}\(", text, re.M), f"{promise}: no {test}"


def test_security_says_which_methods_have_no_line_of_influence():
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`[a-z]+`(?:, )?)+) \| \*\*none\*\* \|", text, re.M)
    assert len(rows) == 1
    built_in = [name for name in plugins.names("methods") if plugins.is_built_in("methods", name)]
    without = {name for name in built_in if plugins.find("methods", name).opinions is Method.opinions}
    assert set(re.findall("`([a-z]+)`", rows[0])) == without


# Versions


def test_changelog_and_citation_are_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert latest
    assert latest[1] == project["version"]
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(rf"^version: {re.escape(project['version'])}$", citation, re.M)
    assert re.search(rf"^license: {re.escape(project['license'])}$", citation, re.M)


def test_the_page_of_dense_sums_up_its_table() -> None:
    """11 of 12 cells, by 2.5 to 18.9 points: the page once said nine of ten, by 2 to 19."""

    def cells(row: str) -> list[float]:
        lines = [line for line in (ROOT / "docs/results/methods.md").read_text().splitlines() if line.startswith(row)]
        return [float(cell.strip("* ")) for line in lines for cell in line.split("|")[2:-1]]

    ensemble, dense = cells('| ensemble, `weights = "seen"` |'), cells('| DENSE, `average = "seen"` (ours) |')
    gains = [round(ours - theirs, 1) for ours, theirs in zip(ensemble, dense, strict=True)]
    better = [gain for gain in gains if gain > 0]
    stated = f"more accurate in {len(better)} of {len(gains)} cells, by {min(better)} to {max(better)} points"
    assert stated in " ".join((ROOT / "docs/dense.md").read_text().split())
