"""The command line. Every command answers `--help`; heavy imports wait until they are needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from harness.core.errors import HarnessError

COMMANDS = {
    "list": "reading:list_",
    "plan": "running:plan",
    "run": "running:run",
    "reproduce": "running:reproduce",
    "report": "reading:report",
    "check": "reading:check",
    "explain": "reading:explain",
    "cite": "reading:cite",
    "fetch": "fetching:fetch",
    "train": "train.app:train",
    "cache": "caching:caching",
}


class _Made(Mapping[str, Any]):
    """Commands by name, each imported and made when it is asked for: help asks for all of them."""

    def __getitem__(self, name: str) -> Any:
        module, _, part = COMMANDS[name].partition(":")
        found = getattr(import_module(f"{__name__}.{module}"), part)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
            found.command(name)(function)
        return typer.main.get_command(found)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        made: Any = _Made()  # nothing is added to it later
        self.commands = made


app = typer.Typer(
    name="harness",
    cls=_Commands,
    help="Reproducibility benchmark for sentence embeddings: published beside measured.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit status: 0 fine, 1 a cell failed or moved, 2 wrong usage, 3 an asset is missing.",
)
app.callback()(lambda: None)  # which makes it a group of commands


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; every expected error becomes one line and an exit status."""
    try:
        app(arguments, standalone_mode=True)
    except HarnessError as error:
        typer.echo(f"harness: {error}", err=True)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - the reader went away
        sys.exit(0)
    except OSError as error:
        typer.echo(f"harness: {error.filename or 'system'}: {error.strerror or error}", err=True)
        sys.exit(HarnessError.exit_status)
