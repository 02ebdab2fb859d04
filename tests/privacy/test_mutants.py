"""Mutation tests for privacy: each check passes on the code and fails on a deliberate mistake.

Where the code itself refuses a mistake (PrivacyError), the mistake is also made with that guard removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot import seal
from oneballot.ballot.archive import unzip, zip_up
from oneballot.ballot.manifest import open_ballot
from oneballot.errors import PrivacyError, Spoiled
from oneballot.methods.fedkt import method as fedkt_method
from oneballot.methods.fedkt.method import FedKT
from oneballot.methods.fedkt.teachers import Teachers
from oneballot.methods.fedkt.votes import PARTS
from oneballot.party import cast
from oneballot.party.context import PartyContext
from oneballot.privacy import calibration, guarantee
from oneballot.privacy.charges import Charges
from oneballot.privacy.guarantee import VotesGuarantee
from oneballot.privacy.ledger import Ledger
from oneballot.privacy.line import Line
from oneballot.privacy.mechanisms import NoisyArgmax, NoisyNumbers, round_up
from oneballot.privacy.mechanisms.confident import ThresholdTest
from oneballot.privacy.releases import reach_of
from oneballot.privacy.sampling import SeededEntropy
from oneballot.privacy.settings import PrivacySettings
from oneballot.server import tally
from oneballot.server.context import TallyContext
from oneballot.server.outcome import Outcome
from oneballot.types import Data

GUMBEL: dict[str, Any] = {"delta": 1e-3, "mechanism": "gumbel", "scale": 4.0}
IDS, CONTENT = ob.L2(**GUMBEL, stable_ids=True), ob.L2(**GUMBEL, stable_ids=False)
ADD_REMOVE, PARTIES = replace(IDS, adjacency="add-remove"), ob.L1(**GUMBEL)
SOME_PARTIES = replace(PARTIES, adjacency="add-remove")
COUNTS = replace(IDS, counts_sigma=3.0)

Check = Callable[[Any], None]


def whole(privacy: PrivacySettings, **settings: Any) -> Check:
    """All checks of the exact audit."""
    return lambda audit: audit.check(audit.arrange(privacy, **settings))


def exact(privacy: PrivacySettings, **settings: Any) -> Check:
    """Only the exact privacy loss of the answers, without looking at votes or draws."""

    def check(audit: Any) -> None:
        case = audit.arrange(privacy, **settings)
        here, there = (audit.run(case.election, parties) for parties in (case.here, case.there))
        audit.check_ledger(privacy, here, there)

    return check


def noise(what: str = "check_law", *, method: dict[str, Any] | None = None, level: str = "L2", unit: int = 1,
          public: int = 2000, **settings: Any) -> Check:  # fmt: skip
    """The distribution of the noise that a context draws."""
    privacy = {"stable_ids": True, **settings} if level == "L2" else settings
    rows = np.zeros((public, 1), dtype=np.float32)

    def check(audit: Any) -> None:
        election = ob.Election(range(3), rows, FedKT(**(method or {})), privacy=PrivacySettings(level, **privacy))  # type: ignore[arg-type]
        getattr(audit, what)(election, **({"unit": unit} if unit > 1 else {}))

    return check


def nothing_else(privacy: PrivacySettings, **settings: Any) -> Check:
    """Everything visible to others except the noisy answers."""
    return lambda audit: audit.check_nothing_else(audit.arrange(privacy, **settings))


def loud_ballot(audit: Any, privacy: PrivacySettings = SOME_PARTIES, **settings: Any) -> None:
    """A hostile party seals the largest votes that a ballot can hold."""
    case = audit.arrange(privacy, **settings)
    honest = cast.cast_together(case.election, {"unit": case.here["unit"]})[0].contents
    loud = {"votes": honest["votes"], "seen": np.full(2, 10**6)} if "seen" in honest else {
        "votes": np.full_like(honest["votes"], 255)}  # fmt: skip
    audit.check(replace(case, here={**case.here, "unit": loud}))


def scattered(rows: int) -> Check:
    """Rows at random corners, the first of which is removed; four times, because a hash assigns the subsets."""

    def check(audit: Any) -> None:
        election = audit.arrange(ADD_REMOVE).election
        for rng in map(np.random.default_rng, range(4)):
            X, y = election.public[rng.integers(12, size=rows)], rng.integers(2, size=rows)
            ids = np.array([f"row {i}" for i in range(rows)])
            audit.check(audit.new_case(election, {"unit": Data(X, y, ids)}, {"unit": Data(X[1:], y[1:], ids[1:])}))

    return check


def second_tally(audit: Any) -> None:
    """A ballot arrives late, and noise is drawn again on the same votes."""
    case = audit.arrange(PARTIES)
    runs = []
    for parties in (case.here, case.there):
        first = audit.run(case.election, {n: d for n, d in parties.items() if n != "party-0"})
        late = cast.cast_together(case.election, {"party-0": parties["party-0"]})
        outcome = tally.tally(case.election, first.ballots)
        with audit.watched() as second:
            second.ledger = tally.tally(case.election, [*first.ballots, *late], previous=outcome).ledger
        runs.append(audit.new_run(first.votes + second.votes, drawn=first.drawn + second.drawn, ledger=second.ledger))
    audit.check_ledger(PARTIES, *runs)
    for run in runs:
        audit.check_drawn(run)


def second_cast(audit: Any) -> None:
    """Noise is drawn again on the same rows."""
    case = audit.arrange(IDS)
    runs = [audit.run(case.election, parties) for parties in (case.here, case.there)]
    (party, data), *_ = case.here.items()
    again = cast.cast_data(
        PartyContext(case.election, party, Charges(case.election.digest, earlier=1, what="cast")), data
    )
    ledger = open_ballot(again.sealed).manifest.privacy
    outcome = tally.tally(case.election, [again]).ledger
    for claimed in (ledger, outcome):
        audit.check_ledger(IDS, *(audit.new_run(run.votes * 2, ledger=claimed) for run in runs))


def two_silos(audit: Any) -> None:
    """A person's rows may be at two parties."""
    case = audit.arrange(replace(IDS, max_silos_per_person=2))
    here, there = (audit.run(case.election, parties) for parties in (case.here, case.there))
    claimed = tally.tally(case.election, here.ballots).ledger
    audit.check_ledger(IDS, *(audit.new_run(run.votes * 2, ledger=claimed) for run in (here, there)))


