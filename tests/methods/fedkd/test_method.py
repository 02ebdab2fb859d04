"""FedKD against a plain implementation of its equations, and the additions to the paper."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.cli import app
from oneballot.election import template
from oneballot.errors import ElectionError, OneBallotWarning, Spoiled
from oneballot.methods.fedkd.grid import LARGEST, UNIT, Grid
from oneballot.methods.fedkd.passes import augment_images, further_passes
from oneballot.party.cast import cast_together
from oneballot.party.context import PartyContext
from oneballot.server.context import TallyContext
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Count, Data, Task

LINEAR = ob.Sklearn("LogisticRegression", {"max_iter": 300})
FOREST = ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 20})
NETWORK = ob.Torch("mlp", epochs=30, device="cpu")


@pytest.fixture
def make(digits):
    """Elections with linear models of the digits, pixels from 0 to 1, and a linear final model that learns labels."""

    def make(**settings: Any) -> ob.Election:
        given = {k: settings.pop(k) for k in list(settings) if k in ob.Election.__dataclass_fields__}
        usual = {"classes": range(10), "public": digits.public / 16, "learner": LINEAR}
        method = ob.FedKD(**{"temperature": 0.0, "influence": "claimed", **settings})
        return ob.Election(**{**usual, "method": method, **given})

    return make


@pytest.fixture
def held(make, digits) -> dict[str, Data]:
    return divide(make().data(digits.X / 16, digits.y), 4, "dirichlet:0.3", seed=3)


@pytest.fixture
def test_set(make, digits) -> Data:
    return make().data(digits.X_test / 16, digits.y_test)


def close(election: ob.Election, ballots: list[ob.Ballot]) -> tuple[Count, np.ndarray]:
    """The count, and what the final model learns of it."""
    count = Count()
    with TallyContext(election) as ctx:
        for ballot in ballots:
            count += election.method.count(ballot, ctx)
        (task,) = next(election.method.close(count, ctx)).tasks
    return count, task.targets


def ensemble_of_the_equations(election: ob.Election, held: dict[str, Data]) -> np.ndarray:
    """Equations 1 to 4 for parties that have all classes between them, in loops, with scikit-learn alone."""
    method, public = election.method, election.public
    n = {k: np.bincount(d.y, minlength=10) for k, d in held.items()}
    total, out = sum(n.values()), np.zeros((len(public), 10))
    for party, data in held.items():
        seed = PartyContext(election, party).seed("teacher")
        teacher = LogisticRegression(max_iter=300, random_state=seed).fit(data.X, data.y)
        z = teacher.decision_function(public)
        grid = Grid(method.scale, method.rounding)
        z_max = np.ceil(np.abs(z).max() / UNIT / grid.top) * UNIT * grid.top
        for column, c in enumerate(teacher.classes_):
            for i in range(len(public)):
                if method.rounding == "zero":
                    q = math.ceil(method.scale * z[i, column] / (2 * z_max)) * 2 * z_max / method.scale
                else:
                    step = 2 * z_max / (method.scale - 1)
                    q = math.ceil((z[i, column] + z_max) / step) * step - z_max
                out[i, c] += n[party][c] / total[c] * q
    return out


@pytest.mark.parametrize("rounding", ["ends", "zero"])
def test_the_ensemble_equals_equations_1_to_4_of_the_paper(rounding: str, make, held) -> None:
    election = make(rounding=rounding, temperature=math.inf, learners={"final": NETWORK})
    _, logits = close(election, cast_together(election, held))
    np.testing.assert_allclose(logits, ensemble_of_the_equations(election, held), atol=1e-6)


def test_the_final_model_learns_the_logits_by_their_squared_error(make, held, test_set) -> None:
    election = make(temperature=math.inf, learners={"final": NETWORK})
    outcome = simulate_parties(election, held).outcome
    _, logits = close(election, cast_together(election, held))
    with TallyContext(election) as ctx:
        task = Task(np.arange(len(logits)), logits, "scores", seed=ctx.shared_seed("final"))
    (alone,) = NETWORK.fit_many(election.public, [task], 10)
    np.testing.assert_allclose(outcome.model.model_.scores(test_set.X), alone.scores(test_set.X), atol=1e-5)
    error = np.mean((alone.scores(election.public) - logits) ** 2)
    assert error < 0.2 * logits.var()


def test_a_temperature_gives_softmax_and_a_high_one_centred_logits(make, held) -> None:
    """Hinton, Vinyals, Dean 2015: softmax(z/τ) → (1 + (z − z̄)/τ)/C, so that matching it is matching z."""
    ballots, targets = cast_together(make(), held), {}
    for temperature in (0.0, 1.0, 3.0, 1e6, math.inf):
        final = NETWORK if temperature == math.inf else LINEAR
        election = make(temperature=temperature, learners={"final": final})
        election.__dict__["digest"] = make().digest
        _, targets[temperature] = close(election, ballots)
    z = targets[math.inf]
    for temperature in (1.0, 3.0):
        powers = np.exp(z / temperature)
        np.testing.assert_allclose(targets[temperature], powers / powers.sum(axis=1, keepdims=True))
    np.testing.assert_allclose((targets[1e6] * 10 - 1) * 1e6, z - z.mean(axis=1, keepdims=True), atol=1e-3)
    assert np.array_equal(targets[0.0], z.argmax(axis=1))


def test_the_papers_noise_is_reproducible_laplace_noise_of_scale_1_over_gamma(make, held) -> None:
    ballots = cast_together(make(), held)
    learners = {"final": NETWORK}
    plain = make(temperature=math.inf, learners=learners)
    noisy = make(temperature=math.inf, learners=learners, gamma=0.5)
    for election in (plain, noisy):
        election.__dict__["digest"] = make().digest
    noise = close(noisy, ballots)[1] - close(plain, ballots)[1]
    assert abs(np.abs(noise).mean() - 2.0) < 0.15  # E|Laplace(b)| = b; 3000 draws deviate by 0.04
    assert abs(np.median(noise)) < 0.15
    assert np.array_equal(close(noisy, ballots)[1] - close(plain, ballots)[1], noise)
    assert ob.FedKD.paper().gamma == 1.0
    assert ob.FedKD.paper().scale == 200


def test_weights_help_where_parties_differ(make, digits, test_set) -> None:
    accuracies = {}
    for weights in ("class-counts", "uniform"):
        election = make(weights=weights, learner=NETWORK)
        parties = divide(election.data(digits.X / 16, digits.y), 8, "dirichlet:0.1", seed=0)
        accuracies[weights] = simulate_parties(election, parties).accuracy(test_set)
    assert accuracies["class-counts"] > accuracies["uniform"] + 0.05


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rounding": "zero"},
        {"bound": 8.0},
        {"weights": "uniform"},
        {"weights": "uniform", "bound": 8.0},
        {"centre": True},
        {"scale": 17},
    ],
)
class TestEverySetting:
    def test_the_final_model_is_accurate(self, settings, make, held, test_set) -> None:
        least = 0.5 if "weights" in settings else 0.8
        assert simulate_parties(make(**settings), held).accuracy(test_set) > least

    def test_a_plan_gives_the_size_of_the_ballot(self, settings, make, held) -> None:
        election, (party, data) = make(**settings), next(iter(held.items()))
        plan = election.method.plan(data, PartyContext(election, party))
        (ballot,) = cast_together(election, {party: data})
        assert plan.bytes == sum(v.nbytes for v in ballot.contents.values())
        assert plan.models == 1
        assert len(ballot.sealed) < plan.bytes + 2048

    def test_late_missing_and_removed_parties_leave_an_exact_count(self, settings, make, held, test_set) -> None:
        election = make(**settings)
        ballots = cast_together(election, held)
        few = ob.tally(election, ballots[:3])
        late = ob.tally(election, ballots[::-1], previous=few)
        again = ob.tally(election, ballots, without=[ballots[3].party], previous=late)
        for one, other in ((ob.tally(election, ballots), late), (few, again)):
            for key, value in one.count.sums.items():
                assert np.array_equal(value, other.count.sums[key])
            assert np.array_equal(one.model.predict_proba(test_set.X), other.model.predict_proba(test_set.X))


@pytest.mark.parametrize("centre", [True, False])
def test_centred_logits_do_not_depend_on_a_row_s_mean(centre: bool) -> None:
    """softmax(z + a) = softmax(z), but Σ_k ω_k^c (z_k^c + a_k) has another best class than Σ_k ω_k^c z_k^c."""
    rng = np.random.default_rng(0)
    z, seen = rng.integers(-9, 9, size=(50, 4)) / 2, np.array([5, 1, 0, 9])
    shifted = z + rng.integers(-9, 9, size=(50, 1))
    method = ob.FedKD(centre=centre)
    one, other = method._encode(z, seen), method._encode(shifted, seen)
    assert all(np.array_equal(one[k], other[k]) for k in one) == centre


def test_with_a_public_bound_no_z_max_is_sent_and_a_party_adds_a_bounded_amount(make, held) -> None:
    """Half-steps, at most `top` from 0 whatever rows a party has."""
    election = make(bound=2.0, weights="uniform")
    ballots = cast_together(election, held)
    assert set(ballots[0].contents) == {"levels"}
    with TallyContext(election) as ctx:
        one = election.method.count(ballots[0], ctx).sums
    assert np.abs(one["logits"]).max() == 199  # clipped: these logits reach beyond the bound
    assert set(one["weight"]) == {1}


@pytest.mark.parametrize(
    "learner", [NETWORK, FOREST, ob.XGBoost(rounds=5), ob.LightGBM(rounds=5)], ids=lambda x: x.name
)
def test_any_learner_with_scores_can_be_teacher_and_final_model(learner, make, held, test_set) -> None:
    assert simulate_parties(make(learner=learner), held).accuracy(test_set) > 0.6


def test_parties_may_have_different_learners(make, held) -> None:
    election, choices = make(), [NETWORK, FOREST, ob.XGBoost(rounds=3), LINEAR]
    ballots = [
        ob.cast(election, data.X, data.y, party=party, learners={"teacher": own})
        for (party, data), own in zip(held.items(), choices, strict=True)
    ]
    outcome = ob.tally(election, ballots)
    assert len(outcome.voted) == 4
    assert not outcome.spoiled


class TestPartiesWithFewRowsOrClasses:
    def test_parties_with_different_classes_teach_all_of_them(self, make, digits, test_set) -> None:
        """Three parties with different sets of classes, none with all: the paper's C^k."""
        X, y = digits.X / 16, digits.y
        election = make()
        sets = ([0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9])
        parties = {f"party-{i}": election.data(X[np.isin(y, s)], y[np.isin(y, s)]) for i, s in enumerate(sets)}
        with pytest.warns(OneBallotWarning, match="party-0: no rows of class 4, 5"):
            simulation = simulate_parties(election, parties)
        assert simulation.accuracy(test_set) > 0.6
        alone = [simulate_parties(election, {k: v}).accuracy(test_set) for k, v in parties.items()]
        assert simulation.accuracy(test_set) > max(alone) + 0.2

    def test_a_ballot_has_no_logits_of_classes_that_its_party_lacks(self, make, digits) -> None:
        few = np.isin(digits.y, [2, 5])
        election = make()
        ballot = ob.cast(election, digits.X[few] / 16, digits.y[few], party="a")
        levels = Grid(200, "ends").decode(ballot.contents["levels"], (len(election.public), 10))
        assert not levels[:, [0, 1, 3, 4, 6, 7, 8, 9]].any()
        assert len(np.unique(levels[:, [2, 5]])) > 20  # z_max is not that of a class that it never saw

    def test_parties_with_one_class_one_row_or_no_row(self, make, digits, held) -> None:
        election = make()
        one = digits.y == 1
        parties = {
            **held,
            "only-ones": election.data(digits.X[one] / 16, digits.y[one]),
            "one-row": election.data(digits.X[:1] / 16, digits.y[:1]),
            "empty": Data(np.empty((0, 64), np.float32), np.empty(0, int)),
        }
        outcome = simulate_parties(election, parties).outcome
        assert outcome.voted["empty"].abstained == "it has no rows"
        assert sum(vote.abstained is None for vote in outcome.voted.values()) == 6
        assert np.isfinite(outcome.model.predict_proba(election.public)).all()

    def test_a_class_that_no_party_has_gives_a_warning_and_is_never_predicted(self, make, digits, test_set) -> None:
        some = digits.y != 7
        election = make(temperature=math.inf, learners={"final": NETWORK})
        with pytest.warns(OneBallotWarning, match="no party has rows of class 7"):
            outcome = simulate_parties(election, {"a": election.data(digits.X[some] / 16, digits.y[some])}).outcome
        predicted = outcome.model.predict(test_set.X)
        assert 7 not in predicted
        assert (predicted == test_set.y)[test_set.y != 7].mean() > 0.8

    @pytest.mark.parametrize(("temperature", "gamma"), [(0, math.inf), (3, math.inf), (math.inf, math.inf), (0, 1.0)])
    def test_parties_of_one_class_each_teach_only_classes_that_they_have(
        self, make, digits, test_set, temperature, gamma
    ) -> None:
        """Their logits are the same for every row: classes that no party has must lie below, not be drawn at random."""
        election = make(temperature=temperature, gamma=gamma, learners={"final": NETWORK})
        held = {f"only-{c}": election.data(digits.X[digits.y == c] / 16, digits.y[digits.y == c]) for c in (3, 8)}
        with pytest.warns(OneBallotWarning, match="only-3: all its rows are of one class"):
            outcome = simulate_parties(election, held).outcome
        assert set(outcome.model.predict(test_set.X)) <= {3, 8}

    def test_a_party_with_more_than_most_rows_weighs_no_more(self, make, held) -> None:
        election = make(most_rows=5)
        with pytest.warns(OneBallotWarning, match="is weighted as if it had 5"):
            (ballot, *_) = cast_together(election, held)
        assert ballot.contents["seen"].max() == 5


