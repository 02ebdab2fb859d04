"""Write the report of an outcome: a page to share and, if asked for, a page that only the server may see."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from ...election.outcome_files import INDEX
from ...errors import OneBallotError
from ...server import log
from ..page import Block, Commands, Facts, Notice, Section, Table, render_page, save
from ..text import percent, plural, size
from .cap import capped, flagged_first
from .headline import headline
from .parties import contributions, who
from .privacy import privacy
from .quality import quality
from .subject import Subject
from .warned import insert_warnings

SECRET = "do-not-publish"
BANNER = "DO NOT PUBLISH. This page holds names, votes and counts without noise: it is for the server alone."
LIBRARIES = ("oneballot", "numpy", "scikit-learn", "scipy", "matplotlib")
MOST_CLASSES = 20


def write(subject: Subject, out: Path, *, server_page: bool = False) -> list[Path]:
    """Write the page and, if asked for, the server's own page beside it. Returns the paths."""
    save(out, render_report(subject.for_page(secret=False)))
    if not server_page:
        return [out]
    own = secret_path(out)
    save(own, render_report(subject.for_page(secret=True)), secret=True)
    return [out, own]


def check_options(
    subject: Subject, data: Path | None, by: Sequence[str], *, server_page: bool, public_data: bool
) -> None:
    """Raise OneBallotError for options that have no meaning together."""
    if by and data is None:
        raise OneBallotError("--by names a column of the labelled rows: add --data with a file that has it")
    if (server_page or public_data) and subject.level != "L1":
        raise OneBallotError(
            f"--server-page and --public-data are for level L1, where ballots hold raw votes; this outcome is at "
            f"{subject.level}, and its report has one page"
        )
    if public_data and data is None:
        raise OneBallotError("--public-data says that the rows of --data may be published: add --data")
    if server_page and not subject.outcome.voted:
        raise OneBallotError(
            f"{subject.folder} was published without votes and names, so there is nothing for a server's page; use the "
            "folder that `oneballot tally --out` wrote"
        )


def secret_path(out: Path) -> Path:
    """The name of the server's own page: report.html becomes report.do-not-publish.html."""
    return out.with_name(f"{out.stem}.{SECRET}{out.suffix}")


def render_report(subject: Subject) -> str:
    sections = [
        decided(subject),
        who(subject),
        contributions(subject),
        quality(subject),
        privacy(subject),
        costs(subject),
        reproduce(subject),
    ]
    title = f"Report: {subject.name}"
    return render_page(
        f"DO NOT PUBLISH – {title}" if subject.secret else title,
        sections,
        lead=_lead(subject),
        notices=insert_warnings(headline(subject), subject),
        banner=BANNER if subject.secret else "",
    )


def _lead(subject: Subject) -> str:
    classes = subject.outcome.classes
    names = ", ".join(map(str, classes[:6])) + (f" and {len(classes) - 6} more" if len(classes) > 6 else "")
    label = subject.outcome.schema.label if subject.outcome.schema else None
    of = "" if label is None else f" of {label if isinstance(label, str) else ', '.join(label)}"
    return (
        f"A one-shot federated election at privacy level {subject.level}. Its model predicts "
        f"{plural(len(classes), 'class', 'classes')}{of}: {names}."
    )


def decided(subject: Subject) -> Section:
    """The model, and what is known about it without labels."""
    outcome, election = subject.outcome, subject.election
    facts: dict[str, object] = {}
    if election is not None:
        facts["election"] = election.name
        facts["method"] = election.method.name
        facts["public rows"] = f"{election.public_rows:,}" if election.public_rows else "none"
        facts["quorum"] = plural(election.quorum, "ballot")
    learner = outcome.model.learner
    facts["final model"] = outcome.model.dump().format + ("" if learner is None else f" (learner {learner.name})")
    if outcome.schema is not None:
        facts["columns"] = f"{len(outcome.schema.columns):,}"
    facts["predicts"] = outcome.target.phrase
    calibrated = outcome.temperature is not None
    facts["probabilities"] = (
        f"calibrated on public rows: temperature {outcome.temperature:.3g}" if calibrated else "not calibrated"
    )
    return Section("What was decided", [Facts(facts), *_verdict(subject)])


