"""The analytic method: exactly the pooled model whatever the split; sensitivity, noise, hostile sums."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import oneballot as ob
from oneballot.election.template import draft, section
from oneballot.errors import ElectionError, Spoiled
from oneballot.methods.analytic.format import AnalyticFormat, FeatureMap, LinearModel
from oneballot.methods.analytic.statistics import GRID, LARGEST, STATISTICS, solve, statistics, symmetric
from oneballot.party.context import PartyContext
from oneballot.server.context import TallyContext
from oneballot.simulation import baselines, divide, simulate_parties
from oneballot.types import Ballot, Data, Task

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32) / 16
PUBLIC, TEST, ROWS = X[:300], slice(300, 700), slice(700, None)


def election(**settings: Any) -> ob.Election:
    given = {name: settings.pop(name) for name in ("privacy", "classes", "public") if name in settings}
    return ob.Election(**{"classes": range(10), "public": PUBLIC, **given}, method=ob.Analytic(**settings))


def right(outcome: ob.Outcome) -> float:
    return float((outcome.model.predict(X[TEST]) == Y[TEST]).mean())


def cast(agreed: ob.Election, rows: Any = ROWS, party: str = "a") -> Ballot:
    return ob.cast(agreed, X[rows], Y[rows], party=party)


@pytest.mark.parametrize("settings", [{}, {"solver": "ridge"}, {"features": "fourier", "number": 200}])
def test_the_model_equals_that_of_the_pooled_rows_for_every_split(settings: dict[str, Any]) -> None:
    agreed = election(**settings, influence="claimed")
    pooled = ob.tally(agreed, [cast(agreed)])
    for split in ("homogeneous", "shards:1", "dirichlet:0.1"):
        apart = ob.simulate(agreed, X[ROWS], Y[ROWS], parties=7, split=split).outcome
        np.testing.assert_array_equal(apart.model.model_.weights, pooled.model.model_.weights)
    assert right(pooled) > 0.88


def test_lda_equals_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice(3, p=[0.5, 0.3, 0.2], size=3000)
    rows = rng.normal(size=(3000, 5)) @ rng.normal(size=(5, 5)) + rng.normal(size=(3, 5))[labels]
    agreed = ob.Election(classes=range(3), public=rows[:500], method=ob.Analytic(ridge=1e-6, bound=50.0))
    outcome = ob.tally(agreed, [ob.cast(agreed, rows[500:], labels[500:], party="a")])
    theirs = LinearDiscriminantAnalysis("lsqr").fit(rows[500:], labels[500:])
    np.testing.assert_allclose(outcome.model.predict_proba(rows), theirs.predict_proba(rows), atol=0.01)


def test_ridge_regression_equals_least_squares() -> None:
    agreed = election(solver="ridge", ridge=2.0)
    outcome = ob.tally(agreed, [cast(agreed)])
    z = outcome.model.model_.features(X[ROWS])
    expected = np.linalg.solve(z.T @ z + 2.0 * np.eye(z.shape[1]), z.T @ np.eye(10)[Y[ROWS]])
    np.testing.assert_allclose(
        outcome.model.model_.scores(X[TEST]), outcome.model.model_.features(X[TEST]) @ expected, atol=2e-3
    )


def test_sums_of_several_blocks_are_exact() -> None:
    rows = np.random.default_rng(0).random((70_000, 3), dtype=np.float32)
    features = FeatureMap(np.zeros(3), 1.2, 0.3)
    gram, sums = statistics(features, Data(rows, np.arange(70_000) % 2), 2)
    z = np.trunc(features(rows) * GRID).astype(np.int64)
    assert (gram == z.T @ z).all()
    assert (sums == np.stack([GRID * z[::2].sum(axis=0), GRID * z[1::2].sum(axis=0)], axis=1)).all()


class TestSensitivity:
    @staticmethod
    def of(row: Any, label: int) -> Any:
        data = Data(np.asarray(row, dtype=np.float32)[None], np.array([label]))
        gram, sums = statistics(FeatureMap(np.zeros(len(row)), 1.0, 0.01), data, 2)
        return np.concatenate([gram.ravel(), sums.ravel()]).astype(float)

    @given(
        st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3),
        st.booleans(),
        st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3),
        st.booleans(),
    )
    def test_no_rows_exceed_the_bounds(self, one, label, other, another) -> None:
        here, there = self.of(one, int(label)), self.of(other, int(another))
        assert (here**2).sum() <= STATISTICS.add_remove
        assert ((here - there) ** 2).sum() <= STATISTICS.replaced

    def test_the_bounds_are_reached(self) -> None:
        one, other = self.of([1, 0, 0], 0), self.of([-0.5, math.sqrt(0.75), 0], 0)
        assert (one**2).sum() > 0.999 * STATISTICS.add_remove
        assert ((one - other) ** 2).sum() > 0.999 * STATISTICS.replaced


class TestPrivate:
    def test_the_ledger_has_one_gaussian_release(self) -> None:
        agreed = election(privacy=ob.L2(1.0, adjacency="add-remove"))
        ledger = cast(agreed).sealed and agreed.ballot_ledger
        (line,) = ledger.lines
        assert (line.what, line.times, line.squared_shift) == ("statistics", 1, STATISTICS.add_remove)
        assert 0.999 < ledger.epsilon <= 1.0
        replaced = election(privacy=ob.L2(1.0)).ballot_ledger.lines[0]
        assert replaced.scale / line.scale == pytest.approx(1.5, rel=1e-3)
        stated = election(privacy=ob.L2(sigma=4.0, adjacency="add-remove")).ballot_ledger
        assert stated.lines[0].scale == pytest.approx(4 * math.sqrt(2) * GRID**2, rel=1e-6)

    def test_the_noise_is_that_of_the_ledger(self) -> None:
        agreed = election(privacy=ob.L2(1.0))
        sigma = agreed.ballot_ledger.lines[0].scale
        clean, noisy = cast(election()).contents, cast(agreed).contents
        bound = PartyContext(agreed, "a")
        gram, sums = statistics(agreed.method.feature_map(bound), Data(X[ROWS], Y[ROWS]), 10)
        apart = (noisy["sums"] - sums).ravel() / sigma
        twice = (symmetric(noisy["gram"], len(gram)) - 2 * gram) / sigma
        off, diagonal = twice[np.triu_indices(len(gram), 1)] / math.sqrt(2), np.diag(twice) / 2
        for drawn in (apart, off, diagonal):
            surprise = (drawn**2).sum()
            assert min(chi2.sf(surprise, drawn.size), chi2.cdf(surprise, drawn.size)) > 1e-6
        assert clean["sums"].shape == noisy["sums"].shape

    def test_a_class_that_is_lost_in_the_noise_is_never_predicted(self) -> None:
        easy = ob.Election(classes=["no", "yes", "never"], public=PUBLIC, method=ob.Analytic(), privacy=ob.L2(3.0))
        labels = np.where(np.isin(Y, [3, 8, 9]), "yes", "no")
        with pytest.warns(ob.OneBallotWarning, match="never predicted: never"):
            simulation = ob.simulate(easy, X[ROWS], labels[ROWS], parties=2, split="homogeneous")
        assert (simulation.outcome.model.predict(X[TEST]) == labels[TEST]).mean() > 0.75

    def test_a_class_needs_more_rows_than_noise_alone_produces(self) -> None:
        agreed = election(privacy=ob.L2(0.01))
        ctx = TallyContext(agreed)
        count = agreed.method.count(cast(agreed), ctx)
        lots = 4 * ctx.noise
        for share, words in ((0.99, "nothing can be learned"), (1.01, None)):
            count.sums["sums"][-1] = 0
            count.sums["sums"][-1, 3] = share * lots
            with pytest.raises(ElectionError, match=words) if words else nullcontext():
                agreed.method.close(count, ctx)

    def test_an_empty_silo_casts_a_ballot_like_any_other(self) -> None:
        agreed = election(privacy=ob.L2(1.0))
        ballot = ob.cast(agreed, X[:0], Y[:0], party="empty")
        assert ballot.abstained is None
        assert ballot.contents.keys() == {"gram", "sums"}
        assert ob.cast(election(), X[:1], Y[:1], party="one").abstained is None

    @pytest.mark.parametrize(("privacy", "words"), [
        (lambda: ob.L1(1.0), "does not offer privacy level 'L1'.*no bound"),
        (lambda: ob.L2(1.0, mechanism="gumbel"), "Gaussian noise"),
        (lambda: ob.L2(gamma=0.1), "Gaussian noise"),
        (lambda: ob.L2(1.0, sigma=3.0), "epsilon or sigma"),
        (lambda: ob.L2(1.0, accountant="paper"), "Laplace noise only"),
        (lambda: ob.L2(1.0, counts_sigma=3.0), "leave it out"),
        (lambda: ob.L2(1e-7), "no noise scale meets"),
    ])  # fmt: skip
    def test_unsuitable_privacy_settings_are_rejected(self, privacy: Callable[[], Any], words: str) -> None:
        with pytest.raises(ElectionError, match=words):
            cast(election(privacy=privacy()))


def test_a_party_can_be_removed_and_may_lack_most_classes() -> None:
    agreed = election()
    zeros = np.flatnonzero(Y[700:1200] == 0) + 700
    ballots = [
        cast(agreed, zeros, "only-zeros"),
        cast(agreed, slice(700, 1500), "b"),
        cast(agreed, slice(1500, None), "c"),
    ]
    without = ob.tally(agreed, ballots, without=["only-zeros"])
    np.testing.assert_array_equal(without.model.model_.weights, ob.tally(agreed, ballots[1:]).model.model_.weights)
    again = ob.tally(agreed, ballots, previous=without)
    np.testing.assert_array_equal(again.model.model_.weights, ob.tally(agreed, ballots).model.model_.weights)


@pytest.mark.parametrize(("name", "change", "words"), [
    ("gram", lambda a: a[:-1], "expected an array 'gram'"),
    ("gram", lambda a: a.astype(np.float64), "expected an array 'gram'"),
    ("sums", lambda a: a * np.int64(3), "not sums of the same rows"),
    ("sums", lambda a: -a, "row counts of the classes"),
    ("sums", lambda a: a + 1, "row counts of the classes"),
    ("gram", lambda a: a * np.int64(2), "not sums of the same rows"),
    ("gram", lambda a: np.where(np.arange(a.size) == 1, 10 * a.max(), a), "not positive semi-definite"),
    ("gram", lambda a: np.where(np.arange(a.size) == 0, a + 2**45, a), "larger than its rows"),
    ("sums", lambda a: a + 2**40 * np.eye(*a.shape, dtype=np.int64) - 2**40 * np.eye(*a.shape, 1, dtype=np.int64),
     "not sums of the same rows|longer than its rows"),
    ("sums", lambda a: a + np.array([2**40, -(2**40)] + 8 * [0]) * (np.arange(len(a)) == 3)[:, None], "longer than"),
    ("sums", lambda a: np.where(np.arange(a.size).reshape(a.shape) < 2, np.iinfo(np.int64).min, a), "more than"),
    ("gram", lambda a: np.full_like(a, 3 * LARGEST), "more than"),
    ("gram", lambda a: np.full_like(a, np.iinfo(np.int64).min), "more than"),
])  # fmt: skip
def test_sums_that_no_rows_add_up_to_are_spoiled(name: str, change: Callable[[Any], Any], words: str) -> None:
    agreed = election()
    honest = cast(agreed)
    contents = {**honest.contents, name: change(honest.contents[name])}
    with TallyContext(agreed) as ctx, pytest.raises(Spoiled, match=words):
        agreed.method.count(Ballot("a", contents, "d", None, b""), ctx)


def test_fourier_features_approximate_a_gaussian_kernel() -> None:
    features = election(features="fourier", number=4000, width=2.0).method.feature_map(
        PartyContext(election(features="fourier", number=4000, width=2.0), "a")
    )
    z = features(X[:40])[:, :-1] * math.hypot(1, 0.3)
    apart = ((X[:40, None] - X[None, :40]) ** 2).sum(axis=2)
    np.testing.assert_allclose(z @ z.T, np.exp(-apart / 8), atol=0.08)
    np.testing.assert_allclose((features(X) ** 2).sum(axis=1), 1)


class TestEncoder:
    def network(self) -> Any:
        return ob.Torch("mlp", epochs=15).fit_many(X[:700], [ob.Task(np.arange(700), Y[:700])], 10)[0]

    def test_images_are_reshaped_for_the_network(self) -> None:
        pytest.importorskip("torch")
        images = np.tile(X.reshape(-1, 8, 8), (1, 4, 4))[:, :28, :28]
        learner = ob.Torch("cnn", settings={"shape": [1, 28, 28]}, epochs=1)
        network = learner.fit_many(images[:50], [ob.Task(np.arange(50), Y[:50])], 10)[0]
        agreed = ob.Election(
            classes=range(10), public=images[:60], method=ob.Analytic(features="encoder", encoder=network.dump().data)
        )
        assert ob.cast(agreed, images[60:120], Y[60:120], party="a").abstained is None
        with pytest.raises(ob.OneBallotError, match="rows of shape"):
            ob.Election(classes=range(10), public=PUBLIC, method=agreed.method)

    def test_a_frozen_network_gives_the_features_and_is_saved_with_the_model(self, tmp_path: Path) -> None:
        pytest.importorskip("torch")
        network = self.network()
        path = tmp_path / "network.safetensors"
        path.write_bytes(network.dump().data)
        agreed = election(features="encoder", encoder=str(path), public=PUBLIC)
        outcome = ob.simulate(agreed, X[ROWS], Y[ROWS], parties=5, split="shards:1").outcome
        assert right(outcome) > 0.93
        outcome.save(tmp_path / "outcome")
        loaded = ob.Outcome.load(tmp_path / "outcome")
        np.testing.assert_array_equal(loaded.model.predict_proba(X[TEST]), outcome.model.predict_proba(X[TEST]))
        own = election(features="encoder", encoder=network.module, public=PUBLIC)
        assert own.digest != agreed.digest
        other = ob.tally(own, [cast(own)])
        assert (other.model.predict(X[TEST]) == ob.tally(agreed, [cast(agreed)]).model.predict(X[TEST])).all()
        with pytest.raises(ElectionError, match="module of your own"):
            other.save(tmp_path / "own")

    @pytest.mark.parametrize(("settings", "words"), [
        ({"features": "encoder"}, "needs encoder"), ({"encoder": "x"}, "needs encoder"),
        ({"width": 1.0}, "width is only for"),
        ({"features": "encoder", "encoder": "nowhere"}, "cannot be read"),
        ({"features": "encoder", "encoder": b"abc"}, "not a network in the format"),
        ({"features": "encoder", "encoder": 3}, "a file or a torch module"),
    ])  # fmt: skip
    def test_anything_but_an_encoder_is_rejected(self, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(ElectionError, match=words):
            ob.Analytic(**settings)


def test_elections_without_what_the_feature_map_needs_are_rejected() -> None:
    with pytest.raises(ElectionError, match="needs the number of features"):
        election(public=None)
    for public in (PUBLIC[:1], np.ones((5, 3))):
        with pytest.raises(ElectionError, match="needs width, or a schema or a public set with different rows"):
            election(features="fourier", public=public)
    with pytest.raises(ElectionError, match=r'4,100 features: 4,095 at most; use features = "fourier"'):
        election(public=np.eye(3, 4100))
    with pytest.warns(ob.OneBallotWarning, match="longer than the bound 0.1 and are clipped. Scale columns"):
        cast(election(bound=0.1))


def test_a_column_with_nearly_all_the_variance_gives_a_warning() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        election(classes=range(2), public=rows)
    with pytest.warns(ob.OneBallotWarning, match=r"column 1 has 99.9.% of the variance .*: scale all"):
        election(classes=range(2), public=rows * [1, 100, 1])


def test_an_encoder_is_looked_for_beside_the_election(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public = tmp_path / "public.csv"
    lines = [f"{i % 7},{i % 5},{'no' if i % 2 else 'yes'}" for i in range(40)]
    public.write_text("\n".join(["a,b,ill", *lines]), "utf-8")
    file = tmp_path / "election.toml"
    file.write_text(draft(public, "ill", beside=file, method=section("analytic")).text, "utf-8")
    rows = ob.Election.read(file).public
    network = ob.Torch("mlp", settings={"hidden": [4]}, epochs=1, device="cpu").fit_many(
        rows, [Task(np.arange(40), np.arange(40) % 2)], 2
    )[0]
    (tmp_path / "encoder.safetensors").write_bytes(network.dump().data)
    text = file.read_text("utf-8")
    assert 'features = "fourier"' in text
    file.write_text(
        text.replace('features = "fourier"', 'encoder = "encoder.safetensors"\nfeatures = "encoder"'), "utf-8"
    )
    monkeypatch.chdir(tmp_path.parent)
    assert ob.Election.read(file).method.encoder.startswith("sha256:")
    (tmp_path / "encoder.safetensors").unlink()
    with pytest.raises(ElectionError, match=r"election.toml, \[method\]: encoder: .*safetensors cannot be read"):
        ob.Election.read(file)


class TestFormat:
    def blob(self, **changed: Any) -> bytes:
        from safetensors.numpy import save

        arrays = {"centre": np.zeros(4), "bound": np.ones(1), "constant": np.ones(1), "weights": np.ones((5, 3))}
        arrays |= {k: v for k, v in changed.items() if k != "output"}
        return save(arrays, metadata={"output": changed.get("output", "softmax")})

    def test_a_saved_model_is_loaded_unchanged(self) -> None:
        model = LinearModel(FeatureMap(np.zeros(4), 2.0, 0.5, np.ones((3, 4))), np.arange(21.0).reshape(7, 3), "share")
        blob = model.dump()
        AnalyticFormat.check(blob.data, classes=3, features=4)
        rows = np.random.default_rng(0).random((9, 4), dtype=np.float32)
        np.testing.assert_array_equal(AnalyticFormat.load(blob.data, classes=3).scores(rows), model.scores(rows))

    @pytest.mark.parametrize(("changed", "words"), [
        ({"weights": np.ones((5, 2))}, "weights is"), ({"weights": np.ones((5, 3), dtype=np.float32)}, "weights is"),
        ({"centre": np.full(4, np.nan)}, "not NaN"), ({"bound": np.zeros(1)}, "not above 0"),
        ({"more": np.ones(1)}, "arrays are"),
        ({"output": "other"}, "expected softmax"), ({"frequencies": np.ones((4000, 4))}, "at most"),
        ({"frequencies": np.ones(3)}, "arrays are"), ({"encoder": np.ones(9, dtype=np.uint8)}, "header"),
    ])  # fmt: skip
    def test_anything_else_is_spoiled(self, changed: dict[str, Any], words: str) -> None:
        AnalyticFormat.check(self.blob(), classes=3, features=4)
        with pytest.raises(Spoiled, match=words):
            AnalyticFormat.check(self.blob(**changed), classes=3, features=4)


@pytest.mark.parametrize("intercept", [0.01, 0.3, 3.0])
def test_rows_of_a_class_are_counted_exactly_for_every_intercept(intercept: float) -> None:
    agreed = election(intercept=intercept, ridge=0.5)
    outcome = ob.tally(agreed, [cast(agreed)])
    assert right(outcome) > 0.88
    with pytest.raises(Exception, match="intercept"):
        ob.Analytic(intercept=1e-6)


def test_too_much_noise_gives_a_warning_or_an_error() -> None:
    agreed = election(privacy=ob.L2(1.0))
    assert "rows of it" in agreed.guarantee.forecast(4)[0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        message = ""
        try:
            ob.simulate(agreed, X[ROWS], Y[ROWS], parties=2)
        except ob.OneBallotError as error:  # depending on the noise no class may be left at all
            message = str(error)
    assert "more rows than the noise" in message or any("no better than chance" in str(each.message) for each in caught)


def test_negative_eigenvalues_count_as_0() -> None:
    np.testing.assert_allclose(solve(np.diag([4.0, -9.0]), 1.0, np.eye(2)), np.diag([0.2, 1.0]))


def test_a_comparison_uses_models_of_the_same_method() -> None:
    agreed = election()
    simulation = ob.simulate(agreed, X[ROWS], Y[ROWS], parties=3, split="homogeneous")
    test = agreed.data(X[TEST], Y[TEST])
    compared = baselines(agreed, simulation.parties, test)
    assert compared.pooled == simulation.accuracy(test)
    assert compared.alone_mean < compared.pooled


def test_without_public_rows_the_width_comes_from_the_schema(tmp_path: Path) -> None:
    (tmp_path / "like.csv").write_text("a,b,ill\n0,x,no\n10,y,yes\n5,x,no\n")
    file = tmp_path / "election.toml"
    text = draft(tmp_path / "like.csv", "ill", beside=file, method=section("analytic"), has_public=False).text
    file.write_text(text, "utf-8")
    election = ob.Election.read(file)
    assert election.method.features == "fourier"
    rng = np.random.default_rng(0)
    X = np.zeros((300, *election.shape), dtype=np.float32)
    X[:, 0] = rng.random(300)
    y = np.where((X[:, 0] - 0.5) ** 2 < 0.06, "yes", "no")  # no linear model separates these
    model = simulate_parties(election, divide(Data(X, (y == "yes").astype(int)), 3, "homogeneous", 0)).outcome
    assert ((model.probabilities(X).argmax(axis=1) == 1) == (y == "yes")).mean() > 0.9


def test_a_draft_at_l2_has_a_linear_model() -> None:
    assert 'features = "fourier"' in section("analytic")
    assert 'features = "none"' in section("analytic", "L2")
