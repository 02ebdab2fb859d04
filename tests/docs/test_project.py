"""The project's own files are consistent: workflow, hooks, issue templates, Makefile and CONTRIBUTING.md."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text("utf-8"), re.M))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def make_targets(text: str) -> set[str]:
    return {target for words in re.findall(r"\bmake((?: +[\w=.-]+)+)", text) for target in words.split()
            if "=" not in target}  # fmt: skip


def commands(workflow: dict[str, Any]) -> Iterator[str]:
    for job in workflow["jobs"].values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


@workflows
def test_a_workflow_has_jobs_with_steps(path: Path) -> None:
    workflow = load(path)
    assert workflow[True]  # YAML 1.1 reads the key `on` as a boolean
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["runs-on"], name
        assert job["steps"], name
        assert all(("uses" in step) != ("run" in step) for step in job["steps"]), name


@workflows
def test_make_targets_extras_and_markers_of_a_workflow_exist(path: Path) -> None:
    text = "\n".join(commands(load(path)))
    assert make_targets(text) <= TARGETS
    assert set(re.findall(r"\.\[(\w+)\]", text)) <= EXTRAS.keys()
    assert set(re.findall(r'-m "not (\w+)"', text)) <= {"slow"}


def test_the_workflow_tests_every_supported_python() -> None:
    tested = load(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">={tested[0]}"


def test_a_make_target_that_does_not_exist_is_noticed() -> None:
    assert make_targets("make lint PYTHON=python && make no-such-target") - TARGETS == {"no-such-target"}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "docs/reliability.md"])
def test_make_targets_of_pages_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    named = "\n".join(re.findall(r"`([^`\n]+)`", text) + re.findall(r"^ {4}(make .*?)(?: +#.*)?$", text, re.M))
    assert make_targets(named) <= TARGETS


def test_issue_templates_have_the_parts_that_github_needs() -> None:
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        template = load(path)
        if path.name != "config.yml":
            assert {"name", "description", "body"} <= template.keys()
            assert all(part["type"] == "markdown" or part["id"] for part in template["body"])


def test_the_ruff_of_the_hooks_is_the_tested_one() -> None:
    revisions = {
        repo["repo"].rpartition("/")[2]: repo.get("rev") for repo in load(ROOT / ".pre-commit-config.yaml")["repos"]
    }
    pinned = re.search(r"^ruff==(.+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.M)
    assert pinned
    assert revisions["ruff-pre-commit"] == f"v{pinned[1]}"
