"""Distillation in processes whose parent is killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

LONG = """
import numpy as np
import torch
import oneballot.methods.dosfl.distil as distilling
from oneballot import DOSFL
from oneballot.fleet.models.network import built_in
from oneballot.methods.dosfl.distillation import Party
from oneballot.methods.dosfl.initialization import draw_initial_weights

if __name__ == "__main__":
    distilling.PROCESSES_PAY_OFF = 0.0
    net, settings = built_in("mlp", {"hidden": [6]}, (4,), 3), DOSFL(steps=3, batch=3, local_epochs=10**5)
    initial, y = draw_initial_weights(net, "xavier-uniform", 1), np.arange(30) % 3
    parties = [Party(np.arange(30), y, initial, seed, settings) for seed in range(2)]
    distilling.distil(net, np.ones((30, 4), np.float32), parties, 3, torch.device("cpu"))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    """Otherwise they would keep distilling for minutes."""
    (tmp_path / "long.py").write_text(LONG)
    owner = subprocess.Popen([sys.executable, tmp_path / "long.py"], env={**os.environ, "ONEBALLOT_WORKERS": "2"})

    def wait_for(done: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end
            time.sleep(0.1)

    try:
        wait_for(lambda: sum(seconds > 5 for seconds in working(owner.pid).values()) == 2)  # torch is imported by then
        busy = [pid for pid, seconds in working(owner.pid).items() if seconds > 5]
    finally:
        owner.kill()
        owner.wait()
    wait_for(lambda: not any(map(runs, busy)))


def working(parent: int) -> dict[int, float]:
    """The processes that it started, and the seconds that they have computed."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            values = stat.read_text().rpartition(")")[2].split()
            if int(values[1]) == parent:
                found[int(stat.parent.name)] = (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
    return found


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
