"""`oneballot flower`: write the files for an election over Flower."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_json
from .reading import Reading, current, reads_files
from .terminal import AsJson, session

app = typer.Typer(
    no_args_is_help=True,
    help="Run an election over Flower (extra `flower`; docs/flower.md).",
    epilog="Example: oneballot flower new app/ --election election.toml --simulate parties/",
    rich_markup_mode=None,
)
ElectionOption = Annotated[Path, typer.Option(help="Your copy of the election.toml that all parties share.")]


@app.callback()
def group() -> None:
    """Run an election over Flower (extra `flower`; docs/flower.md)."""


@app.command(epilog="Example: oneballot flower new app/ --election election.toml --simulate parties/")
def new(
    folder: Annotated[Path, typer.Argument(help="The folder of the app, for `flwr run`.")],
    election: ElectionOption,
    box: Annotated[Path, typer.Option(help="The folder for ballots.")] = Path("box"),
    out: Annotated[Path, typer.Option(help="The folder for the outcome.")] = Path("outcome"),
    key: Annotated[
        Path | None,
        typer.Option(help="The server's key, if ballots are encrypted; default: server.key here or by the election."),
    ] = None,
    simulate: Annotated[
        Path | None,
        typer.Option(help="For a simulation: a folder with one data file per party, named after it, and keys if used."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the app with which the server runs an election.

    It runs on one machine or with remote nodes.
    """
    with session(as_json):
        from ..integrations.flower.config import write_app
        from ..integrations.flower.party import simulated_parties

        parsed = write_app(folder, election, box=box, outcome=out, key=key, simulated=simulate)
        nodes = len(simulated_parties(simulate)) if simulate else None
        if as_json:
            print_json({"app": str(folder), "election": parsed.digest, "nodes": nodes})
            return
        print(f"{folder} runs {parsed.name}, {parsed.digest}.")
        local = f" --federation-config num-supernodes={nodes}" if nodes else ""
        print(f"Start it with: flwr run {folder} {'local' if nodes else 'SUPERLINK'}{local} --stream")


@app.command(epilog="Example: oneballot flower node node.toml --party clinic-a --election election.toml --data a.csv")
@reads_files("data")
def node(
    file: Annotated[Path, typer.Argument(help="The file to write, for `flower-supernode --node-config`.")],
    party: Annotated[str, typer.Option(help="Your name in this election.")],
    election: ElectionOption,
    data: Annotated[Path, typer.Option(help="Your rows, with labels: CSV, Parquet, NPZ or LIBSVM.")],
    key: Annotated[
        Path | None, typer.Option(help="Your secret key; default: PARTY.key here or by the election.")
    ] = None,
    keep: Annotated[Path, typer.Option(help="The folder for your own copy of the ballot.")] = Path("ballots"),
    learner: Annotated[
        list[str] | None,
        typer.Option(help="Your own choice: [ROLE=]NAME[:KEY=VALUE,…], e.g. teacher=xgboost:rounds=20."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write your node's settings, after checking your rows and key.

    Nothing is trained or sent.
    """
    with session(as_json):
        from ..integrations.flower.config import write_node

        reading = current.get(Reading())
        parsed = write_node(
            file, party, election, data, keep=keep, key=key, learners=tuple(learner or ()),
            dialect=reading.dialect, mapping=reading.file_mapping,
        )  # fmt: skip
        if as_json:
            print_json({"node": str(file), "party": party, "election": parsed.digest})
            return
        print(f"{file}: {party} votes in {parsed.name}, {parsed.digest}, and in no other election.")
        print(f"Start the node with: flower-supernode --node-config {file} --superlink HOST:PORT …")
