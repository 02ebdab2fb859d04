from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..report.text import print_json, print_lines, print_table
from .reading import reads_files
from .terminal import AsJson, OutcomeFolder, Workers, session

if TYPE_CHECKING:
    from ..server.appraise import Metric

EXAMPLE = "Example: oneballot appraise outcome/ --data validation.csv --out appraisal.html"


class Measured(StrEnum):
    accuracy = "accuracy"
    balanced = "balanced"


METRICS: dict[Measured, Metric] = {Measured.accuracy: "accuracy", Measured.balanced: "balanced accuracy"}


@reads_files("data")
def command(
    outcome: OutcomeFolder,
    data: Annotated[Path, typer.Option(help="Labelled validation rows, which no party has used for training.")],
    election: Annotated[
        Path | None, typer.Option(help="The election.toml. Default: the one here or beside the outcome's folder.")
    ] = None,
    metric: Annotated[Measured, typer.Option(help="Accuracy, or balanced: every class counts alike.")] = (
        Measured.accuracy
    ),
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Train the final model of every coalition, where otherwise a quick proxy is used."
        ),
    ] = False,
    orders: Annotated[
        int, typer.Option(min=4, help="With more than 12 parties: how many orders of the parties to sample.")
    ] = 400,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the sampled orders.")] = 0,
    box: Annotated[
        str | None, typer.Option("--from", help="The box with the ballots, if the outcome holds only sums of them.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="The server's secret key, if ballots are encrypted. Default: server.key here or beside the election."
        ),
    ] = None,
    server_only: Annotated[
        bool,
        typer.Option("--server-only", help="At L1: use votes without noise; the files are named …do-not-publish."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Also write a page (.html) or a picture (.png, .svg, .pdf) to this file.")
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Show what each party adds to the outcome.

    The Shapley value of a party is the mean of what it adds, on labelled rows, to all coalitions of other parties:
    exact up to 12 parties, sampled beyond, with 95 % intervals. Nobody is asked again. `oneballot report` shows the
    result too. See docs/appraise.md.
    """
    with session(as_json, workers):
        from ..ballot.encryption import find_server_key
        from ..boxes import box_at
        from ..report.appraisal import COLUMNS, check_output, rows_of, write
        from ..report.outcome.write import secret_path
        from ..server.appraise import appraise
        from ..server.appraise.record import save_appraisal
        from ..server.files import find_election
        from ..server.outcome import Outcome

        loaded = Outcome.load(outcome)
        agreed, path = find_election(loaded, outcome, election)
        if out is not None:
            out = secret_path(out) if agreed.level == "L1" else out
            check_output(out, data, path)
        rows = loaded.read_labelled(data)
        appraisal = appraise(
            agreed,
            loaded,
            rows.X,
            rows.y,
            metric=METRICS[metric],
            refit=exact,
            orders=orders,
            seed=seed,
            box=None if box is None else box_at(box),
            key=find_server_key(agreed, key, path.parent),
            server_only=server_only,
        )
        save_appraisal(outcome, appraisal)
        if out is not None:
            write(appraisal, out, agreed.name)
        if as_json:
            print_json(appraisal.describe() | ({} if out is None else {"written": str(out)}))
            return
        print_table(f"What each party adds: points of {appraisal.metric}", list(COLUMNS), rows_of(appraisal))
        print_lines(appraisal.sentences)
        if appraisal.secret:
            print("DO NOT PUBLISH: these numbers come from votes without noise and are for the server alone.")
        if out is not None:
            print(f"The picture is in {out}.")
