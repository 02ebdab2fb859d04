"""Writes TREC-6 as token numbers with the word vectors they need, for dosfl_gpu.py: X, y, X_test, y_test and table.

ONEBALLOT_DATA=… python benchmarks/dosfl_words.py --vectors glove.6B.100d.txt --out trec.npz
"""

from __future__ import annotations

import argparse

import numpy as np

from oneballot.data.registry import load
from oneballot.fleet.vectors import FIRST, read_vectors

LENGTH = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", required=True, help="a file in GloVe's text format")
    parser.add_argument("--out", required=True)
    told = parser.parse_args()
    data, vectors = load("trec"), read_vectors(told.vectors)
    X, X_test = (vectors.encode(list(texts), LENGTH) for texts in (data.X, data.X_test))
    used = np.unique(np.concatenate([np.arange(FIRST), X.ravel(), X_test.ravel()]))
    new = np.zeros(len(vectors.table), dtype=np.int32)
    new[used] = np.arange(len(used))
    np.savez_compressed(told.out, X=new[X], y=data.y, X_test=new[X_test], y_test=data.y_test, table=vectors.table[used])
    print(f"{told.out}: {len(X):,} and {len(X_test):,} questions, {len(used):,} words; "
          f"{(X == 1).sum() / (X > 0).sum():.1%} of the words have no vector")  # fmt: skip


if __name__ == "__main__":
    main()
