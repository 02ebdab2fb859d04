"""A task of a round, each of whose steps may be corrected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oneballot.types import Array, Task


@dataclass(frozen=True)
class RoundTask(Task):
    """offset: added to the direction of every step (SCAFFOLD: Karimireddy et al. 2020).

    proximal: μ of the proximal term μ/2·|w − start|² (FedProx: Li et al. 2020).
    """

    offset: Mapping[str, Array] | None = None
    proximal: float = 0.0

    @classmethod
    def of(cls, task: Task) -> RoundTask:
        """This task, without corrections if it has none."""
        return task if isinstance(task, RoundTask) else cls(**vars(task))
