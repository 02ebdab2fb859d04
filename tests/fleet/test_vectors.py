"""Word vectors in GloVe's text format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from oneballot.errors import DataError
from oneballot.fleet.vectors import read_vectors

GLOVE = "the 0.5 -1.0\ncat 1.5 2\n. 4 -4\nthe 9 9\n"


def test_words_get_numbers_and_the_table_has_their_vectors(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text(GLOVE)
    vectors = read_vectors(tmp_path / "glove.txt")
    assert vectors.words == ("the", "cat", ".")
    np.testing.assert_allclose(vectors.table, [[0, 0], [2, -1], [0.5, -1], [1.5, 2], [4, -4]])
    tokens = vectors.encode(["The dog. The CAT", "", "cat"], 4)
    assert tokens.tolist() == [[2, 1, 4, 2], [0, 0, 0, 0], [3, 0, 0, 0]]
    assert tokens.dtype == np.int32
    assert read_vectors(tmp_path / "glove.txt", most=2).words == ("the", "cat")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("the\n", "line 1: expected a word and some finite numbers"),
        ("the 1 2\ncat 1\n", "line 2: expected a word and 2 finite numbers"),
        ("the 1 2\ncat 1 two\n", "line 2: expected a word and 2 numbers"),
        ("the 1 nan\n", "line 1"),
    ],
    ids=str,
)
def test_other_files_are_refused_by_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "glove.txt").write_text(text)
    with pytest.raises(DataError, match=says):
        read_vectors(tmp_path / "glove.txt")
    with pytest.raises(DataError, match="give a file of word vectors"):
        read_vectors(tmp_path / "none.txt")
