"""A small network, small parties and quick settings for the tests of distillation and of training on its results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from oneballot import DOSFL
from oneballot.fleet.models.network import built_in
from oneballot.methods.dosfl.distil import _Job
from oneballot.methods.dosfl.distillation import DistilledData, Party
from oneballot.methods.dosfl.initialization import draw_initial_weights
from oneballot.types import Array

torch.set_num_threads(1)  # as the scheduler does
CPU, DOUBLE = torch.device("cpu"), torch.float64
NET = built_in("mlp", {"hidden": [6]}, (4,), 3)
SETTINGS = DOSFL(
    steps=3, epochs=2, batch=3, first_rate=0.3, learning_rate=0.1, local_epochs=4, local_batch=16, soft_labels=False
)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4)).astype(np.float32)
Y = (X @ RNG.normal(size=(4, 3))).argmax(1)
INITIAL = draw_initial_weights(NET, "xavier-uniform", 1)
VARIANTS = [
    SETTINGS,
    replace(SETTINGS, soft_labels=True, negative_labels=True),
    replace(SETTINGS, soft_reset=0.1),
    replace(SETTINGS, masking=0.4),
    replace(SETTINGS, first_rate=0.1, local_epochs=6),
    replace(SETTINGS, learning_rate=0.02, decay=0.1, decay_period=1),
]
VARIED = [
    Party(rows, Y[rows], draw_initial_weights(NET, "xavier-uniform", i % 2), i, settings)
    for i, (settings, rows) in enumerate(zip(VARIANTS, np.split(np.arange(150), (20, 25, 90, 100, 140)), strict=True))
]
"""Different numbers of rows, initial weights, and everything else that may differ in one wave."""


def party(rows: Array, seed: int, settings: DOSFL = SETTINGS) -> Party:
    return Party(rows, Y[rows], INITIAL, seed, settings)


def distil_in_double(parties: list[Party], device: torch.device = CPU) -> list[DistilledData]:
    """`distil` in float64, so that results can be compared although many steps amplify rounding."""
    job = _Job(NET, torch.from_numpy(X).to(device), parties, 3, DOUBLE)
    for _ in job.on_cpu(1) if device == CPU else job.on_gpu():
        pass
    return [job.results[i] for i in range(len(parties))]
