from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .reading import reads_files
from .terminal import (
    AllRows,
    AsJson,
    ElectionFile,
    Holdout,
    Parties,
    Split,
    SplitSeed,
    TestRows,
    Workers,
    percent,
    plural,
    print_json,
    print_table,
    score_cells,
    session,
    size,
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
        from ..runtime.files import check_writable
        from ..simulation import read_parties

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
        if as_json:
            print_json(describe(agreed.method.name, own, found, about))
            return
        _show_methods(
            contest, f"{agreed.name}: {plural(len(shared), 'party', 'parties')}, {split}, {len(tested)} test rows"
        )
        if found:
            _show_peers(agreed.method.name, own, found)
        for name, reason in {**contest.skipped, **skipped}.items():
            print(f"Skipped {name}: {reason.removeprefix(f'{name}: ')}")
        for sentence in contest.sentences():
            print(sentence)
        if out is not None:
            print(f"Saved: {out}/comparison.json, .csv and .png.")


def _show_methods(contest: Contest, title: str) -> None:
    without = contest.without
    assert without.pooled_metrics is not None
    rows = [
        ["mean party", *score_cells(without.mean_metrics), "", ""],
        [f"best party ({without.best})", *score_cells(without.metrics[without.best]), "", ""],
    ]
    for entry in contest.entries:
        name = entry.label.replace(":", ": ", 1) + (" (collapsed)" if entry.collapsed else "")
        rows.append([name, *score_cells(entry.metrics), size(entry.bytes), f"{entry.seconds:.1f}"])
    rows.append(["pooled data (upper bound)", *score_cells(without.pooled_metrics), "", ""])
    print_table(title, ["", *contest.entries[0].metrics.target.columns.values(), "sent", "seconds"], rows)


def _show_peers(name: str, own: RoundResult, found: Mapping[str, PeerResult]) -> None:
    rows = [[f"{name}, one message", percent(own.accuracy), "", "", "1", size(own.bytes), ""]]
    for text, result in found.items():
        same, passing = result.within(own.bytes), result.passing(own.accuracy)
        rows.append(
            [
                text.replace(":", ": ", 1).replace(",", ", "),
                percent(result.first.accuracy),
                "–" if same is None else percent(same.accuracy),
                percent(result.last.accuracy),
                str(len(result.rounds)),
                size(result.last.bytes),
                "–" if passing is None else str(passing),
            ]
        )
    header = ["", "1 round", "equal bytes", "at the end", "rounds", "bytes", "passes at"]
    print_table("Accuracy of the peers", header, rows)
    print("bytes: sent and received by all parties together. equal bytes: accuracy after the last round within")
    print(f"the bytes of {name}; – if one round needs more. passes at: the first round as accurate.")
