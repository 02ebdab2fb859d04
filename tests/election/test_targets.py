"""Targets: a new one is one file of another package, from the party's column to the metrics of the final model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor
from typer.testing import CliRunner

import oneballot as ob
from oneballot import plugins
from oneballot.cli import app
from oneballot.election import targets
from oneballot.election.targets import Classes, Labels, Target
from oneballot.errors import DataError, ElectionError
from oneballot.methods.fedkd.method import FedKD
from oneballot.report.metrics import evaluate
from oneballot.server.model import FinalModel, FinalRegressor
from oneballot.simulation import simulate_parties
from oneballot.types import Array

ROOT = Path(__file__).parents[2]
GRADES = '''from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oneballot.election.targets import Better, Classes, Scorer
from oneballot.types import Array


@dataclass(frozen=True)
class Grades(Classes):
    """Classes in ascending order. tolerance: a prediction that is off by so many grades still counts as near."""

    name: ClassVar[str] = "grades"
    metrics: ClassVar[Mapping[str, str]] = {"off": "mean grades off", "near": "share near", **Classes.metrics}
    columns: ClassVar[Mapping[str, str]] = {"off": "grades off", **Classes.columns}
    compared: ClassVar[Mapping[str, Better]] = {"off": "lower", **Classes.compared}

    tolerance: int = 1

    def order(self) -> Array:
        return np.arange(len(self.classes))  # the final model's classes_ keep the order of the grades

    def choose(self, predictions: Array) -> Array:
        return np.argmax(np.cumsum(predictions, axis=1) >= 0.5 - 1e-9, axis=1)  # the median

    def scorer(self, predictions: Array, y: Array) -> Scorer:
        usual, off = super().scorer(predictions, y), np.abs(self.choose(predictions) - y)

        def score(weights: Array) -> dict[str, Array]:
            every = weights.sum(axis=0)
            return {"off": off @ weights / every, "near": (off <= self.tolerance) @ weights / every, **usual(weights)}

        return score
'''
"""The example of docs/extending.md."""
OFF = '''

@dataclass(frozen=True)
class Off(Classes):
    """Grades scored by the error alone: no accuracy among the metrics."""

    name: ClassVar[str] = "off"
    metrics: ClassVar[Mapping[str, str]] = {"off": "mean grades off"}
    columns: ClassVar[Mapping[str, str]] = {"off": "grades off"}
    compared: ClassVar[Mapping[str, str]] = {"off": "lower"}

    def scorer(self, predictions: Array, y: Array) -> Scorer:
        off = np.abs(self.choose(predictions) - y)
        return lambda weights: {"off": off @ weights / weights.sum(axis=0)}

    def summarize(self, predictions: Array, y: Array) -> dict[str, float]:
        return {"off": float(np.abs(self.choose(predictions) - y).mean())}


@dataclass(frozen=True)
class Undirected(Off):
    """It does not state that a lower error is better."""

    name: ClassVar[str] = "undirected"
    compared: ClassVar[Mapping[str, str]] = Classes.compared
'''
STAGES = ("mild", "moderate", "severe", "critical")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs a package `acme_targets` with one target for one test, and returns a function that removes it."""
    folder = tmp_path / "site"
    info = folder / "acme_targets-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-targets\nVersion: 1.0\n")
    names = {"grades": "Grades", "off": "Off", "undirected": "Undirected"}
    points = "".join(f"{name} = acme_targets:{which}\n" for name, which in names.items())
    (info / "entry_points.txt").write_text(f"[oneballot.targets]\n{points}")
    (folder / "acme_targets.py").write_text(GRADES + OFF)

    def clear() -> None:
        plugins.names.cache_clear()
        plugins.find.cache_clear()
        sys.modules.pop("acme_targets", None)

    def remove() -> None:
        sys.path.remove(str(folder))
        clear()

    monkeypatch.syspath_prepend(folder)
    clear()
    yield remove
    monkeypatch.undo()
    clear()


