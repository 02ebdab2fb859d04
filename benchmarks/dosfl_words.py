"""Writes texts as tokens, and the word vectors they need, for dosfl_gpu.py: X, y, X_test, y_test and table.

ONEBALLOT_DATA=… python benchmarks/dosfl_words.py --vectors glove.6B.100d.txt --out trec.npz
ONEBALLOT_DATA=… python benchmarks/dosfl_words.py --texts imdb --shuffle --length 200 \\
    --vectors glove.6B.100d.txt --out imdb.npz
"""

from __future__ import annotations

import argparse

import numpy as np

from oneballot.fleet.models.vectors import FIRST, read_vectors
from oneballot_lab.data.registry import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", required=True, help="a file in GloVe's text format")
    parser.add_argument("--out", required=True)
    parser.add_argument("--texts", default="trec", choices=["trec", "imdb", "sent140"])
    parser.add_argument("--shuffle", action="store_true", help="for rows that are sorted by class")
    parser.add_argument("--length", type=int, default=30, help="words of a text")
    args = parser.parse_args()
    data, vectors = load(args.texts), read_vectors(args.vectors)
    rng = np.random.default_rng(0)
    sizes = len(data.X), len(data.X_test)
    order, test = (rng.permutation(n) if args.shuffle else np.arange(n) for n in sizes)
    X, X_test = (vectors.encode(list(texts), args.length) for texts in (data.X[order], data.X_test[test]))
    used = np.unique(np.concatenate([np.arange(FIRST), X.ravel(), X_test.ravel()]))
    new = np.zeros(len(vectors.table), dtype=np.int32)
    new[used] = np.arange(len(used))
    np.savez_compressed(args.out, X=new[X], y=data.y[order], X_test=new[X_test], y_test=data.y_test[test],
                        table=vectors.table[used])  # fmt: skip
    print(f"{args.out}: {len(X):,} and {len(X_test):,} texts, {len(used):,} words; "
          f"{(X == 1).sum() / (X > 0).sum():.1%} of the words have no vector")  # fmt: skip


if __name__ == "__main__":
    main()
