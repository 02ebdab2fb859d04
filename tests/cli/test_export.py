"""`oneballot export` as people run it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.report.export import EXPORTERS


def test_the_help_names_every_target_of_an_export() -> None:
    output = CliRunner().invoke(app, ["export", "--help"]).output
    assert all(name in output for name in EXPORTERS)
    assert "Example: oneballot export" in output


def test_an_unknown_target_is_refused_with_the_known_ones(tmp_path: object) -> None:
    result = CliRunner().invoke(app, ["export", str(tmp_path), "--to", "word"])
    assert result.exit_code == 2
    assert "onnx" in result.output
    with pytest.raises(ob.OneBallotError, match="onnx"):
        ob.export(str(tmp_path), "word")
