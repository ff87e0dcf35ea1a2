"""Commands that only read: show, compare, report, view, check, explain, cite."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.listing import cells_rows, say_rows
from harness.cli.options import (
    Baseline,
    DataDir,
    Encoders,
    Json,
    Methods,
    OnlyOwn,
    Papers,
    Records,
    Results,
    Tasks,
    completed_cells,
    completed_methods,
    completed_tables,
    flattened,
    note,
    option,
    require_folder,
    say,
    say_folded,
    split_commas,
    tabled,
    terminal_width,
)
from harness.cli.selection import Folders, Sources, record_patterns
from harness.core.errors import HarnessError, UsageError
from harness.registry import look_up
from harness.results.layout import COMMITTED, OWN, is_packaged, require_own
from harness.results.records import Store
from harness.tasks.loader import TaskLoader

Rows = Sequence[Mapping[str, Any]]


# show


FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how a formula of a spreadsheet begins
# The columns that a person wants first; a program gets all.
SHORT = ("method", "task", "seed", "metric", "aggregation", "score", "published", "verdict")


def show(
    method: Methods = None,
    task: Tasks = None,
    encoder: Encoders = None,
    results: Records = Path("results"),
    form: Annotated[
        str, typer.Option("--format", help="table, csv, json, md or parquet (bytes, for a file).")
    ] = "table",
    columns: Annotated[
        str | None, typer.Option(help="Names of columns, separated by commas, or all.")
    ] = None,
    only_own: OnlyOwn = False,
    every_score: Annotated[
        bool, typer.Option("--every-score", help="Each aggregation, subset and metric a row.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of a record's file instead.")
    ] = False,
) -> None:
    """Print measured scores, a cell and seed a row, with what is published for them and costs.

    Results of your own, in `results`, are followed by those that come with the harness.
    """
    from harness.results.score_rows import ScoreRow, folder_rows, record_schema

    if schema:
        say(json.dumps(record_schema(), indent=1))
        return
    printed = look_up("format", form, FORMATS)
    every = {field.name: field for field in fields(ScoreRow)}
    names = columns or ("all" if form in ("csv", "json", "parquet") else ",".join(SHORT))
    chosen = [*every] if names == "all" else [name.strip() for name in names.split(",")]
    for name in chosen:
        look_up("column", name, every)
    if form == "parquet" and sys.stdout.isatty():
        raise UsageError("--format parquet writes bytes: send them to a file, > scores.parquet")
    require_folder("--results", results)
    if only_own:
        require_own("--only-own", results)
    patterns = record_patterns(method, task, encoder)
    rows = [
        row
        for row in folder_rows(results, patterns.registry, every_score, only_own)
        if patterns.selects_method(row.method) and patterns.selects_task(row.task)
    ]
    if not rows:
        raise UsageError(
            f"{results} holds no such record: harness list records --results {results} shows all"
        )
    if not columns and "source" not in chosen and len({row.source for row in rows}) > 1:
        chosen.append("source")
    if form == "parquet":
        from harness.interop.evaluate import to_frame

        sys.stdout.buffer.write(to_frame(rows, "pandas")[chosen].to_parquet(index=False))
        return
    say(printed([{name: asdict(row)[name] for name in chosen} for row in rows]))


def _table(rows: Rows) -> str:
    """Columns that fit their content; those that are empty are left out."""
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    return tabled([[_shown(row[name]) for name in names] for row in rows], names)


def _markdown(rows: Rows) -> str:
    from harness.report.markdown import escape, table

    cells = [[escape(_shown(value)) for value in row.values()] for row in rows]
    return table([*rows[0]], cells, words=len(rows[0]))


def _csv(rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _as_text(value) for name, value in row.items()} for row in rows)
    return text.getvalue().rstrip("\n")


def _as_text(value: Any) -> Any:
    """A value that a spreadsheet shows and does not compute; numbers stay.

    A formula gets an apostrophe before it, and a carriage return, which would end the row, a space.
    """
    if not isinstance(value, str):
        return value
    before = "'" if value.startswith(FORMULAS) else ""
    return before + value.replace("\r", " ")


def _json(rows: Rows) -> str:
    return json.dumps(rows, indent=1)


def _shown(value: Any) -> str:
    """A value for people: numbers with two decimals."""
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


FORMATS: Mapping[str, Callable[[Rows], str]] = {
    "table": _table,
    "csv": _csv,
    "json": _json,
    "md": _markdown,
    "parquet": str,  # which is no text: the bytes of a frame
}


# compare


DIFFERS = {True: "differs", False: "not distinguishable", None: "not tested"}


@flattened
def compare(
    first: Annotated[str, typer.Argument(help="Method id.")],
    second: Annotated[str, typer.Argument(help="Method id.")],
    folders: Folders,
    task: Tasks = None,
    results: Results = Path("runs"),
    only_own: OnlyOwn = False,
    as_json: Json = False,
) -> None:
    """Test two measured methods against each other: paired bootstrap over pairs, Holm over tasks.

    Seed 0 of each is compared: what the choice of test pairs explains, not that of the seed. A
    method that was not measured there is taken from the results that come with the harness, whose
    scores are compared without a test: they lack the similarities of the pairs.
    """
    from harness.core.progress import Bar
    from harness.evaluation.compare import compare_methods

    require_folder("--results", results)
    patterns = record_patterns([first, second], None)
    [first, second], registry = patterns.methods, patterns.registry
    tasks = registry.select_tasks(task) if task else ()
    loader = TaskLoader(folders.places(), registry.corpora)
    packaged_results = None if only_own or is_packaged(results) else Store(COMMITTED)
    with Bar(sys.stderr) as bar:
        tests = compare_methods(
            first, second, tasks, Store(results), loader, registry, bar, packaged_results
        )
    if as_json:
        say(json.dumps([asdict(test) | {"differs": test.differs} for test in tests], indent=1))
        return
    rows = [
        {
            "task": test.task,
            "score": test.metric,
            first: test.first,
            second: test.second,
            "difference": f"{test.difference:+.2f}",
            "95 % interval": "" if test.low is None else f"{test.low:+.2f} to {test.high:+.2f}",
            "p": "" if test.p is None else f"{test.p:.4f}",
            "p (Holm)": "" if test.p_holm is None else f"{test.p_holm:.4f}",
            "": DIFFERS[test.differs],
            "source": _both_sources(test.first_source, test.second_source),
        }
        for test in tests
    ]
    say(_table(rows))
    if untested := [test.task for test in tests if test.differs is None]:
        note(
            f"not tested on {', '.join(untested)}: the packaged results hold no similarities of "
            f"pairs; harness run -m {first} {second} -t {' '.join(untested)} -o {results} measures"
        )


def _both_sources(first: str, second: str) -> str:
    """Where two scores come from; empty where both are one's own."""
    return "" if first == second == "own" else f"{first}, {second}"


