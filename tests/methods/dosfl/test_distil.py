"""Distillation against a plain loop with torch's own optimizer, and many parties at once against each party alone."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.func import functional_call  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from distilling import CPU, DOUBLE, INITIAL, NET, RNG, SETTINGS, VARIANTS, VARIED, X, Y, distil_in_double, party  # noqa: E402

from oneballot import DOSFL  # noqa: E402
from oneballot.errors import DataError, ElectionError  # noqa: E402
from oneballot.fleet import draws  # noqa: E402
from oneballot.fleet.models.network import built_in  # noqa: E402
from oneballot.fleet.train.devices import one_thread  # noqa: E402
from oneballot.methods.dosfl import distil as distil_module  # noqa: E402
from oneballot.methods.dosfl.distil import distil  # noqa: E402
from oneballot.methods.dosfl.distillation import DistilledData, Party, initial_labels  # noqa: E402
from oneballot.methods.dosfl.initialization import draw_initial_weights  # noqa: E402
from oneballot.methods.dosfl.stacked import StackedNetwork  # noqa: E402
from oneballot.methods.dosfl.wave import DistilWave  # noqa: E402
from oneballot.types import Array  # noqa: E402
from oneballot_lab.reproduce.interception import accuracies  # noqa: E402


def algorithm_1(one: Party) -> list[Array]:
    """Lines 14 to 31 of Algorithm 1, with autograd through the whole loop and torch.optim.Adam."""
    settings = one.settings
    steps, batch = settings.steps, settings.batch
    noise = draws.normal(one.seed, 0, steps * batch * 4).reshape(steps, batch, 4)
    x = torch.tensor(noise, dtype=DOUBLE, requires_grad=True)
    y = torch.tensor(initial_labels(one.y, steps, batch, 3), dtype=DOUBLE, requires_grad=settings.soft_labels)
    raw = torch.full((steps,), float(np.log(np.expm1(settings.first_rate))), dtype=DOUBLE, requires_grad=True)
    learned = [x, raw, *([y] if settings.soft_labels else [])]
    adam = torch.optim.Adam(learned, settings.learning_rate, betas=(0.5, 0.999))
    module = NET.make({}).double()
    for epoch in range(settings.local_epochs):
        order = draws.order(one.seed, epoch, len(one.rows))
        adam.param_groups[0]["lr"] = settings.learning_rate * settings.decay ** (epoch // settings.decay_period)
        for begin in range(0, len(one.rows), settings.local_batch):
            mine = order[begin : begin + settings.local_batch]
            theta = {name: torch.tensor(value, dtype=DOUBLE, requires_grad=True) for name, value in INITIAL.items()}
            for _ in range(settings.epochs):
                for j in range(steps):
                    logs = functional_call(module, theta, (x[j],)).log_softmax(1)
                    loss = -(y[j] * logs).sum(1).mean()
                    gradients = torch.autograd.grad(loss, list(theta.values()), create_graph=True)
                    eta = F.softplus(raw[j])
                    theta = {name: w - eta * g for (name, w), g in zip(theta.items(), gradients, strict=True)}
            rows = torch.tensor(X[one.rows[mine]], dtype=DOUBLE)
            adam.zero_grad()
            F.cross_entropy(functional_call(module, theta, (rows,)), torch.tensor(one.y[mine])).backward()
            adam.step()
            with torch.no_grad():
                y.clamp_(min=-np.inf if settings.negative_labels else 0)
    return [part.detach().numpy() for part in (x, y, F.softplus(raw))]


def assert_alike(one: DistilledData, other: DistilledData, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    for mine, theirs in zip(vars(one).values(), vars(other).values(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "added",
    [{}, {"soft_labels": True}, {"decay_period": 2}, {"soft_labels": True, "negative_labels": True}],
    ids=str,
)
def test_distillation_is_algorithm_1_of_the_paper(added: dict[str, Any]) -> None:
    settings = replace(SETTINGS, **added)
    one = party(np.arange(40), 7, settings)
    (ours,) = distil_in_double([one])
    for mine, theirs in zip((ours.inputs, ours.labels, ours.rates), algorithm_1(one), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    hard = initial_labels(one.y, settings.steps, settings.batch, 3)
    assert np.array_equal(ours.labels, hard) != settings.soft_labels
    assert (ours.labels.min() < 0) == settings.negative_labels


def test_a_wave_gives_each_party_what_it_gets_alone() -> None:
    """Parties that are finished leave the wave."""
    wave = DistilWave(StackedNetwork(NET, CPU, DOUBLE), torch.from_numpy(X), VARIED, 3)
    assert len(list(wave.train())) == sum(settings.local_epochs for settings in VARIANTS)
    for one, together in zip(VARIED, wave.results(), strict=True):
        (alone,) = distil_in_double([one])
        assert_alike(together, alone)


@pytest.mark.slow
@pytest.mark.parametrize(("fit", "most", "sizes"), [(100, 400, [6, 3]), (100, 4, [3, 3, 3]), (2, 400, [2, 2, 2, 2, 1])])
def test_waves_have_equal_sizes_fit_the_memory_and_have_a_largest_size(
    monkeypatch: Any, fit: int, most: int, sizes: list[int]
) -> None:
    others = [replace(one, settings=replace(one.settings, steps=2)) for one in VARIED[:3]]
    monkeypatch.setattr(distil_module, "models_that_fit", lambda *trial: fit)
    monkeypatch.setattr(distil_module, "MAX_WAVE", most)
    monkeypatch.setattr(distil_module, "FEW", 2)
    job = distil_module._Job(NET, torch.from_numpy(X), [*VARIED, *others], 3, DOUBLE)
    seen = []
    monkeypatch.setattr(job, "_run", lambda numbers, run=job._run: seen.append(len(numbers)) or run(numbers))
    assert sum(job.on_gpu()) == sum(one.settings.local_epochs for one in [*VARIED, *others])
    assert seen == sizes
    for i, alone in enumerate(distil_in_double([*VARIED, *others])):
        assert_alike(job.results[i], alone)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_distilled_data_equal_those_on_a_cpu() -> None:
    others = [replace(one, settings=replace(one.settings, steps=2)) for one in VARIED[:2]]
    on_gpu, on_cpu = (distil_in_double([*VARIED, *others], torch.device(where)) for where in ("cuda", "cpu"))
    for one, other in zip(on_gpu, on_cpu, strict=True):
        assert_alike(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_recorded_batches_equal_unrecorded_ones_and_up_to_rounding_those_on_a_cpu() -> None:
    """Three batches: a warm-up, one that is recorded, and one that is replayed."""
    lenet = built_in("lenet", {"channels": [2, 20], "hidden": [5]}, (1, 14, 14), 3)
    images = RNG.normal(size=(40, 1, 14, 14)).astype(np.float32)
    settings = replace(SETTINGS, soft_labels=True, soft_reset=0.3, masking=0.2)
    parties = [
        Party(np.arange(40), Y[:40], draw_initial_weights(lenet, "xavier-uniform", i), i, settings) for i in range(3)
    ]
    results = []
    for where, record in (("cuda", True), ("cuda", False), ("cpu", False)):
        place = torch.device(where)
        net, X = StackedNetwork(lenet, place, DOUBLE), torch.from_numpy(images).to(place)
        with one_thread():
            wave = DistilWave(net, X, parties, 3, record=record)
            results.append([[part.cpu().clone() for part in batch] for batch in islice(wave.batches(), 3)])
    recorded, unrecorded, on_cpu = results
    for others, atol in ((unrecorded, 0.0), (on_cpu, 1e-5)):  # a CPU rounds the float32 noise differently
        for mine, theirs in zip(recorded, others, strict=True):
            for one, other in zip(mine, theirs, strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=atol)


@pytest.mark.parametrize("enough", [10.0, 0.0], ids=["in this process", "in processes"])
def test_on_a_cpu_a_partys_result_does_not_depend_on_other_parties(enough: float, monkeypatch: Any) -> None:
    monkeypatch.setattr(distil_module, "PROCESSES_PAY_OFF", enough)
    parties = [party(np.arange(30), 1), party(np.arange(30, 90), 2), party(np.arange(90, 93), 3)]
    monkeypatch.setenv("ONEBALLOT_WORKERS", "2")
    together = distil(NET, X, parties, 3, CPU)
    for one, mine in zip(parties, together, strict=True):
        (alone,) = distil(NET, X, [one], 3, CPU)
        assert all(np.array_equal(a, b) for a, b in zip(vars(mine).values(), vars(alone).values(), strict=True))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.float64])
def test_rows_of_any_numeric_type_can_be_distilled(dtype: type) -> None:
    rows = np.arange(60).reshape(15, 4).astype(dtype)
    one = party(np.arange(15), 1, replace(SETTINGS, local_epochs=1))
    expected = rows / 255 if dtype is np.uint8 else rows
    (mine,), (theirs,) = (distil(NET, x, [one], 3, CPU) for x in (rows, expected.astype(np.float32)))
    np.testing.assert_allclose(mine.inputs, theirs.inputs, rtol=1e-5, atol=1e-6)


def test_a_network_trained_on_distilled_data_is_accurate_and_one_trained_on_noise_is_not() -> None:
    settings = replace(SETTINGS, local_epochs=30, soft_labels=True, negative_labels=True)
    (data,) = distil(NET, X, [party(np.arange(100), 3, settings)], 3, CPU)
    noise = replace(data, inputs=RNG.normal(size=data.inputs.shape).astype(np.float32))
    trained, blind = accuracies(NET, [INITIAL] * 2, [[data], [noise]], settings.epochs, X[100:], Y[100:], device="cpu")
    assert trained > 0.8 > 0.6 > blind


def test_soft_resets_redraw_their_share_of_the_variance_and_masking_hides_its_share_of_the_steps() -> None:
    settings = replace(SETTINGS, steps=200, soft_reset=0.25, masking=0.3)
    parties = [party(np.arange(9), seed, settings) for seed in (1, 2)]
    wave = DistilWave(StackedNetwork(NET, CPU), torch.from_numpy(X), parties, 3)
    first, second = (wave._reset_weights(torch.tensor(number), 2) for number in (0, 1))
    for initial, one, other in zip(wave.initial, first, second, strict=True):
        if initial.any():
            drawn = one - 0.75**0.5 * initial
            assert drawn.std().item() == pytest.approx(0.5 * initial.std().item(), rel=0.25)
            assert one.std().item() == pytest.approx(initial.std().item(), rel=0.25)
            assert one.mean().item() == pytest.approx(initial.mean().item(), abs=0.1 * initial.std().item())
            assert not torch.equal(one, other)
        else:
            assert torch.equal(one, initial)
    steps, masked = wave._masked_steps(torch.tensor(0))
    assert masked.double().mean().item() == pytest.approx(0.3, abs=0.08)
    same = (steps.inputs == wave.learned[0]).flatten(2).all(2)
    assert torch.equal(same, ~masked)
    by_inputs, _, by_rates = next(wave.batches())
    assert not by_inputs[masked].any()
    assert by_rates[masked].any()


def test_a_full_reset_keeps_each_layers_mean_and_all_constants() -> None:
    initial = {name: np.full_like(value, 3) if name.endswith("bias") else value + 5 for name, value in INITIAL.items()}
    settings = replace(SETTINGS, soft_reset=1.0)
    parties = [replace(party(np.arange(9), seed, settings), initial=initial) for seed in (1, 2)]
    wave = DistilWave(StackedNetwork(NET, CPU), torch.from_numpy(X), parties, 3)
    for name, old, drawn in zip(wave.net.names, wave.initial, wave._reset_weights(torch.tensor(0), 2), strict=True):
        if name.endswith("bias"):
            assert torch.equal(drawn, old)
        else:
            assert drawn.mean().item() == pytest.approx(5, abs=0.5)
            assert np.corrcoef(drawn.flatten(), old.flatten())[0, 1] < 0.9


def test_the_share_of_skipped_batches_is_reported() -> None:
    far = X.copy()
    far[:20] = 1e30
    settings = replace(SETTINGS, local_batch=20)
    parties = [party(rows, 1, settings) for rows in (np.arange(40, 80), np.arange(40), np.arange(20))]
    none, half, all_ = (data.skipped for data in distil(NET, far, parties, 3, CPU))
    assert none == 0 < half <= 1 == all_


def test_gradients_that_are_not_finite_change_nothing() -> None:
    wave = DistilWave(StackedNetwork(NET, CPU), torch.from_numpy(X), [party(np.arange(9), s) for s in (1, 2)], 3)
    wave.learned[0][1, 0] = torch.nan
    by_inputs, _, by_rates = next(wave.batches())
    assert by_inputs[0].any()
    assert not by_inputs[1].any()
    assert not by_rates[1].any()


def test_initial_labels_have_one_of_each_class_or_the_classes_of_the_party() -> None:
    y = np.array([2, 2, 2, 4, 4])
    assert (initial_labels(y, 3, 5, 5).sum(1) == 1).all()
    assert initial_labels(y, 3, 1, 5).argmax(-1).ravel().tolist() == [2, 4, 2]


def test_shared_initial_data_do_not_depend_on_a_partys_rows() -> None:
    two = [party(np.arange(20), 1), party(np.arange(20, 60), 2)]
    for noise_seed, equal in ((None, False), (7, True)):
        parties = [replace(one, noise_seed=noise_seed) for one in two]
        inputs, labels, _ = DistilWave(StackedNetwork(NET, CPU), torch.from_numpy(X), parties, 3).learned
        assert torch.equal(inputs[0], inputs[1]) == equal
    assert torch.equal(labels[0], labels[1])
    assert labels.sum((0, 1, 2)).min() > 0


def test_parties_without_rows_and_networks_that_cannot_be_distilled_are_refused() -> None:
    with pytest.raises(DataError, match="has 0 rows"):
        distil(NET, X, [party(np.arange(0), 1)], 3, CPU)
    with pytest.raises(ElectionError, match="batch normalisation"):
        StackedNetwork(built_in("resnet8", {"width": 2}, (1, 8, 8), 3), CPU)
    with pytest.raises(ElectionError, match='embedding = "frozen"'):
        StackedNetwork(built_in("textcnn", {"vocabulary": 9, "dimension": 4}, (8,), 3), CPU)
    with pytest.raises(ElectionError, match="masking"):
        DOSFL(masking=1.5)
    with pytest.raises(ElectionError, match="steps"):
        DOSFL(steps=0)
