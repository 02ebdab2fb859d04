from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import percent, print_facts, print_json, print_table, size
from .terminal import AsJson, Workers, session

EXAMPLE = "Example: oneballot demo --out demo"


def command(
    out: Annotated[Path, typer.Option(help="The folder for all files.")] = Path("demo"),
    parties: Annotated[int, typer.Option(min=2, help="How many parties.")] = 10,
    beta: Annotated[
        float, typer.Option(min=0.01, help="The Dirichlet parameter; the smaller, the more the parties differ.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(min=0, help="The random seed.")] = 0,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Run an election on handwritten digits.

    Ten parties that differ, one ballot each: the open ensemble beside FedKT, the best party and pooled data.
    """
    with session(as_json, workers):
        from ..demo import run

        shown = run(out, parties=parties, beta=beta, seed=seed)
        if as_json:
            print_json(shown)
            return
        print_table(
            "Rows per class at each party",
            ["party", *map(str, range(10)), "alone", "sent"],
            [
                [p, *(str(n) if n else "–" for n in h["rows"]), percent(h["alone"]), size(h["bytes"])]
                for p, h in shown["parties"].items()
            ],
        )
        print_table(
            f"Digits, {parties} parties, Dirichlet {beta:g}: accuracy on {shown['test_rows']} rows",
            ["", "accuracy", "sent per party"],
            [
                [row["what"], percent(row["accuracy"]), size(row["bytes"]) if row["bytes"] else ""]
                for row in shown["results"]
            ],
        )
        print_facts(shown["saved"], width=10)
        print(f"Next: open {out}/report.html and {out}/dossier.html in a browser")
        print(f"      oneballot inspect {out}/box/{next(iter(shown['parties']))}.ballot")
        print(f"      oneballot evaluate {out}/outcome --data {out}/test.csv")
