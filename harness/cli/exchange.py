"""Commands that bring files in or hand them on: fetch, export, reference add."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from harness.assets.catalogue import TOGETHER
from harness.assets.fetch.batch import Fetcher, Thing, fetch_all
from harness.assets.fetch.http import switched_off
from harness.assets.places import Places, asset_named, assets_of, every_asset
from harness.cli.options import (
    CacheDir,
    DataDir,
    Encoders,
    Folders,
    Json,
    Methods,
    Records,
    Results,
    command_group,
    note,
    option,
    require_folder,
    say,
    split_commas,
)
from harness.cli.read import no_such_record
from harness.cli.selection import record_patterns
from harness.core.errors import UsageError
from harness.core.files import write_atomically
from harness.core.progress import Bar
from harness.core.provenance import extra
from harness.evaluation.evaluate import fit_cell
from harness.registry import Registry, load_registry, look_up
from harness.report.bibtex import HARNESS, bibtex
from harness.report.pages import comparison_table
from harness.resolve import Resolver, config_for
from harness.results.conformance import compare_reference, read_reference
from harness.results.folder import ResultsFolder
from harness.results.index import Results as Index
from harness.results.layout import REFERENCES
from harness.results.records import PlannedCell, Store
from harness.tasks.loader import TARGETS, TaskLoader

SHOWN = 3  # tasks that an error names
SMALL = "mini-sts"  # a task that is always here, for what is fitted on no task


# fetch


def fetch_command(
    assets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Assets, encoders or OWNER/NAME[@REVISION] on the hub; by default the data sets "
            "that tasks score.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Download nothing, only check what is here.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Download assets that are not here, and check all of them."""
    registry, worst = load_registry(), 0
    wanted = fetched_things(assets or scored_assets(registry), registry)
    switch = "--offline" if offline else switched_off(os.environ)
    if data_dir is not None and not switch:
        data_dir.mkdir(parents=True, exist_ok=True)
    here = data_dir if data_dir is not None and data_dir.is_dir() else None
    places = Places.from_environment({}, cache=cache, data_dir=here)
    tasks, corpora = registry.tasks.values(), registry.corpora.values()
    for fetched in fetch_all(wanted, Fetcher(places, tasks, corpora, switch)):
        error = str(fetched.error or "")
        if as_json:
            say(json.dumps({"asset": fetched.name, "is": fetched.line, "error": error}))
        elif not error:
            say(f"{fetched.name}: {fetched.line}")
        if fetched.error is not None:
            note(f"harness: {error}")
            worst = min(filter(None, (worst, fetched.error.exit_status)))
    sys.exit(worst)


def scored_assets(registry: Registry) -> tuple[str, ...]:
    """The data sets that tasks score and that do not come along."""
    names = dict.fromkeys(task.asset for task in registry.tasks.values())
    return tuple(name for name in names if not asset_named(name).embedded)


def fetched_things(names: Iterable[str], registry: Registry) -> dict[str, tuple[Thing, ...]]:
    """What each name fetches: an asset, several in one download, an encoder, a repository.

    Raises UsageError for a name that is none of them.
    """
    assets = {asset.name: asset for asset in every_asset()}
    things: dict[str, tuple[Thing, ...]] = {name: (asset,) for name, asset in assets.items()}
    for name, parts in TOGETHER.items():
        things[name] = tuple(asset for asset in assets.values() if asset.name in parts)
    for name, config in registry.encoders.items():
        things[name] = assets_of(config) or (config,)
    wanted: dict[str, tuple[Thing, ...]] = {}
    for name in dict.fromkeys(names):
        by_hand = "/" in name and name not in things
        wanted[name] = (
            (config_for(name, name, None),) if by_hand else look_up("asset", name, things)
        )
    return wanted


# export


def export_command(
    folders: Folders,
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
        option(
            "--task",
            "-t",
            callback=split_commas,
            help="The task that @target means; with --mteb several.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of fit and training.")] = 0,
    encoder: Encoders = None,
    results: Records = Path("results"),
) -> None:
    """Write a method as a sentence-transformers folder, with a card of its measured scores.

    With --mteb, write the measured scores of methods (-m) on tasks (-t) as files of mteb's results.
    """
    if mteb is not None:
        if method is not None:
            raise UsageError(f"export --mteb DIR takes methods by -m, found the argument {method}")
        _export_scores(mteb, methods, task, results)
        return
    if method is None or folder is None or methods or len(task or ()) > 1:
        raise UsageError(
            "wanted export METHOD DIR, with one -t TASK for a fit on @target, or export --mteb DIR"
        )
    resolver = Resolver.of(folders.places(), encoder or [])
    _export_model(method, folder, task[0] if task else None, seed, results, resolver)


def _export_model(
    word: str, folder: Path, task: str | None, seed: int, results: Path, resolver: Resolver
) -> None:
    """Write a method as a sentence-transformers folder."""
    from harness.interop.exported import scores_of, write_card, write_model

    method, registry, places = resolver.method(word), resolver.registry, resolver.places
    if (method.fit_on in TARGETS) != (task is not None):
        raise UsageError(
            f"{word}: wanted -t TASK where a method is fitted on @target, and only there; "
            f"found {'-t ' + task if task else 'none'}"
        )
    planned = PlannedCell(method, look_up("task", task or SMALL, registry.tasks_by_name), seed)
    with Bar(sys.stderr) as bar:
        cell = fit_cell(planned, TaskLoader(places, registry.corpora), bar, time.perf_counter)
    config = planned.encoder
    write_model(method, cell, config, places.encoder(config), places.cache, folder)
    scores = scores_of(planned, cell, registry.tasks, Index.read(Store(results)))
    keys = (key for key in (config.cite, method.cite, HARNESS) if key)
    write_card(folder, planned, cell, scores, bibtex(keys))
    say(f"{folder}: {method.id}, seed {seed}, with {len(scores)} measured scores")


def _export_scores(
    mteb: Path, method: list[str] | None, task: list[str] | None, results: Path
) -> None:
    """Write measured scores as mteb's result files."""
    with extra("mteb"):
        from harness.interop.mteb import write_mteb_results

    require_folder("--results", results)
    patterns = record_patterns(method, task)
    patterns.registry.select_tasks(patterns.tasks or ["*"])
    records = [r for r in Store(results).records() if patterns.selects(r.method, r.task)]
    written = list(write_mteb_results(records, mteb))
    if records and not written:
        names = ", ".join(sorted({record.task for record in records})[:SHOWN])
        raise UsageError(f"{names}: mteb has no such task; name one of its own, as -t STS12")
    if not written:
        raise no_such_record(results)
    say(f"{len(written)} result files under {mteb}")


# reference


reference = command_group(
    "Scores of other programs beside ours: results/references, shown by harness report."
)


@reference.command("add")
def add_reference(
    file: Annotated[Path, typer.Argument(help="A reference in JSON (docs/how-to/reference.md).")],
    results: Results = Path("results"),
) -> None:
    """Check a reference, show it beside our records, and take it into results/references."""
    given, place = read_reference(file), results / REFERENCES / file.name
    if place.exists() and place.read_bytes() != file.read_bytes():
        raise UsageError(f"{place} holds another reference; rename {file}, or remove that one")
    folder = ResultsFolder(results)
    ours = folder.records, folder.trials, folder.registry
    say(comparison_table(compare_reference(given, *ours)))
    write_atomically(place, file.read_bytes())
    scores = sum(len(cell.scores) for cell in given.cells)
    say(f"{place}: {scores} scores; harness report shows it")
