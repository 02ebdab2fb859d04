"""DOSFL on text: TextCNN's first weights, one logit with binary cross-entropy, a loss over a party's own classes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import oneballot as ob  # noqa: E402
from oneballot.errors import ElectionError  # noqa: E402
from oneballot.fleet.models.network import Network, built_in  # noqa: E402
from oneballot.methods.dosfl.distillation import Party  # noqa: E402
from oneballot.methods.dosfl.initialization import draw_initial_weights  # noqa: E402
from oneballot.methods.dosfl.stacked import StackedNetwork  # noqa: E402
from oneballot.methods.dosfl.steps import DistilledSteps, backpropagate, descend, sgd_step, train_merged  # noqa: E402
from oneballot.methods.dosfl.wave import DistilWave  # noqa: E402
from oneballot.types import Data  # noqa: E402

CPU, DOUBLE = torch.device("cpu"), torch.float64
SETTINGS = {"vocabulary": 12, "dimension": 5, "filters": 8, "widths": [1, 2], "embedding": "frozen"}
QUICK: dict[str, Any] = {"steps": 2, "epochs": 2, "batch": 2, "local_epochs": 2, "local_batch": 40}


def textcnn(classes: int = 2, **settings: Any) -> Network:
    return built_in("textcnn", {**SETTINGS, **settings}, (6,), classes)


def random_steps(net: StackedNetwork, models: int) -> DistilledSteps:
    rng = torch.Generator().manual_seed(5)
    inputs = torch.randn(models, 2, 2, *net.shape, generator=rng, dtype=DOUBLE)
    labels = 2 * torch.randn(models, 2, 2, 1, generator=rng, dtype=DOUBLE)  # of any sign, and above 1
    return DistilledSteps(inputs, labels, 0.1 + torch.rand(models, 2, generator=rng, dtype=DOUBLE))


def test_textcnns_first_weights_have_the_fans_of_a_convolution_over_whole_word_vectors() -> None:
    """Glorot's bound for Conv2d(1, 100, (k, 100)): √(6 / (k·100 + 100·k·100))."""
    drawn = draw_initial_weights(
        built_in("textcnn", {"vocabulary": 9, "embedding": "frozen"}, (8,), 2), "xavier-uniform", 5
    )
    for i, width in enumerate((3, 4, 5)):
        value = drawn[f"convs.{i}.weight"]
        assert value.shape == (100, 100, width)
        assert np.abs(value).max() == pytest.approx(math.sqrt(6 / (width * 100 + 100 * width * 100)), rel=1e-3)
        theirs = nn.init.xavier_uniform_(torch.empty(100, 1, width, 100))
        assert value.std() == pytest.approx(theirs.std().item(), rel=0.02)
        assert not drawn[f"convs.{i}.bias"].any()
    assert np.abs(drawn["out.weight"]).max() == pytest.approx(math.sqrt(6 / 302), rel=0.02)


def test_the_fan_in_and_so_kaimings_weights_are_those_of_a_convolution_over_time() -> None:
    drawn = draw_initial_weights(textcnn(), "kaiming-uniform", 5)
    assert np.abs(drawn["convs.1.weight"]).max() == pytest.approx(math.sqrt(6 / 10), rel=0.05)


def test_one_logit_has_the_parameters_of_the_paper_and_gives_the_probabilities_of_a_sigmoid() -> None:
    wide = {"vocabulary": 9, "embedding": "frozen", "one_logit": True}
    bare = built_in("textcnn", wide, (200,), 2).bare
    assert sum(weight.numel() for weight in bare.parameters() if weight.requires_grad) == 120_601  # table 3
    network = textcnn(one_logit=True)
    tokens = torch.randint(0, 12, (7, 6))
    module = network.make(network.start(1)).eval()
    logits = module(tokens)
    assert logits.shape == (7, 2)
    assert not logits[:, 0].any()
    torch.testing.assert_close(logits.softmax(1)[:, 1], logits[:, 1].sigmoid())
    labels = torch.tensor([0, 1, 1, 0, 1, 0, 0])
    binary = F.binary_cross_entropy_with_logits(logits[:, 1], labels.float())
    torch.testing.assert_close(F.cross_entropy(logits, labels), binary)