class TestHostileBallots:
    def spoil(self, election: ob.Election, held: dict[str, Data], **changed: Any) -> str:
        """Tally a forger's ballot with honest ones; the outcome is that of the honest ones. Returns the reason."""
        honest = cast_together(election, held)
        contents = {**honest[0].contents, **{k.replace("_", "-"): v for k, v in changed.items()}}
        forged = seal({k: v for k, v in contents.items() if v is not None}, election, "forger")
        outcome, without = ob.tally(election, [forged, *honest]), ob.tally(election, honest)
        for key, value in without.count.sums.items():
            assert np.array_equal(value, outcome.count.sums[key])
        (reason,) = outcome.spoiled.values()
        return reason

    def test_more_rows_of_a_class_than_allowed_are_spoiled(self, make, held) -> None:
        seen = np.array([10**6, *[0] * 9])
        assert "expected 0 to 100,000 for each class" in self.spoil(make(), held, seen=seen)

    @pytest.mark.parametrize("seen", [np.full(10, -1), np.full(10, 2**62), np.ones(10), np.ones(9, int), None])
    def test_malformed_class_counts_are_spoiled(self, seen, make, held) -> None:
        assert "'seen'" in (reason := self.spoil(make(), held, seen=seen)) or "class counts" in reason

    @pytest.mark.parametrize("z_max", [1e308, math.nan, math.inf, -1.0])
    def test_a_half_step_that_is_a_float_is_spoiled(self, z_max: float, make, held) -> None:
        assert "expected an array 'half-step' of int64" in self.spoil(make(), held, half_step=np.array([z_max]))

    @pytest.mark.parametrize("half_step", [0, -1, 2**62, Grid(200, "ends").half_step(LARGEST) + 1])
    def test_a_half_step_out_of_bounds_is_spoiled(self, half_step: int, make, held) -> None:
        assert "which is a z_max up to 1024" in self.spoil(make(), held, half_step=np.array([half_step]))

    def test_levels_that_the_grid_does_not_have_are_spoiled(self, make, held) -> None:
        assert "level 255: the highest level of the grid is 199" in self.spoil(
            make(), held, levels=np.full(3000, 255, np.uint8)
        )

    @pytest.mark.parametrize(
        "levels", [np.zeros(2999, np.uint8), np.full(3000, np.nan), np.zeros(3000, np.int64), None]
    )
    def test_levels_of_another_type_or_size_are_spoiled(self, levels, make, held) -> None:
        assert "expected an array 'levels' of uint8 (3000,)" in self.spoil(make(), held, levels=levels)

    def lie(self, held: dict[str, Data], election: ob.Election, **claims: Any) -> float:
        """The accuracy on the honest parties' own rows when a hostile party sends random levels, within the limits."""
        honest = cast_together(election, held)
        levels = Grid(200, "ends").encode(np.random.default_rng(0).integers(200, size=(300, 10)))
        outcome = ob.tally(election, [seal({**claims, "levels": levels}, election, "liar"), *honest])
        assert not outcome.spoiled
        return float(np.mean([outcome.model.score(d.X, d.y) for d in held.values()]))

    def test_most_rows_and_bound_limit_what_a_hostile_party_can_do(self, make, held) -> None:
        furthest = {"half-step": np.array([Grid(200, "ends").half_step(LARGEST)])}
        assert self.lie(held, make(), seen=np.full(10, 100_000), **furthest) < 0.4
        assert self.lie(held, make(most_rows=30, bound=10.0), seen=np.full(10, 30)) > 0.7


