from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from .terminal import AsJson, ElectionFile, Workers, print_json, print_table, session

EXAMPLE = "Example: oneballot audit election.toml --confidence 0.99"


def command(
    election: ElectionFile,
    canaries: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="How many; if not given, enough to refute the claim were there no noise, 2000 at most: epsilon 5.7.",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Spread them over so many elections; 100, or one canary each.")
    ] = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Of the lower bounds.")] = 0.95,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Attack an election's own cast and tally with canaries: a measured lower bound on epsilon beside the claimed one.

    No data is needed: the audit brings rows of its own, arranged as badly as they can be, and a learner that repeats
    what it has seen. A second round without noise must be caught, or the audit shows nothing. Canaries of one run
    share its queries, so that few in many runs show more than many in one.
    """
    with session(as_json, workers):
        from ..audit import audit
        from ..election.election import Election

        found = audit(Election.read(election), canaries=canaries, runs=runs, confidence=confidence)
        if as_json:
            print_json(asdict(found) | {"holds": found.holds, "catches": found.catches})
        else:
            findings = {"with the election's noise": found.with_noise, "without noise": found.without_noise}
            rows = [[name, f"{r.right} of {r.guesses}", f"{r.epsilon:.3f}"] for name, r in findings.items()]
            rows.append(["claimed", "", f"{found.claimed:.3f}"])
            title = f"epsilon at delta {found.delta:g} for each {found.unit}, adjacency {found.adjacency}"
            print_table(title, ["", "guessed right", "epsilon"], rows)
            how = f"{found.with_noise.canaries} canaries in {found.runs} runs"
            wrong = 1 - found.confidence
            print(f"{how}; a bound is above the truth by chance in {wrong:.2g} of all audits (--confidence).")
            if not found.holds:
                print("THE CLAIM IS REFUTED: the measured bound is above it. Please report this as a vulnerability.")
            elif found.catches:
                print("The claim holds against this attack, and the attack refutes it where there is no noise.")
            else:
                most = f"so many canaries can show at most epsilon {found.most:.3f}, which is below the claim"
                print(f"The audit shows little: {most}. Use more --canaries.")
        if not found.holds:
            raise typer.Exit(1)
