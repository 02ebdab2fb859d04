"""DOSFL as a method: its ballots, hostile ballots, and elections that start from an outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.cli import app
from oneballot.errors import ElectionError, OneBallotWarning, Spoiled
from oneballot.methods.dosfl.method import LIMIT
from oneballot.methods.dosfl.work import read_inputs, write_inputs
from oneballot.party.cast import cast_together
from oneballot.server.context import TallyContext
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Data

pytest.importorskip("torch")

from oneballot.methods.dosfl.distillation import DistilledData, limit_to_others

MLP = ob.Torch("mlp", settings={"shape": [64], "hidden": [16]}, device="cpu")
QUICK = {"steps": 2, "epochs": 2, "batch": 10, "first_rate": 0.3, "learning_rate": 0.1, "local_epochs": 3}


@pytest.fixture
def make(digits) -> Callable[..., ob.Election]:
    def made(method: ob.DOSFL | None = None, **settings: Any) -> ob.Election:
        usual = {"classes": range(10), "learner": MLP, "method": method or ob.DOSFL(**QUICK)}
        return ob.Election(**{**usual, **settings})

    return made


@pytest.fixture
def three(make, digits) -> dict[str, Data]:
    return divide(make().data(digits.X[:300] / 16, digits.y[:300]), 3, "homogeneous")


def test_the_model_is_accurate_and_ballots_have_the_planned_size(make, digits) -> None:
    wide = ob.Torch("mlp", settings={"shape": [64], "hidden": [32]}, device="cpu")
    slow = {
        "steps": 4,
        "first_rate": 0.1,
        "learning_rate": 0.05,
        "local_epochs": 20,
        "local_batch": 128,
        "negative_labels": True,
        "merging": "averaged",
    }
    election = make(ob.DOSFL(**{**QUICK, **slow}), learner=wide)
    simulation = ob.simulate(election, digits.X / 16, digits.y, parties=3, split="homogeneous")
    assert simulation.accuracy(election.data(digits.X_test / 16, digits.y_test)) > 0.6
    plan = election.method.plan(simulation.parties["party-1"], TallyContext(election))
    assert (plan.models, plan.bytes) == (1, 4 * (10 * (64 * 2 + 10 * 4) + 4) + 32)
    assert all(plan.bytes < len(ballot.sealed) < plan.bytes + 2500 for ballot in simulation.ballots)


def test_a_simulated_ballot_has_the_bytes_of_the_partys_own(make, three) -> None:
    election = make()
    for ballot, (party, data) in zip(cast_together(election, three), three.items(), strict=True):
        assert ballot.sealed == ob.cast(election, data.X, data.y, party=party).sealed


SETTINGS: list[dict[str, Any]] = [
    {"soft_labels": False},
    {"soft_reset": 0.05},
    {"masking": 0.3},
    {"numbers": "float32"},
    {"numbers": "uint8"},
    {"first_weights": "torch"},
    {"merging": "averaged"},
    {"merging": "weights", "first_lessons": "shared"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_elections_with_every_setting_give_a_model(make, three, settings: dict[str, Any]) -> None:
    election = make(ob.DOSFL(**{**QUICK, "local_epochs": 1, **settings}))
    simulation = simulate_parties(election, three)
    assert set(simulation.outcome.voted) == set(three)
    probabilities = simulation.outcome.model.predict_proba(three["party-1"].X)
    assert np.isfinite(probabilities).all()
    if not settings.get("soft_labels", True):
        assert set(np.unique(simulation.ballots[0].contents["labels"])) == {0.0, 1.0}


def test_the_model_does_not_depend_on_the_order_of_ballots_or_on_saving(make, three, tmp_path) -> None:
    election = make()
    ballots = cast_together(election, three)
    one, other = ob.tally(election, ballots), ob.tally(election, [b.sealed for b in reversed(ballots)])
    assert one.model.dump() == other.model.dump()
    one.save(tmp_path / "outcome")
    assert ob.Outcome.load(tmp_path / "outcome").model.dump() == one.model.dump()


def test_a_party_may_be_missing_late_excluded_or_alone(make, three) -> None:
    election = make()
    ballots = cast_together(election, three)
    two = ob.tally(election, ballots[:2])
    late = ob.tally(election, ballots, previous=two)
    assert late.model.dump() == ob.tally(election, ballots).model.dump() != two.model.dump()
    assert ob.tally(election, ballots, without=["party-3"], previous=late).model.dump() == two.model.dump()
    assert ob.tally(election, ballots[:1]).voted.keys() == {"party-1"}


def test_a_party_without_some_classes_takes_part_and_one_without_rows_abstains(make, three) -> None:
    lacking = three["party-1"]
    some = lacking.y < 2
    election = make()
    with pytest.warns(OneBallotWarning, match="party-1: no rows of class 2, 3, 4"):
        ballots = cast_together(
            election,
            {**three, "party-1": Data(lacking.X[some], lacking.y[some]), "party-4": Data(lacking.X[:0], lacking.y[:0])},
        )
    outcome = ob.tally(election, ballots)
    assert outcome.voted["party-4"].abstained == "it has no rows"
    assert outcome.summary()["counted"] == ["party-1", "party-2", "party-3"]


def altered(ballot: ob.Ballot, name: str, value: Any) -> dict[str, Any]:
    return {**ballot.contents, name: value(np.array(ballot.contents[name]))}


def set_last(number: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values.reshape(-1)[-1] = number
        return values

    return change


HOSTILE: list[tuple[str, Callable[[np.ndarray], Any], str]] = [
    ("inputs", set_last(np.nan), "its inputs must be from -64 to 64"),
    ("inputs", set_last(np.inf), "its inputs must be"),
    ("inputs", set_last(65), "its inputs must be"),
    ("inputs", lambda v: v[:1], "expected an array 'inputs' of float16"),
    ("inputs", lambda v: v.astype(np.float32), "expected an array 'inputs' of float16"),
    ("labels", set_last(-np.inf), "its labels must be"),
    ("labels", set_last(1e30), "its labels must be"),
    ("labels", set_last(-0.1), "its labels must be from 0 to 64"),
    ("labels", lambda v: v[..., :9], "expected an array 'labels'"),
    ("rates", set_last(-0.1), "its rates must be from 0"),
    ("rates", set_last(np.nan), "its rates must be"),
    ("rates", set_last(1e6), "its rates must be"),
    ("rates", lambda v: v[None], "expected an array 'rates'"),
    ("first", lambda v: v ^ 1, "for other initial weights"),
    ("first", lambda v: v[:4], "expected an array 'first'"),
]


@pytest.mark.parametrize(("name", "change", "reason"), HOSTILE)
def test_a_hostile_ballot_is_spoiled_and_the_others_are_counted(make, three, name, change, reason) -> None:
    election = make(ob.DOSFL(**{**QUICK, "local_epochs": 1}))
    ballots = cast_together(election, {p: three[p] for p in ("party-1", "party-2")})
    bad = seal(altered(ballots[1], name, change), election, "party-2")
    outcome = ob.tally(election, [ballots[0], bad])
    assert outcome.voted.keys() == {"party-1"}
    assert reason in next(iter(outcome.spoiled.values()))
    assert outcome.model.dump() == ob.tally(election, ballots[:1]).model.dump()


def test_a_ballot_with_missing_arrays_or_wrong_ends_is_spoiled(make, three) -> None:
    election = make(ob.DOSFL(**{**QUICK, "local_epochs": 1, "numbers": "uint8"}))
    ballot = ob.cast(election, three["party-1"].X, three["party-1"].y, party="a")
    for name in ballot.contents:
        less = {key: value for key, value in ballot.contents.items() if key != name}
        with TallyContext(election) as ctx, pytest.raises(Spoiled, match=f"expected an array '{name}'"):
            election.method.count(seal(less, election, "a"), ctx)
    for number in (np.nan, -1e9, 1e9):
        with TallyContext(election) as ctx, pytest.raises(Spoiled):
            election.method.count(seal(altered(ballot, "ends", set_last(number)), election, "a"), ctx)


def test_a_party_whose_gradients_overflow_abstains_with_the_reason(make, three) -> None:
    election = make(ob.DOSFL(**QUICK))
    ballot = ob.cast(election, three["party-1"].X * np.float32(1e30), three["party-1"].y, party="far")
    assert "all gradients are 0 or overflow float32" in ballot.abstained


def test_the_worst_valid_ballot_is_left_out_and_its_party_is_named(make, three) -> None:
    election = make(ob.DOSFL(**{**QUICK, "local_epochs": 1, "first_rate": 1.0, "steps": 4, "epochs": 5}))
    ballot = ob.cast(election, three["party-1"].X, three["party-1"].y, party="honest")
    worst = {
        **ballot.contents,
        "inputs": np.sign(ballot.contents["inputs"]) * np.float16(LIMIT),
        "labels": (ballot.contents["labels"] < 0.5).astype(np.float32) * np.float32(LIMIT),
        "rates": np.full_like(ballot.contents["rates"], LIMIT),
    }
    with pytest.warns(OneBallotWarning, match="zed is left out: training on its distilled data diverges"):
        outcome = ob.tally(election, [ballot, seal(worst, election, "zed")])
    alone = ob.tally(election, [ballot])
    rows = three["party-1"].X
    np.testing.assert_array_equal(outcome.model.predict_proba(rows), alone.model.predict_proba(rows))
    with pytest.raises(ElectionError, match="diverged with the distilled data of every party"):
        ob.tally(election, [seal(worst, election, "zed")])


def test_no_party_exceeds_the_median_of_the_others_largest_inputs_labels_and_rates() -> None:
    rng = np.random.default_rng(0)
    data = [DistilledData(*(rng.random(n, dtype=np.float32) for n in (6, 4, 2))) for _ in range(5)]
    liar = DistilledData(*(np.full(n, np.float32(LIMIT)) for n in (6, 4, 2)))
    limited = limit_to_others([*data, liar])
    for name in ("inputs", "labels", "rates"):
        largest = [getattr(one, name).max() for one in data]
        assert getattr(limited[-1], name).max() == pytest.approx(np.median(largest))
        assert all((getattr(new, name) <= getattr(old, name)).all() for new, old in zip(limited, data, strict=False))


def test_files_that_leave_influence_out_mean_what_they_meant() -> None:
    assert "influence" not in ob.DOSFL(influence="claimed").describe()
    assert (ob.DOSFL().influence, ob.DOSFL.in_files["influence"]) == ("bounded", "claimed")
    assert "can undo" in ob.DOSFL.paper().risk
    assert not ob.DOSFL().risk


@pytest.mark.parametrize("numbers", ["float32", "float16", "uint8"])
def test_encoded_inputs_are_decoded_up_to_rounding(numbers: str) -> None:
    inputs = np.random.default_rng(1).normal(size=(3, 2, 5)).astype(np.float32)
    back = read_inputs(write_inputs(inputs, numbers), inputs.shape, numbers)
    near = {"float32": 0, "float16": 2e-3, "uint8": np.ptp(inputs) / 510 + 1e-6}[numbers]
    assert np.abs(back - inputs).max() <= near
    assert back.dtype == np.float32
    flat = np.full((3, 2, 5), 0.25, dtype=np.float32)
    assert np.abs(read_inputs(write_inputs(flat, numbers), flat.shape, numbers) - flat).max() < 1e-6


def test_a_chain_of_elections_starts_from_the_outcome_before(make, three, digits) -> None:
    """LP-DOSFL: each party distils for the weights that the parties before it led to."""
    outcome, digests, accuracies = None, set(), []
    for party, data in three.items():
        election = make(ob.DOSFL(**{**QUICK, "local_epochs": 20}), start=outcome)
        outcome = ob.tally(election, [ob.cast(election, data.X, data.y, party=party)])
        digests.add(election.digest)
        accuracies.append((outcome.model.predict(digits.X_test / 16) == digits.y_test).mean())
    assert len(digests) == 3
    assert accuracies[-1] > accuracies[0]


def test_distilled_data_for_other_weights_are_spoiled(make, three) -> None:
    election = make(ob.DOSFL(**{**QUICK, "local_epochs": 1}))
    data = three["party-1"]
    outcome = ob.tally(election, [ob.cast(election, data.X, data.y, party="a")])
    later = replace(election, start=outcome)
    contents = ob.cast(election, data.X, data.y, party="a").contents
    spoiled = ob.tally(later, [seal(contents, later, "a"), ob.cast(later, data.X, data.y, party="b")]).spoiled
    assert "other initial weights" in next(iter(spoiled.values()))


def test_start_names_a_folder_in_a_file_and_is_part_of_the_digest(make, three, tmp_path) -> None:
    election = make(ob.DOSFL(**{**QUICK, "local_epochs": 1}))
    data = three["party-1"]
    outcome = ob.tally(election, [ob.cast(election, data.X, data.y, party="a")])
    outcome.save(tmp_path / "outcome")
    text = """format = 1
