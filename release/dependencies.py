"""The dependencies of a release: a software bill of materials (CycloneDX), and the licence of each.

    python release/dependencies.py            # writes LICENSES.md

They are those of the extra `all`, as they are installed here, with everything that they need in turn.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LICENSES = ROOT / "LICENSES.md"
INSTEAD = {"xgboost": "xgboost-cpu"}
"""Packages of the same code that the development environment has instead."""
STATED: Mapping[str, str] = {"huey": "MIT", "skops": "MIT"}
"""Licences of packages whose metadata do not name them, read from their licence files."""


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def find_dependencies(extra: str = "all") -> dict[str, tuple[Distribution, list[str]]]:
    """By name, each dependency and the names of what it needs, in alphabetical order."""
    found: dict[str, tuple[Distribution, list[str]]] = {}
    queue = list(own_dependencies(extra))
    while queue:
        wanted = queue.pop()
        name = canonicalize_name(wanted.name)
        installed = _find(name)
        if installed is None:
            continue
        needs = [each for one in ("", *wanted.extras) for each in _needs(installed, one)]
        known = found.get(name, (installed, []))[1]
        found[name] = (installed, sorted({*known, *(canonicalize_name(need.name) for need in needs)}))
        queue += [need for need in needs if need.extras or canonicalize_name(need.name) not in found]
    return {name: (each, [n for n in needs if n in found]) for name, (each, needs) in sorted(found.items())}


def own_dependencies(extra: str) -> Iterator[Requirement]:
    """The requirements of OneBallot with this extra, which may name other extras."""
    about = project()
    groups, seen = [extra], {extra}
    yield from map(Requirement, about["dependencies"])
    while groups:
        for text in about["optional-dependencies"][groups.pop()]:
            wanted = Requirement(text)
            if wanted.name == about["name"]:
                groups += wanted.extras - seen
                seen |= wanted.extras
            else:
                yield wanted


def _needs(installed: Distribution, extra: str) -> list[Requirement]:
    wanted = [Requirement(text) for text in installed.requires or ()]
    return [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": extra})]


def _find(name: str) -> Distribution | None:
    for each in (name, INSTEAD.get(name)):
        try:
            return distribution(each) if each else None
        except PackageNotFoundError:
            continue
    return None


def license_of(installed: Distribution) -> str:
    """The licence by the package's metadata; empty if it is unknown."""
    about = installed.metadata
    name = canonicalize_name(about["Name"])
    if name in STATED:
        return STATED[name]
    if expression := about.get("License-Expression"):
        return str(expression)
    classes = [text.rpartition(" :: ")[2] for text in about.get_all("Classifier") or () if text.startswith("License")]
    if classes := [text for text in classes if text != "OSI Approved"]:
        return ", ".join(sorted(classes))
    text = str(about.get("License") or "").strip()
    return text if 0 < len(text) <= 60 and text.upper() != "UNKNOWN" else ""


def licenses_page() -> str:
    lines = ["# Licences of dependencies", "", "OneBallot is licensed under Apache-2.0 ([LICENSE](LICENSE))."]
    lines += ["`make licenses` writes this list: every dependency of `oneballot[all]`, by its metadata.", ""]
    lines += ["| package | licence |", "|---|---|"]
    lines += [f"| {name} | {license_of(each)} |" for name, (each, _) in find_dependencies().items()]
    return "\n".join(lines) + "\n"


def bill_of_materials(version: str, epoch: int) -> str:
    """The dependencies as CycloneDX 1.6 JSON. The hashes of their files are in requirements.lock."""
    found = find_dependencies()
    own = {"type": "library", "bom-ref": "oneballot", "name": "oneballot", "version": version}
    own |= {"purl": f"pkg:pypi/oneballot@{version}", "licenses": [{"license": {"id": "Apache-2.0"}}]}
    components = [
        {
            "type": "library",
            "bom-ref": name,
            "name": name,
            "version": each.version,
            "purl": f"pkg:pypi/{name}@{each.version.partition('+')[0]}",
            "licenses": [_license(each)],
        }
        for name, (each, _) in found.items()
    ]
    direct = sorted({canonicalize_name(each.name) for each in own_dependencies("all")} & found.keys())
    links = [{"ref": "oneballot", "dependsOn": direct}]
    links += [{"ref": name, "dependsOn": needs} for name, (_, needs) in found.items()]
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(), "component": own},
        "components": components,
        "dependencies": links,
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill, sort_keys=True))
    return json.dumps({**bill, "serialNumber": f"urn:uuid:{serial}"}, indent=1) + "\n"


def _license(installed: Distribution) -> dict[str, Any]:
    text = license_of(installed)
    expression = installed.metadata.get("License-Expression")
    return {"expression": expression} if expression == text and text else {"license": {"name": text or "unknown"}}


def locked() -> dict[str, tuple[str, list[str]]]:
    """By name, the version and hashes in requirements.lock."""
    text = (ROOT / "requirements.lock").read_text("utf-8").replace("\\\n", " ")
    found = {}
    for line in filter(None, text.splitlines()):
        if match := re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)", line):
            found[canonicalize_name(match[1])] = match[2], re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
    return found


if __name__ == "__main__":
    LICENSES.write_text(licenses_page(), "utf-8")
    print(f"wrote {LICENSES.name}")
