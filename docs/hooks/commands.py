"""Hook of the documentation site: fills reference/cli.md with every command, from the code of the commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click
import typer.main

MARK = "<!-- every command -->"


def leaves(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words to type; groups only through their commands."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name, part in command.commands.items():
        yield from leaves(part, (*words, name))


def cell(text: str) -> str:
    """A text as a cell of a table."""
    escaped = text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return " ".join(escaped.split())


def default_of(option: click.Parameter) -> str:
    value = option.default
    if option.required or value is None or value is False or callable(value) or value in ((), [], ""):
        return "required" if option.required else ""
    if isinstance(option, click.Option) and option.is_flag:
        return "on"
    return f"`{getattr(value, 'value', value)}`"


def paragraphs(text: str) -> str:
    """Help as Markdown: its paragraphs, with examples and lists that must keep their lines (\\b) as code."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text))
    keep = [f"```text\n{part.removeprefix(chr(8)).strip(chr(10))}\n```" if part.startswith("\b") else
            " ".join(part.split()).replace("<", "&lt;") for part in parts]  # fmt: skip
    return "\n\n".join(keep)


def describe(words: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(words))
    usage = " ".join(command.collect_usage_pieces(context))
    rows = []
    for parameter in command.get_params(context):
        if getattr(parameter, "hidden", False) or "--help" in parameter.opts:
            continue
        if isinstance(parameter, click.Argument):
            name = f"`{parameter.make_metavar(context)}`"
        else:
            name = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
            if not parameter.is_flag:
                name += f" {cell(parameter.make_metavar(context))}"
        rows.append(f"| {name} | {cell(getattr(parameter, 'help', None) or '')} | {default_of(parameter)} |")
    example = inspect.cleandoc(command.epilog or "").removeprefix("Example: ")
    return "\n\n".join(
        [
            f"## {' '.join(words)}",
            paragraphs(command.help or ""),
            f"```sh\n{' '.join(words)} {usage}\n```",
            "| argument or option | meaning | default |\n|---|---|---|\n" + "\n".join(rows),
            *([f"Example:\n\n```sh\n{example}\n```"] if example else []),
        ]
    )


def reference() -> str:
    """Markdown with a section for every command."""
    from oneballot.cli import app

    return "\n\n".join(
        describe(words, command) for words, command in leaves(typer.main.get_command(app), ("oneballot",))
    )


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown
