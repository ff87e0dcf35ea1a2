"""`harness report`: the generated pages of a results folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.conclusions.folder import Conclusions
from harness.core.errors import HarnessError
from harness.core.terminal import counted
from harness.report.build import stale_files, write_files
from harness.results.layout import OWN, reading_order, readme_of


def report_command(
    results: Annotated[
        Path, typer.Option(help="Folder with records to write into.")
    ] = OWN,
    readme: Annotated[
        Path | None,
        typer.Option(
            help="README with a generated part.  [default: README.md for results, none for others]"
        ),
    ] = None,
    papers: opt.Papers = Path("results/papers"),
    encoder: opt.Encoders = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    check: Annotated[
        bool, typer.Option(help="Only report whether anything would change.")
    ] = False,
    only_own: Annotated[
        bool,
        typer.Option(
            "--only-own", help="Leave out the results that come with the harness."
        ),
    ] = False,
) -> None:
    """Write the leaderboard, tables and web pages from records.

    Shows your own results first, then the packaged ones. The generated part of
    README.md is updated, too.
    """
    opt.require_folder("--results", results)
    if readme is None:
        readme = readme_of(results)
    order = reading_order(results, only_own=only_own)
    folder = Conclusions(
        results, opt.Sources(encoder=encoder).registry, papers, folders=order
    )
    if check:
        stale = stale_files(folder, readme)
        for path in stale:
            opt.say(f"would change: {path}")
        if stale:
            raise HarnessError(
                f"stale: {counted(len(stale), 'generated file')}: run harness report"
            )
        opt.say("all generated files are up to date")
        return
    written_files = write_files(folder, readme)
    if written_files:
        opt.say(
            f"{counted(len(written_files), 'generated file')} changed under {results}"
        )
    else:
        opt.say("nothing changed")
