"""The project's language: no word of the old dialect, Markdown lines that fit, and API names that exist.

Check one folder or page with `pytest tests/docs/test_language.py -k boxes`.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import pkgutil
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import oneballot
import oneballot_lab

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).resolve()
CODE = sorted(p for part in ("src", "tests", "benchmarks", "fuzz") for p in (ROOT / part).rglob("*.py") if p != HERE)
PAGES = sorted(
    p for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", ".github/**/*.md") for p in ROOT.glob(pattern)
)

BANNED = (
    *("told", "whoever", "slope", "slopes", "lesson", "lessons"),
    *("gone on from", "nobody may", "is to be had", "one a value"),
)
ALLOWED = {
    # (files, exact token): the reason
    ("dosfl/*.py", '"lesson"'): "part of the path of a seed: another word draws other numbers",
    ("dosfl/*.py", '"first lesson"'): "likewise",
    ("*.py", "first_lessons"): "a setting in election files",
    **{
        ("src/oneballot/privacy/ledger.py", f'"{text}"'): "a value in the JSON of ledgers; people read another one"
        for text in ("whoever", "whoever has it", "whoever sees the final model", "whoever sees ballot or model")
    },
}
DIALECT = re.compile(r"\b(" + "|".join(BANNED).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
COLUMNS = 100


# (a) Words


def banned_words(text: str) -> list[str]:
    return [" ".join(match[0].lower().split()) for match in DIALECT.finditer(text)]


def words_of(name: str) -> str:
    """An identifier as words: `withLessons_told` is "with lessons told"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ")


def dialect_of_python(source: str, allowed: frozenset[str] = frozenset()) -> Iterator[str]:
    """`line: word` for each banned word in a docstring, comment, literal or identifier."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            text = words_of(token.string)
        elif token.type in (tokenize.OP, tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            continue
        else:  # strings (from Python 3.12 on also the parts of an f-string), comments
            text = re.sub(r"\n\s*#?", " ", token.string)
        if token.string not in allowed:
            yield from (f"{token.start[0]}: {word}" for word in banned_words(text))


def dialect_of_markdown(text: str, allowed: frozenset[str] = frozenset()) -> Iterator[str]:
    for part in allowed:
        text = text.replace(part, "")
    for match in DIALECT.finditer(text):
        yield f"{text.count(chr(10), 0, match.start()) + 1}: {' '.join(match[0].lower().split())}"


def allowed_in(path: Path) -> frozenset[str]:
    return frozenset(text for (where, text) in ALLOWED if path.relative_to(ROOT).match(where))


FOLDERS = defaultdict(list)
for _path in CODE:
    FOLDERS[_path.parent.relative_to(ROOT).as_posix()].append(_path)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


@pytest.mark.parametrize("folder", FOLDERS)
def test_code_is_written_in_plain_english(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{word}"
        for path in FOLDERS[folder]
        for word in dialect_of_python(path.read_text("utf-8"), allowed_in(path))
    ]
    names = [f"{path.relative_to(ROOT)}: its name" for path in FOLDERS[folder] if banned_words(words_of(path.stem))]
    assert not wrong + names, "\n".join(["old dialect:", *wrong, *names])


@each_page
def test_pages_are_written_in_plain_english(page: Path) -> None:
    wrong = list(dialect_of_markdown(page.read_text("utf-8"), allowed_in(page)))
    assert not wrong, "\n".join(["old dialect, by line:", *wrong])


def test_banned_words_are_noticed_in_python() -> None:
    source = '''
"""It was gone on
from an outcome."""

def test_who_is_told_first(slopes):  # whoever
    message = f"the lesson of {slopes}"
    return "is to be had"
'''
    found = [word.partition(": ")[2] for word in dialect_of_python(source)]
    assert sorted(found) == sorted(["gone on from", "told", "slopes", "whoever", "lesson", "slopes", "is to be had"])


def test_words_that_only_contain_a_banned_one_are_fine() -> None:
    assert not banned_words("Stolen, retold, sloped, lessen, untold, tell.")
    assert banned_words("Told you.") == ["told"]


def test_an_allowed_text_passes_and_another_of_the_same_word_does_not() -> None:
    assert not list(dialect_of_python('seed("lesson")', frozenset({'"lesson"'})))
    assert list(dialect_of_python('seed("a lesson")', frozenset({'"lesson"'})))
    assert list(dialect_of_markdown("A `lesson` and a lesson.", frozenset({"`lesson`"}))) == ["1: lesson"]


def test_everything_that_is_allowed_is_still_there() -> None:
    for where, text in ALLOWED:
        files = [path for path in CODE + PAGES if path.relative_to(ROOT).match(where)]
        assert any(text in path.read_text("utf-8") for path in files), f"{text} is in no {where}"


# (b) Columns


def long_lines(text: str) -> list[int]:
    """Lines that should be wrapped: longer than the limit, not in a table or a block of code, and breakable."""
    found, fence = [], ""
    for number, line in enumerate(text.splitlines(), start=1):
        if mark := re.match(r"\s*(```+|~~~+)", line):
            fence = "" if line.strip().startswith(fence) and fence else fence or mark[1]
            continue
        if fence or len(line) <= COLUMNS or line.lstrip(" >").startswith("|") or line.startswith("    "):
            continue
        words = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "_"), line).split()
        markers = [word for word in words if re.fullmatch(r"[-*+>]|\d+\.|\[[^\]]+\]:", word)]
        if len(words) - len(markers) > 1:
            found.append(number)
    return found


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "reproduced" not in page.parts],  # written by `oneballot reproduce`
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_lines_of_pages_wrap_at_100_columns(page: Path) -> None:
    wrong = long_lines(page.read_text("utf-8"))
    assert not wrong, f"lines over {COLUMNS} columns: {wrong}"


def test_long_lines_are_noticed_where_they_could_be_wrapped() -> None:
    prose, url = "word " * 30, f"https://example.org/{'x' * 100}"
    assert long_lines(f"short\n{prose}\n- {prose}\n# {prose}\n{prose} {url}") == [2, 3, 4, 5]
    assert not long_lines(f"| {prose} |\n```sh\n{prose}\n```\n- {url}\n[1]: {url}\n{'x' * 101}\n`{prose}`")
    assert long_lines(f"```sh\n{prose}\n```\n{prose}") == [4]


# (c) Names


@cache
def modules() -> dict[str, list[str]]:
    """The dotted names of our modules by their last part."""
    found = defaultdict(list)
    for package in (oneballot, oneballot_lab):
        inside = pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda name: None)
        for name in (package.__name__, *(module.name for module in inside)):
            found[name.rpartition(".")[2]].append(name)
    return found


@cache
def resolves(dotted: str) -> bool:
    """Whether a dotted name leads from a module to something that exists in it."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return all((thing := _member(thing, name)) is not None for name in parts[length:])
    return False


