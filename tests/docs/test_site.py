"""The documentation site builds without a warning, its links resolve, and it works in a browser without a network."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import click
import pytest

import oneballot as ob

from ..browser import chromium, requests

ROOT = Path(__file__).parents[2]
LOCAL = ("file", "data", "blob", "chrome", "about", "devtools", "chrome-untrusted")


def hook(name: str) -> ModuleType:
    """A hook of the site as a module."""
    pytest.importorskip("mkdocs")
    spec = importlib.util.spec_from_file_location(f"site_hook_{name}", ROOT / f"docs/hooks/{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Reference


def test_the_reference_of_python_has_every_public_name() -> None:
    text = (ROOT / "docs/reference/python.md").read_text("utf-8")
    assert sorted(re.findall(r"^::: oneballot\.([A-Za-z]\w*)$", text, re.M)) == sorted([*ob.__all__, "errors"])


def test_the_reference_of_commands_has_every_command_with_its_options_and_example() -> None:
    import typer.main

    from oneballot.cli import app

    commands = hook("commands")
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", commands.reference(), re.M))
    found = dict(commands.leaves(typer.main.get_command(app), ("oneballot",)))
    assert list(sections) == [" ".join(words) for words in found]
    assert ("oneballot", "keys", "new") in found
    for words, command in found.items():
        section = sections[" ".join(words)]
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert all(f"`{option}`" in section for option in parameter.opts), parameter.opts
                assert not parameter.help or parameter.help.split()[0] in section
        assert f"\n{command.epilog.removeprefix('Example: ').splitlines()[0]}" in section


def test_a_cell_of_a_table_holds_any_help() -> None:
    assert hook("commands").cell("a|b\n  <file> *") == "a\\|b &lt;file> \\*"


# Links


def test_links_to_files_outside_docs_lead_to_pages_of_the_site() -> None:
    links = hook("links")
    text = "[s](../SECURITY.md#keys) [x](../src/oneballot/types.py) [r](../README.md) [k](keys.md) <https://a.b>"
    expected = "[s](repository/SECURITY.md#keys) [x](repository/src/oneballot/types.py.md) [r](index.md) [k](keys.md)"
    used: list[str] = []
    assert links.rewrite_links(text, "docs/boxes.md", used.append) == f"{expected} <https://a.b>"
    assert used == ["SECURITY.md", "src/oneballot/types.py", "README.md"]
    assert links.rewrite_links("[k](docs/keys.md#a)", "CHANGELOG.md") == "[k](../keys.md#a)"
    code = "```md\n[s](../SECURITY.md)\n```"
    assert links.rewrite_links(code, "docs/boxes.md") == code


# The built site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    out = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


class Page(HTMLParser):
    """The links, anchors and loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors = {"", "__top"}
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("link", "script", "img", "iframe", "source", "object"):
            self.loaded += [given[name] for name in ("href", "src", "data") if given.get(name)]


@pytest.mark.slow
def test_every_link_of_the_site_leads_to_a_page_and_an_anchor(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 40
    broken = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (target in pages and unquote(parts.fragment) not in pages[target].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken, "\n".join(broken)


@pytest.mark.slow
def test_no_page_loads_a_file_from_another_host(site: Path) -> None:
    loaded = {
        f"{path.relative_to(site)}: {file}"
        for path in site.rglob("*.html")
        for file in Page(path).loaded
        if urlsplit(file).scheme not in ("", "data") or file.startswith("//")
    }
    assert not loaded


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as session:
        yield session


def wait_for(condition: Any, seconds: float = 20) -> Any:
    until = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < until, "the page did not do it in time"
        time.sleep(0.1)
    return answer


def search_finds(browser: Any, words: str, page: str) -> bool:
    """Type words into the search field, and wait until the results link to a page."""
    if not browser.execute_script("return document.getElementById('__search').checked"):
        browser.execute_script("document.getElementById('__search').click()")
    field = browser.find_element("css selector", "[data-md-component=search-query]")
    wait_for(field.is_displayed)
    field.clear()
    field.send_keys(words)
    links = "return [...document.querySelectorAll('a.md-search-result__link')].map(link => link.href)"
    return bool(wait_for(lambda: any(page in link for link in browser.execute_script(links))))


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("from_disk", [True, False], ids=["from disk", "from a server"])
def test_search_finds_pages_without_a_network(browser: Any, site: Path, served: str, from_disk: bool) -> None:
    base = site.as_uri() if from_disk else served
    browser.get(f"{base}/index.html")
    requests(browser)
    assert search_finds(browser, "revoked key", "keys.html")
    assert search_finds(browser, "oneballot predict", "reference/cli.html")
    assert not [url for url in requests(browser) if not url.startswith((f"{base}/", *LOCAL))]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_open_from_disk_without_errors_external_requests_or_sideways_scrolling(
    browser: Any, site: Path, width: int
) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    requests(browser), browser.get_log("browser")
    wide = []
    for page in sorted(site.rglob("*.html")):
        if page.name != "404.html" and "repository/src" not in page.as_posix():
            browser.get(page.as_uri())
            if browser.execute_script("return document.documentElement.scrollWidth") > width:
                wide.append(page.relative_to(site).as_posix())
    assert not [url for url in requests(browser) if urlsplit(url).scheme not in LOCAL]
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert not wide, f"wider than {width} px: {wide}"
