"""The private levels in the suite of methods: noise is drawn as declared, and ballots do not stand out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import ElectionError, QuorumError
from ..server.tally import tally
from ..types import Array, Ballot, Blob, Spending
from ._data import WHOLE
from ._election import MethodCase, recorded
from ._suite import describe, wrong_probabilities


def check_private_levels(case: MethodCase) -> Iterator[str]:
    """At each private level the ledger states the guarantee, and the noise is drawn that `spends` declares."""
    for level in sorted(case.method.levels - {"L0"}):
        try:
            yield from _check_level(case, level)
        except Exception as error:
            yield f"An election at {level} fails: {describe(error)}. Offer a level in `levels` only if it works."


def _check_level(case: MethodCase, level: str) -> Iterator[str]:
    method, record = recorded(case.method)
    try:
        chosen = method.for_level(level)
    except ElectionError:  # not with these settings
        return
    if chosen.spends(level, case.classes, len(case.public)) == Spending():
        yield f"`levels` has {level}, but `spends` declares nothing there. Return what it releases."
        return
    election = case.election(level, method=method)
    assert election.guarantee is not None
    ballots = {party: case.cast(party, election) for party in case.ballots}
    declared = {name for name, _, _ in election.guarantee.lines()}
    if level == "L2":
        yield from _check_ballots(case, ballots)
        for party, ballot in ballots.items():
            missing = sorted(declared - set(record.contexts[party].drawn))
            if ballot.abstained is None and missing:
                yield (
                    f"At L2 the ballot of {party} is sealed without the noise for {', '.join(missing)} that `spends` "
                    "declares. Release votes by `ctx.decide` and numbers by `ctx.release` only."
                )
    try:
        outcome = tally(election, ballots.values())
    except (ElectionError, QuorumError):  # the noise may hide everything
        return
    for name, reason in outcome.spoiled.items():
        yield f"At {level} `count` rejects a ballot that `cast` wrote ({name}): {reason}."
    epsilon = case.settings(level).epsilon
    spent = outcome.ledger.epsilon
    if outcome.ledger.level != level or spent is None or (epsilon is not None and spent > epsilon * (1 + 1e-6)):
        yield f"The ledger at {level} states epsilon {spent}, but the election agreed on {epsilon}."
    if level == "L1" and (missing := sorted(declared - set(record.contexts["the tally"].drawn))):
        yield (
            f"At L1 the tally releases a model without the noise for {', '.join(missing)} that `spends` declares. Call "
            "`ctx.decide` or `ctx.release` in `close`."
        )
    if wrong := wrong_probabilities(outcome.probabilities(case.X_test), len(case.X_test), case.classes):
        yield f"The final model's probabilities at {level} are invalid: {wrong}."


def _check_ballots(case: MethodCase, ballots: dict[str, Ballot]) -> Iterator[str]:
    """At L2 a ballot must not reveal by its form how many rows, or which classes, its party has."""
    form = _form(ballots[WHOLE[0]])
    for party, ballot in ballots.items():
        if ballot.abstained is not None and not len(case.parties[party]):
            yield (
                f"At L2 a party without rows abstains ({ballot.abstained}), which reveals that it has none. Cast a "
                'ballot of noise: raise Abstain only if `ctx.level != "L2"`.'
            )
        elif ballot.abstained is None and _form(ballot) != form:
            yield (
                f"At L2 the ballot of {party} has other names, types or shapes than that of {WHOLE[0]}, which reveals "
                "something about its rows. Send arrays of a fixed shape."
            )


def _form(ballot: Ballot) -> dict[str, Any]:
    """Names, types and shapes of the contents. The size of a model is not compared."""
    return {name: _type_of(value) for name, value in ballot.contents.items()}


def _type_of(value: Array | Blob) -> Any:
    return "model" if isinstance(value, Blob) else (str(value.dtype), value.shape)
