"""Results of other programs: ours as mteb's files, theirs as a reference beside ours."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Results, require_folder, say
from harness.core.errors import UsageError

SHOWN = 3  # tasks that an error names


def export_results(
    mteb: Path, method: list[str] | None, task: list[str] | None, results: Path
) -> None:
    """Write measured scores as another program's result files: those of mteb."""
    from harness.cli.selecting import patterns
    from harness.core.provenance import extra
    from harness.results.records import Store

    with extra("mteb"):
        from harness.interop.mteb_results import export as write

    require_folder("--results", results)
    of = patterns(method, task, None)
    tasks = {one.name for one in of.registry.select_tasks(of.tasks)} if task else None
    records = [
        record
        for record in Store(results).records()
        if not of.methods or any(fnmatchcase(record.method, glob) for glob in of.methods)
        if tasks is None or record.task in tasks
    ]
    written = list(write(records, mteb))
    if records and not written:
        names = ", ".join(sorted({record.task for record in records})[:SHOWN])
        raise UsageError(f"{names}: mteb has no such task; name one of its own, as -t STS12")
    if not written:
        raise UsageError(
            f"{results} holds no such record: harness list records --results {results} shows all"
        )
    say(f"{len(written)} result files under {mteb}")


def import_(
    mteb: Annotated[
        Path,
        typer.Option("--mteb", help="Read result files of mteb under DIR.", show_default=False),
    ],
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL=METHOD",
            help="A model of mteb and the method here that it is, as OWNER/MODEL=bert-base.mean; "
            "without any, what harness export wrote.",
        ),
    ] = None,
    results: Results = Path("results"),
) -> None:
    """Take scores that mteb measured into results/references, beside ours."""
    require_folder("--mteb", mteb)
    from harness.core.files import write_atomically
    from harness.core.provenance import extra
    from harness.report.pages import comparison_table
    from harness.results.conformance import compare_all
    from harness.results.layout import REFERENCES

    with extra("mteb"):
        from harness.interop.mteb_results import read_results

    methods = {}
    for text in models or ():
        model, equals, name = text.partition("=")
        if not equals or not model or not name:
            raise UsageError(f"{text!r}: wanted MODEL=METHOD")
        methods[model] = name
    command = shlex.join(["harness", "import", *(models or ()), "--mteb", "DIR"])
    found = read_results(mteb, methods, command)
    for line in found.left_out:
        say(f"left out: {line}")
    say(comparison_table(compare_all([found.reference], results)[0][1]))
    place = results / REFERENCES / found.reference.file
    write_atomically(place, found.reference.encoded())
    say(f"{place}: {len(found.reference.cells)} cells; harness report shows it")
