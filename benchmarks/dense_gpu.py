"""DENSE beside the parties alone and ensembles of the same networks, on MNIST and CIFAR-10 without public rows.

python benchmarks/dense_gpu.py DATA                                    # on a GPU: all cells of one seed
python benchmarks/dense_gpu.py DATA --seeds 3 --average seen logits    # also with the mean logits of the paper
python benchmarks/dense_gpu.py DATA --sets mnist --parties 5 --alphas 0.3 --rows 3000 --quick    # on a CPU: minutes

DATA is a folder with mnist.npz and cifar10.npz (arrays X, y, X_test, y_test; images of bytes), or with the usual files
of these data sets. Parties' networks are trained once for each cell: LeNet on MNIST, ResNet-8 on CIFAR-10. Prints a
line of JSON for each cell, then a table. Accuracy in per cent, mean and sample standard deviation over the seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import oneballot as ob
from oneballot import plugins
from oneballot.ballot.seal import seal
from oneballot.methods.ensemble.average import EnsembleModel
from oneballot.party.cast import cast_together
from oneballot.simulation import divide
from oneballot.types import Array, Blob, Data

LOCAL = {
    "mnist": {"module": "lenet", "settings": {"shape": [1, 28, 28]}, "epochs": 10, "batch": 64},
    "cifar10": {
        "module": "resnet8",
        "settings": {"shape": [3, 32, 32]},
        "epochs": 12,
        "batch": 128,
        "augment": ("crop", "flip"),
    },
}
FINAL_EPOCHS = 5
DENSE_EPOCHS = {"mnist": 60, "cifar10": 50}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["mnist", "cifar10"], choices=["mnist", "cifar10"])
    parser.add_argument("--parties", nargs="+", type=int, default=[5, 10])
    parser.add_argument("--alphas", nargs="+", type=float, default=[0.1, 0.3, 0.5])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--average", nargs="+", default=["seen"], choices=["seen", "logits"], help="of the networks")
    parser.add_argument("--epochs", type=int, help=f"of DENSE; by default {DENSE_EPOCHS}")
    parser.add_argument("--rows", type=int, help="only so many training rows, and a third as many test rows")
    parser.add_argument("--quick", action="store_true", help="3 epochs of everything, small batches: a trial")
    parser.add_argument("--minutes", type=float, default=9.0, help="start no further cell after so many minutes")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    options = parser.parse_args()
    warnings.simplefilter("ignore", ob.OneBallotWarning)
    start, cells = time.perf_counter(), list[dict[str, Any]]()
    for name in options.sets:
        data = read(options.data, name, options.rows)
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        for seed, parties, alpha in product(seeds, options.parties, options.alphas):
            if time.perf_counter() - start > 60 * options.minutes:
                print(f"out of time: {name}, {parties} parties, α = {alpha:g}, seed {seed} left out", flush=True)
                continue
            cell = {"set": name, "parties": parties, "alpha": alpha, "seed": seed}
            cells.append(cell | {"rows": run(name, data, parties, alpha, seed, options)})
            print(json.dumps(cells[-1]), flush=True)
    print_table(cells)
    print(f"\n{time.perf_counter() - start:.0f} s on {machine(options.device)}.")


def read(folder: Path, name: str, rows: int | None) -> dict[str, Array]:
    if (path := folder / f"{name}.npz").exists():
        file = np.load(path)
        data = {key: file[key] for key in ("X", "y", "X_test", "y_test")}
    else:
        from oneballot_lab.data.registry import load

        os.environ["ONEBALLOT_DATA"] = str(folder)
        loaded = load(name)
        data = {"X": loaded.X, "y": loaded.y, "X_test": loaded.X_test, "y_test": loaded.y_test}
    for key, most in (("", rows), ("_test", rows and rows // 3)):
        X = data[f"X{key}"][:most]
        data[f"X{key}"] = X.reshape(len(X), -1, *X.shape[-2:])
        data[f"y{key}"] = data[f"y{key}"][:most].astype(np.int64)
    return data


def run(name: str, data: dict[str, Array], parties: int, alpha: float, seed: int, options: Any) -> dict[str, Any]:
    """Accuracy in per cent, and seconds, of each row of the table."""
    local = LOCAL[name] | {"device": options.device} | ({"epochs": 3} if options.quick else {})
    final = {key: value for key, value in local.items() if key != "augment"} | {"epochs": FINAL_EPOCHS}
    dense = {"epochs": options.epochs or DENSE_EPOCHS[name]}
    if options.quick:
        dense |= {"epochs": options.epochs or 3, "batch": 64, "generator_steps": 10}
    first = ob.Election(
        classes=range(10),
        method=ob.Dense(**dense, average=options.average[0]),
        learners={"local": ob.Torch(**local), "final": ob.Torch(**final)},
        seed=seed,
        max_ballot_mb=64,
    )
    held = divide(Data(data["X"], data["y"]), parties, f"dirichlet:{alpha:g}", seed)
    clock = time.perf_counter()
    ballots = [ballot for ballot in cast_together(first, held) if ballot.abstained is None]
    training = time.perf_counter() - clock

    def right(scores: Array) -> float:
        return round(100 * float((scores.argmax(axis=1) == data["y_test"]).mean()), 2)

    models: dict[Blob, Any] = {}
    for ballot in ballots:
        blob = ballot.blob("model")
        models[blob] = plugins.find("formats", blob.format).load(blob.data, classes=10)
        if blob.format == "torch-safetensors":
            models[blob].device = options.device
    clock = time.perf_counter()
    scores = {blob: model.scores(data["X_test"]) for blob, model in models.items()}
    asking = time.perf_counter() - clock
    alone = [right(each) for each in scores.values()]
    networks = [each for blob, each in scores.items() if blob.format == "torch-safetensors"]
    seen = np.stack([ballot.array("seen", np.int64, (10,)) > 0 for ballot in ballots])
    ensemble = EnsembleModel(list(models), seen[None], ask=lambda blob, X, **_: models[blob].predict_proba(X))
    rows: dict[str, Any] = {
        "mean party": [round(float(np.mean(alone)), 2), training],
        "best party": [max(alone), training],
        "ensemble, mean logits": [right(np.mean(networks, axis=0)), training + asking],
        "ensemble, seen": [right(ensemble.predict_proba(data["X_test"])), training + asking],
    }
    for average in options.average:
        election = replace(first, method=replace(first.method, average=average))
        again = [seal(ballot.contents, election, ballot.party) for ballot in ballots]
        clock = time.perf_counter()
        outcome = ob.tally(election, again)
        seconds = training + time.perf_counter() - clock
        outcome.model.model_.device = options.device
        rows[f"DENSE, {average}"] = [right(outcome.probabilities(data["X_test"])), seconds]
    return {row: [accuracy, round(seconds, 1)] for row, (accuracy, seconds) in rows.items()}


def print_table(cells: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys((cell["set"], cell["parties"], cell["alpha"]) for cell in cells))
    print("\n| | " + " | ".join(f"{name}, {parties} parties, α = {alpha:g}" for name, parties, alpha in columns) + " |")
    print("|---|" + "---|" * len(columns))
    for row in dict.fromkeys(row for cell in cells for row in cell["rows"]):
        texts = []
        for column in columns:
            found = [cell["rows"][row] for cell in cells if (cell["set"], cell["parties"], cell["alpha"]) == column]
            right, seconds = np.array(found).T
            spread = f" ± {right.std(ddof=1):.1f}" if len(right) > 1 else ""
            texts.append(f"{right.mean():.1f}{spread} ({seconds.mean():.0f} s)")
        print(f"| {row} | " + " | ".join(texts) + " |")


def machine(device: str) -> str:
    import torch

    on_gpu = device != "cpu" and torch.cuda.is_available()
    return torch.cuda.get_device_name() if on_gpu else f"{os.cpu_count()} CPU cores"


if __name__ == "__main__":
    main()
