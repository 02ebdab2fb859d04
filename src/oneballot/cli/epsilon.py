from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..report.text import percent, print_json, print_table
from .terminal import AsJson, session

EXAMPLE = "Example: oneballot epsilon --gamma 0.04 --queries 40 --level L2 --partitions 2 --accountant paper"


def command(
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="gumbel, gaussian, laplace, or that of a plug-in. auto, the default if only a budget is given, "
            "chooses the most accurate one. With --scale the default is gumbel."
        ),
    ] = None,
    gamma: Annotated[float | None, typer.Option(help="Laplace noise with scale 1/gamma.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Gaussian noise with this standard deviation.")] = None,
    scale: Annotated[float | None, typer.Option(help="The noise scale: b of Gumbel, 1/gamma, sigma.")] = None,
    budget: Annotated[
        float | None, typer.Option("--epsilon", help="The privacy budget; computes the noise scale or the queries.")
    ] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="The number of queries: public rows to label.")] = None,
    classes: Annotated[int, typer.Option(min=2, max=10_000, help="The number of classes.")] = 2,
    open_vote: Annotated[bool, typer.Option("--open", help="Open vote: adds the class “not mine”.")] = False,
    delta: Annotated[float, typer.Option(help="The probability with which the guarantee may fail.")] = 1e-5,
    level: Annotated[Literal["L1", "L2"], typer.Option(help="L1: noise at the tally. L2: noise at each party.")] = "L1",
    unit: Annotated[
        Literal["row", "party"] | None,
        typer.Option(
            help="The unit to protect: a party at L1; at L2 a row (with --ids all rows of an ID) or, with --subsets, a "
            "whole party."
        ),
    ] = None,
    partitions: Annotated[int, typer.Option(min=1, help="s of FedKT.")] = 1,
    subsets: Annotated[
        int | None,
        typer.Option(min=1, help="t of FedKT, at L2; also shows how often the right label wins if all agree."),
    ] = None,
    parties: Annotated[
        int | None, typer.Option(min=1, help="At L1: shows how often the right label wins if all agree.")
    ] = None,
    silos: Annotated[int, typer.Option(min=1, help="At L2: how many parties may hold rows of one person.")] = 1,
    counts: Annotated[
        float | None,
        typer.Option(help="At L2: ballots hold class counts with Gaussian noise of this standard deviation."),
    ] = None,
    adjacency: Annotated[
        Literal["replace", "add-remove", "swap"],
        typer.Option(
            help="How neighbouring data differ. At L2 with IDs, replace is the same ID with other content, and swap is "
            "another ID: two votes move."
        ),
    ] = "replace",
    ids: Annotated[bool, typer.Option(help="At L2: rows have stable IDs, or else are identified by content.")] = True,
    accountant: Annotated[
        Literal["tight", "rdp", "paper", "advanced"], typer.Option(help="How costs are composed.")
    ] = "tight",
    paper_orders: Annotated[
        int, typer.Option(min=1, help="The largest order of moments for `paper`; its authors use 8.")
    ] = 8,
    compare: Annotated[bool, typer.Option("--compare", help="Show a table of all mechanisms and accountants.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Plot epsilon against the number of queries into this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the privacy guarantee of noisy votes, before training.

    Give two of noise scale, queries and epsilon; the command computes the third. The results do not depend on any data
    and may be published.
    """
    with session(as_json):
        from ..privacy.calculator import Question, answer, compare_all
        from ..report.plots import check_image_path

        given = {"gamma": gamma, "sigma": sigma, "scale": scale}
        question = Question(
            noise={name: value for name, value in given.items() if value is not None},
            queries=queries,
            budget=budget,
            mechanism=mechanism,
            classes=classes,
            delta=delta,
            level=level,
            partitions=partitions,
            adjacency=adjacency,
            stable_ids=ids,
            accountant=accountant,
            unit=unit,
            parties=parties,
            subsets=subsets,
            silos=silos,
            open_vote=open_vote,
            counts=counts,
            paper_orders=paper_orders,
        )
        if picture is not None:
            check_image_path(picture)
        result = answer(question)
        compared = compare_all(result, question) if compare else []
        if picture is not None:
            from ..report.plots import plot_curve

            points = sorted({round(10 ** (k / 10) * result["queries"]) for k in range(-20, 11)} - {0})
            epsilons = [question.epsilon(result["mechanism"], result["scale"], n) for n in points]
            title = f"{result['mechanism']}, scale {result['scale']:.4g}, delta {delta:g}, {level}"
            mark = (result["queries"], result["epsilon"])
            plot_curve(points, epsilons, "queries", "epsilon", title, picture, mark=mark)
        if as_json:
            print_json(result | ({"compared": compared} if compare else {}))
            return
        _print(result, question.partitions)
        if compare:
            rows = [
                [r["mechanism"], f"{r['scale']:.4g}", r["accountant"], _four_digits(r["epsilon"]), percent(r["error"])]
                for r in compared
            ]
            title = "Noise of equal cost; error: how often another class wins against a lead of 4 Gumbel scales"
            print_table(title, ["mechanism", "scale", "accountant", "epsilon", "error"], rows)
        if picture is not None:
            print(f"Plot: {picture}")


def _print(result: dict[str, Any], partitions: int) -> None:
    from ..privacy import mechanisms
    from ..privacy.releases import UNIT_NAMES, describe_unit

    epsilon, unit, adjacency = _four_digits(result["epsilon"]), result["unit"], result["adjacency"]
    print(f"epsilon {epsilon} at delta {result['delta']:g}, for each {UNIT_NAMES[unit]}, adjacency {adjacency}:")
    print(f"{result['adjacency_means']}.")
    noise = f"{mechanisms.find(result['mechanism']).describe()}, scale {result['scale']:.6g}"
    silos = f", silos per person: {result['silos']}" if "silos" in result else ""
    counts = f", class counts with noise of {result['counts_sigma']:g}" if "counts_sigma" in result else ""
    print(f"{result['queries']:,} queries, partitions: {partitions}{silos}, {noise}{counts}.")
    if "voters" in result:
        voters, often, needed = result["voters"], percent(result["right_label_wins"]), result["voters_needed"]
        more = "more voters would need more noise" if needed is None else f"90 % takes {needed:,} voters"
        print(f"If all {voters:,} voters agree, their label wins {often} of the time; {more}.")
    print(f"Accountant {result['accountant']}; depends on no data, so it may be published.")
    if about := describe_unit(unit, adjacency):
        print(f"{about[0].upper()}{about[1:]}.")


def _four_digits(epsilon: float) -> str:
    """Four decimal places; for small values, four significant digits."""
    from ..privacy.ledger import format_epsilon

    return f"{epsilon:.4f}" if epsilon == 0 or epsilon >= 0.01 else format_epsilon(epsilon)
