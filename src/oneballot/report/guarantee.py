"""The guarantee card of an election as a page, and as parts of other pages."""

from __future__ import annotations

from pathlib import Path

from ..election.election import Election
from ..privacy.card import GuaranteeCard, guarantee_card
from ..privacy.ledger import Ledger
from .page import Block, Bullets, Facts, Notice, Section, render, save


def election_card(election: Election, *, casts: int = 1) -> GuaranteeCard:
    """The card of all that the election plans, or of so many casts by a party."""
    return guarantee_card(_planned(election, casts))


def _planned(election: Election, casts: int = 1) -> Ledger:
    return Ledger() if election.guarantee is None else election.guarantee.planned(casts)


def card_notice(card: GuaranteeCard) -> Notice:
    return Notice(card.summary, card.tone, card.title)


def card_sections(card: GuaranteeCard, *, brief: bool = False) -> list[Section]:
    """What is protected, from whom, against what, how often, and what not.

    brief: where nothing is protected, the notice says so, and only what is revealed follows.
    """
    parts = card.sections()
    if brief and card.guess is None:
        parts = {"What is not protected": card.not_protected}
    return [Section(heading, [Bullets(sentences)]) for heading, sentences in parts.items()]


def write_card(election: Election, out: Path) -> GuaranteeCard:
    """Write the page of an election's card."""
    card = election_card(election)
    facts = {"Election": election.name, "Digest": election.digest, "Method": election.method.name}
    planned = _planned(election)
    ledger = [line.describe(planned.unit or "unit") for line in planned.lines]
    agreed: list[Block] = [Facts(facts | ({"Ledger": ledger} if ledger else {}))]
    text = "All parties and the server hold the same election if they see the same digest (oneballot check)."
    page = render(
        "guarantee.html",
        title=f"Guarantee card: {election.name}",
        lead="What this election protects, in plain words. Computed from its settings alone, so it may be published.",
        notices=[card_notice(card)],
        sections=[*card_sections(card), Section("Which election", [*agreed, text])],
        banner="",
    )
    save(out, page)
    return card