class TestPasses:
    @pytest.fixture
    def images(self, make, digits):
        return make(public=digits.public.reshape(-1, 8, 8) / 16, passes=3)

    def test_every_party_and_the_tally_share_the_augmented_images(self, images) -> None:
        a, b = (images.method._further_passes(ctx) for ctx in (PartyContext(images, "a"), TallyContext(images)))
        assert a is b  # one array while it is in use
        assert a.shape == (2 * len(images.public), 8, 8)

    @pytest.mark.parametrize("channels", [(), (1,), (3,)])
    def test_an_image_is_shifted_by_at_most_two_pixels_and_mirrored(self, channels: tuple[int, ...]) -> None:
        images = np.random.default_rng(0).integers(1, 255, size=(40, *channels, 28, 28)).astype(np.uint8)
        out = augment_images(images, ("shift", "flip"), np.random.default_rng(1))
        assert out.dtype == images.dtype
        moves = set()
        for before, after in zip(images, out, strict=True):
            padded = np.pad(before, [(0, 0)] * len(channels) + [(2, 2), (2, 2)])
            fits = [
                (d, r, m)
                for d in range(5)
                for r in range(5)
                for m in (1, -1)
                if np.array_equal(padded[..., d : d + 28, r : r + 28][..., ::m], after)
            ]
            assert len(fits) == 1
            moves.add(fits[0])
        assert len(moves) > 15
        assert {m for _, _, m in moves} == {1, -1}

    def test_the_ballot_and_the_final_training_have_all_passes(self, images, digits, test_set) -> None:
        parties = divide(images.data(digits.X.reshape(-1, 8, 8) / 16, digits.y), 3, "dirichlet:0.5", 1)
        simulation = simulate_parties(images, parties)
        assert simulation.outcome.count.sums["logits"].shape == (3 * len(images.public), 10)
        assert simulation.ballots[0].contents["levels"].nbytes == 3 * len(images.public) * 10
        assert simulation.outcome.model.score(test_set.X.reshape(-1, 8, 8), test_set.y) > 0.7

    def test_passes_over_rows_that_are_not_images_are_rejected(self, make) -> None:
        with pytest.raises(ElectionError, match=r"passes = 2 needs images.*shape \(64,\)"):
            make(passes=2)

    def test_other_settings_give_other_images(self) -> None:
        public = np.random.default_rng(0).random((5, 28, 28))
        kept = [
            further_passes(public, 2, ("shift",), 1),
            further_passes(public, 2, ("crop",), 1),
            further_passes(public, 2, ("shift",), 2),
        ]
        assert len({k.tobytes() for k in kept}) == 3


