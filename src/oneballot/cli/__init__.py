"""The command line: one module per command, which parses arguments, calls the package and prints the result.

A command is a module with a function `command` and an `EXAMPLE` for its help. A group of commands is a module with a
typer `app`. A plug-in also has the `SECTION` of `oneballot --help` to appear in. Only `__main__` and plug-in commands
import this package.
"""

from __future__ import annotations

import io
import sys
from typing import Any

import click
import typer
import typer.core

from .. import plugins
from . import (
    appraise,
    audit,
    benefit,
    box,
    cast,
    certify,
    check,
    combine,
    compare,
    demo,
    election,
    encoder,
    epsilon,
    evaluate,
    export,
    flower,
    guarantee,
    inspect,
    keys,
    log,
    new,
    predict,
    receipt,
    report,
    simulate,
    tally,
    withdraw,
)

typer.core.HAS_RICH = False  # typer would escape [required] for rich, which is not used here
SECTIONS = {
    "Elections": (
        demo,
        new,
        check,
        cast,
        tally,
        combine,
        box,
        inspect,
        predict,
        evaluate,
        report,
        certify,
        export,
        appraise,
        withdraw,
        log,
        receipt,
        benefit,
        simulate,
        compare,
        election,
        encoder,
        keys,
        flower,
    ),
    "Privacy": (guarantee, epsilon, audit),
}


class Sections(typer.core.TyperGroup):
    """Lists the commands by section."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, names in _sections.items():
            width = formatter.width - max(map(len, names)) - 6
            rows = [(name, self.commands[name].get_short_help_str(width)) for name in names]
            with formatter.section(section):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=Sections,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="One-shot federated learning: every party trains on its own data and casts exactly one ballot.",
    epilog="Start with: oneballot demo",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_sections: dict[str, list[str]] = {}


def _add(name: str, module: Any, section: str) -> None:
    """Register a command, or a group of commands."""
    if "app" in vars(module):
        app.add_typer(module.app, name=name)
    else:
        app.command(name, epilog=module.EXAMPLE)(module.command)
    _sections.setdefault(section, []).append(name)


for section, modules in SECTIONS.items():
    for module in modules:
        _add(module.__name__.rpartition(".")[2], module, section)
for name, module in plugins.commands():
    if not any(name in names for names in _sections.values()):
        _add(name, module, module.SECTION)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"oneballot {version('oneballot')}")
        raise typer.Exit


@app.callback()
def top(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    """One-shot federated learning: every party trains on its own data and casts exactly one ballot."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # characters that the terminal cannot show must not stop a command
    app()
