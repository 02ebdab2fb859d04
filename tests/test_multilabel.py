"""Multi-label elections: arrays, files, splits and the final model."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.election import template
from oneballot.election.cells import Place
from oneballot.election.targets import Labels
from oneballot.errors import DataError, ElectionError
from oneballot.party.context import PartyContext
from oneballot.server.context import TallyContext
from oneballot.simulation import baselines, divide, simulate_parties

from .conftest import write_csv

CLASSES = ("above", "right", "far")
FEDKD_SETTINGS = {f.name for f in fields(ob.FedKD)}
NETWORK = ob.Torch("mlp", {"hidden": [32]}, epochs=60, device="cpu")


def rows(count: int, seed: int):
    """Points of a plane, and whether each is above 0, right of 0 and far from it."""
    X = np.random.default_rng(seed).normal(size=(count, 2)).astype(np.float32)
    return X, np.stack([X[:, 1] > 0, X[:, 0] > 0, np.hypot(*X.T) > 1.2], axis=1).astype(int)


def election(**settings) -> ob.Election:
    method = ob.FedKD(**{k: settings.pop(k) for k in list(settings) if k in FEDKD_SETTINGS})
    defaults = {"classes": CLASSES, "public": rows(400, 1)[0], "learner": NETWORK, "multilabel": True, "method": method}
    return ob.Election(**{**defaults, **settings})


def test_labels_are_yes_no_or_unknown() -> None:
    where = Place("a.csv", "label")
    for values in (
        [[1, 0, -1]],
        [["1", "0.0", ""]],
        [[1.0, 0.0, -1.0]],
        np.array([["1", "0", None]], dtype=object),
        [[1, 0, math.nan]],
    ):
        assert Labels(CLASSES).encode(values, where).tolist() == [[1, -1, 0]]
    with pytest.raises(DataError, match=r"row 2 .* has an invalid label"):
        Labels(CLASSES).encode([[1, 0, 1], [1, 2, 1]], where)
    with pytest.raises(DataError, match=r"expected 3 labels per row, one per class, not shape \(4,\)"):
        Labels(CLASSES).encode([1, 0, 1, 0], where)


@pytest.mark.parametrize("temperature", [math.inf, 0.0])
@pytest.mark.parametrize("join_public", [False, True])
def test_parties_with_labels_of_different_classes_train_a_model_of_all(temperature: float, join_public: bool) -> None:
    """As with the paper's chest X-rays: each source is labelled for two classes, one of which both share."""
    known = {"public_labels": rows(400, 1)[1]} if join_public else {}
    agreed = election(temperature=temperature, join_public=join_public, **known)
    parties = {}
    for i, unknown in enumerate((0, 0, 2, 2)):
        X, y = rows(300, 10 + i)
        y[:, unknown] = -1
        parties[f"clinic-{i}"] = agreed.data(X, y)
    outcome = simulate_parties(agreed, parties).outcome
    X, y = rows(500, 2)
    for c in range(3):
        assert (outcome.model.predict(X)[:, c] == y[:, c]).mean() > 0.85
    assert outcome.model.predict(X).shape == (500, 3)
    assert outcome.model.predict_proba(X).sum(axis=1).std() > 0.3  # classes are independent
    if not join_public:
        assert sum(np.asarray(kept["seen"]) for kept in outcome.count.by_party.values()).tolist() == [
            sum(int((p.y[:, c] == 1).sum()) for p in parties.values()) for c in range(3)
        ]


def test_a_teacher_learns_known_labels_and_the_final_model_has_sigmoids() -> None:
    agreed = election()
    X, y = rows(50, 3)
    y[:10] = -1
    data = agreed.data(X, y)
    (task,) = next(agreed.method.cast(data, PartyContext(agreed, "a"))).tasks
    assert task.kind == "multilabel"
    assert np.array_equal(task.targets[10:], 2 * y[10:] - 1)
    assert not task.targets[:10].any()
    model = simulate_parties(agreed, {"a": data}).outcome.model
    assert model.model_.description.output == "sigmoid"
    np.testing.assert_allclose(model.predict_proba(X), 1 / (1 + np.exp(-model.model_.scores(X))), rtol=1e-6)


def test_a_party_without_known_labels_abstains() -> None:
    agreed, (X, y) = election(), rows(50, 3)
    parties = {"a": agreed.data(X, y), "b": agreed.data(X, np.full_like(y, -1))}
    outcome = simulate_parties(agreed, parties).outcome
    assert {party: vote.abstained for party, vote in outcome.voted.items() if vote.abstained} == {
        "b": "none of its labels is known"
    }


def test_unsuitable_settings_are_rejected_before_training() -> None:
    with pytest.raises(ElectionError, match="method fedkt does not support several labels per row"):
        election(method=ob.FedKT())
    with pytest.raises(ElectionError, match=r"must support several labels per row .*; sklearn doesn't. Use torch."):
        election(learner=ob.Sklearn())
    for settings, error in (
        ({"temperature": 2.0}, "need temperature = inf"),
        ({"centre": True}, "not available in multi-label"),
    ):
        with pytest.raises(ElectionError, match=error):
            election(**settings)
    with pytest.raises(DataError, match=r"expected 3 labels per row, one per class, not shape \(20,\)"):
        election().data(rows(20, 1)[0], np.zeros(20))