class TestLabelledPublicData:
    def test_parties_train_on_their_rows_and_the_public_ones(self, make, held, digits) -> None:
        labels = np.arange(len(digits.public)) % 10
        election = make(join_public=True, public_labels=labels)
        party, data = next(iter(held.items()))
        (task,) = next(election.method.cast(data, PartyContext(election, party))).tasks
        assert np.array_equal(task.targets, np.concatenate([data.y, labels]))
        assert np.array_equal(task.rows, np.arange(len(data) + len(labels)))
        (ballot,) = cast_together(election, {party: data})
        assert np.array_equal(ballot.contents["seen"], np.bincount(data.y, minlength=10) + np.bincount(labels))

    def test_labelled_public_rows_help_parties_of_few_classes(self, make, digits, test_set) -> None:
        """With few rows at each party, true labels of public rows are worth more than logits on them."""
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        truth = y[np.random.default_rng(0).permutation(len(y))[300:600]]  # as tests/conftest.py cuts them
        assert np.array_equal(X[np.random.default_rng(0).permutation(len(y))[300:600]], digits.public)
        parties = divide(make().data(digits.X[:100] / 16, digits.y[:100]), 5, "dirichlet:0.1", 1)
        without = simulate_parties(make(), parties).accuracy(test_set)
        joined = simulate_parties(make(join_public=True, public_labels=truth), parties).accuracy(test_set)
        assert joined > without + 0.05

    def test_public_labels_are_part_of_the_digest_and_are_encoded(self, make, digits) -> None:
        labels = np.arange(len(digits.public)) % 10
        one, other = make(public_labels=labels), make(public_labels=labels[::-1])
        assert len({make().digest, one.digest, other.digest}) == 3
        named = make(classes=[f"digit {c}" for c in range(10)], public_labels=[f"digit {c}" for c in labels])
        assert np.array_equal(replace(named, quorum=2).encoded_public_labels, labels)

    def test_join_public_without_labels_is_rejected(self, make) -> None:
        with pytest.raises(ElectionError, match="needs the labels of the public set"):
            make(join_public=True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"privacy": ob.L2(epsilon=1.0, delta=1e-5), "gamma": 1.0}, "gamma: not available at L2"),
        ({"public": None}, "fedkd needs a public set"),
        (
            {"temperature": math.inf},
            "must provide score targets; .* Set temperature = 0",
        ),
        (
            {"temperature": 2.0, "learner": ob.Sklearn("KNeighborsClassifier")},
            "must provide soft; .* Set temperature = 0",
        ),
        ({"privacy": ob.L2(epsilon=1.0), "subsets": 10_001}, "a party would train 10,001 teachers, 10,000 at most"),
        ({"learners": {"student": LINEAR}}, "fedkd has no learner student; it has final, teacher"),
    ],
)
def test_combinations_that_cannot_work_are_rejected_before_training(settings, words: str, make) -> None:
    with pytest.raises(ElectionError, match=words):
        make(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"scale": 1},
        {"scale": 5000},
        {"temperature": -1},
        {"bound": 0},
        {"bound": 2 * LARGEST},
        {"gamma": 0},
        {"passes": 0},
        {"rounding": "up"},
        {"most_rows": 10**7},
        {"S": 200},
    ],
)
def test_settings_out_of_range_are_rejected(settings) -> None:
    with pytest.raises(ElectionError, match=f"FedKD: .*{next(iter(settings))}"):
        ob.FedKD(**settings)


