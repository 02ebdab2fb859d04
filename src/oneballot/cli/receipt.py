from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_json, print_lines
from .terminal import AsJson, OutcomeFolder, session

EXAMPLE = "Example: oneballot receipt ballots/clinic-a.receipt.json published/"


def command(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="The PARTY.receipt.json that your cast wrote.")],
    outcome: OutcomeFolder,
    signer: Annotated[
        str | None, typer.Option(metavar="KEY", help="The server's public log key, or its fingerprint.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show whether an outcome has counted your ballot.

    Works with a published copy, which names no party, and with the server's own copy. Exit status 0 if this ballot was
    counted; 1 if another ballot in your name was counted, if yours was left out, or if it cannot be known. A receipt
    shows what you cast, not that it reached the box. See docs/log.md.
    """
    with session(as_json):
        from ..ballot.receipts import read_receipt
        from ..server.receipts import check_receipt

        mine = read_receipt(receipt)
        checked = check_receipt(mine, outcome, signer=signer)
        if as_json:
            facts = {"party": mine.party, "election": mine.election, "ballot": mine.ballot, "time": mine.time}
            print_json({"answer": checked.answer, "sentence": checked.sentence, "receipt": facts})
        else:
            print_lines([f"{checked.answer.upper()}: {checked.sentence}."])
            if mine.abstained:
                print_lines([f"The ballot is an abstention: {mine.abstained}."])
        if checked.answer != "counted":
            raise typer.Exit(1)
