"""The ServerApp: collects ballots into a box and tallies them as `oneballot tally` does."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ...ballot.encryption import check_server_key, find_server_key
from ...boxes.folder import Folder
from ...election.election import Election
from ...election.signing import read_author
from ...errors import ElectionError, OneBallotError
from ...runtime.files import check_writable
from ...server.files import tally_files
from ...server.outcome import Outcome
from .collect import Collector, Intervals
from .config import refuse_two_tallies
from .party import log_warnings, simulated_parties

log = logging.getLogger("flwr.oneballot")

app = ServerApp()


@dataclass(frozen=True)
class RunConfig:
    """The run's configuration: `[tool.flwr.app.config]` of the app, or `flwr run --run-config`."""

    election: Path
    box: Path
    outcome: Path
    key: Path | None
    simulated: Path | None
    again: bool
    over_budget: bool
    intervals: Intervals

    @classmethod
    def read(cls, run: Mapping[str, Any]) -> RunConfig:
        if missing := [name for name in ("election", "box", "outcome") if not run.get(name)]:
            raise ElectionError(
                f"the run's configuration lacks {', '.join(missing)}; write the app with `oneballot flower new`"
            )
        names = ("election", "box", "outcome", "key", "simulated")
        paths: dict[str, Any] = {name: Path(str(run[name])) if run.get(name) else None for name in names}
        keys = {"poll": "poll-seconds", "ask_again": "ask-again-seconds", "settle": "settle-seconds"}
        return cls(
            **paths,
            again=bool(run.get("again")),
            over_budget=bool(run.get("over-budget")),
            intervals=Intervals(**{name: float(run[key]) for name, key in keys.items() if key in run}),
        )


@app.main()
def main(grid: Grid, context: Context) -> None:
    run_election(grid, RunConfig.read(context.run_config))


class ElectionFile:
    """The server's copy of the election, read again when the file changes: a deadline may move, a party may join."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = self._read_stamp()
        self.election = Election.read(path)
        read_author(path, self.election)

    def current(self) -> Election:
        if (stamp := self._read_stamp()) == self._stamp:
            return self.election
        self._stamp = stamp
        try:
            changed = Election.read(self.path)
            read_author(self.path, changed)
            if changed.digest != self.election.digest:
                raise ElectionError(f"it is another election now, {changed.digest}")
        except OneBallotError as error:
            log.error("%s has changed; the change is ignored: %s", self.path, error)
            return self.election
        self.election = changed
        log.info(
            "%s has changed: quorum %s, deadline %s, %d parties on the roster",
            self.path,
            changed.quorum,
            changed.deadline,
            len(changed.roster),
        )
        return changed

    def _read_stamp(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except OSError:  # an editor is replacing it
            return None
        return status.st_mtime_ns, status.st_size


def run_election(grid: Grid, config: RunConfig) -> Outcome:
    """Collect, then tally. Ballots stay in the box, so a run that was stopped can simply be started again."""
    file = ElectionFile(config.election)
    refuse_two_tallies(file.election)
    key = find_server_key(file.election, config.key, config.election.parent)
    check_server_key(file.election, key)  # before any party is asked
    simulated = frozenset(simulated_parties(config.simulated)) if config.simulated else frozenset()
    for folder in (config.box, config.outcome):
        check_writable(folder)
    config.box.mkdir(parents=True, exist_ok=True)
    box = Folder(config.box)
    log.info("%s, %s: ballots go to %s", file.election.name, file.election.digest, config.box)
    Collector(grid, file.current, box, key, simulated, config.intervals).run()
    log.info("tallying")
    with log_warnings():
        outcome = tally_files(
            file.current(),
            box,
            config.outcome,
            beside=config.election.parent,
            again=config.again,
            over_budget=config.over_budget,
            early=True,
            key=key,
        )
    for name, reason in outcome.spoiled.items():
        log.warning("%s is spoiled: %s", name, reason)
    log.info("the outcome is in %s; counted: %s", config.outcome, ", ".join(outcome.summary()["counted"]))
    for line in outcome.ledger.describe(whole=True):
        log.info("privacy: %s", line)
    return outcome
