"""Waves on a GPU: as many models at once as its memory allows, and half as many if that was too many."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence

import torch

SHARE = 0.7
"""The share of a GPU's free memory that a wave may be planned to need."""


def run_waves(waves: list[list[int]], run: Callable[[Sequence[int]], Iterator[int]]) -> Iterator[int]:
    """Run each wave, a list of task numbers. A wave that does not fit is replaced by its halves, also in the list.

    Yields, as `run` does, how many epochs were completed, counting repeated ones once. Frees the memory of each wave.
    """
    done = repeat = 0
    while done < len(waves):
        numbers, reported = waves[done], 0
        try:
            for count in run(numbers):
                reported += count
                repeated = min(repeat, count)
                repeat -= repeated
                yield count - repeated
            done += 1
        except torch.OutOfMemoryError:
            if len(numbers) == 1:
                raise
            half = len(numbers) // 2
            waves[done : done + 1] = [numbers[:half], numbers[half:]]
            repeat += reported
        gc.collect()
        torch.cuda.empty_cache()


def models_that_fit(device: torch.device, models: int, trial: Callable[[], object], *, steady: bool = False) -> int:
    """How many models fit, by the memory that a trial with `models` of them needs; 1 if even these do not fit.

    steady: the number must not depend on how many rows there are (`steady_size`).
    """
    for _ in range(2):  # libraries allocate memory that they keep in the first
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        try:
            trial()
        except torch.OutOfMemoryError:
            return 1
        each = (torch.cuda.max_memory_allocated(device) - before) / models
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    allowed = total * torch.cuda.get_per_process_memory_fraction(device)
    if steady:
        return steady_size(each, allowed)
    return max(1, int(SHARE * min(free, allowed - before) / each))


def steady_size(each: float, allowed: float) -> int:
    """How many models that need `each` bytes train together on a GPU of so many, whatever else it holds.

    A power of two: a few bytes more or less, for one row more or less, hardly ever change it. If other data leave too
    little memory, the wave is halved.
    """
    return 1 << max(0, math.floor(math.log2(max(1.0, SHARE * allowed / each))))
