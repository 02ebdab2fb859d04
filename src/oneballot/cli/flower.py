from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .terminal import AsJson, print_json, session

app = typer.Typer(
    no_args_is_help=True, help="Run an election over Flower (extra `flower`; docs/flower.md).", rich_markup_mode=None
)
ElectionOption = Annotated[Path, typer.Option(help="Your copy of the election.toml that all parties share.")]


@app.callback()
def group() -> None:
    """Run an election over Flower (extra `flower`; docs/flower.md)."""


@app.command(epilog="Example: oneballot flower new app/ --election election.toml --simulate parties/")
def new(
    folder: Annotated[Path, typer.Argument(help="The folder of the app, for `flwr run`.")],
    election: ElectionOption,
    box: Annotated[Path, typer.Option(help="Where the server puts ballots.")] = Path("box"),
    out: Annotated[Path, typer.Option(help="The folder for the outcome.")] = Path("outcome"),
    key: Annotated[
        Path | None, typer.Option(help="The server's secret key, if ballots are encrypted; server.key here or beside.")
    ] = None,
    simulate: Annotated[
        Path | None,
        typer.Option(help="For a simulation: a folder with a file of rows a party, named after it; keys beside them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the app with which the server runs an election: at once on one machine, or with nodes elsewhere."""
    with session(as_json):
        from ..integrations.flower.folders import write_app
        from ..integrations.flower.party import simulated_parties

        agreed = write_app(folder, election, box=box, outcome=out, key=key, simulated=simulate)
        nodes = len(simulated_parties(simulate)) if simulate else None
        if as_json:
            print_json({"app": str(folder), "election": agreed.digest, "nodes": nodes})
            return
        print(f"{folder} runs {agreed.name}, {agreed.digest}.")
        local = f" --federation-config num-supernodes={nodes}" if nodes else ""
        print(f"Start it with: flwr run {folder} {'local' if nodes else 'SUPERLINK'}{local} --stream")


@app.command(epilog="Example: oneballot flower node node.toml --party clinic-a --election election.toml --data a.csv")
def node(
    file: Annotated[Path, typer.Argument(help="The file to write, for `flower-supernode --node-config`.")],
    party: Annotated[str, typer.Option(help="Your name in this election.")],
    election: ElectionOption,
    data: Annotated[Path, typer.Option(help="Your rows, with labels: CSV, Parquet, NPZ or LIBSVM.")],
    key: Annotated[Path | None, typer.Option(help="Your secret key; PARTY.key here or beside the election.")] = None,
    keep: Annotated[Path, typer.Option(help="Where your own copy of the ballot is kept.")] = Path("ballots"),
    learner: Annotated[
        list[str] | None,
        typer.Option(help="Your own choice: [ROLE=]NAME[:KEY=VALUE,…], e.g. teacher=xgboost:rounds=20."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write what your node votes with, after a look at election, rows and key. Nothing is trained or sent."""
    with session(as_json):
        from ..integrations.flower.folders import write_node

        agreed = write_node(file, party, election, data, keep=keep, key=key, learners=tuple(learner or ()))
        if as_json:
            print_json({"node": str(file), "party": party, "election": agreed.digest})
            return
        print(f"{file}: {party} will vote in {agreed.name}, {agreed.digest}, and in no other election.")
        print(f"Start the node with: flower-supernode --node-config {file} --superlink HOST:PORT …")
