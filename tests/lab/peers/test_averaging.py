"""Peers that average weights, in cases with a known result."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import oneballot as ob  # noqa: E402
from oneballot.comparison import PeerResult, check_peer, compare  # noqa: E402
from oneballot.errors import DataError, ElectionError, OneBallotWarning  # noqa: E402
from oneballot.fleet.models.inputs import as_tensor  # noqa: E402
from oneballot.fleet.train.reference import fit_one  # noqa: E402
from oneballot.peers import Peer  # noqa: E402
from oneballot.runtime.scheduler import Job, run  # noqa: E402
from oneballot.server.context import TallyContext  # noqa: E402
from oneballot.simulation import divide, simulate_parties  # noqa: E402
from oneballot.types import Array, Data, Task  # noqa: E402
from oneballot_lab.peers.fedavg import FedAvg  # noqa: E402
from oneballot_lab.peers.fedavgm import FedAvgM  # noqa: E402
from oneballot_lab.peers.fedprox import FedProx  # noqa: E402
from oneballot_lab.peers.scaffold import SCAFFOLD, Variates  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from rounds import rounds_of  # noqa: E402

torch.set_num_threads(1)
LEARNER = ob.Torch("mlp", {"hidden": [12]}, epochs=3, batch=16, device="cpu")
SGD: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.1}


@pytest.fixture
def networks(digits: Any) -> ob.Election:
    return ob.Election(classes=range(10), public=digits.public / 16, method=ob.FedKT(), learner=LEARNER)


@pytest.fixture
def uneven(digits: Any, networks: ob.Election) -> list[Data]:
    """Five parties of very different sizes, one of them with a single class, and one without a row."""
    data = networks.data(digits.X / 16, digits.y)
    parts = divide(Data(data.X[:300], data.y[:300]), 4, "dirichlet:0.3", seed=3)
    one = np.flatnonzero(data.y == 7)[:20]
    return [*parts.values(), Data(data.X[one], data.y[one]), Data(data.X[:0], data.y[:0])]


def weights(peer: Peer, election: ob.Election, parties: Sequence[Data]) -> list[dict[str, Array]]:
    """The numbers of the one model after every round."""
    with TallyContext(election) as ctx:
        return [dict(turn.models[0].arrays) for turn in rounds_of(peer, parties, ctx)]  # type: ignore[attr-defined]


def assert_close(ours: Sequence[dict[str, Array]], theirs: Sequence[dict[str, Array]], close: float = 1e-6) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_allclose(a[key], b[key], atol=close, rtol=close, err_msg=key)


def differ(ours: Sequence[dict[str, Array]], theirs: Sequence[dict[str, Array]]) -> bool:
    return all(any(np.abs(a[key] - b[key]).max() > 1e-3 for key in a) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("settings", [SGD, {}], ids=["sgd", "adam"])
def test_fedavg_of_one_party_is_central_training(networks: ob.Election, uneven: list[Data], settings: Any) -> None:
    """By plain torch on the same batches. Adam begins anew in every round, and so it does there."""
    peer = FedAvg(rounds=3, **settings)
    network = LEARNER.network((64,), 10)
    with TallyContext(networks) as ctx:
        module = network.make(network.start(ctx.shared_seed("first weights")))
        expected = []
        for turn in (1, 2, 3):
            task = Task(np.arange(len(uneven[0])), uneven[0].y, seed=ctx.shared_seed("round", turn, "party 1"))
            fit_one(module, as_tensor(uneven[0].X), task, peer.recipe(LEARNER.recipe()), 10)
            expected.append({key: value.numpy().copy() for key, value in module.state_dict().items()})
    assert_close(weights(peer, networks, uneven[:1]), expected, 1e-5)


def test_one_round_of_one_party_equals_the_learners_training(networks: ob.Election, uneven: list[Data]) -> None:
    with TallyContext(networks) as ctx:
        start = LEARNER.network((64,), 10).start(ctx.shared_seed("first weights"))
        seed = ctx.shared_seed("round", 1, "party 1")
    task = Task(np.arange(len(uneven[0])), uneven[0].y, seed=seed, start=start)
    model = LEARNER.fit_many(uneven[0].X, [task], 10)[0]
    assert_close(weights(FedAvg(rounds=1), networks, uneven[:1]), [dict(model.arrays)])  # type: ignore[attr-defined]


@pytest.mark.parametrize("settings", [SGD, {}, {"participation": 0.5}], ids=["sgd", "adam", "half"])
def test_special_cases_of_other_peers_equal_fedavg(networks: ob.Election, uneven: list[Data], settings: Any) -> None:
    expected = weights(FedAvg(rounds=3, **settings), networks, uneven)
    assert_close(weights(FedProx(rounds=3, mu=0.0, **settings), networks, uneven), expected)
    assert_close(weights(FedAvgM(rounds=3, momentum=0.0, server_rate=1.0, **settings), networks, uneven), expected)
    assert differ(weights(FedProx(rounds=3, mu=5.0, **settings), networks, uneven), expected)
    for other in (FedAvgM(rounds=3, **settings), SCAFFOLD(rounds=3, **settings)):
        got = weights(other, networks, uneven)
        assert_close(got[:1], expected[:1])  # neither momentum nor variates in the first round
        assert differ(got[1:], expected[1:])


@pytest.mark.parametrize("settings", [SGD, {}], ids=["sgd", "adam"])
def test_scaffold_without_variates_is_fedavg(
    networks: ob.Election, uneven: list[Data], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Variates.step

    def forget(self: Variates, *given: Any) -> Any:
        out = step(self, *given)
        for own in (self.common, *self.own.values()):
            for value in own.values():
                value[:] = 0
        return out

    monkeypatch.setattr(Variates, "step", forget)
    expected = weights(FedAvg(rounds=3, **settings), networks, uneven)
    assert_close(weights(SCAFFOLD(rounds=3, **settings), networks, uneven), expected)


def test_scaffold_with_one_party_equals_fedavg(networks: ob.Election, uneven: list[Data]) -> None:
    """Its variate is the server's, so nothing is added."""
    expected = weights(FedAvg(rounds=3, **SGD), networks, uneven[:1])
    assert_close(weights(SCAFFOLD(rounds=3, **SGD), networks, uneven[:1]), expected, 1e-5)


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_scaffold_equals_a_numpy_version_of_the_papers_algorithm(
    networks: ob.Election, uneven: list[Data], participation: float
) -> None:
    """Algorithm 1 with option II, for linear softmax models, in NumPy."""
    linear = replace(networks, learner=replace(LEARNER, settings={"hidden": []}, epochs=2))
    peer = SCAFFOLD(rounds=3, participation=participation, server_rate=0.8, **SGD)
    held = [data for data in uneven if len(data)]
    recipe, rate = peer.recipe(linear.learner.recipe()), 0.1  # type: ignore[attr-defined]
    with TallyContext(linear) as ctx:
        start = linear.learner.network((64,), 10).start(ctx.shared_seed("first weights"))  # type: ignore[attr-defined]
        (first, last) = start  # a matrix and a bias
        x = np.concatenate([start[first], start[last][:, None]], 1).astype(np.float64)
        total = sum(map(len, held))
        c, own, expected = np.zeros_like(x), [np.zeros_like(x) for _ in held], []
        for turn in (1, 2, 3):
            lot = np.random.default_rng(ctx.shared_seed("who takes part", turn))
            who = sorted(lot.choice(len(held), max(1, round(participation * len(held))), replace=False))
            ends, changes = [], []
            for i in who:
                y, seed = x.copy(), ctx.shared_seed("round", turn, f"party {i + 1}")
                steps = 2 * -(-len(held[i]) // 16)
                for batch in recipe.places(seed, len(held[i]), 0, steps):
                    rows = batch[batch >= 0]
                    X = np.concatenate([held[i].X[rows], np.ones((len(rows), 1))], 1)
                    odds = np.exp(X @ y.T)
                    gradient = (odds / odds.sum(1, keepdims=True) - np.eye(10)[held[i].y[rows]]).T @ X / len(rows)
                    y = y - rate * (gradient - own[i] + c)
                new = own[i] - c + (x - y) / (steps * rate)
                changes.append(len(held[i]) / total * (new - own[i]))
                own[i] = new
                ends.append(y)
            sizes = np.array([len(held[i]) for i in who])
            x = x + 0.8 * (np.tensordot(sizes / sizes.sum(), np.stack(ends), 1) - x)
            c = c + sum(changes)
            expected.append({first: x[:, :-1], last: x[:, -1]})
    assert_close(weights(peer, linear, uneven), expected, 2e-5)
    assert np.abs(c).max() > 1e-2


def test_fedavgm_follows_the_papers_update(networks: ob.Election, uneven: list[Data]) -> None:
    """v ← 0.7·v + Δ, w ← w − 0.5·v, where Δ is what FedAvg's first round from the same weights would be."""
    with TallyContext(networks) as ctx:
        w = LEARNER.network((64,), 10).start(ctx.shared_seed("first weights"))
    peer = FedAvgM(rounds=3, momentum=0.7, server_rate=0.5)
    v = {key: 0.0 * value for key, value in w.items()}
    from oneballot_lab.peers._assembly import Assembly

    with TallyContext(networks) as ctx:
        assembly = Assembly(LEARNER, uneven, ctx, peer.recipe(LEARNER.recipe()), False)
        expected = []
        for turn in (1, 2, 3):
            mean = assembly.mean(range(5), run(Job(assembly.train(range(5), turn, w), lambda _: LEARNER)))
            v = {key: 0.7 * v[key] + (w[key] - mean[key]) for key in w}
            w = {key: (w[key] - 0.5 * v[key]).astype(np.float32) for key in w}
            expected.append(dict(w))
    assert_close(weights(peer, networks, uneven), expected)


def test_parties_are_weighted_by_rows_and_buffers_are_averaged(networks: ob.Election) -> None:
    from oneballot_lab.peers._assembly import Assembly

    rng = np.random.default_rng(0)
    images = ob.Torch("resnet8", {"width": 2, "shape": [1, 8, 8]}, epochs=1, device="cpu")
    with TallyContext(networks) as ctx:
        parties = [Data(rng.random((n, 64), dtype=np.float32), rng.integers(0, 10, n)) for n in (30, 10)]
        assembly = Assembly(images, parties, ctx, images.recipe(), False)
        one, two = run(Job(assembly.train([0, 1], 1, assembly.initial), lambda _: images))
        mean = assembly.mean([0, 1], [one, two])
    assert any("running_mean" in key for key in mean)
    for key in mean:
        np.testing.assert_allclose(mean[key], 0.75 * one[key] + 0.25 * two[key], atol=1e-6)
        assert mean[key].dtype == np.float32


def normed(classes: int) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(64, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, classes))


