"""One-shot ensembles evaluated as in Guha et al.: mean ROC-AUC over the parties' own test rows, and bytes sent.

python benchmarks/ensemble.py [--seeds 3] [--only digits svm occupation country mnist-iid mnist-dirichlet speed]

Each party's rows are split 50/40/10 into training, test and validation; the validation rows of all parties, without
labels, are the public set, as in section 4 of the paper. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

import oneballot as ob
from oneballot.errors import OneBallotWarning
from oneballot.interfaces import Learner
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Array, Data
from oneballot_lab.reproduce.metrics import auc_at_parties, local_auc_at_parties, mean_auc
from oneballot_lab.reproduce.silos import Silos


@dataclass(frozen=True)
class Federation:
    """The parties' training and test rows, and the public set."""

    train: Mapping[str, Data]
    test: Mapping[str, Data]
    public: Array
    classes: int


def outcome_of(method: ob.Ensemble, learner: Learner, held: Federation, seed: int) -> tuple[ob.Outcome, float]:
    election = ob.Election(range(held.classes), held.public, method=method, learner=learner, seed=seed)
    start = time.perf_counter()
    return simulate_parties(election, held.train).outcome, time.perf_counter() - start


def mean(by_party: Mapping[str, float]) -> float:
    return float(np.mean(list(by_party.values())))


@dataclass(frozen=True)
class Line:
    what: str
    auc: float
    sent: int = 0
    size: int = 0
    seconds: float = 0.0


def compare(held: Federation, learner: Learner, methods: Mapping[str, ob.Ensemble], seed: int) -> Iterator[Line]:
    """Fully local models, each ensemble, and the unachievable ideal: one model of all parties' rows."""
    rows = min(m.min_rows for m in methods.values())
    yield Line("fully local", mean(local_auc_at_parties(learner, held.train, held.test, held.classes, min_rows=rows)))
    for name, method in methods.items():
        outcome, seconds = outcome_of(method, learner, held, seed)
        size = len(outcome.model.dump().data)
        yield Line(name, mean(auc_at_parties(outcome.probabilities, held.test)), outcome.bytes, size, seconds)
        if method.cohorts > 1:
            yield Line(f"{name}, each party by its own", mean(by_cohort(outcome, held)), outcome.bytes, size, seconds)
    pooled = Data(*(np.concatenate(part) for part in zip(*((d.X, d.y) for d in held.train.values()), strict=True)))
    everything = ob.Election(
        range(held.classes), held.public, method=ob.Ensemble(), learner=learner, seed=seed, max_ballot_mb=1024
    )
    ideal = simulate_parties(everything, {"all": pooled}).outcome.model
    yield Line("ideal", mean(auc_at_parties(ideal.predict_proba, held.test)))


def by_cohort(outcome: ob.Outcome, held: Federation) -> dict[str, float]:
    """Each party tested with the ensemble of its cohort; a party that abstained is placed by its training rows."""
    model, scores = outcome.model.model_, {}
    abstained = {party for party, vote in outcome.voted.items() if vote.abstained is not None}
    place = {p: model.best(d.X, d.y) if p in abstained else model.cohort_of(p) for p, d in held.train.items()}
    for cohort in range(model.cohorts):
        if some := {party: held.test[party] for party, c in place.items() if c == cohort}:
            scores |= auc_at_parties(model.of(cohort).predict_proba, some)
    return scores


def show(title: str, lines: Mapping[str, list[Line]]) -> None:
    local, ideal = (np.array([line.auc for line in lines[name]]) for name in ("fully local", "ideal"))
    print(f"\n**{title}**, {len(local)} seeds\n")
    print("| | mean AUC | gain over local | share of the ideal | sent by all | outcome | cast and tally |")
    print("|---|---|---|---|---|---|---|")
    for name, runs in lines.items():
        values = np.array([line.auc for line in runs])
        deviation = values.std(ddof=1) if len(values) > 1 else 0.0
        gain = "" if name == "fully local" else f"{(values / local - 1).mean():+.1%}"
        costs = (
            [
                f"{np.mean([line.sent for line in runs]) / 1e6:.2f} MB",
                f"{np.mean([line.size for line in runs]) / 1e6:.2f} MB",
                f"{np.mean([line.seconds for line in runs]):.1f} s",
            ]
            if runs[0].sent
            else ["", "", ""]
        )
        share = f"{(values / ideal).mean():.1%}"
        print(
            f"| {name} | {values.mean():.4f} ± {deviation:.4f} | {gain} | {share} | {' | '.join(costs)} |", flush=True
        )


def measure(title: str, silos: Silos, learner: Learner, methods: Mapping[str, ob.Ensemble], seeds: int) -> None:
    lines: dict[str, list[Line]] = {}
    for seed in range(seeds):
        for line in compare(Federation(*silos.load(seed)), learner, methods, seed):
            lines.setdefault(line.what, []).append(line)
    show(title, lines)


