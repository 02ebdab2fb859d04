from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click
import typer

from ..report.export import EXPORTERS
from ..report.text import print_json, print_lines
from .reading import reads_files
from .terminal import AsJson, OutcomeFolder, session

EXAMPLE = "Example: oneballot export outcome/ --to onnx --out model.onnx"
CHOICES = "; ".join(f"{name}: {exporter.what}" for name, exporter in EXPORTERS.items())


@reads_files("data")
def command(
    outcome: OutcomeFolder,
    to: Annotated[str, typer.Option(click_type=click.Choice(list(EXPORTERS)), help=f"{CHOICES}.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file (.onnx, .skops) or folder to write. Default: beside OUTCOME, with its name. "
            "It must not exist, unless --overwrite is given."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Rows to check the export on, and to distil an ensemble on. Default: drawn from the schema."),
    ] = None,
    least_agreement: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="With --to sklearn: accept a distilled model that agrees with the outcome on this share of held-out "
            "rows. Default: 0.95.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="The same as --least-agreement 0.")] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace an existing file, or an existing folder with an export of this kind."
        ),
    ] = False,
    trust_members: Annotated[
        bool,
        typer.Option(
            "--trust-members",
            help="Convert networks of the parties, which happens outside the sandbox. Only if you trust every party.",
        ),
    ] = False,
    publish_rows: Annotated[
        bool,
        typer.Option(
            "--publish-rows",
            help="Export a model that holds rows of parties verbatim. Only if every party agrees.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the model for use without OneBallot.

    What is written is compared with the outcome's own predictions on 1,000 rows, and is kept only if they agree. If an
    outcome cannot be exported, the command says why. ONNX is exact. scikit-learn has no ensembles, so --to sklearn
    distils one into a single forest: an approximation, which is refused if it agrees with the outcome on fewer than
    95 % of held-out rows (--least-agreement). See docs/export.md.
    """
    with session(as_json):
        from ..report.export import export

        exported = export(
            outcome,
            to,
            out,
            data=data,
            least_agreement=least_agreement,
            force=force,
            overwrite=overwrite,
            trust_members=trust_members,
            publish_rows=publish_rows,
        )
        if as_json:
            print_json(exported.describe())
            return
        print(f"{exported.path}: {exported.checked}")
        for sentence in exported.lost:
            print(f"  {sentence}")
        print_lines(exported.usage)
