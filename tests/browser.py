"""Pages in a real browser: Debian's chromium, without a window.

Where there is no browser the tests are skipped, unless ONEBALLOT_BROWSER=required says that there must be one.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

A4 = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
PAPER = 688
"""Pixels between the margins of a sheet: 182 mm."""


def find_browser() -> tuple[str, str]:
    """The paths of chromium and of its driver. Skips the test without them, or fails it if they are required."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser and driver and importlib.util.find_spec("selenium"):
        return browser, driver
    text = "selenium, chromium and chromedriver are not installed"
    if os.environ.get("ONEBALLOT_BROWSER") == "required":
        pytest.fail(f"{text}, but ONEBALLOT_BROWSER=required")
    pytest.skip(text)


@contextmanager
def chromium(width: int = 1280) -> Iterator[Any]:
    """A browser whose window has this width. The test is skipped where there is none."""
    browser, driver = find_browser()
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for each in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(each)
    options.add_experimental_option("excludeSwitches", ["hide-scrollbars"])
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as session:
        session.set_page_load_timeout(60)
        resize(session, width)
        yield session


def resize(session: Any, width: int) -> None:
    size = {"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": False}
    session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def assert_fits(session: Any) -> None:
    """The page does not scroll sideways beside a scrollbar that takes space."""
    inner, shown, whole = session.execute_script(
        "const root = document.documentElement; document.body.style.minHeight = '3000px';"
        "return [innerWidth, root.clientWidth, root.scrollWidth]"
    )
    assert shown < inner, "the scrollbar takes space"
    assert whole <= shown, f"{whole} pixels in a window of {shown}"


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
        assert_fits(session)
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