def test_a_custom_module_is_averaged_with_its_counters(networks: ob.Election, uneven: list[Data]) -> None:
    own = replace(networks, learner=ob.Torch(normed, epochs=1, batch=16, device="cpu"))
    parties = [Data(data.X[:n], data.y[:n]) for data, n in zip(uneven[:2], (48, 16), strict=True)]
    assert [len(data) for data in parties] == [48, 16]
    (values,) = weights(FedAvg(rounds=1), own, parties)
    assert values["1.num_batches_tracked"] == round(0.75 * 3 + 0.25 * 1)
    assert values["1.num_batches_tracked"].dtype == np.int64
    assert np.abs(values["1.running_mean"]).max() > 0


def test_averaging_works_for_multilabel_data() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)).astype(np.float32)
    y = (X[:, :3] > 0).astype(int)
    election = ob.Election(
        ["a", "b", "c"], X[:100], method=ob.FedKD(), multilabel=True,
        learner=ob.Torch("mlp", {"hidden": [16]}, epochs=5, learning_rate=0.01, device="cpu"),
    )  # fmt: skip
    parties = {f"p{i}": election.data(X[rows], y[rows]) for i, rows in enumerate(np.array_split(np.arange(300), 3))}
    found = compare(FedAvg(rounds=8), election, parties, election.data(X[300:], y[300:]))
    assert found.last.accuracy > max(0.9, found.first.accuracy)


