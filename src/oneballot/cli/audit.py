from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ..report.text import print_json, print_table
from .terminal import AsJson, ElectionFile, Workers, session

if TYPE_CHECKING:
    from ..audit import Audit


class Side(StrEnum):
    a = "a"
    b = "b"


EXAMPLE = "Example: oneballot audit election.toml --runs 1000"


def command(
    election: ElectionFile,
    canaries: Annotated[
        int | None,
        typer.Option(
            min=2, help="The number of canaries in all runs. Default: as many as fit into each run, up to 32."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The number of runs. Default: enough to notice half the noise, in a minute or less. More runs notice "
            "smaller deviations.",
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(min=0.5, max=0.9999, help="1 minus the share of false alarms; the confidence of the bounds."),
    ] = 0.95,
    share: Annotated[
        Side | None,
        typer.Option(help="With two tallies: attack the noise of this server alone. Default: of both, one by one."),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Attack an election with canaries, to test its noise.

    Rows (L2) or parties (L1) whose content a coin decides go through real casts and tallies with the election's noise.
    The auditor guesses the coins from what is released. Right and wrong guesses are compared with the trade-off curve
    that the stated noise allows, and with epsilon. No data is needed. The command prints what this audit could not have
    noticed. Exit status: 0 if the claim is not refuted, 1 if it is.

    With two tallies a server can subtract its own noise, so each server's noise is attacked alone, as the other one
    sees it. This tests the code of this machine: let both organisations run it.
    """
    with session(as_json, workers):
        from ..audit import audit
        from ..election.election import Election
        from ..errors import ElectionError

        agreed = Election.read(election)
        if share is not None and agreed.tallies is None:
            raise ElectionError("--share is for elections with two tallies; leave it out")
        both = agreed.tallies is not None and share is None
        servers = list(Side) if both else [share or Side.a]
        confidence = 1 - (1 - confidence) / len(servers)
        results = {
            server.value: audit(
                agreed, canaries=canaries, runs=runs, confidence=confidence, server="a" if server is Side.a else "b"
            )
            for server in servers
        }
        if as_json:
            found = {server: {**result.describe(), "election": agreed.digest} for server, result in results.items()}
            print_json({"servers": found} if both else next(iter(found.values())))
        else:
            for server, result in results.items():
                if agreed.tallies is not None:
                    print(f"The noise of server {server}, as the other server sees it:")
                _show(result)
            if agreed.guarantee is not None:
                print(f"Adjacency {result.adjacency} means: {agreed.guarantee.ledger().neighbours}.")
        if not all(result.holds for result in results.values()):
            raise typer.Exit(1)


def _show(result: Audit) -> None:
    from ..audit import describe_result

    attacks = {"with the election's noise": result.with_noise, "almost without noise": result.without_noise}
    rows = [[name, f"{a.right} of {a.guesses}", f"at least {a.epsilon:.3f}"] for name, a in attacks.items()]
    rows.append(["claimed", "", f"at most {result.claimed:.3f}"])
    title = (
        f"epsilon at delta {result.delta:g} for each {result.unit}, adjacency {result.adjacency}; "
        f"each lower bound with a confidence of {result.confidence:.4g}"
    )
    print_table(title, ["", "right guesses", "epsilon"], rows)
    levels = [
        [f"{level.epsilon:.2f}", f"{level.right:,}", f"{level.wrong:,}", f"{level.payoff:.4f}", f"{level.allowed:.4f}"]
        for level in result.levels
    ]
    if levels:
        print_table(
            f"the trade-off curve: {result.released}, guesses that are this confident",
            ["level", "right", "wrong", "(right − e^level·wrong) / canaries", "allowed mean"],
            levels,
        )
    for sentence in describe_result(result):
        print(sentence)
