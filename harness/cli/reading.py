"""Commands that only read: list, report, view, check, explain, cite. No model, no network."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import beginning, cells, methods, published_tables
from harness.cli.options import (
    Baseline,
    DataDir,
    Encoders,
    Json,
    Methods,
    Papers,
    Records,
    Tasks,
    apart,
    note,
    readme_of,
    require_folder,
    say,
    say_folded,
)
from harness.core.errors import HarnessError, UsageError
from harness.results.layout import OWN, is_packaged

KINDS = (
    "methods",
    "encoders",
    "tasks",
    "assets",
    "posts",
    "papers",
    "cells",
    "records",
    "digests",
)


def list_(
    what: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(KINDS[:-1])} or {KINDS[-1]}.",
            autocompletion=lambda incomplete: beginning(incomplete, KINDS),
        ),
    ] = "methods",
    of: Annotated[
        str,
        typer.Argument(
            metavar="TABLE|TASK",
            help="Of cells, those of a table (harness list papers); of digests, a task's.",
            autocompletion=published_tables,
            show_default=False,
        ),
    ] = "",
    as_json: Json = False,
    data_dir: DataDir = None,
    encoder: Encoders = None,
    papers: Papers = Path("results/papers"),
    results: Records = Path("results"),
) -> None:
    """List what there is: methods, encoders, tasks, published numbers, records and others."""
    from harness.assets.places import Places
    from harness.cli.listing import listing, table
    from harness.evaluation.select import encoders_by_hand

    registry, paths = encoders_by_hand(encoder or [])
    here = Places.from_environment(os.environ, data_dir=data_dir, encoders=paths)
    rows = listing(what, here, of, papers, results, registry)
    say(json.dumps(rows, indent=1) if as_json else table(rows))


def report(
    results: Annotated[Path, typer.Option(help="Folder with records to write into.")] = Path(
        "results"
    ),
    readme: Annotated[
        Path | None,
        typer.Option(
            help="README with a generated part.  [default: README.md for results, none for others]",
            show_default=False,
        ),
    ] = None,
    papers: Papers = Path("results/papers"),
    encoder: Encoders = None,
    check: Annotated[bool, typer.Option(help="Only say whether something would change.")] = False,
    pdf: Annotated[
        Path | None,
        typer.Option(
            help="Write the pictures as PDF into this folder instead.", show_default=False
        ),
    ] = None,
) -> None:
    """Write LEADERBOARD.md, tables/ and site/ from records; of `results` also the README's part."""
    from harness.evaluation.select import encoders_by_hand
    from harness.report.build import stale_files, write_files
    from harness.results.folder import ResultsFolder

    require_folder("--results", results)
    readme = readme or readme_of(results)
    registry, _ = encoders_by_hand(encoder or [])
    folder = ResultsFolder(results, registry, papers)
    if pdf is not None:
        from harness.report.figures import write_pdfs

        if check:
            raise UsageError("--check writes nothing, and --pdf writes pictures: give one of them")
        for picture in write_pdfs(folder, pdf):
            say(str(picture))
        return
    if check:
        stale = stale_files(folder, readme)
        for path in stale:
            say(f"would change: {path}")
        if stale:
            raise HarnessError(f"{len(stale)} generated files are stale: run harness report")
        say("all generated files are up to date")
        return
    written = write_files(folder, readme)
    say(f"{len(written)} generated files changed under {results}" if written else "nothing changed")
    if results == OWN and not is_packaged(results):
        note("these pages are of your own results alone: harness show prints the packaged ones too")


def view(
    results: Annotated[Path, typer.Option(help="Folder with the page.")] = Path("results"),
) -> None:
    """Open the page of results in a browser: what was reproduced, every table, every number."""
    import webbrowser

    from harness.report.site.page import PAGE

    page = results / PAGE
    if not page.exists():
        raise HarnessError(f"{page}: there is no such page; write it: harness report")
    say(str(page))
    webbrowser.open(page.resolve().as_uri())


