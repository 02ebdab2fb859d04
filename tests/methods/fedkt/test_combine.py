"""What one ballot may weigh: parties that lie about everything, about one class, or about their rows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.election.advice import advise
from oneballot.election.file import make
from oneballot.errors import ElectionError
from oneballot.methods._combine import MOST_SHARE, PartyVotes
from oneballot.party.cast import cast_together
from oneballot.server.context import TallyContext
from oneballot.server.tally import tally
from oneballot.simulation import divide

ROWS, CLASSES = 400, 4
TRUTH = np.arange(ROWS) % CLASSES


def honest(parties: int, seed: int = 0) -> list[np.ndarray]:
    """Votes of parties that claim the rows of three classes strongly and, nine times in ten, name the right class."""
    rng, votes = np.random.default_rng(seed), []
    for party in range(parties):
        label = np.where(rng.random(ROWS) < 0.9, TRUTH, rng.integers(CLASSES, size=ROWS))
        claim = np.where(party % CLASSES == TRUTH, 4, 64)
        votes.append((label[:, None] == np.arange(CLASSES)) * claim[:, None])
    return votes


def combined(votes: list[np.ndarray], *, bounded: bool = True, seen: np.ndarray | None = None):
    names = tuple(f"party-{i}" for i in range(len(votes)))
    return PartyVotes(names, votes.__getitem__, ROWS, CLASSES, seen, bounded).combine(np.arange(len(votes)))


def right(votes: np.ndarray) -> float:
    return float((votes.argmax(axis=1) == TRUTH).mean())


def one_hot(labels: np.ndarray, weight: int) -> np.ndarray:
    return (labels[:, None] == np.arange(CLASSES)) * weight


LIES = {
    "shift": (TRUTH + 1) % CLASSES,
    "one class": np.zeros(ROWS, dtype=int),
    "random": np.random.default_rng(9).integers(CLASSES, size=ROWS),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("parties", [10, 20])
def test_one_liar_in_ten_that_claims_every_row_changes_almost_nothing(lie: str, parties: int) -> None:
    liars = parties // 10
    votes = honest(parties - liars) + [one_hot(LIES[lie], 2**15)] * liars
    assert right(combined(votes, bounded=False).votes) < 0.5, "it decides if its claims are believed"
    assert right(combined(votes).votes) > right(combined(votes[:-liars]).votes) - 0.02


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(("parties", "liars"), [(12, 3), (20, 4), (20, 6)])
def test_several_liars_that_agree_change_almost_nothing(lie: str, parties: int, liars: int) -> None:
    votes = honest(parties - liars) + [one_hot(LIES[lie], 2**15)] * liars
    assert right(combined(votes).votes) > right(combined(votes[:-liars]).votes) - 0.02


def test_liars_that_agree_do_not_win_where_ballots_state_class_counts() -> None:
    counts = np.full((12, CLASSES), 25)
    counts[8:] = 10**6
    lie = one_hot((TRUTH + 1) % CLASSES, 1)
    votes = [one_hot(TRUTH, 1) * counts[0]] * 8 + [lie * counts[8]] * 4
    assert right(combined(votes, seen=counts).votes) == 1


@pytest.mark.parametrize("parties", [10, 20])
def test_a_liar_that_spends_everything_on_one_class_does_not_win_it(parties: int) -> None:
    liars = parties // 10
    lie = one_hot((TRUTH + 1) % CLASSES, 2**15) * (TRUTH == 2)[:, None]
    votes = honest(parties - liars) + [lie] * liars
    chosen, before = (combined(some).votes.argmax(axis=1)[TRUTH == 2] for some in (votes, votes[:-liars]))
    assert np.mean(chosen == 2) >= 0.8 * np.mean(before == 2)


def test_the_cap_gives_way_where_few_know_a_class_but_not_for_a_liar() -> None:
    known = TRUTH != 3
    votes = [one if i < 2 else one * known[:, None] for i, one in enumerate(honest(9))]
    found = combined([*votes, one_hot((TRUTH + 1) % CLASSES, 2**15) * ~known[:, None]])
    share = found.weights / found.weights.sum(axis=1, keepdims=True)
    assert found.gives_way[~known].all()
    assert share[~known, :2].min() > MOST_SHARE / 10
    assert share[:, 9].max() <= MOST_SHARE / 10


def test_a_party_that_others_confirm_counts_for_more_than_one_that_they_contradict() -> None:
    votes = honest(10)
    large = [votes[0] * 10, *votes[1:]]
    lying = [one_hot((TRUTH + 1) % CLASSES, 2**15), *votes[1:]]
    sums = [combined(some).scale[0, 0] * some[0].sum() for some in (votes, large, lying)]
    assert sums[1] > sums[0] > sums[2]


def test_plain_votes_of_parties_that_agree_count_as_they_are() -> None:
    votes = [one_hot(np.where(np.arange(ROWS) % 10 == i, (TRUTH + 1) % CLASSES, TRUTH), 1) for i in range(10)]
    assert np.array_equal(combined(votes).votes, sum(votes))


def test_no_party_has_more_than_its_share_of_a_row_that_others_claim() -> None:
    found = combined([*honest(9), one_hot(LIES["shift"], 2**15)])
    share = found.weights.max(axis=1) / found.weights.sum(axis=1)
    assert (share[~found.gives_way] <= MOST_SHARE / 10 + 1e-6).all()


def test_a_class_that_one_party_alone_knows_is_kept_and_its_rows_are_marked() -> None:
    known = TRUTH != 3
    votes = [one * np.where(known, 1, 0)[:, None] for one in honest(9)]
    alone = one_hot(TRUTH, 64) * ~known[:, None]
    found = combined([*votes, alone])
    assert np.array_equal(found.votes.argmax(axis=1)[~known], TRUTH[~known])
    assert found.gives_way[~known].all()


def test_two_parties_with_one_class_each_are_not_capped() -> None:
    votes = [one_hot(TRUTH, 64) * (half == TRUTH % 2)[:, None] for half in (0, 1)]
    assert right(combined(votes).votes) == 1


def test_a_party_that_states_a_million_rows_of_a_class_does_not_win_it() -> None:
    counts = np.full((10, CLASSES), 25)
    counts[9] = [0, 10**6, 0, 0]
    votes = [one_hot(TRUTH, 1) * counts[0]] * 9 + [one_hot(np.ones(ROWS, dtype=int), 1) * counts[9]]
    assert right(combined(votes, seen=counts).votes) == 1


def test_an_election_with_a_liar_keeps_its_accuracy_and_names_the_rows_that_hang_on_one_party(digits) -> None:
    learner = ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 20})
    agreed = {"classes": range(10), "public": digits.public, "learner": learner}
    accuracy = {}
    for influence in ("bounded", "claimed"):
        election = ob.Election(**agreed, method=ob.FedKT(influence=influence))
        ballots = cast_together(election, divide(election.data(digits.X, digits.y), 10, "dirichlet:0.3", seed=4))
        with TallyContext(election) as ctx:
            encoding = election.method.encoding(ctx)
        lie = encoding.encode(np.tile(np.eye(11)[3], (1, len(digits.public), 1)))
        liar = seal({"votes": lie}, election, ballots[0].party)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = tally(election, [liar, *ballots[1:]])
        accuracy[influence] = np.mean(outcome.model.predict(digits.X_test) == digits.y_test)
        texts = " ".join(str(w.message) for w in caught)
        assert ("depend on one party" in texts) == (influence == "bounded")
        assert ('influence = "claimed" a ballot weighs what it claims' in texts) == (influence == "claimed")
    assert accuracy["bounded"] > 0.8
    assert accuracy["claimed"] < 0.2


def test_files_without_the_setting_keep_their_meaning_and_python_is_bounded(make_election) -> None:
    assert make("methods", {"name": "fedkt"}, "x").influence == "claimed"
    assert make_election(method=ob.FedKT()).method.influence == "bounded"
    assert ob.FedKT().for_level("L1").influence == ob.FedKT().for_level("L2").influence == "claimed"
    assert ob.FedKT(open_vote="weighted", students=True).for_level("L2").influence == "equal"
    for level in ("L1", "L2"):
        with pytest.raises(ElectionError, match=f'"bounded" is not available at {level}.*remove it'):
            ob.FedKT(influence="bounded").for_level(level)
        with pytest.raises(ElectionError, match=f"second_choice = true are not available at {level}.*remove them"):
            ob.FedKT(influence="bounded", second_choice=True).for_level(level)


def test_check_says_what_claimed_influence_risks(make_election) -> None:
    for method, risky in [
        (ob.FedKT(), False),
        (ob.FedKT(influence="equal"), False),
        (ob.FedKT(influence="claimed"), True),
        (ob.FedKT(influence="claimed", open_vote="off"), False),
        (ob.FedKT(influence="claimed", open_vote="off", weights="class-counts"), True),
    ]:
        sentences = advise(make_election(method=method), 10)
        assert any("can decide all of them" in sentence for sentence in sentences) == risky
