"""Commands on measured scores: `show` prints them, `compare` tests one method against another."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import (
    CacheDir,
    DataDir,
    Encoders,
    Json,
    Methods,
    OnlyOwn,
    Records,
    Results,
    Tasks,
    note,
    require_folder,
    say,
    tabled,
)
from harness.core.errors import UsageError

Rows = Sequence[Mapping[str, Any]]

FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how a formula of a spreadsheet begins

DIFFERS = {True: "differs", False: "not distinguishable", None: "not tested"}

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
    if schema:
        from harness.results.score_rows import record_schema

        say(json.dumps(record_schema(), indent=1))
        return
    from harness.cli.selecting import patterns
    from harness.registry import known
    from harness.results.layout import require_own
    from harness.results.score_rows import ScoreRow, folder_rows

    printed = known("format", form, FORMATS)
    every = {field.name: field for field in fields(ScoreRow)}
    names = columns or ("all" if form in ("csv", "json", "parquet") else ",".join(SHORT))
    chosen = [*every] if names == "all" else [name.strip() for name in names.split(",")]
    for name in chosen:
        known("column", name, every)
    if form == "parquet" and sys.stdout.isatty():
        raise UsageError("--format parquet writes bytes: send them to a file, > scores.parquet")
    require_folder("--results", results)
    if only_own:
        require_own("--only-own", results)
    of = patterns(method, task, encoder)
    rows = [
        row
        for row in folder_rows(results, of.registry, every_score, only_own)
        if _selected(row.method, of.methods) and _selected(row.task, of.tasks)
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


def _selected(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatchcase(name, glob) for glob in globs)


def _table(rows: Rows) -> str:
    """Columns that fit their content; those that are empty are left out."""
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    cells = [[_shown(row[name]) for name in names] for row in rows]
    return tabled(cells, names)


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


FORMATS: Mapping[str, Callable[[Rows], str]] = {
    "table": _table,
    "csv": _csv,
    "json": _json,
    "md": _markdown,
    "parquet": str,  # which is no text: the bytes of a frame
}


def _shown(value: Any) -> str:
    """A value for people: numbers with two decimals."""
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def compare(
    first: Annotated[str, typer.Argument(help="Method id.")],
    second: Annotated[str, typer.Argument(help="Method id.")],
    task: Tasks = None,
    results: Results = Path("runs"),
    only_own: OnlyOwn = False,
    data_dir: DataDir = None,
    cache: CacheDir = None,
    as_json: Json = False,
) -> None:
    """Test two measured methods against each other: paired bootstrap over pairs, Holm over tasks.

    Seed 0 of each is compared: what the choice of test pairs explains, not that of the seed. A
    method that was not measured there is taken from the results that come with the harness, whose
    scores are compared without a test: they lack the similarities of the pairs.
    """
    from harness.assets.places import Places
    from harness.cli.selecting import patterns
    from harness.core.progress import Bar
    from harness.evaluation.compare import compare_methods
    from harness.results.layout import COMMITTED, is_packaged
    from harness.results.records import Store
    from harness.tasks.loader import TaskLoader

    require_folder("--results", results)
    of = patterns([first, second], None, None)
    [first, second], registry = of.methods, of.registry
    tasks = registry.select_tasks(task) if task else ()
    places = Places.from_environment(os.environ, cache=cache, data_dir=data_dir)
    loader = TaskLoader(places, registry.corpora)
    packaged = None if only_own or is_packaged(results) else Store(COMMITTED)
    with Bar(sys.stderr) as bar:
        found = compare_methods(
            first, second, tasks, Store(results), loader, registry, bar, packaged
        )
    if as_json:
        say(json.dumps([asdict(one) | {"differs": one.differs} for one in found], indent=1))
        return
    rows = [
        {
            "task": one.task,
            "score": one.metric,
            first: one.first,
            second: one.second,
            "difference": f"{one.difference:+.2f}",
            "95 % interval": "" if one.low is None else f"{one.low:+.2f} to {one.high:+.2f}",
            "p": "" if one.p is None else f"{one.p:.4f}",
            "p (Holm)": "" if one.p_holm is None else f"{one.p_holm:.4f}",
            "": DIFFERS[one.differs],
            "source": _sources(one.first_source, one.second_source),
        }
        for one in found
    ]
    say(_table(rows))
    untested = [one.task for one in found if one.differs is None]
    if untested:
        note(
            f"not tested on {', '.join(untested)}: the packaged results hold no similarities of "
            f"pairs; harness run -m {first} {second} -t {' '.join(untested)} -o {results} measures"
        )


def _sources(first: str, second: str) -> str:
    """Where two scores come from; empty where both are one's own."""
    return "" if first == second == "own" else f"{first}, {second}"
