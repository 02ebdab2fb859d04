"""The help of the command line: every command has an example and --json, and no summary is cut off."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
import typer
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.cli.terminal import session
from oneballot.privacy.charges import Charges


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


EVERY = dict(commands(typer.main.get_command(app)))  # type: ignore[arg-type]
GROUPS = [(), *(path for path, command in EVERY.items() if isinstance(command, click.Group))]


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_has_an_example_and_every_one_that_does_something_has_json(path: tuple[str, ...]) -> None:
    command = EVERY[path]
    assert "oneballot " in (command.epilog or "")
    if not isinstance(command, click.Group):
        assert any("--json" in parameter.opts for parameter in command.params)


@pytest.mark.parametrize("path", GROUPS, ids=lambda path: " ".join(path) or "oneballot")
def test_no_summary_is_cut_off_in_80_columns(path: tuple[str, ...]) -> None:
    text = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*path, "--help"]).output
    assert "..." not in text.replace("[ARGS]...", "")


@pytest.mark.parametrize("drawn", [False, True])
def test_an_interrupted_command_mentions_noise_only_if_some_was_drawn(drawn: bool, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Charges, "drawn_here", False)
    if drawn:
        Charges("digest").charge(None)
    with pytest.raises(typer.Exit), session(False):
        raise KeyboardInterrupt
    assert ("stays charged" in capsys.readouterr().err) == drawn