def less_noise(ledger: dict[str, Any]) -> dict[str, Any]:
    """A consistent ledger with half of the noise."""
    fields = {name: value for name, value in ledger.items() if name not in ("lines", "epsilon", "publishable")}
    lines = [Line(**{**line, "scale": line["scale"] / 2}) for line in ledger["lines"]]
    return Ledger.with_lines(lines, **fields).model_dump(mode="json")


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "less noise": lambda ledger: ledger["lines"][0].update(scale=ledger["lines"][0]["scale"] / 2),
    "less noise, and what it costs": lambda ledger: ledger.update(less_noise(ledger)),
    "a smaller epsilon": lambda ledger: ledger.update(epsilon=ledger["epsilon"] / 2),
    "a larger delta": lambda ledger: ledger.update(delta=0.1),
    "fewer draws": lambda ledger: ledger["lines"][0].update(times=ledger["lines"][0]["times"] - 1),
    "a smaller reach": lambda ledger: ledger["lines"][0].update(reach=1),
    "no level": lambda ledger: ledger.update(level="L0", epsilon=None, lines=[]),
    "a rehearsal": lambda ledger: ledger.update(rehearsal=True, epsilon=None),
    "other neighbours": lambda ledger: ledger.update(adjacency="add-remove"),
}  # fmt: skip


def forged_ledgers(audit: Any) -> None:
    """Ballots with a ledger other than the election's are refused."""
    case = audit.arrange(IDS)
    (ballot,) = cast.cast_together(case.election, case.here)
    assert seal.unseal(ballot.sealed, case.election).digest == ballot.digest
    for name, forge in FORGERIES.items():
        files = unzip(ballot.sealed)
        manifest = json.loads(bytes(files["manifest.json"]))
        forge(manifest["privacy"])
        try:
            seal.unseal(zip_up(files | {"manifest.json": json.dumps(manifest).encode()}), case.election)
        except Spoiled:
            continue
        raise AssertionError(f"a forged ledger was accepted: {name}")


