"""FedGEN's generator: its loss, its training, and the network whose input is a row or a latent."""

from __future__ import annotations

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ElectionError

torch = pytest.importorskip("torch")

from oneballot_lab.peers import _generator as G  # noqa: E402


def heads(seed, parties=3, classes=4, latent=6, seen=None, alike=0.0):
    draw = np.random.default_rng(seed)
    common = alike * np.eye(classes, latent)
    networks = [
        {"out.weight": (common + draw.normal(size=(classes, latent))).astype(np.float32),
         "out.bias": draw.normal(size=classes).astype(np.float32)}
        for _ in range(parties)
    ]  # fmt: skip
    seen = np.ones((parties, classes)) if seen is None else seen
    return networks, G.Heads.of(networks, "out", seen)


def test_the_loss_weights_each_partys_cross_entropy_by_its_share_of_the_class():
    seen = np.array([[3, 0, 1, 0], [1, 2, 1, 0], [0, 2, 2, 5]])
    networks, found = heads(0, seen=seen)
    z, y = np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32), np.array([0, 1, 2, 3, 0])
    total = 0.0
    for row, label in zip(z, y, strict=True):
        for values, own in zip(networks, seen, strict=True):
            scores = values["out.weight"] @ row + values["out.bias"]
            total += own[label] / seen[:, label].sum() * (np.log(np.exp(scores).sum()) - scores[label])
    assert found.loss(torch.from_numpy(z), torch.from_numpy(y)).item() == pytest.approx(total / 5, rel=1e-5)


def test_the_diversity_loss_equals_a_hand_computed_value():
    z, noise = torch.tensor([[0.0, 0.0], [1.0, 3.0]]), torch.tensor([[0.0], [2.0]])
    assert G.diversity(z, noise).item() == pytest.approx(np.exp(-(2 * 2.0 * 4.0) / 4))
    assert G.diversity(torch.ones(2, 2), noise).item() == 1.0, "all alike is the worst"


def test_heads_classify_a_trained_generators_draws_correctly():
    _, found = heads(2, alike=4.0)
    generator = G.Generator(4, 6, noise=8, hidden=64, seed=0)
    labels = np.arange(400) % 4

    def right():
        z = torch.from_numpy(generator.draw(labels, seed=5))
        logits = (torch.einsum("kcd,bd->kbc", found.weights, z) + found.biases.unsqueeze(1)).mean(0)
        return (logits.argmax(1).numpy() == labels).mean()

    before = right()
    G.train_generator(generator, found, np.ones(4), steps=400, rate=1e-2, diverse=1.0, seed=0)
    assert before < 0.6
    assert right() > 0.95
    z = generator.draw(np.zeros(50, dtype=np.int64), seed=6)
    assert (z >= 0).all()
    assert z.std(0).max() > 0.05, "one class is drawn in more than one way"


def test_a_generator_is_determined_by_its_seeds():
    _, found = heads(2)
    drawn = []
    for seed in (0, 0, 1):
        generator = G.Generator(4, 6, noise=8, hidden=64, seed=3)
        G.train_generator(generator, found, np.ones(4), steps=5, rate=1e-3, diverse=1.0, seed=seed)
        drawn.append(generator.draw(np.arange(4), seed=1))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


@pytest.mark.parametrize(("module", "shape"), [("mlp", (30,)), ("lenet", (1, 16, 16))])
def test_row_or_latent_is_the_network_on_rows_and_its_last_layer_on_latents(module, shape):
    network = ob.Torch(module, epochs=1).network(shape, 3)
    name, latent = G.last_layer(network)
    either = G.MakeRowOrLatent(network)(3)
    draw = np.random.default_rng(0)
    X, z = draw.random((4, *shape), dtype=np.float32), draw.random((5, latent), dtype=np.float32)
    rows = G.pad_rows(X, latent)
    found = either(torch.from_numpy(np.concatenate([rows, G.pad_latents(z, rows.shape[1])])))
    np.testing.assert_allclose(found[:4].detach(), network.bare(torch.from_numpy(X)).detach(), atol=1e-6)
    last = network.bare.get_submodule(name)
    np.testing.assert_allclose(found[4:].detach(), last(torch.from_numpy(z)).detach(), atol=1e-6)


def test_a_latent_has_gradients_only_in_the_last_layer():
    network = ob.Torch("mlp", epochs=1).network((30,), 3)
    _, latent = G.last_layer(network)
    either = G.MakeRowOrLatent(network)(3)
    rows = G.pad_latents(np.ones((5, latent)), 30 + latent + 1)
    either(torch.from_numpy(rows)).logsumexp(1).sum().backward()
    gradients = {name: float(weight.grad.abs().sum()) for name, weight in either.named_parameters()}
    assert gradients.pop("network.out.weight") > 0
    assert gradients.pop("network.out.bias") > 0
    assert set(gradients.values()) == {0.0}


def test_networks_without_a_last_linear_layer_are_rejected():
    network = ob.Torch("resnet8", epochs=1).network((3, 16, 16), 3)
    with pytest.raises(ElectionError, match="consecutive layers"):
        G.last_layer(network)
