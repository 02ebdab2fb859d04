"""Several draws of noise: later ones may depend on earlier results, so costs are composed by Rényi divergence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import oneballot as ob
from oneballot.ballot.seal import open_ballot, seal, unseal
from oneballot.errors import Spoiled
from oneballot.privacy.accounting import bounded_range_delta, epsilon, total_epsilon
from oneballot.privacy.calibration import calibrate
from oneballot.privacy.ledger import Ledger
from oneballot.privacy.mechanisms import find
from oneballot.types import Array, Contents, Spending, Votes

DELTA = 1e-5
FORTY = Spending(votes=Votes(40, 2, 1, 25))
BECAUSE = "composed by Rényi divergence, because later draws may depend on earlier results"
PUBLIC = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


def best_attack(eta: float, queries: int, eps: float) -> float:
    """The δ of two draws of so many queries: the second draw's data are chosen after the first has been seen.

    Every query has the two outcomes of the worst case, with losses t and t − η. All t of a draw are the same; those of
    the second depend on how often the first draw's loss was t. Nothing is approximated but the choice of t: a grid.
    """
    t = np.linspace(0, eta, 402)[1:-1]
    p = np.expm1(t - eta) / np.expm1(-eta)
    ups = np.arange(queries + 1)
    law = binom.pmf(ups, queries, p[:, None])  # (t, ups)
    loss = ups * t[:, None] + (queries - ups) * (t[:, None] - eta)

    def second(spent: float) -> float:
        return float((law * np.maximum(-np.expm1(np.minimum(eps - spent - loss, 0)), 0)).sum(axis=1).max())

    return max(float(sum(law[i, k] * second(loss[i, k]) for k in ups)) for i in range(0, len(t), 8))


@pytest.mark.parametrize(("eta", "delta"), [(0.5, 1e-3), (0.3, 1e-3), (0.5, 1e-4)])
def test_an_adaptive_attack_exceeds_tight_and_not_renyi(eta: float, delta: float) -> None:
    """Ten queries a draw; the attack knows the first draw when it chooses the second."""
    once, queries = find("gumbel")(2 / eta, 2, 2), 10
    tight, renyi = (epsilon(once, 2 * queries, delta, accountant) for accountant in ("tight", "rdp"))
    assert bounded_range_delta(eta, 2 * queries, tight) == pytest.approx(delta, rel=1e-6)
    assert best_attack(eta, queries, tight) > 1.01 * delta, "the attack is weak: tight would have been enough"
    assert best_attack(eta, queries, renyi) <= delta


def test_several_draws_are_composed_by_renyi_divergence_and_one_is_not() -> None:
    once = calibrate(ob.L2(gamma=0.04), FORTY, True).ledger()
    query = find("laplace")(25, 2, 2)
    assert (once.accountant, once.drawn) == ("tight", 1)
    assert once.epsilon == pytest.approx(0.9349, abs=5e-5)
    assert BECAUSE not in once.describe()
    twice = once.times(2)
    assert (twice.accountant, twice.drawn) == ("rdp", 2)
    assert twice.epsilon == pytest.approx(epsilon(query, 80, DELTA, "rdp"))
    assert twice.epsilon > 1.03 * epsilon(query, 80, DELTA)
    assert BECAUSE in twice.describe()
    assert twice.epsilon_at(1e-6) == pytest.approx(epsilon(query, 80, 1e-6, "rdp"))


@pytest.mark.parametrize("accountant", ["rdp", "paper", "advanced"])
def test_other_accountants_add_draws_up_themselves(accountant: str) -> None:
    once = calibrate(ob.L2(gamma=0.04, accountant=accountant), FORTY, True).ledger()
    twice = once.times(2)
    assert twice.accountant == accountant
    assert twice.epsilon == pytest.approx(epsilon(find("laplace")(25, 2, 2), 80, DELTA, accountant))


def test_silos_of_one_person_are_fixed_in_advance_and_stay_tight() -> None:
    once = calibrate(ob.L2(gamma=0.04, max_silos_per_person=2), FORTY, True).ledger()
    both = once.times(1, silos=2)
    assert both.accountant == "tight"
    assert both.epsilon == pytest.approx(epsilon(find("laplace")(25, 2, 2), 80, DELTA))
    recast = once.times(2, silos=2)
    assert recast.accountant == "rdp"
    assert recast.epsilon == pytest.approx(epsilon(find("laplace")(25, 2, 2), 160, DELTA, "rdp"))


@pytest.mark.parametrize("settings", [{}, {"mechanism": "gumbel"}, {"mechanism": "laplace"}, {"mechanism": "gaussian"}])
def test_the_budget_of_planned_tallies_is_what_the_last_ledger_states(settings: dict[str, str]) -> None:
    """No more and hardly less: calibration and ledger compose alike."""
    guarantee = calibrate(ob.L1(2.0, tallies=3, **settings), FORTY, False)
    last = guarantee.ledger().times(3)
    assert last.accountant == "rdp"
    assert guarantee.epsilon() == last.epsilon
    assert 1.9999 < last.epsilon <= 2
    single = calibrate(ob.L1(2.0, **settings), FORTY, False)
    assert single.ledger().accountant == "tight"


def test_a_budget_and_noise_buy_the_queries_of_all_planned_tallies() -> None:
    guarantee = calibrate(ob.L1(2.0, tallies=2, scale=30.0), Spending(votes=Votes(4000, 2, 1, 25)), False)
    query, queries = guarantee.query, guarantee.queries
    assert epsilon(query, 2 * queries, DELTA, "rdp") <= 2 < epsilon(query, 2 * (queries + 1), DELTA, "rdp")
    assert total_epsilon([(query, 2 * (queries + 1))], DELTA) < 2, "the test could not tell the two compositions apart"


# Real casts and tallies


def election_at(privacy: object) -> ob.Election:
    learner = ob.Sklearn("GaussianNB")
    return ob.Election([0, 1], PUBLIC, ob.FedKT(), learner, privacy=privacy, server_key="none")


def rows(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(int)


def test_a_recast_ballot_and_its_outcome_state_the_renyi_epsilon() -> None:
    election = election_at(ob.L2(gamma=0.04))
    ballots = [ob.cast(election, *rows(0), party="a", casts=number) for number in (1, 2)]
    assert [ballot.ledger.accountant for ballot in ballots] == ["tight", "rdp"]
    assert ballots[0].ledger.epsilon < ballots[1].ledger.epsilon
    outcome = ob.tally(election, [ballots[1], ob.cast(election, *rows(1), party="b")])
    assert outcome.ledger == election.ballot_ledger.times(2) == ballots[1].ledger
    assert BECAUSE in outcome.ledger.describe()


def test_a_second_tally_states_the_renyi_epsilon() -> None:
    election = election_at(ob.L1(gamma=0.04))
    ballots = [ob.cast(election, *rows(seed), party=f"p{seed}") for seed in range(3)]
    first = ob.tally(election, ballots[:2])
    late = ob.tally(election, ballots, previous=first)
    assert (first.ledger.accountant, late.ledger.accountant) == ("tight", "rdp")
    assert BECAUSE in late.ledger.describe()
    assert late.ledger.epsilon == epsilon(election.guarantee.query, 2 * len(PUBLIC), DELTA, "rdp")
    assert first.with_draws(2).ledger == late.ledger


# What older versions wrote


def as_before_0_7(ledger: Ledger, draws: int) -> Ledger:
    """A ballot's ledger after several casts, as version 0.6 computed it."""
    lines = tuple(line.model_copy(update={"times": line.times * draws}) for line in ledger.lines)
    spent = total_epsilon([(line.release, line.times) for line in lines], DELTA, "tight")
    return ledger.model_copy(update={"lines": lines, "drawn": draws, "epsilon": spent})


