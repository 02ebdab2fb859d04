"""Texts as token numbers: by GloVe's word vectors where they are at hand, or by the words of the training texts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oneballot.errors import DataNotFound
from oneballot.fleet.models.vectors import FIRST, WORD, Vectors
from oneballot.learners._word_vectors import vectors_of
from oneballot.types import Array

from ..data.registry import DataSet, data_folders

Words = Literal["glove", "own"]
VOCABULARY = 20_000
FILE = Path("glove/glove.6B.100d.txt")


def glove() -> Path:
    """The file of the papers' word vectors. Raises NotAtHand where there is none."""
    for place in data_folders():
        if (place / FILE).is_file():
            return place / FILE
    raise DataNotFound(
        f"the word vectors {FILE} are not at hand. Get glove.6B.zip from https://nlp.stanford.edu/projects/glove/ "
        f"and put the file into {' or '.join(map(str, data_folders()))}."
    )


def as_tokens(data: DataSet, words: Words, length: int, texts: Array) -> DataSet:
    """The same with rows of so many token numbers; "own" words are the most frequent of these texts."""
    if words == "glove":
        known = vectors_of(str(glove()), FIRST + VOCABULARY)  # the learner reads the same, once a process
    else:
        seen = Counter(word.lower() for text in texts for word in WORD.findall(text))
        often = tuple(word for word, _ in seen.most_common(VOCABULARY))
        known = Vectors(often, np.zeros((FIRST + len(often), 1), dtype=np.float32))
    X, X_test = (_encode(known, rows, length) for rows in (data.X, data.X_test))
    return replace(data, X=X, X_test=X_test)


def _encode(known: Vectors, texts: Array, length: int) -> Array:
    return known.encode([str(text) for text in texts], length)


def with_words(learner: Any, words: Words | None, length: int) -> Any:
    """A network's learner with the table that its token numbers are of: GloVe's, frozen, or one of its own."""
    if words is None or not hasattr(learner, "vectors"):
        return learner
    settings = {**learner.settings, "vocabulary": FIRST + VOCABULARY, "shape": [length]}
    if words == "glove":
        return replace(learner, vectors=str(glove()), settings={"embedding": "frozen", **settings})
    return replace(learner, settings=settings)