def test_bytes_are_one_network_each_way_per_party_and_round_and_two_with_variates(
    networks: ob.Election, uneven: list[Data]
) -> None:
    size = 4 * (64 * 12 + 12 + 12 * 10 + 10)
    some = FedAvg(rounds=3, participation=0.4), SCAFFOLD(rounds=3, participation=0.01)
    all_of = FedAvg(rounds=3), FedProx(rounds=3), FedAvgM(rounds=3), SCAFFOLD(rounds=3)
    for peer, each in zip((*some, *all_of), (2, 2, 5, 5, 5, 10), strict=True):
        with TallyContext(networks) as ctx:
            turns = rounds_of(peer, uneven, ctx)
        assert [turn.up for turn in turns] == [turn.down for turn in turns] == [each * size * r for r in (1, 2, 3)]


def test_a_peers_settings_override_the_learners() -> None:
    learner = ob.Torch(epochs=7, optimizer="sgd", learning_rate=0.2, last_rate=0.01, steps=9, weight_decay=1e-4)
    own = FedAvg().recipe(learner.recipe())
    assert (own.epochs, own.steps, own.optimizer, own.learning_rate, own.last_rate) == (7, 9, "sgd", 0.2, 0.2)
    assert (own.momentum, own.weight_decay) == (0.9, 1e-4)
    other = FedProx(epochs=2, optimizer="sgd", mu=0.3).recipe(learner.recipe())
    assert (other.epochs, other.steps, other.learning_rate, other.momentum) == (2, None, 0.2, 0.0)
    with pytest.raises(ElectionError, match=r"needs a learning_rate: the learner's, 0\.001, is meant for adam"):
        FedAvg(optimizer="sgd").recipe(ob.Torch().recipe())


