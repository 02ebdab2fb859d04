"""FedDF, FedMD, FedGEN and PFNM: cases with a known result, small parties, and rejected learners."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.comparison import compare
from oneballot.errors import DataError, ElectionError, OneBallotWarning
from oneballot.server.context import TallyContext
from oneballot.simulation import divide
from oneballot.types import Data, Task
from oneballot_lab.peers.fedavg import FedAvg
from oneballot_lab.peers.feddf import FedDF
from oneballot_lab.peers.fedgen import FedGEN
from oneballot_lab.peers.fedmd import FedMD
from oneballot_lab.peers.pfnm import PFNM
from oneballot_lab.peers.solo import Solo

sys.path.insert(0, str(Path(__file__).parent))
from rounds import rounds_of

pytest.importorskip("torch")

QUICK = ob.Torch("mlp", settings={"hidden": [24, 16]}, epochs=8, batch=16, learning_rate=3e-3, device="cpu")
SGD = replace(QUICK, optimizer="sgd", learning_rate=0.05)
SIZE = 4 * (64 * 24 + 24 + 24 * 16 + 16 + 16 * 10 + 10)


@pytest.fixture
def make(digits):
    def make(learner=QUICK, **settings):
        usual = {"classes": range(10), "public": digits.public / 16, "method": ob.FedKT(open_vote="hard")}
        return ob.Election(**{**usual, "learner": learner, **settings})

    return make


@pytest.fixture
def whole(make, digits):
    return make().data(digits.X / 16, digits.y)


@pytest.fixture
def test(make, digits):
    return make().data(digits.X_test / 16, digits.y_test)


@pytest.fixture
def parties(whole):
    return divide(whole, 5, "dirichlet:0.5", seed=1)


def turns(peer, election, parties):
    with TallyContext(election) as ctx:
        return rounds_of(peer, list(parties.values()), ctx)


def weights(model):
    return dict(model.arrays)


def assert_close(a, b, **tolerance):
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_allclose(a[key], b[key], err_msg=key, **tolerance)


def assert_equal(a, b):
    assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("peer", [FedAvg(rounds=2), FedDF(rounds=2, distillation_epochs=1), FedMD(rounds=2)])
def test_a_frozen_embedding_is_neither_changed_nor_sent(peer):
    """Token 2 or 3 is the class, so that the words' fixed vectors tell it."""
    rng = np.random.default_rng(0)
    X = rng.integers(4, 30, (90, 6)).astype(np.int32)
    y = rng.integers(0, 2, 90)
    X[:, 0] = 2 + y
    settings = {"vocabulary": 30, "dimension": 8, "filters": 4, "embedding": "frozen", "shape": [6]}
    learner = ob.Torch("textcnn", settings=settings, epochs=2, batch=8, device="cpu")
    election = ob.Election(range(2), X[60:], method=ob.FedKT(), learner=learner)
    parties = divide(election.data(X[:60], y[:60]), 3, "homogeneous", seed=0)
    rounds = turns(peer, election, parties)
    assert len(rounds) == 2
    tables = [weights(model)["embedding.weight"] for turn in rounds for model in turn.models]
    for table in tables[1:]:
        np.testing.assert_array_equal(table, tables[0])
    if isinstance(peer, FedAvg):
        rest = sum(value.nbytes for key, value in weights(rounds[0].models[0]).items() if key != "embedding.weight")
        assert rounds[0].up == 3 * rest


def test_feddf_with_one_party_equals_fedavg(make, whole):
    """The student is its own only teacher, so the gradient of the distillation is 0."""
    election, alone = make(SGD), {"one": whole}
    taught = turns(FedDF(rounds=2, distillation_optimizer="sgd"), election, alone)
    plain = turns(FedAvg(rounds=2), election, alone)
    for a, b in zip(taught, plain, strict=True):
        assert_close(weights(a.models[0]), weights(b.models[0]), atol=1e-5)
        assert (a.up, a.down) == (b.up, b.down)


def test_feddf_moves_the_average_towards_the_mean_of_the_scores(make, parties):
    election, X = make(), make().public
    with TallyContext(election) as ctx:
        averaged = rounds_of(FedAvg(rounds=1), list(parties.values()), ctx)[0].models[0]
        fused = rounds_of(FedDF(rounds=1), list(parties.values()), ctx)[0].models[0]
        said = []
        for party in parties.values():  # what each party's network says, which FedAvg of that party alone has as well
            peer = FedAvg(rounds=1)
            said.append(rounds_of(peer, [party], ctx)[0].models[0].scores(X))
    assert len(said) == 5
    scores = np.mean(said, axis=0)
    aim = np.exp(scores - scores.max(1, keepdims=True))
    aim /= aim.sum(1, keepdims=True)

    def surprise(model):
        return -(aim * np.log(model.predict_proba(X) + 1e-12)).sum(1).mean()

    least = -(aim * np.log(aim + 1e-12)).sum(1).mean()
    assert surprise(fused) - least < 0.5 * (surprise(averaged) - least)


