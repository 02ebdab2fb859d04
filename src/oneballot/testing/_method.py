"""The suite of methods: casts, ballots, late ballots, withdrawal, plans, settings and progress."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping

from ..ballot.seal import unseal
from ..interfaces import Learner, Method
from ..privacy.settings import PrivacySettings
from ..runtime.progress import report_progress_to
from ..server.outcome import Outcome
from ..server.tally import tally
from ..simulation import simulate_parties
from ..types import Array, Ballot, Blob, Plan
from ._counts import check_counts
from ._data import WHOLE, make_rows, same
from ._election import LEVELS, MethodCase, equal_contents, equal_counts, recorded
from ._hostile import check_hostile_contents
from ._private import check_private_levels
from ._shares import check_shares
from ._suite import check_model, check_name, check_settings, describe, read_back, run_checks
from ._tally import check_few_classes, check_labels, check_late_ballots, check_order, check_public_set, check_withdrawal

NEEDS = {"probabilities", "scores", "weights", "gradients", "soft", "score targets"}


def check_method(
    method: Method,
    *,
    learners: Learner | Mapping[str, Learner] | None = None,
    rows: tuple[Array, Array] | None = None,
    privacy: Mapping[str, PrivacySettings] | None = None,
    quiet_seconds: float = 5.0,
) -> None:
    """Run elections with the method, and raise ConformanceError with a sentence for everything that it lacks.

    learners: the learner of all roles, or by role; by default small ones that provide what the method needs.
    rows: X, and class numbers y of three classes or more, if the method needs rows of a certain shape; at least 180 of
    them. The default is 220 rows of 6 numbers.
    privacy: the settings for a level, such as {"L2": ob.L2(epsilon=5)}; by default epsilon is 20.
    quiet_seconds: how much computing time may pass without a report of progress.
    """
    if not isinstance(method, Method):
        text = f"{method!r} is not a method: pass an instance of a subclass of `oneballot.interfaces.Method`"
        raise TypeError(text)
    given = {"all": learners} if isinstance(learners, Learner) else dict(learners or {})
    case = MethodCase(method, given, rows or make_rows(220), privacy or {}, quiet_seconds)
    run_checks(f"method {method.name}", case, CHECKS)


def check_declarations(case: MethodCase) -> Iterator[str]:
    """The class variables and properties of the method have valid values."""
    method = case.method
    yield from check_name(method.name, "method")
    if not method.levels or not method.levels <= set(LEVELS):
        yield f"`levels` is {sorted(method.levels)}; expected some of L0, L1 and L2."
    if method.needs_public not in ("nothing", "rows", "labels"):
        yield f'`needs_public` is {method.needs_public!r}; expected "nothing", "rows" or "labels".'
    if not method.targets:
        yield '`targets` is empty; expected {"classes"}, and "labels" if rows may have several labels.'
    for role, needed in method.needs.items():
        if unknown := sorted(set(needed) - NEEDS):
            yield f"`needs` of the role {role} has {', '.join(unknown)}; expected some of {', '.join(sorted(NEEDS))}."


def check_method_settings(case: MethodCase) -> Iterator[str]:
    """Settings can be written in TOML and read back, and give the same election."""
    method = case.agreed.method  # with its settings for this level
    yield from check_settings(method)
    made = yield from read_back(method)
    if made is not None and case.election(method=made).digest != case.agreed.digest:
        yield "The digest of the election changes if the method is written to TOML and read back."


def check_parties(case: MethodCase) -> Iterator[str]:
    """A party with one class, without a class, with one row or with none casts a ballot, or abstains with a reason."""
    for party, data in case.parties.items():
        before = data.X.tobytes(), data.y.tobytes()
        public = None if case.agreed.public is None else case.agreed.public.copy()
        try:
            ballot = case.cast(party)
        except Exception as error:
            kind = "with all classes" if party in WHOLE else f'of the kind "{party}"'
            yield (
                f"A party {kind} cannot cast: {describe(error)}. Send a ballot, or raise `oneballot.types.Abstain` "
                "with a reason."
            )
            continue
        if ballot.abstained is not None and party in WHOLE:
            yield f"A party with {len(data)} rows and all classes abstains: {ballot.abstained}."
        elif ballot.abstained is not None and not ballot.abstained.strip():
            yield f'A party of the kind "{party}" abstains without a reason. Raise Abstain("why").'
        if before != (data.X.tobytes(), data.y.tobytes()):
            yield "`cast` changes the party's rows or labels in place. Work on a copy."
        if public is not None and case.agreed.public is not None and not same(public, case.agreed.public):
            yield "`cast` changes the public rows in place. All parties and the tally share them: work on a copy."
            case.agreed.public[...] = public


def check_outcome(case: MethodCase) -> Iterator[str]:
    """The tally counts all ballots, and its model predicts every class and can be saved and loaded."""
    outcome = case.outcome
    for name, reason in outcome.spoiled.items():
        yield f"`count` rejects a ballot that `cast` wrote ({name}): {reason}."
    predictions = outcome.probabilities(case.X_test)
    yield from check_model(outcome.model.model_, case.X_test, case.classes, "the final model")
    with tempfile.TemporaryDirectory() as folder:
        outcome.save(folder)
        loaded = Outcome.load(folder)
        if not same(loaded.probabilities(case.X_test), predictions):
            yield "A saved and loaded outcome predicts something else. Check `dump` of the model and its format."
        if not equal_counts(loaded.count, outcome.count):
            yield "The count of a saved and loaded outcome differs: it must hold integer arrays and models only."


def check_same_ballots(case: MethodCase) -> Iterator[str]:
    """A cast gives the same ballot each time, alone and together with other parties."""
    together = simulate_parties(case.election(), {p: case.parties[p] for p in case.ballots}).ballots
    for ballot in together:
        if ballot.digest != case.ballots[ballot.party].digest:
            yield (
                f"The ballot of {ballot.party} differs between two casts, alone and together with others. Take random "
                "numbers from `ctx.seed` only, and keep nothing from one party for the next."
            )


def check_round_trip(case: MethodCase) -> Iterator[str]:
    """A ballot that is sealed and opened carries the same contents, in formats that are known."""
    for party, ballot in case.ballots.items():
        if not equal_contents(unseal(ballot.sealed, case.agreed).contents, ballot.contents):
            yield f"The contents of the ballot of {party} change when it is sealed and opened."
        for name, value in ballot.contents.items():
            if not isinstance(value, Blob) and value.dtype.kind not in "biuf":
                yield f"The array {name} is of type {value.dtype}; ballots carry integers, floats and booleans."


def check_plan(case: MethodCase) -> Iterator[str]:
    """`plan` says what a cast trains and sends."""
    method, record = recorded(case.method)
    election = case.election(method=method)
    for party in case.ballots:
        data, ballot = case.parties[party], case.cast(party, election)
        if not len(data) or ballot.abstained is not None:
            continue
        plan = election.method.plan(data, record.contexts[party])
        problems = list(_wrong_plan(case, party, plan, ballot, record.tasks(party)))
        yield from problems
        if problems:
            return


def _wrong_plan(case: MethodCase, party: str, plan: Plan, ballot: Ballot, trained: int | None) -> Iterator[str]:
    if trained is not None and plan.models != trained:
        yield f"`plan` says that {party} trains {plan.models} models, but its cast trains {trained}."
    sizes = [len(v.data) if isinstance(v, Blob) else v.nbytes for v in ballot.contents.values()]
    if plan.bytes is not None and plan.bytes != sum(sizes):
        yield (
            f"`plan` says that {party} sends {plan.bytes:,} bytes, but its ballot carries {sum(sizes):,}. State the "
            "exact size of all arrays, or None if it depends on the training."
        )
    models = any(isinstance(value, Blob) for value in ballot.contents.values())
    if case.level == "L0" and plan.sends_models != models:
        yield f"`plan` says sends_models={plan.sends_models}, but the ballot has {'' if models else 'no '}models."
    if not plan.carries.strip():
        yield "`plan` does not say what the ballot carries: users see it before they send anything."


def check_progress(case: MethodCase) -> Iterator[str]:
    """A cast and a tally that take long report their progress."""
    method, record = recorded(case.method)
    election = case.election(method=method)
    for what in ("cast", "tally"):
        last = time.process_time()
        gaps, reports = [0.0], list[str]()

        def watch(text: str, done: int, total: int, gaps: list[float] = gaps, reports: list[str] = reports) -> None:
            nonlocal last
            now = time.process_time()
            gaps.append(now - last)
            reports.append(text)
            last = now

        with report_progress_to(watch):
            if what == "cast":
                ballot = case.cast("party-1", election)
            else:
                tally(election, [ballot])
        gaps.append(time.process_time() - last)
        if what == "cast" and record.requests.get("party-1") and not reports:
            yield "A cast trains without reporting progress. Use `oneballot.runtime.progress.track` around the loop."
        if max(gaps) > case.quiet_seconds:
            yield (
                f"A {what} computes for {max(gaps):.1f} s without reporting progress. Use "
                "`oneballot.runtime.progress.track` around the loop."
            )


CHECKS = (
    check_declarations,
    check_method_settings,
    check_parties,
    check_outcome,
    check_same_ballots,
    check_round_trip,
    check_plan,
    check_counts,
    check_order,
    check_late_ballots,
    check_withdrawal,
    check_few_classes,
    check_labels,
    check_public_set,
    check_hostile_contents,
    check_private_levels,
    check_shares,
    check_progress,
)
