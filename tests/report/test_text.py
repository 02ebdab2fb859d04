"""What is printed holds no control characters of the data, which could write to a terminal what they like."""

from __future__ import annotations

import pytest

from oneballot.report.text import print_facts, print_lines, print_table

OWNED = "\x1b]0;owned\x07"


def test_control_characters_in_tables_and_sentences_are_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(f"title{OWNED}", ["", f"head{OWNED}"], [[f"cell{OWNED}", "1"]])
    print_lines([f"sentence{OWNED}", "long " * 1000])
    seen = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in seen)
    for word in ("title", "head", "cell", "sentence"):
        assert f"{word} ]0;owned" in seen
    assert "long " * 1000 in seen, "a long sentence is whole"


def test_facts_are_aligned_at_the_colon_and_lists_have_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"key": f"a{OWNED}", "rows": 3, "none": [], "classes": ["x", "y"]}, width=8)
    assert capsys.readouterr().out.splitlines() == [
        "     key: a ]0;owned ",
        "    rows: 3",
        " classes: x",
        "          y",
    ]
