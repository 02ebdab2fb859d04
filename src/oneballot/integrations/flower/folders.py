"""The files that Flower's own commands take: the app folder of a run, and the settings of a node."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

from ...ballot.encryption import find_server_key
from ...election.election import Election
from ...errors import ElectionError
from ...party.submit import preview
from ...runtime.files import write_atomic
from .party import simulated_parties


def write_app(
    folder: Path, election: Path, *, box: Path, outcome: Path, key: Path | None, simulated: Path | None
) -> Election:
    """An app folder for `flwr run`: no code, only where the server's files are. Paths are whole ones, as the ServerApp
    runs where the SuperLink was started."""
    agreed = Election.read(election)
    if (folder / "pyproject.toml").exists():
        raise ElectionError(f"{folder / 'pyproject.toml'} exists and is not overwritten; choose another folder")
    find_server_key(agreed, key, election.parent)
    if simulated is not None:
        _check_simulated(agreed, simulated)
    config = {
        "election": str(election.resolve()), "box": str(box.resolve()), "outcome": str(outcome.resolve()),
        "simulated": "" if simulated is None else str(simulated.resolve()),
        "key": "" if key is None else str(key.resolve()), "again": False, "over-budget": False,
        "poll-seconds": 2.0, "ask-again-seconds": 60.0, "settle-seconds": 15.0,
    }  # fmt: skip
    name = re.sub(r"[^a-z0-9]+", "-", agreed.name.lower()).strip("-") or "election"
    text = f"""\
# A Flower app that runs one election of OneBallot: `flwr run` takes this folder. It holds no code of its own.
[project]
name = {_text(f"oneballot-{name}")}
version = "1.0.0"
description = {_text(f"The election {agreed.name}, {agreed.digest}")}
license = "Apache-2.0"
dependencies = [{_text(f"oneballot[flower]=={version('oneballot')}")}]

[tool.flwr.app]
publisher = "oneballot"

[tool.flwr.app.components]
serverapp = "oneballot.integrations.flower.server:app"
clientapp = "oneballot.integrations.flower.party:app"

[tool.flwr.app.config]          # all are the server's; a node's files are named in its own --node-config
{_lines(config)}
"""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "pyproject.toml", text.encode())
    return agreed


def write_node(
    file: Path, party: str, election: Path, data: Path, *, keep: Path, key: Path | None, learners: tuple[str, ...]
) -> Election:
    """A file for `flower-supernode --node-config`, after a look whether this party could vote with it."""
    if file.suffix != ".toml":
        raise ElectionError(f"{file}: Flower takes such a file only if its name ends in .toml")
    if file.exists():
        raise ElectionError(f"{file} exists and is not overwritten; move it away, or choose another name")
    agreed = Election.read(election)
    preview(agreed, party, data, keep=keep, key=key, beside=election.parent, choices=learners)
    beside = election.parent / f"{party}.key"
    found = key if key is not None else next((k for k in (Path(f"{party}.key"), beside) if k.is_file()), None)
    paths = {"election": election, "data": data, "keep": keep} | ({} if found is None else {"key": found})
    config: dict[str, object] = {"party": party, **{name: str(path.resolve()) for name, path in paths.items()}}
    config |= {"learner": " ".join(learners)} if learners else {}
    write_atomic(file, f"# What a Flower node votes with, and for whom.\n{_lines(config)}\n".encode())
    return agreed


def _check_simulated(election: Election, folder: Path) -> None:
    if not folder.is_dir() or not (parties := simulated_parties(folder)):
        raise ElectionError(
            f"{folder} holds no files of parties; put one there for each: clinic-a.csv, clinic-b.csv, …"
        )
    if election.roster and (unknown := sorted(parties.keys() - election.roster.keys())):
        raise ElectionError(f"{folder} has files of {', '.join(unknown)}, who are not on the roster of the election")


def _lines(config: dict[str, object]) -> str:
    return "\n".join(f"{name} = {_text(value)}" for name, value in config.items())


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # all in which JSON and TOML text differ