def unrolled(net: StackedNetwork, weights: list[Tensor], steps: Any, epochs: int) -> list[Tensor]:
    """Plain steps of gradient descent on torch's binary cross-entropy, differentiable."""
    inputs, labels, rates = steps
    for _ in range(epochs):
        for j in range(inputs.shape[1]):
            logits = net(weights, inputs[:, j])[..., 1]
            loss = F.binary_cross_entropy_with_logits(logits, labels[:, j, :, 0])
            gradients = torch.autograd.grad(loss, weights, create_graph=True)
            weights = [w - rates[0, j] * g for w, g in zip(weights, gradients, strict=True)]
    return weights


def test_gradients_through_steps_of_binary_cross_entropy_equal_those_of_autograd() -> None:
    network = textcnn(one_logit=True)
    net = StackedNetwork(network, CPU, DOUBLE)
    initial = net.stack([draw_initial_weights(network, "xavier-uniform", 1)])
    steps = random_steps(net, 1)
    x = torch.randn(1, 4, *net.shape, dtype=DOUBLE)
    target = torch.tensor([[0, 1, 1, 0]])

    leaves = [part.clone().requires_grad_() for part in (steps.inputs, steps.labels, steps.rates)]
    final = unrolled(net, [weight.clone().requires_grad_() for weight in initial], leaves, epochs=2)
    loss = F.binary_cross_entropy_with_logits(net(final, x)[0, :, 1], target[0].double())
    theirs = torch.autograd.grad(loss, leaves)

    path = [initial, *descend(net, initial, steps, 2)]
    ours = backpropagate(net, path, steps, net.gradients(path[-1], x, F.one_hot(target, 2).double()))
    for mine, plain, end in zip(ours, theirs, (final, final, final), strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-9, atol=1e-12)
        for weight, other in zip(path[-1], end, strict=True):
            torch.testing.assert_close(weight, other.detach(), rtol=1e-9, atol=1e-12)


def test_averaged_steps_of_one_logit_are_the_mean_of_the_parties_steps() -> None:
    net = StackedNetwork(textcnn(one_logit=True), CPU, DOUBLE)
    both = random_steps(net, 2)
    parties = [DistilledSteps(*(part[i : i + 1] for part in vars(both).values())) for i in range(2)]
    initial = net.stack([draw_initial_weights(textcnn(one_logit=True), "xavier-uniform", 1)])
    weights = initial
    for j in range(2):
        own = [sgd_step(net, weights, *steps[j]) for steps in parties]
        weights = [torch.stack(pair).mean(0) for pair in zip(*own, strict=True)]
    for mine, expected in zip(train_merged(net, initial, parties, 1, "averaged"), weights, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["mlp", "textcnn"])
