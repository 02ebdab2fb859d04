"""What a ballot that carries models reveals: a membership attack on a party's model and on its claim model (Markdown).

python benchmarks/membership.py [--parties 16] [--only attack ensemble] [--sets adult digits cod-rna]

The attack is the offline likelihood-ratio attack of Carlini et al. (2022, "Membership Inference Attacks From First
Principles"): the attacker trains models of the same kind on rows of the same distribution, and compares how sure the
party's model is of a row with how sure models are that never saw it. Every party holds a random half of a pool of rows,
so each of them serves as a shadow model for the others. An AUC of .5 is guessing, 1 is certainty.

A claim model tells a party's own rows from a background: public rows, or its own rows with 30 % of the cells redrawn.
The second table shows what a larger leaf costs an ensemble of parties that is weighted by such claims.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import oneballot as ob
from oneballot.data import split
from oneballot.types import Array, Task
from oneballot_lab.data.registry import load

LEAVES = (1, 2, 3, 5, 10)
REDRAWN = 0.3
FLOOR = 0.02
"""A claim is at most 1 / FLOOR."""
SMALLEST = 1e-3
"""Probabilities are clipped here before their log-odds: a forest of 100 trees often says exactly 0."""


def forest(name: str, leaf: int, **params: Any) -> Any:
    return ob.Sklearn(name, {"min_samples_leaf": leaf, **params})


LEARNERS: dict[str, Any] = (
    {f"forest, leaf {leaf}": forest("RandomForestClassifier", leaf) for leaf in LEAVES}
    | {f"ExtraTrees, leaf {leaf}": forest("ExtraTreesClassifier", leaf) for leaf in LEAVES}
    | {f"bootstrapped trees, leaf {leaf}": forest("ExtraTreesClassifier", leaf, bootstrap=True) for leaf in LEAVES}
    | {f"XGBoost, min_child_weight {w}": ob.XGBoost(params={"min_child_weight": w}) for w in LEAVES}
    | {f"HistGradientBoosting, leaf {leaf}": forest("HistGradientBoostingClassifier", leaf) for leaf in (5, 20)}
    | {"network (MLP)": ob.Torch("mlp"), "network (MLP), 5 epochs": ob.Torch("mlp", epochs=5)}
)


@dataclass(frozen=True)
class Table:
    """Rows scaled to 0 to 1: a pool that parties draw from, public rows and test rows."""

    name: str
    pool: Array
    labels: Array
    public: Array
    test: Array
    test_labels: Array
    classes: int


def table(name: str, rows: int, seed: int = 0) -> Table:
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        rows, public = min(rows, 800), 400
    else:
        data = load(name)
        X, y, public = np.concatenate([data.X, data.X_test]), np.concatenate([data.y, data.y_test]), 600
    order = np.random.default_rng(seed).permutation(len(y))[: rows + public + 4000]
    X, y = X[order], y[order]
    X = ((X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-9)).astype(np.float32)
    stop = rows + public
    return Table(name, X[:rows], y[:rows], X[rows:stop], X[stop:], y[stop:], int(y.max()) + 1)


def fit(learner: Any, sets: Sequence[tuple[Array, Array, Array | None]], ask: Array, classes: int) -> list[Array]:
    """Train a model on each set of rows, labels and weights, and return its probabilities of the rows `ask`."""
    tasks, blocks, start = [], [ask], len(ask)
    for seed, (X, y, weight) in enumerate(sets):
        rows = np.arange(start, start + len(X))
        tasks.append(Task(rows, y, weight=weight, seed=seed, ask=np.arange(len(ask))))
        blocks.append(X)
        start += len(X)
    return list(learner.fit_many(np.concatenate(blocks), tasks, classes, keep=False).predictions())


def redrawn(X: Array, draw: np.random.Generator) -> Array:
    """Rows with a share of the cells drawn uniformly from 0 to 1; two-valued columns stay two-valued."""
    fresh = draw.random(X.shape, dtype=np.float32)
    two = ((X == 0) | (X == 1)).all(axis=0)
    fresh[:, two] = fresh[:, two] < 0.5
    return np.where(draw.random(X.shape) < REDRAWN, fresh, X)


def claim_sets(own: Array, public: Array | None, seed: int) -> list[tuple[Array, Array, Array]]:
    """The training sets of a party's claim models, as the open ensemble has them: own rows are 1, the background 0.

    With public rows there are two, each with one half of them; without, one with redrawn rows. Both sides weigh 1.
    """
    backgrounds = [redrawn(own, np.random.default_rng(seed))] if public is None else [public[::2], public[1::2]]
    sets = []
    for background in backgrounds:
        y = np.repeat([1, 0], [len(own), len(background)])
        weight = np.where(y == 1, len(y) / 2 / len(own), len(y) / 2 / len(background))
        sets.append((np.concatenate([own, background]), y, weight))
    return sets


def log_odds(p: Array) -> Array:
    p = np.clip(p, SMALLEST, 1 - SMALLEST)
    return np.asarray(np.log(p / (1 - p)))


def attack(confidence: Array, member: Array) -> tuple[float, float, float]:
    """AUC of the loss attack, AUC of the likelihood-ratio attack and its recall at 1 % false positives.

    confidence, member: `(parties, pool)`. Each party is attacked with the others as shadow models.
    """
    loss, ratio, recall = [], [], []
    for k in range(len(member)):
        others = np.arange(len(member)) != k
        out = np.where(member[others], np.nan, confidence[others])
        known = np.isfinite(out).sum(axis=0) >= 2
        mean, spread = np.nanmean(out[:, known], axis=0), np.nanstd(out[:, known], axis=0)
        score = (confidence[k, known] - mean) / (spread + np.median(spread) + 1e-3)
        truth = member[k, known]
        loss.append(roc_auc_score(truth, confidence[k, known]))
        ratio.append(roc_auc_score(truth, score))
        recall.append((score[truth] > np.quantile(score[~truth], 0.99)).mean())
    return float(np.mean(loss)), float(np.mean(ratio)), float(np.mean(recall))


def attack_table(name: str, rows: int, parties: int, only: Sequence[str]) -> None:
    data = table(name, rows)
    draw = np.random.default_rng(1)
    member = np.stack([draw.permutation(len(data.pool)) % 2 == 0 for _ in range(parties)])
    held = int(member[0].sum())
    print(f"\n{name}: {parties} parties of {held} rows, {len(data.public)} public rows\n")
    print("| learner | accuracy | model: loss, LiRA | recall at 1 % | claims on public rows | on redrawn rows |")
    print("|---|---|---|---|---|---|", flush=True)
    asked = np.concatenate([data.pool, data.test])
    for what, learner in LEARNERS.items():
        if only and not any(word in what for word in only):
            continue
        sets = [(data.pool[mine], data.labels[mine], None) for mine in member]
        answers = fit(learner, sets, asked, data.classes)
        right = np.mean([(p[len(data.pool) :].argmax(axis=1) == data.test_labels).mean() for p in answers])
        confidence = np.stack([log_odds(p[np.arange(len(data.pool)), data.labels]) for p in answers])
        loss, ratio, recall = attack(confidence, member)
        claims = []
        for public in (data.public, None):
            pairs = [pair for k, mine in enumerate(member) for pair in claim_sets(data.pool[mine], public, k)]
            answers = fit(learner, pairs, data.pool, 2)
            claimed = log_odds(np.stack([p[:, 1] for p in answers])).reshape(parties, -1, len(data.pool)).max(axis=1)
            claims.append(max(attack(claimed, member)[:2]))
        print(
            f"| {what} | {100 * right:.1f} | {loss:.3f}, {ratio:.3f} | {100 * recall:.0f} % | {claims[0]:.3f} "
            f"| {claims[1]:.3f} |",
            flush=True,
        )


def weighted(opinions: Array, claims: Array, public_claims: Array, rows: Array) -> Array:
    """The open ensemble's probabilities; opinions `(parties, rows, classes)`, claims `(parties, halves, rows)`."""
    total = np.zeros(opinions.shape[1:])
    for opinion, claim, on_public, n in zip(opinions, claims, public_claims, rows, strict=True):
        ratio = np.mean([c / m for c, m in zip(claim, on_public, strict=True)], axis=0)
        sharp = opinion**3 / np.maximum((opinion**3).sum(axis=1, keepdims=True), 1e-12)
        total += (min(n, np.median(rows)) * ratio)[:, None] * sharp
    return total