def half(mechanism: type, draw: str = "draw", scale: str = "sigma") -> Callable[[pytest.MonkeyPatch], None]:
    """The mechanism draws half of its noise."""
    honest = getattr(mechanism, draw)

    def less(self: Any, *given: Any, **more: Any) -> Any:
        return honest(replace(self, **{scale: round_up(getattr(self, scale) / 2)}), *given, **more)

    return lambda patch: patch.setattr(mechanism, draw, less)


def unguarded(patch: pytest.MonkeyPatch) -> None:
    """Contexts that count their draws and refuse nothing."""
    patch.setattr(PartyContext, "_draw", lambda self, what, times: self.drawn.update({what: times}))


def report_less(patch: pytest.MonkeyPatch, change: Callable[[list[Any]], list[Any]]) -> None:
    honest = VotesGuarantee.lines
    patch.setattr(VotesGuarantee, "lines", lambda self: change(honest(self)))


def one_less(patch: pytest.MonkeyPatch) -> None:
    report_less(patch, lambda lines: [(what, release, times - 1) for what, release, times in lines])


def no_counts(patch: pytest.MonkeyPatch) -> None:
    report_less(patch, lambda lines: [line for line in lines if line[0] != "class counts"])


def forget_partitions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(guarantee, "releases_per_unit", lambda level, queries, partitions: queries)


def reach(value: int | None = None, **changed: Any) -> Callable[[pytest.MonkeyPatch], None]:
    def wrong_reach(level: Any, adjacency: Any, **given: Any) -> int:
        return value or reach_of(level, adjacency, **{**given, **changed})

    return lambda patch: patch.setattr(calibration, "reach_of", wrong_reach)


def one_sided(**changed: Any) -> Callable[[pytest.MonkeyPatch], None]:
    honest = NoisyArgmax.plan.__func__

    def wrong_plan(cls: Any, *given: Any) -> Any:
        query, test = honest(cls, *given)
        return replace(query, one_sided=True, **changed), test

    return lambda patch: patch.setattr(NoisyArgmax, "plan", classmethod(wrong_plan))


def parts_as_votes(self: FedKT, answers: Any, ctx: Any) -> list[Any]:
    votes = np.floor(answers * PARTS).astype(np.int64).sum(axis=1)
    return [ctx.decide(v, cell=f"partition {j}") for j, v in enumerate(votes)]


def only_where_somebody_votes(self: FedKT, votes: Any, ctx: Any) -> Any:
    voted = votes.sum(axis=1) > 0
    labels = np.full(len(votes), -1)
    labels[voted] = ctx.decide(votes[voted], cell="tally")
    return labels


def left_out_afterwards(self: FedKT, votes: Any, ctx: Any, honest: Any = FedKT._decide_for_the_public) -> Any:
    return np.where(votes.sum(axis=1) > 0, honest(self, votes, ctx), -1)


def with_the_number_of_rows(self: FedKT, data: Data, ctx: Any, honest: Any = FedKT.cast) -> Any:
    contents = yield from honest(self, data, ctx)
    return {**contents, "rows": np.array([len(data)])}


def only_where_they_agree(self: FedKT, answers: Any, ctx: Any) -> list[Any]:
    votes = (answers.argmax(axis=3)[..., None] == np.arange(self._classes(ctx))).sum(axis=1)
    labels = np.full(votes.shape[:2], -1)
    for j, v in enumerate(votes):
        clear = v.max(axis=1) >= 5
        labels[j, clear] = ctx.decide(v[clear], cell=f"partition {j}")
    return list(labels)


def by_position(self: PartyContext, data: Data, subsets: int, *path: str | int) -> list[Any]:
    return np.array_split(np.random.default_rng(self.seed(*path)).permutation(len(data)), subsets)


def by_content(self: PartyContext, data: Data) -> list[bytes]:
    return [row.tobytes() + str(label).encode() for row, label in zip(data.X, data.y, strict=True)]


def of_the_silo(self: Teachers) -> Any:
    return np.bincount(self.data.y, minlength=self.classes)


def as_many_as_rows(
    cls: Any, data: Data, ctx: Any, partitions: int, subsets: int, queries: Any, *, open: bool, second: bool
) -> Teachers:
    deals = [ctx.assign_subsets(data, min(subsets, len(data)), "partition", j) for j in range(partitions)]
    return Teachers(data, deals, queries, len(ctx.classes), open, second)


