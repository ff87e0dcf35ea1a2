"""The progress bar: nothing before something runs, and every number whole."""

import pytest

from harness.core.progress import Bar


@pytest.mark.parametrize("note", ["", "loss 0.0123, and further words" * 3])
def test_numbers_are_seen_whole_in_80_columns(monkeypatch, tmp_path, note):
    monkeypatch.setenv("COLUMNS", "80")
    with (tmp_path / "bar").open("w") as stream, Bar(stream) as bar:
        bar.phase("first", 3)
        bar.phase("simcse-unsup-bert-mini: training", 100_000)
        if note:
            bar.note(note)
        bar.step(100_000)
    lines = [line for line in (tmp_path / "bar").read_text().splitlines() if line.strip()]
    assert all(len(line) <= 80 for line in lines)
    assert "100000/100000" in lines[-1]
    assert lines[-1].rstrip().endswith("left 0:00:00")
