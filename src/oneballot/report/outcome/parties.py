"""Who decided, and what each party brought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...errors import printable
from ...server.appraise.record import Appraisal, read_appraisal
from ...server.influence import Influence
from ...types import Array
from ..appraisal import TITLE as APPRAISED
from ..appraisal import blocks_of
from ..influence import LEGEND, influence_lines, influence_table
from ..page import Block, Bullets, Details, Figure, Notice, Section, Table
from ..text import FEW_ROWS, percent, plural, row_count, score, size
from .benefits import benefit_table
from .cap import MOST_PARTIES, capped, flagged_first
from .subject import Subject, members, predictions, weight_shares

MOST_CLASSES = 20
"""Class counts of parties are shown for at most this many classes."""
ASKED_ROWS = 500
"""Without labelled rows, agreement is measured on so many public rows."""
MOST_FLAGGED = 20
"""Of more parties that stand out, a sentence says how many there are."""


def who(subject: Subject) -> Section:
    """The roster and what became of each ballot."""
    title = "Who decided"
    if not subject.names_parties:
        return Section(
            title,
            [
                "At level L1 the list of ballots has no noise, so this page names no party and counts no ballot. The "
                "server's own page has the list (option --server-page); do not publish it."
            ],
        )
    outcome, election = subject.outcome, subject.election
    if not outcome.voted and not outcome.spoiled:
        return Section(title, ["This outcome was published without the list of ballots, so who voted is not known."])
    shown = subject.states_rows  # who abstained, and why, has no noise, and the size of a ballot shows it
    counted = [party for party, ballot in outcome.voted.items() if ballot.abstained is None or not shown]
    rows = [[name, "spoiled", _reason(why), ""] for name, why in outcome.spoiled.items()]
    if shown:
        voted = outcome.voted.items()
        rows += [[party, "abstained", _reason(b.abstained), size(b.bytes)] for party, b in voted if b.abstained]
    rows += [[party, "left out", "the tally was asked to leave it out (--without)", ""] for party in outcome.without]
    rows += [[party, "withdrawn", "it has withdrawn from the outcome", ""] for party in outcome.withdrawn]
    late: tuple[str, ...] = ()
    if election is not None:
        late = election.awaited({*outcome.voted, *outcome.without, *outcome.withdrawn})
        until = f"; the deadline is {election.deadline:%Y-%m-%d %H:%M %Z}" if election.deadline else ""
        rows += [[party, "late", f"no valid ballot when the votes were counted{until}", ""] for party in late]
    rows += [
        [party, "counted" if shown else "arrived", "", size(outcome.voted[party].bytes) if shown else ""]
        for party in flagged_first(subject, counted)
    ]
    others = {
        "abstained": len(outcome.voted) - len(counted),
        "spoiled": len(outcome.spoiled),
        "left out": len(outcome.without),
        "withdrawn": len(outcome.withdrawn),
        "late": len(late),
    }
    rest = ", ".join(f"{count} {what}" for what, count in others.items() if count)
    what = "counted" if shown else "arrived"
    blocks: list[Block] = [f"{plural(len(counted), 'ballot')} {what}" + (f"; {rest}." if rest else ".")]
    if not shown:
        blocks.append(f"Which parties abstained is not stated at level {subject.level}: it has no noise.")
    if outcome.spoiled:
        blocks.append(
            Notice(
                "A spoiled ballot does not count. If a party sent it, ask that party to cast again, then tally again. "
                "A file that no party sent can be removed from the box.",
                "warning",
                plural(len(outcome.spoiled), "ballot") + " spoiled",
            )
        )
    columns = ["party or file", "ballot", "why", "size"]
    if not rest:
        columns, rows = ["party", "ballot", "size"], [[party, what, sent] for party, what, _, sent in rows]
    if not shown:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    blocks.append(capped(Table("Ballots", columns, rows)))
    if election is None:
        blocks.append("The roster is not known here: add --election to list the parties that have not voted.")
    elif not election.roster:
        blocks.append("The election has no roster, so any party may vote, and none is missing.")
    return Section(title, blocks)


def _reason(text: str) -> str:
    return printable(text).replace("`", "")


def contributions(subject: Subject) -> Section:
    """Rows, classes, weight, agreement and own accuracy of each party, where they are known."""
    title = "What each party brought"
    if not subject.names_parties:
        text = "At level L1 what a single party brought has no noise, so it is not on this page."
        return Section(title, [text])
    outcome = subject.outcome
    counts = _class_counts(subject)
    where, agreement, shares = _agreement(subject)
    alone = {} if subject.tested is None else subject.tested.alone
    blocks: list[Block] = []
    shown = [p for p, b in outcome.voted.items() if b.abstained is None and (p in counts or p in agreement)]
    if shown and subject.states_rows:  # a party that is not in the table has abstained
        blocks.append(capped(_table(subject, flagged_first(subject, shown), counts, agreement, shares, where)))
    if alone and subject.tested is not None:
        blocks.append("The accuracy alone is that of the party's own model, which the outcome keeps as a member.")
    if counts and len(outcome.classes) <= MOST_CLASSES:
        columns = ["party", *map(str, outcome.classes)]
        rows = [[party, *map(row_count, counts[party])] for party in flagged_first(subject, counts)]
        note = f"Numbers from 1 to {FEW_ROWS - 1} are not stated, and totals that would reveal them are rounded."
        table = Table("Rows of each class at each party", columns, rows, note=note)
        blocks.append(Details("Rows of each class", [capped(table)]))
    if subject.benefits and subject.states_rows:
        blocks.append(capped(benefit_table(subject.benefits, outcome.target)))
    found = read_appraisal(subject.folder)
    sections = [] if found is None else [Section(APPRAISED, _appraised(found))]
    influence = subject.outcome.influence if subject.states_rows else None  # at L2 the list shows who abstained
    known = bool(agreement) or (influence is not None and any(one.agreement is not None for one in influence.parties))
    brought = [*blocks, *_influence(influence), *_unknown(subject, bool(counts), known)]
    return Section(title, brought, sections)


def _appraised(found: Appraisal) -> list[Block]:
    """The appraisal; without its picture if that would have a bar for each of very many parties."""
    blocks = [capped(each) if isinstance(each, Table) else each for each in blocks_of(found)]
    return blocks if len(found.parties) <= MOST_PARTIES else [b for b in blocks if not isinstance(b, Figure)]


def _influence(found: Influence | None) -> list[Block]:
    """What the labels would have been without each party."""
    if found is None:
        return []
    if len(found.parties) > MOST_PARTIES:
        found = replace(found, parties=tuple(sorted(found.parties, key=lambda one: not one.flagged)))
    table = Table(*influence_table(found, most=len(found.parties)), note=LEGEND)
    return [*([capped(table)] if found.parties else []), *influence_lines(found, most=MOST_FLAGGED)]


def _table(
    subject: Subject,
    shown: list[str],
    counts: Mapping[str, Array],
    agreement: Mapping[str, float],
    shares: Mapping[str, float],
    where: str,
) -> Table:
    outcome = subject.outcome
    alone = {} if subject.tested is None else subject.tested.alone
    name = next(iter(outcome.target.metrics))
    columns = {
        "rows": {party: _total(each) for party, each in counts.items()},
        "classes without rows": {party: _lacking(subject, each) for party, each in counts.items()},
        "share of decisions": {party: percent(share) for party, share in shares.items()},
        "rows where its model agrees": {party: percent(share) for party, share in agreement.items()},
        f"{outcome.target.metrics[name]} alone": {party: score(name, each[name]) for party, each in alone.items()},
    }
    known = {heading: values for heading, values in columns.items() if values}
    rows = [[party, *(values.get(party, "–") for values in known.values())] for party in shown]
    note = "" if not agreement else (
        f"Measured on {where}. The share of decisions is a party's part of all weights, mean over the rows; "
        "its model agrees on a row if it predicts what the outcome predicts."
    )  # fmt: skip
    return Table("Parties whose ballots count", ["party", *known], rows, note=note)


def _lacking(subject: Subject, counts: Array) -> str:
    lacking = [str(name) for name, count in zip(subject.outcome.classes, counts, strict=True) if not count]
    more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
    return ", ".join(lacking[:5]) + more if lacking else "none"


def _total(rows: Array) -> str:
    """The sum of the classes' rows, rounded if a class has few: the others would reveal it."""
    return row_count(int(rows.sum()), exact=not ((rows > 0) & (rows < FEW_ROWS)).any())