# report and view


def report(
    results: Annotated[Path, typer.Option(help="Folder with records to write into.")] = Path(
        "results"
    ),
    readme: Annotated[
        Path | None,
        option(
            help="README with a generated part.  [default: README.md for results, none for others]"
        ),
    ] = None,
    papers: Papers = Path("results/papers"),
    encoder: Encoders = None,
    check: Annotated[bool, typer.Option(help="Only say whether something would change.")] = False,
    pdf: Annotated[
        Path | None, option(help="Write the pictures as PDF into this folder instead.")
    ] = None,
) -> None:
    """Write LEADERBOARD.md, tables/ and site/ from records; of `results` also the README's part."""
    from harness.report.build import stale_files, write_files
    from harness.results.folder import ResultsFolder

    require_folder("--results", results)
    readme = readme or readme_of(results)
    folder = ResultsFolder(results, Sources(encoder=encoder).registry, papers)
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


def readme_of(results: Path) -> Path | None:
    """The README that shows a results folder: the project's, of its own results and no others."""
    return Path("README.md") if results == OWN else None


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


# check


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
        option(
            metavar="POINTS|TASK=POINTS",
            callback=split_commas,
            help="Fail only where a score falls by more than so many points: of all tasks, or of "
            "one (name or glob). Several are allowed.",
        ),
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Compare a run with the committed records, and say what moved: input, encoder or scorer.

    By default the quick set and every cell of the run; a data folder shows the sentences of pairs.
    """
    from harness.gate.check import Gate, render_report
    from harness.gate.drift import Margins

    if runs is not None and output not in (Path("runs"), runs):
        raise UsageError(f"wanted one folder to check, found {runs} and --output {output}")
    gate = Gate(runs or output, baseline)
    margins = Margins.parse(fail_below or ())
    patterns = record_patterns(method, task, encoder)
    cells = gate.wanted(patterns.methods, patterns.tasks)
    answer = gate.check(cells, data_dir, margins, patterns.key_now)
    if as_json:
        say(json.dumps({"status": answer.exit_status} | asdict(answer)))
    else:
        say(render_report(answer, gate, terminal_width()))
    sys.exit(answer.exit_status)


# explain and cite


@flattened
def explain(
    cell: Annotated[
        str,
        typer.Argument(
            help="TABLE/ROW/COLUMN; TABLE or TABLE/ROW lists its cells.",
            autocompletion=completed_cells,
        ),
    ],
    sources: Sources,
    as_json: Json = False,
) -> None:
    """Why a published number cannot be reproduced: all neighbouring protocols that were run."""
    from harness.report.sentences import render_explanation

    folder = sources.folder
    rows = [row for row in cells_rows(folder.tables) if row["cell"].startswith(f"{cell}/")]
    if rows:
        say_rows(rows, as_json)
        return
    explanation = folder.explain(cell)
    if not as_json:
        say(render_explanation(explanation, width=terminal_width()))
        return
    answer = {
        "cell": cell,
        "published": explanation.cell.points,
        "measured": explanation.reproduction.measured,
        "evidence": explanation.cell.evidence,
        "confirmed_by": explanation.confirmed_by,
        "shown_on": explanation.shown_on,
        "reference": explanation.reference,
        "verdict": str(explanation.reproduction.state),
        "neighbours": [asdict(neighbour) for neighbour in explanation.neighbours],
    }
    say(json.dumps(answer))


@flattened
def cite(
    sources: Sources,
    table: Annotated[
        str | None,
        typer.Option(
            help="Published table (harness list papers).", autocompletion=completed_tables
        ),
    ] = None,
    cell: Annotated[
        str | None,
        typer.Option(help="Published cell: TABLE/ROW/COLUMN.", autocompletion=completed_cells),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", "-m", help="Method id.", autocompletion=completed_methods),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Recompute the digest of every generated page.")
    ] = False,
    digest: Annotated[
        str | None, typer.Option(help="Compare with the digest of what is cited.")
    ] = None,
) -> None:
    """Print BibTeX and the sentence to put beside a number, or verify digests."""
    from harness.report.cite import answer

    subject = {"table": table, "cell": cell, "method": method}
    for text in answer(subject, verify, digest, sources.folder):
        (say if text.startswith("@") else say_folded)(text)  # BibTeX keeps its lines
