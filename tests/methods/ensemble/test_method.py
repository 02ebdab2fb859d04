"""One-shot ensembles, end to end: selection, averages, distillation, cohorts, small parties, hostile ballots."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import ElectionError, OneBallotWarning, QuorumError
from oneballot.formats.kernel import KernelModel
from oneballot.formats.skops import Skops
from oneballot.methods.ensemble.average import EnsembleModel
from oneballot.methods.ensemble.cohorts import cohort_queries
from oneballot.methods.ensemble.method import mean_auc
from oneballot.party.cast import cast_together
from oneballot.party.context import PartyContext
from oneballot.runtime.scheduler import run
from oneballot.server.context import TallyContext
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Blob, Count, Data, Task

KERNEL = ob.Kernel()
TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6})


@pytest.fixture
def election(make_election) -> ob.Election:
    return make_election(method=ob.Ensemble(), learner=KERNEL)


def members(outcome: ob.Outcome) -> list[Blob]:
    model = outcome.model.model_
    assert isinstance(model, EnsembleModel)
    return list(model.members)


def accuracy(outcome: ob.Outcome, digits) -> float:
    return float((outcome.model.predict(digits.X_test) == digits.y_test).mean())


def test_the_outcome_predicts_the_mean_of_the_parties_models(election, parties, digits) -> None:
    simulation = simulate_parties(election, parties)
    rows = election.rows(digits.X_test)
    alone = []
    for party, data in parties.items():
        task = Task(np.arange(len(data)), data.y, seed=PartyContext(election, party).seed("local"))
        alone.append(KERNEL.fit_many(data.X, [task], 10)[0].predict_proba(rows))
    np.testing.assert_allclose(simulation.outcome.model.predict_proba(digits.X_test), np.mean(alone, axis=0), atol=1e-6)
    best = max((a.argmax(1) == digits.y_test).mean() for a in alone)
    assert accuracy(simulation.outcome, digits) > best


@pytest.mark.slow
def test_models_in_other_formats_run_in_the_sandbox_now_and_after_loading(
    make_election, parties, digits, tmp_path: Path, monkeypatch
) -> None:
    election = make_election(method=ob.Ensemble(), learner=TREE)
    ballots = cast_together(election, parties)
    loaded_here = [Skops.load(b.contents["model"].data, classes=10) for b in ballots]
    expected = np.mean([m.predict_proba(digits.X_test.astype(np.float32)) for m in loaded_here], axis=0)

    def never(data: bytes, *, classes: int) -> Any:
        raise AssertionError("an untrusted model was loaded in this process")

    monkeypatch.setattr(Skops, "load", never)
    outcome = ob.tally(election, ballots)
    np.testing.assert_allclose(outcome.model.predict_proba(digits.X_test), expected)
    outcome.save(tmp_path)
    loaded = ob.Outcome.load(tmp_path)
    np.testing.assert_array_equal(loaded.model.predict_proba(digits.X_test), outcome.model.predict_proba(digits.X_test))
    sandbox = loaded.model.model_.members.ask.__self__
    worker = sandbox._worker
    assert worker.poll() is None
    del loaded
    gc.collect()
    assert worker.poll() is not None  # the sandbox is closed with the model


@pytest.mark.slow
def test_parties_may_use_different_learners(make_election, digits, parties) -> None:
    election = make_election(method=ob.Ensemble(), learner=KERNEL)
    own = {"party-1": ob.XGBoost(rounds=3), "party-2": TREE}
    ballots = [
        ob.cast(election, d.X, d.y, party=p, learners={"local": own[p]} if p in own else None)
        for p, d in parties.items()
    ]
    outcome = ob.tally(election, ballots)
    assert sorted({blob.format for blob in members(outcome)}) == ["kernel", "skops", "ubjson"]
    assert accuracy(outcome, digits) > 0.9


class TestSelection:
    def outcome(self, make_election, digits, **settings: Any) -> tuple[ob.Outcome, dict[str, Data]]:
        election = make_election(method=ob.Ensemble(**settings), learner=KERNEL)
        held = divide(election.data(digits.X, digits.y), 8, "dirichlet:0.5", seed=2)
        return simulate_parties(election, held).outcome, held

    def test_size_selects_the_largest(self, make_election, digits) -> None:
        outcome, held = self.outcome(make_election, digits, select="size", k=3)
        sizes = sorted((len(d) for d in held.values()), reverse=True)
        rows = sorted((len(m.rows) for m in outcome.model.model_.members._opened.values()), reverse=True)
        assert rows == sizes[:3]

    def test_cv_selects_the_best_in_cross_validation(self, make_election, digits) -> None:
        outcome, _ = self.outcome(make_election, digits, select="cv", k=3)
        scores = {party: int(roll["score"][0]) for party, roll in outcome.count.by_party.items()}
        best = sorted(sorted(scores, key=scores.get)[-3:])
        assert [blob for party in best for blob in [outcome.count.by_party[party]["model"]]] == members(outcome)
        assert len(set(scores.values())) > 3

    def test_the_score_is_computed_on_rows_that_were_not_trained_on(self, make_election, digits) -> None:
        election = make_election(method=ob.Ensemble(select="cv", k=1, folds=4), learner=KERNEL)
        data = election.data(digits.X[:120], digits.y[:120])
        steps = election.method.cast(data, PartyContext(election, "a"))
        fit = next(steps)
        assert len(fit.tasks) == 4
        for task in fit.tasks:
            assert not np.intersect1d(task.rows, task.ask).size
        assert np.array_equal(np.sort(np.concatenate([t.ask for t in fit.tasks])), np.arange(120))
        models = KERNEL.fit_many(data.X, fit.tasks, 10)
        steps.send(models)
        with pytest.raises(StopIteration) as end:
            steps.send(KERNEL.fit_many(data.X, [fit.tasks[0]], 10))
        asked = np.concatenate([t.ask for t in fit.tasks])
        expected = mean_auc(np.concatenate(models.predictions()), data.y[asked])
        assert end.value.value["score"][0] == round(expected * 10_000)

    def test_random_selection_depends_only_on_the_election(self, make_election, digits) -> None:
        first, _ = self.outcome(make_election, digits, select="random", k=3)
        again, _ = self.outcome(make_election, digits, select="random", k=3)
        assert members(first) == members(again)
        assert len(members(first)) == 3

    def test_k_above_the_number_of_parties_selects_all(self, make_election, digits) -> None:
        with pytest.warns(ob.OneBallotWarning, match=r"k = 100, but there are 8 models"):
            outcome, _ = self.outcome(make_election, digits, select="random", k=100)
        assert len(members(outcome)) == 8

    def test_parties_with_too_few_rows_or_too_low_a_score_abstain(self, make_election, digits) -> None:
        outcome, held = self.outcome(make_election, digits, min_rows=100)
        small = {p for p, d in held.items() if len(d) < 100}
        assert 0 < len(small) < 8
        assert {p for p, v in outcome.voted.items() if v.abstained} == small
        low, _ = self.outcome(make_election, digits, select="cv", k=8, min_score=0.99)
        scores = {p: v.abstained for p, v in low.voted.items() if v.abstained}
        assert scores
        assert all("is below 0.99" in reason for reason in scores.values())
        with pytest.raises(QuorumError):
            self.outcome(make_election, digits, min_rows=10**6)


class TestWeights:
    """By default a party does not vote on classes that it lacks."""

    def answers(self, make_election, digits, weights: str) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
        election = make_election(method=ob.Ensemble(weights=weights, most_rows=100), learner=KERNEL)
        some = {"low": digits.y < 6, "high": digits.y >= 4, "one": digits.y == 9}
        held = {party: election.data(digits.X[rows], digits.y[rows]) for party, rows in some.items()}
        simulation = simulate_parties(election, held)
        alone = {b.party: simulation.outcome.count.by_party[b.party]["model"] for b in simulation.ballots}
        opened = EnsembleModel(list(alone.values()), np.ones((1, 3, 10)))
        counts = np.stack([np.bincount(d.y, minlength=10) for d in held.values()])
        rows = election.rows(digits.X_test)
        return simulation.outcome.model.predict_proba(rows), [a for _, a in opened.member_predictions(rows)], counts

    @pytest.mark.parametrize("weights", ["seen", "class-counts", "uniform"])
    def test_the_mean_follows_the_documented_formula(self, weights: str, make_election, digits) -> None:
        answer, alone, counts = self.answers(make_election, digits, weights)
        w = {"seen": counts > 0, "class-counts": np.minimum(counts, 100), "uniform": np.ones((3, 10))}[weights]
        mean = np.einsum("tnc,tc->nc", np.stack(alone), w) / w.sum(axis=0)
        np.testing.assert_allclose(answer, mean / mean.sum(axis=1, keepdims=True), atol=1e-9)

    def test_parties_that_lack_most_classes_still_make_a_good_ensemble(self, make_election, digits) -> None:
        right = {}
        for weights in ("seen", "class-counts", "uniform"):
            answer, alone, counts = self.answers(make_election, digits, weights)
            right[weights] = (answer.argmax(1) == digits.y_test).mean()
        assert max((a.argmax(1) == digits.y_test).mean() for a in alone) < 0.7
        assert counts.max() > 100
        assert right["uniform"] < 0.5  # the party that only has 9 predicts it for every row
        assert min(right["seen"], right["class-counts"]) > 0.95


class TestDistillation:
    def test_a_kernel_learner_fits_the_predictions_of_the_ensemble_in_closed_form(
        self, make_election, parties, digits
    ) -> None:
        exact = ob.Kernel(gamma=0.002, ridge=0, intercept=False)
        election = make_election(method=ob.Ensemble(distil=True), learner=KERNEL, learners={"final": exact})
        outcome = simulate_parties(election, parties).outcome
        model = outcome.model.model_
        assert isinstance(model, KernelModel)
        np.testing.assert_array_equal(model.rows, election.public)  # no party's rows are in it
        blobs = [outcome.count.by_party[p]["model"] for p in sorted(parties)]
        whole = EnsembleModel(blobs, np.ones((1, 5, 10)))
        np.testing.assert_allclose(model.scores(election.public), whole.predict_proba(election.public), atol=1e-4)

    @pytest.mark.parametrize(
        "final", [KERNEL, ob.Sklearn("RandomForestClassifier", {"n_estimators": 60})], ids=lambda x: x.name
    )
    def test_the_distilled_model_is_nearly_as_good_as_the_ensemble(self, final, make_election, parties, digits) -> None:
        plain = simulate_parties(make_election(method=ob.Ensemble(), learner=KERNEL), parties).outcome
        distilled = simulate_parties(
            make_election(method=ob.Ensemble(distil=True), learner=KERNEL, learners={"final": final}), parties
        ).outcome
        areas = [mean_auc(o.model.predict_proba(digits.X_test), digits.y_test) for o in (plain, distilled)]
        assert areas[0] - areas[1] < 0.01
        assert len(distilled.model.dump().data) != len(plain.model.dump().data)


class TestCohorts:
    @pytest.fixture
    def held(self, digits, make_election) -> dict[str, Data]:
        """Two groups of parties; in one of them, 3 is labelled 8 and 8 is labelled 3."""
        election = make_election()
        swapped = np.select([digits.y == 3, digits.y == 8], [8, 3], digits.y)
        parts = np.array_split(np.arange(len(digits.y)), 6)
        return {
            f"{'ab'[i % 2]}-{i}": election.data(digits.X[p], (swapped if i % 2 else digits.y)[p])
            for i, p in enumerate(parts)
        }

    @pytest.mark.parametrize("distil", [False, True])
    def test_parties_that_predict_alike_have_an_ensemble_of_their_own(
        self, distil: bool, make_election, held, digits, tmp_path
    ) -> None:
        election = make_election(method=ob.Ensemble(cohorts=2, distil=distil), learner=KERNEL)
        outcome = simulate_parties(election, held).outcome
        outcome.save(tmp_path)
        model = ob.Outcome.load(tmp_path).model.model_
        assert [model.cohort_of(party) for party in sorted(held)] == [0, 0, 0, 1, 1, 1]
        rows, y = election.rows(digits.X_test), digits.y_test
        swapped = np.select([y == 3, y == 8], [8, 3], y)
        odd = (y == 3) | (y == 8)
        for cohort, labels in ((0, y), (1, swapped)):
            predicted = model.of(cohort).predict_proba(rows).argmax(axis=1)
            assert (predicted == labels)[odd].mean() > 0.85
            assert model.best(rows, labels) == cohort
        assert b"a-0" not in model.dump().data

    def test_a_new_party_is_placed_by_its_own_model(self, make_election, held, digits) -> None:
        election = make_election(method=ob.Ensemble(cohorts=2), learner=KERNEL)
        less = {party: data for party, data in held.items() if party != "b-5"}
        model = simulate_parties(election, less).outcome.model.model_
        new = held["b-5"]
        own = KERNEL.fit_many(new.X, [Task(np.arange(len(new)), new.y)], 10)[0]
        asked = election.public[cohort_queries(len(election.public), TallyContext(election).shared_seed("cohorts"))]
        assert model.closest(own.predict_proba(asked)) == model.cohort_of("b-1")
        assert model.best(new.X, new.y) == model.cohort_of("b-1")

    def test_there_are_no_more_cohorts_than_parties_that_differ(self, make_election, held, digits) -> None:
        election = make_election(method=ob.Ensemble(cohorts=4), learner=KERNEL)
        same = held["a-0"]
        with pytest.warns(OneBallotWarning, match="2 cohorts instead of 4"):
            outcome = simulate_parties(election, {"a": same, "b": same, "c": held["b-1"]}).outcome
        assert [outcome.model.model_.cohort_of(p) for p in "abc"] == [0, 0, 1]

    def test_cohorts_of_models_that_all_fail_are_an_error(self, make_election) -> None:
        election = make_election(method=ob.Ensemble(cohorts=2), learner=KERNEL)
        broken = {"seen": np.ones(10, dtype=np.int64), "model": Blob("skops", b"nothing")}
        with (
            TallyContext(election) as ctx,
            pytest.warns(OneBallotWarning, match="a is left out"),
            pytest.raises(ElectionError, match="no ballot's model made predictions"),
        ):
            run(ctx.job(election.method.close, Count(by_party={"a": broken}), ctx))

    def test_k_models_are_selected_in_each_cohort(self, make_election, held) -> None:
        election = make_election(method=ob.Ensemble(cohorts=2, select="size", k=1), learner=KERNEL)
        model = simulate_parties(election, held).outcome.model.model_
        assert len(model.members) == 2
        assert [model.cohort_of(party) for party in sorted(held)] == [0, 0, 0, 1, 1, 1]


class TestSmallAndMissingParties:
    @pytest.mark.parametrize("learner", [KERNEL, pytest.param(TREE, marks=pytest.mark.slow)], ids=lambda x: x.name)
    @pytest.mark.parametrize("method", [ob.Ensemble(), ob.Ensemble(select="cv", k=2, distil=True)], ids=["all", "cv"])
    def test_parties_with_one_class_one_row_or_no_row(self, method, learner, make_election, digits) -> None:
        election = make_election(method=method, learner=learner)
        zeros = digits.y == 0
        held = {
            "full": election.data(digits.X, digits.y),
            "zeros": election.data(digits.X[zeros], digits.y[zeros]),
            "one": election.data(digits.X[:1], digits.y[:1]),
            "none": Data(np.empty((0, 64), np.float32), np.empty(0, int)),
        }
        with pytest.warns(OneBallotWarning, match="zeros: no rows of class 1, 2, 3"):
            outcome = simulate_parties(election, held).outcome
        assert outcome.voted["none"].abstained == "it has fewer than min_rows = 1 rows"
        alone = simulate_parties(election, {"full": held["full"]}).outcome
        assert accuracy(alone, digits) > (0.9 if learner is KERNEL else 0.6)
        assert accuracy(outcome, digits) > accuracy(alone, digits) - 0.15

    def test_a_tally_after_removing_or_adding_a_party_equals_one_from_scratch(
        self, make_election, parties, digits
    ) -> None:
        for method in (ob.Ensemble(), ob.Ensemble(select="random", k=2), ob.Ensemble(distil=True)):
            election = make_election(method=method, learner=KERNEL)
            ballots = cast_together(election, parties)
            scratch = ob.tally(election, ballots[1:])
            early = ob.tally(election, ballots[2:][::-1])
            for other in (
                ob.tally(election, ballots, without=["party-1"]),
                ob.tally(election, ballots[1:], previous=ob.tally(election, ballots)),
                ob.tally(election, ballots[1:], previous=early),
            ):
                assert other.model.dump() == scratch.model.dump()


WRONG = {
    "no model": lambda c: {k: v for k, v in c.items() if k != "model"},
    "something more": lambda c: {**c, "more": np.zeros(3)},
    "a model that is numbers": lambda c: {**c, "model": np.zeros(3)},
    "a model of another width": lambda c: {**c, "model": KernelModel(np.zeros((1, 3), np.float32),
                                           np.zeros((1, 10)), np.zeros(10), 1.0).dump()},
    "a model of nonsense": lambda c: {**c, "model": Blob("skops", b"PK")},
    "a format that is not known": lambda c: {**c, "model": Blob("pickle", b"x")},
    "an ensemble": lambda c: {**c, "model": EnsembleModel([c["model"]], np.ones((1, 1, 10))).dump()},
    "counts below 0": lambda c: {**c, "seen": c["seen"] - 1000},
    "counts without end": lambda c: {**c, "seen": c["seen"] + 2**40},
    "counts of nothing": lambda c: {**c, "seen": c["seen"] * 0},
    "counts of other classes": lambda c: {**c, "seen": c["seen"][:9]},
    "counts of another type": lambda c: {**c, "seen": c["seen"].astype(float)},
    "a score above 1": lambda c: {**c, "score": np.array([10_001])},
    "a score below 0": lambda c: {**c, "score": np.array([-1])},
    "several scores": lambda c: {**c, "score": np.array([1, 2])},
}  # fmt: skip


@pytest.fixture(scope="module")
def honest(digits):
    method = ob.Ensemble(select="cv", k=3)
    election = ob.Election(classes=range(10), public=digits.public, method=method, learner=KERNEL)
    parties = divide(election.data(digits.X, digits.y), 5, "homogeneous", seed=1)
    return election, cast_together(election, parties)


class TestHostileBallots:
    @pytest.mark.parametrize("name", WRONG)
    def test_unexpected_contents_are_spoiled(self, name: str, honest) -> None:
        election, ballots = honest
        forged = seal(WRONG[name](dict(ballots[0].contents)), election, "forger").sealed
        outcome = ob.tally(election, [forged, *ballots])
        assert list(outcome.spoiled) == ["ballot 1"]
        assert len(outcome.voted) == 5

    def test_the_tally_warns_of_a_class_that_no_party_has(self, make_election, digits) -> None:
        election = make_election(method=ob.Ensemble(), learner=KERNEL)
        few = digits.y < 8
        with pytest.warns(ob.OneBallotWarning):
            ballot = ob.cast(election, digits.X[few], digits.y[few], party="a")
        with pytest.warns(ob.OneBallotWarning, match="no party has rows of class 8, 9: the ensemble does not know it"):
            ob.tally(election, [ballot])

    def test_a_model_with_huge_coefficients_counts_as_one_member(self, make_election, parties, digits) -> None:
        """Its predictions are probabilities all the same, and count as much as any other's."""
        election = make_election(method=ob.Ensemble(), learner=KERNEL)
        ballots = cast_together(election, parties)
        loud = KernelModel(np.zeros((1, 64), np.float32), np.full((1, 10), 1e12), np.r_[1e12, np.full(9, -1e12)], 1e-12)
        forged = seal({"seen": np.full(10, 5), "model": loud.dump()}, election, "forger")
        assert not (spoiled := ob.tally(election, [*ballots, forged])).spoiled
        quiet = ob.tally(election, ballots).model.predict_proba(digits.X_test)
        assert np.abs(spoiled.model.predict_proba(digits.X_test) - quiet).max() <= 1 / 6 + 1e-9

    def test_a_false_score_gets_a_model_selected_as_documented(self, honest) -> None:
        election, ballots = honest
        forged = seal({**ballots[0].contents, "score": np.array([10_000])}, election, "forger")
        outcome = ob.tally(election, [*ballots, forged])
        assert not outcome.spoiled
        assert ballots[0].contents["model"] in members(outcome)


