"""Word vectors in GloVe's text format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from oneballot.errors import DataError
from oneballot.fleet.models.vectors import read_vectors

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


def test_irregular_files_are_read(tmp_path: Path) -> None:
    """A word2vec header, trailing spaces, empty lines, words with spaces, and Windows line endings."""
    (tmp_path / "glove.txt").write_bytes(b"4 2\r\nthe 1 2 \r\n. . 3 4\n\nat name@domain.com 5 6\n7 8 9\n\n")
    vectors = read_vectors(tmp_path / "glove.txt")
    assert vectors.words == ("the", ". .", "at name@domain.com", "7")
    assert vectors.table[2:].tolist() == [[1, 2], [3, 4], [5, 6], [8, 9]]


def test_words_are_looked_up_as_written_and_then_in_lower_case(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("the 1\nThe 2\nu.s. 3\nn't 4\ndo 5\n, 6\n")
    encode = read_vectors(tmp_path / "glove.txt").encode
    assert encode(["The THE the U.S. do n't do,"], 9).tolist() == [[3, 2, 2, 4, 6, 5, 6, 7, 0]]
    assert encode(["do,the"], 2).tolist() == [[6, 7]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("the\n", "line 1: expected a word and some finite numbers"),
        ("the 1 2\ncat 1\n", "line 2: expected a word and 2 finite numbers"),
        ("the 1 2\ncat 1 two\n", "line 2: expected a word and 2 finite numbers"),
        ("the 1 nan\n", "line 1"),
    ],
    ids=str,
)
def test_malformed_files_are_refused_with_the_line_number(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "glove.txt").write_text(text)
    with pytest.raises(DataError, match=says):
        read_vectors(tmp_path / "glove.txt")
    with pytest.raises(DataError, match="give a file of word vectors"):
        read_vectors(tmp_path / "none.txt")
