"""Finished cells on disk: one JSON file a cell and seed, there whole or not at all, so that a run can be taken up."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from oneballot.errors import DataError
from oneballot.runtime.files import write_atomic

from .cells import Experiment, Found, describe, name_of


@dataclass(frozen=True)
class Kept:
    """A folder of finished cells."""

    folder: Path

    def get(self, experiment: Experiment, seed: int) -> Found | None:
        path = self._path(experiment, seed)
        if not path.exists():
            return None
        try:
            kept = json.loads(path.read_bytes())
            found = kept["found"]
            notes, measured = tuple(found["notes"]), str(kept["measured"])
            return Found(dict(found["values"]), dict(found["curves"]), notes, measured)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} is not a cell that was kept here ({error}); delete it to measure it again"
            ) from None

    def names(self) -> set[str]:
        """Of the cells that are there."""
        return {path.stem for path in self.folder.glob("*.json")}

    def put(self, experiment: Experiment, seed: int, found: Found) -> None:
        """Settings are written beside the figures, so that a person can tell what a file is about."""
        told = {
            "experiment": describe(experiment), "seed": seed,
            "found": {"values": dict(found.values), "curves": {k: list(v) for k, v in found.curves.items()},
                      "notes": list(found.notes)},
            "measured": found.measured,
        }  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(told, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
        write_atomic(self._path(experiment, seed), text.encode())

    def _path(self, experiment: Experiment, seed: int) -> Path:
        return self.folder / f"{name_of(experiment, seed)}.json"
