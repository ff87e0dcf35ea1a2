"""Commands that only read: show, compare, report, check, explain, cite."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options as opt
from harness.cli.selection import record_patterns
from harness.core.errors import HarnessError, UsageError
from harness.core.progress import progress_on
from harness.core.types import AGGREGATIONS, Task
from harness.evaluation.compare import Resampler, Scored, against_best, compare_methods
from harness.gate.drift import most_moved
from harness.registry import look_up
from harness.report.build import MEASURED_PAGES, stale_files, write_files
from harness.report.cite import answer as citation
from harness.report.diagnosis import answer_lines, diagnosis_facts
from harness.report.method_table import MethodTable, columns_of_published, columns_of_tasks
from harness.report.paper_tables import paper_latex, paper_page
from harness.report.sentences import choice_facts, choice_tables, render_explanation
from harness.results.folder import ResultsFolder
from harness.results.layout import (
    OWN,
    RUNS,
    is_results,
    own_or_committed,
    reading_order,
    require_own,
)
from harness.results.records import Cell
from harness.results.score_rows import ScoreRow, folder_rows
from harness.tasks.loader import TaskLoader

# show


FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how a formula of a spreadsheet begins
# The columns that a person wants first; a program gets all.
SHORT = "method,task,seed,metric,aggregation,score,published,verdict,plugin"


def say_csv(rows: opt.Rows) -> None:
    """Print rows as CSV that a spreadsheet shows and does not compute; numbers stay."""

    def as_text(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return ("'" if value.startswith(FORMULAS) else "") + value.replace("\r", " ")

    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_text(value) for name, value in row.items()} for row in rows)
    opt.say(text.getvalue().rstrip("\n"))


OnlyOwn = Annotated[
    bool, typer.Option("--only-own", help="Leave out the results that come with the harness.")
]
FORMATS: Mapping[str, Callable[[opt.Rows], None]] = {
    "table": opt.say_rows,
    "csv": say_csv,
    "json": lambda rows: opt.say_rows(rows, as_json=True),
}


def show_command(
    method: opt.Methods = None,
    task: opt.Tasks = None,
    encoder: opt.Encoders = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    results: opt.Records = Path("results"),
    form: Annotated[str, typer.Option("--format", help=f"{', '.join(FORMATS)}.")] = "table",
    columns: Annotated[
        str | None, typer.Option(help="Names of columns, separated by commas, or all.")
    ] = None,
    only_own: OnlyOwn = False,
    every_score: Annotated[
        bool, typer.Option("--every-score", help="A row for each metric, aggregation and subset.")
    ] = False,
) -> None:
    """Print measured scores and costs, published numbers beside them.

    One row per cell and seed; a table has one more for each further metric and aggregation that a
    number is published for. Your own results, in `results` and `runs`, are followed by those that
    come with the harness.
    """
    print_rows = look_up("format", form, FORMATS)
    every = {field.name: field for field in fields(ScoreRow)}
    names = columns or ("all" if form in ("csv", "json") else SHORT)
    chosen = [*every] if names == "all" else [name.strip() for name in names.split(",")]
    for name in chosen:
        look_up("column", name, every)
    opt.require_folder("--results", results)
    order = reading_order(results, with_runs=True, only_own=only_own)
    if only_own and not any(map(is_results, order)):
        require_own("--only-own", results)
    patterns = record_patterns(method, task, encoder)
    folder = ResultsFolder(results, patterns.registry, folders=order)
    rows = [
        row
        for row in folder_rows(folder, every_score, published_too=form == "table")
        if patterns.selects(row.method, row.task)
    ]
    patterns.require_known({row.method for row in rows})
    if not rows:
        raise UsageError(
            f"{results} holds no such record: harness show --results {results} shows all"
        )
    if not columns and "source" not in chosen and len({row.source for row in rows}) > 1:
        chosen.append("source")
    print_rows([{name: getattr(row, name) for name in chosen} for row in rows])


# compare


def compare_command(
    first: Annotated[str, typer.Argument(help="Method id.")],
    second: Annotated[str, typer.Argument(help="Method id.")],
    folders: opt.Folders,
    task: opt.Tasks = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    results: opt.Run = Path("runs"),
    pairs: Annotated[
        int,
        opt.option(
            min=0, metavar="N", help="Print the N pairs of each task whose rank differs most, too."
        ),
    ] = 0,
    as_json: opt.Json = False,
) -> None:
    """Test the difference of two methods on the same pairs.

    Paired bootstrap over pairs, Holm's correction over tasks. Seed 0 of each is compared: this
    tests the choice of test pairs, not of the seed. A method that was not measured in RESULTS is
    read from the packaged results. Most of these lack the similarities of the pairs: then the
    difference stands without a test, and a note says which command makes the test possible.

    With --pairs, the pairs whose rank by similarity differs most are printed. Rank 1 is the least
    similar pair; pairs are counted from 1, in the order of the data set.
    """
    if results != RUNS:
        opt.require_folder("--results", results)
    patterns = record_patterns([first, second], None)
    patterns.require_known()
    [first, second], registry = patterns.methods, patterns.registry
    tasks = registry.select_tasks(task) if task else ()
    loader = TaskLoader(folders.places(), registry.corpora)
    order = reading_order(results, with_runs=True, with_packaged=True)
    folder = ResultsFolder(results, registry, folders=order)
    with progress_on(sys.stderr) as bar:
        tests = compare_methods(first, second, tasks, Resampler(folder, loader, bar))
    packaged = {
        test.task: [m for m in (first, second) if folder.is_packaged(m, test.task)]
        for test in tests
    }
    moved = {
        test.task: _moved_pairs((first, second), registry.tasks[test.task], folder, loader, pairs)
        for test in tests
        if pairs and test.metric in ("spearman", "pearson")
    }
    if as_json:
        opt.say_rows(
            [
                asdict(test)
                | {"differs": test.differs, "packaged": packaged[test.task]}
                | ({"pairs": moved.get(test.task, [])} if pairs else {})
                for test in tests
            ],
            as_json,
        )
        return
    results_of_tests = {None: "not tested", True: "differs", False: "not distinguishable"}
    rows = [
        {
            "task": test.task,
            "score": test.metric,
            first: test.first,
            second: test.second,
            "difference": f"{test.difference:+.2f}",
            "95 % interval": "" if test.missing else f"{test.low:+.2f} to {test.high:+.2f}",
            "p": "" if test.missing else f"{test.p:.4f}",
            "p (Holm)": "" if test.missing else f"{test.p_holm:.4f}",
            "result": results_of_tests[test.differs],
            "packaged": ", ".join(packaged[test.task]),
        }
        for test in tests
    ]
    opt.say_rows(rows)
    for task_name, moves in ((name, moves) for name, moves in moved.items() if moves):
        opt.say(f"\n{task_name}: pairs whose rank differs most")
        opt.say_rows(moves)
    lacking = " ".join({method: None for test in tests for method in test.missing})
    if lacking:
        untested = " ".join(test.task for test in tests if test.missing)
        opt.note(
            f"not tested where similarities of pairs are missing: harness run -m {lacking} "
            f"-t {untested} -o {results} makes them"
        )


def _moved_pairs(
    methods: tuple[str, str], task: Task, results: ResultsFolder, loader: TaskLoader, count: int
) -> opt.Rows:
    """The pairs whose rank differs most: gold, similarities, ranks, sentences."""
    before, after = (results.similarities(Cell(method, task.name)) for method in methods)
    if before is None or after is None:
        return []
    pairs = loader.texts(task).pairs
    return [
        {
            "pair": move.pair,
            "gold": float(pairs.gold[move.pair - 1]),
            "similarity": f"{move.committed:.4f} -> {move.measured:.4f}",
            "rank": f"{move.committed_rank:g} -> {move.measured_rank:g}",
            "first sentence": pairs.a[move.pair - 1],
            "second sentence": pairs.b[move.pair - 1],
        }
        for move in most_moved(before, after, count)
    ]


# table


def table_command(
    folders: opt.Folders,
    method: opt.Methods = None,
    task: opt.Tasks = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    results: Annotated[
        Path | None,
        opt.option(
            help="Folder of a run: records and per-pair similarities.  [default: runs; with "
            "--paper results]"
        ),
    ] = None,
    paper: Annotated[
        str | None,
        opt.option(
            help="Published table (harness list papers): its numbers, and the measured ones below "
            "them."
        ),
    ] = None,
    aggregation: Annotated[
        str | None,
        opt.option(
            help=f"Of the subsets of a task: {', '.join(AGGREGATIONS)}.  [default: those of the "
            "published tables, or all]"
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        opt.option(
            help="Published table whose rows of this protocol are added; several are allowed. "
            "Without -t, its columns are the table's."
        ),
    ] = None,
    latex: Annotated[
        bool, typer.Option("--latex/--markdown", help="The form of the table.")
    ] = False,
) -> None:
    """Print a table for a paper: methods by tasks, or a published table with the measured numbers.

    Mean and spread over seeds, the best in bold, and a caption that states protocol, seeds, fit
    corpora and digests. Methods that do not differ significantly from the best of a column are
    marked (paired bootstrap, Holm's correction).
    """
    if paper is not None:
        if method or task or beside or aggregation:
            raise UsageError(
                "--paper prints a published table as it is; leave out -m, -t, --beside and "
                "--aggregation"
            )
        opt.say(_published_table(paper, results or OWN, as_latex=latex))
        return
    results = results or RUNS
    opt.require_folder("--results", results)
    look_up("aggregation", aggregation or "all", dict.fromkeys(AGGREGATIONS))
    patterns = record_patterns(method, task)
    registry = patterns.registry
    folder = ResultsFolder(results, registry)
    patterns.require_known(folder.records.methods)
    every = (m for p in patterns.methods for m in folder.records.methods if fnmatchcase(m, p))
    tasks, published = registry.select_tasks(patterns.tasks), [*map(folder.table, beside or ())]
    columns = columns_of_published(published, registry, tasks)
    if aggregation:
        chosen = dict.fromkeys(task for scores in columns.values() for task, _ in scores)
        columns = columns_of_tasks(tasks or [*chosen], aggregation)
    measured = {task.name for scores in columns.values() for task, _ in scores}
    cells = {method for method, task in folder.records.by_cell if task in measured}
    methods = tuple({m: None for m in every if m in cells})
    if not (methods and columns):
        raise UsageError(
            f"nothing selected of {results}: give -m METHOD, and -t TASK or --beside TABLE"
        )
    scored = {name: Scored(methods, scores) for name, scores in columns.items() if scores}
    loader = TaskLoader(folders.places(), registry.corpora)
    with progress_on(sys.stderr) as bar:
        p_holm = against_best(scored, Resampler(folder, loader, bar))
    table = MethodTable(
        methods=methods,
        columns=columns,
        results=folder.records,
        registry=registry,
        p_holm=p_holm,
        published=published,
    )
    opt.say(table.latex() if latex else table.markdown())


def _published_table(name: str, results: Path, *, as_latex: bool) -> str:
    """A published table with the numbers measured in a results folder, as Markdown or LaTeX."""
    place = own_or_committed(results)
    opt.require_folder("--results", place)
    folder = ResultsFolder(place)
    published = folder.table(name)
    cells = folder.reproductions(published)
    records = folder.records_of_table(published)
    if as_latex:
        return paper_latex(published, cells, folder.registry, records)
    return paper_page(published, cells, folder.registry, records).text.rstrip()


# report


def report_command(
    results: Annotated[Path, typer.Option(help="Folder with records to write into.")] = OWN,
    readme: Annotated[
        Path | None,
        opt.option(
            help="README with a generated part.  [default: README.md for results, none for others]"
        ),
    ] = None,
    papers: opt.Papers = Path("results/papers"),
    encoder: opt.Encoders = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    check: Annotated[bool, typer.Option(help="Only report whether anything would change.")] = False,
    only_own: OnlyOwn = False,
) -> None:
    """Write the leaderboard, tables and web pages from records.

    Packaged results follow those of your own `results`, whose README has a generated part, too.
    """
    opt.require_folder("--results", results)
    readme = readme or readme_of(results)
    order = reading_order(results, only_own=only_own)
    folder = ResultsFolder(results, opt.Sources(encoder=encoder).registry, papers, folders=order)
    if check:
        stale = stale_files(folder, readme)
        for path in stale:
            opt.say(f"would change: {path}")
        if stale:
            raise HarnessError(f"{len(stale)} generated files are stale: run {_writers(stale)}")
        opt.say("all generated files are up to date")
        return
    written = write_files(folder, readme)
    opt.say(
        f"{len(written)} generated files changed under {results}" if written else "nothing changed"
    )


def _writers(stale: Sequence[Path]) -> str:
    """The commands that write these files."""
    elsewhere = [path for path in stale if path.name in MEASURED_PAGES]
    commands = ["harness report"] if len(elsewhere) < len(stale) else []
    commands += ["python tools/measured_pages.py"] if elsewhere else []
    return " and ".join(commands)


def readme_of(results: Path) -> Path | None:
    """The README that shows a results folder: the project's, of its own results and no others."""
    return Path("README.md") if results == OWN else None


# explain and cite


def explain_command(
    cell: Annotated[
        str,
        typer.Argument(
            metavar="TABLE[/ROW[/COLUMN]]",
            help="Published number (harness list cells TABLE); a table alone lists its rows.",
        ),
    ],
    sources: opt.Sources,
    mine: Annotated[
        str | None,
        opt.option(
            metavar="SCORE",
            help="Your number, or several: sts12=45.09,sts13=64.30. Says why it differs.",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="All notes, explanations and sources.")
    ] = False,
    every_choice: Annotated[
        bool,
        typer.Option("--all", help="What each choice was measured to do, post-processing too."),
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Show why a published number is not reproduced.

    With --mine an answer of ten lines: whether your number is printed elsewhere, is one of several
    seeds, or has a known cause. Without, every choice of the number's protocol (pooling, text,
    split, metric, aggregation, length, post-processing) with its measured effect on a score.
    """
    folder = sources.folder
    if mine is not None:
        _explain_difference(folder, cell, mine, verbose, every_choice, as_json)
    elif cell.count("/") < 2:
        _list_rows(folder, cell, as_json)
    else:
        _explain_protocol(folder, cell, as_json)


def _list_rows(folder: ResultsFolder, place: str, as_json: bool) -> None:
    """The rows of a published table, or one of them, with their columns."""
    table, _, chosen = place.partition("/")
    rows = [
        {"row": f"{table}/{row.id}", "is": row.name, "columns": ", ".join(row.values)}
        for row in folder.table(table).rows
        if chosen in ("", row.id)
    ]
    if not rows:
        look_up(f"row of {table}", chosen, {row.id: row for row in folder.table(table).rows})
    opt.say_rows(rows, as_json)


def _explain_difference(
    folder: ResultsFolder, place: str, mine: str, verbose: bool, every_choice: bool, as_json: bool
) -> None:
    """Why a reader's numbers differ from published ones."""
    diagnosis = folder.diagnose(place, mine)
    if as_json:
        opt.say(json.dumps(diagnosis_facts(diagnosis, folder.causes, folder.registry)))
        return
    lines = answer_lines(diagnosis, folder.causes, folder.registry, verbose=verbose)
    opt.say("\n".join(lines))
    if every_choice:
        for number in diagnosis.numbers:
            if number.cell.task and not number.cell.why_not:
                explanation = folder.explain(number.cell.id, number.points)
                tables = choice_tables(explanation, folder.traps, opt.terminal_width())
                opt.say("\n".join(["", number.cell.id, "", "\n\n".join(tables)]))


def _explain_protocol(folder: ResultsFolder, cell: str, as_json: bool) -> None:
    """What each other choice of a published number's protocol was measured to do."""
    explanation = folder.explain(cell)
    if not as_json:
        opt.say(
            render_explanation(explanation, folder.registry, folder.traps, opt.terminal_width())
        )
        return
    facts = {
        "cell": cell,
        "published": explanation.reproduction.cell.points,
        "measured": explanation.reproduction.measured,
        "evidence": explanation.reproduction.cell.evidence,
        "confirmed_by": explanation.confirmed_by and explanation.confirmed_by.program,
        "verdict": str(explanation.reproduction.state),
        "nearest": [asdict(row) | {"score": score} for row, score in explanation.nearest.items()],
        "choices": [choice_facts(choice) for choice in explanation.choices],
    }
    opt.say(json.dumps(facts))


def cite_command(
    sources: opt.Sources,
    table: Annotated[
        str | None, typer.Option(help="Published table (harness list papers).")
    ] = None,
    cell: Annotated[str | None, typer.Option(help="Published cell: TABLE/ROW/COLUMN.")] = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="Method id.")] = None,
) -> None:
    """Print BibTeX and a sentence that states the protocol of a number."""
    subject = {"table": table, "cell": cell, "method": method}
    for text in citation(subject, sources.folder):
        opt.say(text)
