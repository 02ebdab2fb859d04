"""Tallies in the suite of methods: order, late ballots, withdrawal, few classes, several labels, no public set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import ElectionError, OneBallotError
from ..server.outcome import Outcome
from ..server.tally import tally
from ..server.withdraw import withdraw
from ..simulation import simulate_parties
from ..types import Data
from ._data import WHOLE, same
from ._election import MethodCase, equal_counts
from ._suite import check_model, describe


def check_order(case: MethodCase) -> Iterator[str]:
    """The outcome does not depend on the order of the ballots."""
    backwards = tally(case.agreed, list(case.ballots.values())[::-1])
    if not _alike(case, backwards, case.outcome):
        yield "Ballots in another order give another outcome. Sort `Count.by_party` by name before using it."


def check_late_ballots(case: MethodCase) -> Iterator[str]:
    """A tally that continues from an earlier outcome equals a tally from scratch, bit for bit."""
    before, again = case.early, tally(case.agreed, [case.ballots["party-1"]])
    if not _alike(case, again, before):
        yield "A tally of the same ballot differs after other ballots were tallied. Keep nothing between tallies."
    if not _alike(case, tally(case.agreed, case.ballots.values(), previous=before), case.outcome):
        yield "Late ballots on top of an earlier outcome give another result than a tally of all ballots from scratch."


def check_withdrawal(case: MethodCase) -> Iterator[str]:
    """A party that withdraws leaves no trace: the outcome equals one in which it never voted."""
    rest = [ballot for party, ballot in case.ballots.items() if party != "party-2"]
    never = tally(case.agreed, rest)
    for previous in (None, case.outcome):
        left = tally(case.agreed, case.ballots.values(), without=["party-2"], previous=previous)
        if not _alike(case, left, never):
            how = "subtracted from an earlier outcome" if previous else "left out"
            yield f"The outcome without a party that was {how} differs from one in which it never voted."
    if not _alike(case, withdraw(case.agreed, case.outcome, "party-2", ballot=case.ballots["party-2"]), never):
        yield "The outcome of `withdraw` differs from one in which the party never voted."


def _alike(case: MethodCase, one: Outcome, other: Outcome) -> bool:
    predictions = same(one.probabilities(case.X_test), other.probabilities(case.X_test))
    return predictions and equal_counts(one.count, other.count)


def check_few_classes(case: MethodCase) -> Iterator[str]:
    """If no party has rows of a class, or all rows have one class, the tally ends with a model or an ElectionError."""
    whole = case.parties["party-1"]
    for what, keep in (("one class only", whole.y == 0), ("no rows of the last class", whole.y != whole.y.max())):
        data = Data(whole.X[keep], whole.y[keep])
        try:
            run = simulate_parties(case.agreed, {"a": data, "b": data})
        except ElectionError:
            continue
        except OneBallotError as error:
            if all(ballot.abstained is not None for ballot in _casts(case, data)):
                continue
            yield f"If the parties have {what}, {describe(error)}. Raise ElectionError with advice, or return a model."
            continue
        except Exception as error:
            yield f"If the parties have {what}, {describe(error)}. Raise ElectionError with advice, or return a model."
            continue
        yield from check_model(run.outcome.model.model_, case.X_test, case.classes, f"a federation with {what}")


def _casts(case: MethodCase, data: Data) -> list[Any]:
    return [case.cast(party, data=data) for party in "ab"]


def check_labels(case: MethodCase) -> Iterator[str]:
    """If `targets` has "labels", an election with several labels per row gives a model for them."""
    if "labels" not in case.method.targets or "L0" not in case.method.levels:
        return
    try:
        election = case.election("L0", target="labels")
    except ElectionError:  # not with these settings
        return
    known = np.random.default_rng(0).integers(-1, 2, (1000, case.classes))  # 0: unknown
    parties = {p: Data(case.parties[p].X, known[: len(case.parties[p])]) for p in (*WHOLE, "one-row", "no-rows")}
    values = simulate_parties(election, parties).outcome.probabilities(case.X_test)
    if values.shape != (len(case.X_test), case.classes) or not ((values >= 0) & (values <= 1)).all():
        yield "With several labels per row the final model must predict a number from 0 to 1 for each label."


def check_public_set(case: MethodCase) -> Iterator[str]:
    """Without a public set the election is refused before anyone trains, or it works."""
    try:
        election = case.election(public=None, public_labels=None)
    except ElectionError:
        return
    try:
        simulate_parties(election, {party: case.parties[party] for party in WHOLE})
    except Exception as error:
        yield (
            f"An election without a public set is accepted, and then fails: {describe(error)}. Declare "
            '`needs_public = "rows"`, or raise ElectionError in `check`.'
        )
