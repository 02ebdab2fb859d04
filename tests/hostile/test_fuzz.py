"""The targets of `make fuzz`, briefly: honest bytes pass, and altered ones pass or raise Spoiled."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FUZZ = Path(__file__).parents[2] / "fuzz" / "targets.py"


@pytest.fixture(scope="module")
def targets() -> ModuleType:
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("fuzz_targets", FUZZ)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


CHECKS = (
    "analytic",
    "decoder",
    "ensemble",
    "forest",
    "kernel",
    "lightgbm-text",
    "safetensors",
    "skops",
    "torch-safetensors",
    "ubjson",
)
COUNTS = (
    "analytic",
    "analytic-ridge",
    "decoder",
    "dense",
    "dosfl",
    "ensemble",
    "fedkd",
    "fedkt",
    "fedkt-counts",
    "fedkt-models",
    "fedkt-odds",
    "neighbours",
)
NAMES = (
    "unseal:clear",
    "unseal:encrypted",
    *(f"check:{name}" for name in CHECKS),
    *(f"count:{name}" for name in COUNTS),
)
NUMBERS = (b"0", b"-1", b"1e999", b"NaN", b"99999999999999999999", b"\xff" * 8, b"\x00" * 8, b'"', b"[" * 3000)


def test_every_format_and_every_method_is_a_target(targets) -> None:
    from oneballot import plugins

    assert sorted(targets.names()) == sorted(NAMES)
    assert set(plugins.names("formats")) == set(CHECKS)
    assert {name.split("-")[0] for name in COUNTS} == set(plugins.names("methods"))


@st.composite
def alterations(draw):
    """A few places where bytes are overwritten, inserted, deleted or repeated."""
    action = st.sampled_from(("overwrite", "insert", "delete", "repeat"))
    what = st.binary(min_size=1, max_size=8) | st.sampled_from(NUMBERS)
    return draw(st.lists(st.tuples(action, st.floats(0, 1), what), min_size=1, max_size=4))


def alter(data: bytes, alterations) -> bytes:
    for action, place, what in alterations:
        at = int(place * len(data))
        end = at if action == "insert" else at + len(what)
        new = {"delete": b"", "repeat": data[at:end] * 3}.get(action, what)
        data = data[:at] + new + data[end:]
    return data


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_altered_bytes_are_spoiled_or_harmless(name: str, targets) -> None:
    target = targets.target(name)
    assert all(target.accepts(seed) for seed in target.seeds)

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(which=st.integers(0, len(target.seeds) - 1), pick=st.integers(0, 50), changes=alterations())
    def check(which: int, pick: int, changes) -> None:
        begin = time.monotonic()
        target.accepts(targets.altered(target.seeds[which], lambda part: alter(part, changes), pick))
        assert time.monotonic() - begin < 10

    check()
