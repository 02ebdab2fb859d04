"""What a notebook shows: small, escaped fragments without values of ballots, and at L1 without the parties."""

from __future__ import annotations

import builtins
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.keys import new_key
from oneballot.contest import run_contest
from oneballot.report import page
from oneballot.report.text import size
from oneballot.simulation import Simulation, divide, simulate_parties
from oneballot.types import Data

RNG = np.random.default_rng(0)
X = RNG.random((260, 2)).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(int)
HOSTILE = "<script>alert(1)</script>"


def election(**settings: object) -> ob.Election:
    return ob.Election(**{"classes": ["no", HOSTILE], "public": X[:60], "method": ob.FedKT(), **settings})


def run(agreed: ob.Election) -> Simulation:
    parties = divide(Data(X[60:], Y[60:]), 2, "homogeneous")
    return simulate_parties(agreed, {f"<b>{name}</b>": data for name, data in parties.items()})


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return run(election(name=HOSTILE))


def test_every_object_is_a_small_escaped_fragment(simulation: Simulation) -> None:
    agreed = election(name=HOSTILE)
    for shown in (agreed, simulation.outcome, simulation, simulation.ballots[0]):
        html = shown._repr_html_()
        assert html is not None
        assert html.strip().startswith("<div")
        assert "<html" not in html
        assert HOSTILE not in html
        assert "<b>party" not in html
        assert len(html) < 20_000


def test_a_ballot_shows_names_and_shapes_but_no_values(simulation: Simulation) -> None:
    html = simulation.ballots[0]._repr_html_()
    assert "array of uint8" in html
    other = simulation.ballots[0].contents["votes"]
    assert str(other[:5]) not in html


@pytest.mark.parametrize("which", ["outcome", "ballot", "simulation"])
def test_at_l1_no_party_is_shown(which: str) -> None:
    made = run(election(privacy=ob.L1(5.0)))
    html = {"outcome": made.outcome, "ballot": made.ballots[0], "simulation": made}[which]._repr_html_()
    assert html is not None
    assert "party-" not in html
    assert "epsilon" in html or which == "ballot"


def test_at_l1_an_election_does_not_show_its_roster(tmp_path: Path) -> None:
    roster = {"mercy-hospital": new_key(tmp_path / "key")}
    assert "mercy-hospital" in election(roster=roster)._repr_html_()
    assert "mercy-hospital" not in election(roster=roster, privacy=ob.L1(5.0))._repr_html_()


def test_at_l1_a_ballot_shows_neither_abstention_nor_size_nor_digest() -> None:
    ballot = replace(run(election(privacy=ob.L1(5.0))).ballots[0], abstained="it has too few rows")
    html = ballot._repr_html_()
    for word in ("abstained", ballot.digest, size(len(ballot.sealed)), "Contents"):
        assert word not in html, word


def test_at_l2_neither_rows_of_parties_nor_abstentions_are_shown() -> None:
    made = run(election(privacy=ob.L2(50.0)))
    first = next(iter(made.outcome.voted))
    reason = "fewer rows than min_rows"
    voted = {**made.outcome.voted, first: replace(made.outcome.voted[first], abstained=reason)}
    made = replace(made, outcome=replace(made.outcome, voted=voted))
    for html in (made.outcome._repr_html_(), made._repr_html_()):
        assert html.count("party-") == 2, "both arrived"
        for word in (reason, "abstained", "counted", ">rows<", ">100<"):
            assert word not in html, word


@pytest.mark.parametrize("privacy", [ob.L1(5.0), ob.L2(50.0)])
def test_a_comparison_with_privacy_leaves_out_the_numbers_of_parties(privacy: object) -> None:
    parties = divide(Data(X[60:200], Y[60:200]), 2, "homogeneous")
    html = run_contest(election(privacy=privacy), parties, Data(X[200:], Y[200:]), ["fedkt"])._repr_html_()
    assert "Recommended" in html
    for word in ("party-", "best party", "95 % interval", "classes it lacks"):
        assert word not in html, word


def test_a_comparison_shows_its_methods_and_gains() -> None:
    parties = divide(Data(X[60:200], Y[60:200]), 2, "homogeneous")
    html = run_contest(election(), parties, Data(X[200:], Y[200:]), ["analytic"])._repr_html_()
    for expected in ("fedkt", "analytic", "pooled data", "Recommended", "95 % interval"):
        assert expected in html


def test_without_jinja2_the_text_is_shown(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name.startswith("jinja2"):
            raise ImportError(name)
        return real(name, *rest)

    page._environment.cache_clear()
    monkeypatch.delitem(sys.modules, "jinja2", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    assert simulation.outcome._repr_html_() is None
    assert "Outcome(" in repr(simulation.outcome)
    monkeypatch.undo()
    page._environment.cache_clear()
