"""The privacy ledger of an outcome, and what it means in words."""

from __future__ import annotations

from ...privacy.card import guarantee_card
from ...privacy.ledger import Ledger, format_epsilon
from ...privacy.releases import UNIT_NAMES
from ..guarantee import card_notice, card_sections
from ..page import Block, Bullets, Facts, Section, Table
from .subject import Subject

SHARE_L0 = (
    "The ballots and the model may reveal who was in the data: share them, and this page, only with people who may "
    "know that."
)


def privacy(subject: Subject) -> Section:
    ledger = subject.outcome.ledger
    card = guarantee_card(ledger)
    blocks: list[Block] = [card_notice(card)]
    if ledger.level == "L0":
        blocks.append(SHARE_L0)
    if card.epsilon is not None:
        blocks.append(_numbers(ledger))
    if ledger.lines:
        rows = [
            [line.what, f"{line.times:,}", line.release.describe(), f"{line.scale:.6g}", line.classes or "–"]
            for line in ledger.lines
        ]
        columns = ["release", "times", "mechanism", "scale of the noise", "classes"]
        blocks.append(Table("The ledger: what was released", columns, rows))
    if ledger.level != "L0":
        blocks.append(Bullets([_sentence(each) for each in ledger.describe(whole=True)]))
    blocks += [*_forecast(subject), *_beyond(subject)]
    return Section("Privacy", blocks, card_sections(card, brief=True))


def _numbers(ledger: Ledger) -> Block:
    return Facts(
        {
            "epsilon": format_epsilon(ledger.epsilon or 0.0),
            "delta": f"{ledger.delta:g}",
            "protects": f"each {UNIT_NAMES[ledger.unit or 'row']}",
            "against": ledger.audience,
            "neighbouring data": f"adjacency {ledger.adjacency}: {ledger.neighbours}",
            "accountant": f"{ledger.accountant}",
            "draws of noise": f"{ledger.drawn}",
        }
    )


def _forecast(subject: Subject) -> list[Block]:
    """What the noise does to the result, and how many parties it takes. It knows the election, and no ballot."""
    election = subject.election
    if subject.level == "L0":
        return []
    if election is None or election.guarantee is None:
        return ["How many parties the noise takes is not known here: add --election."]
    guarantee = election.guarantee
    return [Bullets(list(dict.fromkeys([*guarantee.forecast(None), *guarantee.forecast(election.parties)])))]


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