def test_ballots_without_rows_of_any_class_cannot_be_closed(make, held) -> None:
    election = make()
    (ballot, *_) = cast_together(election, held)
    nothing = seal({**ballot.contents, "seen": np.zeros(10, int)}, election, "nothing")
    with pytest.raises(ElectionError, match="no ballot has a row of any class"):
        ob.tally(election, [nothing])


METHOD = """\
[method]
name = "fedkd"
temperature = 0
weights = "class-counts"

[learners.all]
name = "sklearn"
estimator = "LogisticRegression"
"""


def test_an_election_in_files_is_cast_counted_and_simulated(clinic: Path, monkeypatch) -> None:
    monkeypatch.chdir(clinic)
    drafted = template.draft(clinic / "public.csv", "ill", beside=clinic / "election.toml").text
    assert template.FEDKT in drafted
    Path("election.toml").write_text(drafted.replace(template.FEDKT, METHOD), "utf-8")

    def run(*words: str) -> Any:
        done = CliRunner().invoke(app, [*words, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    planned = run("cast", "election.toml", "--party", "a", "--data", "a.csv", "--dry-run")
    assert planned["ballot_carries"] == "logits of 2 classes on 202 public rows, 8 bits each"
    assert planned["bytes"].startswith("428, ")  # 2·202, z_max 8, class counts 16
    for party in "abc":
        sent = run("cast", "election.toml", "--party", party, "--data", f"{party}.csv", "--to", "box")
        assert sent["bytes"] < 428 + 2048
    run("tally", "election.toml", "--from", "box", "--out", "outcome")
    assert run("evaluate", "outcome", "--data", "test.csv")["accuracy"] > 0.85
    fewer = run("tally", "election.toml", "--from", "box", "--out", "outcome", "--without", "c")
    assert fewer["without"] == ["c"]
    assert fewer["counted"] == ["a", "b"]
    simulated = run("simulate", "election.toml", "--data", "a.csv", "--parties", "3", "--test", "test.csv")
    assert simulated["accuracy"]["outcome"] > 0.7
    assert simulated["bytes_per_party"] < 428 + 2048


def test_a_ballot_without_a_half_step_is_spoiled(make, held) -> None:
    election = make()
    (ballot, *_) = cast_together(election, held)
    with TallyContext(election) as ctx, pytest.raises(Spoiled, match="half-step"):
        election.method.count(seal({"levels": ballot.contents["levels"], "seen": np.ones(10, int)}, election, "x"), ctx)