@pytest.fixture
def clinics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of patients whose stage grows with two measurements."""
    monkeypatch.chdir(tmp_path)
    for i, (name, count) in enumerate({"public": 300, "a": 300, "b": 300, "test": 400}.items()):
        rng = np.random.default_rng(i)
        X = rng.uniform(0, 1, (count, 2))
        stage = np.clip(X.sum(axis=1) * 2 + rng.normal(0, 0.3, count), 0, 3.99).astype(int)
        lines = [f"{a:.4f},{b:.4f},{STAGES[s]}" for (a, b), s in zip(X, stage, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,z,stage", *lines]))
    return tmp_path


def run(*words: object) -> str:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_target_of_another_package_runs_from_cast_to_evaluate(clinics: Path, install: Callable[[], None]) -> None:
    run("new", "election.toml", "--public", "public.csv", "--label", "stage", "--classes", ",".join(STAGES))
    plain = ob.Election.read("election.toml")
    run("election", "set", "election.toml", "target.name=grades", "target.tolerance=0")
    agreed = ob.Election.read("election.toml")
    assert (agreed.target.name, agreed.target.describe()) == ("grades", {"tolerance": 0})
    assert agreed.classes == STAGES
    assert agreed.digest != plain.digest
    assert agreed.describe()["target"] == {"name": "grades", "tolerance": 0}
    for party in "ab":
        run("cast", "election.toml", "--party", party, "--data", f"{party}.csv", "--to", "box")
    run("tally", "election.toml", "--from", "box", "--out", "outcome")

    tested = json.loads(run("evaluate", "outcome", "--data", "test.csv", "--json"))
    assert tested["off"] < 0.5
    assert tested["near"] == pytest.approx(tested["accuracy"])  # with tolerance 0 the same
    assert tested["intervals"]["off"][0] < tested["off"] < tested["intervals"]["off"][1]
    assert "mean grades off" in run("evaluate", "outcome", "--data", "test.csv")

    outcome = ob.Outcome.load("outcome")
    assert outcome.target == agreed.target
    assert outcome.model.classes_.tolist() == list(STAGES)  # in the order of the grades, not of the alphabet
    named = json.loads(run("predict", "outcome", "--data", "test.csv", "--json"))
    medians = [STAGES[int(np.argmax(np.cumsum(p) >= 0.5 - 1e-9))] for p in named["probabilities"]]
    assert named["labels"] == medians == outcome.model.predict("test.csv").tolist()

    simulated = run("simulate", "election.toml", "--data", "a.csv", "--parties", 2, "--split", "homogeneous")
    assert "grades off" in simulated

    install()  # removes it again
    for words in (["check", "election.toml", "--data", "a.csv"], ["predict", "outcome", "--data", "test.csv"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 1
        assert "unknown target 'grades'" in " ".join(done.output.split())


@pytest.mark.slow
@pytest.mark.usefixtures("install")
@pytest.mark.parametrize(("name", "judged_by"), [("off", "mean grades off"), ("undirected", "accuracy")])
def test_compare_and_benefit_use_the_metrics_of_a_target_without_accuracy(
    clinics: Path, name: str, judged_by: str
) -> None:
    run("new", "election.toml", "--public", "public.csv", "--label", "stage", "--classes", ",".join(STAGES))
    run("election", "set", "election.toml", f"target.name={name}")
    for party in "ab":
        run("cast", "election.toml", "--party", party, "--data", f"{party}.csv", "--to", "box")
    run("tally", "election.toml", "--from", "box", "--out", "outcome")
    words = ("benefit", "outcome", "--data", "a.csv", "--party", "a", "--test", "test.csv")
    assert "mean grades off" in run(*words)
    found = json.loads(run(*words, "--json"))
    assert found["judged_by"] == {"mean grades off": "off"}.get(judged_by, judged_by)
    assert f" of {judged_by}." in found["sentences"][0]
    Path("a.json").write_text(json.dumps(found))
    run("report", "outcome", "--benefit", "a.json", "--out", "report.html")
    page = Path("report.html").read_text("utf-8")
    assert f"{judged_by} of the outcome" in page
    difference, margin = found["differences"][found["judged_by"]].values()
    points = name == "undirected"
    assert ("difference (points)" in page) == points
    shown = f"{100 * difference:+.1f} ± {100 * margin:.1f}" if points else f"{difference:+.3f} ± {margin:.3f}"
    assert shown in page
    words = ("compare", "election.toml", "--data", "a.csv", "--parties", 2, "--split", "homogeneous")
    assert f"Recommended: ensemble, {judged_by} " in " ".join(run(*words, "--method", "ensemble").split())
    by = run("evaluate", "outcome", "--data", "test.csv", "--by", "stage")
    assert "points of accuracy." in " ".join(by.split())


def test_the_example_of_the_documentation_is_the_one_that_is_tested() -> None:
    text = (ROOT / "docs/extending.md").read_text("utf-8")
    assert "## A target" not in text or GRADES in text


@dataclass(frozen=True)
class Amount(Classes):
    """A number between the first and the last edge, predicted as the mean of a histogram."""

    name: ClassVar[str] = "amount"
    phrase: ClassVar[str] = "a number per row"
    estimator: ClassVar[Any] = "regressor"
    metrics: ClassVar[dict[str, str]] = {"mae": "mean absolute error"}
    columns: ClassVar[dict[str, str]] = metrics

    edges: tuple[float, ...] = tuple(range(11))

    def __post_init__(self) -> None:
        names = tuple(f"{a:g} to {b:g}" for a, b in zip(self.edges, self.edges[1:], strict=False))
        object.__setattr__(self, "classes", names)

    def encode(self, values: Any, place: Any) -> Array:
        numbers = np.asarray(values, dtype=np.float64)
        place.refuse((numbers < self.edges[0]) | (numbers > self.edges[-1]), numbers, "is out of range", "leave it out")
        return np.clip(np.digitize(numbers, self.edges) - 1, 0, len(self.classes) - 1)

    def decide(self, predictions: Array, names: Array) -> Array:
        return predictions @ (np.add(self.edges[1:], self.edges[:-1]) / 2)

    def order(self) -> Array:
        return np.arange(len(self.classes))

    def decode(self, predictions: Array) -> list[Any]:
        return [float(value) for value in self.decide(predictions, np.array(self.classes))]

    def scorer(self, predictions: Array, y: Array) -> Any:
        middle = np.add(self.edges[1:], self.edges[:-1]) / 2
        error = np.abs(predictions @ middle - middle[y])
        return lambda weights: {"mae": error @ weights / weights.sum(axis=0)}

    def by_class(self, predictions: Array, y: Array) -> list[dict[str, Any]]:
        return []


def test_the_final_model_is_a_regressor_if_the_target_is_a_number() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (900, 2))
    y = 10 * X[:, 0] * (0.5 + X[:, 1] / 2)
    election = ob.Election(target=Amount(), public=X[:200])
    assert election.classes == Amount().classes
    parties = {"a": election.data(X[200:500], y[200:500]), "b": election.data(X[500:700], y[500:700])}
    outcome = simulate_parties(election, parties).outcome
    assert isinstance(outcome.model, FinalRegressor)
    assert is_regressor(outcome.model)
    assert not hasattr(outcome.model, "predict_proba")
    assert outcome.model.score(X[700:], y[700:]) > 0.8
    test = election.data(X[700:], y[700:])
    found = evaluate(outcome.target, outcome.probabilities(test.X), test.y)
    assert found["mae"] < 0.8
    assert found.describe()["by_class"] == []
    with pytest.raises(DataError, match=r"row 1 \('11'\) is out of range"):
        election.data(X[:1], [11.0])


def test_the_final_model_of_classes_and_of_labels_is_a_classifier(election: ob.Election, parties: Any) -> None:
    model = simulate_parties(election, parties).outcome.model
    assert type(model) is FinalModel
    assert is_classifier(model)
    assert Labels.estimator == "classifier"


def test_a_kind_that_a_method_or_learner_does_not_list_is_refused_before_training() -> None:
    class Stars(Classes):
        name = kind = "stars"
        phrase = "stars per row"

    X = np.zeros((5, 2))
    with pytest.raises(ElectionError, match="method fedkt does not support stars per row at level L0"):
        ob.Election([1, 2], X, target=Stars())

    class Fond(FedKD):
        targets = frozenset({"classes", "stars"})

    with pytest.raises(ElectionError, match=r"final learner must support stars per row \(target 'stars'\)") as error:
        ob.Election([1, 2], X, method=Fond(), learners={"teacher": Starry()}, target=Stars())
    assert "Use torch" not in str(error.value)


class Starry(ob.Sklearn):
    targets = frozenset({"classes", "stars"})


def test_a_target_is_given_by_name_as_an_object_or_by_the_old_word() -> None:
    X, network = np.zeros((5, 2)), ob.Torch("mlp")
    settings = {"method": ob.FedKD(), "learner": network}
    for given in ({"target": "labels"}, {"target": Labels()}, {"target": Labels(["a", "b"])}, {"multilabel": True}):
        election = ob.Election(["a", "b"], X, **settings, **given)
        assert election.target == Labels(("a", "b"))
        assert election.multilabel
        assert replace(election, seed=1).target == election.target
    assert len({ob.Election(["a", "b"], X, **settings, target=t).digest for t in ("classes", "labels", None)}) == 2
    assert ob.Election(target=Classes(["a", "b"]), public=X).classes == ("a", "b")
    with pytest.raises(ElectionError, match="multilabel=True means target=\"labels\", but the target is 'classes'"):
        ob.Election(["a", "b"], X, target="classes", multilabel=True)
    with pytest.raises(ElectionError, match=r"classes are \['a', 'b'\], but the target's \['a', 'c'\]"):
        ob.Election(["a", "b"], X, target=Classes(["a", "c"]))
    with pytest.raises(ElectionError, match=r"unknown target 'label'.*Did you mean 'labels'"):
        ob.Election(["a", "b"], X, target="label")
    with pytest.raises(ElectionError, match="a target must be a name or a Target, not int"):
        ob.Election(["a", "b"], X, target=3)  # type: ignore[arg-type]


def test_label_columns_must_suit_the_target() -> None:
    columns = [{"name": "x", "kind": "number", "range": (0, 1)}]
    one, several = (ob.Schema(label=label, columns=columns) for label in ("y", ("a", "b")))
    with pytest.raises(ElectionError, match="needs a schema with one label column, not a, b"):
        ob.Election(["a", "b"], np.zeros((5, 1)), schema=several)
    with pytest.raises(ElectionError, match="one label column per class"):
        ob.Election(["a", "b"], np.zeros((5, 1)), schema=one, target="labels")


@pytest.mark.parametrize("target", [Classes(["a", "b"]), Labels(["a", "b"])])
def test_files_keep_the_key_of_older_versions(target: Target) -> None:
    described = targets.describe(target)
    assert described == {"multilabel": target.name == "labels"}
    assert targets.read(described, ["a", "b"]) == target
    assert targets.read({}, ["a", "b"]) == Classes(["a", "b"])
