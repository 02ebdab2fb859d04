"""Encodings of votes: their size, what they decode to, and what is spoiled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneballot.errors import Spoiled
from oneballot.methods.fedkt.votes import (
    CLAIM,
    EVEN,
    LEAST,
    SURE,
    SURE_OF_CLASSES,
    Labels,
    Levels,
    Weighted,
    equal_influence,
    odds,
)
from oneballot.types import Array, Count


def random_probabilities(partitions: int, queries: int, columns: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), size=(partitions, queries))


class TestLabels:
    @pytest.mark.parametrize(
        ("classes", "bits"), [(2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (10, 4), (100, 7), (1000, 10)]
    )
    def test_a_label_takes_log2_of_the_classes_and_no_vote(self, classes: int, bits: int) -> None:
        assert Labels(classes, 1, False).bits == bits == int(np.ceil(np.log2(classes + 1)))

    def test_majority_voting_counts_each_partition(self) -> None:
        encoding, probabilities = Labels(3, 4, unanimous=False), random_probabilities(4, 50, 3)
        votes = encoding.decode(encoding.encode(probabilities), 50)
        expected = np.stack([np.bincount(probabilities[:, q].argmax(1), minlength=3) for q in range(50)])
        assert np.array_equal(votes, expected)

    def test_consistent_voting_counts_a_party_once_if_its_partitions_agree(self) -> None:
        encoding = Labels(3, 2, unanimous=True)
        labels = np.array([[0, 1, 2, 2], [0, 2, 2, 1]])
        votes = encoding.decode(encoding.encode(np.eye(3)[labels]), 4)
        assert votes.astype(int).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]

    def test_not_mine_is_no_vote(self) -> None:
        encoding = Labels(3, 1, unanimous=False)
        votes = encoding.decode(encoding.encode(np.eye(4)[np.array([[3, 1]])]), 2)
        assert votes.astype(int).tolist() == [[0, 0, 0], [0, 1, 0]]

    def test_a_class_that_does_not_exist_is_spoiled(self) -> None:
        with pytest.raises(Spoiled, match="class number 15: expected numbers below 11"):
            Labels(10, 1, False).decode(np.full(2, 255, np.uint8), 4)


class TestWeighted:
    def test_a_row_takes_four_bits_more_than_its_class(self) -> None:
        assert [Weighted(k, 1).bits for k in (2, 10, 16, 17)] == [5, 8, 8, 9]

    def test_votes_are_the_odds_rounded_to_a_power_of_two(self) -> None:
        probabilities = random_probabilities(1, 200, 11)
        votes = Weighted(10, 1).decode(Weighted(10, 1).encode(probabilities), 200)
        best = odds(probabilities)[0]
        assert np.array_equal(votes.argmax(1), best.argmax(1))
        expected = np.clip(np.log2(best.max(1)), -8, 7)
        assert np.abs(np.log2(votes.max(1)) - 8 - expected).max() <= 0.5

    def test_the_votes_of_partitions_add_up(self) -> None:
        probabilities = random_probabilities(3, 20, 5)
        together = Weighted(4, 3).decode(Weighted(4, 3).encode(probabilities), 20)
        one = Weighted(4, 1)
        assert np.array_equal(together, sum(one.decode(one.encode(p[None]), 20) for p in probabilities))

    def test_a_class_that_does_not_exist_is_spoiled(self) -> None:
        with pytest.raises(Spoiled, match="class number 15: expected numbers below 10"):
            Weighted(10, 1).decode(np.full(4, 255, np.uint8), 4)


class TestLevels:
    def test_probabilities_are_decoded_to_within_one_step(self) -> None:
        probabilities, encoding = random_probabilities(2, 30, 5), Levels(5, 2, odds=False)
        votes = encoding.decode(encoding.encode(probabilities), 30)
        assert np.abs(votes / 255 - probabilities.sum(0)).max() <= 1 / 255

    def test_odds_are_decoded_to_within_a_sixteenth_of_an_octave(self) -> None:
        probabilities, encoding = np.clip(random_probabilities(1, 30, 6), LEAST, 1), Levels(5, 1, odds=True)
        votes = encoding.decode(encoding.encode(probabilities), 30)
        assert np.abs(np.log2(votes / 2**24 / odds(probabilities)[0])).max() <= 1 / 16 + 0.01

    def test_a_class_takes_one_byte(self) -> None:
        assert Levels(5, 2, odds=True).encode(random_probabilities(2, 30, 6)).nbytes == 2 * 30 * 5


@given(st.integers(2, 12), st.integers(1, 3), st.integers(1, 20), st.integers(2, 6), st.randoms())
def test_sums_are_exact_in_any_order_and_a_party_can_be_subtracted(
    classes, partitions, queries, parties, random
) -> None:
    for encoding in (
        Labels(classes, partitions, unanimous=False),
        Labels(classes, partitions, unanimous=True),
        Labels(classes, partitions, unanimous=False, second=True),
        Labels(classes, partitions, unanimous=True, second=True),
        Weighted(classes, partitions),
        Weighted(classes, partitions, second=True),
        Levels(classes, partitions, odds=True),
        Levels(classes, partitions, odds=True, second=True),
    ):
        ballots = [random_probabilities(partitions, queries, classes + 1, seed) for seed in range(parties)]
        votes = [encoding.decode(encoding.encode(ballot), queries) for ballot in ballots]
        forward, shuffled = Count(), Count()
        for one in votes:
            forward += Count({"votes": one})
        order = list(range(parties))
        random.shuffle(order)
        for i in [*order, 0]:
            shuffled += Count({"votes": votes[i]})
        shuffled -= Count({"votes": votes[0]})
        assert np.array_equal(forward.sums["votes"], shuffled.sums["votes"])
        assert forward.sums["votes"].dtype == np.int64


class TestSecondChoice:
    """Rows: two claims of class 1, a row of another domain that looks like class 2, and one that looks like nothing."""

    KNOWN = np.array([[[0, 0.9, 0, 0.1], [0, 0.3, 0.2, 0.5], [4e-9, 0, 3e-9, 1], [0, 0, 0, 1]]])
    SECOND = np.array([[[0, 1, 0], [0.2, 0.5, 0.3], [0.25, 0, 0.75], [0, 0, 0]]])
    ENCODINGS = (
        Labels(3, 1, unanimous=False, second=True),
        Weighted(3, 1, second=True),
        Levels(3, 1, odds=True, second=True),
    )

    @pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: type(encoding).__name__)
    def test_a_row_that_is_not_mine_gets_the_next_best_class_and_a_row_like_nothing_no_vote(self, encoding) -> None:
        votes = encoding.decode(encoding.encode(self.KNOWN, self.SECOND), 4)
        assert votes.argmax(axis=1)[[0, 2]].tolist() == [1, 2]
        assert not votes[3].any()
        assert 0 < votes[2].max() <= SURE < CLAIM <= votes[0].max()

    def test_it_weighs_its_probability_and_at_most_one_vote_a_party(self) -> None:
        encoding, levels = Weighted(3, 1, second=True), Levels(3, 1, odds=True, second=True)
        votes = encoding.decode(encoding.encode(self.KNOWN, self.SECOND), 4)
        assert votes[1:].tolist() == [[0, votes[1, 1], 0], [0, 0, 11], [0, 0, 0]]
        assert levels.decode(levels.encode(self.KNOWN, self.SECOND), 4)[2].tolist() == [3, 0, 9]
        for parts, one in ((SURE, encoding), (SURE_OF_CLASSES, levels)):
            certain = np.tile(np.eye(3)[1], (1, 4, 1))
            assert one.decode(one.encode(self.KNOWN, certain), 4)[2:].tolist() == [[0, parts, 0]] * 2

    def test_a_second_choice_among_very_many_classes_still_counts(self) -> None:
        even = np.full((1, 2, 100), 0.01)
        even[..., 7] += 1e-6
        encoding, unknown = Weighted(100, 1, second=True), np.tile(np.eye(101)[100], (1, 2, 1))
        votes = encoding.decode(encoding.encode(unknown, even), 2)
        assert votes.argmax(axis=1).tolist() == [7, 7]
        assert votes.sum() == 2

    def test_the_second_choices_of_the_most_ballots_do_not_outweigh_one_claim_of_even_odds(self) -> None:
        for encoding in (Weighted(3, 1, second=True), Levels(3, 1, odds=True, second=True)):
            claim = encoding.decode(encoding.encode(np.array([[[0.5, 0, 0, 0.5]]])), 1).max()
            assert claim == 256 * CLAIM > 10**6 * max(SURE, SURE_OF_CLASSES)

    def test_claims_are_those_of_votes_without_a_second_choice(self) -> None:
        probabilities = random_probabilities(3, 200, 5)
        pairs = [(Labels(4, 3, False), Labels(4, 3, False, second=True), CLAIM)]
        pairs += [(Labels(4, 3, True), Labels(4, 3, True, second=True), CLAIM)]
        pairs += [(Weighted(4, 3), Weighted(4, 3, second=True), CLAIM)]
        for plain, second, unit in pairs:
            before = plain.decode(plain.encode(probabilities), 200).astype(np.int64)
            after = second.decode(second.encode(probabilities, random_probabilities(3, 200, 4, seed=1)), 200)
            lowest = (before == 1) if isinstance(plain, Weighted) else np.zeros_like(before, dtype=bool)
            assert np.array_equal((after // unit)[~lowest], before[~lowest])

    def test_partitions_that_agree_on_a_class_but_not_on_the_claim_make_a_second_choice(self) -> None:
        encoding = Labels(2, 2, unanimous=True, second=True)
        probabilities = np.array([[[0.9, 0, 0.1]] * 3, [[0.9, 0, 0.1], [0.2, 0.1, 0.7], [0.1, 0.2, 0.7]]])
        votes = encoding.decode(encoding.encode(probabilities, np.array([[[0.8, 0.2]] * 2 + [[0.4, 0.6]]] * 2)), 3)
        assert votes.tolist() == [[CLAIM, 0], [1, 0], [0, 0]]

    def test_it_takes_one_bit_more(self) -> None:
        assert [Weighted(k, 1, second=True).bits for k in (2, 10, 16, 17)] == [6, 9, 9, 10]
        assert [Labels(k, 1, False, second=True).bits for k in (2, 10)] == [3, 5]
        assert Levels(3, 1, odds=True, second=True).size(5) == Levels(3, 1, odds=True).size(5)

    def test_random_bytes_are_votes_within_the_bounds_or_spoiled(self) -> None:
        rng = np.random.default_rng(0)
        for encoding in self.ENCODINGS:
            for _ in range(50):
                try:
                    votes = encoding.decode(rng.integers(0, 256, encoding.size(9), dtype=np.uint8), 9)
                except Spoiled:
                    continue
                assert votes.min() >= 0
                assert votes.max() <= encoding.most


class TestEqualInfluence:
    @given(st.integers(1, 60), st.integers(2, 6), st.integers(0, 1000))
    def test_every_ballot_adds_one_vote_per_row(self, rows: int, classes: int, seed: int) -> None:
        votes = np.random.default_rng(seed).integers(0, 2**15, size=(rows, classes))
        votes[0, 0] = 1  # at least one vote
        assert abs(equal_influence(votes).sum() - rows * EVEN) <= votes.size / 2
        assert np.allclose(equal_influence(votes) / EVEN, votes / votes.sum() * rows, atol=1e-6)

    def test_a_ballot_without_votes_adds_nothing(self) -> None:
        assert not equal_influence(np.zeros((5, 3), dtype=np.int64)).any()

    def test_a_party_that_claims_every_row_is_outvoted_by_parties_that_claim_their_own(self) -> None:
        encoding, rng = Levels(3, 1, odds=True), np.random.default_rng(0)
        truth = rng.integers(0, 3, 300)
        honest = []
        for part in np.array_split(np.arange(300), 6):  # each party knows a sixth of the rows
            probabilities = np.zeros((1, 300, 4))
            probabilities[0, :, 3] = 1
            probabilities[0, part] = np.eye(4)[truth[part]] * 0.7 + 0.3 * np.eye(4)[3]
            honest.append(encoding.decode(encoding.encode(probabilities), 300))
        lie = encoding.decode(encoding.encode(np.eye(4)[(truth + 1) % 3][None]), 300)
        assert np.mean((sum(honest) + lie).argmax(axis=1) == truth) < 0.01
        assert np.mean((sum(map(equal_influence, honest)) + equal_influence(lie)).argmax(axis=1) == truth) > 0.99
