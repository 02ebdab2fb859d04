"""LP-DOSFL, figure 2 of the paper: one party after the other, each distils for the weights that those before it led to.

python benchmarks/dosfl_chain.py --data mnist.npz --seeds 3 --variants "soft labels" "soft labels and resets"

All seeds, splits and variants go party by party as one fleet. Data and settings are those of dosfl_gpu.py.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from dosfl_tasks import arguments, deal, machine, read, told_of, variants
from oneballot.methods.dosfl.distil import distil
from oneballot.methods.dosfl.distillation import Party
from oneballot.methods.dosfl.initial import initial
from oneballot.methods.dosfl.replay import Course, replay
from oneballot_lab.reproduce.interception import accuracies

HEAVIEST = 1e9


def main() -> int:
    told = arguments(__doc__).parse_args()
    task, plan = read(told)
    kinds = variants(plan, told.variants, told.reset)
    cells = [(v, s, seed) for v in kinds for s in told.splits for seed in range(told.seeds)]
    hands = [deal(task.y, told.parties, s, np.random.default_rng([seed, s == "IID"])) for _, s, seed in cells]
    now = [initial(task.network, told.rule, seed) for _, _, seed in cells]
    print(f"{task.name}, {told.parties} parties one after the other, {plan}, on {machine(told.device)}.\n")
    named = list(dict.fromkeys(cell[:2] for cell in cells))
    print("| parties | seconds | " + " | ".join(f"{variant}, {split}: mean | best" for variant, split in named) + " |")
    print("|---|---|" + "---|" * 2 * len(named), flush=True)
    begin = time.perf_counter()
    for k in range(told.parties):
        parties = [
            Party(hand[k], task.y[hand[k]], start, 1000 * seed + k, kinds[variant])
            for hand, start, (variant, _, seed) in zip(hands, now, cells, strict=True)
        ]
        lessons = distil(task.network, task.X, parties, task.classes, device=told.device, workers=2)
        courses = [Course(start, [lesson], plan.epochs) for start, lesson in zip(now, lessons, strict=True)]
        found = accuracies(task.network, now, [[lesson] for lesson in lessons], plan.epochs, task.X_test, task.y_test,
                           device=told.device) * 100  # fmt: skip
        now = [dict(learned.values) for learned in replay(task.network, courses, HEAVIEST, device=told.device)]
        scores = " | ".join(told_of(found[[cell[:2] == name for cell in cells]]) for name in named)
        print(f"| {k + 1} | {time.perf_counter() - begin:.0f} | {scores} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