def ensemble_table(names: Sequence[str], seeds: int) -> None:
    print("\n10 parties, accuracy of the ensemble weighted by claims, mean over the tables and splits of")
    print(f"{', '.join(names)}; alike and β = 0.1; seeds 100 to {99 + seeds}\n")
    for estimator in ("RandomForestClassifier", "ExtraTreesClassifier"):
        right = np.zeros((len(LEAVES), len(LEAVES)))
        cells: list[tuple[str, Array]] = []
        for name in names:
            for how in ("homogeneous", "dirichlet:0.1"):
                grid = np.mean([ensemble_grid(name, how, estimator, 100 + s) for s in range(seeds)], axis=0)
                cells.append((f"{name} {how}", grid))
                right += grid / (2 * len(names))
        print(f"{estimator}\n\n| leaf of the model | " + " | ".join(f"claim {leaf}" for leaf in LEAVES) + " |")
        print("|---" * (1 + len(LEAVES)) + "|")
        for leaf, line in zip(LEAVES, right, strict=True):
            print(f"| {leaf} | " + " | ".join(f"{100 * value:.2f}" for value in line) + " |")
        for what, grid in cells:
            print(f"{what}: model and claim alike " + " / ".join(f"{100 * v:.1f}" for v in np.diag(grid)), flush=True)
        print()


