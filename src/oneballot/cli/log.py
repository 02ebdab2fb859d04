from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..report.text import plural, print_json, print_lines, print_table
from .terminal import AsJson, OutcomeFolder, session

if TYPE_CHECKING:
    from ..server.log import Entry

EXAMPLE = "Example: oneballot log outcome/ --expect 3f0c… (the hash that an earlier tally printed)"


def command(
    outcome: OutcomeFolder,
    expect: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="The hash of an entry that the log had earlier; it must still be there."),
    ] = None,
    signer: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The server's public log key, or its fingerprint. Default: this machine's."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print and verify the log of an outcome.

    Every tally, withdrawal and release is an entry, signed and chained to the one before. Exit status 1 if an entry
    was edited, removed, reordered or forged, or if the outcome is not the one that was recorded. See docs/log.md.
    """
    with session(as_json):
        from ..ballot.keys import fingerprint
        from ..server.log_check import check_log, is_own_key

        log = check_log(outcome, signer=signer, expect=expect)
        own = is_own_key(log.entries[0].key) if log.entries else None
        if as_json:
            entries = [entry.model_dump() for entry in log.entries]
            facts = {"intact": not log.problems, "problems": log.problems, "own_key": own}
            print_json({"entries": entries, "head": log.head, **facts})
        else:
            rows = [
                [str(e.number), e.time.replace("T", " ").removesuffix("+00:00"), e.kind, _describe(e)]
                for e in log.entries
            ]
            print_table(f"The log of {outcome}", ["entry", "time (UTC)", "what", ""], rows, whole=(0, 1))
            print_lines(f"hash {e.number}: {e.hash}" for e in log.entries)
            if log.entries:
                whose = {True: ", this machine's log key", False: ", not this machine's log key", None: ""}
                known = whose[own]
                print(f"Signed with the key with fingerprint {fingerprint(log.entries[0].key)}{known}")
            print_lines(f"BROKEN: {problem}." for problem in log.problems)
            if not log.problems:
                print(f"The log is intact: {plural(len(log.entries), 'entry', 'entries')}, the last {log.head}")
                print("Anyone who keeps that hash can notice if entries are removed later (--expect).")
        if log.problems:
            raise typer.Exit(1)


def _describe(entry: Entry) -> str:
    """The facts of an entry in a few words. They may be anything if someone else has written it."""
    facts = entry.facts
    words = {
        "counted": "counted",
        "abstained": "abstained",
        "spoiled": "spoiled",
        "without": "left out",
        "withdrawn": "withdrawn",
    }
    counts = [f"{len(facts[name])} {word}" for name, word in words.items() if _is_filled(facts.get(name))]
    named = [f"{name} {facts[name]}" for name in ("party", "to", "path") if isinstance(facts.get(name), str)]
    warned = facts.get("warnings")
    if isinstance(warned, list) and warned:
        counts.append(plural(len(warned), "warning"))
    return ", ".join([*named, *counts, *(["the log was broken before"] if "broken" in facts else [])])


def _is_filled(value: object) -> bool:
    return isinstance(value, dict | list) and bool(value)
