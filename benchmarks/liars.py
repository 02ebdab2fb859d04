"""Ballots of parties that lie. They pass every check, because nothing in a ballot reveals that it is dishonest.

A liar knows the true labels of the public rows and of its own rows. What it says about them:
  shift     the class after the true one, with certainty
  one       class 0 for every row
  random    a random class for every row
  poison    an honest ballot of its own rows with shifted labels, and nothing else
  target C  the class after C for all rows of class C, on which it spends all its weight; it abstains elsewhere
Except with "poison" it claims every row that it lies about as strongly as a ballot can, and declares a million rows of
each class (analytic: sums that seem to be of 900,000 rows).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.methods.ensemble.claims import NAMES
from oneballot.methods.ensemble.method import as_blob
from oneballot.party.cast import cast_data
from oneballot.party.context import PartyContext
from oneballot.types import Array, Ballot, Blob, Data, Task

DECLARED = 10**6
MOST = 900_000
"""Analytic: sums are multiplied so that they seem to be of so many rows, just below what the election accepts."""
Contents = dict[str, Array | Blob]


def lie(election: ob.Election, party: str, known: Data, own: Data, attack: str, seed: int) -> Ballot:
    """A liar's ballot. known: the public rows and its own with their true labels; the public rows come first."""
    ctx = PartyContext(election, party)
    if attack == "poison":
        shifted = Data(own.X, (own.y + 1) % len(election.classes))
        return cast_data(ctx, shifted)
    target = int(attack.split()[1]) if attack.startswith("target") else None
    labels = _labels(attack, known.y, len(election.classes), np.random.default_rng(seed))
    spent = np.ones(len(known), dtype=bool) if target is None else known.y == target
    craft: Callable[..., Contents] = CRAFTS[election.method.name]
    return seal(craft(election, ctx, Data(known.X, labels), spent), election, party)


def _labels(attack: str, truth: Array, classes: int, rng: np.random.Generator) -> Array:
    if attack == "one":
        return np.zeros_like(truth)
    return rng.integers(0, classes, len(truth)) if attack == "random" else (truth + 1) % classes


def _honest(election: ob.Election, ctx: PartyContext, known: Data) -> Contents:
    return dict(cast_data(ctx, known).contents)


def _declare(election: ob.Election, contents: Contents, most: int | None = None) -> Contents:
    """The same with the most rows of every class that the method accepts."""
    if "seen" in contents:
        contents["seen"] = np.full(len(election.classes), most or DECLARED, dtype=np.int64)
    return contents


def _ensemble(election: ob.Election, ctx: PartyContext, known: Data, spent: Array) -> Contents:
    contents = _declare(election, _honest(election, ctx, known))
    claims = [name for name in NAMES if name in contents]
    if claims:
        # All rows that it lies about are its own; a row of zeros is not, because a classifier needs two classes.
        X = np.concatenate([known.X, np.zeros((20, *known.X.shape[1:]), dtype=known.X.dtype)])
        mine = np.append(spent, np.zeros(20, dtype=bool)).astype(np.int64)
        tasks = [Task(np.arange(len(X)), mine, seed=i) for i in range(len(claims))]
        models = election.learner_of("claim").fit_many(X, tasks, 2)
        contents |= {name: as_blob(models[i]) for i, name in enumerate(claims)}
    return contents


def _fedkt(election: ob.Election, ctx: PartyContext, known: Data, spent: Array) -> Contents:
    method: Any = election.method
    rows, classes = method._voted_rows(ctx), len(election.classes)
    probabilities = np.zeros((method.partitions, len(rows), classes + 1))
    probabilities[:, np.arange(len(rows)), known.y[rows]] = spent[rows]
    probabilities[..., -1] = ~spent[rows]
    contents: Contents = {"votes": method.encoding(ctx).encode(probabilities)}
    planned = {each.name for each in method.plan(known, ctx).contents}
    if "seen" in planned:
        contents["seen"] = np.full(classes, DECLARED, dtype=np.int64)
    return contents


def _fedkd(election: ob.Election, ctx: PartyContext, known: Data, spent: Array) -> Contents:
    some = np.flatnonzero(spent)
    contents = _honest(election, ctx, Data(known.X[some], known.y[some]))
    method: Any = election.method
    return _declare(election, contents, method.most_rows)


def _analytic(election: ob.Election, ctx: PartyContext, known: Data, spent: Array) -> Contents:
    some = np.flatnonzero(spent)
    contents = _honest(election, ctx, Data(known.X[some], known.y[some]))
    return {name: np.asarray(value) * (MOST // len(some)) for name, value in contents.items()}


def _dosfl(election: ob.Election, ctx: PartyContext, known: Data, spent: Array) -> Contents:
    some = np.flatnonzero(spent)
    return _honest(election, ctx, Data(known.X[some], known.y[some]))


CRAFTS: dict[str, Callable[..., Contents]] = {
    "ensemble": _ensemble,
    "fedkt": _fedkt,
    "fedkd": _fedkd,
    "analytic": _analytic,
    "dosfl": _dosfl,
}
