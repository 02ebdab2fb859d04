"""Pages in a real browser: sorting, the focus, and the banner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oneballot.report import page

from ..browser import assert_fits, chromium, resize

pytestmark = pytest.mark.slow

ROWS = [
    ["site-10", "about 100", "9.5 kB", "1.0 %"],
    ["site-9", "about 1,110", "1.2 MB", "–"],
    ["site-1", "< 10", "800 B", "12.0 %"],
    ["site-2", "about 40", "90.0 kB", "2.5 %"],
    ["all rows", "1,254", "2.0 MB", "4.0 %"],
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page with a banner, a table that is sorted, one that is wide, and enough text to scroll."""
    wide = page.Table("Wide", [f"column number {i}" for i in range(14)], [["cell"] * 14] * 2)
    sites = page.Table("Sites", ["site", "rows", "bytes", "share"], ROWS, emphasis=[4])
    blocks: list[page.Block] = [
        "A table:",
        sites,
        wide,
        "A command:",
        page.Commands(["oneballot check"]),
        *["A sentence."] * 80,
    ]
    text = page.render_page("A title of a page that is long", [page.Section("S", blocks)], banner="DO NOT PUBLISH.")
    path = tmp_path_factory.mktemp("page") / "page.html"
    page.save(path, text)
    with chromium() as session:
        session.get(path.as_uri())
        yield session


def order(session: Any, column: int, clicks: int = 1) -> list[str]:
    table = session.find_element("css selector", "table[data-sortable]")
    for _ in range(clicks):
        table.find_elements("css selector", "thead button")[column].click()
    return [cell.text for cell in table.find_elements("css selector", "tbody th")]


def test_tables_are_sorted_by_number_and_totals_stay_where_they_are(browser: Any) -> None:
    assert order(browser, 1) == ["site-1", "site-2", "site-10", "site-9", "all rows"], "about 40 is below about 100"
    assert order(browser, 1) == ["site-9", "site-10", "site-2", "site-1", "all rows"]
    assert order(browser, 2) == ["site-1", "site-10", "site-2", "site-9", "all rows"]
    assert order(browser, 3) == ["site-10", "site-2", "site-1", "site-9", "all rows"], "what is not known comes last"
    assert order(browser, 3) == ["site-1", "site-2", "site-10", "site-9", "all rows"]
    assert order(browser, 0) == ["site-1", "site-2", "site-9", "site-10", "all rows"]


def test_a_banner_reaches_both_edges_and_the_page_does_not_scroll_sideways(browser: Any) -> None:
    for width in (1280, 390):
        resize(browser, width)
        assert_fits(browser)


def test_only_boxes_that_scroll_are_tab_stops(browser: Any) -> None:
    stops = "return [...document.querySelectorAll('[tabindex=\"0\"]')].map(box => box.getAttribute('aria-label'))"
    resize(browser, 1280)
    browser.execute_script("dispatchEvent(new Event('resize'))")
    assert browser.execute_script(stops) == ["Wide"]


def test_on_paper_a_sentence_stays_with_the_table_or_the_command_below_it(browser: Any) -> None:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    style = "return [...document.querySelectorAll('main section > p')].map(p => getComputedStyle(p).breakAfter)"
    assert browser.execute_script(style)[:3] == ["avoid", "avoid", "auto"]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_browser_that_is_required_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    from ..browser import find_browser

    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("ONEBALLOT_BROWSER", "no")
    with pytest.raises(pytest.skip.Exception, match="not installed"):
        find_browser()
    monkeypatch.setenv("ONEBALLOT_BROWSER", "required")
    with pytest.raises(pytest.fail.Exception, match="ONEBALLOT_BROWSER=required"):
        find_browser()
