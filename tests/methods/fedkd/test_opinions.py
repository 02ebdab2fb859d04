"""The leave-one-out line of FedKD: parties combined as a tally combines them, and the liar first."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ElectionError
from oneballot.influence import Opinions
from oneballot.party.cast import cast_together
from oneballot.server.appraise import appraise
from oneballot.server.context import TallyContext
from oneballot.server.influence import trace
from oneballot.simulation import divide
from oneballot.types import Array, Ballot, Count, Data

LOGISTIC = ob.Sklearn("LogisticRegression", {"max_iter": 300})
SETTINGS: dict[str, dict[str, Any]] = {
    "labels": {},
    "uniform": {"weights": "uniform"},
    "shared grid": {"bound": 20.0, "centre": True, "scale": 201, "rounding": "zero"},
    "noise": {"gamma": 1.0},
}
Make = Callable[..., ob.Election]


def elect(make_election: Make, **settings: Any) -> ob.Election:
    return make_election(method=ob.FedKD(**{"temperature": 0.0, **settings}), learner=LOGISTIC)


@pytest.fixture
def digits(digits: Any) -> Any:
    return replace(digits, X=digits.X / 16, public=digits.public / 16, X_test=digits.X_test / 16)


@pytest.fixture
def seven(digits: Any) -> dict[str, Data]:
    return divide(Data(digits.X, digits.y), 7, "dirichlet:0.5", seed=3)


def cast(election: ob.Election, parties: dict[str, Data]) -> list[ob.Ballot]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ob.OneBallotWarning)
        return list(cast_together(election, parties))


def count_of(election: ob.Election, ballots: list[ob.Ballot], ctx: TallyContext) -> Count:
    count = Count()
    for ballot in ballots:
        count += election.method.count(Ballot(ballot.party, ballot.contents, "", None, b""), ctx)
    return count


def public_labels(election: ob.Election, ballots: list[ob.Ballot], ctx: TallyContext) -> Array:
    """The labels that the final model of an election among these parties learns."""
    return next(election.method.close(count_of(election, ballots, ctx), ctx)).tasks[0].targets  # type: ignore[arg-type,no-any-return]


def opinions_of(election: ob.Election, ballots: list[ob.Ballot], ctx: TallyContext) -> Opinions:
    found = election.method.opinions(count_of(election, ballots, ctx), ctx)
    assert found is not None
    return found


@pytest.mark.parametrize("number", [7, 5, 3])
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.filterwarnings("ignore::oneballot.OneBallotWarning")
def test_all_parties_and_all_but_one_give_the_labels_of_an_election_among_them(
    name: str, number: int, make_election: Make, seven: dict[str, Data]
) -> None:
    """Five parties are bounded, and four are not."""
    election = elect(make_election, **SETTINGS[name])
    ballots = sorted(cast(election, dict(list(seven.items())[:number])), key=lambda ballot: ballot.party)
    with TallyContext(election) as ctx:
        opinions = opinions_of(election, ballots, ctx)
        assert opinions.parties == tuple(ballot.party for ballot in ballots)
        everyone = np.arange(number)
        for some in (everyone, *(np.delete(everyone, left_out) for left_out in (0, 2))):
            expected = public_labels(election, [ballots[i] for i in some], ctx)
            found = opinions.combine(some[::-1])
            chosen = np.take_along_axis(found, expected[:, None], axis=1)[:, 0]
            np.testing.assert_allclose(chosen, found.max(axis=1), rtol=1e-9)  # a tie is decided by a seed
            assert (opinions.labels(some) == expected).mean() > 0.95


@pytest.mark.filterwarnings("ignore::oneballot.OneBallotWarning")
def test_a_party_with_shifted_labels_comes_first_and_is_flagged(make_election: Make, seven: dict[str, Data]) -> None:
    election = elect(make_election)
    for liar in list(seven)[:3]:
        parties = seven | {liar: replace(seven[liar], y=(seven[liar].y + 1) % 10)}
        found = ob.tally(election, cast(election, parties)).influence
        assert found is not None
        assert found.unknown == ""
        assert found.rows == len(election.public)  # type: ignore[arg-type]
        assert found.parties[0].party == liar
        assert "contradicts the outcome" in found.parties[0].flagged
        assert sum(one.claimed for one in found.parties) == pytest.approx(1)
        assert "one ballot may change how all others agree" in found.uncertified


@pytest.mark.filterwarnings("ignore::oneballot.OneBallotWarning")
def test_what_a_party_changed_in_the_line_is_what_an_election_without_it_changes(
    make_election: Make, seven: dict[str, Data]
) -> None:
    election = elect(make_election)
    ballots = cast(election, seven)
    with TallyContext(election) as ctx:
        found = trace(count_of(election, ballots, ctx), ctx)
        whole = public_labels(election, ballots, ctx)
        for one in found.parties:
            rest = [ballot for ballot in ballots if ballot.party != one.party]
            changed = float((public_labels(election, rest, ctx) != whole).mean())
            assert one.changed == pytest.approx(changed)
    assert any(one.changed for one in found.parties)


@pytest.mark.filterwarnings("ignore::oneballot.OneBallotWarning")
def test_on_some_rows_the_bounds_follow_from_these_rows(make_election: Make, seven: dict[str, Data]) -> None:
    election = elect(make_election, gamma=1.0)
    with TallyContext(election) as ctx:
        opinions = opinions_of(election, cast(election, seven), ctx)
    assert opinions.few is not None
    some = np.arange(5, 100)
    few = opinions.few(some)
    np.testing.assert_array_equal(few.public, some)
    assert few.rows == len(some)
    assert (few.labels() == opinions.labels()[some]).mean() > 0.9
    np.testing.assert_allclose(few.combine(np.arange(3)), opinions.combine(np.arange(3))[some])


@pytest.mark.filterwarnings("ignore::oneballot.OneBallotWarning")
def test_a_count_of_sums_says_so_and_has_no_opinions(make_election: Make, seven: dict[str, Data], digits: Any) -> None:
    election = elect(make_election, influence="claimed")
    outcome = ob.tally(election, cast(election, seven))
    assert outcome.influence is not None
    assert "keeps only sums" in outcome.influence.unknown
    with pytest.raises(ElectionError, match="fedkd: there is no quick appraisal, because the outcome does not keep"):
        appraise(election, outcome, digits.X_test, digits.y_test)


@pytest.mark.filterwarnings("ignore::oneballot.OneBallotWarning")
def test_a_quick_appraisal_ranks_a_party_with_shifted_labels_last(
    make_election: Make, seven: dict[str, Data], digits: Any
) -> None:
    election = elect(make_election)
    liar = max(seven, key=lambda party: len(seven[party]))
    outcome = ob.tally(election, cast(election, seven | {liar: replace(seven[liar], y=(seven[liar].y + 1) % 10)}))
    found = appraise(election, outcome, digits.X_test, digits.y_test)
    assert found.how == "labels"
    assert found.parties[-1].party == liar
