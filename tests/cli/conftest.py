"""The command line in this process, as a person or a program meets it."""

from typing import NamedTuple

import pytest

from harness.cli import main


class Answer(NamedTuple):
    """What a command said and ended with."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that it complains with; a bar may stand above it."""
        assert "Traceback" not in self.err
        [line] = [line for line in self.err.splitlines() if line.startswith("harness: ")]
        return line


@pytest.fixture
def call(monkeypatch, capfd, tmp_path):
    """The command line in an empty folder: its status, its answer and its notes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HARNESS_DATA_DIR", raising=False)

    def answer(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return Answer(ended.value.code or 0, *capfd.readouterr())

    return answer
