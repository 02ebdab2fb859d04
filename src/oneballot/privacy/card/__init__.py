"""The guarantee card: what an election protects, from whom, against what, how often, and what not, in plain words.

Every sentence and number follows from a ledger. The dossier, the report, the model card and `oneballot guarantee` show
the same ones. `bounds` turns ε and δ into an attacker's chances; `limits` lists what is not protected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ..ledger import ANYONE, BALLOT_READERS, MODEL_USERS, TALLY_SERVERS, Ledger, format_epsilon
from .bounds import exception_bound, exp, factor_up, guess_bound, often, percent_up, suspicion_bound
from .limits import NOTHING_PROTECTED, REHEARSED, list_limits
from .words import COMPARED, PROTECTED, QUESTIONS, UNIT_WORDS, change_of

SUSPICIONS = (0.01, 0.1, 0.25)
"""How probable an attacker thinks something before anything is released, in the examples of a card."""
WEAK = 0.9
"""A guarantee is called weak if its attacker may guess right more often than this."""
TOGETHER = "All of them together, whatever else they know and however much they compute."
AUDIENCES = {
    ANYONE: ("Anyone who has it.",),
    BALLOT_READERS: (
        "The server that counts the ballots, and anyone who can read the box.",
        "The other parties, and everyone who uses the model.",
        TOGETHER,
    ),
    TALLY_SERVERS: (
        "Everyone who sees the outcome: users of the model, the other parties, the public.",
        "Either of the two servers alone. Both together can add their shares and read every ballot.",
    ),
    MODEL_USERS: ("Everyone who sees the final model: its users, the other parties, the public.", TOGETHER),
}
"""By `released_to` of a ledger; another one is stated in its own words."""


class Suspicion(BaseModel):
    """How probable an attacker thinks something, before and after seeing what is released."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    before: float
    after: float = Field(description="The largest possible value, except with the card's `exception`.")


