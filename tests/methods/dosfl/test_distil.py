"""Distillation against a plain loop with torch's own optimizer, and as a fleet against each party alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.func import functional_call  # noqa: E402

from oneballot.errors import DataError, ElectionError  # noqa: E402
from oneballot.fleet.models.network import built_in  # noqa: E402
from oneballot.fleet.train import draws  # noqa: E402
from oneballot.fleet.train.devices import one_thread  # noqa: E402
from oneballot.methods.dosfl import distil as fleet_distil  # noqa: E402
from oneballot.methods.dosfl.distil import distil  # noqa: E402
from oneballot.methods.dosfl.distil_wave import Wave  # noqa: E402
from oneballot.methods.dosfl.distillation import Distillation, Distilled, Party, first_labels  # noqa: E402
from oneballot.methods.dosfl.initial import NAMES, RULES, initial  # noqa: E402
from oneballot.methods.dosfl.lessons import step  # noqa: E402
from oneballot.methods.dosfl.logits import Logits  # noqa: E402
from oneballot.methods.dosfl.replay import Course, replay, take_courses  # noqa: E402
from oneballot.types import Array  # noqa: E402
from oneballot_lab.reproduce.interception import accuracies, guess_weights, perturb, perturb_weights  # noqa: E402

DOUBLE = torch.float64
NET = built_in("mlp", {"hidden": [6]}, (4,), 3)
PLAN = Distillation(steps=3, epochs=2, batch=3, first_rate=0.3, learning_rate=0.1, local_epochs=4, local_batch=16)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4)).astype(np.float32)
Y = (X @ RNG.normal(size=(4, 3))).argmax(1)
START = initial(NET, "xavier-uniform", 1)


def party(rows: Array, seed: int, plan: Distillation = PLAN) -> Party:
    return Party(rows, Y[rows], START, seed, plan)


def replayed(lessons: Sequence[Distilled], merging: Any = "interleaved") -> tuple[Any, int | None]:
    (learned,) = replay(NET, [Course(START, lessons, 2, merging)], 1e9, device="cpu")
    return learned.values, learned.burst


def by_the_book(one: Party) -> list[Array]:
    """Lines 14 to 31 of Algorithm 1, with autograd through the whole loop and torch.optim.Adam."""
    plan = one.plan
    shape = (plan.steps, plan.batch, 4)
    x = torch.tensor(draws.normal(one.seed, 0, int(np.prod(shape))).reshape(shape), dtype=DOUBLE, requires_grad=True)
    y = torch.tensor(first_labels(one.y, plan.steps, plan.batch, 3), dtype=DOUBLE, requires_grad=plan.soft_labels)
    raw = torch.full((plan.steps,), float(np.log(np.expm1(plan.first_rate))), dtype=DOUBLE, requires_grad=True)
    adam = torch.optim.Adam([x, raw, *([y] if plan.soft_labels else [])], plan.learning_rate, betas=(0.5, 0.999))
    module = NET.make({}).double()
    batches = -(-len(one.rows) // plan.local_batch)
    for epoch in range(plan.local_epochs):
        order = draws.order(one.seed, epoch, len(one.rows))
        adam.param_groups[0]["lr"] = plan.learning_rate * plan.decay ** (epoch // plan.decay_period)
        for b in range(batches):
            mine = order[b * plan.local_batch : (b + 1) * plan.local_batch]
            theta = {name: torch.tensor(value, dtype=DOUBLE, requires_grad=True) for name, value in START.items()}
            for _ in range(plan.epochs):
                for j in range(plan.steps):
                    logs = functional_call(module, theta, (x[j],)).log_softmax(1)
                    found = torch.autograd.grad(-(y[j] * logs).sum(1).mean(), list(theta.values()), create_graph=True)
                    eta = F.softplus(raw[j])
                    theta = {name: w - eta * g for (name, w), g in zip(theta.items(), found, strict=True)}
            rows = torch.tensor(X[one.rows[mine]], dtype=DOUBLE)
            loss = F.cross_entropy(functional_call(module, theta, (rows,)), torch.tensor(one.y[mine]))
            adam.zero_grad()
            loss.backward()
            adam.step()
            with torch.no_grad():
                y.clamp_(min=-np.inf if plan.negative_labels else 0)
    return [part.detach().numpy() for part in (x, y, F.softplus(raw))]


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, soft_labels=True), replace(PLAN, decay_period=2),
                                  replace(PLAN, soft_labels=True, negative_labels=True)], ids=str)  # fmt: skip
def test_distillation_is_algorithm_1_of_the_paper(plan: Distillation) -> None:
    one = party(np.arange(40), 7, plan)
    (ours,) = distil(NET, X, [one], 3, device="cpu", kind=DOUBLE)
    for mine, theirs in zip((ours.inputs, ours.labels, ours.rates), by_the_book(one), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    hard = first_labels(one.y, plan.steps, plan.batch, 3)
    assert np.array_equal(ours.labels, hard) != plan.soft_labels
    assert (ours.labels.min() < 0) == plan.negative_labels


VARIANTS = [PLAN, replace(PLAN, soft_labels=True, negative_labels=True), replace(PLAN, soft_reset=0.1),
            replace(PLAN, masking=0.4), replace(PLAN, first_rate=0.1, local_epochs=6),
            replace(PLAN, learning_rate=0.02, decay=0.1, decay_period=1)]  # fmt: skip
VARIED = [
    Party(rows, Y[rows], initial(NET, "xavier-uniform", i % 2), i, plan)
    for i, (plan, rows) in enumerate(zip(VARIANTS, np.split(np.arange(150), (20, 25, 90, 100, 140)), strict=True))
]
"""Uneven sizes, two starts, and all that may differ in one wave."""


def assert_alike(found: Distilled, wanted: Distilled, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    for mine, theirs in zip(vars(found).values(), vars(wanted).values(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol)


def test_a_fleet_is_each_party_alone() -> None:
    """In one wave, in which parties leave when they are done."""
    wave = Wave(Logits(NET, torch.device("cpu"), DOUBLE), torch.from_numpy(X), VARIED, 3)
    assert len(list(wave.train())) == sum(plan.local_epochs for plan in VARIANTS)
    for one, together in zip(VARIED, wave.results(), strict=True):
        (alone,) = distil(NET, X, [one], 3, device="cpu", kind=DOUBLE)
        assert_alike(together, alone)


@pytest.mark.parametrize(("fit", "most", "sizes"), [(100, 400, [6, 3]), (100, 4, [3, 3, 3]), (2, 400, [2, 2, 2, 2, 1])])
def test_waves_are_of_one_form_as_many_as_fit_and_no_more_than_keep_a_gpu_busy(
    monkeypatch: Any, fit: int, most: int, sizes: list[int]
) -> None:
    others = [replace(one, plan=replace(one.plan, steps=2)) for one in VARIED[:3]]
    monkeypatch.setattr(fleet_distil, "most_at_once", lambda *trial: fit)
    monkeypatch.setattr(fleet_distil, "AT_MOST", most)
    monkeypatch.setattr(fleet_distil, "FEW", 2)
    job = fleet_distil._Job(NET, torch.from_numpy(X), [*VARIED, *others], 3, DOUBLE)
    seen = []
    monkeypatch.setattr(job, "_run", lambda numbers, run=job._run: seen.append(len(numbers)) or run(numbers))
    assert sum(job.on_gpu()) == sum(one.plan.local_epochs for one in [*VARIED, *others])
    assert seen == sizes
    for i, alone in enumerate(distil(NET, X, [*VARIED, *others], 3, device="cpu", kind=DOUBLE)):
        assert_alike(job.found[i], alone)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_fleets_of_lessons_and_courses_are_as_on_a_cpu() -> None:
    others = [replace(one, plan=replace(one.plan, steps=2)) for one in VARIED[:2]]
    on_gpu, on_cpu = (distil(NET, X, [*VARIED, *others], 3, device=where, kind=DOUBLE) for where in ("cuda", "cpu"))
    for one, other in zip(on_gpu, on_cpu, strict=True):
        assert_alike(one, other, rtol=1e-3, atol=1e-4)
    courses = [Course(one.start, on_cpu[:k], 2, merging) for merging in ("interleaved", "averaged", "weights")
               for one, k in zip(VARIED, (1, 2, 2, 6, 6, 6), strict=True)]  # fmt: skip
    for mine, theirs in zip(*(replay(NET, courses, 1e9, device=where) for where in ("cuda", "cpu")), strict=True):
        for name, value in theirs.values.items():
            np.testing.assert_allclose(mine.values[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_convolutions_are_recorded_and_give_what_they_give_as_launched() -> None:
    """Three batches: one as it is, one that is recorded, one replayed."""
    lenet = built_in("lenet", {"channels": [2, 20], "hidden": [5]}, (1, 14, 14), 3)
    images = RNG.normal(size=(40, 1, 14, 14)).astype(np.float32)
    plan = replace(PLAN, soft_labels=True, soft_reset=0.3, masking=0.2)
    parties = [Party(np.arange(40), Y[:40], initial(lenet, "xavier-uniform", i), i, plan) for i in range(3)]
    found = []
    for where, record in (("cuda", True), ("cuda", False), ("cpu", False)):
        place = torch.device(where)
        with one_thread():
            wave = Wave(Logits(lenet, place, DOUBLE), torch.from_numpy(images).to(place), parties, 3, record=record)
            found.append([[part.cpu().clone() for part in batch] for batch in islice(wave.batches(), 3)])
    for others in found[1:]:
        for mine, theirs in zip(found[0], others, strict=True):
            for one, other in zip(mine, theirs, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("merging", ["interleaved", "averaged", "weights"])
def test_courses_side_by_side_are_each_alone_and_who_bursts_is_alone_in_it(merging: Any) -> None:
    lessons = distil(NET, X, VARIED[:4], 3, device="cpu")
    wild = replace(lessons[3], rates=lessons[3].rates * np.float32(1e30))
    courses = [Course(VARIED[i].start, own, 2, merging)
               for i, own in enumerate((lessons[:2], [lessons[2], wild], lessons[2:]))]  # fmt: skip
    together = take_courses(Logits(NET, torch.device("cpu")), courses, 1e9)
    assert [one.burst for one in together] == [None, 1, None]
    for course, mine in zip(courses[::2], together[::2], strict=True):
        (alone,) = replay(NET, [course], 1e9, device="cpu")
        for name, value in alone.values.items():
            np.testing.assert_allclose(mine.values[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("enough", [10.0, 0.0], ids=["here", "in processes"])
def test_on_a_cpu_who_else_is_there_and_where_changes_no_bit(enough: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oneballot.methods.dosfl.distil.ENOUGH", enough)
    parties = [party(np.arange(30), 1), party(np.arange(30, 90), 2), party(np.arange(90, 93), 3)]
    together = distil(NET, X, parties, 3, device="cpu", workers=2)
    for one, found in zip(parties, together, strict=True):
        (alone,) = distil(NET, X, [one], 3, device="cpu")
        assert all(np.array_equal(a, b) for a, b in zip(vars(found).values(), vars(alone).values(), strict=True))


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, np.float64])
def test_numbers_of_any_kind_are_distilled(kind: type) -> None:
    whole = np.arange(60).reshape(15, 4).astype(kind)
    one = party(np.arange(15), 1, replace(PLAN, local_epochs=1))
    expected = whole / 255 if kind is np.uint8 else whole
    (found,), (theirs,) = (distil(NET, x, [one], 3, device="cpu") for x in (whole, expected.astype(np.float32)))
    np.testing.assert_allclose(found.inputs, theirs.inputs, rtol=1e-5, atol=1e-6)


def test_lessons_teach() -> None:
    """After its lesson a network knows what the party knows; before, and after noise of the same form, it does not."""
    plan = replace(PLAN, local_epochs=30, soft_labels=True, negative_labels=True)
    one = party(np.arange(100), 3, plan)
    (lesson,) = distil(NET, X, [one], 3, device="cpu")
    noise = replace(lesson, inputs=RNG.normal(size=lesson.inputs.shape).astype(np.float32))
    learned, blind = accuracies(NET, [START] * 2, [[lesson], [noise]], plan.epochs, X[100:], Y[100:], device="cpu")
    assert learned > 0.8 > 0.6 > blind


def test_soft_resets_move_the_start_by_their_variance_and_masks_hide_their_share() -> None:
    plan = replace(PLAN, steps=200, soft_reset=0.25, masking=0.3)
    wave = Wave(
        Logits(NET, torch.device("cpu")), torch.from_numpy(X), [party(np.arange(9), s, plan) for s in (1, 2)], 3
    )
    first, second = (wave._starts(torch.tensor(t), 2) for t in (0, 1))
    for true, one, other in zip(wave.starts, first, second, strict=True):
        if true.any():
            drawn = one - 0.75**0.5 * true
            assert drawn.std().item() == pytest.approx(0.5 * true.std().item(), rel=0.25)
            assert one.std().item() == pytest.approx(true.std().item(), rel=0.25)
            assert one.mean().item() == pytest.approx(true.mean().item(), abs=0.1 * true.std().item())
            assert not torch.equal(one, other)
        else:
            assert torch.equal(one, true)
    lesson, hidden = wave._lesson(torch.tensor(0))
    assert hidden.double().mean().item() == pytest.approx(0.3, abs=0.08)
    same = (lesson.inputs == wave.learned[0]).flatten(2).all(2)
    assert torch.equal(same, ~hidden)
    by_inputs, _, by_rates = next(wave.batches())
    assert not by_inputs[hidden].any()
    assert by_rates[hidden].any()


def test_a_reset_draws_around_the_mean_and_leaves_what_is_constant() -> None:
    """As the gains of a normalisation, which are all 1 at first."""
    start = {name: np.full_like(value, 3) if name.endswith("bias") else value + 5 for name, value in START.items()}
    plan = replace(PLAN, soft_reset=1.0)
    parties = [replace(party(np.arange(9), seed, plan), start=start) for seed in (1, 2)]
    wave = Wave(Logits(NET, torch.device("cpu")), torch.from_numpy(X), parties, 3)
    for name, true, drawn in zip(wave.net.names, wave.starts, wave._starts(torch.tensor(0), 2), strict=True):
        if name.endswith("bias"):
            assert torch.equal(drawn, true)
        else:
            assert drawn.mean().item() == pytest.approx(5, abs=0.5)
            assert np.corrcoef(drawn.flatten(), true.flatten())[0, 1] < 0.9


def test_a_lesson_tells_which_share_of_its_batches_taught_nothing() -> None:
    far = X.copy()
    far[:20] = 1e30
    fine, half, none = (party(rows, 1, replace(PLAN, local_batch=20)) for rows in (
        np.arange(40, 80), np.arange(40), np.arange(20)))  # fmt: skip
    found = [lesson.skipped for lesson in distil(NET, far, [fine, half, none], 3, device="cpu")]
    assert found[0] == 0 < found[1] <= 1 == found[2]


def test_slopes_that_are_not_finite_teach_nothing() -> None:
    wave = Wave(Logits(NET, torch.device("cpu")), torch.from_numpy(X), [party(np.arange(9), s) for s in (1, 2)], 3)
    wave.learned[0][1, 0] = torch.nan
    by_inputs, _, by_rates = next(wave.batches())
    assert by_inputs[0].any()
    assert not by_inputs[1].any()
    assert not by_rates[1].any()


def test_first_labels_are_one_of_each_class_or_those_that_the_party_has() -> None:
    y = np.array([2, 2, 2, 4, 4])
    assert (first_labels(y, 3, 5, 5).sum(1) == 1).all()
    assert first_labels(y, 3, 1, 5).argmax(-1).ravel().tolist() == [2, 4, 2]


def test_what_cannot_be_distilled_is_refused() -> None:
    with pytest.raises(DataError, match="has 0 rows"):
        distil(NET, X, [party(np.arange(0), 1)], 3, device="cpu")
    with pytest.raises(ElectionError, match="batch normalisation"):
        Logits(built_in("resnet8", {"width": 2}, (1, 8, 8), 3), torch.device("cpu"))
    with pytest.raises(ElectionError, match='embedding = "frozen"'):
        Logits(built_in("textcnn", {"vocabulary": 9, "dimension": 4}, (8,), 3), torch.device("cpu"))
    with pytest.raises(ElectionError, match="masking a probability"):
        Distillation(masking=1.5)
    with pytest.raises(ElectionError, match="steps must be 1 or more"):
        Distillation(steps=0)


def test_replay_takes_a_step_of_each_in_turn_and_names_who_bursts() -> None:
    lessons = distil(NET, X, [party(np.arange(20), 1), party(np.arange(20, 60), 2)], 3, device="cpu")
    values, burst = replayed(lessons)
    assert burst is None
    module = NET.make(START)
    for _ in range(2):
        for j in range(PLAN.steps):
            for lesson in lessons:
                optimizer = torch.optim.SGD(module.parameters(), lr=float(lesson.rates[j]))
                optimizer.zero_grad()
                F.cross_entropy(
                    module(torch.from_numpy(lesson.inputs[j])), torch.from_numpy(lesson.labels[j])
                ).backward()
                optimizer.step()
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(values[name], value.numpy(), rtol=1e-4, atol=1e-6)
    rates = lessons[1].rates.copy()
    rates[1] = 1e30
    for merging in ("interleaved", "averaged", "weights"):
        bad = [lessons[0], replace(lessons[1], rates=rates)]
        assert replayed(bad, merging)[1] == 1


def test_averaged_lessons_take_the_mean_of_their_steps() -> None:
    lessons = distil(NET, X, [party(np.arange(20), 1), party(np.arange(20, 60), 2)], 3, device="cpu")
    net = Logits(NET, torch.device("cpu"))
    weights = net.stack([START])
    for _ in range(2):
        for j in range(PLAN.steps):
            parts = [
                [torch.from_numpy(part[j : j + 1]) for part in (lesson.inputs, lesson.labels, lesson.rates)]
                for lesson in lessons
            ]
            own = [step(net, weights, *part) for part in parts]
            weights = [torch.stack(both).mean(0) for both in zip(*own, strict=True)]
    values, burst = replayed(lessons, "averaged")
    assert burst is None
    for name, weight in zip(net.names, weights, strict=True):
        np.testing.assert_allclose(values[name], weight[0].numpy(), rtol=1e-4, atol=1e-6)
    (alone, _), (same, _) = (replayed(lessons[:1], merging) for merging in ("averaged", "interleaved"))
    for name in net.names:
        np.testing.assert_allclose(alone[name], same[name], rtol=1e-4, atol=1e-6)


def test_merged_weights_are_the_mean_of_those_that_each_lesson_leads_to() -> None:
    lessons = distil(NET, X, [party(np.arange(20), 1), party(np.arange(20, 60), 2)], 3, device="cpu")
    values, burst = replayed(lessons, "weights")
    assert burst is None
    own = [replayed([lesson])[0] for lesson in lessons]
    for name in Logits(NET, torch.device("cpu")).names:
        np.testing.assert_allclose(values[name], (own[0][name] + own[1][name]) / 2, rtol=1e-5, atol=1e-6)


def test_shared_first_lessons_are_the_same_whatever_a_party_holds() -> None:
    still = replace(PLAN, learning_rate=0.0)
    two = [replace(party(np.arange(20), 1), plan=still), replace(party(np.arange(20, 60), 2), plan=still)]
    for first, alike in ((None, False), (7, True)):
        one, other = distil(NET, X, [replace(each, first=first) for each in two], 3, device="cpu")
        assert np.array_equal(one.inputs, other.inputs) == alike
    assert np.array_equal(one.labels, other.labels)
    assert one.labels.sum(axis=(0, 1)).min() > 0


@pytest.mark.parametrize("rule", RULES)
def test_rules_are_those_of_torch(rule: str) -> None:
    """By their spread, which is what a rule is; orthogonal weights by their products."""
    net = built_in("cnn", {}, (1, 16, 16), 10)
    ours = initial(net, rule, 5)
    torch.manual_seed(0)
    makers = {"xavier": torch.nn.init.xavier_normal_, "xavier-uniform": torch.nn.init.xavier_uniform_,
              "orthogonal": torch.nn.init.orthogonal_,
              "kaiming": lambda w: torch.nn.init.kaiming_normal_(w, nonlinearity="relu"),
              "kaiming-uniform": lambda w: torch.nn.init.kaiming_uniform_(w, nonlinearity="relu")}  # fmt: skip
    for name, value in ours.items():
        if name.endswith("bias"):
            assert not value.any()
            continue
        theirs = makers[rule](torch.empty(value.shape)).numpy()
        assert value.std() == pytest.approx(theirs.std(), rel=0.2)
        if rule == "orthogonal":
            flat = value.reshape(len(value), -1).astype(np.float64)
            gram = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
            np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-5)
        if rule.endswith("uniform"):
            assert np.abs(value).max() == pytest.approx(np.abs(theirs).max(), rel=0.1)
    with pytest.raises(ElectionError, match="there is no rule"):
        initial(net, "zeros", 1)


def test_an_eavesdropper_needs_the_first_weights() -> None:
    plan = replace(PLAN, local_epochs=30)
    lessons = distil(NET, X, [party(np.arange(50), 3, plan), party(np.arange(50, 100), 4, plan)], 3, device="cpu")
    (known,) = accuracies(NET, [START], [lessons], plan.epochs, X[100:], Y[100:], device="cpu")
    guessed = guess_weights(NET, lessons, plan.epochs, [11, 12], X[100:], Y[100:], device="cpu")
    assert list(guessed) == list(NAMES)
    assert all(found.shape == (2,) for found in guessed.values())
    assert np.mean(list(guessed.values())) < known
    near, far = perturb_weights(NET, START, lessons, plan.epochs, [0.0, 30.0], [1, 2], X[100:], Y[100:], device="cpu")
    assert near == pytest.approx(known)
    assert far.mean() < known
    away = perturb(START, 3.0, 9)
    assert np.sqrt(sum(((away[k] - START[k]) ** 2).sum() for k in START)) == pytest.approx(3.0, rel=1e-5)
