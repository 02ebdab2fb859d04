from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..report.text import print_json, print_table
from .terminal import AsJson, ElectionFile, Workers, session

EXAMPLE = "Example: oneballot audit election.toml --confidence 0.99"


def command(
    election: ElectionFile,
    canaries: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="The number of canaries. Default: enough to refute the claim without noise, at most 2000 (which "
            "suffice up to epsilon 5.7).",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="The number of runs to spread them over. Default: at most 100.")
    ] = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999, help="The confidence of the lower bounds.")] = 0.95,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Attack an election with canaries, to test its epsilon.

    The measured lower bound on epsilon is compared to the claim. No data is needed: the audit uses worst-case rows and
    a learner that memorizes them. A second attack without noise must refute the claim, or the audit proves nothing.
    Canaries of one run share its queries, so few canaries in many runs are a stronger attack than many in one run.
    """
    with session(as_json, workers):
        from ..audit import audit
        from ..election.election import Election

        agreed = Election.read(election)
        result = audit(agreed, canaries=canaries, runs=runs, confidence=confidence)
        if as_json:
            found = {"holds": result.holds, "catches": result.catches, "election": agreed.digest}
            print_json(asdict(result) | found)
        else:
            attacks = {"with the election's noise": result.with_noise, "without noise": result.without_noise}
            rows = [[name, f"{a.right} of {a.guesses}", f"{a.epsilon:.3f}"] for name, a in attacks.items()]
            rows.append(["claimed", "", f"{result.claimed:.3f}"])
            title = f"epsilon at delta {result.delta:g} for each {result.unit}, adjacency {result.adjacency}"
            print_table(title, ["", "right guesses", "epsilon"], rows)
            if agreed.guarantee is not None:
                ledger = agreed.guarantee.ledger()
                print(f"Adjacency {ledger.adjacency} means: {ledger.neighbours}.")
            print(
                f"{result.with_noise.canaries} canaries in {result.runs} runs; by chance a bound exceeds the true "
                f"epsilon in {1 - result.confidence:.2g} of all audits (--confidence)."
            )
            if not result.holds:
                print("THE CLAIM IS REFUTED: the measured bound is above it. Please report this as a vulnerability.")
            elif result.catches:
                print("The claim holds against this attack, and the same attack refutes it without noise.")
            else:
                print(
                    f"The audit is inconclusive: {result.with_noise.canaries} canaries can show an epsilon of at most "
                    f"{result.most:.3f}, which is below the claim. Use more --canaries."
                )
        if not result.holds:
            raise typer.Exit(1)
