"""The commands. Each is one thin file that reads its arguments, calls the package and shows what came of it."""

from __future__ import annotations

import io
import sys

import typer
import typer.core

from . import (
    audit,
    cast,
    check,
    compare,
    demo,
    epsilon,
    evaluate,
    flower,
    inspect,
    keys,
    new,
    predict,
    reproduce,
    simulate,
    tally,
)

typer.core.HAS_RICH = False  # typer escapes [required] for rich even where it does not draw with it
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="One-shot federated learning: every party trains on its own data and casts exactly one ballot.",
    epilog="Start with: oneballot demo",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    demo, new, check, cast, tally, inspect, predict, evaluate, simulate, compare, epsilon, audit, reproduce
):  # fmt: skip
    app.command(epilog=module.EXAMPLE)(module.command)
    app.registered_commands[-1].name = module.__name__.rpartition(".")[2]
app.add_typer(keys.app, name="keys")
app.add_typer(flower.app, name="flower")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"oneballot {version('oneballot')}")
        raise typer.Exit


@app.callback()
def top(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """One-shot federated learning: every party trains on its own data and casts exactly one ballot."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our signs is no reason to stop
    app()
