"""The audit of two tallies: the noise of one server, as the other sees it. Half of it is caught at that server."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from typer.testing import CliRunner

import oneballot as ob
from oneballot import audit
from oneballot.audit.servers import Servers
from oneballot.ballot.keys import new_server_key, public_text
from oneballot.cli import app
from oneballot.methods.fedkt.method import FedKT
from oneballot.privacy import calibration
from oneballot.privacy.two_tallies import calibrate_two_tallies
from oneballot.server.two_tallies import share
from oneballot.server.two_tallies.noise import draw_noise

PUBLIC = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
KEYS = {side: public_text(X25519PrivateKey.generate()) for side in "ab"}
ROWS = ob.L2(4.0, stable_ids=True)


def election(method: Any, privacy: Any = ROWS, **settings: Any) -> ob.Election:
    return ob.Election(
        [0, 1], public=PUBLIC, method=method, privacy=privacy, learner=ob.Sklearn("LogisticRegression"),
        tallies={**KEYS, **settings},
    )  # fmt: skip


def half_noise_at_b(patch: pytest.MonkeyPatch) -> None:
    def draw(ctx: Any, layout: Any, side: str, opening: int) -> Any:
        noise = draw_noise(ctx, layout, side, opening)
        return np.rint(noise / 2).astype(np.int64) if side == "b" else noise

    patch.setattr(share, "draw_noise", draw)


METHODS = {
    "fedkt": (ob.FedKT(subsets=8), ROWS),
    "analytic": (ob.Analytic(), ROWS),
    "neighbours": (ob.Neighbours(), ROWS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_half_the_noise_at_one_server_is_caught_there(name, monkeypatch) -> None:
    half_noise_at_b(monkeypatch)
    found = audit.audit(election(*METHODS[name]), confidence=0.99, runs=80, server="b")
    assert not found.holds
    assert not found.findings  # the test of the curve refutes it


@pytest.mark.slow
def test_the_honest_noise_of_the_other_server_is_not_refuted(monkeypatch) -> None:
    half_noise_at_b(monkeypatch)
    found = audit.audit(election(*METHODS["fedkt"]), confidence=0.999999, runs=30, server="a")
    assert found.holds
    assert "both servers together, against whom there is no guarantee" in " ".join(found.not_attacked)


def test_votes_that_are_counted_twice_are_found_without_statistics(monkeypatch) -> None:
    agreed, count = election(ob.FedKT(subsets=8)), FedKT._count_teachers
    monkeypatch.setattr(FedKT, "_count_teachers", lambda self, predictions: 2 * count(self, predictions))
    sums = FedKT.shared_sums
    wide = lambda self, ctx: {name: replace(most, high=2 * most.high) for name, most in sums(self, ctx).items()}  # noqa: E731
    monkeypatch.setattr(FedKT, "shared_sums", wide)  # else the cast refuses them
    found = audit.audit(agreed, runs=2, canaries=4)
    assert not found.holds
    assert any("a unit changes votes and class counts by" in sentence for sentence in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_noise_that_a_server_draws_once_for_all_openings_is_found_without_statistics(name, monkeypatch) -> None:
    kept: dict[str, Any] = {}

    def draw(ctx: Any, layout: Any, side: str, opening: int) -> Any:
        return kept.setdefault(side, draw_noise(ctx, layout, side, opening))

    monkeypatch.setattr(share, "draw_noise", draw)
    found = audit.audit(election(*METHODS[name]), runs=2, canaries=4)
    assert any("the noise is not drawn anew" in sentence for sentence in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_halved_sensitivity_is_found_without_statistics(name, monkeypatch) -> None:
    squared = calibration.squared_shift
    monkeypatch.setattr(calibration, "squared_shift", lambda *given: squared(*given) / 4)
    calibrate_two_tallies.cache_clear()
    try:
        found = audit.audit(election(*METHODS[name]), runs=2, canaries=4)
    finally:
        calibrate_two_tallies.cache_clear()
    assert any("a unit changes" in sentence for sentence in found.findings)


def test_the_other_server_sees_the_total_with_the_noise_of_one(monkeypatch) -> None:
    """Muted it sees the plain sums; else their difference has the deviation that the ledger states."""
    agreed = election(ob.FedKT(subsets=8))
    from oneballot.audit.scenes import attacked_election, set_scene

    scene = set_scene(attacked_election(agreed, agreed.guarantee, None), "b")
    parties = scene.parties(np.zeros(scene.canaries, dtype=np.int64))
    plain = scene.stage.run(parties, muted=True).numbers[0]
    assert plain[:-2].reshape(-1, 2).sum(axis=1).tolist() == [8] * 60
    seen = np.concatenate([scene.stage.run(parties).numbers[0] - plain for _ in range(10)])
    assert abs(seen.std() / agreed.guarantee.numbers.sigma - 1) < 0.1


def test_noise_that_is_made_of_several_draws_is_measured_exactly() -> None:
    """analytic draws noise for all of G and adds up the triangle of G + Gᵀ: two draws beside the diagonal, 2² on it."""
    deviations = Servers(election(ob.Analytic(), ob.L2(2.0)), "a")._deviations
    size = deviations["sums"].shape[0]
    expected = np.sqrt(np.where(np.eye(size) > 0, 4, 2)[np.triu_indices(size)])
    np.testing.assert_array_equal(deviations["gram"], expected)
    assert (deviations["sums"] == 1).all()


def run(*arguments: object, status: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == status, result.output + result.stderr
    return result


@pytest.mark.slow
def test_the_command_attacks_both_servers_or_one(clinic: Path) -> None:
    keys = [new_server_key(clinic / f"{side}.key") for side in "ab"]
    path = clinic / "election.toml"
    data = ("--public", clinic / "public.csv", "--label", "ill")
    run("new", path, *data, "--level", "L2", "--epsilon", "5", "--tallies", *keys)
    fast = ("--runs", "1", "--canaries", "2")
    both = json.loads(run("audit", path, *fast, "--json").output)
    assert [both["servers"][side]["holds"] for side in "ab"] == [True, True]
    shown = run("audit", path, *fast, "--share", "b").output
    assert "The noise of server b, as the other server sees it" in shown
    assert "server a," not in shown
    path.write_text(re.sub(r"\[tallies\][^\[]*", "", path.read_text()))
    assert "--share is for elections with two tallies" in run("audit", path, "--share", "a", status=1).stderr
