"""The command line: `main` runs a command, and makes one line of every error.

Each command has a module here. Packages that take long to import are imported inside
functions, so that `--help` and commands that read results need none of them.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, ClassVar, NoReturn

import typer

from harness.cli.check import check_command
from harness.cli.cite import cite_command
from harness.cli.explain import explain_command
from harness.cli.export import export_command
from harness.cli.fetch import fetch_command
from harness.cli.listing import list_command
from harness.cli.new import new_command
from harness.cli.options import note
from harness.cli.parsing import Command, Commands, flattened
from harness.cli.report import report_command
from harness.cli.run import reproduce_command, run_command
from harness.cli.stopping import Stopped, end, stoppable
from harness.cli.table import table_command
from harness.cli.train import trainings
from harness.cli.verify import verify_command
from harness.core.errors import HarnessError, error_line, is_interruption
from harness.core.provenance import plugin_of_error

# Python collects garbage after 700 new objects. Commands read records that stay, in tens
# of thousands of objects, and a tenth of a report's time went into looking at them.
OBJECTS_A_COLLECTION = 100_000

# The commands by the sections of `harness --help`. `train` is a group of commands.
SECTIONS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "Measure": {"run": run_command, "reproduce": reproduce_command},
    "Read": {
        "list": list_command,
        "table": table_command,
        "explain": explain_command,
        "cite": cite_command,
    },
    "Check": {
        "check": check_command,
        "verify": verify_command,
        "report": report_command,
    },
    "Exchange": {"fetch": fetch_command, "export": export_command, "new": new_command},
}


class AllCommands(Commands):
    """The commands in their sections."""

    sections: ClassVar = {**SECTIONS, "Train": ["train"]}


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
for section in SECTIONS.values():
    for name, command in section.items():
        app.command(name, cls=Command)(flattened(command))
app.add_typer(trainings, name="train")


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
    """Run a command; every error becomes lines on stderr and an exit status."""
    if arguments is None:  # it is a command line, and not a call of a program
        gc.freeze()  # no garbage collection looks at what was imported
        gc.set_threshold(OBJECTS_A_COLLECTION)
    # Python has no stream where the caller closed it, as a scheduler of jobs may do.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    try:
        with stoppable():
            app(arguments)
    except Stopped as stopped:
        end(stopped.exit_status)
    except HarnessError as error:
        for line in str(error).splitlines():
            note(f"harness: {line}")
        _exit(error.exit_status)
    except BrokenPipeError:  # the reader has gone away: Python need not flush to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    # The last resort: an error that nobody expected is one line, too.
    except BaseException as error:
        if isinstance(error, SystemExit) or is_interruption(error):
            raise
        note(f"harness: {error_line(error, plugin_of_error(error))}")
        logging.getLogger(__name__).debug("", exc_info=error)
        _exit(HarnessError.exit_status)


def _exit(status: int) -> NoReturn:
    """End with a status, also where stdout cannot be flushed: Python would end with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
