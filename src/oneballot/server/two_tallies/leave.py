"""Parties that leave an outcome of two tallies: each server makes its partial again without them.

Nobody can subtract a ballot from the opened total, because no server can read one. The servers can leave out its
shares. What they may open is decided by `openings`: the difference to every earlier opening must hide single ballots.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from ...election.election import Election
from ...election.tallies import SIDES, least_ballots
from ...errors import ElectionError
from ..outcome import Outcome


@dataclass(frozen=True)
class Places:
    """The names in the commands for the servers: files and folders that are known here, or what to put in their place.

    What each server writes is in at-a and at-b, as in docs/two-tallies.md.
    """

    election: str = "election.toml"
    box: str = "BOX"
    outcome: str = "OUTCOME"


def explain_withdrawal(election: Election, outcome: Outcome, party: str, places: Places | None = None) -> str:
    """Why `oneballot withdraw` cannot do it, whether the servers may open the total without the party, and how."""
    assert election.tallies is not None
    tallies, counted = election.tallies, _counted(outcome)
    if party not in counted:
        return (
            f"{party} abstained, so no number of it is in the total, and the servers would give the same partials again"
        )
    left, least = len(counted) - 1, least_ballots(election)
    sentences = [
        f"with two tallies no one can subtract the ballot of {party} from the total, because no server can read it. "
        "Each server makes its partial again without it, and the partials open a new total:",
        *commands(outcome, party, places or Places()),
    ]
    if left < least:
        sentences.append(
            f"They will refuse: {left} ballots would remain, and at least {least} are needed (quorum, min_difference)."
        )
    elif tallies.min_difference > 1:
        sentences.append(
            f"They will refuse it while {party} is the only change, since the difference of the two totals would be "
            f"its ballot. At least {tallies.min_difference} parties must be in one of them alone (min_difference): let "
            f"{tallies.min_difference - 1} more leave (repeat --without) or arrive at the same time. One that casts "
            "again is in both and does not count."
        )
    if election.guarantee is not None:
        spent = outcome.ledger.drawn >= tallies.openings
        over = ", beyond the budget: add --over-budget to the commands with --other" if spent else ""
        sentences.append(f"The new opening draws new noise and costs again{over}.")
    sentences.append("Give --without at every later tally too. See docs/two-tallies.md.")
    return "\n".join(sentences)


def commands(outcome: Outcome, party: str, places: Places) -> list[str]:
    """What the two servers, and then one of them, run to leave a party out, beside those left out before."""
    file, box, out = (shlex.quote(each) for each in (places.election, places.box, places.outcome))
    without = " ".join(f"--without {shlex.quote(name)}" for name in sorted({*outcome.without, party}))
    share = {side: f"  oneballot tally {file} --from {box} --out at-{side} --share {side} {without}" for side in SIDES}
    lists = [f"{share[side]}  # at server {side}" for side in SIDES]
    partials = [
        f"{share[side]} --other at-{other}/ballots-{other}.json  # at server {side}, with the list of {other}"
        for side, other in zip(SIDES, reversed(SIDES), strict=True)
    ]
    combined = f"  oneballot combine at-a/partial-a at-b/partial-b --out {out} --election {file}"
    return [*lists, *partials, combined]


def refuse_appraisal(election: Election) -> None:
    """Raise ElectionError in an election with two tallies: what one party adds is what they hide."""
    if election.tallies is None:
        return
    raise ElectionError(
        "an appraisal is impossible with two tallies, by design: what a party adds follows from single ballots, and "
        "nobody can read one; the servers know sums of all ballots alone. There is no other command for it. To learn "
        "what a party adds, agree on an election with one tally, or let each party compare the outcome with its own "
        "model on rows that it kept back (cast --holdout, then oneballot benefit)"
    )


def _counted(outcome: Outcome) -> set[str]:
    return {party for party, ballot in outcome.voted.items() if ballot.abstained is None}