classes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
start = "outcome/"
[method]
name = "dosfl"
[learners.all]
name = "torch"
module = "mlp"
settings = {shape = [64], hidden = [16]}
device = "cpu"
"""
    (tmp_path / "next.toml").write_text(text)
    read = ob.Election.read(tmp_path / "next.toml")
    plain = ob.DOSFL(influence="claimed")
    assert read.digest == make(plain, start=outcome).digest == make(plain, start=tmp_path / "outcome").digest
    assert read.digest != make(plain).digest
    assert read.start == outcome.model.dump()
    output = CliRunner().invoke(app, ["check", str(tmp_path / "next.toml")]).output
    assert f"starts from: the model of an outcome, sha256 {hashlib.sha256(read.start.data).hexdigest()[:16]}…" in output
    (tmp_path / "next.toml").write_text(text.replace("outcome/", "nowhere/"))
    with pytest.raises(ElectionError, match=r"next.toml: start: there is no outcome in .*nowhere"):
        ob.Election.read(tmp_path / "next.toml")
    (model,) = (tmp_path / "outcome").glob("model-*")
    model.write_bytes(model.read_bytes()[:-1] + b"?")
    with pytest.raises(ElectionError, match="was altered after it was written"):
        make(start=tmp_path / "outcome")


def test_a_start_that_does_not_fit_is_refused(make, three, make_election, parties) -> None:
    trees = simulate_parties(make_election(), parties).outcome
    data = three["party-1"]
    with pytest.raises(ElectionError, match="can only start from a network, not from a skops model"):
        ob.cast(make(start=trees), data.X, data.y, party="a")
    small = make(ob.DOSFL(**{**QUICK, "local_epochs": 1}))
    outcome = ob.tally(small, [ob.cast(small, data.X, data.y, party="a")])
    wide = ob.Torch("mlp", settings={"shape": [64], "hidden": [17]}, device="cpu")
    with pytest.raises(ElectionError, match="cannot start from mlp"):
        ob.cast(make(learner=wide, start=outcome), data.X, data.y, party="a")
    with pytest.raises(ElectionError, match="method fedkt cannot start from an outcome"):
        make_election(start=outcome)
    with pytest.raises(ElectionError, match="start must be an outcome, or the folder of one, not int"):
        make(start=3)


def test_pairings_that_cannot_work_are_refused_before_training(make) -> None:
    with pytest.raises(ElectionError, match=r"the final learner must provide gradients; sklearn doesn't\. Use torch"):
        make(learner=ob.Sklearn())
    with pytest.raises(ElectionError, match="method dosfl does not offer privacy level 'L2', only L0"):
        make(privacy=ob.L2(epsilon=1.0))
    with pytest.raises(ElectionError, match="the paper has no experiment 'cifar'"):
        ob.DOSFL.paper("cifar")
    with pytest.raises(ElectionError, match="negative_labels needs soft_labels = true"):
        ob.DOSFL(negative_labels=True, soft_labels=False)
    resnet = ob.Torch("resnet8", settings={"shape": [1, 8, 8], "width": 2}, device="cpu")
    with pytest.raises(ElectionError, match="batch normalisation"):
        make(learner=resnet)
    with pytest.raises(ElectionError, match="dosfl needs the shape of a row"):
        make(learner=ob.Torch("mlp", device="cpu"))
    with pytest.raises(ElectionError, match=r"must not be trained: set settings = .embedding = .frozen"):
        make(learner=ob.Torch("bilstm", settings={"shape": [5], "vocabulary": 9}, device="cpu"))


def test_text_is_distilled_as_word_vectors(tmp_path) -> None:
    rng = np.random.default_rng(2)
    tokens = rng.integers(1, 12, size=(80, 6)).astype(np.int32)
    y = ((tokens < 6).sum(1) >= 3).astype(int)
    learner = ob.Torch(
        "textcnn",
        device="cpu",
        settings={
            "shape": [6],
            "vocabulary": 12,
            "dimension": 5,
            "filters": 8,
            "widths": [1, 2],
            "embedding": "frozen",
        },
    )
    method = ob.DOSFL.paper("trec6", steps=4, local_epochs=40, soft_labels=True, first_rate=0.5, local_batch=40)
    election = ob.Election(classes=["no", "yes"], method=method, learner=learner)
    simulation = ob.simulate(election, tokens, np.array(["no", "yes"])[y], parties=1, split="homogeneous")
    assert simulation.ballots[0].contents["inputs"].shape == (4, 1, 6, 5)
    predicted = simulation.outcome.model.predict(tokens)
    assert ((predicted == "yes") == y).mean() > max(y.mean(), 1 - y.mean()) + 0.1
