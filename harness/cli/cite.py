"""`harness cite`: BibTeX, and a sentence that states the protocol of a number."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.data.places import Places
from harness.report.cite import cite
from harness.resolve import resolve


def cite_command(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE[/ROW/COLUMN]]",
            help="Published number (harness list cells TABLE) or table (harness list papers).",
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="Method id.")
    ] = None,
    task: opt.Tasks = None,
    encoder: opt.Encoders = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    results: opt.Measured = None,
) -> None:
    """Print BibTeX and a sentence that states the protocol of a number.

    Without a number or a method the harness itself is cited.
    """
    known = resolve(Places(Path()), encoder, tasks=task)
    folder = opt.measured_folder(results, known.registry)
    tasks = known.registry.select_tasks(known.tasks)
    for text in cite(folder, subject=subject, method=method, tasks=tasks):
        opt.say(text)
