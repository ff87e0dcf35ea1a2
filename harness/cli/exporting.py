"""The command that hands on a method, as a folder of sentence-transformers, or scores to mteb."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import tasks
from harness.cli.exchange import export_results
from harness.cli.options import CacheDir, DataDir, Encoders, Methods, Records, apart, say
from harness.core.errors import UsageError

SMALL = "mini-sts"  # a task that is always here, for what is fitted on no task


def export(
    method: Annotated[
        str | None,
        typer.Argument(help="Method id, encoder, repository or model folder.", show_default=False),
    ] = None,
    folder: Annotated[Path | None, typer.Argument(help="A new folder.", show_default=False)] = None,
    mteb: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write measured scores as mteb's result files instead."),
    ] = None,
    methods: Methods = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            "-t",
            callback=apart,
            autocompletion=tasks,
            help="The task that @target means; with --mteb several.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of fit and training.")] = 0,
    data_dir: DataDir = None,
    encoder: Encoders = None,
    results: Records = Path("results"),
    cache: CacheDir = None,
) -> None:
    """Write a method as a sentence-transformers folder, with a card of its measured scores.

    With --mteb, write the measured scores of methods (-m) on tasks (-t) as files of mteb's results.
    """
    if mteb is not None:
        if method is not None:
            raise UsageError(f"export --mteb DIR takes methods by -m, found the argument {method}")
        export_results(mteb, methods, task, results)
        return
    if method is None or folder is None or methods or len(task or ()) > 1:
        raise UsageError(
            "wanted export METHOD DIR, with one -t TASK for a fit on @target, or export --mteb DIR"
        )
    write_folder(
        method,
        folder,
        task[0] if task else None,
        seed,
        results,
        {"cache": cache, "data_dir": data_dir},
        encoder,
    )


def write_folder(
    method: str,
    folder: Path,
    task: str | None,
    seed: int,
    results: Path,
    where: Mapping[str, Path | None],
    encoder: list[str] | None,
) -> None:
    """Write a method as a sentence-transformers folder."""
    from harness.assets.places import Places
    from harness.core.progress import Bar
    from harness.evaluation.evaluate import fit_cell
    from harness.interop.exported import write_model
    from harness.interop.model_card import scores_of, write_card
    from harness.registry import known
    from harness.report.bibtex import HARNESS, bibtex
    from harness.resolve import Resolver
    from harness.results.index import Results
    from harness.results.records import PlannedCell, Store
    from harness.tasks.loader import TARGETS, TaskLoader

    resolver = Resolver.of(Places.from_environment(os.environ, **where, encoders={}), encoder or [])
    chosen, registry, places = resolver.method(method), resolver.registry, resolver.places
    if (chosen.fit_on in TARGETS) != (task is not None):
        raise UsageError(
            f"{method}: wanted -t TASK where a method is fitted on @target, and only there; "
            f"found {'-t ' + task if task else 'none'}"
        )
    planned = PlannedCell(chosen, known("task", task or SMALL, registry.tasks_by_name), seed)
    with Bar(sys.stderr) as bar:
        loader = TaskLoader(places, registry.corpora)
        cell = fit_cell(planned, loader, bar, time.perf_counter)
    config = planned.encoder
    write_model(chosen, cell, config, places.encoder(config), places.cache, folder)
    scores = scores_of(planned, cell, registry.tasks, Results.read(Store(results)))
    keys = (key for key in (config.cite, chosen.cite, HARNESS) if key)
    write_card(folder, planned, cell, scores, bibtex(keys))
    say(f"{folder}: {chosen.id}, seed {seed}, with {len(scores)} measured scores")
