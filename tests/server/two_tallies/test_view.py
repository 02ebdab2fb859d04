"""What one server sees of a ballot can be made by a simulator that has no data, from the operating system's entropy."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

import oneballot as ob
from oneballot.ballot.sealed_shares import NAMES as NAMES_OF_PARTS
from oneballot.ballot.sealed_shares import _seal, open_share
from oneballot.ballot.shares import SEED_BYTES, Layout
from oneballot.election.tallies import Side
from oneballot.party.context import PartyContext
from oneballot.party.shared_count import expected_layout
from oneballot.types import Ballot

from .conftest import NAMES, Federation

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 4})


def simulated(ballot: Ballot, side: Side, layout: Layout, own: Federation) -> Ballot:
    """A ballot whose part for this server holds random bytes, beside what the election states."""
    body = os.urandom(SEED_BYTES if side == "a" else layout.bytes)
    contents = dict(ballot.contents) | {NAMES_OF_PARTS[side]: _seal(side, body, layout, own.election, ballot.party)}
    return replace(ballot, contents=contents)


@pytest.mark.parametrize("method", [ob.Analytic(influence="claimed"), ob.FedKT(influence="claimed", queries=60)])
@pytest.mark.parametrize("side", ["a", "b"])
def test_random_bytes_have_the_layout_and_the_statistics_of_a_servers_view(side, method, federation) -> None:
    own = federation(method=method, learner=TREE)
    layout = expected_layout(PartyContext(own.election, NAMES[0]))  # follows from the election
    made = [own.make(NAMES[0]) for _ in range(20)]
    views = []
    for ballots in (made, [simulated(ballot, side, layout, own) for ballot in made]):
        opened = [open_share(ballot, side, own.election, own.servers[side]) for ballot in ballots]
        assert {found for found, _ in opened} == {layout}
        views.append(np.concatenate([numbers for _, numbers in opened]))
    assert (views[0].dtype, views[0].shape) == (views[1].dtype, views[1].shape)
    for view in views:
        own_bytes = np.frombuffer(view.tobytes(), dtype=np.uint8)
        for symbols, of in ((own_bytes, 256), (np.unpackbits(own_bytes), 2), (np.diff(view).view(np.uint8), 256)):
            assert chisquare(np.bincount(symbols, minlength=of)).pvalue > 1e-7
