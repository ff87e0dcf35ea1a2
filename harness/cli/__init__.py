"""The command line. Every command answers `--help`; heavy imports wait until they are needed."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version as version_of
from typing import Annotated, Any, ClassVar, NoReturn

import typer

from harness.cli import (
    cache,
    check,
    compare,
    explain,
    export,
    fetch,
    listing,
    measure,
    new,
    report,
    reproduce,
    show,
    table,
    train,
    verify,
)
from harness.cli.options import note
from harness.cli.parsing import CommandGroup, SeveralValues, flattened
from harness.cli.stopping import Stopped, end, stoppable
from harness.core.errors import HarnessError, error_line, is_interruption
from harness.core.provenance import blamed


class Commands(CommandGroup):
    """All commands. They end by `typer.Exit`: another's SystemExit is an error."""

    sections: ClassVar = {
        "Measure": ("plan", "run", "reproduce"),
        "Read": ("list", "show", "compare", "table", "explain", "cite"),
        "Check": ("check", "verify", "search", "report"),
        "Exchange": ("fetch", "export", "new"),
        "Train": ("train",),
        "Maintain": ("cache",),
    }

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises HarnessError where the code of a plug-in ends the program."""
        try:
            return super().invoke(ctx)
        except SystemExit as error:
            raise HarnessError(blamed(error) + error_line(error)) from error


app = typer.Typer(
    name="harness",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit status: 0 fine, 1 a cell failed or moved, 2 wrong usage, 3 an asset or a baseline "
    "is missing.",
)
app.command("list")(listing.list_command)
app.command("plan", cls=SeveralValues)(flattened(measure.plan_command))
app.command("run", cls=SeveralValues)(flattened(measure.run_command))
app.command("reproduce", cls=SeveralValues)(flattened(reproduce.reproduce_command))
app.command("show", cls=SeveralValues)(flattened(show.show_command))
app.command("compare", cls=SeveralValues)(flattened(compare.compare_command))
app.command("table", cls=SeveralValues)(flattened(table.table_command))
app.command("report")(report.report_command)
app.command("check", cls=SeveralValues)(flattened(check.check_command))
app.command("explain")(flattened(explain.explain_command))
app.command("verify", cls=SeveralValues)(flattened(verify.verify_command))
app.command("search")(flattened(verify.search_command))
app.command("cite")(flattened(explain.cite_command))
app.command("new")(new.new_command)
app.command("fetch")(fetch.fetch_command)
app.command("export")(flattened(export.export_command))
app.add_typer(train.trainings, name="train")
app.add_typer(cache.caching, name="cache")


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"harness {version_of('sentence-embedding-harness')}")
        raise typer.Exit
    return wanted


@app.callback()
def root(
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version."
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
    """Run a command; every error becomes one line and an exit status."""
    # Python has no stream where the caller closed it; others expect one.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    if (
        arguments is None
    ):  # the command line of this process, and not a call of a program
        gc.freeze()  # what was imported stays: no collection need look at it again
    try:
        with stoppable():
            app(arguments)
    except Stopped as stopped:
        end(stopped.exit_status)
    except HarnessError as error:
        _exit(f"harness: {error}", error.exit_status)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - the reader went away
        sys.exit(0)
    except BaseException as error:
        if is_interruption(error) or isinstance(
            error, SystemExit
        ):  # the latter is click's
            raise
        _exit(
            f"harness: {blamed(error)}{error_line(error)}",
            HarnessError.exit_status,
            error,
        )


def _exit(why: str, status: int, unexpected: BaseException | None = None) -> NoReturn:
    """Print why, where the streams can be written, and exit with this status.

    Python itself exits with 120 where it cannot flush what is left in a stream.
    """
    with suppress(OSError):
        note(why)
    if unexpected:
        logging.getLogger(__name__).debug("", exc_info=unexpected)
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except OSError:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123
    sys.exit(status)
