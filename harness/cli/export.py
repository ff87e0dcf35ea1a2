"""`harness export`: a method as a sentence-transformers folder, or its scores alone."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.core.errors import UsageError
from harness.core.files import file_name, make_folder, write_json
from harness.core.terminal import counted, progress_on
from harness.data.places import Places
from harness.data.tasks.loader import TARGETS, TaskLoader
from harness.evaluation.evaluate import SMALL_TASK
from harness.evaluation.run import fit_cell
from harness.evaluation.select import PlannedCell
from harness.registry import look_up
from harness.report.bibtex import HARNESS_KEY, bibtex
from harness.resolve import resolve
from harness.results.score_rows import folder_rows


def export_command(
    method: Annotated[
        str, typer.Argument(help="Method id, encoder, repository or model folder.")
    ],
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    folders: opt.Folders,
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", help="Task whose sentences @target fits on."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of fit and training.")] = 0,
    encoder: opt.Encoders = None,
    plugin: opt.Plugins = None,  # noqa: ARG001 - its callback loads them
    results: opt.Measured = None,
    model_index: Annotated[
        bool,
        typer.Option(
            "--model-index", help="Put the scores into the card's front matter, too."
        ),
    ] = False,
    with_eval_results: Annotated[
        bool,
        typer.Option(
            "--eval-results", help="Write the scores into .eval_results, too."
        ),
    ] = False,
    with_every_eval_ever: Annotated[
        bool,
        typer.Option(
            "--every-eval-ever",
            help="Write the scores in the schema of Every Eval Ever instead: a file a seed.",
        ),
    ] = False,
) -> None:
    """Export a method as a sentence-transformers folder.

    Its model card states the measured scores, each with its protocol. With
    --every-eval-ever the folder has the scores alone, each with its protocol, its published
    number and its verdict; no model is opened.
    """
    if with_every_eval_ever:
        _write_every_eval_ever(method, folder, task, encoder, results)
        return
    from harness.interop.exported import (
        eval_results,
        records_of,
        write_card,
        write_eval_results,
        write_model,
    )

    make_folder(folder.absolute().parent, "FOLDER", to_write=True)
    known = resolve(folders.places(), encoder, [method])
    registry, places, exported_method = known.registry, known.places, known.method
    needs_task = exported_method.fit_on in TARGETS
    if needs_task != (task is not None):
        raise UsageError(
            f"{method}: wanted -t TASK where a method is fitted on @target, and only there; "
            f"found {task or 'none'}"
        )
    # A method that is fitted on no task is the same on every task: any small one serves.
    fit_task = look_up("task", task or SMALL_TASK, registry.tasks_by_name)
    planned = PlannedCell(exported_method, fit_task, seed)
    measured = opt.measured_folder(results, registry).records
    with progress_on(sys.stderr) as bar:
        fitted = fit_cell(planned, TaskLoader(places, registry.corpora), bar)
    write_model(planned, fitted, places, folder)

    cite_keys = (planned.encoder.cite, exported_method.cite, HARNESS_KEY)
    citations = bibtex(key for key in cite_keys if key)
    tasks = registry.tasks
    records = records_of(planned, fitted, tasks, measured)
    write_card(
        folder, planned, fitted, tasks, records, citations, model_index=model_index
    )
    if with_eval_results:
        today = datetime.now(UTC).date().isoformat()
        write_eval_results(folder, eval_results(records, tasks), today)
    opt.say(
        f"{folder}: {exported_method.id}, seed {seed}, with {len(records)} measured scores"
    )


def _write_every_eval_ever(
    method: str,
    folder: Path,
    task: str | None,
    encoder: list[str] | None,
    results: Path | None,
) -> None:
    """Write the measured scores of a method in the schema of Every Eval Ever."""
    from harness.interop.every_eval_ever import every_eval_ever

    registry = resolve(Places(Path()), encoder).registry
    measured = opt.measured_folder(results, registry)
    rows = [
        row
        for row in folder_rows(measured, every_score=False)
        if row.method == method and task in (None, row.task)
    ]
    now = int(datetime.now(UTC).timestamp())
    files = every_eval_ever(rows, registry, now)
    if not files:
        raise UsageError(
            f"{method}: wanted a measured score, found none in {measured.path}; harness table "
            "lists what is there"
        )
    make_folder(folder.absolute(), "FOLDER", to_write=True)
    for (_, seed), content in files.items():
        path = folder / f"{file_name(method)}.seed-{seed}.json"
        write_json(path, content)
    scores = sum(len(content["evaluation_results"]) for content in files.values())
    opt.say(
        f"{folder}: {method}, {counted(scores, 'score')} in {counted(len(files), 'file')}"
    )
