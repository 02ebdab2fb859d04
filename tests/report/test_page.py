"""Pages: blocks become escaped HTML that loads nothing, and figures become inline SVG."""

from __future__ import annotations

import builtins
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from oneballot.errors import MissingExtra, OneBallotError
from oneballot.report import page
from oneballot.report.svg import draw

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)> & "quoted" $\\frac$'


def a_page() -> str:
    table = page.Table("Parties", ["party", "rows", "note"], [["a", "1,200", ""], [HOSTILE, "30 %", HOSTILE]])
    blocks = [
        HOSTILE,
        table,
        page.Facts({HOSTILE: HOSTILE, "lines": ["one", HOSTILE]}),
        page.Notice(HOSTILE, "bad", HOSTILE),
        page.Commands([HOSTILE]),
        page.Bullets([HOSTILE]),
        page.Details(HOSTILE, [HOSTILE, page.Table(HOSTILE, [HOSTILE], [[HOSTILE]], note=HOSTILE)]),
        page.Figure(a_figure(), HOSTILE),
        page.Figures([page.Figure(a_figure("two"), HOSTILE)]),
    ]
    sections = [page.Section(HOSTILE, blocks), page.Section("B", ["b"], [page.Section("C", ["c"])]), page.Section("D")]
    return page.render_page(HOSTILE, sections, lead=HOSTILE, notices=[page.Notice(HOSTILE)])


def a_figure(title: str = "one") -> str:
    def plot(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], label=HOSTILE)
        axes.set_xlabel(HOSTILE)
        axes.legend()

    return draw(title + HOSTILE, HOSTILE, 4, 3, plot)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "link", "br", "img", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another tag"


def test_every_value_is_escaped() -> None:
    tags = Tags(a_page())
    assert tags.tags.count("script") == 1, "the page's own"
    assert "img" not in tags.tags
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert not tags.open, "all tags are closed"


def test_a_page_names_no_address_that_could_be_loaded() -> None:
    text = a_page()
    for name, value in Tags(text).attributes:
        if name in ("src", "href", "xlink:href", "action", "data") and value:
            assert value.startswith(("#", "data:")), (name, value)
    assert not re.search(r"url\((?!#)|@import", text)
    assert "default-src 'none'" in text


def test_only_the_scripts_own_digest_is_permitted() -> None:
    import base64
    import hashlib

    text = a_page()
    script = text[text.rindex("<script>") + 8 : text.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_ids_are_unique_and_labels_refer_to_them() -> None:
    attributes = Tags(a_page()).attributes
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = [each for name, value in attributes if name == "aria-labelledby" and value for each in value.split()]
    assert named
    assert set(named) <= set(ids)


def test_equal_ids_of_sections_are_numbered() -> None:
    below = [page.Section("By a b"), page.Section("By a-b"), page.Section("Privacy")]
    sections = [page.Section("Quality", [], below), page.Section("Privacy"), page.Section("Privacy title")]
    attributes = Tags(page.render_page("t", [*sections, page.Section("Main"), page.Section("Privacy 2")])).attributes
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {"by-a-b", "by-a-b-2", "privacy", "privacy-2"} <= set(ids)
    links = [value for name, value in attributes if name == "href" and value and value.startswith("#")]
    assert {link[1:] for link in links} <= set(ids)


def test_a_page_replaces_only_a_page(tmp_path: Path) -> None:
    def refused(path: Path, why: str, *inputs: Path) -> None:
        with pytest.raises(OneBallotError, match=why):
            page.check_destination(path, inputs)

    mine = tmp_path / "mine.html"
    page.check_destination(mine, (tmp_path, None))
    mine.write_text("<!doctype html><p>my own notes</p>")
    refused(mine, "is not a page that OneBallot wrote")
    page.save(mine, a_page())
    page.check_destination(mine)
    refused(mine, "also read by this command", tmp_path / "." / "mine.html")
    refused(tmp_path / "report.csv", r"must end in \.html")
    refused(tmp_path / "report", r"must end in \.html")
    refused(tmp_path / "none" / "report.html", "there is no folder")
    (tmp_path / "folder.html").mkdir()
    refused(tmp_path / "folder.html", "is a folder")


def test_tables_have_headers_and_numbers_are_aligned() -> None:
    table = page.Table("T", ["a", "b", "c"], [["x", "1,200", "y"], ["z", "–", "3 kB"]], emphasis=[1])
    text = page.render_blocks([table])
    assert text.count('scope="col"') == 3
    assert text.count('scope="row"') == 2
    assert table.numeric == [False, True, False]
    assert '<tr class="strong">' in text
    assert "<caption>T</caption>" in text
    assert "No ballots." in page.render_blocks([page.Table("T", ["a"], [], empty="No ballots.")])


def test_only_an_svg_element_is_a_figure() -> None:
    assert "<script" not in page.render_blocks([page.Figure("<script>alert(1)</script>", "no figure")])
    assert "<svg" in page.render_blocks([page.Figure(a_figure(), "a figure")])


def test_text_in_figures_takes_the_colour_of_the_page() -> None:
    """Without a rule it is black, which cannot be read on a dark page."""
    assert re.search(r"\.plot text \{[^}]*fill: currentColor", a_page())


def test_a_misspelled_name_in_a_template_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        page.render("page.html", title="t", lead="", notices=(), banner="")


def test_a_missing_library_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.startswith("jinja2"):
            raise ImportError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    page._environment.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install 'oneballot\[report\]'"):
        page.render_page("t", [])


def test_a_page_with_a_name_that_is_not_utf8_is_written(tmp_path: Path) -> None:
    page.save(tmp_path / "a.html", "<p>caf\udce9 \u00e9</p>")
    assert (tmp_path / "a.html").read_text("utf-8") == "<p>caf? \u00e9</p>"