def _verdict(subject: Subject) -> list[Block]:
    verdict = subject.outcome.verdict
    if verdict is None:
        return ["This outcome holds no verdict: it was tallied by a version before 0.3."]
    columns = {"predicted": verdict.predicted, "parties' rows": verdict.parties if subject.states_rows else {}}
    shown = {name: shares for name, shares in columns.items() if shares}
    blocks: list[Block] = []
    if shown:
        first = next(iter(shown.values()))
        names = sorted(first, key=lambda name: -first[name])[:MOST_CLASSES]
        rows = [[name, *(percent(shares[name]) for shares in shown.values())] for name in names]
        title = f"What the model predicts for {plural(verdict.rows, 'public row')}"
        blocks.append(Table(title if verdict.rows else "Shares of the classes", ["class", *shown], rows))
    if verdict.collapsed:
        text = "; ".join(verdict.collapsed)
        blocks.append(Notice(f"{text[:1].upper()}{text[1:]}.", "bad", "The model has collapsed"))
    untested = subject.visible_test is None
    return [*blocks, *(verdict.lines() if verdict.rows or untested else ())]


def costs(subject: Subject) -> Section:
    """Bytes and time."""
    outcome, tested = subject.outcome, subject.visible_test
    facts: dict[str, object] = {}
    if outcome.voted:
        largest = max(ballot.bytes for ballot in outcome.voted.values())
        if subject.states_rows:
            facts["all ballots"] = size(outcome.bytes)
        facts["largest ballot"] = size(largest)
        facts["messages"] = f"{plural(len(outcome.voted), 'ballot')}, one per party, and no reply is needed"
    facts["final model"] = size(len(outcome.model.dump().data))
    index = subject.folder / INDEX
    if index.is_file():
        facts["tallied"] = f"{datetime.fromtimestamp(index.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC"
    if tested is not None:
        facts["prediction"] = f"{tested.seconds:.2f} s for {plural(tested.rows, 'row')} on this machine"
    seconds = log.tally_seconds(subject.folder) if subject.names_parties else None
    if seconds is not None:
        facts["tally"] = f"{seconds:,.1f} s at the server"
    facts["training"] = "ballots do not state how long parties trained; each party's dossier does"
    return Section("Bytes and time", [Facts(facts)])


def reproduce(subject: Subject) -> Section:
    outcome, tested = subject.outcome, subject.visible_test
    digests = {
        "election (digest)": outcome.election,
        "final model (SHA-256)": hashlib.sha256(outcome.model.dump().data).hexdigest(),
    }
    if tested is not None:
        digests[f"{tested.source} (SHA-256)"] = tested.digest
    versions = {name: _version(name) for name in LIBRARIES if _version(name)}
    facts = {
        **digests,
        "written": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items())
        + f", Python {platform.python_version()}",
    }
    what = "this page" if subject.level == "L1" else "the outcome and this page"
    blocks: list[Block] = [Facts(facts), f"To make {what} again:", Commands(_commands(subject))]
    if subject.level == "L1":
        blocks.append(
            "No command makes the outcome again, so keep it: at level L1 another tally (oneballot tally --again) draws "
            "new noise, gives another model, and is charged: its epsilon is added to the ledger."
        )
    if outcome.voted:
        voted = outcome.voted
        rows = [[party, voted[party].digest, voted[party].casts] for party in flagged_first(subject, voted)]
        blocks.append(capped(Table("Digests of the ballots", ["party", "digest", "casts"], rows)))
    return Section("How to reproduce it", blocks)


def _commands(subject: Subject) -> list[str]:
    if subject.hides_files:
        return ["oneballot report OUTCOME"]
    if subject.level == "L1":
        return [subject.command or "oneballot report OUTCOME"]
    if shlex.split(subject.command)[1:2] == ["demo"]:  # which makes the outcome too
        return [subject.command]
    folder = shlex.quote(str(subject.folder))
    election = shlex.quote(str(subject.election_file or "election.toml"))
    without = "".join(f" --without {shlex.quote(party)}" for party in subject.outcome.without)
    return [
        f"oneballot tally {election} --from BOX --out {folder}{without}",
        *([subject.command] if subject.command else []),
    ]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
