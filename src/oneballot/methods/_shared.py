"""What several methods share: access to the public set, class counts, and classes that no party has."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ..errors import ElectionError, OneBallotWarning, Spoiled
from ..interfaces import Agreement, Context
from ..types import Array, Ballot, Planned

MOST_ROWS = 2**31 - 1
NAMED_ROWS = 5
"""How many of the rows that depend on a party a warning lists."""
NAMED_PARTIES = 10
MOST = 0.5
"""Where more of the public rows than this depend on one party each, the parties' rows differ."""
FEW = 0.1
"""The share of the public rows up to which the rows that depend on a party are listed."""
DOMINANT = 0.99
"""A column with a larger share of the total variance makes the others nearly irrelevant."""
CLASS_COUNTS = "the exact number of the party's rows of each class"


def public_rows(agreed: Agreement) -> Array:
    assert agreed.public is not None, "the election has been checked: the method needs a public set"
    return agreed.public


def missing_classes(counts: Array, agreed: Agreement) -> str:
    """The names of the classes whose count is 0, separated by commas."""
    return ", ".join(str(name) for name, count in zip(agreed.classes, counts, strict=True) if not count)


def read_class_counts(ballot: Ballot, agreed: Agreement, most: int = MOST_ROWS) -> Array:
    """A ballot's rows of each class. Raises Spoiled unless they are from 0 to `most`."""
    counts = ballot.array("seen", np.int64, (len(agreed.classes),))
    if not ((counts >= 0) & (counts <= most)).all():
        raise Spoiled(f"class counts {counts.tolist()}: expected 0 to {most:,} for each class")
    return counts


def bounds_need_each_party(method: str, what: str) -> ElectionError:
    """Why `influence = "bounded"` and two tallies exclude each other, if it bounds a party by these sums of others."""
    return ElectionError(
        f'{method}: influence = "bounded" is not available with two tallies: it compares the {what} of each party, '
        'which no server sees; set influence = "claimed"'
    )


def describe_claims(most: int, *, may_bound: bool = False) -> str:
    """What a party can do that is believed to have up to `most` rows. may_bound: whether the election can bound it."""
    cure = 'influence = "bounded" prevents it.' if may_bound else "Set most_rows to what a party may really have."
    most_rows = f"up to {most:,} rows (most_rows)"
    return f"A party weighs what it declares, {most_rows}, so one that lies can decide alone. {cure}"


def warn_of_dominant_column(public: Array, advice: str) -> None:
    """For methods that measure lengths or distances of rows: warn if one column decides them."""
    variance = public.reshape(len(public), -1).astype(np.float64).var(axis=0)
    column, total = int(variance.argmax()), variance.sum()
    if variance.size > 1 and variance[column] > DOMINANT * total:
        text = f"column {column} has {variance[column] / total:.2%} of the variance of the public rows"
        warnings.warn(f"{text}: {advice}", OneBallotWarning, stacklevel=2)


def planned_counts(agreed: Agreement) -> Planned:
    """The array `seen` of `read_class_counts`, as a plan lists it."""
    return Planned("seen", "int64", (len(agreed.classes),))


def some_public_rows(ctx: Context, most: int) -> Array | None:
    """At most so many public rows, chosen at random, the same in every tally of an election; None if there are none."""
    if ctx.public is None or not len(ctx.public):
        return None
    order = np.random.default_rng(ctx.shared_seed("verdict")).permutation(len(ctx.public))
    return np.asarray(ctx.public[order[:most]])


def warn_where_one_party_decides(
    weights: Array, gives_way: Array, parties: Sequence[str], ctx: Context, numbers: Array | None = None
) -> None:
    """Name the public rows where the cap gives way to more than half of the weight, and the parties that have it.

    weights `(rows, parties)`, and the rows where they are not bounded. numbers: which public rows these are.
    """
    alone = gives_way & (weights.max(axis=1, initial=0) > weights.sum(axis=1) / 2)
    if not alone.any():
        return
    first, texts = weights.argmax(axis=1), []
    numbers = np.arange(len(alone)) if numbers is None else numbers
    named = sorted(set(first[alone].tolist()), key=lambda i: (-(first[alone] == i).sum(), i))
    for i in named[:NAMED_PARTIES]:
        rows = numbers[alone & (first == i)]
        some = ", ".join(str(row + 1) for row in rows[:NAMED_ROWS]) + (", …" if len(rows) > NAMED_ROWS else "")
        texts.append(f"{len(rows)} on {parties[i]}" + (f" (rows {some})" if len(rows) <= FEW * len(alone) else ""))
    if len(named) > NAMED_PARTIES:
        texts.append(f"the rest on {len(named) - NAMED_PARTIES} other parties")
    which = f"{alone.sum():,} of {len(alone):,} public rows depend on one party"
    if alone.mean() > MOST:
        which += " each, because the parties' rows differ so much that hardly two of them know the same"
    else:
        which += ", because too few others claim rows like them"
    ctx.warn(f"{which}: {'; '.join(texts)}. If that party is wrong or lies, so is the outcome there")