def _class_counts(subject: Subject) -> dict[str, Array]:
    """The rows of each class at each party, where its ballot states them without noise."""
    if not subject.states_rows:
        return {}
    stated = {party: contents.get("seen") for party, contents in subject.outcome.count.by_party.items()}
    shape = (len(subject.outcome.classes),)
    return {p: each for p, each in stated.items() if isinstance(each, np.ndarray) and each.shape == shape}


def _agreement(subject: Subject) -> tuple[str, dict[str, float], dict[str, float]]:
    """On which rows, how often each party's own model agrees with the outcome, and its share of the decisions."""
    outcome, election, tested = subject.outcome, subject.election, subject.tested
    found = members(outcome) if outcome.target.exclusive else {}
    if tested is not None and tested.X is not None:
        where, rows, own = f"the {plural(tested.rows, 'row')} of {tested.source}", tested.X, tested.members
        final = tested.probabilities
    elif election is not None and election.public is not None and found:
        rows = election.public[:ASKED_ROWS]
        where, own = plural(len(rows), "public row"), predictions(outcome, found, rows)
        final = outcome.probabilities(rows)
    else:
        return "", {}, {}
    chosen = final.argmax(axis=1)
    agreement = {party: float((each.argmax(axis=1) == chosen).mean()) for party, each in own.items() if party in found}
    return where, agreement, weight_shares(outcome, found, rows)


def _unknown(subject: Subject, counts: bool, agreement: bool) -> list[Block]:
    """What cannot be stated about parties, and why."""
    outcome, missing = subject.outcome, []
    if not subject.states_rows:
        missing.append(f"Rows and classes of a party are not stated at level {subject.level}.")
    elif not counts:
        missing.append("The ballots of this method do not state rows and classes, or are kept only as a sum.")
    if not agreement and members(outcome):
        missing.append("Agreement with the outcome needs rows: add --data with labelled rows, or --election.")
    elif not agreement:
        whole = "" if outcome.verdict is None or outcome.verdict.agreement is None else (
            f" All votes together: {percent(outcome.verdict.agreement)} name the class that wins."
        )  # fmt: skip
        missing.append(f"The outcome keeps no model of a single party, so its agreement cannot be computed.{whole}")
    if read_appraisal(subject.folder) is None:
        missing.append("What each party adds to the outcome is computed with: oneballot appraise.")
    if not subject.benefits:
        missing.append(
            "What the outcome is worth to a party is computed at the party: oneballot benefit --json. Add what it "
            "prints with --benefit FILE."
        )
    return [Bullets(missing)]
