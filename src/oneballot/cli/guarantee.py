from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_json, print_lines
from .terminal import AsJson, ElectionFile, session

EXAMPLE = "Example: oneballot guarantee election.toml --out guarantee.html"


def command(
    election: ElectionFile,
    out: Annotated[Path | None, typer.Option(help="Also write the card as a page, FILE.html, to print.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what an election protects, in plain words.

    The guarantee card says what is protected, from whom, against what, how often, and what is not. It is computed from
    the election alone, before anyone trains, and may be published. See docs/guarantee.md.
    """
    with session(as_json):
        from ..election.election import Election
        from ..report.guarantee import election_card, write_card
        from ..report.page import check_destination

        if out is not None:
            check_destination(out, (election,))
        agreed = Election.read(election)
        card = election_card(agreed) if out is None else write_card(agreed, out)
        if as_json:
            page = {} if out is None else {"page": str(out)}
            print_json({"election": agreed.name, "digest": agreed.digest, **card.model_dump(mode="json"), **page})
            return
        print_lines([f"Election {agreed.name}", "", *card.lines()])
        if out is not None:
            print_lines(["", f"The card is in {out}. Open it in a browser, or print it."])
