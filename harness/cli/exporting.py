"""The command that hands a method on: a folder that sentence-transformers loads."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import CacheDir, DataDir, Encoders, Records, say
from harness.core.errors import UsageError

SMALL = "mini-sts"  # a task that is always here, for what is fitted on no task


def export(
    method: Annotated[
        str,
        typer.Argument(help="Method id, encoder, repository or model folder.", show_default=False),
    ],
    folder: Annotated[Path, typer.Argument(help="A new folder.", show_default=False)],
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="The task that @target means.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of fit and training.")] = 0,
    data_dir: DataDir = None,
    encoder: Encoders = None,
    results: Records = Path("results"),
    cache: CacheDir = None,
) -> None:
    """Write a method as a sentence-transformers folder, with a card of its measured scores."""
    from harness.assets.places import Places
    from harness.core.progress import Bar
    from harness.evaluation.fitted import fit_cell
    from harness.evaluation.named import named_method
    from harness.evaluation.select import encoders_by_hand
    from harness.interop.exported import write_model
    from harness.interop.model_card import scores_of, write_card
    from harness.registry import known
    from harness.report.bibtex import HARNESS, bibtex
    from harness.results.index import Results
    from harness.results.planned import PlannedCell
    from harness.results.records import Store
    from harness.tasks.loader import TARGETS, TaskLoader

    registry, paths = encoders_by_hand(encoder or [])
    given = Places.from_environment(os.environ, cache=cache, data_dir=data_dir, encoders=paths)
    chosen, places = named_method(method, given, registry)
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
