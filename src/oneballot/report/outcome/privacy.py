"""The privacy ledger of an outcome, and what it means in words."""

from __future__ import annotations

import math

from ...privacy.ledger import Ledger, format_epsilon
from ...privacy.releases import UNIT_NAMES
from ..page import Block, Bullets, Facts, Notice, Section, Table
from .subject import Subject


def privacy(subject: Subject) -> Section:
    ledger = subject.outcome.ledger
    blocks: list[Block] = [_meaning(ledger)]
    if ledger.epsilon is not None and not ledger.rehearsal:
        blocks += _guarantee(ledger)
    if ledger.lines:
        rows = [
            [line.what, f"{line.times:,}", line.release.describe(), f"{line.scale:.6g}", line.classes or "–"]
            for line in ledger.lines
        ]
        columns = ["release", "times", "mechanism", "scale of the noise", "classes"]
        blocks.append(Table("The ledger: what was released", columns, rows))
    sentences = [_sentence(each) for each in ledger.describe(whole=True)]
    return Section("Privacy", [*blocks, Bullets(sentences), *_forecast(subject), *_beyond(subject)])


def _forecast(subject: Subject) -> list[Block]:
    """What the noise does to the result, and how many parties it takes. It knows the election, and no ballot."""
    election = subject.election
    if subject.level == "L0":
        return []
    if election is None or election.guarantee is None:
        return ["How many parties the noise takes is not known here: add --election."]
    guarantee = election.guarantee
    return [Bullets(list(dict.fromkeys([*guarantee.forecast(None), *guarantee.forecast(election.parties)])))]


def _meaning(ledger: Ledger) -> Notice:
    if ledger.level == "L0":
        return Notice(
            "No noise was added, so there is no privacy guarantee. The ballots and the model may reveal who was in the "
            "data: share them, and this page, only with people who may know that.",
            "warning",
            "Level L0: no guarantee",
        )
    if ledger.rehearsal:
        return Notice(
            "This was a rehearsal: its noise can be reproduced from a seed that is not secret. Publish nothing of it.",
            "bad",
            f"Level {ledger.level}, NOT PRIVATE",
        )
    if ledger.epsilon is None:
        text = "The ballots hold raw votes: there is no guarantee against the server or anyone who reads the box."
        return Notice(text, "warning", f"Level {ledger.level}: no guarantee")
    return Notice(
        f"Noise was added, so that one {UNIT_NAMES[ledger.unit or 'row']} {_change(ledger)} changes what "
        f"{ledger.audience} can see only a little: epsilon {format_epsilon(ledger.epsilon)} at delta "
        f"{ledger.delta:g}.",
        "good" if ledger.epsilon <= 10 else "warning",
        f"Level {ledger.level}: differential privacy",
    )


def _change(ledger: Ledger) -> str:
    changes = {"add-remove": "more or less", "swap": "swapped for another one"}
    return changes.get(str(ledger.adjacency), "with other content")


def _guarantee(ledger: Ledger) -> list[Block]:
    assert ledger.epsilon is not None
    assert ledger.delta is not None
    odds = math.exp(min(ledger.epsilon, 700))
    right = min(1.0, (odds + ledger.delta) / (1 + odds))
    unit = UNIT_NAMES[ledger.unit or "row"]
    factor = f"{odds:,.3g}" if odds < 1e6 else f"e to the power of {format_epsilon(ledger.epsilon)}"
    weak = " This protects little: choose a smaller epsilon if the data are sensitive." if ledger.epsilon > 10 else ""
    return [
        Facts(
            {
                "epsilon": format_epsilon(ledger.epsilon),
                "delta": f"{ledger.delta:g}",
                "protects": f"each {unit}",
                "against": ledger.audience,
                "neighbouring data": f"adjacency {ledger.adjacency}: {ledger.neighbours}",
                "accountant": f"{ledger.accountant}",
                "draws of noise": f"{ledger.drawn}",
            }
        ),
        f"In words: whatever anyone concludes from what was released, they would have concluded with at most {factor} "
        f"times that probability without that {unit}, except with probability {ledger.delta:g}. An attacker who "
        f"guesses whether a certain {unit} was in the data, at even odds beforehand, is right at most "
        f"{100 * right:.1f} % of the time.{weak}",
    ]


def _beyond(subject: Subject) -> list[Block]:
    """What the guarantee does not cover."""
    if subject.level == "L0":
        return []
    text = "The guarantee is about the parties' rows."
    if subject.visible_test is not None:
        text += (
            f" It does not cover the rows of {subject.visible_test.source}: the figures under Quality have no noise."
        )
    if subject.level == "L1" and not subject.secret:
        text += " This page holds the final model's public side only: no names, votes or counts of parties."
    return [text]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
