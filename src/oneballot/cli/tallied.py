"""What `tally` and `combine` print and publish of an outcome, and what `tally --share` prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..report.influence import show_influence
from ..report.text import percent, plural, print_json, print_lines, print_table, size

if TYPE_CHECKING:
    from ..election.election import Election
    from ..server.outcome import Outcome
    from ..server.two_tallies.share import Shared

MOST_CLASSES = 20
"""How many classes the verdict lists, those predicted most often first."""


def check_publish(election: Election, publish: Path | None, members: bool) -> None:
    """Raise OneBallotError, before anything is counted, if the parties' models would be published unasked."""
    from ..server.distil import refuse_members

    if publish is not None and not members and election.public is None and election.method.asks_members:
        refuse_members("Nothing was counted; without --publish the tally runs.")


def publish_outcome(election: Election, outcome: Outcome, out: Path, folder: Path, members: bool, rows: bool) -> str:
    """Write what may be shared, and describe it. The parties' models are shared only if `members` asks for it."""
    from ..server.distil import distil, holds_party_models, refuse_members
    from ..server.log import publish
    from ..server.receipts import describe_ballots
    from ..server.rows_held import model_rows_held, refuse_rows

    text = f"{folder} holds what may be shared: model, schema and ledger, without votes and names."
    made_of_members = holds_party_models(outcome)
    if made_of_members and not members:
        if election.public is None:
            refuse_members(f"The outcome is in {out}, and nothing was published.")
        publish(distil(election, outcome), out, folder, describe_ballots(election, outcome))  # trained on public rows
        return (
            f"{text}\nIts model is distilled from the parties' models with {election.public_rows:,} public rows, "
            "because their own models reveal who was in their data; --publish-members shares those. Test it first: it "
            "is not the model of the outcome."
        )
    held = model_rows_held(outcome, election.public).describe("the parties'")
    if not rows:
        distilled = members and election.public is not None
        other = ", or leave out --publish-members to share one model distilled from them" * distilled
        refuse_rows(outcome, f"publish it with --publish-rows{other}", election.public)
    publish(outcome, out, folder, describe_ballots(election, outcome))
    text += f"\nIts model {held}; its file can be read by its owner alone (mode 0600)." if held else ""
    if not made_of_members:
        return text
    other = " Without --publish-members it would hold one model distilled from them." * (election.public is not None)
    return f"{text}\nThe model is made of the parties' own models, which reveal who was in their data.{other}"


def show_outcome(
    election: Election,
    outcome: Outcome,
    out: Path,
    publish: Path | None,
    shared: str,
    as_json: bool,
    seen: dict[str, str],
) -> None:
    from ..server.log import read_entries

    log = read_entries(out)
    if as_json:
        places = {"outcome": str(out), "log": log.head if log.entries else None} | (
            {"published": str(publish)} if publish else {}
        )
        print_json(outcome.summary() | places | seen)
        return
    rows = [
        [party, "abstains: " + v.abstained if v.abstained else "counted", size(v.bytes)]
        for party, v in outcome.voted.items()
    ]
    rows += [[name, f"SPOILED: {reason}", ""] for name, reason in outcome.spoiled.items()]
    rows += [[party, "left out (--without)", ""] for party in outcome.without]
    rows += [[party, "withdrawn", ""] for party in outcome.withdrawn]
    awaited = election.awaited({*outcome.voted, *outcome.without, *outcome.withdrawn})
    rows += [[party, "no valid ballot yet", ""] for party in awaited]
    ballots = f"{plural(len(outcome.voted), 'ballot')}, {size(outcome.bytes)}"
    print_table(f"{election.name}: {ballots}", ["ballot", "", "sent"], rows)
    _show_verdict(outcome)
    if outcome.influence is not None:
        show_influence(outcome.influence, secret=election.level == "L1")
    print("Privacy", "\n  ".join(outcome.ledger.describe(whole=True)))
    for line in seen.values():
        print(f"DO NOT PUBLISH: {line}.")
    if publish is not None:
        print(shared)
    elif election.level == "L1":
        print(f"{out} holds raw votes: keep it private, and share what --publish FOLDER writes.")
    if log.entries:
        print(f"{out} has a log of {plural(len(log.entries), 'entry', 'entries')}. Keep the hash of the last, so that")
        print(f"you notice if the log is cut off later (oneballot log {out} --expect HASH): {log.head}")
    print(f"The final model is in {out}. Use it with: oneballot predict {out} --data new.csv")


def _show_verdict(outcome: Outcome) -> None:
    """What is known about the model without labels; a collapsed model is also shown as a warning."""
    verdict = outcome.verdict
    if verdict is None:
        return
    columns = {"predicted": verdict.predicted, "parties' rows": verdict.parties}
    shown = {name: shares for name, shares in columns.items() if shares}
    if shown:
        first = next(iter(shown.values()))
        names = sorted(first, key=lambda name: -first[name])[:MOST_CLASSES]
        rows = [[name, *(percent(shares[name]) for shares in shown.values())] for name in names]
        title = f"What the final model predicts for {plural(verdict.rows, 'public row')}"
        print_table(title if verdict.rows else "Class shares", ["class", *shown], rows)
    print_lines(verdict.lines())


def show_share(election: Election, shared: Shared, as_json: bool) -> None:
    """One server's list of ballots and, if there is one, its partial."""
    counter, side = shared.counter, shared.roll.side
    other = "b" if side == "a" else "a"
    counted = {} if shared.partial is None else shared.partial.voted
    if as_json:
        found = {
            "server": side,
            "election": election.digest,
            "ballots": str(shared.roll_path),
            "listed": [each.party for each in shared.roll.ballots],
            "spoiled": counter.spoiled,
            "differing": list(shared.differing),
            "partial": None if shared.partial_path is None else str(shared.partial_path),
            "counted": sorted(counted),
            "opening": None if shared.partial is None else shared.partial.opening,
            "again": shared.reused,
            "signer": None if shared.partial is None else shared.partial.signer or None,
        }
        print_json(found)
        return
    rows = [
        [
            party,
            "abstains: " + v.abstained if v.abstained else "counted" if party in counted else "listed",
            size(v.bytes),
        ]
        for party, v in counter.voted.items()
    ]
    rows += [[name, f"SPOILED: {reason}", ""] for name, reason in counter.spoiled.items()]
    rows += [[party, "left out (--without)", ""] for party in counter.left_out if party in counter.seen]
    awaited = election.awaited({*counter.seen, *counter.voted})
    rows += [[party, "no valid ballot yet", ""] for party in awaited]
    print_table(f"{election.name}: shares of server {side}", ["ballot", "", "sent"], rows)
    print_lines(f"Not counted: {sentence}." for sentence in shared.differing)
    if shared.partial is None:
        print(f"Send {shared.roll_path} to server {other}, and tally again with its list: --other ballots-{other}.json")
        return
    if shared.reused:
        print("These ballots were opened before: this is the same partial, and nothing more is charged.")
    if election.guarantee is not None:
        ledger = election.guarantee.ledger().times(shared.partial.opening)
        print("Privacy", "\n  ".join(ledger.describe()))
    else:
        print("Level L0: no noise was added. Anyone who has both partials learns the exact total of the ballots.")
    if shared.partial.signer:
        print(f"It is signed with this server's log key, {shared.partial.signer}")
    print(f"{shared.partial_path} is this server's partial. Send it to the one who combines both:")
    print("oneballot combine partial-a partial-b --out outcome/")
