"""The public names, and what importing the package loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import oneballot as ob


def test_the_public_names_are_pinned() -> None:
    assert ob.__all__ == [
        "DOSFL", "L1", "L2", "Abstain", "Analytic", "Ballot", "Blob", "Data", "Decoder", "Dense", "Election",
        "Ensemble", "FedKD", "FedKT", "Folder", "Kernel", "LightGBM", "Neighbours", "OneBallotError",
        "OneBallotWarning", "Outcome", "Schema", "Sklearn", "Task", "Torch", "XGBoost",
        "appraise", "box_at", "cast", "compare", "export", "learn_encoder", "read_vectors", "simulate", "spread",
        "tally", "withdraw",
    ]  # fmt: skip
    for name in ob.__all__:
        assert getattr(ob, name) is not None


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ob.nonsense


@pytest.mark.parametrize("heavy", ["numpy", "sklearn", "pydantic", "rich", "skops", "xgboost", "matplotlib"])
def test_the_package_and_its_help_import_no_heavy_library(heavy: str) -> None:
    code = (
        "import sys, oneballot\n"
        "from oneballot.cli import app\n"
        "from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        f"sys.exit({heavy!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
