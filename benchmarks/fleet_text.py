"""Text networks on TREC-6: accuracy in float32 and bfloat16, beside the largest class.

ONEBALLOT_DATA=… python benchmarks/fleet_text.py --vectors glove.100d.txt [--seeds 3] [--epochs 12]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import oneballot as ob
from oneballot_lab.data.registry import load

LENGTH = 24
NETWORKS: dict[str, dict[str, Any]] = {
    "textcnn": {}, "bilstm": {}, "transformer": {"heads": 4, "layers": 2},
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", required=True, help="word vectors in GloVe's text format")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    data, vectors = load("trec"), ob.read_vectors(options.vectors)
    X, X_test = (vectors.encode(list(texts), length=LENGTH) for texts in (data.X, data.X_test))
    rows, asked = np.arange(len(X)), len(X) + np.arange(len(X_test))
    tasks = [ob.Task(rows, data.y, seed=seed, ask=asked) for seed in range(options.seeds)]
    largest = np.bincount(data.y).argmax()
    share = 100 * np.mean(data.y_test == largest)
    print(f"TREC-6, {options.seeds} seeds, {options.epochs} epochs, the largest class {share:.1f} %\n")
    print("| | float32 | bfloat16 | seconds a model |\n|---|---|---|---|")
    for name, settings in NETWORKS.items():
        cells, started = [], time.perf_counter()
        for precision in ("float32", "bfloat16"):
            learner = ob.Torch(name, settings={"embedding": "frozen", **settings}, vectors=options.vectors,
                               epochs=options.epochs, precision=precision)  # fmt: skip
            models = learner.fit_many(np.concatenate([X, X_test]), tasks, len(data.classes), keep=False)
            found = [100 * (answer.argmax(axis=1) == data.y_test).mean() for answer in models.predictions()]
            cells.append(f"{np.mean(found):.1f} ± {np.std(found):.1f} %")
        spent = (time.perf_counter() - started) / (2 * options.seeds)
        print(f"| {name} | {cells[0]} | {cells[1]} | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
