"""What a notebook shows of an election, a ballot, an outcome, a simulation and a comparison.

A notebook is easily published with its results. So a fragment holds no values of a ballot. At L1 it holds nothing
about parties and ballots; at L2 no exact number about a party's rows, and not which parties abstained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import MissingExtra
from .federation import gains_table, methods_table, privacy_lines
from .page import Block, Bullets, Facts, Table, render
from .text import percent, plural, score, size

MOST_PARTIES = 50


def fragment(shown: Any) -> str | None:
    """The HTML of an object, by the name of its class; None for other classes and without jinja2."""
    known = next((FRAGMENTS[each.__name__] for each in type(shown).__mro__ if each.__name__ in FRAGMENTS), None)
    if known is None:
        return None
    title, blocks = known(shown)
    try:
        return render("notebook.html", title=title, blocks=blocks)
    except MissingExtra:
        return None


def _election(election: Any) -> tuple[str, list[Block]]:
    learners = {role: election.learner_of(role).name for role in sorted(election.roles)}
    facts: dict[str, object] = {
        "classes": ", ".join(map(str, election.classes)),
        "method": election.method.name,
        **({"learners": [f"{role}: {name}" for role, name in learners.items()]} if learners else {}),
        "public rows": f"{election.public_rows:,}",
        "privacy": privacy_lines(election.ballot_ledger if election.level == "L2" else _ledger(election)),
        "quorum": election.quorum,
        **({"deadline": election.deadline} if election.deadline is not None else {}),
        **({"roster": ", ".join(sorted(election.roster))} if election.roster and election.level != "L1" else {}),
        **({"calibrate": "yes"} if election.calibrate else {}),
        "digest": election.digest,
    }
    columns = () if election.schema is None else election.schema.columns
    tables = [Table("Columns", ["column", "type"], [[c.name, c.kind] for c in columns])] if columns else []
    return f"Election {election.name}", [Facts(facts), *tables]


def _ledger(election: Any) -> Any:
    return election.ballot_ledger if election.guarantee is None else election.guarantee.ledger()


def _ballot(ballot: Any) -> tuple[str, list[Block]]:
    """Names, types and shapes of the contents, never their values; at L1 only the privacy."""
    level = "L0" if ballot.ledger is None else ballot.ledger.level
    privacy = {} if ballot.ledger is None else {"privacy": privacy_lines(ballot.ledger)}
    if level == "L1":
        return "Ballot", [Facts(privacy), "At L1 a ballot is raw, so this shows nothing of it."]
    facts: dict[str, object] = {
        "size": size(len(ballot.sealed)),
        "digest": ballot.digest,
        **({"abstained": ballot.abstained} if ballot.abstained is not None and level == "L0" else {}),
        **privacy,
    }
    rows = [
        [name, f"array of {value.dtype}", str(value.shape)]
        if isinstance(value, np.ndarray)
        else [name, f"model ({value.format})", size(len(value.data))]
        for name, value in ballot.contents.items()
    ]
    title = f"Ballot of {ballot.party}"
    return title, [Facts(facts), Table("Contents (values are not shown)", ["name", "type", "shape or size"], rows)]


def _outcome(outcome: Any) -> tuple[str, list[Block]]:
    private = outcome.ledger.level == "L1"
    summary = outcome.summary()
    facts: dict[str, object] = {
        "classes": ", ".join(map(str, outcome.classes)),
        "model": type(outcome.model.model_).__name__,
        **({} if outcome.temperature is None else {"temperature": f"{outcome.temperature:.3g}"}),
        "privacy": privacy_lines(outcome.ledger),
        "election": outcome.election,
    }
    if private:
        return "Outcome", [Facts(facts), "At L1 this leaves out who voted: it may not be published."]
    counted = {"counted": ", ".join(summary["counted"]), "bytes": size(outcome.bytes)}
    if outcome.ledger.level == "L2":  # who abstained has no noise, and sizes show it
        counted = {"ballots of": ", ".join(outcome.voted)}
        summary["abstained"] = {}
    for name in ("abstained", "spoiled"):
        if summary[name]:
            counted[name] = ", ".join(f"{party} ({why})" for party, why in summary[name].items())
    blocks: list[Block] = [Facts({**facts, **(counted if outcome.voted else {})})]
    if outcome.verdict is not None:
        blocks.append(Bullets([*outcome.verdict.collapsed, *outcome.verdict.lines()]))
    return "Outcome", blocks


def _simulation(simulation: Any) -> tuple[str, list[Block]]:
    _, blocks = _outcome(simulation.outcome)
    if simulation.outcome.ledger.level != "L0":
        return "Simulation", blocks
    rows = [[name, f"{len(data):,}"] for name, data in list(simulation.parties.items())[:MOST_PARTIES]]
    more = len(simulation.parties) - len(rows)
    note = f"and {plural(more, 'more party', 'more parties')}" if more else ""
    return "Simulation", [*blocks, Table("Parties", ["party", "rows"], rows, note=note)]


def _contest(contest: Any) -> tuple[str, list[Block]]:
    skipped = [f"Skipped {name}: {reason}" for name, reason in contest.skipped.items()]
    level = contest.entries[0].election.level
    if level != "L0":
        text = f"At {level} this leaves out the numbers of single parties: they have no noise."
        return "Comparison", [methods_table(contest, parties=False), Bullets([contest.sentences()[0], *skipped]), text]
    table = methods_table(contest)
    return "Comparison", [table, Bullets([*contest.sentences(), *skipped]), gains_table(contest.gain())]


def _peer(result: Any) -> tuple[str, list[Block]]:
    named = {"first": result.first, "best (chosen on the test rows)": result.best, "last": result.last}
    rows = [[name, percent(r.accuracy), size(r.bytes), score("", r.seconds)] for name, r in named.items()]
    title = f"{result.peer.name}: {plural(len(result.rounds), 'round')}"
    return title, [Table("Rounds", ["round", "accuracy", "bytes", "seconds"], rows)]


FRAGMENTS: Mapping[str, Callable[[Any], tuple[str, list[Block]]]] = {
    "Election": _election,
    "Ballot": _ballot,
    "Outcome": _outcome,
    "Simulation": _simulation,
    "Contest": _contest,
    "PeerResult": _peer,
}
