"""Makes docs/images/report.png from the report of `oneballot demo`, and report.json, the outline of what it shows.

python release/picture.py [demo/report.html]

The test of the README compares the outline with a new demo's report: if they differ, the picture is out of date. The
outline has no numbers, and no pixels are compared, since both differ between machines.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"
OUTLINE = PICTURE.with_suffix(".json")
FIRST, FIGURES = "By class", 2
"""The picture shows the table with this caption and so many figures after it."""
WIDTH, MARGIN = 1150, 20


def shown_part(page: str) -> str:
    """The HTML that the picture shows. Raises ValueError if the page has no such part."""
    begin = page.find(f"<caption>{FIRST}</caption>")
    ends = [found.end() for found in re.finditer("</figure>", page) if found.start() > begin]
    if begin < 0 or len(ends) < FIGURES:
        raise ValueError(f"the report has no table {FIRST!r} with {FIGURES} figures after it")
    return page[begin : ends[FIGURES - 1]]


def outline(page: str) -> list[str]:
    """The headings, columns and words of this part, with # for every number."""
    tags = r"<(caption|th|figcaption|title|text|button|h\d|p|li)\b[^>]*>([^<]*)"
    words = [(tag, " ".join(unescape(text).split())) for tag, text in re.findall(tags, shown_part(page))]
    masked = [f"{tag}: {re.sub(r'[-−]?[0-9][0-9.,]*', '#', text)}" for tag, text in words if text]
    return list(dict.fromkeys(masked))


def take(page: Path) -> bytes:
    """A PNG of this part of a page."""
    from PIL import Image

    sys.path.insert(0, str(ROOT))
    from tests.browser import chromium

    where = f"""
        const captions = [...document.querySelectorAll('caption')];
        const table = captions.find(c => c.innerText.trim() == '{FIRST}').closest('table');
        const after = [...document.querySelectorAll('figure')].filter(
            f => table.compareDocumentPosition(f) & Node.DOCUMENT_POSITION_FOLLOWING).slice(0, {FIGURES});
        const boxes = [table, ...after].map(e => e.getBoundingClientRect());
        return [Math.min(...boxes.map(b => b.left)), boxes[0].top + window.scrollY,
                Math.max(...boxes.map(b => b.right)), Math.max(...boxes.map(b => b.bottom)) + window.scrollY];"""
    with chromium(WIDTH) as session:
        session.get(page.resolve().as_uri())
        left, top, right, bottom = session.execute_script(where)
        clip = {"x": left - MARGIN, "y": top - MARGIN, "width": right - left + 2 * MARGIN, "scale": 1}
        clip["height"] = bottom - top + 2 * MARGIN
        taken = session.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    small = io.BytesIO()
    Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB").save(small, "png", optimize=True)
    return small.getvalue()


def main(given: str | None = None) -> None:
    with TemporaryDirectory() as folder:
        page = Path(given) if given else Path(folder, "demo", "report.html")
        if given is None:
            subprocess.run([sys.executable, "-m", "oneballot", "demo", "--out", "demo"], cwd=folder, check=True)
        picture = take(page)
        shown = {"sha256": hashlib.sha256(picture).hexdigest(), "shows": outline(page.read_text("utf-8"))}
    PICTURE.write_bytes(picture)
    OUTLINE.write_text(json.dumps(shown, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{PICTURE.relative_to(ROOT)}, {len(picture):,} bytes, and its outline in {OUTLINE.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