def test_rows_are_split_by_their_rarest_class() -> None:
    y = np.array([[1, 1, -1], [1, -1, 0], [1, 1, 1], [-1, -1, -1], [1, -1, -1]])
    assert Labels(CLASSES).groups(y).tolist() == [1, 0, 2, 3, 0]
    agreed = election()
    parties = divide(agreed.data(*rows(200, 4)), 3, "dirichlet:0.5", seed=0, target=agreed.target)
    assert sum(map(len, parties.values())) == 200
    assert all(data.y.shape[1] == 3 for data in parties.values())


def test_accuracy_counts_only_known_labels() -> None:
    y = np.array([[1, -1, 0], [-1, -1, 1]])
    assert Labels(CLASSES).accuracy(np.array([[0.9, 0.2, 0.1], [0.6, 0.2, 0.1]]), y) == 3 / 5
    agreed = election()
    reference = baselines(
        agreed, {"a": agreed.data(*rows(300, 5)), "b": agreed.data(*rows(20, 6))}, agreed.data(*rows(300, 7))
    )
    assert reference.pooled > 0.9


def test_multilabel_changes_the_digest_only_where_it_is_set() -> None:
    one = election(multilabel=False)
    assert election().digest != one.digest
    assert "multilabel" not in one.describe()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """An election in files: one column per class, labelled public rows, and blanks for unknown labels."""
    header = ["x", "y", *CLASSES]

    def write(name: str, count: int, seed: int, unknown: int | None = None) -> Path:
        X, y = rows(count, seed)
        X = np.clip(X, -4, 4)
        marks = [["" if c == unknown else str(v) for c, v in enumerate(row)] for row in y]
        return write_csv(tmp_path / name, header, [[*map(str, x), *m] for x, m in zip(X.tolist(), marks, strict=True)])

    public = write("public.csv", 400, 1)
    for i, name in enumerate("ab"):
        write(f"{name}.csv", 300, 20 + i, unknown=2 * i)
    write("test.csv", 300, 30)
    schema = ob.Schema(
        label=CLASSES, columns=[{"name": n, "kind": "number", "range": (-4, 4), "outside": "clip"} for n in "xy"]
    )
    method = '[method]\nname = "fedkd"\n\n[learners.all]\nname = "torch"\nsettings = { hidden = [32] }\nepochs = 200\n'
    text = template.write(tmp_path / "election.toml", public, CLASSES, schema, name="points", method=method)
    (tmp_path / "election.toml").write_text(text, "utf-8")
    return tmp_path


def run(*words: object) -> str:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_files_with_a_column_for_each_class_are_cast_tallied_and_tested(files: Path, monkeypatch) -> None:
    monkeypatch.chdir(files)
    agreed = ob.Election.read("election.toml")
    assert (agreed.target, agreed.multilabel) == (Labels(CLASSES), True)
    for name in "ab":
        run("cast", "election.toml", "--party", name, "--data", f"{name}.csv", "--to", "box")
    run("tally", "election.toml", "--from", "box", "--out", "outcome")
    tested = json.loads(run("evaluate", "outcome", "--data", "test.csv", "--json"))
    assert tested["accuracy"] > 0.78
    assert {c: scores["rows"] for c, scores in tested["classes"].items()} == dict.fromkeys(CLASSES, 300)
    named = json.loads(run("predict", "outcome", "--data", "test.csv", "--json"))["labels"]
    outcome = ob.Outcome.load("outcome")
    has = outcome.model.predict(outcome.read_table(Path("test.csv")))
    assert outcome.model.classes_.tolist() == list(CLASSES)
    assert [";".join(c for c, one in zip(CLASSES, row, strict=True) if one) for row in has] == named


def test_public_labels_are_read_if_the_election_uses_them(files: Path) -> None:
    text = (files / "election.toml").read_text("utf-8")
    assert ob.Election.read(files / "election.toml").public_labels is None
    (files / "labelled.toml").write_text(text.replace("\npath = ", "\nlabels = true\npath = "), "utf-8")
    agreed = ob.Election.read(files / "labelled.toml")
    with TallyContext(agreed) as ctx:
        assert np.array_equal(ctx.public_labels, 2 * rows(400, 1)[1] - 1)


def test_a_missing_label_column_is_named(files: Path) -> None:
    write_csv(files / "c.csv", ["x", "y", "above", "far"], [["0", "0", "1", "1"]])
    with pytest.raises(DataError, match="missing column 'right'"):
        ob.Election.read(files / "election.toml").read_data(files / "c.csv")


@pytest.mark.parametrize("temperature", [math.inf, 0.0])
def test_a_class_that_no_party_has_is_predicted_for_no_row(temperature: float) -> None:
    X, y = rows(300, 2)
    y[:, 2] = -1  # unknown at every party
    agreed = election(temperature=temperature)
    with pytest.warns(ob.OneBallotWarning, match="no party has rows of class far"):
        outcome = ob.tally(agreed, [ob.cast(agreed, X, y, party="a")])
    assert outcome.model.predict(rows(200, 3)[0])[:, 2].mean() < 0.1
