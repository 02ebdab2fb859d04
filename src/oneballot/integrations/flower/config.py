"""Writes the files for Flower's commands: the app folder of a run, and the settings of a node."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

from ...ballot.encryption import check_server_key, find_server_key
from ...data.delimited import DETECT, Dialect
from ...data.read import reading_as
from ...election.election import Election
from ...election.mapping import SAME_NAMES, FileMapping, mapping_files
from ...election.names import file_name
from ...election.toml import toml_value
from ...errors import ElectionError
from ...party.preview import preview
from ...runtime.files import write_atomic
from .party import simulated_parties


def refuse_two_tallies(election: Election) -> None:
    """Raise ElectionError in an election with two tallies, before any party is asked."""
    if election.tallies is not None:
        raise ElectionError(
            "an election with two tallies cannot run over Flower, which has one server, and it could not open the "
            "total. Let the parties deliver to a box that both servers read (oneballot cast --to BOX; docs/boxes.md), "
            "and tally with --share a and --share b (docs/two-tallies.md)"
        )


def write_app(
    folder: Path, election: Path, *, box: Path, outcome: Path, key: Path | None, simulated: Path | None
) -> Election:
    """Write an app folder for `flwr run`, which names the server's files and holds no code.

    Paths are absolute, as the ServerApp runs in the folder where the SuperLink was started.
    """
    parsed = Election.read(election)
    refuse_two_tallies(parsed)
    if (folder / "pyproject.toml").exists():
        raise ElectionError(f"{folder / 'pyproject.toml'} exists and is not overwritten; choose another folder")
    check_server_key(parsed, find_server_key(parsed, key, election.parent))
    if simulated is not None:
        _check_simulated(parsed, simulated)
    config: dict[str, object] = {
        "election": str(election.resolve()),
        "box": str(box.resolve()),
        "outcome": str(outcome.resolve()),
        "simulated": "" if simulated is None else str(simulated.resolve()),
        "key": "" if key is None else str(key.resolve()),
        "again": False,
        "over-budget": False,
        "poll-seconds": 2.0,
        "ask-again-seconds": 60.0,
        "settle-seconds": 15.0,
    }
    name = re.sub(r"[^a-z0-9]+", "-", parsed.name.lower()).strip("-") or "election"
    text = f"""\
# A Flower app that runs one OneBallot election, for `flwr run`. It holds no code.
[project]
name = {toml_value(f"oneballot-{name}")}
version = "1.0.0"
description = {toml_value(f"The election {parsed.name}, {parsed.digest}")}
license = "Apache-2.0"
dependencies = [{toml_value(f"oneballot[flower]=={version('oneballot')}")}]

[tool.flwr.app]
publisher = "oneballot"

[tool.flwr.app.components]
serverapp = "oneballot.integrations.flower.server:app"
clientapp = "oneballot.integrations.flower.party:app"

[tool.flwr.app.config]          # files of the server; a node names its own in its --node-config
{_lines(config)}
"""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "pyproject.toml", text.encode())
    return parsed


def write_node(
    file: Path,
    party: str,
    election: Path,
    data: Path,
    *,
    keep: Path,
    key: Path | None,
    learners: tuple[str, ...],
    dialect: Dialect = DETECT,
    mapping: FileMapping = SAME_NAMES,
) -> Election:
    """Write a file for `flower-supernode --node-config`, after checking that this party could vote with it.

    dialect, mapping: how the data file is written, and its own names of columns and labels.
    """
    if file.suffix != ".toml":
        raise ElectionError(f"{file}: Flower requires a name that ends in .toml")
    if file.exists():
        raise ElectionError(f"{file} exists and is not overwritten; move it away, or choose another name")
    parsed = Election.read(election)
    refuse_two_tallies(parsed)
    with reading_as(dialect, data), mapping_files(mapping, data):
        preview(parsed, party, data, keep=keep, key=key, beside=election.parent, choices=learners)
    if key is None:
        name = f"{file_name(party)}.key"
        candidates = (Path(name), election.parent / name)
        key = next((path for path in candidates if path.is_file()), None)
    paths = {"election": election, "data": data, "keep": keep} | ({} if key is None else {"key": key})
    config: dict[str, object] = {"party": party, **{name: str(path.resolve()) for name, path in paths.items()}}
    config |= {"learner": " ".join(learners)} if learners else {}
    config |= {name: value for name, value in vars(dialect).items() if value is not None}
    config |= {name: json.dumps(names, ensure_ascii=False) for name, names in vars(mapping).items() if names}
    write_atomic(file, f"# The party of a Flower node, and its files.\n{_lines(config)}\n".encode())
    return parsed


def _check_simulated(election: Election, folder: Path) -> None:
    if not folder.is_dir() or not (parties := simulated_parties(folder)):
        raise ElectionError(f"{folder} holds no files of parties; add one per party: clinic-a.csv, clinic-b.csv, …")
    if election.roster and (unknown := sorted(parties.keys() - election.roster.keys())):
        raise ElectionError(f"{folder} has files of {', '.join(unknown)}, which are not on the election's roster")


def _lines(config: dict[str, object]) -> str:
    return "\n".join(f"{name} = {toml_value(value)}" for name, value in config.items())
