from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .terminal import AsJson, percent, print_json, print_table, session

EXAMPLE = "Example: oneballot epsilon --gamma 0.04 --queries 40 --level L2 --partitions 2 --accountant paper"


def command(
    mechanism: Annotated[
        Literal["auto", "gumbel", "gaussian", "laplace"] | None,
        typer.Option(
            help="auto, the default where only a budget is given, takes the one that errs least; a --scale without a "
            "mechanism is gumbel's."
        ),
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Laplace noise of scale 1/gamma.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Gaussian noise of this deviation.")] = None,
    scale: Annotated[float | None, typer.Option(help="The scale of the noise: b of Gumbel, 1/gamma, sigma.")] = None,
    budget: Annotated[
        float | None, typer.Option("--epsilon", help="A budget: asks for the noise, or the queries.")
    ] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="How many public rows are labelled.")] = None,
    classes: Annotated[int, typer.Option(min=2, max=10_000, help="How many classes a vote is among.")] = 2,
    open_vote: Annotated[bool, typer.Option("--open", help="The open vote: one more class, not mine.")] = False,
    delta: Annotated[float, typer.Option(help="The probability with which the guarantee may fail.")] = 1e-5,
    level: Annotated[Literal["L1", "L2"], typer.Option(help="L1: noise at the tally. L2: noise at each party.")] = "L1",
    unit: Annotated[
        Literal["row", "party"] | None,
        typer.Option(help="Who is protected: a party at L1; a row at L2, or a whole party, with --subsets."),
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, help="s of FedKT.")] = 1,
    subsets: Annotated[
        int | None,
        typer.Option(min=1, help="t of FedKT, at L2: how often the right label wins if all t agree."),
    ] = None,
    parties: Annotated[
        int | None, typer.Option(min=1, help="At L1: how often the right label wins if so many parties agree.")
    ] = None,
    silos: Annotated[int, typer.Option(min=1, help="At L2: in how many parties' data a person may be.")] = 1,
    counts: Annotated[
        float | None,
        typer.Option(help="At L2: ballots carry class counts too, with Gaussian noise of this deviation."),
    ] = None,
    adjacency: Annotated[Literal["replace", "add-remove"], typer.Option(help="What a neighbour is.")] = "replace",
    ids: Annotated[bool, typer.Option(help="At L2: rows have stable IDs, or are told apart by their content.")] = True,
    accountant: Annotated[
        Literal["tight", "rdp", "paper", "advanced"], typer.Option(help="How it is counted.")
    ] = "tight",
    paper_orders: Annotated[int, typer.Option(min=1, help="Up to which moment `paper` looks; its authors: 8.")] = 8,
    compare: Annotated[bool, typer.Option("--compare", help="A table of all mechanisms and accountants.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw epsilon against the number of queries into this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What noise on votes costs in differential privacy, before anybody has trained anything.

    Give the noise and the queries for epsilon; epsilon and the queries for the noise; epsilon and the noise for the
    number of queries. These figures do not depend on any data and may be published.
    """
    with session(as_json):
        from ..privacy.calculator import Question, answer, compare_all
        from ..report.plots import check_image_path

        given = {"gamma": gamma, "sigma": sigma, "scale": scale}
        question = Question(
            noise={name: value for name, value in given.items() if value is not None}, queries=queries, budget=budget,
            mechanism=mechanism, classes=classes, delta=delta, level=level, partitions=partitions, adjacency=adjacency,
            stable_ids=ids, accountant=accountant, unit=unit, parties=parties, subsets=subsets, silos=silos,
            open_vote=open_vote, counts=counts, paper_orders=paper_orders,
        )  # fmt: skip
        if picture is not None:
            check_image_path(picture)
        told = answer(question)
        compared = compare_all(told, question) if compare else []
        if picture is not None:
            from ..privacy.calculator import curve
            from ..report.plots import plot_curve

            asked = sorted({round(10 ** (k / 10) * told["queries"]) for k in range(-20, 11)} - {0})
            title = f"{told['mechanism']}, scale {told['scale']:.4g}, delta {delta:g}, {level}"
            found = (told["queries"], told["epsilon"])
            plot_curve(asked, curve(question, told, asked), "queries", "epsilon", title, picture, mark=found)
        if as_json:
            print_json(told | ({"compared": compared} if compare else {}))
            return
        _print(told, question.partitions)
        if compare:
            rows = [[r["mechanism"], f"{r['scale']:.4g}", r["accountant"], _four(r["epsilon"]), percent(r["error"])]
                    for r in compared]  # fmt: skip
            title = (
                "Noise that costs the same, what each accountant says, and how often a lead of 4 gumbel scales loses"
            )
            print_table(title, ["mechanism", "scale", "accountant", "epsilon", "loses"], rows)
        if picture is not None:
            print(f"Drawn: {picture}")


def _print(told: dict[str, Any], partitions: int) -> None:
    print(f"epsilon {_four(told['epsilon'])} at delta {told['delta']:g}, for each {told['unit']}, {told['adjacency']}.")
    noise = f"{told['mechanism']} noise of scale {told['scale']:.6g}"
    silos = f", silos of a person: {told['silos']}" if "silos" in told else ""
    counts = f", class counts with noise of {told['counts_sigma']:g}" if "counts_sigma" in told else ""
    print(f"{told['queries']:,} queries, partitions: {partitions}{silos}, {noise}{counts}.")
    if "voters" in told:
        wins = (
            f"If all {told['voters']:,} voters agree, their label wins {percent(told['right_label_wins'])} of the time"
        )
        needed = told["voters_needed"]
        print(f"{wins}; more voters would need more noise." if needed is None else f"{wins}; 90 % takes {needed:,}.")
    print(f"Accountant {told['accountant']}; it depends on no data, so it may be published.")
    if told["unit"] == "row":
        print("The unit is a row: several rows of one person are a group, and cost more.")


def _four(epsilon: float) -> str:
    """Four digits after the point; of a small one, four that say something."""
    from ..privacy.ledger import format_epsilon

    return f"{epsilon:.4f}" if epsilon == 0 or epsilon >= 0.01 else format_epsilon(epsilon)
