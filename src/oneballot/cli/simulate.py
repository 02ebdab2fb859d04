from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import plural, print_json, print_lines, print_table, score_cells, size
from .reading import reads_files
from .terminal import (
    AllRows,
    AsJson,
    Backend,
    ElectionFile,
    Holdout,
    Parties,
    ReportFile,
    Split,
    SplitSeed,
    TestRows,
    Workers,
    session,
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
    report: ReportFile = None,
    workers: Workers = None,
    backend: Backend = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a federation on one machine, and test the final model.

    Shows the mean party, the best party, the federation and pooled data (the upper bound), and a verdict: who gains,
    who loses, why, and what to try. See docs/verdict.md.
    """
    with session(as_json, workers):
        from ..election.election import Election
        from ..report.metrics import Metrics
        from ..report.page import check_destination
        from ..runtime.executor import spread
        from ..simulation import baselines, check_empty, gain, read_parties, save, simulate_parties

        if report is not None:
            check_destination(report, (election, data, test, out))
        agreed = Election.read(election)
        if out is not None:
            check_empty(out)
        with spread(backend):
            shared, test_data = read_parties(agreed, data, parties, split, seed, test, holdout)
            run = simulate_parties(agreed, shared)
            without = baselines(agreed, run.parties, test_data) if compare else None
        metrics: dict[str, Metrics] = {"outcome": run.evaluate(test_data)}
        metrics["outcome"].warn_if_missed("the federation's model")
        verdict = None
        if without is not None:
            assert without.pooled_metrics is not None
            alone = {"alone": without.mean_metrics, "best": without.metrics[without.best]}
            metrics = {**alone, **metrics, "together": without.pooled_metrics}
            verdict = gain(agreed, run, without, test_data)
        if out is not None:
            save(run, out)
        sent = run.outcome.bytes / len(run.ballots)
        names = {
            "alone": "mean party",
            "best": "" if without is None else f"best party ({without.best})",
            "outcome": f"federation ({agreed.method.name})",
            "together": "pooled data (upper bound)",
        }
        rows = [
            [names[k], *score_cells(each), size(round(sent)) if k == "outcome" else ""] for k, each in metrics.items()
        ]
        about = f"{plural(len(run.parties), 'party', 'parties')}, {split}, {plural(len(test_data), 'test row')}"
        if report is not None:
            from ..report.federation import simulate_page
            from ..report.page import Table
            from ..report.page import save as save_page

            counts = {party: agreed.target.class_counts(own.y) for party, own in run.parties.items()}
            quality = Table(
                "The final model on the test rows", ["model", *agreed.target.columns.values(), "sent"], rows
            )
            tested = metrics["outcome"], run.probabilities(test_data), test_data.y
            facts = {
                "election": f"{agreed.name} ({agreed.digest})",
                "method": agreed.method.name,
                "data": str(data),
                "split": f"{about}, seed {seed}",
            }
            text = simulate_page(agreed.name, facts, quality, tested, counts, run.outcome, verdict)
            save_page(report, text, secret=agreed.level != "L0")
        if as_json:
            described = {
                "accuracy": {name: each.values.get("accuracy") for name, each in metrics.items()},
                "metrics": {name: each.describe() for name, each in metrics.items()},
                "bytes_per_party": sent,
            }
            print_json(
                {**described, **({} if verdict is None else {"gain": verdict.describe()}), **run.outcome.summary()}
            )
            return
        print_table(f"{agreed.name}: {about}", ["", *agreed.target.columns.values(), "sent"], rows)
        print("sent: the mean size of a ballot. Balanced accuracy is the mean recall of the classes.")
        print_lines(() if verdict is None else verdict.sentences())
        if agreed.level != "L0":
            print("Privacy", "\n  ".join(run.outcome.ledger.describe(whole=True)))
        if out is not None:
            print(f"Saved: {out / 'outcome'} and {out / 'box'}.")
        if report is not None:
            print(f"Report: {report}.")
