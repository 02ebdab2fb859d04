"""The cell cache: one JSON file per finished cell, written atomically, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from oneballot.errors import DataError
from oneballot.runtime.files import write_atomic

from .cells import Experiment, Result, cell_digest, describe


@dataclass(frozen=True)
class CellCache:
    """A folder of finished cells."""

    folder: Path

    def get(self, experiment: Experiment, seed: int) -> Result | None:
        path = self._path(experiment, seed)
        if not path.exists():
            return None
        try:
            cell = json.loads(path.read_bytes())
            return Result(
                dict(cell["values"]), dict(cell["curves"]), tuple(cell["notes"]), measured=str(cell["measured"])
            )
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is not a cached cell ({error!r}); delete it to measure the cell again") from None

    def digests(self) -> set[str]:
        """The digests of all cells in the cache."""
        return {path.stem for path in self.folder.glob("*.json")}

    def put(self, experiment: Experiment, seed: int, result: Result) -> None:
        """Store a result with the cell's settings, so that a person can tell what a file is about."""
        cell = {
            "experiment": describe(experiment),
            "seed": seed,
            "values": dict(result.values),
            "curves": {name: list(curve) for name, curve in result.curves.items()},
            "notes": list(result.notes),
            "measured": result.measured,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(cell, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        write_atomic(self._path(experiment, seed), text.encode())

    def _path(self, experiment: Experiment, seed: int) -> Path:
        return self.folder / f"{cell_digest(experiment, seed)}.json"