def check(
    runs: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUNS]",
            help="Results to check, as --output; before -m, -t, --encoder and --fail-below, which "
            "take every word that follows them.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", "--results", help="Results to check.")
    ] = Path("runs"),
    baseline: Baseline = Path("results"),
    method: Methods = None,
    task: Tasks = None,
    encoder: Encoders = None,
    fail_below: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POINTS|TASK=POINTS",
            callback=apart,
            help="Fail only where a score falls by more than so many points: of all tasks, or of "
            "one (name or glob). Several are allowed.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Compare a run with the committed records, and say what moved: input, encoder or scorer.

    By default the quick set and every cell of the run; a data folder shows the sentences of pairs.
    """
    from harness.cli.selecting import patterns
    from harness.core.terminal import width_of
    from harness.gate.check import check as compare
    from harness.gate.check import render_report, wanted
    from harness.gate.drift import Margins

    if runs is not None and output not in (Path("runs"), runs):
        raise UsageError(f"wanted one folder to check, found {runs} and --output {output}")
    measured = runs or output
    margins = Margins.parse(fail_below or ())
    of = patterns(method, task, encoder)
    chosen = wanted(measured, baseline, of.methods, of.tasks)
    found = compare(measured, baseline, chosen, data_dir, margins, of.key_now)
    status, width = {"status": found.exit_status}, width_of(sys.stdout.isatty())
    said = json.dumps(status | asdict(found)) if as_json else ""
    say(said or render_report(found, measured, baseline, width))
    sys.exit(found.exit_status)


def explain(
    cell: Annotated[
        str,
        typer.Argument(
            help="TABLE/ROW/COLUMN; TABLE or TABLE/ROW lists its cells.", autocompletion=cells
        ),
    ],
    results: Records = Path("results"),
    papers: Papers = Path("results/papers"),
    encoder: Encoders = None,
    as_json: Json = False,
) -> None:
    """Why a published number cannot be reproduced: all neighbouring protocols that were run."""
    from harness.cli import listing
    from harness.evaluation.select import encoders_by_hand
    from harness.report.sentences import render_explanation
    from harness.results.conformance import confirmed, read_references, read_trials
    from harness.results.explain import explain as look_around
    from harness.results.index import Results as Records
    from harness.results.published import load_tables
    from harness.results.records import Store

    registry, _ = encoders_by_hand(encoder or [])
    tables = load_tables(papers, registry)
    every = listing.cells(tables, "")
    if inside := [row for row in every if row["cell"].startswith(f"{cell}/")]:
        say(json.dumps(inside, indent=1) if as_json else listing.table(inside))
        return
    records, references = Records.read(Store(results)), read_references(papers.parent)
    programs = confirmed(references, records, read_trials(papers.parent), registry)
    found = look_around(cell, tables, records, registry, programs)
    if not as_json:
        from harness.core.terminal import width_of

        say(render_explanation(found, width=width_of(sys.stdout.isatty())))
        return
    rows = [asdict(neighbour) for neighbour in found.neighbours]
    state = {"cell": cell, "published": found.cell.points, "measured": found.reproduction.measured}
    state |= {"evidence": found.cell.evidence, "confirmed_by": found.confirmed_by}
    state |= {"shown_on": found.shown_on, "reference": found.reference}
    say(json.dumps(state | {"verdict": str(found.reproduction.state), "neighbours": rows}))


def cite(
    table: Annotated[
        str | None,
        typer.Option(
            help="Published table (harness list papers).", autocompletion=published_tables
        ),
    ] = None,
    cell: Annotated[
        str | None,
        typer.Option(help="Published cell: TABLE/ROW/COLUMN.", autocompletion=cells),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", "-m", help="Method id.", autocompletion=methods),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Recompute the digest of every generated page.")
    ] = False,
    digest: Annotated[
        str | None, typer.Option(help="Compare with the digest of what is cited.")
    ] = None,
    results: Records = Path("results"),
    papers: Papers = Path("results/papers"),
    encoder: Encoders = None,
) -> None:
    """Print BibTeX and the sentence to put beside a number, or verify digests."""
    from harness.evaluation.select import encoders_by_hand
    from harness.report.cite import answer
    from harness.results.folder import ResultsFolder

    subject = {"table": table, "cell": cell, "method": method}
    registry, _ = encoders_by_hand(encoder or [])
    for text in answer(subject, verify, digest, ResultsFolder(results, registry, papers)):
        (say if text.startswith("@") else say_folded)(text)  # BibTeX keeps its lines
