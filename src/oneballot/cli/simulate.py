from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .reading import reads_files
from .terminal import (
    AllRows,
    AsJson,
    Backend,
    ElectionFile,
    Holdout,
    Parties,
    Split,
    SplitSeed,
    TestRows,
    Workers,
    percent,
    print_json,
    print_table,
    session,
    size,
)

EXAMPLE = (
    "Example: oneballot simulate election.toml --data all.parquet --parties 50 --split dirichlet:0.5 --test test.csv"
)


@reads_files("data", "test")
def command(
    election: ElectionFile,
    data: AllRows,
    parties: Parties = None,
    split: Split = "dirichlet:0.5",
    test: TestRows = None,
    holdout: Holdout = 0.2,
    seed: SplitSeed = 0,
    compare: Annotated[bool, typer.Option(help="Also train on each party's rows, and on all rows pooled.")] = True,
    out: Annotated[Path | None, typer.Option(help="Save outcome/ and box/ with the ballots in this folder.")] = None,
    workers: Workers = None,
    backend: Backend = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a federation on one machine, and test the final model."""
    with session(as_json, workers):
        from ..election.election import Election
        from ..runtime.executor import spread
        from ..simulation import baselines, check_empty, read_parties, save, simulate_parties

        agreed = Election.read(election)
        if out is not None:
            check_empty(out)
        with spread(backend):
            shared, test_data = read_parties(agreed, data, parties, split, seed, test, holdout)
            run = simulate_parties(agreed, shared)
            without = baselines(agreed, run.parties, test_data) if compare else None
        scores = {"outcome": run.accuracy(test_data)}
        if without is not None:
            scores = {"alone": without.alone_mean, **scores, "together": without.pooled}
        if out is not None:
            save(run, out)
        sent = run.outcome.bytes / len(run.ballots)
        if as_json:
            print_json({"accuracy": scores, "bytes_per_party": sent, **run.outcome.summary()})
            return
        names = {
            "alone": "each party alone, mean",
            "outcome": f"{agreed.method.name}, one ballot each",
            "together": "pooled data (upper bound)",
        }
        rows = [[names[k], percent(v), size(round(sent)) if k == "outcome" else ""] for k, v in scores.items()]
        print_table(f"{agreed.name}: {len(run.parties)} parties, {split}", ["", "accuracy", "sent per party"], rows)
        if agreed.level != "L0":
            print("Privacy", "\n  ".join(run.outcome.ledger.describe(whole=True)))
        if out is not None:
            print(f"Saved: {out / 'outcome'} and {out / 'box'}.")
