from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    print_json,
    print_table,
    session,
    size,
)

EXAMPLE = (
    "Example: oneballot compare election.toml --data all.csv --parties 10 --split dirichlet:0.5 "
    "--peer solo --peer fedavg:rounds=50,epochs=2 --peer fedprox:mu=0.1,init=outcome --out comparison"
)


@reads_files("data", "test")
def command(
    election: ElectionFile,
    data: AllRows,
    peer: Annotated[
        list[str],
        typer.Option(help="What to compare with: NAME or NAME:SETTING=VALUE,…; may be repeated. See docs/peers.md."),
    ],
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
    """Simulate a federation, and compare it with other methods.

    Everything runs on one machine. Peers are iterative and central methods.
    """
    with session(as_json, workers):
        import time

        from ..comparison import PeerResult, check_peer, describe, election_result, read_peer, save
        from ..comparison import compare as compare_with
        from ..election.election import Election
        from ..runtime.files import check_writable
        from ..simulation import read_parties, simulate_parties

        agreed, peers = Election.read(election), {text: read_peer(text) for text in peer}
        for each in peers.values():
            check_peer(each, agreed)
        if out is not None:
            check_writable(out)
        shared, tested = read_parties(agreed, data, parties, split, seed, test, holdout)
        begin = time.monotonic()
        run = simulate_parties(agreed, shared)
        own = election_result(run, tested, time.monotonic() - begin)
        about = {
            "election": agreed.digest,
            "data": str(data),
            "parties": len(shared),
            "split": split,
            "seed": seed,
            "rows": sum(map(len, shared.values())),
            "test_rows": len(tested),
        }
        found: dict[str, PeerResult] = {}
        for text, each in peers.items():
            found[text] = compare_with(each, agreed, shared, tested, outcome=run.outcome)
            if out is not None:
                save(out, agreed.method.name, own, found, about)
        if as_json:
            print_json(describe(agreed.method.name, own, found, about))
            return
        rows = [[f"{agreed.method.name}, one message", percent(own.accuracy), "", "", "1", size(own.bytes), ""]]
        for text, each_found in found.items():
            same, passing = each_found.within(own.bytes), each_found.passing(own.accuracy)
            rows.append(
                [
                    text.replace(":", ": ", 1).replace(",", ", "),
                    percent(each_found.first.accuracy),
                    "–" if same is None else percent(same.accuracy),
                    percent(each_found.last.accuracy),
                    str(len(each_found.rounds)),
                    size(each_found.last.bytes),
                    "–" if passing is None else str(passing),
                ]
            )
        header = ["", "1 round", "equal bytes", "at the end", "rounds", "bytes", "passes at"]
        print_table(f"{agreed.name}: {len(shared)} parties, {split}, {len(tested)} test rows", header, rows)
        print("bytes: sent and received by all parties together. equal bytes: accuracy after the last round within")
        print(f"the bytes of {agreed.method.name}; – if one round needs more. passes at: the first round as accurate.")
        if out is not None:
            print(f"Saved: {out}/comparison.json, .csv and .png.")
