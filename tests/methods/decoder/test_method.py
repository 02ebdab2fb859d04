"""Decoders, end to end: parties of every kind, a liar's share, invalid ballots, the same bytes alone and together."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import ElectionError, Spoiled
from oneballot.methods.decoder.draw import bound_numbers, rows_to_make
from oneballot.methods.decoder.format import DecoderWeights, Expected
from oneballot.methods.decoder.layout import Layout, Sizes
from oneballot.methods.decoder.work import Recipe, TrainWork
from oneballot.runtime.progress import report_progress_to
from oneballot.server.context import TallyContext
from oneballot.simulation import simulate_parties
from oneballot.types import Blob, Data

torch = pytest.importorskip("torch")

from oneballot.methods.decoder.train import fit_classes, train, train_wave  # noqa: E402

SMALL = ob.Decoder(steps=150, hidden=64, latent=4, batch=64)
TINY = ob.Decoder(steps=3, hidden=4, latent=2, batch=8)


def make(method: ob.Decoder = TINY, **settings: Any) -> ob.Election:
    given = {"classes": range(10), "public": np.zeros((2, 64), dtype=np.float32), "learner": ob.Kernel(), **settings}
    return ob.Election(**given, method=method)


@pytest.fixture(scope="module")
def rows(digits: Any) -> Data:
    return Data((digits.X / 16).astype(np.float32), digits.y)


def test_the_final_model_knows_the_classes_of_all_parties(rows: Data, digits: Any) -> None:
    held = {f"p{i}": rows.take(np.flatnonzero(np.isin(rows.y, (2 * i, 2 * i + 1)))) for i in range(5)}
    outcome = simulate_parties(make(SMALL), held).outcome
    X = (digits.X_test / 16).astype(np.float32)
    assert (outcome.probabilities(X).argmax(axis=1) == digits.y_test).mean() > 0.8


@pytest.mark.parametrize("which", ["one class", "one row", "three rows", "a constant"])
def test_parties_of_every_kind_cast_and_count(rows: Data, which: str) -> None:
    some = {
        "one class": rows.take(np.flatnonzero(rows.y == 3)[:20]),
        "one row": rows.take(np.array([0])),
        "three rows": rows.take(np.arange(3)),
        "a constant": Data(np.ones((5, 64), dtype=np.float32), np.zeros(5, dtype=np.int64)),
    }[which]
    election = make()
    ballot = ob.cast(election, some.X, some.y, party="a")
    with TallyContext(election) as ctx:
        X, y = election.method.make_rows(election.method.count(ballot, ctx), ctx)
    assert set(y) == set(some.y)
    assert np.isfinite(X).all()
    if which == "a constant":
        np.testing.assert_allclose(X, 1)


def test_a_party_without_rows_abstains_and_levels_with_noise_are_refused(rows: Data) -> None:
    run = simulate_parties(make(), {"a": rows.take(np.arange(9)), "none": rows.take(np.arange(0))})
    assert {ballot.party: ballot.abstained for ballot in run.ballots} == {"a": None, "none": "it has no rows"}
    for privacy in (ob.L1(5), ob.L2(5)):
        with pytest.raises(
            ElectionError, match="trained on private rows, without noise; use analytic at L2, or neighb"
        ):
            make(privacy=privacy)
    with pytest.raises(ElectionError, match=r"decoder needs the shape of a row: give the election a schema"):
        make(public=None)


def test_a_decoder_whose_training_diverged_is_refused_as_the_tally_would() -> None:
    means, y = np.full((4, 2), np.nan), np.zeros(4, dtype=np.int64)
    _, shapes = fit_classes(means, means, y, classes=2)
    assert np.isnan(shapes[0]).all()
    assert not shapes[1].any(), "a class without rows"
    expected = Expected(latent=2, hidden=1, classes=2, outputs=1, numbers=0, weights="int8")
    zeros = {name: np.zeros(shape, dtype=np.float32) for name, shape in expected.shapes.items() if "scale" not in name}
    layers = [zeros[name] for name in ("hidden", "hidden.bias", "made", "made.bias", "centres")]
    diverged = DecoderWeights(*layers, shapes, zeros["spread"], zeros["knots"])
    with pytest.raises(Spoiled, match="its decoder's shapes must be from"):
        DecoderWeights.read(diverged.dump("int8"), expected)


def test_a_ballot_is_the_same_alone_and_together_with_others(rows: Data) -> None:
    election = make()
    held = {"a": rows.take(np.arange(30)), "b": rows.take(np.arange(30, 90))}
    for ballot in simulate_parties(election, held).ballots:
        assert ballot.digest == ob.cast(election, held[ballot.party].X, held[ballot.party].y, party=ballot.party).digest


def works(count: int) -> list[TrainWork]:
    rng = np.random.default_rng(0)
    sizes = Sizes(pixels=2, numbers=2, flags=1, groups=(2, 3))
    X = [np.hstack([rng.random((n, 5)) > 0.5, np.eye(2)[rng.integers(2, size=n)], np.eye(3)[rng.integers(3, size=n)]])
         for n in range(5, 5 + count)]  # fmt: skip
    recipe = Recipe(latent=2, hidden=6, steps=10, batch=4, learning_rate=0.01, divergence=1.0)
    return [TrainWork(x.astype(np.float32), np.arange(len(x)) % 2, 2, sizes, recipe, seed) for seed, x in enumerate(X)]


def test_decoders_that_are_trained_as_one_wave_are_those_that_are_trained_alone() -> None:
    alone, steps, reports = train(works(3), torch.device("cpu")), train_wave(works(3), torch.device("cpu")), 0
    while True:
        try:
            reports += next(steps)
        except StopIteration as done:
            together = done.value
            break
    assert reports == 20
    for one, other in zip(alone, together, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_a_training_reports_progress_in_twentieths() -> None:
    seen: list[tuple[str, int, int]] = []
    with report_progress_to(lambda *args: seen.append(args)):
        train(works(2), torch.device("cpu"))
    assert seen[0] == ("training 2 decoders", 0, 40)
    assert seen[-1] == ("training 2 decoders", 40, 40)


def test_rows_are_made_in_proportion_to_bounded_rows_and_of_classes_that_a_party_has() -> None:
    seen = np.array([[50, 50], [100, 0], [0, 100], [90, 9], [1_000_000, 1]])
    numbers = rows_to_make(seen, 4, 1000, bounded=True)
    assert ((numbers > 0) == (seen > 0)).all()
    assert abs(numbers.sum() - 1000) <= 1
    assert numbers[4].sum() <= 2 / 6 * 1000 + 2, "twice the median party, of six shares"
    free = rows_to_make(seen, 4, 1000, bounded=False)
    assert free[4].sum() > 990
    assert rows_to_make(np.array([[2**31 - 1, 2**31 - 1]]), 4, None, bounded=False).sum() == 60_000
    assert rows_to_make(np.array([[10**6]]), 2**20, None, bounded=True).sum() == 256, "1 GiB of rows"


def test_a_liars_numbers_are_at_most_as_large_as_those_of_others(rows: Data) -> None:
    election = make()
    with TallyContext(election) as ctx:
        layout, expected = Layout.of(ctx), election.method.expected(ctx)
        decoders = []
        for party in "abcde":
            scale = 1e6 if party == "e" else 1
            ballot = ob.cast(election, scale * rows.X[:20], rows.y[:20], party=party)
            decoders.append(DecoderWeights.read(ballot.blob("model"), expected))
    largest = [np.abs(decoder.knots).max() for decoder in bound_numbers(decoders, layout)]
    assert largest == [1, 1, 1, 1, 1]
    assert bound_numbers(decoders[-2:], layout) == decoders[-2:], "with two parties nobody knows who lies"


def test_hostile_ballots_are_spoiled_with_a_reason_and_the_others_count(rows: Data) -> None:
    election = make()
    honest = ob.cast(election, rows.X[:30], rows.y[:30], party="honest")
    model, seen = honest.blob("model"), np.asarray(honest.contents["seen"])
    bad = {
        "has no rows of any class": {"model": model, "seen": np.zeros_like(seen)},
        "expected 0 to": {"model": model, "seen": -seen},
        "bytes; expected": {"model": Blob("decoder", model.data + b"\0"), "seen": seen},
        "has the format": {"model": Blob("safetensors", model.data), "seen": seen},
    }
    ballots = [seal(contents, election, f"liar-{i}") for i, contents in enumerate(bad.values())]
    outcome = ob.tally(election, [honest, *ballots])
    assert list(outcome.voted) == ["honest"]
    for reason, found in zip(bad, outcome.spoiled.values(), strict=True):
        assert reason in found


def test_knots_outside_the_range_of_the_schema_spoil_a_ballot() -> None:
    schema = ob.Schema(label="y", columns=[{"kind": "number", "name": "x", "range": (0, 1)}])
    election = ob.Election(range(2), schema=schema, method=TINY, learner=ob.Kernel())
    data = Data(np.linspace(0, 1, 20, dtype=np.float32)[:, None], np.arange(20) % 2)
    honest = simulate_parties(election, {"a": data}).ballots[0]
    with TallyContext(election) as ctx:
        decoder = DecoderWeights.read(honest.blob("model"), election.method.expected(ctx))
    larger = decoder.with_knots(2 * decoder.knots).dump("int8")
    outcome = ob.tally(election, [honest, seal({**honest.contents, "model": larger}, election, "b")])
    assert "knots must be from 0 to 1, as the schema scales numbers" in outcome.spoiled["ballot 2"]


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np, oneballot as ob
election = ob.Election(range(2), np.zeros((2, 3), np.float32), method=ob.Decoder(), learner=ob.Kernel())
try:
    ob.cast(election, np.zeros((4, 3), np.float32), [0, 1, 0, 1], party="a")
except ob.OneBallotError as error:
    print(error)
"""


def test_a_party_without_torch_learns_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Training a decoder needs an optional library. Install it with: pip install")
