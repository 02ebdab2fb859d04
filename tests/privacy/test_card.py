"""The guarantee card: its bounds against exact distributions, and its words for each level, unit and adjacency."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from oneballot.privacy.calibration import calibrate
from oneballot.privacy.card import SUSPICIONS, GuaranteeCard, guarantee_card
from oneballot.privacy.card.bounds import (
    CERTAIN,
    SLACK,
    exception_bound,
    guess_bound,
    often,
    pair_guess_bound,
    percent_up,
    suspicion_bound,
    twice_guess_bound,
)
from oneballot.privacy.card.words import COMPARED, QUESTIONS, SAME_ID, WATCHED
from oneballot.privacy.ledger import BALLOT_READERS, MODEL_USERS, TALLY_SERVERS, Ledger, Line
from oneballot.privacy.releases import Adjacency, Unit
from oneballot.privacy.settings import L1, L2, PrivacySettings
from oneballot.types import Array, Spending, Votes

laws = st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any).map(lambda w: np.array(w) / sum(w))
epsilons = st.floats(0.01, 4)


def excess(P: Array, Q: Array, epsilon: float) -> float:
    """The smallest δ with which P and Q are (ε, δ) apart."""
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((P, Q), (Q, P)))


def best_guess(P: Array, Q: Array) -> float:
    return float(np.maximum(P, Q).sum()) / 2


def card_of(privacy: PrivacySettings, ids: bool = False, queries: int = 100) -> GuaranteeCard:
    votes = Votes(queries=queries, classes=3, partitions=1, subsets=25)
    return guarantee_card(calibrate(privacy, Spending(votes=votes), ids).planned())


def text_of(card: GuaranteeCard) -> str:
    return "\n".join(card.lines())


# Bounds


@given(P=laws, Q=laws, epsilon=epsilons)
def test_no_attacker_beats_the_bounds(P: Array, Q: Array, epsilon: float) -> None:
    delta = excess(P, Q, epsilon)
    assert best_guess(P, Q) <= guess_bound(epsilon, delta) + 1e-12
    exceeded = SLACK * math.exp(epsilon) * Q < P
    for before in SUSPICIONS:
        after = before * P / np.maximum(before * P + (1 - before) * Q, 1e-300)
        assert (after[~exceeded] <= suspicion_bound(before, epsilon) + 1e-12).all()
    assert max(P[exceeded].sum(), Q[exceeded].sum()) <= exception_bound(delta) + 1e-12


@given(epsilon=epsilons, delta=st.floats(0, 0.5))
def test_the_bound_on_guesses_is_reached(epsilon: float, delta: float) -> None:
    """By randomised response that gives the secret away with probability δ."""
    more, less = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    P, Q = np.array([delta, more, less, 0]), np.array([0, less, more, delta])
    assert excess(P, Q, epsilon) == pytest.approx(delta, abs=1e-12)
    assert best_guess(P, Q) == pytest.approx(guess_bound(epsilon, delta))


@given(P=laws, Q=laws, R=laws, epsilon=st.floats(0.01, 2))
def test_two_units_and_two_releases_stay_within_their_bounds(P: Array, Q: Array, R: Array, epsilon: float) -> None:
    delta = max(excess(P, Q, epsilon), excess(Q, R, epsilon))
    assert best_guess(P, R) <= pair_guess_bound(epsilon, delta) + 1e-12
    delta = excess(P, Q, epsilon)
    assert best_guess(np.outer(P, P), np.outer(Q, Q)) <= twice_guess_bound(epsilon, delta) + 1e-12


@given(st.floats(0, CERTAIN))
def test_a_percentage_is_rounded_up_but_not_to_a_hundred(share: float) -> None:
    shown = float(percent_up(share).removesuffix(" %"))
    assert 100 * share - 1e-6 <= shown < 100
    assert shown <= 100 * share + 0.1 + 1e-9


def test_beyond_all_percentages_a_bound_is_called_always() -> None:
    assert often(guess_bound(1000.0, 1e-5)).startswith("always")
    assert math.isfinite(suspicion_bound(0.01, 1e6))


# Numbers of a card


def test_the_numbers_are_computed_from_the_lines_of_the_ledger() -> None:
    """Gaussian noise on 100 votes of which each may move: exactly μ-GDP with μ² = 2·100/σ²."""
    line = Line(what="vote", times=100, mechanism="gaussian", scale=40.0, classes=3, reach=2)
    fields = {"level": "L2", "unit": "patient", "adjacency": "replace", "accountant": "tight", "delta": 1e-5}
    ledger = Ledger.with_lines([line], released_to=BALLOT_READERS, **fields)
    mu = math.sqrt(200) / 40

    def delta_at(epsilon: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)

    exact = brentq(lambda e: delta_at(e) - 1e-5, 0.01, 10)
    forged = ledger.model_copy(update={"epsilon": 0.01})  # the card doesn't believe the stated number
    for card in (guarantee_card(ledger), guarantee_card(forged)):
        assert card.epsilon == pytest.approx(exact, rel=1e-6)
        assert card.guess == pytest.approx((math.exp(exact) + 1e-5) / (1 + math.exp(exact)))
        assert card.odds == pytest.approx(math.exp(exact))
        odds = 0.1 / 0.9 * 1.1 * math.exp(exact)
        assert card.suspicions[1].after == pytest.approx(odds / (1 + odds))
        assert card.exception == pytest.approx(1.1e-4)
        assert "at most 79.6 % of the time" in text_of(card)  # 1 / (1 + exp(-1.3565)) = 0.79520…
        assert "1 in 9,090" in text_of(card)
        assert "1 in 100,000" in text_of(card)


def test_more_casts_tallies_and_silos_cost_more_and_are_stated() -> None:
    guarantee = calibrate(L2(1.0, max_silos_per_person=3), Spending(votes=Votes(50, 3, 1, 25)), True)
    once, twice = guarantee_card(guarantee.planned()), guarantee_card(guarantee.planned(2))
    assert once.epsilon is not None
    assert twice.epsilon is not None
    assert 0.99 < once.epsilon <= 1 < twice.epsilon
    assert "up to 3 parties" in text_of(once)
    assert "one cast by each party" in text_of(once)
    assert "2 casts together" in text_of(twice)
    tallies = card_of(L1(1.0, tallies=2))
    assert tallies.epsilon == pytest.approx(1.0, abs=1e-3)
    assert "2 tallies together" in text_of(tallies)
    assert "nobody's rows are at more than one party" in text_of(card_of(L2(1.0)))


def test_a_large_epsilon_is_called_weak() -> None:
    assert card_of(L2(2.0)).tone == "good"
    weak = card_of(L2(8.0))
    assert weak.tone == "warning"
    assert "promises little" in weak.summary
    assert "99.97 %" in weak.summary
    huge = guarantee_card(calibrate(L2(gamma=60.0), Spending(votes=Votes(9, 3, 1, 25)), True).planned())
    assert huge.epsilon is not None
    assert huge.epsilon > 700
    assert huge.odds is None
    assert "always, for all that is promised" in text_of(huge)


# Words


@pytest.mark.parametrize(
    ("privacy", "ids", "title", "compared", "question"),
    [
        (L1(1.0), False, "Level L1: each party", "any other ballot of that party, or an abstention", "two ballots"),
        (L1(1.0, adjacency="add-remove"), False, "Level L1: each party", "without it", "whether a certain party voted"),
        (L2(1.0), True, "Level L2: each patient", "any other rows under the same ID", "which of two records"),
        (L2(1.0, adjacency="add-remove"), True, "Level L2: each patient", "without any of them", "patient is in"),
        (L2(1.0, adjacency="swap"), True, "Level L2: each patient", "any other patient, with", "which of two patients"),
        (L2(1.0, adjacency="swap"), False, "Level L2: each row", "any other row in its place", "which of two rows"),
        (L2(1.0), False, "Level L2: each row", "any other row in its place", "which of two rows is in the data"),
        (L2(1.0, adjacency="add-remove"), False, "Level L2: each row", "without it", "whether a certain row is in"),
    ],
)
def test_each_unit_and_adjacency_has_its_words(
    privacy: PrivacySettings, ids: bool, title: str, compared: str, question: str
) -> None:
    card = card_of(privacy, ids)
    assert card.title.startswith(title)
    assert compared in card.protected[1]
    assert question in card.against[0]


def test_there_are_words_for_every_unit_and_adjacency_that_a_ledger_may_have() -> None:
    possible = {(u, a) for u in get_args(Unit) for a in get_args(Adjacency)} - {("party", "swap")}
    possible |= {("row", SAME_ID), ("party", WATCHED)}
    assert possible <= COMPARED.keys()
    assert COMPARED.keys() == QUESTIONS.keys()


def test_a_row_that_version_0_1_identified_by_an_id_is_compared_under_that_id() -> None:
    ledger = calibrate(L2(1.0), Spending(votes=Votes(50, 3, 1, 25)), True).ledger().model_copy(update={"unit": "row"})
    card = guarantee_card(ledger)
    assert "under the same row ID" in card.protected[1]
    assert "which ones" in "".join(card.not_protected)


def test_the_audience_comes_from_the_ledger() -> None:
    at_l1, at_l2 = card_of(L1(1.0)), card_of(L2(1.0))
    assert at_l1.from_whom[0].startswith("Everyone who sees the final model")
    assert at_l1.not_protected[0].startswith("Anything from the server")
    assert at_l1.not_protected[0].endswith("otherwise, all who can read the box.")  # a key protects encrypted ones only
    assert at_l2.from_whom[0].startswith("The server that counts")
    assert not any("exact votes" in sentence for sentence in at_l2.not_protected)
    ledger = calibrate(L2(1.0), Spending(votes=Votes(50, 3, 1, 25)), True).ledger()
    other = guarantee_card(ledger.model_copy(update={"released_to": "the auditors"}))
    assert other.from_whom == ["The auditors."]
    assert not any("cost nothing more" in sentence for sentence in other.how_often)
    two = guarantee_card(ledger.model_copy(update={"released_to": TALLY_SERVERS}))
    assert any("Either of the two servers alone" in sentence for sentence in two.from_whom)
    assert two.not_protected[0].startswith("Anything from both servers together")
    for card in (at_l2, other, two):  # "more parties than stated above" must be stated
        assert any("nobody's rows are at more than one party" in sentence for sentence in card.how_often)
    assert not any("nobody's rows" in sentence for sentence in at_l1.how_often)


def test_no_card_promises_to_hide_from_two_servers_who_casts_a_ballot() -> None:
    """Servers compare lists of ballots, with names and abstentions."""
    ledger = calibrate(L1(1.0), Spending(votes=Votes(50, 3, 1, 25)), True).ledger()
    one, two = guarantee_card(ledger), guarantee_card(ledger.model_copy(update={"released_to": TALLY_SERVERS}))
    assert "abstention" in one.protected[1]
    assert "abstention" not in two.protected[1]
    assert "whether it abstained" not in two.against[0]
    assert any(sentence.startswith("Who casts a ballot, and who abstains") for sentence in two.not_protected)
    assert not any(sentence.startswith("Who casts a ballot") for sentence in one.not_protected)


def test_without_noise_the_card_says_first_that_nothing_is_protected() -> None:
    card = guarantee_card(Ledger())
    assert card.title == "Level L0: nothing is protected"
    assert card.tone == "warning"
    assert card.guess is None
    assert card.epsilon is None
    assert "NOTHING IS PROTECTED" in card.lines()[0]
    assert card.from_whom[0].startswith("From no one")
    assert not any("%" in sentence for sentence in card.lines())


def test_a_rehearsal_is_not_private() -> None:
    card = card_of(L2(1.0, rehearsal=True, noise_seed=3))
    assert "NOT PRIVATE" in card.title
    assert card.tone == "bad"
    assert card.epsilon is None
    assert card.protected == ["Nothing: anyone who knows the seed can remove the noise."]


def test_the_exact_votes_of_a_ballot_at_l1_have_no_guarantee() -> None:
    card = guarantee_card(Ledger(level="L1", unit="party", released_to="the server"))
    assert "exact votes" in card.summary
    assert card.guess is None


@pytest.mark.parametrize("privacy", [L1(1.0), L2(1.0)])
def test_the_limits_that_every_guarantee_has_are_listed(privacy: PrivacySettings) -> None:
    limits = "\n".join(card_of(privacy, True).not_protected)
    for words in (
        "Several elections",
        "looking at private rows",
        "Time:",
        "A party that lies",
        "Public rows",
        "plug-in",
    ):
        assert words in limits
    assert ("exact votes of every party" in limits) == (privacy.level == "L1")
    assert ("several IDs" in limits) == (privacy.level == "L2")
    assert ("That a party takes part" in limits) == (privacy.level == "L2")


def test_the_audiences_of_the_ledger_have_words_of_their_own() -> None:
    from oneballot.privacy.card import AUDIENCES

    assert {BALLOT_READERS, MODEL_USERS} <= AUDIENCES.keys()
