"""Progress: every number of the bar is whole, and a log has a line every ten seconds."""

import io

import pytest

from harness.core.progress import LINE_INTERVAL, Bar, Lines, progress_on


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
    monkeypatch.setattr("harness.core.progress.perf_counter", lambda: next(seconds))
    progress = progress_on(stream)
    assert isinstance(progress, Lines)
    with progress:
        progress.phase("minilm: encoding", 1000)
        for _ in range(40):
            progress.step(10)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 40 // LINE_INTERVAL
    assert lines[1] == "minilm: encoding: 180 of 1,000, elapsed 0:00:18, left 0:01:22"
