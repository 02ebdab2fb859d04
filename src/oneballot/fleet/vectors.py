"""Word vectors in GloVe's text format, a word and its numbers a line, and texts as the numbers of their words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..core import Array
from ..errors import DataError

PADDING, UNKNOWN, FIRST = 0, 1, 2
"""Token numbers: nothing, a word that is not in the file, and the file's first word."""

WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Vectors:
    """table `(2 + words, dimension)`: padding is zero, the unknown word the mean of all, then the file's words."""

    words: tuple[str, ...]
    table: Array

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        return {word: i for i, word in enumerate(self.words, start=FIRST)}

    def encode(self, texts: Sequence[str], length: int) -> Array:
        """Token numbers `(texts, length)`, int32: in small letters, words and signs apart, cut or padded behind."""
        out = np.full((len(texts), length), PADDING, dtype=np.int32)
        for row, text in zip(out, texts, strict=True):
            found = [self.numbers.get(word, UNKNOWN) for word in WORD.findall(text.lower())[:length]]
            row[: len(found)] = found
        return out


def read_vectors(path: str | Path, most: int | None = None) -> Vectors:
    """The first `most` words of a file; in GloVe's files the most frequent come first. A word twice counts once."""
    words: dict[str, Array] = {}
    dimension = 0
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, start=1):
                word, _, rest = line.rstrip("\n").partition(" ")
                values = np.array(rest.split(" "), dtype=np.float32) if rest else np.empty(0, dtype=np.float32)
                dimension = dimension or len(values)
                if not len(values) or len(values) != dimension or not np.isfinite(values).all():
                    raise DataError(f"{path}, line {number}: expected a word and {dimension or 'some'} finite numbers")
                words.setdefault(word, values)
                if len(words) == most:
                    break
    except ValueError:
        raise DataError(f"{path}, line {number}: expected a word and {dimension or 'some'} numbers") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; give a file of word vectors in GloVe's text format") from None
    if not words:
        raise DataError(f"{path} is empty: expected word vectors in GloVe's text format")
    values = np.stack(list(words.values()))
    table = np.concatenate([np.zeros((1, dimension), dtype=np.float32), values.mean(axis=0, keepdims=True), values])
    return Vectors(tuple(words), table)
