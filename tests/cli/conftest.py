"""The command line in this process, as a person or a program meets it."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from fakes import PROBE, FakeConfig, corpus, numbered, registry, use_registry

from harness.cli import main

PUBLISHED = (
    Path(__file__).resolve().parents[2] / "results" / "papers" / "simcse.issue-285.toml"
)


class Answer(NamedTuple):
    """What a command said and ended with."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that it complains with; a bar may stand above it."""
        assert "Traceback" not in self.err
        [line] = [
            line for line in self.err.splitlines() if line.startswith("harness: ")
        ]
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


@pytest.fixture
def toys(monkeypatch, tmp_path, call):
    """The command line over a registry of fakes, with their data and a folder of results."""
    monkeypatch.setenv("HARNESS_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data" / PROBE).parent.mkdir(parents=True)
    (tmp_path / "data" / PROBE).touch()
    (tmp_path / "results" / "papers").mkdir(parents=True)
    shutil.copy(PUBLISHED, tmp_path / "results" / "papers")
    (tmp_path / "README.md").write_text(
        "# Toys\n\n<!-- leaderboard -->\n<!-- /leaderboard -->\n"
    )
    found = registry(FakeConfig(), corpus("stream", numbered(100, 25)))
    use_registry(monkeypatch, found)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_text("{}")
    here = ("--encoder", f"fake={tmp_path / 'weights'}")

    def answer(command, *arguments):
        by_hand = here if command in ("run", "plan", "reproduce") else ()
        return call(command, *by_hand, *arguments)

    return answer
