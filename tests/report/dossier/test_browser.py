"""The dossier in a real browser: no errors, no network, no sideways scrolling, no table cut on paper."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.party.context import PartyContext
from oneballot.party.release import Release, sealed_release
from oneballot.party.small_counts import CountRule
from oneballot.report.dossier.facts import of_release
from oneballot.report.dossier.write import write_dossier

pytestmark = pytest.mark.slow
A4 = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ballot of 40 classes with long names, so that its tables need more than one printed page."""
    X = np.random.default_rng(0).random((400, 4), dtype=np.float32)
    classes = [f"<b>class {i} with a long name" for i in range(40)]
    learner = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 3})
    election = ob.Election(classes=classes, public=X, method=ob.FedKD(temperature=0.0), learner=learner)
    data = election.data(X, [classes[i % 40] for i in range(400)])
    release = Release(PartyContext(election, "<u>clinic"), "planned", CountRule(small="allow"))
    ballot = ob.cast(election, data, party="<u>clinic")
    path = tmp_path_factory.mktemp("pages") / "dossier.html"
    write_dossier(path, of_release(sealed_release(release, ballot, data), path.name))
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_errors_and_prints_whole_tables(page: Path, width: int) -> None:
    webdriver = pytest.importorskip("selenium.webdriver")
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for each in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},1200"):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        size = {"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": False}
        session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        session.get(page.as_uri())
        assert session.get_log("browser") == []
        assert '"url":"http' not in str([entry["message"] for entry in session.get_log("performance")])
        assert session.execute_script("return document.documentElement.scrollWidth") <= width
        assert session.execute_script("return document.querySelectorAll('b, u').length") == 0
        printed = base64.b64decode(session.execute_cdp_cmd("Page.printToPDF", A4)["data"])
        assert printed.startswith(b"%PDF")
        # On paper nothing scrolls: a table that is wider than the sheet would be cut.
        session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size | {"width": 688})  # 182 mm
        tables = "return [...document.querySelectorAll('table')].map(t => t.getBoundingClientRect().right)"
        assert max(session.execute_script(tables)) <= 688
    finally:
        session.quit()