def resealed(election: ob.Election, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> bytes:
    from oneballot.ballot import seal as module

    contents: Contents = ob.cast(election, *rows(0), party="a").contents
    with monkeypatch.context() as patch:
        patch.setattr(module, "_ledger", lambda *_: ledger)
        return seal(contents, election, "a").sealed


@pytest.mark.parametrize("draws", [2, 5, 20])
def test_an_old_ballot_of_a_later_cast_counts_and_the_outcome_states_more(draws: int, monkeypatch) -> None:
    election = election_at(ob.L2(gamma=0.04))
    old = as_before_0_7(election.ballot_ledger, draws)
    sealed = resealed(election, old, monkeypatch)
    assert open_ballot(sealed).manifest.privacy == old
    assert unseal(sealed, election).casts == draws
    assert "not proved for draws that may depend on earlier results" in "\n".join(old.describe())
    outcome = ob.tally(election, [sealed])
    assert not outcome.spoiled
    assert outcome.ledger == election.ballot_ledger.times(draws)
    assert outcome.ledger.epsilon > old.epsilon


def test_an_old_ballot_may_not_claim_less_than_it_did(monkeypatch) -> None:
    election = election_at(ob.L2(gamma=0.04))
    old = as_before_0_7(election.ballot_ledger, 2)
    for changed in ({"epsilon": 0.99 * old.epsilon}, {"drawn": 3}, {"accountant": "rdp"}):
        forged = old.model_copy(update=changed)
        with pytest.raises(Spoiled, match="its ledger is not the election's"):
            unseal(resealed(election, forged, monkeypatch), election)


def test_an_earlier_tally_with_less_noise_is_charged_with_its_own(make_noise: Callable[[float], Ledger]) -> None:
    """Version 0.6 calibrated planned tallies by `tight`, with a little less noise: the sum must cover it."""
    election = election_at(ob.L1(2.0, tallies=2, mechanism="gumbel"))
    ballots = [ob.cast(election, *rows(seed), party=f"p{seed}") for seed in range(3)]
    scale = election.guarantee.query.scale
    for share in (0.96, 1.0):
        first = ob.tally(election, ballots[:2])
        first = replace(first, ledger=make_noise(share * scale))
        second = ob.tally(election, ballots, previous=first)
        (line,) = second.ledger.lines
        assert line.scale == pytest.approx(share * scale, rel=1e-6)
        assert second.ledger.epsilon == pytest.approx(epsilon(line.release, 2 * len(PUBLIC), DELTA, "rdp"))
        assert (second.ledger.epsilon > 2) == (share < 1)
        third = ob.tally(election, ballots, previous=second, over_budget=True)
        assert third.ledger.epsilon == pytest.approx(epsilon(line.release, 3 * len(PUBLIC), DELTA, "rdp"))


@pytest.fixture
def make_noise() -> Callable[[float], Ledger]:
    def ledger(scale: float) -> Ledger:
        return calibrate(ob.L1(scale=scale, mechanism="gumbel"), Spending(votes=Votes(40, 2, 1, 1)), False).ledger()

    return ledger
