"""Texts as token numbers, with GloVe's vocabulary and word vectors or with the most frequent words of the texts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from oneballot.fleet.models.vectors import FIRST, WORD, Vectors
from oneballot.learners._word_vectors import vectors_of
from oneballot.learners.torch import Torch
from oneballot.types import Array

from ..data.registry import DataSet, find_file

Vocabulary = Literal["glove", "own"]
SIZE = 20_000


def find_glove() -> Path:
    """The papers' word vectors. Raises DataNotFound."""
    return find_file(
        "glove/glove.6B.100d.txt", "Download glove.6B.zip from https://nlp.stanford.edu/projects/glove/ and unpack it."
    )


def tokenize(data: DataSet, vocabulary: Vocabulary, length: int, texts: Array) -> DataSet:
    """The data set with rows of `length` token numbers. "own": the vocabulary is the most frequent words of `texts`."""
    if vocabulary == "glove":
        vectors = vectors_of(str(find_glove()), FIRST + SIZE)  # cached: the learner uses the same vectors
    else:
        counts = Counter(word.lower() for text in texts for word in WORD.findall(text))
        frequent = tuple(word for word, _ in counts.most_common(SIZE))
        vectors = Vectors(frequent, np.zeros((FIRST + len(frequent), 1), dtype=np.float32))
    X, X_test = (vectors.encode([str(text) for text in rows], length) for rows in (data.X, data.X_test))
    return replace(data, X=X, X_test=X_test)


def with_vocabulary(learner: Torch, vocabulary: Vocabulary | None, length: int) -> Torch:
    """The learner torch with the embedding for these token numbers: GloVe's, frozen, or trained from scratch."""
    if vocabulary is None:
        return learner
    settings = {**learner.settings, "vocabulary": FIRST + SIZE, "shape": [length]}
    if vocabulary == "glove":
        return replace(learner, vectors=str(find_glove()), settings={"embedding": "frozen", **settings})
    return replace(learner, settings=settings)