def test_feddf_is_better_than_fedavg_after_one_round_with_the_same_bytes(make, parties, test):
    election = make()
    fused, plain = (compare(peer(rounds=1), election, parties, test).last for peer in (FedDF, FedAvg))
    assert fused.accuracy > plain.accuracy
    assert fused.bytes == plain.bytes == 2 * 5 * SIZE


def test_fedgen_without_weight_is_fedavg_bit_by_bit(make, parties):
    election = make()
    peers = (FedGEN(rounds=2, participation=0.6, generator_weight=0), FedAvg(rounds=2, participation=0.6))
    for a, b in zip(*(turns(peer, election, parties) for peer in peers), strict=True):
        assert_equal(weights(a.models[0]), weights(b.models[0]))
        assert (a.up, a.down) == (b.up, b.down)


def test_the_first_round_of_fedgen_has_no_generator_yet(make, parties):
    election = make()
    first = turns(FedGEN(rounds=1), election, parties)[0]
    assert_equal(weights(first.models[0]), weights(turns(FedAvg(rounds=1), election, parties)[0].models[0]))
    assert (first.up, first.down) == (5 * (SIZE + 40), 5 * SIZE)


def test_fedgen_sends_its_generator_to_the_parties_and_learns(make, parties, test):
    found = compare(FedGEN(rounds=2, generator_steps=50), make(), parties, test)
    generator = 4 * ((10 + 32) * 256 + 256 + 256 * 16 + 16)
    assert found.last.down == 2 * 5 * SIZE + 1 * 5 * (generator + 40)
    assert found.last.accuracy > 0.7


def test_divergence_of_fedgen_stops_training_with_a_warning(make, parties):
    """In the first round there is no generator, so the learning rate is at fault."""
    with pytest.raises(DataError, match=r"in the first round.*lower learning_rate"):
        turns(FedGEN(rounds=2, optimizer="sgd", learning_rate=1e30), make(), parties)
    plain = turns(FedAvg(rounds=1), make(SGD), parties)[0]
    for rate, words in ((1e10, "training diverged in round 2"), (1e30, "draws for round 2 are not finite")):
        with pytest.warns(OneBallotWarning, match=words):
            (first,) = turns(FedGEN(rounds=3, generator_rate=rate, generator_steps=1), make(SGD), parties)
        assert_equal(weights(first.models[0]), weights(plain.models[0]))


def test_draws_with_almost_no_weight_have_almost_no_effect(make, parties, test):
    """They are left out of the loss, and only the order of the rows is another."""
    election = make(SGD)
    little, plain, much = (
        compare(peer, election, parties, test).last.accuracy
        for peer in (
            FedGEN(rounds=8, generator_weight=1e-9),
            FedAvg(rounds=8),
            FedGEN(rounds=8, generator_weight=1e9),
        )
    )
    assert little == pytest.approx(plain, abs=0.1)
    assert much < plain - 0.1


def test_fedmd_with_one_party_trains_on_its_own_scores(make, whole):
    """The consensus is its own opinion: what is left is training on its own rows, again and again."""
    usual = replace(SGD, learning_rate=0.005)
    again = replace(usual, epochs=2)
    (last,) = turns(FedMD(rounds=2, epochs=2), make(usual), {"one": whole})[-1].models
    with TallyContext(make(usual)) as ctx:
        values = usual.network((64,), 10).start(ctx.shared_seed("first weights", 0))
        for learner, what in ((usual, "begin"), (again, "revisit 1"), (again, "revisit 2")):
            task = Task(np.arange(len(whole)), whole.y, start=values, seed=ctx.shared_seed(what, 0))
            values = learner.fit_many(whole.X, [task], 10)[0].arrays
    assert_close(weights(last), dict(values), atol=1e-4)


def test_fedmd_improves_the_parties_models(make, parties, test):
    found = compare(FedMD(rounds=8, digest_epochs=10), make(), parties, test)
    alone = compare(Solo(), make(), parties, test).last.accuracy
    assert found.last.accuracy > alone + 0.1
    assert found.last.up == found.last.down == 8 * 4 * 300 * 10 * 5


