"""Tables in a terminal: nothing is lost, no line is wider, and a pipe gets what it always got."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.options import note, say
from harness.core.terminal import text_table, visible

HEAD = ["encoder", "cells", "source", "note"]
WORDS = st.text("abc-@:/+", min_size=1, max_size=12)
TEXTS = st.lists(WORDS, max_size=9).map(" ".join)
ROWS = st.lists(
    st.tuples(WORDS, st.integers(0, 10**6), TEXTS, TEXTS), min_size=1, max_size=4
)


@given(ROWS, st.integers(24, 100))
def test_no_line_is_wider_and_no_word_is_lost_or_broken(rows, width):
    shown = text_table(rows, HEAD, width)
    assert all(len(line.rstrip()) <= width for line in shown.splitlines())
    words = shown.split()
    for row in rows:
        for cell in row:
            assert set(str(cell).split()) <= set(words)


@given(st.text())
def test_nothing_that_is_shown_commands_a_terminal(text):
    shown = visible(text)
    assert all(c in "\t\n" or unicodedata.category(c) != "Cc" for c in shown)
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    )
    assert visible(shown) == shown


@pytest.mark.parametrize("to", [say, note])
def test_a_command_shows_control_characters(capsys, to):
    to("wiped\x1b[2J\x9b0m\r\u202eabc\tdef")
    out, err = capsys.readouterr()
    assert (out + err).split("\n")[0] == r"wiped\x1b[2J\x9b0m\r\u202eabc" + "\tdef"
