from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_json, print_lines, print_table, score
from .reading import reads_files
from .terminal import AsJson, OutcomeFolder, Workers, session

EXAMPLE = "Example: oneballot benefit outcome/ --data mine.csv --election election.toml --party clinic-a"


@reads_files("data", "test")
def command(
    outcome: OutcomeFolder,
    data: Annotated[Path, typer.Option(help="Your rows, with labels: the file that you have cast.")],
    election: Annotated[Path, typer.Option(help="The election.toml that all parties share.")] = Path("election.toml"),
    party: Annotated[
        str | None, typer.Option(help="Your name in this election. Default: that of the only ballot in --keep.")
    ] = None,
    keep: Annotated[Path, typer.Option(help="The folder with your own copy of the ballot.")] = Path("ballots"),
    test: Annotated[Path | None, typer.Option(help="Labelled rows that were not cast.")] = None,
    learner: Annotated[
        list[str] | None, typer.Option(help="Your own learner, as for `oneballot cast`: [ROLE=]NAME[:KEY=VALUE,…].")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, max=20, help="In an ensemble: into how many folds to divide.")] = 5,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Compare the outcome with a model of your own rows. Nothing leaves your machine.

    Your rows are inside the outcome. In an ensemble your member is therefore replaced, fold by fold, by one that was
    trained without the rows to be tested. An outcome of one model needs rows that were not cast: those that
    `oneballot cast --holdout` kept back, or --test FILE. The server can put what --json prints into its report
    (`oneballot report --benefit`), if you send it. See docs/verdict.md.
    """
    with session(as_json, workers):
        from ..benefit import measure
        from ..election.election import Election
        from ..party.submit import choose_learner
        from ..server.outcome import Outcome

        agreed, loaded = Election.read(election), Outcome.load(outcome)
        name = party or _only_ballot(keep)
        found = measure(
            agreed,
            loaded,
            agreed.read_data(data),
            party=name,
            keep=keep,
            test=None if test is None else agreed.read_data(test),
            learners=dict(choose_learner(agreed, text) for text in learner or ()),
            folds=folds,
        )
        if as_json:
            print_json({"election": agreed.digest, "party": name, **found.describe()})
            return
        rows = [
            [
                agreed.target.metrics[name],
                score(name, found.own[name]),
                score(name, found.outcome[name]),
                found.shown(name),
            ]
            for name in dict.fromkeys([*agreed.target.judged(), *agreed.target.columns])
            if name in found.own.values and name in found.differences
        ]
        print_table(f"{agreed.name}: {found.own.rows:,} rows", ["", "your model", "outcome", "difference"], rows)
        print_lines(found.sentences())


def _only_ballot(keep: Path) -> str | None:
    """The party of the only ballot in the folder; earlier ballots of a party are NAME.1.ballot, NAME.2.ballot."""
    names = {path.name.removesuffix(".ballot") for path in keep.glob("*.ballot")}
    names -= {name for name in names if name.rpartition(".")[0] in names and name.rpartition(".")[2].isdigit()}
    if len(names) != 1:
        return None
    from ..party.outbox import party_of

    return party_of(keep / f"{names.pop()}.ballot")
