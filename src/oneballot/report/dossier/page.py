"""The page of a release dossier: sections that a board reads in order, then signs."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from ...ballot.rows_held import RowsHeld
from ..guarantee import card_notice, card_sections
from ..page import Block, Bullets, Commands, Details, Facts, Notice, Section, Table, render
from ..text import plural, size
from .record import Agreement, Content, Counts, Dossier, Rows

INSIDE = "Do not publish: this part holds exact numbers about your rows."
UNAUDITED = (
    "The audit, which attacks this election's noise, was not run for this page. To have its result on the page that is "
    "signed, add --audit run to the command, or --audit audit.json with the result of oneballot audit --json."
)
WITHOUT_ELECTION = "Without the election (--election) this page states only what the ballot itself says."
LONGEST_SETTING = 300
SHOWN_MODELS = 6
"""Of so many models with similar names each has a row of its own; further ones are summed up."""


def render_dossier(dossier: Dossier, twin: str, twin_sha256: str) -> str:
    """The page. `twin` is the name of the JSON file, with its SHA-256."""
    sections = [
        Section("In short", list(_summary(dossier))),
        Section("Which rows and columns were used", list(_rows(dossier.rows))),
        Section("What leaves", list(_contents(dossier))),
        Section("Small numbers", list(_counts(dossier.counts, dossier.rows))),
        Section("Who can read it, and who signed it", [_readers(dossier)]),
        Section("What is guaranteed", list(_guarantee(dossier)), _card(dossier)),
        Section("What an attacker can do", list(_attacks(dossier))),
        Section("Hashes", list(_hashes(dossier, twin, twin_sha256))),
    ]
    names = {"planned": "Planned release", "refused": "Refused release", "sealed": "Release"}
    return render(
        "dossier.html",
        title=f"{names[dossier.stage]} of {dossier.party}",
        lead=f"Release dossier for the election “{dossier.election.name}”" if dossier.election else "Release dossier",
        notices=(),
        sections=sections,
        contents=[*sections, Section("Sign-off")],
        stage=dossier.stage,
        digest=dossier.seals.ballot_digest if dossier.seals else None,
    )


def _summary(d: Dossier) -> Iterator[Block]:
    if d.stage == "refused":
        refusal = d.refusal or ""
        yield Notice(refusal[:1].upper() + refusal[1:], "bad", "Refused: nothing may be sent")
    elif d.stage == "planned":
        text = "Nothing has been trained or sent. Samples and hashes follow when the ballot is sealed."
        yield Notice(text, "info", "This is a plan")
    else:
        few = [f"{plural(c.rows, 'row')} of class {c.group}" for c in d.counts.stated if c.small]
        if few:
            text = f"The ballot states these exact numbers of rows below {d.counts.min_count}: {', '.join(few)}."
            yield Notice(text, "warning", "Small numbers were allowed")
        text = "The ballot is sealed. Check that the file has the hash below. Sign before it is sent."
        yield Notice(text, "info" if few else "good", "Sealed")
    if d.stage != "refused" and d.guarantee.ledger.level != "L0" and d.attacks.audit is None:
        yield Notice(UNAUDITED, "warning", "Not audited")
    if d.rows and d.rows.withheld:
        yield Notice(
            f"{_withheld(d.rows)} were left out, so the ballot knows nothing of them.", "warning", "Suppressed"
        )
    if d.rows_held:
        held = RowsHeld(d.rows_held, exact=d.stage == "sealed" and d.election is not None).describe()
        text = f"The ballot {held}: anyone who can read the ballot can read these rows."
        yield Notice(text, "bad", "Rows leave as they are")
    if d.abstained:
        yield Notice(f"The ballot is empty, and states this reason: {d.abstained}.", "info", "The party abstains")
    size_of = "size known after training" if d.bytes is None else size(d.bytes)
    small = sum(count.small for count in d.counts.stated)
    level = d.guarantee.ledger.level
    epsilon = d.guarantee.ledger.epsilon
    yield Facts(
        {
            "Party": d.party,
            "Election": f"{d.election.name}, {d.election.digest}" if d.election else d.also_sent["election"],
            "Method": d.method,
            "What leaves": f"{_kinds(d.contents)}, {size_of}",
            **({} if d.seconds is None else {"Training": f"{d.seconds:,.1f} s, which the ballot does not state"}),
            "Readable by": d.readable_by.who,
            "Guarantee": f"level {level}, " + ("none" if epsilon is None else f"epsilon {epsilon:.4g}"),
            "Small numbers": d.counts.unknown
            or (f"{small} below {d.counts.min_count}" if d.counts.stated else "none stated"),
            "Written": f"{d.written:%Y-%m-%d %H:%M} UTC, OneBallot {d.version}",
        }
    )
    if d.election is not None:
        yield _settings(d.election, known=d.rows is not None)


def _settings(election: Agreement, *, known: bool) -> Details:
    """Everything that decides how the ballot is made. known: whether the learners are those of this party."""
    cells = [["election", "classes", ", ".join(election.classes)]]
    cells += [["election", "public rows", f"{election.public_rows:,}"]]
    parts = {f"method {election.method}": election.settings}
    parts |= {f"learner of the {role} model": settings for role, settings in election.learners.items()}
    cells += [[part, name, _as_text(value)] for part, settings in parts.items() for name, value in settings.items()]
    note = "" if known else (
        "The learners are those of the election. A party may choose others; which it chose is unknown here."
    )  # fmt: skip
    table = Table("Settings of the method and the learners", ["of", "setting", "value"], cells, note, sortable=False)
    return Details("Settings", [table])


def _as_text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SETTING else f"{text[:LONGEST_SETTING]}… (all of it is in the JSON file)"


def _withheld(rows: Rows) -> str:
    return ", ".join(f"{n:,} rows of class {name}" for name, n in rows.withheld.items())


def _kinds(contents: list[Content]) -> str:
    kinds = Counter("model" if content.shape is None else "array" for content in contents)
    return " and ".join(f"{n} {kind}{'s' * (n > 1)}" for kind, n in sorted(kinds.items())) or "no contents"


def _rows(rows: Rows | None) -> Iterator[Block]:
    if rows is None:
        yield "The party's file was not read for this page, and there is no record of the rows that were cast."
        return
    yield Notice(INSIDE, "warning")
    steps = [["in the file", rows.in_file]]
    steps += [[f"left out: {reason}", f"-{n:,}"] for reason, n in rows.dropped.items()]
    steps += [["kept back to test the outcome (--holdout)", f"-{rows.held_back:,}"]] if rows.held_back else []
    steps += [[f"withheld: class {name} has too few", f"-{n:,}"] for name, n in rows.withheld.items()]
    steps += [["used", f"{rows.used:,}"]]
    yield Facts({"File": rows.file, "SHA-256 of the file": rows.sha256 or "unknown: it is not a regular file"})
    yield Table("Rows", ["rows", "number"], steps, emphasis=[len(steps) - 1], sortable=False)
    if rows.ids is not None:
        yield f"The rows used have {rows.ids:,} different row IDs."
    yield Table(
        "Rows used, by class", ["class", "rows"], list(rows.by_class.items()), empty="The rows have no classes."
    )
    used = [c for c in rows.columns if c.use != "ignored"]
    ignored = [c.name for c in rows.columns if c.use == "ignored"]
    cells = []
    for (use, encoding, odd), columns in groupby(used, lambda c: (c.use, c.encoding, c.odd_values)):
        names = [column.name for column in columns]  # neighbours that are treated alike share a line
        named = ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]}: {len(names)} columns"
        cells.append([named, use, encoding or "–", ", ".join(odd) or "–"])
    yield Table("Columns used", ["column", "use", "how it is encoded", "odd values"], cells)
    yield f"Columns of the file that were ignored: {', '.join(ignored) or 'none'}."


def _contents(d: Dossier) -> Iterator[Block]:
    if not d.contents:
        yield "The ballot has no contents."
    cells, further = [], Counter[str]()
    alike = Counter(c.name.partition(".")[0] for c in d.contents if c.shape is None)
    for c in d.contents:
        stem = c.name.partition(".")[0]
        if c.shape is None and alike[stem] > SHOWN_MODELS:
            further[stem] += 1
            if further[stem] > 1:
                continue
            sizes = [e.bytes for e in d.contents if e.name.partition(".")[0] == stem]
            total = "after training" if None in sizes else size(sum(b for b in sizes if b is not None))
            cells.append([f"{stem}.*", f"{alike[stem]} models", "–", total, c.meaning, "no"])
            continue
        shape = "–" if c.shape is None else " × ".join(map(str, c.shape)) or "one number"
        how = "after training" if c.bytes is None else size(c.bytes)
        cells.append([c.name, c.type, shape, how, c.meaning, _readable(c)])
    head = ["name", "type", "shape", "size", "meaning", "readable by a person"]
    yield Table("Contents of the ballot", head, cells, sortable=False)
    yield from _samples(d)
    yield Table("Beside its contents, the ballot states", ["what", "value"], list(d.also_sent.items()), sortable=False)


def _readable(content: Content) -> str:
    planned = content.shape is not None and content.sha256 is None
    return "yes" if content.checkable else "after training" if planned else "no"


def _samples(d: Dossier) -> Iterator[Block]:
    if d.stage == "planned" or not any(c.sha256 for c in d.contents):
        return
    models = [c for c in d.contents if c.shape is None]
    for c in d.contents:
        if c.shape is not None and c.sample is not None:
            yield Table(f"Sample of {c.name}: {c.meaning}", c.sample.header, c.sample.rows, note=c.note, sortable=False)
        elif c.shape is not None:
            yield f"{c.name}: {c.note}"
    notes = dict.fromkeys(c.note for c in models)
    yield from (f"{', '.join(c.name for c in models if c.note == note)}: {note}" for note in notes)


def _counts(counts: Counts, rows: Rows | None) -> Iterator[Block]:
    handled = {"refuse": "nothing is sent", "suppress": "its rows are withheld", "allow": "it is sent all the same"}
    yield (
        "An exact number of few rows could single people out. The smallest number that may be stated, apart "
        f"from 0, is {counts.min_count} (--min-count). If one is smaller, {handled[counts.handling]} "
        f"(--small-counts {counts.handling})."
    )
    if counts.unknown or counts.exempt:
        text = counts.unknown or counts.exempt or ""
        yield Notice(text[0].upper() + text[1:], "warning") if counts.unknown else text
        return
    if rows and rows.withheld:
        zero = "" if any(count.small for count in counts.stated) else ", and states 0 for them"
        text = f"The ballot is cast without these rows{zero}: {_withheld(rows)}."
        yield Notice(text, "info", "Suppressed")
    if not counts.stated:
        yield "The ballot states no exact number of rows."
        return
    small = [i for i, count in enumerate(counts.stated) if count.small]
    ids = any(count.ids is not None for count in counts.stated)
    cells = [
        [
            c.group,
            c.array,
            f"{c.rows:,}",
            *([f"{c.ids:,}" if c.ids is not None else "–"] * ids),
            _verdict(c.small, c.rows),
        ]
        for c in counts.stated
    ]
    yield Notice(INSIDE, "warning")
    head = ["class", "stated in", "rows", *["row IDs"] * ids, ""]
    yield Table("Exact numbers of rows in the ballot", head, cells, emphasis=small)
    yield f"The smallest number above 0 is {counts.smallest:,}." if counts.smallest else "All numbers are 0."


def _verdict(small: bool, rows: int) -> str:
    return "too small" if small else "none" if not rows else "large enough"


def _readers(d: Dossier) -> Block:
    facts = {"Readable by": d.readable_by.who}
    facts |= {"Server's key": d.readable_by.key, "Its fingerprint": d.readable_by.fingerprint or ""} \
        if d.readable_by.key else {}  # fmt: skip
    facts |= {"Signed by": d.signed_by.who}
    facts |= {"Party's key": d.signed_by.key, "Its fingerprint ": d.signed_by.fingerprint or ""} \
        if d.signed_by.key else {}  # fmt: skip
    return Facts(facts)


def _guarantee(d: Dossier) -> Iterator[Block]:
    card = d.guarantee.card
    yield card_notice(card) if card else Notice(WITHOUT_ELECTION, "warning")
    if words := [word[0].upper() + word[1:] for word in d.guarantee.words if word]:
        yield Bullets(words)
    ledger = d.guarantee.ledger
    cells = [[line.what, f"{line.times:,}", line.mechanism, f"{line.scale:.6g}"] for line in ledger.lines]
    if cells:
        yield Table("Ledger", ["released", "times", "mechanism", "noise scale"], cells, sortable=False)


def _card(d: Dossier) -> list[Section]:
    return [] if d.guarantee.card is None else card_sections(d.guarantee.card, brief=True)


def _attacks(d: Dossier) -> Iterator[Block]:
    tone = "bad" if d.attacks.audit and not d.attacks.audit.holds else "info" if d.attacks.audit else "warning"
    for word in d.attacks.words:
        yield Notice(word, tone) if word == d.attacks.words[0] else word
    if d.attacks.command:
        yield Commands([d.attacks.command])


def _hashes(d: Dossier, twin: str, sha256: str) -> Iterator[Block]:
    facts: dict[str, object] = {}
    if d.seals is not None:
        facts |= {
            f"SHA-256 of {d.seals.file}": d.seals.file_sha256,
            "Digest of the ballot": d.seals.ballot_digest,
            **{f"SHA-256 of {c.name}": c.sha256 for c in d.contents[:40] if c.sha256},
        }
    yield Facts(facts | {f"SHA-256 of {twin}": sha256})
    if d.seals is None:
        yield "There is no ballot yet, so only the JSON file has a hash."
        return
    yield (
        "The JSON file holds what this page says, and the hash of the ballot. Compare the hashes before the ballot is "
        "sent; the tally reports the digest of each ballot that it counts."
    )
    yield Commands([f"sha256sum -- {shlex.quote(d.seals.file)} {shlex.quote(twin)}"])
