from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_facts, print_json, print_table, size
from .dossier import AuditOption, Dossier, MinCount, SmallCounts, audited, count_rule
from .terminal import AsJson, session

EXAMPLE = "Example: oneballot inspect box/clinic-a.ballot --election election.toml"
SHOWN = (
    "encrypted_to",
    "party",
    "election",
    "method",
    "ledger",
    "signature",
    "abstained",
    "verdict",
    "beware",
    "versions",
)


def command(
    ballot: Annotated[Path, typer.Argument(help="A ballot file.")],
    election: Annotated[Path | None, typer.Option(help="Check it against this election: digest and signature.")] = None,
    key: Annotated[Path | None, typer.Option(help="The server's secret key, to open an encrypted ballot.")] = None,
    dossier: Dossier = None,
    min_count: MinCount = None,
    small_counts: SmallCounts = None,
    audit: AuditOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what a ballot carries, its privacy cost and its signature.

    No model is loaded. An encrypted ballot shows little without the server's key. A party's own copy of it is
    PARTY.ballot.open. --dossier writes what it shows, and more, as a page; give --election too. The exit status is 1 if
    the page says that the ballot may not be sent.
    """
    with session(as_json):
        from ..ballot.inspect import describe_ballot
        from ..ballot.keys import read_server_key
        from ..election.election import Election
        from ..errors import BallotError, SmallCount
        from ..report.dossier.facts import of_ballot
        from ..report.dossier.write import write_dossier

        agreed, server = Election.read(election) if election else None, read_server_key(key) if key else None
        seen, refusal = describe_ballot(ballot, agreed, server), None
        if dossier is not None:
            rule = count_rule(min_count, small_counts)
            made = of_ballot(ballot, agreed, server, rule, dossier.name, audited(audit, agreed, dossier))
            seen["dossier"] = write_dossier(dossier, made)
            if made.refusal is not None:
                kind = SmallCount if any(count.small for count in made.counts.stated) else BallotError
                refusal = kind(f"{made.refusal} {seen['dossier']['page']} shows it.")
        if refusal is not None and as_json:
            raise refusal
        if as_json:
            print_json(seen)
            return
        known = {name: seen[name] if isinstance(seen[name], list) else [seen[name]] for name in SHOWN if seen.get(name)}
        print_facts({name.replace("_", " "): list(filter(None, lines)) for name, lines in known.items()})
        if "contents" not in seen:
            print_facts({"size": size(seen["bytes"])})
            return
        rows = [[name, what, size(count)] for name, what, count in seen["contents"]]
        print_table(f"{ballot}, {size(seen['bytes'])}", ["content", "what", "size"], rows)
        if refusal is not None:
            raise refusal
        if dossier is not None:
            print(f"{seen['dossier']['page']} shows what leaves; {seen['dossier']['json']} is the same for machines.")
