"""Opinions become few bits and exact sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneballot.errors import Spoiled
from oneballot.methods.fedkt.votes import EVEN, LEAST, Labels, Levels, Weighted, evened, odds, pack, unpack
from oneballot.types import Count


@given(st.integers(1, 17), st.data())
def test_packed_numbers_come_back(bits: int, data) -> None:
    values = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=40)), dtype=np.int64)
    packed = pack(values, bits)
    assert len(packed) == (len(values) * bits + 7) // 8
    assert np.array_equal(unpack(packed, bits, len(values)), values)


def opinion(partitions: int, queries: int, columns: int, seed: int = 0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), size=(partitions, queries))


class TestLabels:
    @pytest.mark.parametrize(
        ("classes", "bits"), [(2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (10, 4), (100, 7), (1000, 10)]
    )
    def test_a_label_takes_as_few_bits_as_there_are_answers(self, classes: int, bits: int) -> None:
        assert Labels(classes, 1, False).bits == bits == int(np.ceil(np.log2(classes + 1)))

    def test_majority_gives_a_point_for_each_partition(self) -> None:
        notation, said = Labels(3, 4, unanimous=False), opinion(4, 50, 3)
        points = notation.points(notation.write(said), 50)
        expected = np.stack([np.bincount(said[:, q].argmax(1), minlength=3) for q in range(50)])
        assert np.array_equal(points, expected)

    def test_consistent_voting_counts_a_party_once_and_only_if_its_partitions_agree(self) -> None:
        notation = Labels(3, 2, unanimous=True)
        labels = np.array([[0, 1, 2, 2], [0, 2, 2, 1]])
        points = notation.points(notation.write(np.eye(3)[labels]), 4)
        assert points.astype(int).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]

    def test_not_mine_is_no_vote(self) -> None:
        notation = Labels(3, 1, unanimous=False)
        points = notation.points(notation.write(np.eye(4)[np.array([[3, 1]])]), 2)
        assert points.astype(int).tolist() == [[0, 0, 0], [0, 1, 0]]

    def test_a_class_that_does_not_exist_is_spoiled(self) -> None:
        with pytest.raises(Spoiled, match="class number 15"):
            Labels(10, 1, False).points(np.full(2, 255, np.uint8), 4)


class TestWeighted:
    def test_a_row_takes_four_bits_more_than_its_class(self) -> None:
        assert [Weighted(k, 1).bits for k in (2, 10, 16, 17)] == [5, 8, 8, 9]

    def test_points_are_the_odds_to_the_next_power_of_two(self) -> None:
        said = opinion(1, 200, 11)
        points = Weighted(10, 1).points(Weighted(10, 1).write(said), 200)
        best = odds(said)[0]
        assert np.array_equal(points.argmax(1), best.argmax(1))
        expected = np.clip(np.log2(best.max(1)), -8, 7)
        assert np.abs(np.log2(points.max(1)) - 8 - expected).max() <= 0.5

    def test_partitions_add_up(self) -> None:
        said = opinion(3, 20, 5)
        together = Weighted(4, 3).points(Weighted(4, 3).write(said), 20)
        apart = sum(Weighted(4, 1).points(Weighted(4, 1).write(said[j : j + 1]), 20) for j in range(3))
        assert np.array_equal(together, apart)

    def test_a_class_that_does_not_exist_is_spoiled(self) -> None:
        with pytest.raises(Spoiled, match="class number 15"):
            Weighted(10, 1).points(np.full(4, 255, np.uint8), 4)


class TestLevels:
    def test_probabilities_come_back_to_within_a_step(self) -> None:
        said = opinion(2, 30, 5)
        points = Levels(5, 2, odds=False).points(Levels(5, 2, odds=False).write(said), 30)
        assert np.abs(points / 255 - said.sum(0)).max() <= 1 / 255

    def test_odds_come_back_to_within_a_twelfth(self) -> None:
        said = np.clip(opinion(1, 30, 6), LEAST, 1)
        points = Levels(5, 1, odds=True).points(Levels(5, 1, odds=True).write(said), 30)
        ratio = points / 2**24 / odds(said)[0]
        assert np.abs(np.log2(ratio)).max() <= 1 / 16 + 0.01

    def test_a_byte_a_class_and_no_more(self) -> None:
        assert Levels(5, 2, odds=True).write(opinion(2, 30, 6)).nbytes == 2 * 30 * 5


@given(st.integers(2, 12), st.integers(1, 3), st.integers(1, 20), st.integers(2, 6), st.randoms())
def test_sums_are_exact_in_any_order_and_a_party_can_be_taken_out(
    classes, partitions, queries, parties, random
) -> None:
    for notation in (
        Labels(classes, partitions, unanimous=False), Labels(classes, partitions, unanimous=True),
        Weighted(classes, partitions), Levels(classes, partitions, odds=True),
    ):  # fmt: skip
        written = [notation.write(opinion(partitions, queries, classes + 1, seed)) for seed in range(parties)]
        points = [notation.points(w, queries) for w in written]
        forward, shuffled = Count(), Count()
        for p in points:
            forward += Count({"votes": p})
        order = list(range(parties))
        random.shuffle(order)
        for i in [*order, 0]:
            shuffled += Count({"votes": points[i]})
        shuffled -= Count({"votes": points[0]})
        assert np.array_equal(forward.sums["votes"], shuffled.sums["votes"])
        assert forward.sums["votes"].dtype == np.int64


class TestEqualInfluence:
    @given(st.integers(1, 60), st.integers(2, 6), st.integers(0, 1000))
    def test_every_ballot_adds_a_vote_a_row(self, rows: int, classes: int, seed: int) -> None:
        points = np.random.default_rng(seed).integers(0, 2**15, size=(rows, classes))
        points[0, 0] = 1  # it says something
        assert abs(evened(points).sum() - rows * EVEN) <= points.size / 2
        assert np.allclose(evened(points) / EVEN, points / points.sum() * rows, atol=1e-6)

    def test_a_ballot_without_a_vote_adds_nothing(self) -> None:
        assert not evened(np.zeros((5, 3), dtype=np.int64)).any()

    def test_who_claims_every_row_as_surely_as_can_be_is_outvoted_by_who_claims_its_own(self) -> None:
        notation, lot = Levels(3, 1, odds=True), np.random.default_rng(0)
        truth = lot.integers(0, 3, 300)
        honest = []
        for part in np.array_split(np.arange(300), 6):  # each party knows a sixth of the rows
            said = np.zeros((1, 300, 4))
            said[0, :, 3] = 1
            said[0, part] = np.eye(4)[truth[part]] * 0.7 + 0.3 * np.eye(4)[3]
            honest.append(notation.points(notation.write(said), 300))
        lie = notation.points(notation.write(np.eye(4)[(truth + 1) % 3][None]), 300)
        assert np.mean((sum(honest) + lie).argmax(axis=1) == truth) < 0.01
        assert np.mean((sum(map(evened, honest)) + evened(lie)).argmax(axis=1) == truth) > 0.99