class TestRejectedBeforeTraining:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"k": 3}, "k = 3 needs select"),
            ({"select": "cv"}, "needs k"),
            ({"min_score": 0.5}, 'needs select = "cv"'),
        ],
    )
    def test_settings_that_cannot_be_combined(self, settings, words: str) -> None:
        with pytest.raises(ElectionError, match=words):
            ob.Ensemble(**settings)

    @pytest.mark.parametrize(
        "settings", [{"k": 0, "select": "cv"}, {"select": "best"}, {"cohorts": 0}, {"min_rows": 0}, {"folds": 1}]
    )
    def test_settings_out_of_range(self, settings) -> None:
        with pytest.raises(ElectionError, match=next(iter(settings))):
            ob.Ensemble(**settings)

    def test_private_levels_with_the_reason(self, make_election) -> None:
        for level in ("L1", "L2"):
            with pytest.raises(
                ElectionError, match=f"does not offer privacy level '{level}', only L0: a ballot is a model"
            ):
                make_election(method=ob.Ensemble(), privacy=getattr(ob, level)(epsilon=1.0))

    @pytest.mark.parametrize("settings", [{"distil": True}, {"cohorts": 2}])
    def test_distillation_and_cohorts_need_a_public_set(self, settings) -> None:
        with pytest.raises(ElectionError, match="ensemble needs a public set"):
            ob.Election(classes=range(10), method=ob.Ensemble(**settings), learner=KERNEL)

    def test_distillation_needs_a_learner_that_accepts_soft_labels(self, make_election) -> None:
        neighbours = ob.Sklearn("KNeighborsClassifier")
        with pytest.raises(
            ElectionError, match=r"ensemble: the final learner must provide soft; .* or set distil = false"
        ):
            make_election(method=ob.Ensemble(distil=True), learners={"final": neighbours})
        make_election(method=ob.Ensemble(), learner=neighbours)

    def test_an_election_needs_a_public_set_or_a_schema(self) -> None:
        with pytest.raises(ElectionError, match="give the election a public set or a schema"):
            ob.Election(classes=range(10), method=ob.Ensemble(), learner=KERNEL)


