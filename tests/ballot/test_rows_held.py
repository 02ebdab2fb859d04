"""Which models hold training rows bit for bit, and how many: found in the bytes, and stated by every command."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot import plugins
from oneballot.ballot.rows_held import RowCounter, rows_held
from oneballot.cli import app
from oneballot.errors import OneBallotError
from oneballot.formats.skops import CLASSIFIERS
from oneballot.server.rows_held import model_rows_held
from oneballot.types import Blob, Task

RNG = np.random.default_rng(3)
ROWS = np.abs(RNG.normal(size=(60, 5))).astype(np.float32)
LABELS = np.arange(60) % 3
NEIGHBOURS = {"estimator": "KNeighborsClassifier", "params": {"n_neighbors": 3}}
HOLDING = {"KNeighborsClassifier": 60, "SVC": None, "NuSVC": None}
"""Classifiers that hold rows: how many of the 60, or some."""


def trained(learner: ob.interfaces.Learner, X=ROWS, y=LABELS) -> Blob:
    return learner.fit_many(X, [Task(np.arange(len(X)), y)], 3)[0].dump()


def bytes_of(blob: Blob) -> bytes:
    """Everything in a file, decompressed."""
    if blob.format != "skops":
        return blob.data
    with zipfile.ZipFile(io.BytesIO(blob.data)) as file:
        return b"".join(file.read(name) for name in file.namelist())


def found(blob: Blob, X=ROWS) -> int:
    """How many of the rows are in the file, bit for bit."""
    content = bytes_of(blob)
    return sum(row.tobytes() in content or row.astype(np.float64).tobytes() in content for row in X)


def held(blob: Blob) -> int:
    return RowCounter(None).count([blob]).rows


CLASSIFIER_NAMES = sorted({name for names in CLASSIFIERS.values() for name in names.split()} - {"Pipeline"})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CLASSIFIER_NAMES)
def test_of_every_scikit_learn_classifier_exactly_the_rows_in_its_file_are_counted(name: str) -> None:
    learner = ob.Sklearn(name)
    blob = trained(learner)
    assert held(blob) == found(blob)
    assert bool(held(blob)) == (name in HOLDING)
    assert held(blob) == (HOLDING.get(name) or held(blob))
    assert held(blob) <= learner.most_rows_held(60) <= (60 if name in HOLDING else 0)


@pytest.mark.parametrize(
    ("estimator", "params"),
    [
        ("BaggingClassifier", {"estimator": NEIGHBOURS, "n_estimators": 3}),
        ("AdaBoostClassifier", {"estimator": {"estimator": "SVC"}, "n_estimators": 2}),
        ("Pipeline", {"steps": [{"estimator": "Normalizer", "params": {"norm": "max"}}, NEIGHBOURS]}),
    ],
)
def test_rows_inside_other_estimators_are_counted(estimator: str, params: dict) -> None:
    learner = ob.Sklearn(estimator, params)
    blob = trained(learner)
    X = ROWS / ROWS.max(axis=1, keepdims=True) if estimator == "Pipeline" else ROWS
    assert held(blob) == found(blob, X) > 0
    assert learner.most_rows_held(60) == 60


@pytest.mark.parametrize("estimator", ["GaussianNB", "MultinomialNB", "ComplementNB"])
def test_the_mean_of_a_class_with_one_row_is_that_row(estimator: str) -> None:
    blob = trained(ob.Sklearn(estimator), ROWS, np.array([2, *(np.arange(59) % 2)]))
    assert held(blob) == found(blob) == 1


REFUSED = (
    "GaussianProcessClassifier",
    "LabelPropagation",
    "LabelSpreading",
    "RadiusNeighborsClassifier",
    "NearestCentroid",
    "CalibratedClassifierCV",
    "VotingClassifier",
    "StackingClassifier",
    "OneVsRestClassifier",
    "OneVsOneClassifier",
    "SelfTrainingClassifier",
)
"""Classifiers that hold rows, or may have parts that do, and that no ballot may hold."""


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("around", ["", "BaggingClassifier", "Pipeline"])
def test_no_election_accepts_another_estimator_that_holds_rows(name: str, around: str) -> None:
    assert name not in CLASSIFIER_NAMES
    learner = ob.Sklearn(name)
    if around == "BaggingClassifier":
        learner = ob.Sklearn(around, {"estimator": {"estimator": name}})
    elif around:
        learner = ob.Sklearn(around, {"steps": [{"estimator": "StandardScaler"}, {"estimator": name}]})
    with pytest.raises(OneBallotError, match=f"'{name}' is not supported"):
        ob.Election(classes=range(3), public=ROWS, learner=learner, method=ob.Ensemble())


@pytest.mark.parametrize("part", ["KNNImputer", "Nystroem", "KernelPCA", "Isomap", "IterativeImputer"])
def test_no_election_accepts_a_step_that_holds_rows(part: str) -> None:
    steps = {"steps": [{"estimator": part}, {"estimator": "LogisticRegression"}]}
    with pytest.raises(OneBallotError, match=f"'{part}' is not supported"):
        ob.Election(classes=range(3), public=ROWS, learner=ob.Sklearn("Pipeline", steps), method=ob.Ensemble())


def test_a_kernel_model_holds_its_landmarks() -> None:
    for landmarks in (7, 2000):
        learner = ob.Kernel(landmarks=landmarks)
        blob = trained(learner)
        assert held(blob) == found(blob) == min(60, landmarks) == learner.most_rows_held(60)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "torch"])
def test_other_learners_hold_no_rows(name: str) -> None:
    learner = plugins.find("learners", name)()
    blob = trained(learner)
    assert held(blob) == found(blob) == learner.most_rows_held(60) == 0


def test_duplicates_count_as_often_as_in_one_model() -> None:
    twice = np.concatenate([ROWS, ROWS])
    one, two = trained(ob.Kernel(landmarks=60)), trained(ob.Kernel(), twice, np.concatenate([LABELS, LABELS]))
    assert RowCounter(None).count([one, one]).rows == 60
    assert RowCounter(None).count([two, one]).rows == 120


@pytest.mark.parametrize("weights", ["uniform", "open"])
def test_an_ensemble_holds_the_rows_of_all_its_parties(weights: str, digits) -> None:
    public = digits.public.astype(np.float32)
    election = ob.Election(
        classes=range(10),
        public=public,
        method=ob.Ensemble(weights=weights),
        learner=ob.Kernel(),
        learners={"claim": ob.Kernel()} if weights == "open" else {},
    )
    X, y = digits.X[:100].astype(np.float32), digits.y[:100]
    ballots = [ob.cast(election, X[i::2], y[i::2], party=f"p{i}") for i in (0, 1)]
    assert [rows_held(b.contents, election).rows for b in ballots] == [50, 50]
    assert all(row.tobytes() in ballots[0].sealed for row in X[::2])
    outcome = ob.tally(election, ballots)
    blob = outcome.model.dump()
    assert model_rows_held(outcome, public).rows == 100 == found(blob, X)
    with pytest.raises(OneBallotError, match="100 of the parties' rows verbatim" if weights == "uniform" else "up to"):
        outcome.published()
    assert outcome.published(rows=True).voted == {}


@pytest.mark.parametrize("students", [True, False])
def test_rows_of_the_public_set_are_not_counted_as_a_partys(students: bool, digits) -> None:
    public = digits.public.astype(np.float32)
    method = ob.FedKT(ballot="models", students=students, partitions=1, subsets=1)
    election = ob.Election(classes=range(10), public=public, learner=ob.Kernel(), method=method)
    X = digits.X[:50].astype(np.float32)
    ballot = ob.cast(election, X, digits.y[:50], party="p")
    blobs = [blob for blob in ballot.contents.values() if isinstance(blob, Blob)]
    assert sum(held(blob) for blob in blobs) > 0
    assert rows_held(ballot.contents, election).rows == (0 if students else 50)
    assert sum(any(found(blob, row[None]) for blob in blobs) for row in X) == (0 if students else 50)
    assert not rows_held(ballot.contents, None).exact
    outcome = ob.tally(election, [ballot])
    assert outcome.published().voted == {}, "the final model holds public rows only"


def test_no_default_learner_holds_rows(clinic: Path, monkeypatch) -> None:
    for name in plugins.names("learners"):
        assert name == "kernel" or not plugins.find("learners", name)().most_rows_held(100)
    monkeypatch.chdir(clinic)
    for method in plugins.names("methods"):
        made = CliRunner().invoke(
            app, ["new", f"{method}.toml", "--public", "public.csv", "--label", "ill", "--method", method]
        )
        assert made.exit_code == 0, made.output
        election = ob.Election.read(Path(f"{method}.toml"))
        for role in election.roles:
            assert not election.learner_of(role).most_rows_held(100)
        for shape, tokens in (((5,), False), ((1, 8, 8), False), ((9,), True)):
            for chosen in plugins.find("methods", method)().default_learners(shape, tokens).values():
                settings = {key: value for key, value in chosen.items() if key != "name"}
                assert not plugins.find("learners", chosen["name"])(**settings).most_rows_held(100)


FORMATS = {
    "kernel": 'name = "kernel"',
    "neighbours": 'name = "sklearn"\nestimator = "KNeighborsClassifier"',
    "svc": 'name = "sklearn"\nestimator = "SVC"',
}


def run(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output + repr(done.exception)
    return " ".join(done.output.split())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.slow
@pytest.mark.parametrize("learner", FORMATS)
def test_every_command_states_the_rows_and_publishing_them_needs_a_flag(learner: str, clinic, monkeypatch) -> None:
    monkeypatch.chdir(clinic)
    run("new", "election.toml", "--public", "public.csv", "--label", "ill", "--method", "ensemble")
    text = Path("election.toml").read_text()
    text = (
        text[: text.index("[learners")] + f"[learners.local]\n{FORMATS[learner]}\n\n" + text[text.index("[privacy") :]
    )
    Path("election.toml").write_text(text)
    party = ("cast", "election.toml", "--party", "a", "--data", "a.csv")
    dry = run(*party, "--dry-run", "--dossier", "plan.html")
    assert "holds up to 150 of your rows verbatim" in dry
    assert "holds up to 150 of your rows verbatim" in Path("plan.html").read_text()
    done = run(*party, "--to", "box", "--dossier", "page.html")
    ballot = Path("ballots/a.ballot")
    count = json.loads(Path("page.json").read_text())["rows_held"]
    assert 0 < count <= 150
    assert count == 150 or learner == "svc"
    sentence = f"holds {count} of your rows verbatim"
    assert sentence in done
    assert sentence in Path("page.html").read_text()
    assert sentence in run("inspect", ballot, "--election", "election.toml")
    assert f"up to {count} of your rows verbatim" in run("inspect", ballot)
    assert mode(ballot) == mode(Path("box/a.ballot")) == 0o600
    election = ob.Election.read(Path("election.toml"))
    X = election.read_data(Path("a.csv")).X.astype(np.float32)
    with zipfile.ZipFile(ballot) as file:
        (name,) = (name for name in file.namelist() if name.startswith("model."))
        assert found(Blob(name.rpartition(".")[2], file.read(name)), X) == count
    run("cast", "election.toml", "--party", "b", "--data", "b.csv", "--to", "box")
    tally = ("tally", "election.toml", "--from", "box", "--out", "outcome", "--publish", "shared", "--publish-members")
    refused = run(*tally, status=1)
    assert "of the parties' rows verbatim" in refused
    assert "--publish-rows" in refused
    assert not Path("shared").exists()
    assert "of the parties' rows verbatim" in run(*tally, "--publish-rows")
    for folder in ("outcome", "shared"):
        assert [mode(path) for path in Path(folder).glob("model-*")] == [0o600]
        assert "rows of the parties verbatim" in Path(folder, "README.md").read_text()
    assert "--publish-rows" in run("export", "outcome", "--to", "onnx", "--out", "model.onnx", status=1)
    run(*tally[:-1])
    (model,) = Path("shared").glob("model-*")
    assert mode(model) == 0o644, "one distilled model, trained on public rows"
