"""Random streams are Philox's and the same everywhere; every epoch shows each row once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from oneballot.errors import ElectionError  # noqa: E402
from oneballot.fleet import draws  # noqa: E402
from oneballot.fleet.train.recipe import ABSENT, Recipe  # noqa: E402


def test_random_streams_never_change() -> None:
    """Every version of NumPy and of OneBallot must reproduce these numbers."""
    assert draws.raw(7, draws.ORDER, 3, 2).tolist() == RAW
    assert draws.order(7, 0, 8).tolist() == ORDER
    np.testing.assert_array_equal(draws.uniform(7, 0, 3), np.array(UNIFORM, dtype=np.float32))
    assert draws.key_of(7, draws.DROPOUT) == KEY


RAW = [14235748561938599882, 10715015893532904190]
ORDER = [3, 1, 6, 2, 5, 4, 0, 7]
UNIFORM = [-0.5671815872192383, 0.10358262062072754, 0.4198113679885864]
KEY = 4446851464712053497


def _plainly(seed: int, what: int, number: int, count: int) -> np.ndarray:
    """A stream from a new generator."""
    counter, key = (np.array(words, dtype=np.uint64) for words in ([0, 0, number, 0], [seed, what]))
    return np.random.Philox(counter=counter, key=key).random_raw(count)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**40), st.integers(1, 300)), min_size=1))
def test_a_stream_does_not_depend_on_what_was_drawn_before(streams: list[tuple[int, int, int]]) -> None:
    for seed, number, count in streams:
        np.testing.assert_array_equal(
            draws.raw(seed, draws.MOVES, number, count), _plainly(seed, draws.MOVES, number, count)
        )
        np.testing.assert_array_equal(
            draws.order(seed, number, count), _plainly(seed, draws.ORDER, number, count).argsort()
        )


def test_the_order_of_many_rows_uses_all_64_bits_in_every_thread() -> None:
    """Among 70,000 rows some share their first 16 bits."""
    with ThreadPoolExecutor(4) as threads:
        for seed, order in enumerate(threads.map(lambda seed: draws.order(seed, 5, 70_000), range(12))):
            np.testing.assert_array_equal(order, _plainly(seed, draws.ORDER, 5, 70_000).argsort())


def test_uniform_and_normal_draws_have_the_right_distribution() -> None:
    u, n = draws.uniform(3, 1, 100_001), draws.normal(3, 1, 100_001)
    assert u.dtype == n.dtype == np.float32
    assert -1 <= u.min() < -0.999
    assert 0.999 < u.max() < 1
    assert abs(u.mean()) < 0.01
    assert abs(u.var() - 1 / 3) < 0.01
    assert abs(n.mean()) < 0.02
    assert abs(n.std() - 1) < 0.01
    assert abs((np.abs(n) < 1).mean() - 0.6827) < 0.01
    assert not np.array_equal(u, draws.uniform(4, 1, 100_001))
    assert not np.array_equal(u, draws.uniform(3, 2, 100_001))


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 4), st.integers(-(2**63), 2**64), st.data())
def test_every_epoch_shows_every_row_once(rows: int, batch: int, epochs: int, seed: int, data: st.DataObject) -> None:
    recipe = Recipe(epochs=epochs, batch=batch)
    steps = recipe.steps_of(rows)
    whole = recipe.places(seed, rows, 0, steps).reshape(epochs, -1)
    for epoch in whole:
        assert sorted(epoch[epoch != ABSENT]) == list(range(rows))
        assert (np.diff((epoch == ABSENT).astype(int)) >= 0).all()  # only the end of an epoch is absent
    first = data.draw(st.integers(0, steps - 1))
    last = data.draw(st.integers(first + 1, steps))
    np.testing.assert_array_equal(recipe.places(seed, rows, first, last), whole.reshape(-1, batch)[first:last])


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 30), st.data())
def test_training_by_steps_shows_rows_in_turn(rows: int, batch: int, steps: int, data: st.DataObject) -> None:
    recipe = Recipe(epochs=3, batch=batch, steps=steps)
    whole = recipe.places(5, rows, 0, steps)
    assert whole.shape == (steps, batch)
    seen = np.bincount(whole.ravel(), minlength=rows)
    assert seen.max() - seen.min() <= 1
    first = data.draw(st.integers(0, steps - 1))
    np.testing.assert_array_equal(recipe.places(5, rows, first, steps), whole[first:])
    assert recipe.epochs_done(rows, steps) == 3


@given(st.integers(1, 20), st.integers(1, 6), st.data())
def test_augmentation_stays_in_reach_and_belongs_to_the_row(rows: int, batch: int, data: st.DataObject) -> None:
    recipe = Recipe(epochs=2, batch=batch, augment=("shift", "flip"))
    steps = recipe.steps_of(rows)
    moves = recipe.moves(9, rows, 0, steps, image=(1, 28, 28))
    assert np.abs(moves[..., :2]).max() <= 2
    assert set(np.unique(moves[..., 2])) <= {0, 1}
    first = data.draw(st.integers(0, steps - 1))
    np.testing.assert_array_equal(recipe.moves(9, rows, first, steps, image=(1, 28, 28)), moves[first:])


def test_all_shifts_and_flips_occur() -> None:
    moves = draws.moves(1, 0, 2000, reach=(2, 2), flip=True)
    assert len(np.unique(moves, axis=0)) == 5 * 5 * 2


def test_the_largest_shift_depends_on_height_and_width() -> None:
    recipe = Recipe(epochs=1, batch=500, augment=("crop",))
    moves = recipe.moves(1, 500, 0, 1, image=(1, 16, 2048))[0, :500]
    assert np.abs(moves).max(axis=0).tolist()[0] == 2
    assert 200 < np.abs(moves[:, 1]).max() <= 256
    assert Recipe(augment=("shift",)).reach((3, 28, 13)) == (2, 0)


def test_few_rows_get_a_narrow_batch_unless_training_by_steps() -> None:
    large = Recipe(epochs=1, batch=60_000)
    assert [large.width(rows) for rows in (1, 33, 60, 64, 65, 10**6)] == [32, 64, 64, 64, 128, 60_000]
    assert large.places(3, 60, 0, 1).shape == (1, 64)
    assert [Recipe(batch=32).width(rows) for rows in (1, 20, 100)] == [32, 32, 32]
    assert {Recipe(batch=100, steps=5).width(rows) for rows in (1, 33, 1000)} == {100}
    with pytest.raises(ElectionError, match="batch must be at most 65,536"):
        Recipe(batch=10**9)


def test_the_learning_rate_falls_along_a_cosine() -> None:
    recipe = Recipe(epochs=4, batch=10, optimizer="sgd", learning_rate=1.0, last_rate=0.2)
    rates = recipe.rates(20, 0, 8)
    np.testing.assert_allclose(rates, np.repeat(0.2 + 0.4 * (1 + np.cos(np.pi * np.arange(4) / 4)), 2))
    assert (Recipe(epochs=4, learning_rate=0.5).rates(20, 0, 4) == 0.5).all()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"epochs": 0}, "epochs must be 1 or more"),
        ({"batch": 0, "steps": 0}, "batch, steps must"),
        ({"optimizer": "lion"}, "there is no optimizer 'lion'; there are adam, adamw, sgd"),
        ({"precision": "int8"}, "there is no precision"),
        ({"augment": ("rotate",)}, "there is no augmentation rotate"),
    ],
    ids=str,
)
def test_an_invalid_recipe_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ElectionError, match=says):
        Recipe(**settings)  # type: ignore[arg-type]


def test_hashed_numbers_have_the_right_distribution_and_depend_on_key_step_and_stream() -> None:
    keys = torch.tensor([draws.key_of(seed, draws.DISTIL) for seed in (1, 2)])
    step, cpu = torch.tensor(5), torch.device("cpu")
    flat = draws.fractions(keys, step, 3, (20_000,), cpu)
    assert 0 < flat.min() <= flat.max() <= 1
    np.testing.assert_allclose(flat.mean(1).numpy(), 0.5, atol=0.01)
    bell = draws.normals(keys, step, 3, (20_000,), cpu).double()
    np.testing.assert_allclose(bell.mean(1).numpy(), 0, atol=0.03)
    np.testing.assert_allclose(bell.std(1).numpy(), 1, atol=0.03)
    np.testing.assert_allclose((bell**4).mean(1).numpy(), 3, atol=0.3)
    assert abs(torch.corrcoef(bell)[0, 1]) < 0.03
    for other in (draws.normals(keys, step + 1, 3, (20_000,), cpu), draws.normals(keys, step, 4, (20_000,), cpu)):
        assert abs(torch.corrcoef(torch.stack([bell[0], other[0].double()]))[0, 1]) < 0.03
    alone = draws.normals(keys[1:], step, 3, (20_000,), cpu)
    assert torch.equal(alone[0].double(), bell[1])
