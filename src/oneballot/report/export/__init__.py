"""Exports of an outcome for use without OneBallot, one module for each target of `oneballot export --to`.

A module has a function `export(outcome, path, *, data) -> Exported`. It raises ExportError, with the reason, for an
outcome that it cannot express. It compares what it has written with the outcome's own predictions on the rows of
`rows.rows_to_check`, and leaves nothing under the final name if they differ. The command line imports this.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ExportError
from .target import check_target

if TYPE_CHECKING:
    from ...server.outcome import Outcome


@dataclass(frozen=True)
class Exporter:
    """A target of `oneballot export`: its module, what it writes, and how the result is named after the outcome."""

    module: str
    what: str
    suffix: str
    suffixes: tuple[str, ...] = ()
    """How a file must end; empty for a folder."""
    marks: tuple[str, ...] = ()
    """Files that a folder of this kind has."""
    distils: bool = False
    """Whether it may distil, and so can accept a model that agrees less with the outcome."""
    trusts: bool = True
    """Whether it can build the networks of parties outside the sandbox."""


@dataclass(frozen=True)
class Exported:
    """What was written, how it was checked, and what the outcome has that the export does not."""

    path: Path
    files: tuple[Path, ...]
    checked: str
    lost: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()
    """Lines about how to use it: what goes in, and code that runs."""

    def describe(self) -> dict[str, Any]:
        """The same as plain values."""
        files = [str(file) for file in self.files]
        lists = {"lost": list(self.lost), "usage": list(self.usage)}
        return {"path": str(self.path), "files": files, "checked": self.checked, **lists}


SKOPS_OR_PICKLE = (".skops", ".joblib", ".pkl", ".pickle")
EXPORTERS: Mapping[str, Exporter] = {
    "onnx": Exporter("onnx", "an ONNX file that takes raw columns; exact, also for an ensemble", ".onnx", (".onnx",)),
    "sklearn": Exporter(
        "sklearn",
        "a scikit-learn Pipeline as a skops file; an ensemble is distilled, which may be refused",
        ".skops",
        SKOPS_OR_PICKLE,
        distils=True,
        trusts=False,
    ),
    "mlflow": Exporter("mlflow", "an MLflow model that `mlflow models serve` serves", ".mlflow", marks=("MLmodel",)),
    "huggingface": Exporter(
        "huggingface",
        "a folder for Hugging Face; nothing is uploaded",
        ".huggingface",
        marks=("config.json", "predictor.py"),
    ),
}


def export(
    outcome: Outcome | str | Path,
    to: str,
    path: str | Path | None = None,
    *,
    data: Any = None,
    least_agreement: float | None = None,
    force: bool = False,
    overwrite: bool = False,
    trust_members: bool = False,
    publish_rows: bool = False,
) -> Exported:
    """Write an outcome, or an outcome folder, in a form that needs no OneBallot to predict.

    to: a name in `EXPORTERS`. path: the file or folder to write; by default beside an outcome folder, with its name.
    data: a file or DataFrame with rows to check the export on, and to distil an ensemble on. least_agreement: the share
    of held-out rows on which a distilled model must agree with the outcome, by default 0.95. force: the same as 0.
    overwrite: replace an existing file, or an existing folder of the same kind. trust_members: convert the networks of
    parties in an ensemble, which is done outside the sandbox. publish_rows: write a model that holds rows of parties as
    they are, with mode 0600. Raises ExportError if the outcome cannot be exported, or may not be written to `path`.
    """
    from ...server.log import record_release
    from ...server.outcome import Outcome
    from ...server.rows_held import model_rows_held, refuse_rows

    if to not in EXPORTERS:
        raise ExportError(f"there is no export to {to!r}; choose {', '.join(EXPORTERS)}")
    exporter = EXPORTERS[to]
    if isinstance(outcome, Outcome):
        if path is None:
            raise ExportError("name the file or folder to write: export(outcome, to, path)")
        where = Path(path)
    else:
        folder = Path(outcome)
        where = folder.resolve().with_name(folder.resolve().name + exporter.suffix) if path is None else Path(path)
    least_agreement = 0.0 if force else least_agreement
    if least_agreement is not None and not exporter.distils:
        raise ExportError(
            f"--least-agreement and --force are about a distilled model, but an export to {to} distils nothing; leave "
            "them out"
        )
    if least_agreement is not None and not 0 <= least_agreement <= 1:
        raise ExportError(f"--least-agreement must be a share from 0 to 1, such as 0.9, not {least_agreement:g}")
    check_target(where, exporter.suffixes, exporter.marks, overwrite=overwrite)
    loaded = outcome if isinstance(outcome, Outcome) else Outcome.load(outcome)
    if trust_members and not exporter.trusts:
        raise ExportError(f"--trust-members does nothing for an export to {to}; leave it out")
    held = 0 if exporter.distils else model_rows_held(loaded).rows  # what is distilled holds no rows of parties
    if held and not publish_rows:
        refuse_rows(loaded, "use --publish-rows; or --to sklearn, which distils one model")
    options: dict[str, Any] = {} if least_agreement is None else {"least_agreement": least_agreement}
    options |= {"trust_members": True} if trust_members else {}
    module = importlib.import_module(f".{exporter.module}", __name__)
    exported: Exported = module.export(loaded, where, data=data, **options)
    for file in exported.files if held else ():
        file.chmod(0o600)
    if not isinstance(outcome, Outcome):
        record_release(Path(outcome), {"to": to, "path": str(where), "election": loaded.election})
    return exported
