"""Three clinics and a server, each with its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneballot.ballot.keys import new_server_key
from oneballot.cli import app

PARTIES = ("clinic-a", "clinic-b", "clinic-c")


def oneballot(*words: object) -> str:
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.output


@pytest.fixture
def clinics(clinic: Path) -> Path:
    """All four have the election and the public set, and each clinic its rows and key; the quorum is two of three."""
    keys = {}
    for name in PARTIES:
        (clinic / name).mkdir()
        (clinic / f"{name[-1]}.csv").rename(clinic / name / "rows.csv")
        output = oneballot("keys", "new", name, "--dir", clinic / name)
        (keys[name],) = [line for line in output.splitlines() if line.startswith(f"{name} = ")]
    (clinic / "server").mkdir()
    oneballot("new", clinic / "election.toml", "--public", clinic / "public.csv", "--label", "ill", "--method", "fedkt")
    text = (clinic / "election.toml").read_text().replace("n_estimators = 100", "n_estimators = 5")
    text = text.replace('# clinic-a = "ed25519:…"', "\n".join(keys.values())).replace("quorum = 1 ", "quorum = 2 ")
    for place in (*PARTIES, "server"):
        (clinic / place / "election.toml").write_text(text)
        (clinic / place / "public.csv").write_bytes((clinic / "public.csv").read_bytes())
    return clinic


@pytest.fixture
def two_tallies(clinics: Path) -> Path:
    """The same folders; the election of the server and of clinic-a has two tallies."""
    keys = [new_server_key(clinics / f"{side}.key") for side in "ab"]
    for place in ("server", "clinic-a"):
        election = clinics / place / "election.toml"
        text = election.read_text().replace('influence = "bounded"', 'influence = "claimed"')
        election.write_text(f'{text}\n[tallies]\na = "{keys[0]}"\nb = "{keys[1]}"\n')
    return clinics
