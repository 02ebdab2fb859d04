"""Shared by all commands: common options, progress bars, warnings, errors, and printing of results.

Progress, warnings and errors go to stderr, results to stdout. Plug-in commands may use it too.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from ..errors import OddValues, OneBallotError, OneBallotWarning, WillNotWork, printable_lines
from ..privacy.charges import Charges
from ..runtime.leftovers import clear_sandboxes
from ..runtime.progress import report_progress_to
from . import reading

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Workers = Annotated[int | None, typer.Option(min=1, help="The number of training processes. Default: all cores.")]
Backend = Annotated[
    str | None,
    typer.Option(
        help="Train on a cluster: dask://HOST:PORT or ray://HOST:PORT; dask or ray start one on this machine."
    ),
]
ElectionFile = Annotated[Path, typer.Argument(metavar="ELECTION", help="The election.toml that all parties share.")]
AllRows = Annotated[Path, typer.Option(help="All rows, with labels, to be divided among the parties.")]
Parties = Annotated[
    int | None, typer.Option(min=1, help="The number of parties. Default: 10; with column:NAME one for each value.")
]
Split = Annotated[str, typer.Option(help="dirichlet:BETA[:balanced], shards:N, homogeneous or column:NAME.")]
TestRows = Annotated[Path | None, typer.Option(help="Labelled rows to test with.")]
Holdout = Annotated[float, typer.Option(min=0.01, max=0.9, help="Without --test: the share of rows to hold out.")]
SplitSeed = Annotated[int, typer.Option(min=0, help="The seed of the split.")]
ReportFile = Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a page with the results here.")]
OutcomeFolder = Annotated[Path, typer.Argument(metavar="OUTCOME", help="The folder that a tally wrote.")]

Aside = Callable[[], AbstractContextManager[None]]
"""Hides the progress bars while a result is printed in the middle of a command."""

SHOWN_NOTES = 6
AGAIN = "and run the command again; no file is incomplete."
WHAT_TO_DO = {
    errno.ENOSPC: f"Make room on that disk, {AGAIN}",
    errno.EDQUOT: f"Make room in your quota, {AGAIN}",
    errno.EROFS: f"Choose a place that can be written to, {AGAIN}",
    errno.EACCES: f"Choose a place that you may write to (on Windows, also close programs that use the file), {AGAIN}",
}


@contextmanager
def session(as_json: bool, workers: int | None = None) -> Iterator[Aside]:
    """Run a command: show progress, then warnings; turn errors into a sentence and exit status 1."""
    if workers is not None:
        os.environ["ONEBALLOT_WORKERS"] = str(workers)
    clear_sandboxes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", OneBallotWarning)
        try:
            with reading.current.get(reading.Reading()).applied(), _progress() as aside:
                yield aside
        except OneBallotError as error:
            _show_notes(caught)
            if as_json:
                print(json.dumps({"error": str(error), "kind": type(error).__name__}))
            _say(f"error: {error}")
            raise typer.Exit(1) from None
        except BrokenPipeError:  # the reader of the output has closed it
            raise
        except OSError as error:
            _show_notes(caught)
            place = error.filename2 or error.filename  # of a rename, the target
            sentence = f"{error.strerror or error}{f': {place}' if place else ''}"
            sentence += f". {WHAT_TO_DO[error.errno]}" if error.errno in WHAT_TO_DO else ""
            if as_json:
                print(json.dumps({"error": sentence, "kind": type(error).__name__}))
            _say(f"error: {sentence}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            noise = ", and the noise that was drawn stays charged" if Charges.drawn_here else ""
            typer.echo(f"interrupted; no file is incomplete{noise}", err=True)
            raise typer.Exit(130) from None
        _show_notes(caught)


@contextmanager
def _progress() -> Iterator[Aside]:
    if not sys.stderr.isatty():
        yield nullcontext
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
    from rich.text import Text

    class Clock(ProgressColumn):
        """The remaining time or, while it is unknown, the elapsed time."""

        def render(self, task: Task) -> Text:
            left = task.fields["end"] - bars.get_time()
            seconds, word = (left, "left") if 0 < left < inf else (task.elapsed or 0, "so far")
            return Text(f"{timedelta(seconds=int(seconds))} {word}", style="cyan")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Clock())
    bars = Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )
    running: dict[str, tuple[TaskID, float]] = {}

    def watch(what: str, done: int, total: int) -> None:
        """Show bars only while work is in progress, so that they never mix with printed results."""
        now = bars.get_time()
        if what not in running:
            bars.start()
            running[what] = bars.add_task(what, total=total, end=inf), now
        task, begin = running[what]
        bars.update(task, completed=done, total=total, end=begin + (now - begin) * total / done if done else inf)
        if done >= total:
            bars.remove_task(running.pop(what)[0])
            if not running:
                bars.stop()

    @contextmanager
    def aside() -> Iterator[None]:
        bars.stop()
        try:
            yield
        finally:
            if running:
                bars.start()

    try:
        with report_progress_to(watch):
            yield aside
    finally:
        bars.stop()


def _show_notes(caught: Sequence[warnings.WarningMessage]) -> None:
    for warning in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, WillNotWork)):
        typer.secho(printable_lines(f"WARNING: {warning}"), fg="red", bold=True, err=True)
    if odd := [w.message for w in caught if isinstance(w.message, OddValues)]:
        _show_odd(OddValues.merged(odd))
    counts = Counter(str(w.message) for w in caught if not issubclass(w.category, WillNotWork | OddValues))
    alike: Counter[str] = Counter()
    notes: list[tuple[int, str]] = []  # each with its rank among similar notes: one of every type is shown first
    for note, times in counts.items():
        kind = re.sub(r"\d+", "", note.partition(": ")[2] or note)  # without the party or column that it is about
        notes.append((alike[kind], note if times == 1 else f"{note} ({times} times)"))
        alike[kind] += 1
    for _, note in sorted(notes, key=lambda ranked: ranked[0])[:SHOWN_NOTES]:
        _say(f"note: {note}")
    if len(notes) > SHOWN_NOTES:
        typer.echo(f"note: … and {len(notes) - SHOWN_NOTES} more like these", err=True)


def _say(text: str) -> None:
    """Print to stderr; the text may quote data, of which control characters become spaces."""
    typer.echo(printable_lines(text), err=True)


def _show_odd(values: OddValues) -> None:
    asked = reading.current.get(None)
    if asked is None or not asked.verbose:
        _say(f"note: {values}{'; --verbose lists them' if asked else ''}")
        return
    _say(f"note: {values}:")
    for each in values.odd:
        _say(f"  {each}")
