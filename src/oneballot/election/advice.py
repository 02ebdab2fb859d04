"""What the number of public rows means for the method, for rare classes and for the budget, and what to use instead.

Every number is computed from the election, or measured by `benchmarks/public_rows.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import plugins
from ..errors import ElectionError
from ..methods.ensemble.claims import ENOUGH_PUBLIC_ROWS
from ..privacy.guarantee import GOOD_ENOUGH, LabelGuarantee, VotesGuarantee
from ..privacy.settings import PrivacySettings
from .targets import supports

if TYPE_CHECKING:
    from .election import Election

LABELS_PER_CLASS = 10
"""With fewer labelled rows of a class the final model hardly learns it."""

MEASURED = (
    "83.5 % on Adult at epsilon 1 with 20 parties, and FedKT's votes 79.3 % "
    "(python benchmarks/privacy.py --only best; docs/privacy.md)"
)
"""Change it with the table of docs/results/privacy.md."""
MEASURED_SHARED = (
    "83.8 % on Adult at epsilon 0.4 with 20 parties and two tallies, and FedKT 81.6 % at epsilon 0.5 "
    "(python benchmarks/two_tallies.py; docs/results/privacy.md)"
)
"""The same for two tallies, whose noise is drawn once for all parties."""
SUMS = ("analytic", "neighbours")
"""Methods that add noise once, to sums over rows: at L2 they are the most accurate ones on a table."""


def advise(election: Election, parties: int | None, labels: Mapping[Any, int] | None = None) -> list[str]:
    """Sentences for people. labels: how many rows of a file have each label, where that is known."""
    sentences = [_on_public_rows(election), _on_rare_classes(election, labels or {}), _on_queries(election, parties)]
    sentences += [best_method(election, parties), election.method.risk_in(election)]
    return [sentence for sentence in sentences if sentence]


def expect_of_parties(election: Election, given: int | None = None) -> list[str]:
    """At L1 and L2: what the noise does to the result, and for how many parties that is said. given: by the user."""
    if election.guarantee is None:
        return []
    known = given or election.parties
    if given is not None:
        who = f"With {given:,} parties (--parties)"
    elif election.roster:
        least = f", if all of them take part; the quorum is {election.quorum:,}"
        who = f"With the {known:,} parties of the roster{least if election.quorum < len(election.roster) else ''}"
    elif known is not None:
        who = f"With the {known:,} parties of the quorum, and no roster that says how many more there may be"
    else:
        who = (
            "The number of parties is unknown, as there is no roster and no quorum above 1, and the accuracy depends "
            "on it (oneballot check --parties N)"
        )
    first, *others = [*election.guarantee.forecast(known), ""]
    return [f"{who}: {first}".rstrip(" :"), *filter(None, others)]


def learns_from_public_rows(election: Election) -> bool:
    """Whether the final model is trained on nothing but public rows and the labels that parties give them."""
    return election.method.needs_public != "nothing" and "final" in election.roles


def _on_public_rows(election: Election) -> str:
    rows, classes = election.public_rows, len(election.classes)
    if "claim" in election.roles and rows < ENOUGH_PUBLIC_ROWS:
        few = f"{rows:,} public rows are too few to compare parties with; {ENOUGH_PUBLIC_ROWS} or more would be used. "
        return (
            f"{few if rows else ''}Without public rows parties are compared by their columns' ranges. Expect a little "
            "less accuracy where they differ (docs/results/open_ensemble.md), and trust every party: one that lies can "
            "decide. A hundred unlabelled rows (--public FILE) help with both."
        )
    if "claim" in election.roles:
        return f"The {rows:,} public rows are only a background: models learn from the parties' own rows. Few suffice."
    if not learns_from_public_rows(election):
        return ""
    least = LABELS_PER_CLASS * classes
    if rows < least:
        return (
            f"{rows:,} public rows: this will not work. The final model learns from them alone, and {classes} classes "
            f"need at least {least:,}; several hundred are better. {_without_public_rows(election)}"
        )
    text = f"The final model learns from the {rows:,} public rows alone: expect what {rows:,} labelled rows give."
    better = ' A party with more rows than that may be better off with ensemble, weights = "open".'
    return text + (better if election.level == "L0" else "")


def _without_public_rows(election: Election) -> str:
    """Which methods would do with fewer public rows at this level."""
    return {
        "L0": 'Methods that learn from the parties\' own rows need none: ensemble with weights = "open", or analytic.',
        "L1": "No method at L1 does without public rows.",
        "L2": "The method analytic needs none.",
    }[election.level]


def _on_rare_classes(election: Election, labels: Mapping[Any, int]) -> str:
    rows, total = election.public_rows, sum(labels.values())
    if not learns_from_public_rows(election) or rows < LABELS_PER_CLASS * len(election.classes):
        return ""
    if not total:
        return (
            f"A class with less than {100 * LABELS_PER_CLASS / rows:.2g} % of the rows would get fewer than "
            f"{LABELS_PER_CLASS} labels, too few to learn it: a rare class needs more public rows."
        )
    few = {name: count / total * rows for name, count in labels.items() if count / total * rows < LABELS_PER_CLASS}
    if not few:
        return ""
    named = ", ".join(f"{name} (about {expected:.0f})" for name, expected in few.items())
    needed = math.ceil(LABELS_PER_CLASS * total / max(1, min(labels[name] for name in few)))
    alternative = ', or ensemble with weights = "open", whose models learn rare classes at the parties'
    return (
        f"Too few of the {rows:,} public rows are of class {named}, so the final model will hardly learn it. Use "
        f"about {needed:,} public rows{alternative if election.level == 'L0' else ''}."
    )


def _on_queries(election: Election, parties: int | None) -> str:
    """How the budget is divided, and whether fewer queries would help."""
    guarantee, method = election.guarantee, election.method
    if not isinstance(guarantee, VotesGuarantee):
        return ""
    public = election.public_rows
    text = f"The budget pays for labels of {guarantee.queries:,} of {public:,} public rows."
    right = guarantee.label_accuracy(parties)
    if right is None or right >= GOOD_ENOUGH or election.privacy.stated_noise() is not None:
        return text
    queries = guarantee.queries // 2
    while queries >= LABELS_PER_CLASS * len(election.classes) and (smaller := method.with_queries(queries, public)):
        fewer = _guarantee(election, smaller, election.privacy)
        share = fewer.label_accuracy(parties) if isinstance(fewer, LabelGuarantee) else None
        if share is not None and share >= GOOD_ENOUGH:
            return f"{text} With queries = {queries:,} the labels would be right {share:.0%} of the time."
        queries //= 2
    return f"{text} No smaller number of them makes the labels right {GOOD_ENOUGH:.0%} of the time."


def best_method(election: Election, parties: int | None) -> str:
    """At L2 on a table: which method is best for a budget, as far as it was measured; otherwise nothing."""
    if election.level != "L2" or election.privacy.rehearsal or len(election.shape) != 1:
        return ""
    if election.tallies is None:
        measured, equal = MEASURED, " With a public set neighbours is as accurate (docs/results/privacy.md)."
    else:
        measured, equal = MEASURED_SHARED, ""
    if election.method.name in SUMS:
        return f"For a budget at L2, analytic is among the most accurate methods on a table: {measured}.{equal}"
    instead = analytic_instead(election, parties)
    return instead and f"{instead} On a table it is the more accurate one for a budget: {measured}.{equal}"


def analytic_instead(election: Election, parties: int | None) -> str:
    """At L2 on a table: how many rows `analytic` needs under the same budget; otherwise nothing."""
    privacy, guarantee = election.privacy, election.guarantee
    analytic = plugins.find("methods", "analytic")()
    if election.level != "L2" or guarantee is None or election.method.name in SUMS:
        return ""
    if len(election.shape) != 1 or not supports(analytic, election.target) or privacy.rehearsal:
        return ""
    budget = PrivacySettings(
        level="L2",
        epsilon=privacy.epsilon or guarantee.epsilon(),
        delta=privacy.delta,
        adjacency=privacy.adjacency,
        max_silos_per_person=privacy.max_silos_per_person,
    )
    try:
        numbers = _guarantee(election, analytic, budget).numbers
        analytic.check(election, {})
    except ElectionError:
        return ""
    assert numbers is not None, "analytic releases sums"
    if election.tallies is not None:
        rows = analytic.rows_needed(election, math.sqrt(2) * numbers.sigma, 1)
        return (
            "Two servers can also add up the sums over rows of the method analytic: under the same budget it works "
            f"from about {rows:,} rows of all parties together (docs/analytic.md)."
        )
    rows = analytic.rows_needed(election, numbers.sigma, parties or 1)
    where = f"{parties:,} parties together" if parties else "a single party (√n times as many of n parties)"
    return (
        "The method analytic adds noise once, to sums over rows, and not to every label: under the same budget it "
        f"works from about {rows:,} rows of {where} (docs/analytic.md)."
    )


def _guarantee(election: Election, method: Any, privacy: PrivacySettings) -> Any:
    from ..privacy.calibration import calibrate

    if election.tallies is not None:
        from ..privacy.two_tallies import calibrate_two_tallies

        numbers = method.shared_numbers(privacy.level, len(election.classes), election.public_rows)
        return calibrate_two_tallies(privacy, numbers, election.stable_ids, election.tallies.openings)
    spending = method.spends(privacy.level, len(election.classes), election.public_rows)
    return calibrate(privacy, spending, election.stable_ids)
