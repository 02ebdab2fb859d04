from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..report.text import plural, print_json, print_lines, print_table
from .reading import reads_files
from .terminal import (
    AllRows,
    AsJson,
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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..comparison import PeerResult, RoundResult
    from ..contest import Contest

EXAMPLE = (
    "Example: oneballot compare election.toml --data all.csv --parties 10 --split dirichlet:0.5 "
    "--peer solo --peer fedavg:rounds=50,epochs=2 --out comparison"
)


@reads_files("data", "test")
def command(
    election: ElectionFile,
    data: AllRows,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="Also compare with an iterative or central method: NAME or NAME:SETTING=VALUE,…; may be repeated. See "
            "docs/peers.md."
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare with this method only: NAME or NAME:SETTING=VALUE,…; may be repeated. Default: all that the "
            "election's data allow."
        ),
    ] = None,
    parties: Parties = None,
    split: Split = "dirichlet:0.5",
    test: TestRows = None,
    holdout: Holdout = 0.2,
    seed: SplitSeed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write comparison.json, .csv and .png into this folder, after every peer.")
    ] = None,
    report: ReportFile = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a federation with every method, and recommend one.

    All methods that the election's data allow run among the same parties, costly ones only if named, beside the mean
    party, the best party and pooled data. Peers are iterative and central methods. What cannot run is
    skipped, with the reason.
    """
    with session(as_json, workers):
        from ..comparison import check_peer, describe, election_result, read_peer, save
        from ..comparison import compare as compare_with
        from ..contest import run_contest
        from ..election.election import Election
        from ..errors import ElectionError, OneBallotError
        from ..report.page import check_destination
        from ..runtime.files import check_writable
        from ..simulation import read_parties

        if report is not None:
            check_destination(report, (election, data, test, out))
        agreed, peers = Election.read(election), {text: read_peer(text) for text in peer or ()}
        skipped: dict[str, str] = {}
        for text, each in peers.items():
            try:
                check_peer(each, agreed)
            except ElectionError as error:
                skipped[text] = str(error)
        if out is not None:
            check_writable(out)
        shared, tested = read_parties(agreed, data, parties, split, seed, test, holdout)
        contest = run_contest(agreed, shared, tested, method or None)
        results = {e.label: election_result(e.simulation, tested, e.seconds) for e in contest.entries}
        own = results[agreed.method.name]
        about = {
            "election": agreed.digest,
            "data": str(data),
            "parties": len(shared),
            "split": split,
            "seed": seed,
            "rows": sum(map(len, shared.values())),
            "test_rows": len(tested),
            **contest.describe(),
        }
        found: dict[str, PeerResult] = {}
        for text, each in peers.items():
            if text in skipped:
                continue
            try:
                found[text] = compare_with(each, agreed, shared, tested, outcome=contest.entries[0].simulation.outcome)
            except OneBallotError as error:
                skipped[text] = str(error)
            if out is not None:
                save(out, agreed.method.name, own, found, about, results)
        about["skipped"] += [{"name": text, "reason": reason} for text, reason in skipped.items()]
        if out is not None:
            save(out, agreed.method.name, own, found, about, results)
        if report is not None:
            from ..report.federation import compare_page, peers_rows
            from ..report.page import Table
            from ..report.page import save as save_page

            curves = {name: [(r.bytes, r.accuracy)] for name, r in results.items()}
            curves |= {name: [(r.bytes, r.accuracy) for r in result.rounds] for name, result in found.items()}
            peer_table = Table("Accuracy of the peers", *peers_rows(agreed.method.name, own, found)) if found else None
            facts = {k: about[k] for k in ("election", "data", "parties", "split", "seed", "rows")}
            facts |= {"test rows": len(tested), "election": f"{agreed.name} ({agreed.digest})"}
            left_out = {**contest.skipped, **skipped}
            text = compare_page(agreed.name, facts, contest, curves, peer_table, left_out)
            save_page(report, text, secret=agreed.level != "L0")
        if as_json:
            print_json(describe(agreed.method.name, own, found, about))
            return
        _show_methods(
            contest, f"{agreed.name}: {plural(len(shared), 'party', 'parties')}, {split}, {len(tested)} test rows"
        )
        if found:
            _show_peers(agreed.method.name, own, found)
        reasons = {**contest.skipped, **skipped}
        print_lines(f"Skipped {name}: {reason.removeprefix(f'{name}: ')}" for name, reason in reasons.items())
        print_lines(contest.sentences())
        if out is not None:
            print(f"Saved: {out}/comparison.json, .csv and .png.")
        if report is not None:
            print(f"Report: {report}.")


def _show_methods(contest: Contest, title: str) -> None:
    from ..report.federation import methods_table

    table = methods_table(contest)
    print_table(title, ["", *map(str, table.columns[1:])], [list(map(str, row)) for row in table.rows])


def _show_peers(name: str, own: RoundResult, found: Mapping[str, PeerResult]) -> None:
    from ..report.federation import peers_rows

    print_table("Accuracy of the peers", *peers_rows(name, own, found))
    print("bytes: sent and received by all parties together. equal bytes: accuracy after the last round within")
    print(f"the bytes of {name}; – if one round needs more. passes at: the first round as accurate.")