def test_a_plan_gives_the_number_of_models(make_election, parties) -> None:
    for method, models in ((ob.Ensemble(), 1), (ob.Ensemble(select="cv", k=1, folds=3), 4)):
        election = make_election(method=method, learner=KERNEL)
        assert election.method.plan(parties["party-1"], PartyContext(election, "a")).models == models


def test_a_thousand_parties_are_simulated_in_one_run(make_election, digits) -> None:
    election = make_election(method=ob.Ensemble(distil=True), learner=KERNEL)
    rng = np.random.default_rng(0)
    data = election.data(digits.X, digits.y)
    held = {
        f"p{i}": Data(data.X[rows], data.y[rows]) for i in range(1000) for rows in [rng.integers(0, len(digits.y), 12)]
    }
    simulation = simulate_parties(election, held)
    assert len(simulation.outcome.count.by_party) == 1000
    assert simulation.accuracy(election.data(digits.X_test, digits.y_test)) > 0.85


def test_an_election_in_files_is_cast_tallied_predicted_and_simulated(clinic: Path, monkeypatch) -> None:
    from oneballot.cli import app

    monkeypatch.chdir(clinic)  # where a party keeps its own copy of its ballot

    run = CliRunner()

    def do(*words: str) -> str:
        done = run.invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    toml = clinic / "election.toml"
    do("new", str(toml), "--public", str(clinic / "public.csv"), "--label", "ill", "--lenient")
    text = toml.read_text()
    start, end = text.index("[method]"), text.index("[privacy]")
    mine = '[method]\nname = "ensemble"\nselect = "size"\nk = 2\n\n[learners.all]\nname = "kernel"\n\n'
    toml.write_text(text[:start] + mine + text[end:])
    for party in "abc":
        do("cast", str(toml), "--party", party, "--data", str(clinic / f"{party}.csv"), "--to", str(clinic / "box"))
    do("tally", str(toml), "--from", str(clinic / "box"), "--out", str(clinic / "outcome"), "--without", "b")
    assert "bytes" in do("evaluate", str(clinic / "outcome"), "--data", str(clinic / "test.csv"), "--json")
    assert do("predict", str(clinic / "outcome"), "--data", str(clinic / "test.csv")).count("\n") == 201
    output = do("simulate", str(toml), "--data", str(clinic / "a.csv"), "--parties", "3")
    assert "federation (ensemble)" in output
