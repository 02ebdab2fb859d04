"""Word vectors in GloVe's text format (a word and its numbers on each line), and texts as token numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ...errors import DataError
from ...types import Array

PADDING, UNKNOWN, FIRST = 0, 1, 2
"""Token numbers of padding, of words that are not in the file, and of the file's first word."""

WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Vectors:
    """table `(2 + words, dimension)`: zeros for padding, the mean of all words for unknown ones, then all words."""

    words: tuple[str, ...]
    table: Array

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        return {word: i for i, word in enumerate(self.words, start=FIRST)}

    def encode(self, texts: Sequence[str], length: int) -> Array:
        """Token numbers `(texts, length)`, int32, truncated or padded at the end.

        A chunk between spaces is one token if the file has it; otherwise it is split into words and punctuation. Each
        token is looked up as written, then in lower case.
        """
        out = np.full((len(texts), length), PADDING, dtype=np.int32)
        for row, text in zip(out, texts, strict=True):
            tokens: list[int] = []
            for chunk in text.split():
                whole = self._number(chunk)
                tokens += [whole] if whole != UNKNOWN else map(self._number, WORD.findall(chunk))
                if len(tokens) >= length:
                    break
            row[: len(tokens)] = tokens[:length]
        return out

    def _number(self, word: str) -> int:
        return self.numbers.get(word) or self.numbers.get(word.lower(), UNKNOWN)


def read_vectors(path: str | Path, most: int | None = None) -> Vectors:
    """Read the first `most` words of a file (in GloVe's files the most frequent). Later duplicates are ignored."""
    words: dict[str, Array] = {}
    dimension = 0
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                parts = line.rstrip(" \r\n").split(" ")
                if parts == [""] or (number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts)):
                    continue  # an empty line, or word2vec's header
                dimension = dimension or len(parts) - 1
                values = np.array(parts[-dimension:] if dimension else [], dtype=np.float32)
                if not dimension or len(parts) <= dimension or not np.isfinite(values).all():
                    raise ValueError
                words.setdefault(" ".join(parts[:-dimension]), values)  # words of GloVe's 840B file contain spaces
                if len(words) == most:
                    break
    except ValueError:
        raise DataError(f"{path}, line {number}: expected a word and {dimension or 'some'} finite numbers") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; give a file of word vectors in GloVe's text format") from None
    if not words:
        raise DataError(f"{path} is empty: expected word vectors in GloVe's text format")
    values = np.stack(list(words.values()))
    table = np.concatenate([np.zeros((1, dimension), dtype=np.float32), values.mean(axis=0, keepdims=True), values])
    return Vectors(tuple(words), table)