def ensemble_grid(name: str, how: str, estimator: str, seed: int) -> Array:
    """Accuracy for every pair of leaf sizes, `(model, claim)`."""
    data = table(name, 4000, seed)
    parts = [part for part in split.split(data.labels, 10, how, seed) if len(part) > 1]
    asked = np.concatenate([data.test[:1500], data.public])
    tested = len(asked) - len(data.public)
    rows = np.array([len(part) for part in parts])
    models, claims = [], []
    for leaf in LEAVES:
        learner = forest(estimator, leaf)
        models.append(
            np.stack(fit(learner, [(data.pool[p], data.labels[p], None) for p in parts], asked, data.classes))
        )
        pairs = [pair for k, p in enumerate(parts) for pair in claim_sets(data.pool[p], data.public, k)]
        own = np.stack(fit(learner, pairs, asked, 2))[:, :, 1].reshape(len(parts), 2, -1)
        claims.append(own / np.maximum(1 - own, FLOOR))
    right = np.empty((len(LEAVES), len(LEAVES)))
    for j, claim in enumerate(claims):
        on_public = claim[:, :, tested:]
        means = np.stack([on_public[:, 0, 1::2].mean(axis=1), on_public[:, 1, 0::2].mean(axis=1)], axis=1)
        for i, model in enumerate(models):
            chosen = weighted(model[:, :tested], claim[:, :, :tested], means, rows).argmax(axis=1)
            right[i, j] = (chosen == data.test_labels[:1500]).mean()
    return right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--parties", type=int, default=16)
    parser.add_argument("--rows", type=int, default=1600, help="size of the pool; a party holds half of it")
    parser.add_argument("--sets", nargs="+", default=["adult", "digits", "cod-rna"])
    parser.add_argument("--only", nargs="+", choices=("attack", "ensemble"), default=["attack", "ensemble"])
    parser.add_argument("--learners", nargs="+", metavar="WORD", default=[])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    if "attack" in options.only:
        for name in options.sets:
            attack_table(name, options.rows, options.parties, options.learners)
    if "ensemble" in options.only:
        ensemble_table(options.sets, options.seeds)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
