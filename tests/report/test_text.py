"""What is printed holds no control characters of the data, which could write to a terminal what they like."""

from __future__ import annotations

import pytest

from oneballot.report.text import print_lines, print_table

OWNED = "\x1b]0;owned\x07"


def test_control_characters_in_tables_and_sentences_are_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(f"title{OWNED}", ["", f"head{OWNED}"], [[f"cell{OWNED}", "1"]])
    print_lines([f"sentence{OWNED}", "long " * 1000])
    seen = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in seen)
    for word in ("title", "head", "cell", "sentence"):
        assert f"{word} ]0;owned" in seen
    assert "long " * 1000 in seen, "a long sentence is whole"
