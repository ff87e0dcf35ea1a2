"""The command line: `main` runs a command, and makes one line of every error.

Each command has a module here, which is imported when the command is called. Packages
that take long to import are imported inside functions, so that `--help` and commands
that read results need none of them.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from harness.cli.options import note
from harness.cli.parsing import Command, Commands, flattened
from harness.core.errors import HarnessError, Interrupted, UsageError, error_line
from harness.core.provenance import plugin_of_error

# Python collects garbage after 700 new objects. Commands read records that stay, in
# hundreds of thousands of objects, and a tenth of a report's time went into looking at
# them.
OBJECTS_A_COLLECTION = 500_000

# The modules of the commands, by the sections of `harness --help`.
SECTIONS = {
    "Measure": {"run": "run", "reproduce": "reproduce"},
    "Read": {"list": "listing", "table": "table", "explain": "explain", "cite": "cite"},
    "Check": {"check": "check", "verify": "verify", "report": "report"},
    "Exchange": {"fetch": "fetch", "export": "export", "new": "new"},
    "Train": {"train": "train"},
}

# What takes the place of commands that are gone, and of words that other tools have.
SUCCESSORS = {
    "plan": "run --dry-run",
    "show": "table",
    "compare": "table --test METHOD METHOD",
    "search": "explain TASK --model MODEL",
    "help": "--help",
    "version": "--version",
}

STOPPED = (
    "stopped; measured cells, encodings and saved trainings are kept: the same command goes on "
    "from there"
)


class AllCommands(Commands):
    """The commands in their sections; the module of one is imported when it is asked for."""

    sections = SECTIONS

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._modules: dict[str, str] = {}
        for modules in SECTIONS.values():
            self._modules.update(modules)
        names: Any = dict.fromkeys(self._modules)
        self.commands = names  # which the error of an unknown command offers

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's
        """The command of a name; None if there is none.

        Raises UsageError for one that is gone, which names what takes its place.
        """
        if cmd_name in SUCCESSORS:
            raise UsageError(
                f"there is no {cmd_name}: use harness {SUCCESSORS[cmd_name]}"
            )
        if cmd_name not in self._modules:
            return None
        module = import_module(f"harness.cli.{self._modules[cmd_name]}")
        if cmd_name == "train":
            return typer.main.get_command(module.trainings)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        function = getattr(module, f"{cmd_name}_command")
        single.command(cmd_name, cls=Command)(flattened(function))
        return typer.main.get_command(single)


app = typer.Typer(
    name="harness",
    cls=AllCommands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit status: 0 fine, 1 a cell failed or moved, 2 wrong usage, 3 an asset or a baseline "
    "is missing.",
)


def _print_version(is_asked: bool) -> bool:
    """The callback of --version: prints the version and ends the command."""
    if is_asked:
        typer.echo(f"harness {version_of('sentence-embedding-harness')}")
        raise typer.Exit
    return is_asked


@app.callback()
def root(
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version.",
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Print the traceback of an unexpected error, too."
        ),
    ] = False,
) -> None:
    """Reproducibility benchmark for sentence embeddings: published beside measured."""
    if debug:  # tracebacks are debugging messages of the log
        logging.basicConfig(format="%(message)s")
        logging.getLogger("harness").setLevel(logging.DEBUG)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; every error becomes lines on stderr and an exit status.

    Without arguments they are those of the command line.
    """
    if arguments is None:
        # No garbage collection looks at what was imported, and that at the end at nothing.
        gc.freeze()
        atexit.register(gc.freeze)
        gc.set_threshold(OBJECTS_A_COLLECTION)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)
    # Python has no stream where the caller closed it, as a scheduler of jobs may do.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    try:
        app(arguments, prog_name="harness")
    except Interrupted as signal_:
        note(f"\nharness: {STOPPED}")
        os._exit(128 + signal_.number)  # an orderly exit of Python may take seconds
    except HarnessError as error:
        for line in str(error).splitlines():
            note(f"harness: {line}")
        sys.exit(error.exit_status)
    # The last resort: an error that nobody expected is one line, too.
    except Exception as error:
        note(f"harness: {error_line(error, plugin_of_error(error))}")
        logging.getLogger(__name__).debug("", exc_info=error)
        sys.exit(HarnessError.exit_status)


def _interrupt(number: int, _: FrameType | None) -> None:
    """The handler of the signals of Ctrl-C and of a scheduler of jobs."""
    raise Interrupted(number)