def methods(k: int, min_rows: int, cohorts: int) -> dict[str, ob.Ensemble]:
    """The methods to compare. With one cohort, parties are assumed alike, and weights and cohorts are left out."""
    some = {name: ob.Ensemble(select=name, k=k, min_rows=min_rows) for name in ("cv", "size", "random")}
    different = {
        "all, by class counts": ob.Ensemble(min_rows=min_rows, weights="class-counts"),
        f"all, {cohorts} cohorts": ob.Ensemble(min_rows=min_rows, cohorts=cohorts),
    }
    return {
        "all": ob.Ensemble(min_rows=min_rows),
        "all, distilled": ob.Ensemble(min_rows=min_rows, distil=True),
        **{f"{name}, k = {k}": method for name, method in some.items()},
        **(different if cohorts > 1 else {}),
    }


def measure_finals(seeds: int) -> None:
    """Final learners of the distillation: scikit-learn's digits, 10 parties, Dirichlet(0.5), 450 public rows."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    finals = {
        "the ensemble itself": None,
        "kernel, penalty by leave-one-out": ob.Kernel(),
        "kernel, equation (3) to the letter": ob.Kernel(ridge=0, intercept=False),
        "forest, soft labels": ob.Sklearn("RandomForestClassifier"),
        "logistic regression, soft labels": ob.Sklearn("LogisticRegression", {"max_iter": 1000}),
    }
    print("\n| distilled into | mean AUC | accuracy |\n|---|---|---|")
    for name, final in finals.items():
        areas, right = [], []
        for seed in range(seeds):
            test, public, private = np.split(np.random.default_rng(seed).permutation(len(y)), [450, 900])
            election = ob.Election(
                range(10),
                X[public] / 16,
                method=ob.Ensemble(distil=final is not None),
                seed=seed,
                learner=ob.Kernel(),
                learners={"final": final} if final else {},
            )
            simulation = simulate_parties(
                election, divide(election.data(X[private] / 16, y[private]), 10, "dirichlet:0.5", seed)
            )
            answer = simulation.outcome.probabilities(X[test] / 16)
            areas.append(mean_auc(answer, y[test]))
            right.append((answer.argmax(axis=1) == y[test]).mean())
        print(f"| {name} | {np.mean(areas):.4f} ± {np.std(areas, ddof=1):.4f} | {np.mean(right):.1%} |", flush=True)


def measure_speed(parties: int) -> None:
    """Thousands of parties in one run: cast, tally, predict; and one support vector machine each, in sequence."""
    from sklearn.svm import SVC

    held = Federation(*Silos("mnist", "homogeneous", parties).load(0))
    rows = held.public[:1000]
    print("\n| | wall | CPU |\n|---|---|---|")
    for name, method in {"ensemble": ob.Ensemble(), "distilled": ob.Ensemble(distil=True)}.items():
        with watch(f"{parties:,} parties, {name}: cast and tally"):
            outcome, _ = outcome_of(method, ob.Kernel(), held, 0)
        with watch(f"{parties:,} parties, {name}: predict 1,000 rows"):
            outcome.probabilities(rows)
    few = [d for d in held.train.values() if len(np.unique(d.y)) > 1][:200]
    with watch(
        f"{len(few)} SVCs of scikit-learn, in sequence, fit and predict 1,000 rows: times {parties / len(few):.0f}"
    ):
        for data in few:
            SVC().fit(data.X.reshape(len(data), -1), data.y).decision_function(rows.reshape(1000, -1))


@contextmanager
def watch(what: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    print(f"| {what} | {time.perf_counter() - wall:.1f} s | {time.process_time() - cpu:.1f} s |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parts = ["digits", "svm", "occupation", "country", "mnist-iid", "mnist-dirichlet", "speed"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    options = parser.parse_args()
    warnings.simplefilter("ignore", OneBallotWarning)
    if "digits" in options.only:
        measure_finals(options.seeds)
    if "svm" in options.only:
        for learner in (ob.Sklearn("SVC"), ob.Kernel()):
            measure(
                f"Adult by occupation, every fourth row, {learner.name}",
                Silos("adult", "occupation", every=4),
                learner,
                {"all": ob.Ensemble(min_rows=30)},
                options.seeds,
            )
    if "occupation" in options.only:
        measure(
            "Adult by occupation, 15 parties",
            Silos("adult", "occupation"),
            ob.Kernel(landmarks=1000),
            methods(5, 30, 2),
            options.seeds,
        )
    if "country" in options.only:
        measure(
            "Adult by native country, 42 parties",
            Silos("adult", "native-country"),
            ob.Kernel(landmarks=1000),
            methods(10, 30, 2),
            options.seeds,
        )
    for name, how in {"iid": "homogeneous", "dirichlet": "dirichlet:0.5"}.items():
        if f"mnist-{name}" in options.only:
            measure(
                f"MNIST, 1,000 parties, {how}",
                Silos("mnist", how),
                ob.Kernel(),
                methods(100, 20, 1 if name == "iid" else 3),
                options.seeds,
            )
    if "speed" in options.only:
        measure_speed(4000)


if __name__ == "__main__":
    main()
