"""DENSE, end to end on digits: better than the mean party, parties that differ, and hostile ballots."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import ElectionError, OneBallotWarning
from oneballot.formats.torch_safetensors import Description, TorchModel, TorchSafetensors
from oneballot.party.cast import cast, cast_together
from oneballot.runtime.progress import report_progress_to
from oneballot.server.context import TallyContext
from oneballot.simulation import baselines, divide, simulate_parties
from oneballot.types import Blob, Data

torch = pytest.importorskip("torch")

from oneballot.methods.dense import Dense, batch_norm_losses, divergence, make_generator, operations  # noqa: E402

SMALL = Dense(epochs=20, batch=128, noise=64)
TINY = Dense(epochs=2, batch=16, noise=8, generator_steps=2)


def network(module: str = "mlp", epochs: int = 20, **settings: Any) -> ob.Torch:
    return ob.Torch(module, settings={"shape": [64], **settings}, epochs=epochs, learning_rate=3e-3, device="cpu")


def make(method: Dense = TINY, **settings: Any) -> ob.Election:
    learners = {"local": network(hidden=[32, 32]), "final": network(hidden=[32, 32], epochs=3)}
    return ob.Election(**{"classes": range(10), "method": method, "learners": learners, **settings})


@pytest.fixture(scope="module")
def scaled(digits: Any) -> Data:
    return Data((digits.X / 16).astype(np.float32), digits.y)


@pytest.fixture(scope="module")
def test_rows(digits: Any) -> Data:
    return Data((digits.X_test / 16).astype(np.float32), digits.y_test)


@pytest.fixture(scope="module")
def held(scaled: Data) -> dict[str, Data]:
    return divide(scaled, 3, "dirichlet:0.5", seed=3)


def with_weights(ballot: ob.Ballot, election: ob.Election, change: Any) -> ob.Ballot:
    """The ballot of a party that has changed the weights of its network."""
    model = TorchSafetensors.load(ballot.blob("model").data, classes=10)
    arrays = {key: change(key, np.array(value)) for key, value in model.arrays.items()}
    return seal({**ballot.contents, "model": TorchModel(model.description, arrays).dump()}, election, ballot.party)


def text_network() -> Blob:
    """A network of text for rows of the right length: it fails for numbers that are not whole."""
    from oneballot.fleet.models.architectures import check_settings, expected

    settings = check_settings("textcnn", {"vocabulary": 2, "dimension": 1, "filters": 1, "widths": [1]})
    shapes = expected("textcnn", settings, (64,), 10)
    arrays = {key: np.zeros(shape, dtype=np.float32) for key, shape in shapes.items()}
    return TorchModel(Description("textcnn", settings, (64,), 10), arrays).dump()


@pytest.mark.slow
def test_the_student_beats_the_mean_party_without_public_rows(scaled: Data, test_rows: Data) -> None:
    election = make(SMALL)
    parties = divide(scaled, 5, "dirichlet:0.3", seed=0)
    simulation = simulate_parties(election, parties)
    alone = baselines(
        replace(election, learners={role: network(hidden=[32, 32]) for role in election.roles}), parties, test_rows
    )
    assert simulation.accuracy(test_rows) > alone.alone_mean + 0.1


def test_a_seed_gives_the_same_bytes_and_another_seed_others(held: dict[str, Data]) -> None:
    first, again = (simulate_parties(make(), held).outcome.model.dump() for _ in range(2))
    assert first == again
    assert simulate_parties(make(seed=1), held).outcome.model.dump() != first


def test_parties_may_have_other_architectures_and_rows_may_be_images(held: dict[str, Data]) -> None:
    election = make(learners={"local": network(hidden=[16]), "final": network("resnet8", 1, shape=[1, 8, 8], width=2)})
    chosen = [{}, {"local": network(hidden=[])}, {"local": network("resnet8", 2, shape=[1, 8, 8], width=2)}]
    parties = {party: Data(data.X.reshape(-1, 1, 8, 8), data.y) for party, data in held.items()}
    ballots = [
        cast(election, data.X, data.y, party=party, learners=learners)
        for (party, data), learners in zip(parties.items(), chosen, strict=True)
    ]
    outcome = ob.tally(election, ballots)
    assert len(outcome.voted) == 3
    assert outcome.model.model_.description.architecture == "resnet8"
    assert outcome.probabilities(parties["party-1"].X[:3]).shape == (3, 10)


def test_a_party_with_one_class_is_left_out_by_name_and_alone_gives_its_class(held: dict[str, Data]) -> None:
    one = held["party-1"].take(np.flatnonzero(held["party-1"].y == held["party-1"].y[0]))
    with pytest.warns(OneBallotWarning, match="party-0 is left out: its model predicts the same for every row"):
        simulate_parties(make(), {**held, "party-0": one})
    alone = simulate_parties(make(replace(TINY, epochs=10)), {"party-0": one})
    assert (alone.probabilities(one).argmax(axis=1) == one.y).all()


def test_an_empty_party_abstains(held: dict[str, Data]) -> None:
    simulation = simulate_parties(make(), {**held, "party-0": held["party-1"].take(np.arange(0))})
    assert simulation.ballots[-1].abstained == "it has no rows"


def test_a_class_that_no_party_has_is_named(held: dict[str, Data]) -> None:
    few = {party: data.take(np.flatnonzero(data.y < 9)) for party, data in held.items()}
    with pytest.warns(OneBallotWarning, match="no network knows the class 9"):
        simulate_parties(make(), few)


def test_contents_that_are_not_a_network_of_this_election_spoil(held: dict[str, Data]) -> None:
    election = make()
    ballots = cast_together(election, held)
    other = cast_together(make(classes=range(11)), held)[0].blob("model")
    honest = ballots[0].contents
    hostile: list[Any] = [
        {**honest, "model": Blob("torch-safetensors", b"nonsense")},
        {**honest, "model": Blob("skops", honest["model"].data)},
        {**honest, "model": other},
        {**honest, "seen": -honest["seen"]},
        {**honest, "seen": np.zeros_like(honest["seen"])},
        {**honest, "model": text_network()},
        {**honest, "more": np.zeros(1)},
        {"seen": honest["seen"]},
    ]
    bad = [seal(contents, election, f"bad-{i}") for i, contents in enumerate(hostile)]
    outcome = ob.tally(election, [*bad, *ballots])
    assert sorted(outcome.spoiled) == [f"ballot {i}" for i in range(1, len(bad) + 1)]
    assert outcome.model.dump() == ob.tally(election, ballots).model.dump()


def test_a_network_without_finite_outputs_spoils_its_ballot(held: dict[str, Data]) -> None:
    election = make()
    first, *others = cast_together(election, held)
    huge = with_weights(first, election, lambda key, value: np.full_like(value, 1e12))
    assert "finite" in str(ob.tally(election, [huge, *others]).spoiled["ballot 1"])


def test_a_network_that_fails_on_generated_rows_only_is_left_out_by_name(
    held: dict[str, Data], monkeypatch: Any
) -> None:
    election = make()
    first, *others = cast_together(election, held)
    only_first = np.zeros((16, 64), dtype=np.float32)
    only_first[:, 0] = np.linspace(0, 1, 16)
    monkeypatch.setattr(Dense, "_probe", lambda self, ctx: only_first)

    def overflow(key: str, value: Any) -> Any:
        huge = np.full_like(value, 0 if "bias" in key else 1e12)
        return np.where(np.arange(64) > 0, huge, np.float32(0.1)) if key == "layer1.weight" else huge

    silent = with_weights(first, election, overflow)
    with pytest.warns(OneBallotWarning, match="party-1 is left out: its network returns numbers that are not finite"):
        assert not ob.tally(election, [silent, *others]).spoiled


def test_a_network_whose_gradients_are_not_finite_is_left_out_by_name(held: dict[str, Data]) -> None:
    election = make()
    first, *others = cast_together(election, held)
    model = with_overflowing_gradients()
    hostile = seal({**first.contents, "model": model}, election, first.party)
    with pytest.warns(OneBallotWarning, match="party-1 is left out: its network returns numbers that are not finite"):
        assert not ob.tally(election, [hostile, *others]).spoiled


def with_overflowing_gradients() -> Blob:
    """One unit is almost constant, but the product of its weights is beyond float32. Another carries a signal."""
    from oneballot.fleet.models.architectures import check_settings, expected

    settings, large, step = check_settings("mlp", {"hidden": [4] * 7}), np.float32(1e12), np.float32(65536)
    arrays = {key: np.zeros(shape, dtype=np.float32) for key, shape in expected("mlp", settings, (64,), 10).items()}
    arrays["layer1.weight"][:3] = 0.05
    arrays["layer2.weight"][0, 0], arrays["layer2.bias"][3] = 1, 1
    arrays["layer2.weight"][3, 1:3] = large, -large
    for i in range(3, 8):
        arrays[f"layer{i}.weight"][0, 0], arrays[f"layer{i}.bias"][3] = 1, step - large
        arrays[f"layer{i}.weight"][3, 3] = large if i == 3 else large / step
    arrays["out.weight"][0, 0], arrays["out.weight"][1, 3] = 1, 1e-5
    return TorchModel(Description("mlp", settings, (64,), 10), arrays).dump()


def test_one_party_with_huge_logits_does_not_decide_alone() -> None:
    from oneballot.methods.dense import Teachers

    fair, liar = (torch.nn.Linear(2, 3) for _ in range(2))
    with torch.no_grad():
        for module, bias in ((fair, [4.0, 0.0, 0.0]), (liar, [0.0, 1e9, 0.0])):
            module.weight.zero_()
            module.bias.copy_(torch.tensor(bias))
    networks = {"a": fair, "b": fair, "c": fair, "d": liar}
    logits = Teachers(networks, np.ones((4, 3), dtype=bool), "seen")(torch.zeros(1, 2))
    assert int(logits.argmax()) == 0


def test_public_rows_give_the_range_of_generated_rows_and_settings_where_there_are_none(digits: Any) -> None:
    election = make(replace(TINY, values=(-1.0, 2.0)), public=digits.public)
    with TallyContext(election) as ctx:
        low, high = TINY._bounds(ctx)
        np.testing.assert_array_equal(low, digits.public.min(axis=0))
        np.testing.assert_array_equal(high, digits.public.max(axis=0))
    with TallyContext(make(replace(TINY, values=(-1.0, 2.0)))) as ctx:
        probe = ctx.election.method._probe(ctx)
        assert -1 <= probe.min() < 0 < 1 < probe.max() <= 2


def test_elections_that_cannot_work_are_refused_before_anyone_trains(digits: Any) -> None:
    with pytest.raises(ElectionError, match="dense needs the shape of a row"):
        ob.Election(classes=range(10), method=TINY, learner=ob.Torch("mlp"))
    with pytest.raises(ElectionError, match="token"):
        ob.Election(classes=range(10), method=TINY, learner=ob.Torch("textcnn", settings={"shape": [20]}))
    with pytest.raises(ElectionError, match="gradients"):
        ob.Election(classes=range(10), public=digits.public, method=TINY, learner=ob.Sklearn("DecisionTreeClassifier"))
    with pytest.raises(ElectionError, match="a network trained on private rows"):
        make(privacy=ob.L2(1.0))
    with pytest.raises(ElectionError, match="expected the lowest value"):
        Dense(values=(1.0, 0.0))


def test_progress_is_reported_for_each_epoch(held: dict[str, Data]) -> None:
    seen: list[tuple[str, int, int]] = []
    with report_progress_to(lambda *step: seen.append(step)):
        simulate_parties(make(), held)
    assert ("distilling networks", 2, 2) in seen


@pytest.mark.parametrize("shape", [(7,), (9, 5), (3, 10, 13)])
def test_a_generator_makes_rows_of_any_shape(shape: tuple[int, ...]) -> None:
    made = make_generator(6, shape)(torch.randn(4, 6)).reshape(4, *shape).detach()
    assert 0 <= float(made.min()) <= float(made.max()) <= 1


def test_batch_norm_losses_are_zero_for_rows_with_the_statistics_of_the_network() -> None:
    norm = torch.nn.BatchNorm2d(3, momentum=1.0)
    rows = torch.randn(50, 3, 4, 4)
    norm(rows)
    norm.running_var *= (50 * 16 - 1) / (50 * 16)  # torch keeps the unbiased variance
    with batch_norm_losses([norm.eval()]) as distances:
        norm(rows)
        norm(rows + 1)
    assert float(distances[0]) < 1e-4
    assert float(distances[1]) > 1
    norm(rows)
    assert len(distances) == 2


def test_divergence_is_zero_for_equal_logits_and_scaled_by_the_temperature() -> None:
    a, b = torch.randn(5, 4), torch.randn(5, 4)
    assert torch.allclose(divergence(a, a), torch.zeros(5), atol=1e-6)
    expected = (a.softmax(1) * (a.log_softmax(1) - b.log_softmax(1))).sum(1)
    torch.testing.assert_close(divergence(a, b), expected)
    torch.testing.assert_close(divergence(a * 3, b * 3, 3.0), 9 * expected)


def test_the_method_is_one_file_that_imports_no_fleet_code() -> None:
    source = Path(sys.modules["oneballot.methods.dense"].__file__ or "").read_text(encoding="utf-8")
    assert "fleet" not in source
    code = "import sys, oneballot.methods.dense; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ob.Dense is Dense


def test_a_network_that_takes_too_long_is_spoiled_before_it_runs(held: dict[str, Data]) -> None:
    election = make()
    ballots = cast_together(election, held)
    large = network(hidden=[2048, 2048, 2048], epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)
        costly = cast(election, held["party-1"].X, held["party-1"].y, party="costly", learners={"local": large})
        outcome = ob.tally(election, [*ballots, costly])
    (reason,) = outcome.spoiled.values()
    assert "operations for one row, but 10,000,000 are allowed" in reason


def test_operations_are_counted_without_running_the_network() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    assert operations(layers, (64,)) == 2 * (64 * 32 + 32 * 10)
