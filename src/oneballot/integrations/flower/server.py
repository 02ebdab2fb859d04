"""The ServerApp: collects ballots into a box and tallies them as `oneballot tally` does."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ...ballot.encryption import find_server_key
from ...boxes.folder import Folder
from ...election.election import Election
from ...errors import ElectionError, OneBallotError, OneBallotWarning
from ...runtime.files import check_writable
from ...server.files import tally_files
from ...server.outcome import Outcome
from .collecting import Collecting, Pace
from .party import simulated_parties

log = logging.getLogger("flwr.oneballot")

app = ServerApp()


@dataclass(frozen=True)
class Settings:
    """The run's configuration: `[tool.flwr.app.config]` of the app, or `flwr run --run-config`."""

    election: Path
    box: Path
    outcome: Path
    again: bool
    over_budget: bool
    key: Path | None
    simulated: Path | None
    pace: Pace

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Settings:
        if missing := [name for name in ("election", "box", "outcome") if not run.get(name)]:
            raise ElectionError(
                f"the run's configuration lacks {', '.join(missing)}; `oneballot flower new` writes an app that has it"
            )
        pace = {"poll": "poll-seconds", "ask_again": "ask-again-seconds", "calibrate": "settle-seconds"}
        return cls(
            Path(str(run["election"])), Path(str(run["box"])), Path(str(run["outcome"])), bool(run.get("again")),
            bool(run.get("over-budget")), Path(str(run["key"])) if run.get("key") else None,
            Path(str(run["simulated"])) if run.get("simulated") else None,
            Pace(**{name: float(run[key]) for name, key in pace.items() if key in run}),
        )  # fmt: skip


@app.main()
def main(grid: Grid, context: Context) -> None:
    hold(grid, Settings.of(context.run_config))


@dataclass
class Copy:
    """The server's copy of the election, read again when the file changes: a deadline may be moved, a party join."""

    path: Path

    def __post_init__(self) -> None:
        self.seen = self._stamp()
        self.election = Election.read(self.path)

    def current(self) -> Election:
        if (stamp := self._stamp()) != self.seen:
            self.seen = stamp
            try:
                changed = Election.read(self.path)
                if changed.digest != self.election.digest:
                    raise ElectionError(f"it is another election now, {changed.digest}")
                self.election = changed
                log.info("%s has changed: quorum %s, deadline %s, %d on the roster", self.path, changed.quorum,
                         changed.deadline, len(changed.roster))  # fmt: skip
            except OneBallotError as error:
                log.error("%s has changed and is not gone by: %s", self.path, error)
        return self.election

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:  # an editor is replacing it
            return None
        return found.st_mtime_ns, found.st_size


def hold(grid: Grid, settings: Settings) -> Outcome:
    """Collect, then tally. Ballots stay in the box whatever happens: a run that was stopped is simply started again."""
    copy = Copy(settings.election)
    key = find_server_key(copy.election, settings.key, settings.election.parent)
    simulated = frozenset(simulated_parties(settings.simulated)) if settings.simulated else frozenset()
    for folder in (settings.box, settings.outcome):
        check_writable(folder)
    settings.box.mkdir(parents=True, exist_ok=True)
    box = Folder(settings.box)
    log.info("%s, %s: ballots go to %s", copy.election.name, copy.election.digest, settings.box)
    Collecting(grid, copy.current, box, key, simulated, settings.pace).run()
    log.info("tallying")
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", OneBallotWarning)
        outcome = tally_files(
            copy.current(), box, settings.outcome, beside=settings.election.parent, again=settings.again,
            over_budget=settings.over_budget, early=True, key=key,
        )  # fmt: skip
    for note in notes:
        if issubclass(note.category, OneBallotWarning):
            log.warning("%s", note.message)
    told = outcome.summary()
    for name, reason in outcome.spoiled.items():
        log.warning("%s is spoiled: %s", name, reason)
    log.info("the outcome is in %s; counted: %s", settings.outcome, ", ".join(told["counted"]))
    for line in outcome.ledger.describe(whole=True):
        log.info("privacy: %s", line)
    return outcome
