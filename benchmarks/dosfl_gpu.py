"""DOSFL on MNIST and TREC-6, tables 1 and 2 of the paper, and the eavesdroppers of its section 5.2: all parties, seeds
and variants as one fleet.

python benchmarks/dosfl_gpu.py --data mnist.npz                      # on a GPU: the whole table
python benchmarks/dosfl_gpu.py --data mnist.npz --probe 4            # so many batches of it, to know time and memory
python benchmarks/dosfl_gpu.py --data mnist.npz --reduced            # on a CPU: a cell of it, in minutes
python benchmarks/dosfl_gpu.py --data trec.npz --parties 2           # or 29; dosfl_words.py writes the file

LeNet on MNIST: 10 parties, IID and 2 shards a party, S_d = 30, E_d = 3, B_d = 10, E = 30 of batches of 512. Bi-LSTM on
TREC-6: S_d = 2, E_d = 1, B_d = 1, E = 50. It needs torch, numpy and oneballot.fleet alone, on a CPU joblib too. The
file has the arrays X, y, X_test and y_test: images of bytes, or token numbers, which come with a table of word vectors.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from dosfl_tasks import VARIANTS, Task, arguments, deal, machine, read, told_of, variants
from oneballot.fleet.train.devices import find_device, precision
from oneballot.fleet.train.recipe import Recipe
from oneballot.methods.dosfl.distil import distil
from oneballot.methods.dosfl.distil_wave import Wave
from oneballot.methods.dosfl.distillation import Distillation, Distilled, Party
from oneballot.methods.dosfl.initial import initial
from oneballot.methods.dosfl.logits import Logits
from oneballot.methods.dosfl.work import read_inputs, write_inputs
from oneballot_lab.reproduce.interception import accuracies, guess_weights, perturb_weights

PAPER = {
    ("mnist", 10): dict(zip(VARIANTS, [(94.02, 51.55), (95.64, 61.26), (93.05, 77.71), (93.68, 70.13), (90.87, 78.83),
                                       (95.64, 61.26)], strict=True)),
    ("trec", 2): dict.fromkeys(("soft labels", "soft labels and resets"), (83.6, 73.4)),
    ("trec", 29): dict.fromkeys(("soft labels", "soft labels and resets"), (79.0, 73.6)),
}  # fmt: skip
"""Best of five runs, IID and with 2 shards a party. Of TREC-6 it does not say which additions; one input a step for six
classes cannot do without soft labels."""


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--first-lessons", default="own", choices=["own", "shared"], help="noise that lessons begin as")
    parser.add_argument("--times", nargs="+", type=int, default=[], help="also take the merged lessons so many times")
    parser.add_argument("--probe", type=int, default=0, help="stop after so many batches, and tell time and memory")
    parser.add_argument("--eavesdrop", action="store_true", help="also the eavesdroppers, of the first IID cell")
    told = parser.parse_args()
    return run(told, *read(told))


def run(told: Any, task: Task, plan: Distillation) -> int:
    network, X, y, X_test, y_test, classes = task.network, task.X, task.y, task.X_test, task.y_test, task.classes
    paper = PAPER.get((task.name, told.parties), {})
    kinds = variants(plan, told.variants, told.reset)
    cells = [(v, s, seed) for v in kinds for s in told.splits for seed in range(told.seeds)]
    starts = [initial(network, told.rule, seed) for seed in range(told.seeds)]
    parties = []
    for variant, split, seed in cells:
        rng = np.random.default_rng([seed, split == "IID"])
        for k, rows in enumerate(deal(y, told.parties, split, rng)):
            first = 1000 * seed if told.first_lessons == "shared" else None
            parties.append(Party(rows, y[rows], starts[seed], 1000 * seed + k, kinds[variant], first=first))
    if told.probe:
        with precision(Recipe(), find_device(told.device)):
            return probe(network, X, parties, classes, told)
    begin = time.perf_counter()
    lessons = distil(network, X, parties, classes, device=told.device, workers=2)
    took = time.perf_counter() - begin
    lists = [lessons[i : i + told.parties] for i in range(0, len(lessons), told.parties)]
    own = [starts[seed] for _, _, seed in cells]

    def test(lists: list[list[Distilled]], merging: Any = "interleaved", times: int = plan.epochs) -> np.ndarray:
        parts = [(own[i : i + 40], lists[i : i + 40]) for i in range(0, len(lists), 40)]
        found = [accuracies(network, *part, times, X_test, y_test, device=told.device, merging=merging)
                 for part in parts]  # fmt: skip
        return np.concatenate(found)

    found, averaged, weights = (test(lists, merging) for merging in ("interleaved", "averaged", "weights"))
    alone = test([lessons[:1] for lessons in lists])
    each = lists[0][0]
    sent = each.inputs.size + each.labels.size + each.rates.size
    print(
        f"{task.name}, {told.parties} parties, {len(y):,} rows, {plan}, rule {told.rule}, soft resets {told.reset}, "
        f"{told.first_lessons} first lessons."
    )
    print(
        f"{len(parties)} lessons distilled in {took:.0f} s on {machine(told.device)}; a ballot: {4 * sent:,} bytes.\n"
    )
    head = "{0}: one party's lesson | interleaved: mean | best | paper (best of 5) | averaged: mean | best"
    head += " | weights: mean | best"
    print("| additions | " + " | ".join(head.format(s) for s in told.splits) + " |")
    print("|---|" + "---|" * 8 * len(told.splits))
    for variant in kinds:
        row = f"| {variant} |"
        for split in told.splits:
            which = [i for i, cell in enumerate(cells) if cell[:2] == (variant, split)]
            of, mean, ends, one = (values[which] * 100 for values in (found, averaged, weights, alone))
            theirs = f"{paper[variant][split != 'IID']:.1f}" if variant in paper else "–"
            row += f" {one.mean():.1f} | {told_of(of)} | {theirs} |"
            row += "".join(f" {told_of(v)} |" for v in (mean, ends))
        print(row)
    for times in told.times:
        more = test(lists, times=times) * 100
        for variant, split in dict.fromkeys(cell[:2] for cell in cells):
            of = more[[cell[:2] == (variant, split) for cell in cells]]
            print(f"Interleaved {times} times, {variant}, {split}: mean and best {told_of(of)}")
    print(f"\nPeak memory {memory():.1f} GiB.", flush=True)
    for numbers in ("float16", "uint8"):
        rounded = test([[round_off(lesson, numbers) for lesson in lessons] for lessons in lists])
        print(f"Inputs as {numbers}: accuracy {(rounded - found).mean() * 100:+.2f} points in the mean of all cells, "
              f"{(rounded - found).min() * 100:+.2f} to {(rounded - found).max() * 100:+.2f}.", flush=True)  # fmt: skip
    if told.eavesdrop:
        i = next((i for i, cell in enumerate(cells) if cell[1] == "IID"), 0)
        eavesdrop(network, own[i], lists[i], found[i], plan, X_test, y_test, told)
    return 0


def round_off(lesson: Distilled, numbers: str) -> Distilled:
    return replace(lesson, inputs=read_inputs(write_inputs(lesson.inputs, numbers), lesson.inputs.shape, numbers))


def eavesdrop(
    network: Any, start: Any, lessons: list[Distilled], known: float, plan: Distillation, X: Any, y: Any, told: Any
) -> None:
    """Section 5.2, five seeds or directions each."""
    print(
        f"\nEavesdroppers on the first cell (IID, if there is one), whose own accuracy is {known:.1%}; mean of five "
        "(lowest to highest).\n"
    )
    seeds = range(100, 105)
    print("| first weights by | accuracy |\n|---|---|")
    for rule, found in guess_weights(network, lessons, plan.epochs, seeds, X, y, device=told.device).items():
        print(f"| {rule} | {found.mean():.1%} ({found.min():.1%} to {found.max():.1%}) |")
    distances = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    print("\n| distance from the true weights | accuracy |\n|---|---|")
    all_found = perturb_weights(network, start, lessons, plan.epochs, distances, seeds, X, y, device=told.device)
    for distance, found in zip(distances, all_found, strict=True):
        print(f"| {distance:g} | {found.mean():.1%} ({found.min():.1%} to {found.max():.1%}) |")


def probe(network: Any, X: np.ndarray, parties: list[Party], classes: int, told: Any) -> int:
    """A few batches: time and memory of each way, and the slopes of three parties against a CPU's."""
    place = find_device(told.device)
    shared = torch.from_numpy(X).to(place)
    some = parties[:: max(1, len(parties) // 3)][:3]
    short = [replace(party, plan=replace(party.plan, steps=2, epochs=2)) for party in some]
    got = []
    for where in (place, torch.device("cpu")):
        wave = Wave(Logits(network, where), shared.to(where), short, classes)
        got.append([part.cpu().double() for part in next(wave.batches())])
    worst = max(float((a - b).norm() / (b.norm() + 1e-12)) for a, b in zip(*got, strict=True))
    print(f"slopes of three parties against a CPU's: {worst:.1e} apart, relatively", flush=True)
    counts = (max(1, len(parties) // 10), len(parties))
    ways = [("autograd", False), (None, False)] + [(None, True)] * (place.type == "cuda")
    for count, (way, record) in product(counts, ways):
        begin = time.perf_counter()
        wave = Wave(Logits(network, place, way=way), shared, parties[:count], classes, record=record)
        batches, clock = wave.batches(), [time.perf_counter()]
        for _ in range(told.probe):
            found = next(batches)
            if place.type == "cuda":
                torch.cuda.synchronize()
            clock.append(time.perf_counter())
        each = np.diff(clock)
        sums = ", ".join(f"{float(part.double().abs().sum()):.6e}" for part in found)  # the same, up to rounding
        times = ", ".join(f"{t:.2f}" for t in each)
        print(f"{count} lessons, by {wave.net.way}{', recorded' * record}: set up in {clock[0] - begin:.1f} s; batches "
              f"{times} s; {wave.ends[0]} batches would take {each[-1] * wave.ends[0]:.0f} s; peak memory "
              f"{memory():.1f} GiB; slopes {sums}", flush=True)  # fmt: skip
        del wave, batches, found
    return 0


def memory() -> float:
    return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0


if __name__ == "__main__":
    sys.exit(main())