def _member(thing: Any, name: str) -> Any:
    """An attribute, or a field that has no default; None if there is neither."""
    if isinstance(thing, type):
        fields = {f.name for f in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
        declared = fields.union(*(vars(c).get("__annotations__", {}) for c in thing.__mro__))
        if name in declared:
            return getattr(thing, name, object())
    return getattr(thing, name, None)


ENTRY_POINTS = re.compile(r"oneballot\.(methods|learners|formats|boxes|peers|commands|mechanisms|targets)")
FILES = re.compile(r".*\.(toml|csv|md|py|json|html|npz|ballot|log|org|com)")
OTHER_LIBRARIES = ("nn", "np", "sklearn", "torch", "typer")
MODULES_OF_AUTHORS = ("errors", "interfaces", "plugins", "settings", "testing", "types")
"""Modules that plug-ins import, and whose names no variable in an example has."""


def wrong_names(text: str) -> list[str]:
    """API names in a page that do not exist."""
    dotted = set(re.findall(r"(?<![\w./@-])((?:oneballot|oneballot_lab)(?:\.[A-Za-z_]\w*)+)(?![\w/])", text))
    short = set(re.findall(r"(?<![\w./])ob((?:\.[A-Za-z_]\w*)+)", text))
    wrong = {name for name in dotted if not ENTRY_POINTS.fullmatch(name) and not FILES.fullmatch(name)}
    wrong = {name for name in wrong if not resolves(name)}
    wrong |= {f"ob{name}" for name in short if not resolves(f"oneballot{name}")}
    for module, names in re.findall(r"^\s*from ((?:oneballot|oneballot_lab)[\w.]*) import ([^\n(…#]+)", text, re.M):
        imported = [name.split()[0] for name in names.split(",") if name.strip()]
        wrong |= {f"{module}.{name}" for name in imported if not resolves(f"{module}.{name}")}
    for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
        for name, attributes in re.findall(r"(?<![\w./])([a-z_]\w*)((?:\.[A-Za-z_]\w*)+)", code):
            known = any(resolves(full + attributes) for full in modules().get(name, []))
            if _is_ours(name, attributes) and not known and not FILES.fullmatch(name + attributes):
                wrong.add(name + attributes)
        for name in re.findall(r"(?<![\w./])ctx\.(\w+)", code):
            if not resolves(f"oneballot.interfaces.TallyContext.{name}"):
                wrong.add(f"ctx.{name}")
    return sorted(wrong)


def _is_ours(name: str, attributes: str) -> bool:
    """Whether `name.attributes` in inline code speaks of a module of ours: those that authors import, and any name in
    small letters before a class, unless it is another library's.
    """
    if name in ("ob", "oneballot", "oneballot_lab"):
        return False
    if name in MODULES_OF_AUTHORS:
        return True
    return re.match(r"\.[A-Z][a-z]\w+", attributes) is not None and name not in OTHER_LIBRARIES


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "CHANGELOG.md"],  # it names what is gone
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_api_names_of_pages_exist(page: Path) -> None:
    wrong = wrong_names(page.read_text("utf-8"))
    assert not wrong, f"no such name: {', '.join(wrong)}"


def test_names_that_do_not_exist_are_noticed() -> None:
    text = """`core.Work`, `interfaces.Nothing`, `oneballot.interfaces.Nothing`, `ob.load`, `oneballot_lab.nothing`,
`ob.FedKT.no_such_setting`, `protocols.Learner`, `ctx.deal(…)`

```python
from oneballot.types import Data, Nowhere
```
"""
    assert wrong_names(text) == [
        *("core.Work", "ctx.deal", "interfaces.Nothing", "ob.FedKT.no_such_setting", "ob.load"),
        *("oneballot.interfaces.Nothing", "oneballot.types.Nowhere", "oneballot_lab.nothing", "protocols.Learner"),
    ]


def test_names_that_exist_are_fine() -> None:
    text = """`interfaces.Work`, `types.Fit`, `ob.FedKT`, `ob.Task.rows`, `oneballot.types.Data`, `oneballot.commands`,
`ctx.ask`, `election.toml`, `data.y`, `outcome.save(folder)`, `nn.Module`, oneballot_lab.peers, https://oneballot.example.org"""
    assert wrong_names(text) == []
