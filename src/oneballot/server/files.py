"""Tally a box into an outcome folder; at L1 also record the tally in a file."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..election.election import Election
from ..election.names import check_party_name
from ..election.outcome_files import read_index
from ..errors import ElectionError, OneBallotError, OneBallotWarning
from ..interfaces import Box
from ..privacy.charges import Charges
from . import log
from .outcome import Outcome, exists
from .tally import Options, tally_box

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


def tally_files(
    election: Election,
    box: Box,
    out: Path,
    *,
    beside: Path,
    without: Iterable[str] = (),
    again: bool = False,
    over_budget: bool = False,
    data_dependent: bool = False,
    early: bool = False,
    key: X25519PrivateKey | None = None,
    readmit: Iterable[str] = (),
) -> Outcome:
    """Tally the ballots in a box and save the outcome in a folder. Resumes from an existing outcome there.

    At L1 every tally draws noise and costs again, so an existing outcome is kept unless `again` is set. These tallies
    are recorded in a file next to the election. A party that has withdrawn from the existing outcome stays out, unless
    `readmit` names it.
    """
    left_out, again_in = tuple(without), tuple(readmit)
    withdrawn = read_withdrawn(out)
    log.prepare(out)
    previous = _load_previous(out, election.digest) if exists(out) else None
    record = beside / "tallies.json" if election.level == "L1" else None
    draws = 0 if record is None else Charges(election.digest, record).draws
    if draws and not again:
        spent = election.privacy.epsilon is not None and draws >= election.privacy.tallies
        flags = "--again and --over-budget" if spent else "--again"
        if previous is None or left_out or again_in or over_budget or data_dependent:
            raise ElectionError(
                f"{record} records an earlier tally of this election. A new tally at L1 draws new noise and costs "
                f"again: confirm with {flags}. The existing outcome is kept."
            )
        _warn(
            f"{out} holds an outcome and is left unchanged: a tally at L1 draws new noise and costs again. To count "
            f"late ballots, or to drop ballots with revoked keys, tally with {flags}."
        )
        return previous.with_draws(draws)
    options = Options(left_out, previous, record, over_budget, early, key, withdrawn, again_in)
    begin = time.perf_counter()
    outcome = tally_box(election, box, options)
    log.save(outcome, out, "tally", {"seconds": round(time.perf_counter() - begin, 2)})
    return outcome


def find_election(outcome: Outcome, folder: Path, given: Path | None) -> tuple[Election, Path]:
    """The election of an outcome and its file: the given one, or election.toml here or beside the outcome's folder."""
    places = [given] if given is not None else [Path("election.toml"), folder.resolve().parent / "election.toml"]
    problem = f"the election of {folder} is needed: give its file with --election election.toml"
    for path in (each for each in places if given is not None or each.is_file()):
        election = Election.read(path)
        if election.digest == outcome.election:
            return election, path
        problem = (
            f"{folder} is not the outcome of {path}, or the election has changed since: its digest is "
            f"{election.digest[:12]}, but the outcome was tallied with {outcome.election[:12]}. Give its own file with "
            "--election FILE"
        )
    raise ElectionError(problem)


def read_withdrawn(out: Path) -> tuple[str, ...]:
    """The parties that have withdrawn from the outcome in this folder, also if its model or count is damaged."""
    try:
        return tuple(map(check_party_name, read_index(out).get("withdrawn", ())))
    except (OneBallotError, TypeError, AttributeError):
        return ()


def _load_previous(out: Path, election: str) -> Outcome | None:
    """The outcome to resume from. If it is damaged, all ballots are counted again."""
    try:
        previous = Outcome.load(out)
    except OneBallotError as error:
        _warn(f"the earlier outcome cannot be resumed from, so all ballots are counted again: {error}")
        return None
    if previous.election != election:
        raise ElectionError(f"{out} holds the outcome of another election; choose another folder with --out")
    if previous.ledger.level == "L1" and not previous.voted:
        raise ElectionError(
            f"{out} was written by --publish for others, and a tally would put raw votes there; choose another --out"
        )
    return previous


def _warn(text: str) -> None:
    warnings.warn(text, OneBallotWarning, stacklevel=3)
