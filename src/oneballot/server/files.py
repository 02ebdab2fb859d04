"""The server's tally as files: a box, the folder of the outcome, and at L1 the book of the tallies that there were."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..election.election import Election
from ..errors import ElectionError, OneBallotError, OneBallotWarning
from ..interfaces import Box
from ..privacy.charges import Charges
from .outcome import Outcome, exists
from .tally import tally_box

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


def tally_files(
    election: Election, box: Box, out: Path, *, beside: Path, without: Iterable[str] = (), again: bool = False,
    over_budget: bool = False, data_dependent: bool = False, early: bool = False,
    key: X25519PrivateKey | None = None,
) -> Outcome:  # fmt: skip
    """The outcome of the ballots in a box, saved in a folder, gone on from the one that is there.

    At L1 a tally draws noise, and another one costs again: an outcome stays as it is unless `again` is said. The book
    of this is kept beside the election.
    """
    left_out = tuple(without)
    previous = _previous(out, election.digest) if exists(out) else None
    charges = Charges(election.digest, beside / "tallies.json") if election.level == "L1" else None
    if charges is not None and charges.draws and not again:
        if previous is None or left_out or over_budget or data_dependent:
            raise ElectionError(
                f"{charges.path} says that this election was tallied before, and a new tally at L1 draws new noise "
                f"and costs again: say so with --again{_beyond(election, charges)}. The outcome that there is stays."
            )
        _tell(
            f"{out} has an outcome, and is left as it is: a tally at L1 draws new noise and costs again. "
            f"Late ballots count, and those of revoked keys do not, after a tally --again{_beyond(election, charges)}."
        )
        return previous.drawn(charges.draws)
    outcome = tally_box(
        election, box, without=left_out, previous=previous, book=None if charges is None else charges.path,
        over_budget=over_budget, early=early, key=key,
    )  # fmt: skip
    outcome.save(out)
    return outcome


def _beyond(election: Election, charges: Charges) -> str:
    """What else has to be said where the budget's tallies have been made."""
    spent = election.privacy.epsilon is not None and charges.draws >= election.privacy.tallies
    return " and --over-budget" if spent else ""


def _previous(out: Path, election: str) -> Outcome | None:
    """The outcome to go on from. One that is damaged is not: everything is counted again."""
    try:
        previous = Outcome.load(out)
    except OneBallotError as error:
        _tell(f"the earlier outcome cannot be gone on from, and all ballots are counted again: {error}")
        return None
    if previous.election != election:
        raise ElectionError(f"{out} holds the outcome of another election; choose another folder with --out")
    if previous.ledger.level == "L1" and not previous.voted:
        raise ElectionError(
            f"{out} was written by --publish, for others, and a tally would put raw votes there: choose another --out"
        )
    return previous


def _tell(note: str) -> None:
    warnings.warn(note, OneBallotWarning, stacklevel=3)
