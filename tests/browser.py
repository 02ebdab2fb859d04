"""Pages in a real browser: Debian's chromium, without a window."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

A4 = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
PAPER = 688
"""Pixels between the margins of a sheet: 182 mm."""


@contextmanager
def chromium(width: int = 1280) -> Iterator[Any]:
    """A browser whose window has this width. The test is skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for each in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as session:
        session.set_page_load_timeout(60)
        resize(session, width)
        yield session


def resize(session: Any, width: int) -> None:
    size = {"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": False}
    session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def requests(session: Any) -> list[str]:
    """The addresses that were requested since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in session.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def check_page(page: Path, width: int, *, figures: int = 0) -> None:
    """The page opens without errors, network or sideways scrolling, has its figures, and prints whole tables."""
    with chromium(width) as session:
        session.get(page.as_uri())
        errors = session.get_log("browser")
        assert not errors, errors
        assert [url for url in requests(session) if not url.startswith(("file:", "data:"))] == []
        assert session.execute_script("return document.documentElement.scrollWidth") <= width
        shown = "return [...document.querySelectorAll('svg.plot')].filter(f => f.getBoundingClientRect().width > 100)"
        assert len(session.execute_script(shown)) == figures
        printed = base64.b64decode(session.execute_cdp_cmd("Page.printToPDF", A4)["data"])
        assert printed.startswith(b"%PDF")
        # On paper nothing scrolls: a table that is wider than the sheet would be cut.
        session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        resize(session, PAPER)
        tables = "[...document.querySelectorAll('table')]"
        edges = session.execute_script(f"return {tables}.map(t => [t.getBoundingClientRect().right, t.innerText])")
        cut = [(right, text[:200]) for right, text in edges if right > PAPER]
        assert not cut, f"wider than the paper: {cut}"