def test_a_loss_over_own_classes_is_the_cross_entropy_of_their_logits_alone(name: str) -> None:
    """One party has the classes 0 and 2 of four, another one all of them; with and without autograd."""
    network = textcnn(4) if name == "textcnn" else built_in("mlp", {"hidden": [5]}, (6,), 4)
    X = np.random.default_rng(0).integers(0, 12, (30, 6))
    X = X.astype(np.int32 if name == "textcnn" else np.float32)
    y = np.array([0, 2] * 10 + [0, 1, 2, 3, 1, 2, 3, 1, 2, 3])
    settings = ob.DOSFL(**QUICK, loss_classes="own")
    start = draw_initial_weights(network, "xavier-uniform", 1)
    parties = [Party(rows, y[rows], start, 1, settings) for rows in (np.arange(20), np.arange(20, 30))]
    parties.append(replace(parties[0], settings=replace(settings, loss_classes="all")))
    net = StackedNetwork(network, CPU, DOUBLE)
    wave = DistilWave(net, torch.from_numpy(X), parties, 4)
    assert wave.among is not None
    number, rows, weight = wave._arguments(0)
    assert int(number) == 0
    ours = wave._loss_gradients(wave.initial, rows, weight)
    for i, one in enumerate(wave.parties):
        mine = rows[i][weight[i] > 0]
        weights = [part[i : i + 1].clone().requires_grad_() for part in wave.initial]
        logits = net(weights, *net.inputs(wave.X[wave.rows[mine]].unsqueeze(0)))[0]
        own = np.unique(one.y) if one.settings.loss_classes == "own" else np.arange(4)
        targets = torch.from_numpy(np.searchsorted(own, wave.y[mine].numpy()))
        theirs = torch.autograd.grad(F.cross_entropy(logits[:, own], targets), weights)
        for got, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(got[i : i + 1], expected, rtol=1e-9, atol=1e-12)


def election(**settings: Any) -> ob.Election:
    learner = ob.Torch("textcnn", settings={**SETTINGS, "shape": [6], "one_logit": True}, device="cpu")
    return ob.Election(classes=["no", "yes"], method=ob.DOSFL(**{**QUICK, **settings}), learner=learner)


def test_an_election_with_one_logit_sends_one_label_an_input_and_its_outcome_can_be_a_start(tmp_path) -> None:
    rng = np.random.default_rng(2)
    tokens = rng.integers(1, 12, size=(80, 6)).astype(np.int32)
    y = np.array(["no", "yes"])[((tokens < 6).sum(1) >= 3).astype(int)]
    usual: dict[str, Any] = {"steps": 2, "local_epochs": 30, "first_rate": 0.5, "learning_rate": 0.1}
    one = election(**usual, negative_labels=True)
    simulation = ob.simulate(one, tokens, y, parties=2, split="homogeneous")
    assert simulation.ballots[0].contents["labels"].shape == (2, 2, 1)
    assert (simulation.outcome.model.predict(tokens) == y).mean() > (y == "no").mean() + 0.15
    simulation.outcome.save(tmp_path / "outcome")
    later = replace(one, start=tmp_path / "outcome")
    assert ob.cast(later, tokens, y, party="a").contents["labels"].shape == (2, 2, 1)
    two_logits = ob.Torch("textcnn", settings={**SETTINGS, "shape": [6]}, device="cpu")
    with pytest.raises(ElectionError, match="cannot start from textcnn"):
        ob.cast(replace(later, learner=two_logits), tokens, y, party="a")


def test_a_ballot_with_the_labels_of_two_logits_is_spoiled() -> None:
    from oneballot.ballot.seal import seal

    one = election()
    tokens = np.random.default_rng(2).integers(1, 12, size=(20, 6)).astype(np.int32)
    ballot = ob.cast(one, tokens, np.array(["no", "yes"] * 10), party="a")
    pairs = {**ballot.contents, "labels": np.repeat(ballot.contents["labels"], 2, axis=-1)}
    outcome = ob.tally(one, [ballot, seal(pairs, one, "b")])
    assert outcome.voted.keys() == {"a"}
    assert "labels" in next(iter(outcome.spoiled.values()))


def test_a_party_with_one_class_abstains_from_a_loss_over_its_own_classes() -> None:
    one = election(loss_classes="own")
    tokens = np.ones((10, 6), dtype=np.int32)
    ballot = ob.cast(one, Data(tokens, np.zeros(10, dtype=np.int64)), party="a")
    assert "compares only the classes that it has" in ballot.abstained


def test_elections_that_do_not_use_the_younger_settings_keep_their_description() -> None:
    assert "loss_classes" not in ob.DOSFL().describe()
    assert ob.DOSFL(loss_classes="own").describe()["loss_classes"] == "own"
