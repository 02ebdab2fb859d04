"""Tally a box into an outcome folder; at L1 also record the tally in a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..election.election import Election
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
) -> Outcome:
    """Tally the ballots in a box and save the outcome in a folder. Resumes from an existing outcome there.

    At L1 every tally draws noise and costs again, so an existing outcome is kept unless `again` is set. These tallies
    are recorded in a file next to the election.
    """
    left_out = tuple(without)
    log.prepare(out)
    previous = _load_previous(out, election.digest) if exists(out) else None
    record = beside / "tallies.json" if election.level == "L1" else None
    draws = 0 if record is None else Charges(election.digest, record).draws
    if draws and not again:
        spent = election.privacy.epsilon is not None and draws >= election.privacy.tallies
        flags = "--again and --over-budget" if spent else "--again"
        if previous is None or left_out or over_budget or data_dependent:
            raise ElectionError(
                f"{record} records an earlier tally of this election. A new tally at L1 draws new noise and costs "
                f"again: confirm with {flags}. The existing outcome is kept."
            )
        _warn(
            f"{out} holds an outcome and is left unchanged: a tally at L1 draws new noise and costs again. To count "
            f"late ballots, or to drop ballots with revoked keys, tally with {flags}."
        )
        return previous.with_draws(draws)
    outcome = tally_box(election, box, Options(left_out, previous, record, over_budget, early, key))
    log.save(outcome, out, "tally")
    return outcome


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
