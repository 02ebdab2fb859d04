"""Combine two partial files into an outcome folder."""

from __future__ import annotations

from pathlib import Path

from ...election.election import Election
from ...election.outcome_files import read_index
from ...errors import ElectionError
from ...runtime.files import check_writable
from .. import log
from ..outcome import Outcome, exists
from .combine import combine
from .partial import Partial
from .signing import describe_signers


def combine_files(first: Path, second: Path, out: Path, given: Path | None = None) -> tuple[Election, Outcome, str]:
    """The election of two partials, their outcome, which is saved in the folder `out`, and who has signed them."""
    one, two = Partial.read(first), Partial.read(second)
    election = _find_election(one, out, given)
    if exists(out) and read_index(out).get("election") != election.digest:
        raise ElectionError(f"{out} holds the outcome of another election; choose another folder with --out")
    check_writable(out)
    out.mkdir(parents=True, exist_ok=True)
    log.prepare(out)
    outcome = combine(election, one, two)
    log.save(outcome, out, "tally")
    return election, outcome, describe_signers(election, one, two)


def _find_election(partial: Partial, out: Path, given: Path | None) -> Election:
    places = [given] if given is not None else [Path("election.toml"), out.resolve().parent / "election.toml"]
    problem = "the election of the partials is needed: give its file with --election election.toml"
    for path in (each for each in places if given is not None or each.is_file()):
        election = Election.read(path)
        if election.digest == partial.election:
            return election
        problem = (
            f"the partials are not of {path}, or the election has changed since: its digest is {election.digest[:12]}, "
            f"but they are of {partial.election[:12]}"
        )
    raise ElectionError(problem)
