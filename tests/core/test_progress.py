"""The progress bar: nothing before something runs, and every number whole."""

import pytest

from harness.core.progress import Bar


def shown(path, *steps):
    with path.open("w") as stream, Bar(stream) as bar:
        for step, *arguments in steps:
            getattr(bar, step)(*arguments)
    return [line for line in path.read_text().splitlines() if line.strip()]


@pytest.mark.parametrize("named", [(), (("note", "loss 0.0123, and further words" * 3),)])
def test_numbers_are_seen_whole_in_80_columns(monkeypatch, tmp_path, named):
    monkeypatch.setenv("COLUMNS", "80")
    begun = ("phase", "first", 3), ("phase", "simcse-unsup-bert-mini: training", 100_000)
    lines = shown(tmp_path / "bar", *begun, *named, ("step", 100_000))
    assert all(len(line) <= 80 for line in lines)
    assert "100000/100000" in lines[-1]
    assert lines[-1].rstrip().endswith("left 0:00:00")