def unbounded_weights(patch: pytest.MonkeyPatch) -> None:
    honest = FedKT.count
    patch.setattr(FedKT, "count", lambda self, ballot, ctx: honest(replace(self, most_rows=10**9), ballot, ctx))


def combined(*changes: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    def apply(patch: pytest.MonkeyPatch) -> None:
        for change in changes:
            change(patch)

    return apply


def put(where: Any, name: str, what: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(where, name, what)


LESS = "the noise on votes does not match the ledger"
FAR = "the votes change by more than the reach of a unit"
LEAKS = "the answers reveal more than the ledger claims"
OFF = "the ledger does not match the draws"
DEPENDS = "the queries depend on the unit"
ELSE = "something besides noisy answers depends on the unit"
REFUSED = "but declares"
TWO_NEAREST = ob.Sklearn("KNeighborsClassifier", {"n_neighbors": 2})
CONFIDENT: dict[str, Any] = {"mechanism": "confident", "sigma": 4.0, "threshold": 12.0, "answers": 2000}
SOFT, COUNTED = {"voting": "soft"}, {"weights": "class-counts"}
TWICE, TWICE_ALIKE = {"partitions": 2}, {"partitions": 2, "voting": "consistent"}
WEIGHED = {**COUNTED, "most_rows": 2, "unit_rows": 2}

MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Check, str]] = {
    "half the Gumbel noise": (half(NoisyArgmax, scale="scale"), noise(**GUMBEL), LESS),
    "half the Gaussian noise": (half(NoisyArgmax, scale="scale"), noise(sigma=4.0), LESS),
    "half the Laplace noise": (half(NoisyArgmax, scale="scale"), noise(gamma=0.25, level="L1"), LESS),
    "half the noise of the test": (half(ThresholdTest, "draw_passes"), noise(**CONFIDENT), LESS),
    "raw votes choose the queries": (
        put(ThresholdTest, "draw_passes", lambda self, values, threshold, entropy, *, unit: values >= threshold * unit),
        noise(**CONFIDENT), LESS),
    "half the noise on class counts": (
        half(NoisyNumbers),
        noise("check_counts_law", epsilon=2.0, method=COUNTED, public=50), "the noise on class counts"),
    "no noise on class counts": (
        put(PartyContext, "release", lambda self, counts, *, cell: counts), whole(COUNTS, **COUNTED), OFF),
    "noise from a fixed seed": (
        put(PartyContext, "_entropy", lambda self, cell: SeededEntropy(self.seed("noise", cell))),
        noise("check_fresh", **GUMBEL), "the same noise was drawn twice"),
    "parts of votes drawn as votes": (
        put(NoisyArgmax, "draw", lambda self, votes, entropy, honest=NoisyArgmax.draw, **given: honest(
            self, votes, entropy)), noise(**GUMBEL, method=SOFT, unit=255), LESS),
    "parts of votes charged as votes": (put(FedKT, "_labels", parts_as_votes), whole(IDS, **SOFT), FAR),
    "s forgotten": (forget_partitions, whole(IDS, **TWICE), REFUSED),
    "s forgotten, unguarded": (combined(forget_partitions, unguarded), whole(IDS, **TWICE), OFF),
    "s forgotten, by its answers": (combined(forget_partitions, unguarded), exact(IDS, **TWICE), LEAKS),
    "a query off the ledger": (one_less, whole(IDS), REFUSED),
    "a query off the ledger at L1": (one_less, whole(PARTIES), REFUSED),
    "a query off the ledger, unguarded": (combined(one_less, unguarded), whole(PARTIES), OFF),
    "a query off the ledger, by its answers": (combined(one_less, unguarded), exact(IDS), LEAKS),
    "class counts off the ledger": (no_counts, whole(COUNTS, **COUNTED), REFUSED),
    "class counts off the ledger, unguarded": (combined(no_counts, unguarded), whole(COUNTS, **COUNTED), OFF),
    "class counts that the method does not declare": (
        put(FedKT, "spends", lambda self, *given, honest=FedKT.spends: replace(honest(self, *given), numbers=None)),
        whole(ob.L2(2.0, 1e-3, stable_ids=True), **COUNTED), "does not declare it"),
    "content replaced, charged as one moved vote": (reach(2), whole(CONTENT), FAR),
    "content replaced, charged as one, by its answers": (reach(2), exact(CONTENT), LEAKS),
    "rows assigned by content, charged as by ID": (
        put(PartyContext, "_identities", by_content), whole(IDS, moved=2), FAR),
    "rows assigned by position": (put(PartyContext, "assign_subsets", by_position), scattered(40), FAR),
    "as many subsets as rows": (put(Teachers, "of", classmethod(as_many_as_rows)), scattered(5), FAR),
    "half the reach of added or removed rows": (reach(1), whole(ADD_REMOVE), FAR),
    "half the reach of added or removed rows, by their answers": (reach(1), exact(ADD_REMOVE), LEAKS),
    "rows charged as added or removed votes": (one_sided(reach=1), exact(ADD_REMOVE), LEAKS),
    "moved votes charged as added or removed votes": (
        combined(reach(2), one_sided()),
        whole(ADD_REMOVE), "votes move, but are charged"),
    "consistent votes counted s times, charged once": (reach(partitions=1), whole(PARTIES, **TWICE_ALIKE), FAR),
    "consistent votes charged once, by the answers": (reach(partitions=1), exact(SOME_PARTIES, **TWICE_ALIKE), LEAKS),
    "rows without votes dropped before the noise": (
        put(FedKT, "_decide_for_the_public", only_where_somebody_votes),
        whole(SOME_PARTIES, leads=(2, None), open_vote="hard"), DEPENDS),
    "rows without votes dropped after the noise": (
        put(FedKT, "_decide_for_the_public", left_out_afterwards),
        nothing_else(SOME_PARTIES, leads=(2, None), open_vote="hard"), ELSE),
    "the number of rows in the ballot": (put(FedKT, "cast", with_the_number_of_rows), nothing_else(ADD_REMOVE), ELSE),
    "a published outcome names who voted": (
        put(Outcome, "published", lambda self: self), nothing_else(SOME_PARTIES), ELSE),
    "queries on which teachers disagree dropped": (
        put(FedKT, "_labels", only_where_they_agree), whole(IDS, leads=(2, 0)), DEPENDS),
    "frequencies of the whole silo divided out": (
        put(Teachers, "class_counts", of_the_silo),
        whole(IDS, weights="prior", leads=(-6, 4), learner=TWO_NEAREST), FAR),
    "more than a vote in shares": (
        put(fedkt_method, "at_most_one_vote", lambda points, partitions: points),
        lambda a: loud_ballot(a, **SOFT), FAR),
    "weights without a bound": (unbounded_weights, lambda a: loud_ballot(a, **WEIGHED), FAR),
    "less noise than the budget asks for": (
        put(calibration, "round_up", lambda scale: round_up(0.9 * scale)), whole(ob.L2(2.0, 1e-3, stable_ids=True)),
        "the ledger exceeds the budget"),
    "a second tally free of charge": (put(Charges, "charge", lambda self, planned, after: 1), second_tally, LEAKS),
    "a second tally off the ledger": (
        put(TallyContext, "ledger", lambda self, casts: self.election.guarantee.ledger()), second_tally, LEAKS),
    "a second cast free of charge": (
        put(seal, "_ledger", lambda election, casts: election.ballot_ledger), second_cast, LEAKS),
    "repetitions free of charge": (put(Ledger, "times", lambda self, count, *, silos=1: self), second_cast, LEAKS),
    "a second silo free of charge": (
        put(TallyContext, "ledger", lambda self, casts: self.election.guarantee.ledger()), two_silos, LEAKS),
    "any ledger is accepted": (
        put(Ledger, "agrees_with", lambda self, expected: True), forged_ledgers, "accepted: less noise"),
    "only epsilon is compared": (
        put(Ledger, "agrees_with", lambda self, expected: self.epsilon == expected.epsilon), forged_ledgers,
        "accepted: less noise"),
}  # fmt: skip


@pytest.mark.parametrize("what", MUTANTS)
def test_each_mutant_is_detected_and_the_code_passes(audit, monkeypatch, what: str) -> None:
    change, check, message = MUTANTS[what]
    check(audit)
    audit.forget()
    try:
        change(monkeypatch)
        with pytest.raises((AssertionError, PrivacyError), match=message):
            check(audit)
    finally:
        monkeypatch.undo()
        audit.forget()
