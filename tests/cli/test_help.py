"""The whole command line as `--help` prints it: no command or option changes unnoticed."""

import pytest
from typer.main import get_command

from harness.cli import app


def names(command, path=()):
    """The words of every command and subcommand, a group before what is in it."""
    yield path
    for name in getattr(command, "commands", {}):
        yield from names(command.get_command(None, name), (*path, name))


def test_every_command_has_the_committed_help(approved, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    pages = []
    for words in names(get_command(app)):
        with pytest.raises(SystemExit, match="0"):
            app([*words, "--help"], prog_name="harness")
        pages.append(
            f"$ {' '.join(['harness', *words, '--help'])}\n{capsys.readouterr().out}"
        )
    assert "\n".join(pages) == approved("help.txt")