def test_divergence_stops_training_with_a_warning(networks: ob.Election, uneven: list[Data]) -> None:
    wild = FedAvg(rounds=5, optimizer="sgd", learning_rate=1e30)
    with pytest.raises(DataError, match="lower learning_rate"):
        weights(wild, networks, uneven)
    later = FedAvgM(rounds=200, momentum=0.0, server_rate=1e30, **SGD)
    with pytest.warns(OneBallotWarning, match="training diverged in round"):
        assert 0 < len(weights(later, networks, uneven)) < 200


class TestFromTheOutcome:
    @pytest.fixture
    def networks(self, networks: ob.Election) -> ob.Election:
        return replace(networks, learner=replace(LEARNER, epochs=60))

    @pytest.fixture
    def parties(self, networks: ob.Election, uneven: list[Data]) -> dict[str, Data]:
        return {f"p{i}": data for i, data in enumerate(uneven)}

    @pytest.fixture
    def run(self, networks: ob.Election, parties: dict[str, Data]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OneBallotWarning)
            return simulate_parties(networks, parties)

    @pytest.mark.parametrize("peer", [FedAvg, FedProx, FedAvgM, SCAFFOLD])
    def test_it_begins_at_its_accuracy(
        self, peer: Any, networks: ob.Election, parties: dict[str, Data], run: Any, digits: Any
    ) -> None:
        """Rounds that hardly learn leave it where it is; and its ballots and the reply to each party are counted."""
        test = networks.data(digits.X_test / 16, digits.y_test)
        still = peer(rounds=2, init="outcome", optimizer="sgd", learning_rate=1e-9)
        found: PeerResult = compare(still, networks, parties, test, outcome=run.outcome)
        assert [standing.accuracy for standing in found.rounds] == [run.accuracy(test)] * 2
        elsewhere = compare(replace(still, init="random"), networks, parties, test)
        assert elsewhere.first.accuracy < run.accuracy(test) - 0.2
        assert found.first.up - elsewhere.first.up == run.outcome.bytes
        assert found.first.down - elsewhere.first.down == 6 * len(run.outcome.model.dump().data)

    def test_an_outcome_of_another_network_is_refused(
        self, networks: ob.Election, parties: dict[str, Data], run: Any
    ) -> None:
        other = replace(networks, learner=replace(LEARNER, settings={"hidden": [9]}))
        test = parties["p0"]
        with pytest.raises(ElectionError, match="cannot start from"):
            compare(FedAvg(init="outcome"), other, parties, test, outcome=run.outcome)


def test_a_learner_without_gradients_is_rejected_before_training(election: ob.Election) -> None:
    with pytest.raises(ElectionError, match=r"fedavg: the final learner must provide gradients; .* Use torch"):
        check_peer(FedAvg(), election)


@pytest.mark.parametrize(
    "bad", [{"rounds": 0}, {"participation": 0}, {"participation": 1.5}, {"init": "none"}, {"epochs": 0}, {"mu": -1}]
)
def test_invalid_settings_are_rejected(bad: Any) -> None:
    with pytest.raises(ElectionError, match=next(iter(bad))):
        FedProx(**bad)
