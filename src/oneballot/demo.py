"""A complete election with real files, on scikit-learn's digits, divided among parties with different classes."""

from __future__ import annotations

import csv
import shlex
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .boxes.folder import Folder
from .election import template
from .election.columns import Number
from .election.election import Election
from .election.schema import Schema
from .errors import ElectionError, KeyFileError, MissingExtra, OneBallotWarning
from .methods.fedkt.method import FedKT
from .party.cast import cast_together
from .party.context import PartyContext
from .party.release import Release, sealed_release
from .party.rows import read_rows
from .party.small_counts import CountRule
from .report.dossier.facts import of_release
from .report.dossier.write import twin_of, write_dossier
from .report.outcome.subject import Subject, assess
from .report.outcome.subject import load as load_subject
from .report.outcome.write import write as write_report
from .report.plots import plot_class_counts
from .server import log
from .server.outcome import Outcome
from .server.tally import tally_box
from .simulation import Baselines, Simulation, baselines, divide, simulate_parties
from .types import Array, Ballot

PIXELS = [f"pixel{i:02d}" for i in range(64)]


def run(out: Path, *, parties: int = 10, beta: float = 0.5, seed: int = 0) -> dict[str, Any]:
    """Write the files of an election under `out`, run it, and return the results."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    test, public, private = np.split(order, [450, 900])
    if (out / "election.toml").exists() and 'name = "digits"' not in (out / "election.toml").read_text("utf-8"):
        raise ElectionError(f"{out} holds another election; choose another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    _write_csv(out / "public.csv", X[public])
    _write_csv(out / "test.csv", X[test], y[test])
    _write_csv(out / "all.csv", X[private], y[private])
    schema = Schema(label="digit", columns=tuple(Number(name=p, range=(0, 16)) for p in PIXELS))
    method = template.section("ensemble")
    toml = template.write(out / "election.toml", out / "public.csv", range(10), schema, name="digits", method=method)
    (out / "election.toml").write_text(toml, "utf-8", newline="\n")

    election = Election.read(out / "election.toml")
    held = divide(election.read_data(out / "all.csv"), parties, f"dirichlet:{beta}", seed)
    (out / "parties").mkdir(exist_ok=True)
    for party, data in held.items():
        _write_csv(out / "parties" / f"{party}.csv", data.X * 16, data.y)
    tested = election.read_data(out / "test.csv")
    for earlier in (out / "box").glob("*.ballot"):
        earlier.unlink()
    first, *others = held
    begin = time.perf_counter()
    ballots = cast_together(election, {first: held[first]})  # alone, as at a party: the dossier states how long it took
    seconds = round(time.perf_counter() - begin, 2)
    saved = _write_dossier(out / "dossier.html", election, ballots[0], out / "parties" / f"{first}.csv", seconds)
    box = Folder(out / "box")
    for ballot in [*ballots, *cast_together(election, {party: held[party] for party in others})]:
        box.deliver(ballot.party, ballot.sealed)
    begin = time.perf_counter()
    outcome = tally_box(election, box)
    _save(outcome, out / "outcome", round(time.perf_counter() - begin, 2))

    methods = {"FedKT as in the paper": FedKT.paper(), "FedKT with the open vote (small ballots)": FedKT()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)  # what is shown is about the election, not the comparisons
        runs = {what: simulate_parties(replace(election, method=m, learners={}), held) for what, m in methods.items()}
        without = baselines(election, held, tested)
    counts = np.stack([np.bincount(d.y, minlength=10) for d in held.values()])
    subject = load_subject(out / "outcome", out / "election.toml")
    subject = subject.with_test(assess(subject.outcome, out / "test.csv"))
    assert subject.tested is not None
    alone = {party: metrics["accuracy"] for party, metrics in subject.tested.alone.items()}  # as in the report
    saved |= _write_report(out, subject, without)
    saved |= {"model": "outcome", "ballots": "box", "election": "election.toml", "rows": "parties"}
    if picture := plot_class_counts(counts, list(held), [str(c) for c in range(10)], out / "parties.png"):
        saved["picture"] = picture.name
    federation = Simulation(outcome, (), held)
    return {
        "test_rows": len(tested),
        "parties": {
            party: {
                "rows": counts[i].tolist(),
                "alone": alone.get(party, 0.0),
                "bytes": outcome.voted[party].bytes,
            }
            for i, party in enumerate(held)
        },
        "results": [
            {"what": "each party alone, mean", "accuracy": float(np.mean(list(alone.values()))), "bytes": 0},
            {"what": "the best party alone", "accuracy": max(alone.values()), "bytes": 0},
            *(
                {"what": what, "accuracy": run.accuracy(tested), "bytes": run.outcome.bytes // parties}
                for what, run in {**runs, "open ensemble (the default)": federation}.items()
            ),
            {"what": "pooled data (upper bound)", "accuracy": without.pooled, "bytes": 0},
        ],
        "saved": {name: str(out / path) for name, path in saved.items()},
    }


def _save(outcome: Outcome, folder: Path, seconds: float) -> None:
    """Save the outcome with its log, as `oneballot tally` does; without a log where its key cannot be kept."""
    try:
        log.save(outcome, folder, "tally", {"seconds": seconds})
    except KeyFileError as error:
        warnings.warn(f"{folder} gets no log: {error}", OneBallotWarning, stacklevel=2)
        outcome.save(folder)


def _write_dossier(page: Path, election: Election, ballot: Ballot, rows: Path, seconds: float) -> dict[str, str]:
    """The release dossier of one party. Small counts are allowed: the digits are public."""
    _, about = read_rows(election, rows)
    release = Release(PartyContext(election, ballot.party), "planned", CountRule(small="allow"), rows=about)
    for earlier in (page, twin_of(page)):
        earlier.unlink(missing_ok=True)
    try:
        sealed = replace(sealed_release(release, ballot), seconds=seconds)
        write_dossier(page, of_release(sealed, page.name))
    except MissingExtra as error:
        warnings.warn(str(error), OneBallotWarning, stacklevel=2)
        return {}
    return {"dossier": page.name}


def _write_report(out: Path, subject: Subject, without: Baselines) -> dict[str, str]:
    """The report of the outcome on the test rows, beside a model of pooled data."""
    page = out / "report.html"
    assert without.pooled_metrics is not None
    subject = replace(
        subject,
        baselines={"pooled data": without.pooled_metrics.values},
        command=shlex.join(["oneballot", "demo", "--out", str(out)]),
    )
    try:
        write_report(subject, page)
    except MissingExtra as error:
        warnings.warn(str(error), OneBallotWarning, stacklevel=2)
        return {}
    return {"report": page.name}


def _write_csv(path: Path, X: Array, y: Sequence[int] | Array | None = None) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*PIXELS, *(() if y is None else ("digit",))])
        for i, row in enumerate(X):
            table.writerow([*(f"{v:g}" for v in row), *(() if y is None else (y[i],))])