def test_fedmd_uses_labels_of_the_public_set(make, parties, test, digits):
    labels = np.random.default_rng(0).integers(0, 10, len(digits.public))
    plain, labelled = make(), make(public_labels=labels)
    a, b = (turns(FedMD(rounds=1), election, parties)[0].models[0] for election in (plain, labelled))
    assert np.abs(a.scores(test.X) - b.scores(test.X)).max() > 1e-3


def test_pfnm_with_one_party_only_shrinks_its_network(make, whole):
    """With a wide prior, hardly; hidden neurons may come in another order."""
    election = make()
    (matched,) = turns(PFNM(prior=1e9), election, {"one": whole})[0].models
    with TallyContext(election) as ctx:
        start = QUICK.network((64,), 10).start(ctx.shared_seed("first weights", 0))
        task = Task(np.arange(len(whole)), whole.y, start=start, seed=ctx.shared_seed("round", 1, "party 1"))
        own = QUICK.fit_many(whole.X, [task], 10)[0]
    np.testing.assert_allclose(matched.scores(election.public), own.scores(election.public), atol=1e-4)


def test_pfnm_grows_a_network_and_continues_from_it(make, parties, test):
    found = turns(PFNM(rounds=2, spread=0.1), make(), parties)
    wide = found[0].models[0].arrays["layer1.weight"].shape[0]
    assert 24 < wide <= 5 * 24
    assert [(turn.up, turn.down) for turn in found] == [
        (5 * (SIZE + 40), 0),
        (10 * (SIZE + 40), 5 * SIZE),
    ]
    right = [(turn.models[0].predict_proba(test.X).argmax(1) == test.y).mean() for turn in found]
    assert right[1] > right[0] > 0.3


def test_pfnm_saves_its_wide_network(make, parties, test):
    from oneballot.formats.torch_safetensors import TorchSafetensors

    model = turns(PFNM(), make(), parties)[0].models[0]
    blob = model.dump()
    TorchSafetensors.check(blob.data, classes=10, features=64)
    again = TorchSafetensors.load(blob.data, classes=10)
    np.testing.assert_array_equal(again.predict_proba(test.X), model.predict_proba(test.X))


@pytest.mark.parametrize("peer", [FedDF(rounds=2), FedMD(rounds=2), FedGEN(rounds=2), PFNM(rounds=2)])
def test_parties_with_one_class_or_no_rows_take_part(peer, make, whole, test):
    parties = {f"only-{c}": Data(whole.X[whole.y == c], whole.y[whole.y == c]) for c in range(10)}
    parties |= {"none": Data(whole.X[:0], whole.y[:0]), "single": Data(whole.X[:1], whole.y[:1])}
    found = compare(peer, make(), parties, test)
    assert len(found.rounds) == 2
    assert found.last.up > 0


@pytest.mark.parametrize(
    ("peer", "learner", "why"),
    [
        (PFNM(), ob.Torch("cnn", settings={"shape": [1, 8, 8]}), "fully connected"),
        (PFNM(), ob.Sklearn("DecisionTreeClassifier"), "must provide gradients"),
        (FedDF(), ob.Sklearn("DecisionTreeClassifier"), "must provide gradients"),
        (FedMD(), ob.Sklearn("DecisionTreeClassifier"), "must provide gradients"),
        (FedGEN(), ob.Sklearn("DecisionTreeClassifier"), "must provide gradients"),
        (FedGEN(), ob.Torch("resnet8", settings={"shape": [1, 8, 8]}), "consecutive layers"),
        (FedGEN(), ob.Torch("mlp", settings={"shape": [1, 8, 8]}, augment="crop"), "augment"),
    ],
)
def test_unsuitable_learners_are_rejected(peer, learner, why, make, parties, test):
    if learner.name == "torch" and learner.module == "cnn":
        election = ob.Election(classes=range(10), public=np.zeros((4, 256)), method=ob.FedKT(),
                               learner=replace(learner, settings={"shape": [1, 16, 16]}))  # fmt: skip
        data = election.data(np.zeros((20, 256)), np.arange(20) % 10)
        parties, test = {"one": data}, data
    else:
        election = make(learner)
    with pytest.raises(ElectionError, match=why):
        compare(peer, election, parties, test)


@pytest.mark.parametrize("peer", [FedDF(), FedMD()])
def test_peers_that_need_public_rows_are_rejected_without_them(peer, parties, test):
    election = ob.Election(classes=range(10), method=ob.Ensemble(), learner=replace(QUICK, settings={"shape": [64]}))
    with pytest.raises(ElectionError, match=f"{peer.name} needs a public set"):
        compare(peer, election, parties, test)
