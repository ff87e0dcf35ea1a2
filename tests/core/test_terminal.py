"""A terminal: tables lose nothing and no line is wider; a bar has whole numbers, a log lines."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.options import note, say
from harness.core.terminal import (
    LINE_INTERVAL,
    Bar,
    Lines,
    progress_on,
    text_table,
    visible,
)

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


# Progress


@pytest.mark.parametrize("note", ["", "loss 0.0123, and further words" * 3])
def test_numbers_are_seen_whole_in_80_columns(monkeypatch, tmp_path, note):
    monkeypatch.setenv("COLUMNS", "80")
    with (tmp_path / "bar").open("w") as stream, Bar(stream) as bar:
        bar.phase("first", 3)
        bar.phase("simcse-unsup-bert-mini: training", 100_000)
        if note:
            bar.note(note)
        bar.step(100_000)
    lines = [
        line for line in (tmp_path / "bar").read_text().splitlines() if line.strip()
    ]
    assert all(len(line) <= 80 for line in lines)
    assert "100000/100000" in lines[-1]
    assert lines[-1].rstrip().endswith("left 0:00:00")


def test_a_log_gets_a_line_every_ten_seconds_with_the_time_left(monkeypatch):
    seconds = iter(range(0, 10_000))  # one at each look at the clock
    stream = io.StringIO()
    monkeypatch.setattr("harness.core.terminal.perf_counter", lambda: next(seconds))
    progress = progress_on(stream)
    assert isinstance(progress, Lines)
    with progress:
        progress.phase("minilm: encoding", 1000)
        for _ in range(40):
            progress.step(10)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 40 // LINE_INTERVAL
    assert lines[1].startswith("minilm: encoding: ")


def test_the_loading_of_a_model_makes_no_time_left(monkeypatch):
    now = [0.0]
    stream = io.StringIO()
    monkeypatch.setattr("harness.core.terminal.perf_counter", lambda: now[0])
    progress = Lines(stream)
    progress.phase("encoding tokens", 1000)
    for seconds in (100, 2, 2, 2, 2, 2):
        now[0] += seconds
        progress.step(20)
        if seconds == 2:
            progress.note("a note counts no step")
    # The first line knows the loading alone, the second the steps since then.
    assert [
        line.partition("elapsed ")[2] for line in stream.getvalue().splitlines()
    ] == ["0:01:40, left 1:21:40", "0:01:50, left 0:01:28"]