class GuaranteeCard(BaseModel):
    """The guarantee of an election in plain words. Numbers are None where nothing is guaranteed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    tone: Literal["good", "warning", "bad"]
    summary: str
    protected: list[str]
    from_whom: list[str]
    against: list[str]
    how_often: list[str] = []
    not_protected: list[str]
    epsilon: float | None = Field(default=None, description="Computed from the lines of the ledger.")
    delta: float | None = None
    odds: float | None = Field(default=None, description="e to the power of epsilon, if it is below 1e300.")
    guess: float | None = Field(
        default=None, description="How often an attacker who would otherwise toss a coin guesses right, at most."
    )
    suspicions: list[Suspicion] = []
    exception: float | None = Field(default=None, description="How probably `suspicions` are exceeded, at most.")

    def sections(self) -> dict[str, list[str]]:
        """The parts of the card by their headings, in the order in which they are read."""
        parts = {
            "What is protected": self.protected,
            "From whom": self.from_whom,
            "Against what": self.against,
            "How often": self.how_often,
            "What is not protected": self.not_protected,
        }
        return {heading: sentences for heading, sentences in parts.items() if sentences}

    def lines(self) -> list[str]:
        """The card as text for a terminal."""
        shown = [self.title.upper(), self.summary]
        for heading, sentences in self.sections().items():
            shown += ["", heading, *(f"- {sentence}" for sentence in sentences)]
        return shown


def guarantee_card(ledger: Ledger) -> GuaranteeCard:
    """The card of this ledger. Its epsilon is computed anew, so the ledger must not come from an untrusted ballot."""
    if ledger.rehearsal:
        return _rehearsal(ledger)
    if ledger.epsilon is None or ledger.delta is None:
        return _no_guarantee(ledger)
    unit, epsilon, delta = ledger.unit or "row", ledger.epsilon_at(ledger.delta), ledger.delta
    right, name, change = guess_bound(epsilon, delta), UNIT_WORDS[unit], change_of(ledger)
    summary = (
        f"Noise limits what can be learned about each {name}: an attacker who would otherwise toss a coin guesses "
        f"right {often(right)} (ε = {format_epsilon(epsilon)}, δ = {delta:g})."
    )
    if right > WEAK:
        summary += " That is close to certain: an ε this large promises little."
    return GuaranteeCard(
        title=f"Level {ledger.level}: each {name} is protected",
        tone="warning" if right > WEAK else "good",
        summary=summary,
        protected=[PROTECTED[unit], f"The promise compares {COMPARED[unit, change]}."],
        from_whom=list(AUDIENCES.get(ledger.released_to, (f"{ledger.audience[:1].upper()}{ledger.audience[1:]}.",))),
        against=_against(name, QUESTIONS[unit, change], epsilon, delta),
        how_often=_how_often(ledger),
        not_protected=list_limits(ledger, epsilon, delta),
        epsilon=epsilon,
        delta=delta,
        odds=exp(epsilon),
        guess=right,
        suspicions=[Suspicion(before=each, after=suspicion_bound(each, epsilon)) for each in SUSPICIONS],
        exception=exception_bound(delta),
    )


def _against(name: str, question: str, epsilon: float, delta: float) -> list[str]:
    odds = exp(epsilon)
    factor = f"e^ε = {factor_up(odds)}" if odds is not None and odds < 1e9 else "e^ε"
    before = _listed([f"{100 * each:g} %" for each in SUSPICIONS])
    after = _listed([percent_up(suspicion_bound(each, epsilon)) for each in SUSPICIONS])
    return [
        f"Guessing {question}. Even someone who knows all other data, and would otherwise toss a coin, guesses right "
        f"{often(guess_bound(epsilon, delta))}. (A coin is right 50 % of the time.)",
        f"Growing suspicions. What someone thinks {before} likely becomes at most {after} likely, except with a "
        f"probability of 1 in {math.floor(1 / exception_bound(delta)):,}.",
        f"ε (epsilon) = {format_epsilon(epsilon)}: because of one {name}, nothing that can be concluded from the "
        f"release is more than {factor} times as probable, apart from δ.",
        f"δ (delta) = {delta:g} is what the promise leaves out: giving away one {name} in full with a probability of "
        f"1 in {round(1 / delta):,} would not break it.",
    ]


def _listed(items: Sequence[str]) -> str:
    return f"{', '.join(items[:-1])} or {items[-1]}"


def _how_often(ledger: Ledger) -> list[str]:
    times = "one" if ledger.drawn == 1 else f"{ledger.drawn:,}"
    together = "" if ledger.drawn == 1 else "s together"
    silos = (
        []
        if ledger.unit == "party"
        else ["The bounds assume that nobody's rows are at more than one party."]
        if ledger.silos == 1
        else [f"The bounds cover people whose rows are at up to {ledger.silos} parties."]
    )
    if ledger.released_to == TALLY_SERVERS:
        return [
            f"The bounds cover {times} opening{together} of the total. Each further opening, also with a late ballot, "
            "draws new noise, and its cost is added.",
            *silos,
            "Each server adds all of this noise. The bounds count one server's, because a server knows its own.",
        ]
    if ledger.level == "L1":
        return [
            f"The bounds cover {times} {'tally' if ledger.drawn == 1 else 'tallies together'}. Each further tally, "
            "also of a late ballot, draws new noise on the same votes, and its cost is added.",
        ]
    if ledger.released_to != BALLOT_READERS:
        text = f"The bounds cover {times} draw{together} of noise. Each further draw on the same rows adds its cost."
        return [text, *silos]
    return [
        f"The bounds cover {times} cast{together} by each party. Another cast draws new noise on the same rows, and "
        "its cost is added.",
        *silos,
        "Tallying again, with or without late ballots, and using the model cost nothing more.",
    ]


def _rehearsal(ledger: Ledger) -> GuaranteeCard:
    return GuaranteeCard(
        title=f"Level {ledger.level}, a rehearsal: NOT PRIVATE",
        tone="bad",
        summary="The noise can be reproduced from a seed that is not secret, so nothing is protected. Use no real data "
        "that must stay private, and publish nothing of it.",
        protected=["Nothing: anyone who knows the seed can remove the noise."],
        from_whom=["From no one. Trust everyone who reads a ballot or uses the model."],
        against=["Nothing is ruled out: there is no limit to how sure an attacker may become."],
        not_protected=list(REHEARSED),
    )


def _no_guarantee(ledger: Ledger) -> GuaranteeCard:
    raw = ledger.level == "L1"
    return GuaranteeCard(
        title=f"Level {ledger.level}: nothing is protected" + (" in a ballot" if raw else ""),
        tone="warning",
        summary="A ballot holds exact votes; noise is added when they are counted."
        if raw
        else "No noise is added, so there is no guarantee against anyone. Everyone who reads a ballot or uses the "
        "model must be trusted.",
        protected=["Nothing: no noise is added" + (" to a ballot." if raw else ".")],
        from_whom=["From no one. Trust everyone who reads a ballot" + ("." if raw else " or uses the model.")],
        against=["Nothing is ruled out: there is no limit to how sure an attacker may become."],
        not_protected=list(NOTHING_PROTECTED),
    )
