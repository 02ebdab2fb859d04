"""Export to ONNX: one graph from raw columns to class probabilities and the label, checked with onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ....errors import ExportError
from ....server.outcome import Outcome
from .. import Exported


def export(outcome: Outcome, path: Path, *, data: Any = None) -> Exported:
    """Write the outcome's model as an ONNX file."""
    raise ExportError(f"models of the format {outcome.model.dump().format} cannot be exported to ONNX yet")
