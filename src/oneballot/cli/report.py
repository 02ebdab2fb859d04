from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..report.text import print_json
from .reading import reads_files
from .terminal import AsJson, OutcomeFolder, session

EXAMPLE = "Example: oneballot report outcome/ --data test.csv --by site --election election.toml --out report.html"


@reads_files("data")
def command(
    outcome: OutcomeFolder,
    data: Annotated[Path | None, typer.Option(help="Labelled rows that were not used for training.")] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Also test the rows of each value of this column of --data; may be repeated."),
    ] = None,
    election: Annotated[
        Path | None, typer.Option(help="The election.toml, for the roster, the method and the public rows.")
    ] = None,
    benefit: Annotated[
        list[Path] | None,
        typer.Option(help="What a party's `oneballot benefit --json` printed, in a file; may be repeated."),
    ] = None,
    comparison: Annotated[
        Path | None,
        typer.Option(
            help="The comparison.json of `oneballot compare --out`: adds other methods and a model of pooled data."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write. Its name must end in .html.")] = Path("report.html"),
    server_page: Annotated[
        bool,
        typer.Option(
            "--server-page",
            help="At L1: also write what only the server may see, to a second page named …do-not-publish.html.",
        ),
    ] = False,
    public_data: Annotated[
        bool,
        typer.Option(
            "--public-data", help="At L1: the rows of --data may be published, so show figures about them to everyone."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a page about an outcome.

    Who decided, what each party brought, how good the model is, privacy, bytes, and how to reproduce it. One HTML file
    without links to other files or the network. Without --data it says what is unknown. At L1 it holds nothing that has
    no noise. See docs/report.md.
    """
    with session(as_json):
        from ..report.outcome.benefits import check_level, read_benefits
        from ..report.outcome.comparison import read_comparison
        from ..report.outcome.subject import assess, load
        from ..report.outcome.write import check_options, secret_path, write
        from ..report.page import check_destination

        for page in (out, secret_path(out)) if server_page else (out,):
            check_destination(page, (outcome, data, election, comparison, *(benefit or ())))
        subject = load(outcome, election)
        check_options(subject, data, by or (), server_page=server_page, public_data=public_data)
        if benefit:
            check_level(subject.level, server_page=server_page)
            subject = subject.with_benefits(read_benefits(benefit, subject.outcome))
        if comparison is not None:
            check_level(subject.level, "--comparison", server_page=server_page)
            subject = subject.with_comparison(read_comparison(comparison, subject.outcome))
        if data is not None:
            subject = subject.with_test(assess(subject.outcome, data, by or (), publishable=public_data))
        words = ["oneballot", "report", str(outcome)]
        words += [] if data is None else ["--data", str(data)]
        words += [word for column in by or () for word in ("--by", column)]
        words += [] if election is None else ["--election", str(election)]
        words += [word for path in benefit or () for word in ("--benefit", str(path))]
        words += [] if comparison is None else ["--comparison", str(comparison)]
        words += ["--server-page"] * server_page + ["--public-data"] * public_data
        written = write(subject.made_by(shlex.join([*words, "--out", str(out)])), out, server_page=server_page)
        if as_json:
            print_json({"pages": [str(path) for path in written]})
            return
        print(f"The report is in {written[0]}. Open it in a browser, or print it.")
        for path in written[1:]:
            print(f"DO NOT PUBLISH {path}: it holds names, votes and counts without noise.")
