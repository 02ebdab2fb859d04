"""Waves on a GPU: as many models at once as its memory allows, and half as many where that was too many."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence

import torch

SHARE = 0.7
"""Of a GPU's free memory that a wave is planned to need."""


def run_waves(
    waves: list[list[int]], run: Callable[[Sequence[int]], Iterator[int]], kept: Callable[[], bool] = lambda: False
) -> Iterator[int]:
    """Run each wave, a list of numbers; one that does not fit is cut in two, in the list too, and run again.

    Yields, as `run` does, how many epochs were done; of what is done again nothing. Memory is given back after each,
    unless somebody has `kept` it for the next round.
    """
    done = again = 0
    while done < len(waves):
        numbers, told = waves[done], 0
        try:
            for count in run(numbers):
                told += count
                repeated = min(again, count)
                again -= repeated
                yield count - repeated
            done += 1
        except torch.OutOfMemoryError:
            if len(numbers) == 1:
                raise
            half = len(numbers) // 2
            waves[done : done + 1] = [numbers[:half], numbers[half:]]
            again += told
        if not kept():
            gc.collect()
            torch.cuda.empty_cache()


def models_that_fit(device: torch.device, models: int, trial: Callable[[], object]) -> int:
    """How many models fit, by what a trial with some of them needs; 1 if these are too many already."""
    for _ in range(2):  # in the first, libraries set aside memory that they keep
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
    allowed = total * torch.cuda.get_per_process_memory_fraction(device) - before
    return max(1, int(SHARE * min(free, allowed) / each))
