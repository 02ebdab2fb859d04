"""LP-DOSFL, figure 2 of the paper: each party distils for the weights that the parties before it led to.

python benchmarks/dosfl_chain.py --data mnist.npz --seeds 3 --variants "soft labels" "soft labels and resets"

All seeds, splits and variants run side by side, party by party. Data and settings are those of dosfl_gpu.py.
--replay is not in the paper: the server keeps what all parties sent and, after each, trains from the first weights on
all of it, interleaved.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from dosfl_tasks import arguments, machine, read, split_rows, summary, variants
from oneballot.fleet.train.devices import find_device, one_thread, set_precision
from oneballot.methods.dosfl.distil import distil
from oneballot.methods.dosfl.distillation import DistilledData, Party
from oneballot.methods.dosfl.initialization import draw_initial_weights
from oneballot.methods.dosfl.steps import train_network
from oneballot_lab.reproduce.interception import accuracies


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--replay", action="store_true", help="train from the first weights on all data so far")
    args = parser.parse_args()
    task, settings = read(args)
    network, X_test, y_test, device = task.network, task.X_test, task.y_test, args.device
    by_variant = variants(settings, args.variants, args.reset)
    place = find_device(device)
    cells = [(v, s, seed) for v in by_variant for s in args.splits for seed in range(args.seeds)]
    splits = [split_rows(task.y, args.parties, s, np.random.default_rng([seed, s == "IID"])) for _, s, seed in cells]
    weights = [draw_initial_weights(network, args.rule, seed) for _, _, seed in cells]
    first, so_far = weights, [list[DistilledData]() for _ in cells]
    server = "a server that replays all data so far" if args.replay else "a server that trains on the newest data alone"
    print(f"{task.name}, {args.parties} parties one after the other, {server}, {settings}, on {machine(device)}.\n")
    columns = list(dict.fromkeys(cell[:2] for cell in cells))
    print(
        "| parties | seconds | " + " | ".join(f"{variant}, {split}: mean | best" for variant, split in columns) + " |"
    )
    print("|---|---|" + "---|" * 2 * len(columns), flush=True)
    begin = time.perf_counter()
    for k in range(args.parties):
        parties = [
            Party(rows[k], task.y[rows[k]], initial, 1000 * seed + k, by_variant[variant])
            for rows, initial, (variant, _, seed) in zip(splits, weights, cells, strict=True)
        ]
        with set_precision("float32", place), one_thread():
            new = distil(network, task.X, parties, task.classes, place)
        for own, one in zip(so_far, new, strict=True):
            own[:] = [*own, one] if args.replay else [one]
        starts = first if args.replay else weights
        accuracy = accuracies(network, starts, so_far, settings.epochs, X_test, y_test, device=device) * 100
        with set_precision("float32", place), one_thread():
            weights = [
                dict(train_network(network, initial, own, settings.epochs, "interleaved", place).weights)
                for initial, own in zip(starts, so_far, strict=True)
            ]
        scores = " | ".join(summary(accuracy[[cell[:2] == name for cell in cells]]) for name in columns)
        print(f"| {k + 1} | {time.perf_counter() - begin:.0f} | {scores} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
